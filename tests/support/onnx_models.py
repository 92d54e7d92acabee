"""Small ONNX models for the tests, and runs of them without a compiler."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from autofuse.clients.onnx import models
from autofuse.clients.onnx.models.calls import Called
from autofuse.machines.twin.oracle.oracle import evaluate

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[Any], kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    *,
    constants: dict[str, Any] | None = None,
    opset: int = 18,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    results = [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs]
    graph = helper.make_graph(list(nodes), "small", list(inputs), results, held)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


node = helper.make_node


def by_numpy(built: models.ModelResult) -> models.KernelCall:
    """Kernels by the registry's references: what a run does around them needs no compiler."""

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        found = evaluate(built.kernels[name].graph, arrays, sizes)
        return Called({n: r.value for n, r in found.items()}, None, 0.0)

    return call


def run(m: Any, inputs: Mapping[str, Any] | None = None, **options: Any) -> models.ModelRun:
    built = models.build(m)
    return models.run(built, inputs, call=by_numpy(built), **options)


def states(done: models.ModelRun) -> list[str]:
    return [r["state"] for r in done.regions]


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
