"""Gaps of ``onnx.reference``, by op: nodes that it computes differently from the standard, and so must not run.

Found by comparison with onnxruntime: every node test of the standard, and some 2900 nodes with other attributes,
ranks and versions of the operator set.  The list was made for version :data:`VERSION` of the package ``onnx`` and is
used with any version.  Nodes that ``onnx.reference`` refuses with an exception need no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.frontends.onnx.inference import subgraphs

if TYPE_CHECKING:
    import onnx

__all__ = ["GAPS", "VERSION", "Gap", "known_gap"]

#: Examined version of the package ``onnx``.
VERSION = "1.23.2"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node to run, and its context.

    Attributes:
        node: the node.
        opset: version of the operator set of its domain.
        operands: known tensors by name.
        inner: True if it is in a subgraph of the node that runs.
    """

    node: onnx.NodeProto
    opset: int
    operands: Mapping[str, Any]
    inner: bool

    def attr(self, name: str, default: Any) -> Any:
        """Return the value of an attribute; texts as bytes."""
        from onnx import helper

        return next(
            (helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default
        )

    def has(self, place: int) -> bool:
        """Return True if an operand is present."""
        return len(self.node.input) > place and bool(self.node.input[place])

    def operand(self, place: int) -> Any:
        """Return an operand; None if unknown."""
        return self.operands.get(self.node.input[place]) if self.has(place) else None


@dataclass(frozen=True, slots=True)
class Gap:
    """An error of ``onnx.reference`` in some nodes of some ops.

    Attributes:
        ops: names of the ops, separated by spaces.
        wrong: the error.
        applies: returns True if a node of one of these ops is affected.
    """

    ops: str
    wrong: str
    applies: Callable[[_Node], bool]


def known_gap(node: onnx.NodeProto, opset: int, operands: Mapping[str, Any]) -> str:
    """Return the gap of ``onnx.reference`` that affects a node, or one in its subgraphs, in words; empty if none.

    Args:
        node: the node, restated as :mod:`autofuse.clients.onnx.models.reference` does.
        opset: version of the operator set of the default domain.
        operands: tensors that it reads, by name.
    """
    return _gap(_Node(node, opset, operands, inner=False))


def _gap(n: _Node) -> str:
    for gap in GAPS:
        if n.node.op_type in gap.ops.split() and gap.applies(n):
            return f"{n.node.op_type}: {gap.wrong}"
    for g in subgraphs(n.node):
        for inside in g.node:
            if found := _gap(_Node(inside, n.opset, {}, inner=True)):
                return found
    return ""


def _fractional(n: _Node) -> bool:
    """Return True unless all lengths that the scales imply are known to be integers."""
    place = 2 if n.opset > 10 else 1
    if not n.has(place):
        return False
    scales, x = n.operand(place), n.operand(0)
    if scales is None or x is None:
        return True
    axes = n.attr("axes", range(np.ndim(x)))
    if np.size(scales) != len(axes):
        return np.size(scales) > 0
    lengths = np.asarray(scales, np.float64).reshape(-1) * [np.shape(x)[a] for a in axes]
    return bool(np.any(lengths != np.floor(lengths)))


def _mode(n: _Node) -> bytes:
    return bytes(n.attr("coordinate_transformation_mode", b"half_pixel"))


def _other_activations(n: _Node) -> bool:
    usual = {"LSTM": [b"sigmoid", b"tanh", b"tanh"], "GRU": [b"sigmoid", b"tanh"]}
    given = [bytes(a).lower() for a in n.attr("activations", [])]
    own = usual.get(n.node.op_type, [b"tanh"])
    return given not in ([], own, own * 2)


#: All known gaps.
GAPS: tuple[Gap, ...] = (
    Gap("LSTM GRU RNN", "shorter rows are not cut", lambda n: n.has(4)),
    Gap("LSTM GRU RNN", "clip is left out", lambda n: n.attr("clip", None) is not None),
    Gap("LSTM GRU RNN", "only the default activations are used", _other_activations),
    Gap("LSTM", "input_forget is left out", lambda n: bool(n.attr("input_forget", 0))),
    Gap(
        "LpNormalization",
        "with p = 1, elements are added, not their magnitudes",
        lambda n: n.attr("p", 2) == 1,
    ),
    Gap(
        "MaxPool",
        "SAME_LOWER with steps leaves out elements",
        lambda n: n.attr("auto_pad", b"") == b"SAME_LOWER" and max(n.attr("strides", [1])) > 1,
    ),
    Gap(
        "MaxPool",
        "indices in column-major order are wrong",
        lambda n: bool(n.attr("storage_order", 0)) and len(n.node.output) > 1,
    ),
    Gap(
        "ReduceSumSquare",
        "sums of int32 are int64",
        lambda n: n.operand(0) is None or np.asarray(n.operand(0)).dtype == np.int32,
    ),
    Gap("RoiAlign", "before version 16, it behaves like version 16", lambda n: n.opset < 16),
    Gap(
        "Resize",
        "positions follow from a length that is not an integer",
        lambda n: (
            _mode(n) in (b"align_corners", b"pytorch_half_pixel", b"tf_crop_and_resize")
            and _fractional(n)
        ),
    ),
    Gap(
        "Resize",
        "one cubic element with pytorch_half_pixel is not the one at position 0",
        lambda n: _mode(n) == b"pytorch_half_pixel" and n.attr("mode", b"") == b"cubic",
    ),
    Gap(
        "GridSample",
        "neighbours beyond the border are not clamped to it",
        lambda n: (
            n.attr("mode", b"") in (b"cubic", b"bicubic")
            and n.attr("padding_mode", b"") == b"border"
        ),
    ),
    Gap(
        "Dropout",
        "before version 12, the mask has a different type or different elements",
        lambda n: n.opset < 12 and len(n.node.output) > 1 and bool(n.node.output[1]),
    ),
    Gap(
        "LinearClassifier TreeEnsembleClassifier",
        "the scores of two classes are ambiguous",
        lambda n: max(map(len, (n.attr(f"classlabels_{k}", []) for k in ("ints", "int64s", "strings")))) == 2,
    ),
    # reference.py corrects these, but not inside subgraphs.
    Gap(
        "Add Sub Mul Div Pow And Or Xor Equal Greater Less",
        "before version 7, a subgraph ignores the axis of the second operand",
        lambda n: n.inner and n.opset < 7 and n.attr("axis", None) is not None,
    ),
    Gap("PRelu", "before version 7, a subgraph behaves like version 7", lambda n: n.inner and n.opset < 7),
    Gap(
        "Softmax LogSoftmax Hardmax",
        "before version 13, a subgraph behaves like version 13",
        lambda n: n.inner and n.opset < 13,
    ),
    Gap(
        "BatchNormalization",
        "before version 14, a subgraph behaves as in training",
        lambda n: n.inner and 7 <= n.opset < 14,
    ),
    Gap("LRN GlobalMaxPool", "a subgraph supports only images", lambda n: n.inner),
)  # fmt: skip
