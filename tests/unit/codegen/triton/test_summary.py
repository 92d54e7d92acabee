"""What is said of kernels is what their file launches, and the bytes are those of the tensors."""

from __future__ import annotations

import re
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import draws
import pytest

from autofuse import api
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.summary import plan_summary
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.report.explanation import sizes_of
from autofuse.targets import load_gpu

GPU = load_gpu("nvidia-h100")
GRAPHS = sorted((Path(__file__).parents[4] / "examples" / "gallery").glob("*.json"))


def one_op(op: str, shape: list[int], **attrs: Any) -> dict[str, Any]:
    """A graph of one op."""
    return {
        "schema": "autofuse.graph/1",
        "name": "one",
        "inputs": [{"name": "x", "dtype": "float32", "shape": shape}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


ROWS = one_op("Softmax", [64, 100000], axis=-1)


def planned(source: Any) -> tuple[FusionGraph, Program]:
    built = api.build(source, target=GPU)
    return built.graph, plan(built.graph, built.hint, GPU)


class Words:
    """A module whose attributes are their names."""

    def __getattr__(self, name: str) -> str:
        return name

    def empty(self, shape: Any, **options: Any) -> Any:
        return None


def launches(graph: FusionGraph, program: Program, sizes: dict[str, int]) -> list[dict[str, Any]]:
    """What the function of the file launches, without PyTorch, Triton or memory."""
    text = file_text(program)
    found: list[dict[str, Any]] = []

    def recorder(name: str) -> Any:
        def record(grid: tuple[int, ...], tensors: Any, *numbers: Any, **options: Any) -> None:
            found.append({"name": name, "grid": grid, **options})

        return record

    scope: dict[str, Any] = {
        "torch": Words(),
        "triton": SimpleNamespace(cdiv=lambda a, b: -(-a // b)),
        **{k.name: recorder(k.name) for k in program.kernels},
    }
    for part in re.split(r"\n(?=def |class |@)", text):
        if part.startswith((f"def {graph.name}(", "def row_blocks(", "def unit_of(")):
            exec(part, scope)
    tensors = []
    for name in graph.inputs:
        t = graph.tensors[name]
        shape = tuple(e.evaluate(sizes) for e in t.shape)
        tensors.append(
            SimpleNamespace(
                shape=shape,
                dtype=t.dtype.name,
                device="cuda",
                numel=partial(prod, shape),
                is_contiguous=lambda: True,
            )
        )
    scope[graph.name](*tensors)
    return found


@pytest.mark.parametrize("source", [*GRAPHS, ROWS], ids=lambda s: getattr(s, "stem", "long_rows"))
def test_kernels_are_those_that_the_file_launches(source: Any) -> None:
    graph, program = planned(source)
    rng = draws.rng()
    some = {s.name: int(rng.integers(s.min, min(s.max, 50000) + 1)) for s in graph.symbols}
    for sizes in (sizes_of(graph.symbols, {}), some):
        said = [k for k in plan_summary(program, sizes) if k["launched"]]
        made = launches(graph, program, sizes)
        # Nothing is launched for no elements.
        assert said or 0 in sizes.values()
        assert [k["name"] for k in said] == [k["name"] for k in made]
        for k, launch in zip(said, made, strict=True):
            assert k["programs"] == prod(launch["grid"]), sizes
            assert k["warps"] == launch["num_warps"]
            assert k["cluster"] == launch.get("num_ctas", 1)
            rows = launch.get("BLOCK", launch.get("ROWS", 1))
            assert k["block"] == [rows, launch.get("COLS", 1)]


def nbytes(graph: FusionGraph, name: str, sizes: dict[str, int]) -> int:
    t = graph.tensors[name]
    return prod(e.evaluate(sizes) for e in t.shape) * t.dtype.itemsize


@pytest.mark.parametrize("source", [*GRAPHS, ROWS], ids=lambda s: getattr(s, "stem", "long_rows"))
def test_bytes_are_those_of_the_tensors(source: Any) -> None:
    graph, program = planned(source)
    sizes = sizes_of(graph.symbols, {})
    kernels = [k for k in plan_summary(program, sizes) if k["launched"]]
    read = sum(k["input_bytes"] for k in kernels)
    whole = sum(nbytes(graph, name, sizes) for name in graph.inputs)
    gathers = any(n.op == "Gather" for n in graph.nodes)
    assert read <= whole if gathers else read == whole
    written = sum(nbytes(graph, o.tensor, sizes) for o in graph.outputs)
    assert sum(k["output_bytes"] for k in kernels) == written


def test_the_forms_and_clusters() -> None:
    forms = {
        source.stem: [(k["form"], k["cluster"] > 1) for k in summary(source)] for source in GRAPHS
    }
    assert forms["layer_norm"] == [("rows", False)]
    assert forms["layer_norm_backward"] == [("rows", False), ("rows", True)]
    assert forms["kv_cache_transpose"] == [("tiles", False)]
    assert forms["swiglu"] == [("items", False)]
    (long,) = summary(ROWS)
    assert (long["form"], long["passes"], long["scratch_bytes"]) == ("rows", 1, 0)
    assert long["cluster"] > 1


def summary(source: Any) -> list[dict[str, Any]]:
    graph, program = planned(source)
    return plan_summary(program, sizes_of(graph.symbols, {}))


def test_partial_results_are_scratch() -> None:
    first, second = summary(one_op("ReduceSum", [3, 1000003], axes=[1]))
    parts = first["programs"] // first["rows"]
    assert parts > 1
    assert (first["rows"], first["cols"], first["passes"]) == (3, 1000003, 1)
    assert first["scratch_bytes"] == second["scratch_bytes"] == 3 * parts * 4
    assert (first["input_bytes"], first["output_bytes"]) == (3 * 1000003 * 4, 0)
    assert (second["input_bytes"], second["output_bytes"]) == (0, 3 * 4)


def test_the_page_says_which_sizes_choose_what(repo: Path) -> None:
    page = (repo / "docs" / "triton.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) x (\d+) \| (-?\d*) ?\| (.*) \|$", page, re.M)
    assert len(rows) >= 10
    for op, lines, cols, along, said in rows:
        if op == "Transpose":
            attrs: dict[str, Any] = {"perm": [1, 0]}
        elif along:
            attrs = {"axis": int(along)} if op == "Softmax" else {"axes": [int(along)]}
        else:
            attrs = {}
        found = [
            k["form"] + (" in a cluster" if k["cluster"] > 1 else "")
            for k in summary(one_op(op, [int(lines), int(cols)], **attrs))
        ]
        assert ", ".join(found) == said, (op, lines, cols)
