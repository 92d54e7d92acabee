"""The four files as texts: their names and forms, whatever the graph is called, and the data of their tests."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest
from extras import needs

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import Definition, define
from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.files.converter_rules import recognised
from autofuse.clients.kernelgen.files.generate import four_files
from autofuse.clients.kernelgen.files.interface import findings
from autofuse.clients.kernelgen.files.naming import DOCUMENT, KERNELGEN, file_names, operator_name
from autofuse.codegen.backends.triton.tuning import graph_digest
from autofuse.implgraph.ops.registry import all_ops
from autofuse.targets import find_target

TARGET = "nvidia-h100"
LAYER_NORM = Path(__file__).resolve().parents[3] / "examples" / "gallery" / "layer_norm.json"


def definition_of(graph: api.GraphLike) -> Definition:
    return define(api.read(graph), find_target(TARGET), requirement="a test")


def graph_of(
    op: str, inputs: list[tuple[str, list[Any]]], name: str = "g", **more: Any
) -> dict[str, Any]:
    """One node; ``more``: attributes of it, and symbols as ``n=(min, max)``."""
    symbols = {k: {"min": v[0], "max": v[1]} for k, v in more.items() if isinstance(v, tuple)}
    names = [f"x{i}" for i in range(len(inputs))]
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": symbols,
        "inputs": [
            {"name": n, "dtype": d, "shape": s} for n, (d, s) in zip(names, inputs, strict=True)
        ],
        "nodes": [
            {
                "name": "node",
                "op": op,
                "inputs": names,
                "outputs": ["y"],
                "attrs": {k: v for k, v in more.items() if k not in symbols},
            }
        ],
        "outputs": ["y"],
    }


def test_names_of_files() -> None:
    assert list(four_files(definition_of(LAYER_NORM))) == [
        "layer_norm_triton.py",
        "layer_norm_baseline.py",
        "test_layer_norm_accuracy.py",
        "test_layer_norm_performance.py",
    ]
    assert list(four_files(definition_of(LAYER_NORM), names=DOCUMENT)) == [
        "layer_norm_triton.py",
        "layer_norm_baseline.py",
        "layer_norm_accuracy.py",
        "layer_norm_performance.py",
    ]
    with pytest.raises(AutofuseError, match=r"AF5007.*file names 'other'"):
        file_names("x", "other")


@pytest.mark.parametrize("names", [KERNELGEN, DOCUMENT])
def test_the_files_follow_from_the_definition(names: str) -> None:
    first = four_files(definition_of(LAYER_NORM), names=names)
    assert four_files(definition_of(LAYER_NORM), names=names) == first


def test_tuning_changes_the_kernels_alone(tmp_path: Path) -> None:
    definition = definition_of(LAYER_NORM)
    plain = four_files(definition)
    said = {
        "schema": "autofuse.tuning/1",
        "graph": "layer_norm",
        "digest": graph_digest(definition.graph),
        "target": TARGET,
        "kernels": [{"name": "layer_norm_rows", "rows": 4}],
    }
    file = tmp_path / "tuning.json"
    file.write_text(json.dumps(said))
    changed = four_files(definition, tuning=api.read_tuning(file))
    assert "ROWS=4" in changed["layer_norm_triton.py"]
    assert [n for n in plain if changed[n] != plain[n]] == ["layer_norm_triton.py"]


#: Names that the files use, that mean something in Python, or to the converter.
NAMES = ["tl", "lambda", "torch", "time", "os", "argparse", "bench", "label", "input", "shape"]
NAMES += ["inputs", "device", "dtype", "scale", "make_inputs", "x):", "@", 'a"""', "test_x"]
NAMES += ["x_benchmark", "triton", "max"]


@pytest.mark.parametrize("names", [KERNELGEN, DOCUMENT])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_graphs_inputs_and_symbols(name: str, names: str) -> None:
    symbol = name if name.isidentifier() and name != "lambda" else "n"
    graph = graph_of("Add", [("float32", [symbol, 3]), ("float32", [3])], name)
    graph["symbols"] = {symbol: {"min": 0, "max": 9}}
    graph["inputs"][0]["name"] = graph["nodes"][0]["inputs"][0] = name
    definition = definition_of(graph)
    files = four_files(definition, names=names)
    assert findings(files) == ()
    for text in files.values():
        tree = ast.parse(text)
        found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        assert all(re.fullmatch(r"[A-Za-z_]\w*", n, re.ASCII) for n in found)
    operator = operator_name(definition.graph)
    assert all(operator in file for file in files)
    if names == KERNELGEN:
        parts = {"kernel": f"{operator}_triton.py", "baseline": f"{operator}_baseline.py"}
        parts["accuracy"] = f"test_{operator}_accuracy.py"
        parts["performance"] = f"test_{operator}_performance.py"
        assert recognised(files) == parts


@pytest.mark.parametrize("name", ["test_accuracy", "assert_close", "to_reference"])
def test_names_that_the_converter_cannot_take(name: str) -> None:
    """It looks for these words anywhere; that is said, and the scripts are as good as any."""
    definition = definition_of(graph_of("Exp", [("float32", [8])], name))
    assert findings(four_files(definition))
    assert findings(four_files(definition, names=DOCUMENT)) == ()


