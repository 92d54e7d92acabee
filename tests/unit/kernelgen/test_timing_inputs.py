"""Data for times on a card are such that every op has a meaning; a card that is not there is told."""

from pathlib import Path
from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.testing.speed import Bench
from autofuse.machines.twin.oracle.oracle import shape_of

pytestmark = pytest.mark.triton

GALLERY = sorted((Path(__file__).parents[3] / "examples" / "gallery").glob("*.json"))


def made(graph: Any, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    import torch

    from autofuse.machines.gpu.timing import timing_inputs

    return timing_inputs(graph, sizes, torch.device("cpu"), seed)


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_inputs_are_those_of_the_graph(path: Path) -> None:
    import torch

    graph = api.read(path)
    sizes = {s.name: max(s.min, 3) for s in graph.symbols}
    tensors = made(graph, sizes, 5)
    for name, tensor in zip(graph.inputs, tensors, strict=True):
        declared = graph.tensors[name]
        assert tuple(tensor.shape) == shape_of(declared.shape, sizes)
        assert str(tensor.dtype).removeprefix("torch.") == declared.dtype.name
        assert tensor.is_contiguous() is (declared.strides is None)
        if tensor.is_floating_point():
            assert bool(torch.isfinite(tensor.float()).all())
    again = made(graph, sizes, 5)
    assert all(torch.equal(a, b) for a, b in zip(tensors, again, strict=True))
    other = made(graph, sizes, 6)
    assert not all(torch.equal(a, b) for a, b in zip(tensors, other, strict=True))


def graph_of(op: str, *dtypes: str, **attrs: object) -> Any:
    names = [f"x{k}" for k in range(len(dtypes))]
    return api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "op",
            "symbols": {"n": {"min": 0}},
            "inputs": [
                {"name": x, "dtype": d, "shape": ["n"]} for x, d in zip(names, dtypes, strict=True)
            ],
            "nodes": [{"name": "y", "op": op, "inputs": names, "outputs": ["y"], "attrs": attrs}],
            "outputs": ["y"],
        }
    )


def test_data_are_inside_of_the_domains_of_ops() -> None:
    (x,) = made(graph_of("Ln", "float32"), {"n": 4096})
    assert float(x.min()) > 0
    table, index = made(graph_of("Gather", "float16", "int32", axis=0), {"n": 77})
    assert len(table) == 77
    assert 0 <= int(index.min()) <= int(index.max()) < 77


@pytest.mark.parametrize("n", [0, 1])
def test_small_sizes_are_ordinary(n: int) -> None:
    (x,) = made(graph_of("Exp", "bfloat16"), {"n": n})
    assert tuple(x.shape) == (n,)


def test_a_card_that_is_not_there_is_told() -> None:
    with pytest.raises(AutofuseError) as error:
        Bench("cuda:77")
    assert error.value.diagnostics[0].code == "AF5001"
    assert "cuda:77" in error.value.diagnostics[0].message
    with pytest.raises(AutofuseError) as error:
        Bench("tpu")
    assert error.value.diagnostics[0].code == "AF5007"
