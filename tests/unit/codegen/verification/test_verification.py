"""The static verifier: proofs for kernels of every kind, and findings that say what is wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.ir.kernel_ir import CopyIn, For, InitBuffer, KernelFn, Stmt
from autofuse.codegen.lower import kernel
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.facts import facts
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification import check_kernel, verify_kernel, verify_schedule
from autofuse.implgraph.expr.expression import ONE, ZERO, Mod, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.targets import load_target

ROOT = Path(__file__).resolve().parents[4]
FILES = sorted(
    [*(ROOT / "examples").glob("*.json"), *(ROOT / "tests/snapshot/graphs").glob("*.json")]
)
CHIP = load_target("ascend910b1")


def kernels(built: api.BuildResult) -> Iterator[tuple[KernelFn, ImplGraph]]:
    tensors = parameter_names(built.graph)
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        yield run_passes(lower_kernel(impl, tensors, built.target)), impl


@pytest.fixture(scope="module")
def rows() -> tuple[FusionGraph, KernelFn, ImplGraph]:
    """A template of symbolic size with a tail."""
    built = api.build(ROOT / "tests/snapshot/graphs/symbolic_rows.json")
    fn, impl = next(iter(kernels(built)))
    return built.graph, fn, impl


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
@pytest.mark.parametrize(
    ("target", "ub_bytes"), [("ascend910b1", None), ("ascend910b1", 20_000), ("ascend310p", None)]
)
def test_everything_is_proved(path: Path, target: str, ub_bytes: int | None) -> None:
    try:
        built = api.build(path, target=target, ub_bytes=ub_bytes)
    except AutofuseError as e:
        # Little UB, or a chip that moves whole 32-byte units only, has no template for some graphs.
        codes = {d.code for d in e.diagnostics}
        if (ub_bytes or target != "ascend910b1") and codes <= {"AF3001", "AF3002", "AF3003"}:
            return
        raise
    assert verify_schedule(built.graph, built.schedule, built.target) == []


def test_bytes_that_stand_for_truths_are_columns_beside_truths() -> None:
    """A frame of true: the number 1 of 8 bits beside what was loaded as bool."""
    frame = {"low": [0, 0, 0, 0], "high": [0, 0, 2, 0], "value": 1.0}
    document = {
        "schema": "autofuse.graph/1",
        "name": "framed",
        "inputs": [{"name": "x", "dtype": "bool", "shape": [16, 39, 1, 1]}],
        "nodes": [{"name": "n", "op": "Pad", "inputs": ["x"], "outputs": ["y"], "attrs": frame}],
        "outputs": ["y"],
    }
    built = api.build(document, ub_bytes=60_000)
    stacks = [n for r in built.schedule for g in r.groups for i in g.impls for n in i.nodes]
    assert "Stack" in {n.op for n in stacks}
    assert verify_schedule(built.graph, built.schedule, built.target) == []


def edited(fn: KernelFn, change: object) -> KernelFn:
    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out = []
        for s in body:
            s = change(s)  # type: ignore[operator]
            out.append(replace(s, body=block(s.body)) if isinstance(s, For) else s)
        return tuple(out)

    return replace(fn, body=block(fn.body))


def test_a_finding_names_check_node_obligation_and_sizes(
    rows: tuple[FusionGraph, KernelFn, ImplGraph],
) -> None:
    graph, fn, impl = rows
    moved = edited(
        fn, lambda s: replace(s, gm_offset=s.gm_offset + 1) if isinstance(s, CopyIn) else s
    )
    found = verify_kernel(moved, impl, graph, CHIP)
    assert {d.code for d in found} == {"AF4001"}
    first = next(d for d in found if "check copies_move_their_region" in d.notes)
    assert first.severity == "error"
    assert first.where.node in {n.name for n in impl.nodes if n.op == "Load"}
    assert first.message.startswith("GM offset: ")
    assert any(n.startswith("fails for rows = ") for n in first.notes)
    assert any("check loads_are_inside_their_tensor" in d.notes for d in found)
    with pytest.raises(AutofuseError, match="GM offset"):
        check_kernel(moved, impl, graph, CHIP)


def test_what_is_not_proved_is_a_note(rows: tuple[FusionGraph, KernelFn, ImplGraph]) -> None:
    graph, fn, impl = rows
    # Zero for every size, but nothing that the prover knows.
    odd = Mod(sym("rows") * sym("rows") + sym("rows"), 2)
    same = edited(
        fn, lambda s: replace(s, gm_offset=s.gm_offset + odd) if isinstance(s, CopyIn) else s
    )
    found = verify_kernel(same, impl, graph, CHIP)
    assert found
    assert {d.severity for d in found} == {"note"}
    assert all(d.message.startswith("not proved: ") for d in found)
    check_kernel(same, impl, graph, CHIP)


def test_a_wrong_buffer_is_found_without_the_graph(
    rows: tuple[FusionGraph, KernelFn, ImplGraph],
) -> None:
    _, fn, impl = rows
    none = edited(fn, lambda s: replace(s, nbytes=ZERO) if isinstance(s, InitBuffer) else s)
    assert any(d.severity == "error" for d in verify_kernel(none, impl, None, CHIP))


def test_build_checks_kernels_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "examples" / "abs_test.json"
    api.build(path, verify_ir=True)
    real = kernel.lower_kernel

    def broken(*args: object) -> KernelFn:
        fn = real(*args)  # type: ignore[arg-type]
        return edited(
            fn, lambda s: replace(s, gm_offset=s.gm_offset + 1) if isinstance(s, CopyIn) else s
        )

    monkeypatch.setattr(kernel, "lower_kernel", broken)
    api.build(path, verify_ir=False)
    with pytest.raises(AutofuseError) as e:
        api.build(path, verify_ir=True)
    assert {d.code for d in e.value.diagnostics} == {"AF4001"}


def strided(shape: list[object], strides: list[object], symbols: dict[str, object]) -> str:
    return json.dumps(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "symbols": symbols,
            "inputs": [{"name": "x", "dtype": "float32", "shape": shape, "strides": strides}],
            "nodes": [{"name": "n", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }
    )


@pytest.mark.parametrize(
    ("shape", "strides", "symbols"),
    [
        ([4, 64], [1 << 31, 1], {}),
        ([4, 65], [1 << 31, 1], {}),
        ([4, 33, 65], [1 << 40, 1 << 31, 1], {}),
        (["s0", 64], ["s1", 1], {"s0": {"max": 4096}, "s1": {"min": 64, "max": 1 << 31}}),
    ],
)
def test_gaps_of_more_than_32_bits_are_not_in_a_descriptor(
    shape: list[object], strides: list[object], symbols: dict[str, object]
) -> None:
    """A descriptor's gap is an unsigned integer of 32 bits, in bytes: 4 GiB is too far."""
    built = api.build(strided(shape, strides, symbols))
    assert any(i.template == "row" for _, i in kernels(built))
    assert verify_schedule(built.graph, built.schedule, built.target) == []


