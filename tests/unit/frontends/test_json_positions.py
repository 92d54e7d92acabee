import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.json_positions import load

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda v: (
        st.lists(v, max_size=4) | st.dictionaries(st.text('ab~/"\\{[,:', max_size=4), v, max_size=4)
    ),
    max_leaves=20,
)


def pointers(value, at=""):
    yield at, value
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for k, v in items:
        yield from pointers(v, f"{at}/{str(k).replace('~', '~0').replace('/', '~1')}")


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_every_value_has_its_place(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    document = load(text)
    assert document.value == value
    lines = text.split("\n")
    for pointer, part in pointers(value):
        where = document.where(pointer)
        rest = "\n".join([lines[where.line - 1][where.column - 1 :], *lines[where.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == part


def test_keys_shifts_and_missing_pointers():
    document = load('{\n  "a": {"b": "s0 * x"}\n}', "f.json")
    assert str(document.where("/a/b")) == "f.json:2:14, at /a/b"
    assert document.where("/a/b", at_key=True).column == 9
    assert document.where("/a/b", shift=6).column == 20
    assert document.where("/a/c/d", shift=6).column == 8
    assert document.where("/a/c/d").pointer == "/a/c/d"


def test_byte_order_mark_and_bytes():
    assert load('\ufeff{"a": 1}').value == {"a": 1}
    assert load('\ufeff{"a": "\u00e4"}'.encode()).value == {"a": "\u00e4"}


def test_line_of_bad_utf8():
    with pytest.raises(AutofuseError) as caught:
        load(b'{\n"a": "\xff"}')
    where = caught.value.diagnostics[0].where
    assert (where.line, where.column) == (2, 7)


def test_limits_are_inclusive():
    document = load(json.dumps({"a": [2**64 - 1, -(2**63), 1.7e308], "b": "[" * 100}))
    assert document.value["a"][0] == 2**64 - 1
    assert load("[" * 64 + "]" * 64).value


@given(st.text(max_size=40))
def test_any_text_reads_or_is_refused(text):
    try:
        load(text)
    except AutofuseError as e:
        assert e.diagnostics  # noqa: PT017 - both ways are fine, other exceptions are not
