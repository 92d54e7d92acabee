"""A function or a module of PyTorch as one graph: what it computes, its names, and what is no graph."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest
import torch

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.clients.kernelgen.defining.definition import Definition, canonical
from autofuse.clients.kernelgen.defining.sources import describe
from autofuse.clients.torch.capture import capture
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.oracle import evaluate

FILE = """
import torch
import torch.nn.functional as F
from beside import FACTOR

def masked(x, mask):
    return torch.softmax(x.float(), -1).to(x.dtype) * mask

def scaled(x, alpha=2.0):
    return x * alpha * FACTOR

def two(x):
    return x.sum(-1), x.relu()

def product(x, y):
    return torch.relu(x @ y)

def in_place(x):
    x.add_(1)
    return x * 2

def wrong(x):
    raise ValueError("no | way\\n# at all")

def branches(x):
    return x if x.sum() > 0 else -x

class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
    def forward(self, x, residual):
        return self.norm(x + residual)

class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
    def forward(self, x):
        return torch.cumsum(x, dim=self.dim)

class Other:
    pass

norm = Norm()
number = 3

def get_inputs():
    return [torch.rand(16, 100)]

def get_init_inputs():
    return [1]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("FACTOR = 0.5\n", encoding="utf-8")
    path = tmp_path / "ops.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def refused(file: Path, name: str, *inputs: str) -> Diagnostic:
    with pytest.raises(AutofuseError) as caught:
        capture(file, name, inputs)
    (d,) = caught.value.diagnostics
    return d


def compared(
    graph: FusionGraph, function: Any, sizes: Sequence[dict[str, int]], **weights: Any
) -> None:
    """The graph by NumPy against PyTorch, on fresh random inputs."""
    seed = draws.seed()
    rng = np.random.default_rng(seed)
    graph = canonical(graph)
    for given in sizes:
        named = {s.name: given[s.label] for s in graph.symbols}
        data, args = {}, []
        for name in graph.inputs:
            t = graph.tensors[name]
            shape = [e.evaluate(named) for e in t.shape]
            made = weights.get(name, rng.standard_normal(shape).astype(t.dtype.name))
            data[name] = made
            if name not in weights:
                args.append(torch.from_numpy(made.copy()))
        with torch.no_grad():
            want = function(*args)
        want = want if isinstance(want, tuple) else (want,)
        found = evaluate(graph, data, named)
        assert len(found) == len(want)
        for reference, w in zip(found.values(), want, strict=True):
            assert reference.value.shape == tuple(w.shape)
            half = w.dtype == torch.float16
            np.testing.assert_allclose(
                reference.value.astype(np.float64),
                w.double().numpy(),
                rtol=4e-3 if half else 1e-5,
                atol=4e-3 if half else 1e-5,
                err_msg=f"seed {seed}, {given}",
            )


def test_a_function_with_open_sizes(file: Path) -> None:
    graph = capture(file, "masked", ["x=float16[b,96]", "mask=half[b,96]"]).graph
    assert (graph.name, graph.inputs) == ("masked", ("x", "mask"))
    assert [s.label for s in graph.symbols] == ["b"]
    assert [o.name for o in graph.outputs] == ["out"]
    compared(graph, lambda x, m: torch.softmax(x.float(), -1).half() * m, [{"b": 2}, {"b": 37}])


def test_numbers_and_defaults(file: Path) -> None:
    by_default = capture(file, "scaled", ["x=float32[n]"]).graph
    compared(by_default, lambda x: x, [{"n": 5}])
    given = capture(file, "scaled", ["x=float32[n]", "alpha=3"]).graph
    compared(given, lambda x: x * 1.5, [{"n": 5}])


def test_several_results(file: Path) -> None:
    graph = capture(file, "two", ["x=float32[b,n]"]).graph
    assert [o.name for o in graph.outputs] == ["out_0", "out_1"]
    compared(graph, lambda x: (x.sum(-1), x.relu()), [{"b": 3, "n": 7}])


