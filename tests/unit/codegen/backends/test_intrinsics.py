"""Spelling of vector calls: argument order, counts and reinterpreted types, one style at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.calls import Count, EnumArg, LocalArg, Number, Role, ScalarVar
from autofuse.codegen.ir.intrinsics import STYLES, CallSite
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.implgraph.ops.registry import all_ops, call_of
from autofuse.schedule import functions
from autofuse.schedule.placement.scalars import SCALAR_INPUTS
from autofuse.targets import load_target

ARCH = load_target("ascend910b1").arch
ROOT = Path(__file__).resolve().parents[4]
F32, F16, I32, MASK = (BY_NAME[n] for n in ("float32", "float16", "int32", "mask"))


def site(op, dtype, tensors, *, scalars=None, count=100, attrs=None, tmp=None):
    node = Node("y", op, (), TensorView(dtype, (), (), ()), attrs or {})
    row = call_of(op, ARCH)
    n = const(count) if isinstance(count, int) else count
    return CallSite(node, row, "y_local", tensors, scalars or {}, n, tmp, ARCH)


def spelled(s):
    return STYLES[s.row.style](s)


def test_every_call_of_the_registry_has_a_style():
    used = {r.call.style for r in all_ops() if r.call}
    assert used == {*STYLES, "device"}
    assert set(SCALAR_INPUTS) <= set(STYLES)


def test_every_function_of_the_registry_has_an_entry_per_floor():
    calls = [r.call for r in all_ops() if r.call]
    device = {c.api for c in calls if c.style == "device"}
    assert {name for name, f in FUNCTIONS.items() if f.call is not None} == device
    assert {c.api for c in calls} >= set(FUNCTIONS) == set(functions.FUNCTIONS)
    assert all((f.call, f.covers, f.fits).count(None) in (0, 3) for f in FUNCTIONS.values())
    headers = {f.header for f in FUNCTIONS.values()} - {""}
    assert all((ROOT / f"device_templates/autofuse_{name}.h").is_file() for name in headers)


def test_binary():
    c = spelled(site("Add", F32, {0: ("a", F32), 1: ("b", F32)}))
    assert c.api == "Add"
    assert c.args == (LocalArg("y_local"), LocalArg("a"), LocalArg("b"), Count(const(100)))
    assert c.writes == ("y_local",)
    assert c.reads == ("a", "b")


def test_same_tensor_twice_is_read_once():
    assert spelled(site("Mul", F32, {0: ("a", F32), 1: ("a", F32)})).reads == ("a",)


def test_scalar_operand_is_no_tensor():
    c = spelled(site("Adds", F32, {0: ("a", F32)}, scalars={1: Number(2, F32)}))
    assert c.args[2] == Number(2, F32)
    assert c.reads == ("a",)
    c = spelled(site("Muls", F32, {0: ("a", F32)}, scalars={1: ScalarVar("s")}))
    assert c.args[2] == ScalarVar("s")


def test_cast_names_the_rounding():
    c = spelled(site("Cast", F16, {0: ("a", F32)}, attrs={"round": "RINT"}))
    assert c.args[2] == EnumArg("RoundMode::CAST_RINT")


@pytest.mark.parametrize(
    ("dtype", "count", "rounded"), [(F32, 1, 64), (F32, 64, 64), (F32, 65, 128), (F16, 65, 128)]
)
def test_compare_covers_whole_256_bytes(dtype, count, rounded):
    s = site("Compare", MASK, {0: ("a", dtype), 1: ("b", dtype)}, count=count, attrs={"mode": "LT"})
    c = spelled(s)
    assert c.args[-1] == Count(const(rounded))
    assert c.args[-2] == EnumArg("CMPMODE::LT")


def test_symbolic_counts_are_rounded_at_run_time():
    s = site("CompareScalar", MASK, {0: ("a", F32)}, scalars={1: Number(0, F32)}, count=sym("n"))
    c = spelled(replace(s, node=_with_mode(s.node)))
    assert c.args[-1].value.evaluate({"n": 65}) == 128


def _with_mode(n):
    return Node(n.name, n.op, n.inputs, n.y, {"mode": "EQ"})


@pytest.mark.parametrize(("count", "words"), [(1, 16), (256, 16), (257, 32)])
def test_logic_works_on_16_bits_of_a_mask_at_a_time(count, words):
    c = spelled(site("MaskAnd", MASK, {0: ("a", MASK), 1: ("b", MASK)}, count=count))
    assert c.api == "And"
    assert c.args[-1] == Count(const(words))
    assert c.args[0].as_type.name == "uint16"


def test_select_of_two_tensors_and_of_a_tensor_and_a_scalar():
    both = {0: ("m", MASK), 1: ("a", F32), 2: ("b", F32)}
    c = spelled(site("SelectMask", F32, both))
    assert c.args[4] == EnumArg("SELMODE::VSEL_TENSOR_TENSOR_MODE")
    one = {0: ("m", MASK), 1: ("a", F32)}
    c = spelled(site("SelectMask", F32, one, scalars={2: Number(0, F32)}))
    assert c.args[3] == Number(0, F32)
    assert c.args[4] == EnumArg("SELMODE::VSEL_TENSOR_SCALAR_MODE")


def test_select_moves_integers_as_floats_of_the_same_width():
    c = spelled(site("SelectMask", I32, {0: ("m", MASK), 1: ("a", I32), 2: ("b", I32)}))
    assert [a.as_type.name for a in (c.args[0], c.args[2], c.args[3])] == ["float32"] * 3
    assert c.args[1].as_type is None


@pytest.mark.parametrize(("count", "moved"), [(1, 8), (8, 8), (9, 16)])
def test_copy_in_ub_moves_whole_blocks(count, moved):
    assert spelled(site("UbCopy", F32, {0: ("a", F32)}, count=count)).args[-1] == Count(
        const(moved)
    )


def test_scratch_space_counts_as_written():
    c = spelled(site("Tanh", F32, {0: ("a", F32)}, tmp="y_tmp"))
    assert c.writes == ("y_local", "y_tmp")
    assert LocalArg("y_tmp", None, Role.SCRATCH) in c.args
