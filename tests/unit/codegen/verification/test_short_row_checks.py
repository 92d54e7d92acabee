"""Checks of short rows that are loaded as whole blocks: any other extent than that of the node is a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autofuse import api
from autofuse.codegen.ir.kernel_ir import CopyIn, For, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.ir.frozen import replace as with_fields
from autofuse.implgraph.ir.graph import ImplGraph, Node

#: Six of ten columns: the block of a row ends with the row, so that of the last row ends with the tensor.
COLUMNS = {"starts": [0, 2], "shape": [400, 6], "steps": [1, 1]}


@pytest.fixture(scope="module")
def built() -> api.BuildResult:
    return api.build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [400, 10]}],
            "nodes": [
                {"name": "n", "op": "Slice", "inputs": ["x"], "outputs": ["a"], "attrs": COLUMNS},
                {"name": "m", "op": "ReduceSum", "inputs": ["a"], "outputs": ["y"]}
                | {"attrs": {"axes": [1]}},
            ],
            "outputs": ["y"],
        },
        verify_ir=False,
    )


def blocks(built: api.BuildResult) -> list[ImplGraph]:
    """Return the templates with a Load of whole blocks."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return [i for i in impls if any(is_completed(n) for n in i.nodes)]


def is_completed(n: Node) -> bool:
    return n.op == "Load" and n.number("beyond", 0) > 0 and not n.attrs.get("run")


def findings(built: api.BuildResult, impl: ImplGraph, change=lambda s: s) -> list[str]:
    """Return what is found in the kernel of a template, with its copies changed."""

    def changed(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        inside = (replace(s, body=changed(s.body)) if isinstance(s, For) else s for s in body)
        return tuple(change(s) if isinstance(s, CopyIn) else s for s in inside)

    fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
    mutant = replace(fn, body=changed(fn.body))
    return [str(d) for d in verify_kernel(mutant, impl, built.graph, built.target)]


def test_kernels_are_proved(built: api.BuildResult) -> None:
    assert blocks(built)
    for impl in blocks(built):
        assert findings(built, impl) == []


@pytest.mark.parametrize("field", ["count", "length", "gm_gap", "ub_gap"])
@pytest.mark.parametrize("by", [-8, -4, 4])
def test_other_blocks(built: api.BuildResult, field: str, by: int) -> None:
    def change(s: CopyIn) -> Stmt:
        return replace(
            s, block=replace(s.block, **{field: getattr(s.block, field) + by}), block_name=""
        )

    for impl in blocks(built):
        assert findings(built, impl, change)


@pytest.mark.parametrize("by", [-1, 1])
def test_where_rows_begin(built: api.BuildResult, by: int) -> None:
    for impl in blocks(built):
        assert findings(built, impl, lambda s: replace(s, gm_offset=s.gm_offset + by))


def test_a_node_that_goes_on_behind_its_tensor(built: api.BuildResult) -> None:
    """The copy is that of the node, and reads what is no element of the tensor."""
    for impl in blocks(built):
        nodes = tuple(
            with_fields(n, attrs={**n.attrs, "beyond": n.number("beyond") + 1})
            if is_completed(n)
            else n
            for n in impl.nodes
        )
        found = findings(built, with_fields(impl, nodes=nodes))
        assert any("bytes of x_gm" in line for line in found), found