@pytest.mark.parametrize(("dtype", "step"), [("float16", 9), ("float32", 3), ("int8", 5)])
def test_elements_apart_that_are_overwritten_in_place(dtype: str, step: int) -> None:
    """They are loaded with what lies between them, and stored alone."""
    shape = (const(17), const(1))
    x = Tensor("x", BY_NAME[dtype], shape, (const(step), ONE))
    y = Tensor("y", BY_NAME[dtype], shape)
    node = FusionNode("n", "Neg", ("x",), ("y",))
    outputs = (GraphOutput("o", "y", inout="x"),)
    built = api.build(FusionGraph("g", (), ("x",), (node,), outputs, {"x": x, "y": y}))
    runs = [n for _, i in kernels(built) for n in i.nodes if n.op == "Load" and n.attrs.get("run")]
    assert runs
    assert verify_schedule(built.graph, built.schedule, built.target) == []


def test_short_gaps_stay_in_the_descriptor() -> None:
    built = api.build(strided([512, 65], [1 << 20, 1], {}))
    fn = next(fn for fn, i in kernels(built) if i.template == "row")
    loop = next(s for s in fn.body if isinstance(s, For))
    assert not any(isinstance(s, For) for s in loop.body)


def test_indices_of_loops_start_at_0_and_end_within_their_axis() -> None:
    """Of templates with loops over outer axes too; a proof that took an index for at least 1 would skip the first."""
    outer = 0
    for path in FILES:
        built = api.build(path)
        for fn, impl in kernels(built):
            kernel = Kernel(fn, impl, built.graph, built.target)
            found = facts(kernel)
            indices = ["%c", "%i", *(f"%{a.name}" for a in kernel.outer)]
            assert {found[name].low for name in indices} == {0}, impl.name
            for a in kernel.outer:
                outer += 1
                assert (ONE, a.size - 1) in found[f"%{a.name}"].upper
    assert outer > 5