@pytest.mark.parametrize("names", [KERNELGEN, DOCUMENT])
def test_graphs_without_inputs_or_sizes(names: str) -> None:
    iota = graph_of("Iota", [], shape=["n", 4], axis=0, dtype="float32", n=(0, 99))
    for graph in (iota, graph_of("Exp", [("float32", [])])):
        files = four_files(definition_of(graph), names=names)
        assert findings(files) == ()
    accuracy = [t for f, t in four_files(definition_of(iota), names=names).items() if "acc" in f]
    assert "n=n, device=device" in accuracy[0]


def test_sizes_that_no_single_input_shows() -> None:
    graph = graph_of("Add", [("float32", ["m", 1]), ("float32", ["n"])], m=(0, 99), n=(0, 99))
    cases = Cases(api.read(graph))
    assert cases.lead is None
    assert cases.shapes([{"m": 3, "n": 5}]) == [(3, 5)]
    assert cases.unpacked() == ["m, n = shape"]
    assert cases.inputs()[0] == "torch.randn((m, 1), dtype=dtype, device=device)"


def test_strided_inputs() -> None:
    graph = graph_of("Exp", [("float16", ["n", 4])], n=(0, 99))
    graph["inputs"][0]["strides"] = [6, 1]
    (drawn,) = Cases(api.read(graph)).inputs(scale="scale")
    assert drawn.endswith(".as_strided((n, 4), (6, 1))")
    assert "max(1, 6 * n - 2)" in drawn


# data -----------------------------------------------------------------------------------------
#: Ops with a domain, and numbers that are in it.
DOMAINS = {
    "Ln": (0.0, np.inf),
    "Sqrt": (0.0, np.inf),
    "Acosh": (1.0, np.inf),
    "Atanh": (-1.0, 1.0),
    "Erfinv": (-1.0, 1.0),
    "Ndtri": (0.0, 1.0),
    "Asin": (-1.0, 1.0),
    "Exp": (-np.inf, np.inf),
}


@pytest.mark.parametrize("op", DOMAINS)
def test_data_are_in_the_domain_of_the_op(op: str) -> None:
    cases = Cases(api.read(graph_of(op, [("float32", [1000])])))
    recipes, scales = cases.recipes
    low, high = DOMAINS[op]
    assert len(scales) > 1
    rng = draws.rng()
    for scale in scales:
        drawn = recipes["x0"].drawn(rng, (1000,), scale)
        assert drawn.min() > low
        assert drawn.max() < high


def test_floats_of_16_bits_do_not_overflow() -> None:
    _, scales = Cases(api.read(graph_of("Exp", [("float16", [4096])]))).recipes
    assert scales == (1.0, 0.05)


@needs("torch")
def test_the_text_of_a_recipe_draws_what_it_says() -> None:
    import torch

    for op in DOMAINS:
        cases = Cases(api.read(graph_of(op, [("float32", [500])])))
        (text,) = cases.inputs(scale="scale")
        space = {"torch": torch, "shape": (500,), "dtype": torch.float32, "device": "cpu"}
        drawn = eval(text, {**space, "scale": cases.recipes[1][-1]}).numpy()
        ours = cases.recipes[0]["x0"].drawn(draws.rng(), (20000,), cases.recipes[1][-1])
        # Of 500 numbers mean and deviation are known to a tenth of the deviation; twice that never fails by chance.
        assert abs(drawn.mean() - ours.mean()) < 0.2 * max(1.0, ours.std())
        assert drawn.std() == pytest.approx(ours.std(), rel=0.2)


def test_indices_are_inside() -> None:
    graph = graph_of("Gather", [("float32", ["n", 3]), ("int32", [7])], axis=0, n=(1, 99))
    assert Cases(api.read(graph)).inputs()[1] == (
        "torch.randint(0, n, (7,), device=device).to(torch.int32)"
    )


def test_a_sum_has_the_tolerance_of_its_length() -> None:
    graph = graph_of("ReduceSum", [("float32", ["n", 40])], axes=[0, 1], n=(0, 99))
    assert Cases(api.read(graph)).reduced() == "40 * n"
    assert Cases(api.read(graph_of("Exp", [("float32", [8])]))).reduced() == "1"


def test_all_ops_with_one_operand_have_files() -> None:
    """Those that Triton has kernels for; the others are refused with a code."""
    made, refused = 0, dict[str, str]()
    for row in all_ops(user=True):
        if row.arity[0] != 1 or any(a.default is None for a in row.attrs):
            continue
        try:
            files = four_files(definition_of(graph_of(row.name, [("float32", [16])])))
        except AutofuseError as e:
            refused[row.name] = e.diagnostics[0].code
            continue
        made += 1
        assert findings(files) == (), row.name
    assert made > 60
    assert set(refused.values()) <= {"AF1203", "AF3001"}, refused


@pytest.mark.corpus
def test_graphs_of_a_corpus(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    made = 0
    for k in draws.some("kernelgen files", 12, len(paths)):
        try:
            definition = definition_of(paths[k])
        except AutofuseError:
            continue
        made += 1
        assert findings(four_files(definition)) == (), paths[k].name
    assert made > 5
