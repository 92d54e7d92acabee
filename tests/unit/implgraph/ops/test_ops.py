import subprocess
import sys
from pathlib import Path

import pytest

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops import registry
from autofuse.implgraph.ops.definition import Call, OpDef
from autofuse.implgraph.ops.registry import Registry, all_ops, find, lookup, suggest

ROWS = all_ops()
USER = all_ops(user=True)
#: Moved by loads and stores, or written out as other ops, or not compiled.
WITHOUT_CALL = ("view", "broadcast", "transpose", "slice", "concat", "pad", "iota")
WITHOUT_CALL += ("composite", "scan", "gather")
#: The pairs of types that a Cast takes are a table of their own.
NO_DTYPES = {"Cast"}


@pytest.mark.parametrize("row", USER, ids=lambda r: r.name)
def test_user_rows_can_be_checked_and_explained(row: OpDef):
    assert row.reference is not None
    assert row.doc
    assert row.call or row.expand or row.compute_type in WITHOUT_CALL


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_rows_are_consistent(row: OpDef):
    low, high = row.arity
    assert 0 <= low <= high
    assert row.ulp >= 0
    assert len(row.attr_names()) == len(row.attrs)
    for name in {*row.promote, *row.promote.values()}:
        assert name in BY_NAME
    for call in filter(None, (row.call,)):
        assert call.api
        assert call.style
        assert bool(call.dtypes) != (row.name in NO_DTYPES)
        assert {*call.dtypes, *call.as_type, *call.as_type.values()} <= set(BY_NAME)
        for source, target in call.as_type.items():
            # A bitwise call sees wider elements as several of 16 bits.
            units = call.style.startswith("bits_") and target == "uint16"
            assert source == "mask" or units or BY_NAME[source].bits == BY_NAME[target].bits


def test_names_and_aliases_are_unique():
    names = [n for r in ROWS for n in (r.name, *r.aliases)]
    assert len(names) == len(set(names))
    for r in ROWS:
        assert all(find(n) is r for n in (r.name, *r.aliases))


def test_lookup():
    assert lookup("Log").name == "Ln"
    assert find("Nothing") is None
    with pytest.raises(KeyError, match="unknown op 'Nothing'"):
        lookup("Nothing")


def test_all_ops_filters():
    assert {r.name for r in USER} | {r.name for r in all_ops(user=False)} == {r.name for r in ROWS}
    assert not any(r.user for r in all_ops(user=False))


def test_a_name_is_registered_once():
    row = OpDef("Abs", (1, 1), lambda d, a: d[0], lambda s, a: s[0], "elewise")
    with pytest.raises(ValueError, match="'Abs' is registered twice"):
        Registry.of([*ROWS, row])
    with pytest.raises(ValueError, match="'Log' is registered twice"):
        Registry.of([*ROWS, OpDef("Log", (1, 1), row.dtype_rule, row.shape_rule, "elewise")])
    assert registry.find("Abs") is not row


def test_threads_may_ask_first_at_the_same_time(tmp_path: Path):
    """Of a process that has not used the registry yet; a first use that fills it in place fails here."""
    code = (
        "import sys, threading\n"
        "from autofuse.implgraph.ops.registry import all_ops\n"
        "sys.setswitchinterval(1e-6)\n"
        "start, found = threading.Barrier(8), []\n"
        "def ask():\n"
        "    start.wait()\n"
        "    found.append([id(r) for r in all_ops()])\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "assert len(found) == 8 and all(f == found[0] for f in found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("abs", "Abs"),
        ("Sigmod", "Sigmoid"),
        ("logical_and", "LogicalAnd"),
        ("TensorAd", "TensorAdd"),
        ("qqqq", None),
        ("", None),
    ],
)
def test_suggest(name: str, want: str | None):
    assert suggest(name) == want


def test_a_call_is_in_place_unless_it_says_so():
    assert Call("Abs", "unary", frozenset({"float32"})).inplace
