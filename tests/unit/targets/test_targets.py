"""The chips: complete, sourced, and cheap to read."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from autofuse import targets
from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import (
    CostTable,
    Figure,
    TargetSpec,
    VectorCost,
    load_chip,
    load_target,
    target_names,
)


def test_names_are_those_of_the_files() -> None:
    folder = Path(targets.__file__).parent
    assert set(target_names()) == {p.stem for p in folder.glob("*.toml") if p.stem[:4] != "dav-"}
    assert {"ascend310p", "ascend910b1", "ascend910c"} <= set(target_names())


def test_kernels_are_generated_for_every_chip() -> None:
    for name in target_names():
        assert load_chip(name) is load_target(name)


@pytest.mark.parametrize(("name", "count"), [("ascend910b2", 4), ("ascend950pr", 3)])
def test_few_figures_are_fitted(name: str, count: int) -> None:
    found = [f for f in load_chip(name).figures() if f.status == "fitted"]
    assert len(found) == count
    assert all("validate_model" in f.source for f in found)


def test_nothing_is_called_fitted_where_nothing_was_measured() -> None:
    others = [name for name in target_names() if name not in ("ascend910b2", "ascend950pr")]
    assert len(others) == len(target_names()) - 2 >= 5
    for name in others:
        assert not [f for f in load_chip(name).figures() if f.status == "fitted"], name


def test_cost_tables_are_checked() -> None:
    good = {f.name.removeprefix("model."): f.value for f in load_chip("ascend910b2").figures()}
    good = {n: v for n, v in good.items() if n in CostTable.__slots__}
    assert CostTable.read(good) == load_chip("ascend910b2").model
    for bad in ({"row": -1.0}, {"read_gbs": 0.0}, {"row": float("nan")}, {"short_row": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            CostTable.read({**good, **bad})
    with pytest.raises(ValueError, match="odd"):
        CostTable.read({**good, "odd": 1.0})


@pytest.mark.parametrize("name", target_names())
def test_every_figure_has_status_and_source(name: str) -> None:
    found = load_chip(name).figures()
    assert len({f.name for f in found}) == len(found) > 40
    for f in found:
        assert f.status in ("measured", "vendor", "fitted", "modelled", "assumed"), f
        assert len(f.source) > 5, f
        assert "/" not in f.source or "http" not in f.source, f


@pytest.mark.parametrize("name", target_names())
def test_every_plain_number_is_a_figure(name: str) -> None:
    target = load_target(name)
    figures = {f.name: f.value for f in target.figures()}
    for field, value in (
        ("ub_bytes", target.ub_bytes),
        ("aiv_cores", target.aiv_cores),
        ("load_rate", target.load_rate),
        ("vector.exp.head", target.vector["exp"].head),
    ):
        assert figures[field] == value


def test_usable_ub_leaves_out_what_the_framework_takes() -> None:
    assert load_target("ascend910b1").ub_usable == 196608 - 256 - 8192 == 188160


@pytest.mark.parametrize(("name", "gbs"), [("ascend950pr", 1600), ("ascend950dt", 4000)])
def test_the_chips_of_architecture_3510(name: str, gbs: int) -> None:
    target = load_target(name)
    assert (target.npu_arch, target.arch.family) == ("dav-3510", "ascend950")
    assert (target.aiv_cores, target.clock_mhz, target.gm_bandwidth_gbs) == (64, 1650, gbs)
    assert (target.ub_bytes, target.ub_usable) == (256 * 1024, 248 * 1024)
    assert target.arch.flushes == {"Exp", "Ln", "Sqrt", "Div"}
    assert not target.arch.zero_is_nothing
    # An operand covers all groups of banks: no place keeps two of them apart.
    assert not target.arch.bank_halves


def test_chips_differ_where_they_should() -> None:
    b1, b4 = load_target("ascend910b1"), load_target("ascend910b4")
    assert (b1.aiv_cores, b4.aiv_cores) == (48, 40)
    assert b1.l2_bytes == 2 * b4.l2_bytes
    assert b1.arch is b4.arch
    assert b1.arch.name == "2201"
    assert not load_target("ascend310p").arch.has_datacopypad
    assert load_target("ascend310p").experimental


@pytest.mark.parametrize("name", target_names())
def test_cost_rows_that_ops_refer_to(name: str) -> None:
    from autofuse.implgraph.ops.registry import all_ops

    assert {d.cost for d in all_ops()} <= load_chip(name).vector.keys()


def test_vector_cost() -> None:
    assert VectorCost(24, 128, 64).cycles(4096) == 88
    assert VectorCost(24, 128, 64).cycles(4096, 16) == 56
    assert load_target("ascend910b1").vector["none"].cycles(4096) == 0


def test_unknown_target_names_the_closest() -> None:
    with pytest.raises(AutofuseError) as caught:
        load_target("Ascend910B2X")
    (found,) = caught.value.diagnostics
    assert found.code == "AF5006"
    assert "did you mean 'ascend910b2'" in found.hint
    assert "ascend310p" in found.hint


@pytest.mark.parametrize("name", ["dav-2201", "../ascend910b1", ""])
def test_what_is_no_target_is_refused(name: str) -> None:
    with pytest.raises(AutofuseError, match="AF5006"):
        load_target(name)


def test_specs_are_shared_and_frozen() -> None:
    target = load_target("ascend910b1")
    assert target is load_target("ascend910b1")
    with pytest.raises(FrozenInstanceError):
        target.aiv_cores = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        target.vector["exp"] = VectorCost(0, 0, 0)  # type: ignore[index]
    assert isinstance(target, TargetSpec)
    assert isinstance(target.figures()[0], Figure)


def test_import_is_light() -> None:
    code = (
        "import sys, autofuse.targets as t; t.load_target('ascend910b1');"
        "print(set(sys.modules) & {'sympy', 'numpy', 'pydantic', 'networkx'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