@pytest.mark.parametrize("name", ["norm", "Norm"])
def test_a_module_and_its_class_have_their_weights_as_inputs(file: Path, name: str) -> None:
    graph = capture(file, name, ["x=float32[b,s,24]", "residual=float32[b,s,24]"]).graph
    assert graph.inputs == ("x", "residual", "norm_weight", "norm_bias")
    rng = draws.rng()
    weight, bias = rng.standard_normal((2, 24)).astype(np.float32)

    def eager(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(
            x + r, (24,), torch.from_numpy(weight), torch.from_numpy(bias)
        )

    compared(graph, eager, [{"b": 2, "s": 3}], norm_weight=weight, norm_bias=bias)


def test_the_functions_of_a_task_file_are_used(file: Path) -> None:
    """A class with get_init_inputs and get_inputs, as sets of tasks have it."""
    graph = capture(file, "Model", []).graph
    assert [str(e) for e in graph.tensors[graph.inputs[0]].shape] == ["16", "100"]
    compared(graph, lambda x: x.cumsum(1), [{}])


def test_it_becomes_a_definition(file: Path) -> None:
    d = describe(
        f"{file}:masked", target="nvidia-h100", inputs=["x=float16[b,96]", "mask=float16[b,96]"]
    )
    assert (
        d.requirement
        == "masked of the file ops.py, --input x=float16[b,96], --input mask=float16[b,96]"
    )
    assert (d.name, d.kind) == ("masked", "Normalization")
    assert Definition.from_json(d.to_json()) == d


@pytest.mark.parametrize(
    ("name", "inputs", "says", "hint"),
    [
        ("maskd", [], "no function or module 'maskd'", "did you mean 'masked'?"),
        ("number", [], "no function or module 'number'", ""),
        ("Other", ["x=float32[3]"], "not a subclass of torch.nn.Module", ""),
        ("masked", ["x=float32[3]"], "no example input for 'mask'", "--input"),
        ("masked", ["x=float32[3]", "y=float32[3]"], "no parameter 'y'", "x, mask"),
        ("in_place", ["x=float32[3]"], "changes its inputs", "return the new values"),
        ("wrong", ["x=float32[3]"], "ValueError: no | way # at all", ""),
        ("branches", ["x=float32[3]"], "cannot export 'branches'", ""),
        ("masked", ["x=float32[b,3]", "mask=float32[5,3]"], "cannot export", "every value"),
    ],
)
def test_what_is_no_graph(file: Path, name: str, inputs: list[str], says: str, hint: str) -> None:
    d = refused(file, name, *inputs)
    assert d.code == "AF1402"
    assert says in d.message
    assert "\n" not in d.message
    assert hint in d.hint
    assert d.where.path == str(file)


def test_an_example_that_no_code_can_write(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\n"
        "def f(x, how=3):\n    return x + 1\n"
        "def get_inputs():\n    return [torch.ones(4), {1, 2}]\n",
        encoding="utf-8",
    )
    d = refused(path, "f")
    assert d.code == "AF1402"
    assert d.message.endswith("the example of 'how' cannot be written in generated code: set")


def test_ops_that_no_kernel_has_are_listed(file: Path) -> None:
    d = refused(file, "product", "x=float32[n,8]", "y=float32[8,8]")
    assert d.code == "AF1402"
    assert [n.partition(":")[0] for n in d.notes] == ["aten.mm.default"]


@pytest.mark.parametrize(
    "text", ["x", "x=", "x=float32", "x=float32[-1]", "x=float32[b", "=3", "x=[3]"]
)
def test_example_inputs_that_are_not_understood(file: Path, text: str) -> None:
    d = refused(file, "two", text)
    assert d.code == "AF1005"
    assert "DTYPE[SIZES]" in d.hint
    assert "float99" in refused(file, "two", "x=float99[3]").message


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.py", "f").code == "AF1001"
    path = tmp_path / "broken.py"
    path.write_text("def f(:\n", encoding="utf-8")
    d = refused(path, "f")
    assert d.code == "AF1402"
    assert "SyntaxError" in d.message


def test_the_path_of_modules_stays(file: Path) -> None:
    import sys

    before = list(sys.path)
    capture(file, "two", ["x=float32[b,n]"])
    refused(file, "wrong", "x=float32[3]")
    assert sys.path == before


def test_a_file_that_changed_at_once_is_read_anew(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size and the second of its change may be those of before; nothing is left beside it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for op in ("exp", "abs", "exp"):
        file.write_text(f"def f(x):\n    return x.{op}()\n", encoding="utf-8")
        (node,) = capture(file, "f", ["x=float32[4]"]).graph.nodes
        assert node.op.lower() == op
    assert not (file.parent / "__pycache__").exists()
