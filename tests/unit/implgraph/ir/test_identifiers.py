import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.codegen.functions import FUNCTIONS
from autofuse.implgraph.ir.names import MAX_LENGTH, identifier, is_reserved, legal_name
from autofuse.implgraph.ops.registry import all_ops

LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*\Z")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "x"),
        ("abs_test", "abs_test"),
        ("X", "X"),
        ("input_0", "input_0"),
        ("conv1.weight", "conv1_weight"),
        ("a/b-c", "a_b_c"),
        ("_x", "x"),
        ("__init__", "init"),
        ("a__b", "a_b"),
        ("1x", "v_1x"),
        ("", "v"),
        ("___", "v"),
        ("\u878d\u5408", "v"),
        ("x\u00b2y", "x_y"),
        ("\u0661", "v"),
        ('x; system("rm")', "x_system_rm"),
        ("*/ int main() { /*", "int_main"),
        ("a\nb\r\x00c", "a_b_c"),
        ("\ud800", "v"),
        ("int", "v_int"),
        ("half", "v_half"),
        ("GM_ADDR", "v_GM_ADDR"),
        ("TPipe", "v_TPipe"),
        ("co_await", "v_co_await"),
        ("linux", "v_linux"),
        ("tiling_key", "v_tiling_key"),
        ("z0", "v_z0"),
        ("z0z1Tb_size", "v_z0z1Tb_size"),
        ("zeta", "zeta"),
        ("autofuse_x", "v_autofuse_x"),
    ],
)
def test_examples(text, expected):
    assert identifier(text) == expected


def test_long_names_keep_their_difference():
    a, b = identifier("n" * 300), identifier("n" * 301)
    assert a != b
    assert len(a) == len(b) == MAX_LENGTH


def test_taken_names_get_a_number():
    taken = {"x"}
    assert [identifier(n, taken) for n in ("x", "x", "y", "x_2", "x.")] == [
        "x_2",
        "x_3",
        "y",
        "x_2_2",
        "x_4",
    ]
    assert taken >= {"x", "x_2", "x_3", "x_4", "y"}


def test_many_names_of_one_word_take_no_time():
    taken: set[str] = set()
    names = [identifier("x" + "-" * n, taken) for n in range(20_000)]
    assert len(set(names)) == len(names)
    assert names[-1] == "x_20000"


def test_long_taken_names_stay_short():
    taken: set[str] = set()
    names = [identifier("n" * 64, taken) for _ in range(12)]
    assert len(set(names)) == 12
    assert max(map(len, names)) <= MAX_LENGTH


def test_names_of_calls_are_reserved():
    calls = [row.call.api for row in all_ops() if row.call]
    assert len(calls) >= 50
    for api in calls:
        assert api in FUNCTIONS or is_reserved(api), api


@given(st.text(st.characters(), max_size=100))
def test_always_a_legal_identifier(text):
    word = identifier(text)
    assert LEGAL.match(word)
    assert len(word) <= MAX_LENGTH
    assert not is_reserved(word)
    assert identifier(word) == word
    assert identifier(text) == word


@given(st.lists(st.text(st.sampled_from("ab_.0z"), max_size=4), max_size=30))
def test_never_twice(texts):
    taken: set[str] = set()
    words = [identifier(t, taken) for t in texts]
    assert len(set(words)) == len(words)
    assert all(LEGAL.match(w) for w in words)


def test_legal_names_of_files():
    for good in (
        "x",
        "_x",
        "a.b-c/d_1",
        "n" * 256,
        "1",
        "a b",
        "\u00e4",
        "x;0",
        "-x",
        "*/ {",
        "\u878d",
    ):
        assert legal_name(good)
    for bad in (
        "",
        " ",
        " x",
        "x\n",
        "n" * 257,
        "x\x1b[31m",
        "\u202ex",
        "\ud800",
        "a\u2028b",
        "\x7f",
    ):
        assert not legal_name(bad)
