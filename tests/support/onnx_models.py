"""Small ONNX models for the tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

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
