"""Gaps of ``onnx.reference``, by op: nodes that it computes otherwise than the standard says are not run by it.

Found by running it beside onnxruntime: every node test of the standard, and some 2900 nodes with other attributes,
ranks and versions of the operator set.  The list is that of :data:`VERSION` of the package ``onnx``, and is used with
any.  What it refuses by itself, with an exception, needs no row.
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

#: Of the package ``onnx`` that was looked at.
VERSION = "1.23.2"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node, and what is known of it where it is to run.

    Attributes:
        node: the node.
        opset: version of the operator set of its domain.
        operands: tensors by name, as far as they are known.
        inner: it is in a subgraph of the node that runs.
    """

    node: onnx.NodeProto
    opset: int
    operands: Mapping[str, Any]
    inner: bool

    def attr(self, name: str, default: Any) -> Any:
        """The value of an attribute; texts as bytes."""
        from onnx import helper

        return next(
            (helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default
        )

    def has(self, place: int) -> bool:
        """True if an operand is there."""
        return len(self.node.input) > place and bool(self.node.input[place])

    def operand(self, place: int) -> Any:
        """An operand, or None where it is not known."""
        return self.operands.get(self.node.input[place]) if self.has(place) else None


@dataclass(frozen=True, slots=True)
class Gap:
    """Ops, what is wrong, and of which nodes.

    Attributes:
        ops: their names, with spaces between.
        wrong: what is wrong.
        applies: whether it is of a node of one of these ops.
    """

    ops: str
    wrong: str
    applies: Callable[[_Node], bool]


def known_gap(node: onnx.NodeProto, opset: int, operands: Mapping[str, Any]) -> str:
    """The gap of ``onnx.reference`` that a node, or one in its subgraphs, falls into, in words; empty if it is none.

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
    """The lengths that scales ask for are no whole numbers, or nobody knows."""
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


#: All that is known.
GAPS: tuple[Gap, ...] = (
    Gap("LSTM GRU RNN", "rows shorter than the others are not cut", lambda n: n.has(4)),
    Gap("LSTM GRU RNN", "clip is left out", lambda n: n.attr("clip", None) is not None),
    Gap("LSTM GRU RNN", "activations are those of the standard", _other_activations),
    Gap("LSTM", "input_forget is left out", lambda n: bool(n.attr("input_forget", 0))),
    Gap(
        "LpNormalization",
        "for p of 1 elements are added, not their magnitudes",
        lambda n: n.attr("p", 2) == 1,
    ),
    Gap(
        "MaxPool",
        "SAME_LOWER with steps leaves out elements",
        lambda n: n.attr("auto_pad", b"") == b"SAME_LOWER" and max(n.attr("strides", [1])) > 1,
    ),
    Gap(
        "MaxPool",
        "places that are counted by columns are others",
        lambda n: bool(n.attr("storage_order", 0)) and len(n.node.output) > 1,
    ),
    Gap(
        "ReduceSumSquare",
        "sums of int32 are int64",
        lambda n: n.operand(0) is None or np.asarray(n.operand(0)).dtype == np.int32,
    ),
    Gap("RoiAlign", "before version 16 it is that of version 16", lambda n: n.opset < 16),
    Gap(
        "Resize",
        "places follow from a length that is no whole number",
        lambda n: (
            _mode(n) in (b"align_corners", b"pytorch_half_pixel", b"tf_crop_and_resize")
            and _fractional(n)
        ),
    ),
    Gap(
        "Resize",
        "one cubic element with pytorch_half_pixel is not that of place 0",
        lambda n: _mode(n) == b"pytorch_half_pixel" and n.attr("mode", b"") == b"cubic",
    ),
    Gap(
        "GridSample",
        "neighbours beyond the border are not those of the border",
        lambda n: (
            n.attr("mode", b"") in (b"cubic", b"bicubic")
            and n.attr("padding_mode", b"") == b"border"
        ),
    ),
    Gap(
        "Dropout",
        "before version 12 the mask has another type or other elements",
        lambda n: n.opset < 12 and len(n.node.output) > 1 and bool(n.node.output[1]),
    ),
    Gap(
        "LinearClassifier TreeEnsembleClassifier",
        "it is not agreed what the scores of two classes are",
        lambda n: max(map(len, (n.attr(f"classlabels_{k}", []) for k in ("ints", "int64s", "strings")))) == 2,
    ),
    # reference.py corrects these, but not inside of subgraphs.
    Gap(
        "Add Sub Mul Div Pow And Or Xor Equal Greater Less",
        "before version 7 a subgraph leaves out the axis of the second operand",
        lambda n: n.inner and n.opset < 7 and n.attr("axis", None) is not None,
    ),
    Gap("PRelu", "before version 7 a subgraph has that of version 7", lambda n: n.inner and n.opset < 7),
    Gap(
        "Softmax LogSoftmax Hardmax",
        "before version 13 a subgraph has that of version 13",
        lambda n: n.inner and n.opset < 13,
    ),
    Gap(
        "BatchNormalization",
        "before version 14 a subgraph has that for training",
        lambda n: n.inner and 7 <= n.opset < 14,
    ),
    Gap("LRN GlobalMaxPool", "a subgraph has that of images alone", lambda n: n.inner),
)  # fmt: skip
