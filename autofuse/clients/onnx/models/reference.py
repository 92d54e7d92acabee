"""Run nodes of a model with ``onnx.reference``, and compare results.

Some known deviations of ``onnx.reference`` from the standard are corrected here: Softmax, LogSoftmax and Hardmax before
version 13, BatchNormalization from 7 to 13, DequantizeLinear before 19, LRN, GlobalMaxPool unless there are two image
dimensions, the axis of a second operand before 7, and Loop without a condition, or with results of its steps.  The
other known deviations are refused (:mod:`autofuse.clients.onnx.models.gaps`).
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.onnx.models.gaps import VERSION, known_gap
from autofuse.frontends.onnx.converters.refused import RANDOM, REFUSED
from autofuse.frontends.onnx.inference import subgraphs
from autofuse.frontends.onnx.pieces import ModelPieces, Piece

if TYPE_CHECKING:
    import onnx

__all__ = [
    "INSTALL",
    "MAX_BYTES",
    "Reference",
    "Runtime",
    "about",
    "coarseness",
    "differences",
    "identical",
    "is_random",
]

#: Ops that treated their operand as a matrix before version 13; ``onnx.reference`` implements only the later meaning.
_AS_MATRIX = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
_SINCE = 13

#: Before this version, the second operand of these, and the slope of PRelu, aligned with an axis of the first one.
_BROADCASTS = 7
_WITH_AXIS = frozenset(
    ["Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"]
)

#: IR version that onnxruntime reads since 1.18.
_IR_VERSION = 10

#: Hint for a node that ``onnx.reference`` does not run.
INSTALL = "pip install onnxruntime, which runs the ops that onnx.reference lacks"
#: Maximum bytes of the operands of one node, or of its results as far as known in advance.
MAX_BYTES = 4 << 30


class Reference:
    """Runs single nodes of a model with ``onnx.reference``."""

    name = "onnx.reference"

    def __init__(self, pieces: ModelPieces) -> None:
        self.pieces = pieces
        self._evaluators: dict[int, Any] = {}

    def run(self, piece: Piece, operands: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of a node, by name.

        Args:
            piece: the node.
            operands: the tensors that it reads, by name.

        Raises:
            AutofuseError: AF5003, the node cannot be run.
        """
        where = Where(self.pieces.path, f"/graph/node/{piece.index}", node=piece.name)
        if gap := self.gap(piece, operands):
            raise AutofuseError.of("AF5003", gap, where=where, hint=INSTALL)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = self._results(piece, operands)
        except (
            Exception
        ) as e:  # any exception that an op's implementation raises for operands it does not support
            text = f"{piece.op}: {self.name} cannot run it: {type(e).__name__}: {e}"
            raise AutofuseError.of("AF5003", text, where=where) from e
        return dict(zip(piece.outputs, results, strict=True))

    def gap(self, piece: Piece, operands: Mapping[str, Any]) -> str:
        """Return the reason to refuse a node that would run, or an empty text."""
        found = known_gap(self.pieces.model.graph.node[piece.index], self._opset, operands)
        return found and f"{found} in {self.name} {VERSION}, which is excluded"

    def _results(self, piece: Piece, operands: Mapping[str, Any]) -> Sequence[Any]:
        node = self.pieces.model.graph.node[piece.index]
        if node.op_type == "LRN" and not node.domain:
            return [_lrn(node, np.asarray(operands[piece.inputs[0]]))]
        if node.op_type == "GlobalMaxPool" and not node.domain:
            x = np.asarray(operands[piece.inputs[0]])
            return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]
        if self._opset < _BROADCASTS:
            operands = _aligned(node, operands)
        axis = _matrix_axis(node, self._opset)
        if axis is None:
            return list(self._evaluator(piece).run(None, dict(operands)))
        x = np.asarray(operands[piece.inputs[0]])
        rows = math.prod(x.shape[: axis + x.ndim if axis < 0 else axis])
        columns = x.size // rows if rows else 0
        (found,) = self._evaluator(piece).run(None, {piece.inputs[0]: x.reshape(rows, columns)})
        return [np.reshape(found, x.shape)]

    def _evaluator(self, piece: Piece) -> Any:
        if piece.index not in self._evaluators:
            from onnx import TypeProto, ValueInfoProto
            from onnx.reference import ReferenceEvaluator

            model = self.pieces.model
            node, opset = _restated(model.graph.node[piece.index], self._opset)
            opsets = {o.domain: o.version for o in model.opset_import} | {"": opset}

            def declared(name: str) -> ValueInfoProto:
                return ValueInfoProto(name=name, type=TypeProto())

            single = _alone(node, opsets, model.ir_version, map(declared, piece.inputs), piece)
            self._evaluators[piece.index] = ReferenceEvaluator(single, new_ops=[_loop()])
        return self._evaluators[piece.index]

    @property
    def _opset(self) -> int:
        found = {o.domain: o.version for o in self.pieces.model.opset_import}
        return int(found.get("", found.get("ai.onnx", 1)))


class Runtime(Reference):
    """Runs single nodes with onnxruntime, if it is installed."""

    name = "onnxruntime"

    @staticmethod
    def is_there() -> bool:
        """Return True if the package can be imported."""
        return importlib.util.find_spec("onnxruntime") is not None

    def gap(self, piece: Piece, operands: Mapping[str, Any]) -> str:
        """Return an empty reason: no gaps of onnxruntime are known."""
        return ""

    def _results(self, piece: Piece, operands: Mapping[str, Any]) -> Sequence[Any]:
        import onnxruntime
        from onnx import helper

        model = self.pieces.model
        arrays = {n: np.asarray(a) for n, a in operands.items()}
        declared = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ]
        opsets = {o.domain: o.version for o in model.opset_import}
        node = model.graph.node[piece.index]
        single = _alone(node, opsets, min(model.ir_version, _IR_VERSION), declared, piece)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            single.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(list(piece.outputs), arrays))


@lru_cache(maxsize=1)
def _loop() -> Any:
    """Return a Loop for ``onnx.reference``, also in subgraphs.

    The original does nothing without a condition, and concatenates the results of steps instead of stacking them.
    """
    from onnx.reference.op_run import OpRun

    class Loop(OpRun):  # type: ignore[misc, unused-ignore]
        op_domain = ""

        def need_context(self) -> bool:
            return True

        def _run(
            self, trips: Any, going: Any, *carried: Any, context: Any = None, **_: Any
        ) -> tuple[Any, ...]:
            body: Any = getattr(self, "body")  # noqa: B009 - an attribute of the node
            held, step = list(carried), 0
            made: list[list[Any]] = [[] for _ in body.output_names[1 + len(held) :]]
            going = True if going is None else going
            while np.all(going) and (trips is None or step < np.max(trips)):
                names = [np.array(step, np.int64), np.asarray(going, np.bool_), *held]
                given = dict(zip(body.input_names, names, strict=False))
                going, *found = body.run(None, {**(context or {}), **given})
                held, steps = found[: len(held)], found[len(held) :]
                for rows, result in zip(made, steps, strict=True):
                    rows.append(result)
                step += 1
            if step == 0 and made:
                raise ValueError("no step defines the shape and type of its results")
            return (*held, *(np.stack(rows) for rows in made))

    return Loop


def _alone(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    ir_version: int,
    inputs: Iterable[Any],
    piece: Piece,
) -> onnx.ModelProto:
    """Return a model of one node; tensors that its subgraphs read are inputs too."""
    from onnx import TypeProto, ValueInfoProto, helper

    outputs = [ValueInfoProto(name=n, type=TypeProto()) for n in piece.outputs]
    graph = helper.make_graph([node], "node", list(inputs), outputs)
    imports = [helper.make_opsetid(d, n) for d, n in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def _restated(node: onnx.NodeProto, opset: int) -> tuple[onnx.NodeProto, int]:
    """Return a node in a version that ``onnx.reference`` computes according to the standard, and that version.

    ``onnx.reference`` treats BatchNormalization before version 14 as training if it has the attribute momentum, which
    has a default; with one result it is not.  Softmax and similar ops get a matrix and work on its last axis.
    DequantizeLinear before version 19, which only added element types, is missing.
    """
    results = sum(bool(o) for o in node.output)
    keep: tuple[str, ...] = ()
    if _matrix_axis(node, opset) is not None:
        newer = _SINCE
    elif node.op_type == "BatchNormalization" and 7 <= opset < 14 and results == 1:
        keep, newer = ("epsilon",), 15
    elif node.op_type == "DequantizeLinear" and not node.domain and opset < 19:
        keep, newer = ("axis",), 19
    else:
        return node, opset
    from onnx import NodeProto

    out = NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    out.attribute.extend(a for a in node.attribute if a.name in keep)
    return out, newer


def _matrix_axis(node: onnx.NodeProto, opset: int) -> int | None:
    """Return the axis that splits an operand into rows and columns of the matrix that the op works on."""
    if node.op_type not in _AS_MATRIX or opset >= _SINCE:
        return None
    return next((int(a.i) for a in node.attribute if a.name == "axis"), 1)


def _aligned(node: onnx.NodeProto, operands: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operands with the second one aligned to the first one according to the node's axis."""
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), None)
    if node.op_type == "PRelu":
        axis = 1
    elif node.op_type not in _WITH_AXIS:
        axis = None
    if axis is None or node.input[0] == node.input[1]:
        return operands
    x, other = (np.asarray(operands[n]) for n in node.input)
    behind = x.ndim - axis % max(x.ndim, 1) - other.ndim
    if other.size == 1 or behind < 1:
        return operands
    return {**operands, node.input[1]: other.reshape(*other.shape, *[1] * behind)}


def _lrn(node: onnx.NodeProto, x: Any) -> Any:
    """Compute LRN; ``onnx.reference`` normalises only as many channels as there are batches."""
    attrs = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0} | {a.name: a.f for a in node.attribute}
    size = next(int(a.i) for a in node.attribute if a.name == "size")
    before = (size - 1) // 2
    around = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    squares = np.pad(x.astype(np.float64) ** 2, around)
    total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    return (x / (attrs["bias"] + attrs["alpha"] / size * total) ** attrs["beta"]).astype(x.dtype)


def is_random(node: onnx.NodeProto) -> bool:
    """Return True for a node whose results may differ between runs."""
    own = REFUSED.get(node.op_type) == RANDOM or node.op_type == "Dropout"
    return own or any(is_random(n) for g in subgraphs(node) for n in g.node)


def differences(
    got: Any, want: Any, *, rtol: float, atol: float, also: Any = None, coarse: float = 0.0
) -> dict[str, Any]:
    """Compare an array with its reference.

    An element agrees if it differs by at most ``rtol`` times its reference plus ``atol`` times the largest finite
    element of the reference; for float16 and bfloat16 these are at least 8 and 2 times the spacing of adjacent numbers,
    also if a result of another type was computed from them.  NaN agrees with NaN; integers and bools agree if they are
    equal.

    Args:
        got: an array, or a list of arrays.
        want: the reference, of the same form.
        rtol: relative tolerance.
        atol: tolerance relative to the largest element.
        also: additional tolerance per element for known rounding effects; infinite for meaningless elements.
        coarse: spacing at 1 of the coarsest intermediate type.

    Returns:
        ``ok``, ``elements``, ``wrong``, ``max_abs``, ``max_rel`` (to the largest element), ``first`` (index of the
        first wrong element), ``got`` and ``want`` (at that index, as text), ready for JSON.
    """
    if isinstance(want, list | tuple):
        rows = [
            differences(g, w, rtol=rtol, atol=atol, coarse=coarse)
            for g, w in zip(got, want, strict=False)
        ]
        ok = isinstance(got, list | tuple) and len(got) == len(want) and all(r["ok"] for r in rows)
        numbers = {k: sum(r[k] for r in rows) for k in ("elements", "wrong")}
        worst = {k: max((r[k] for r in rows), default=0.0) for k in ("max_abs", "max_rel")}
        first = next((r for r in rows if r["first"] is not None), _NOTHING)
        return {"ok": ok, **numbers, **worst, **{k: first[k] for k in ("first", "got", "want")}}
    if want is None or got is None:
        return {**_NOTHING, "ok": got is want}
    g, w = np.asarray(got), np.asarray(want)
    texts = g.dtype.kind in "OSU" and w.dtype.kind in "OSU"
    if g.shape != w.shape or (g.dtype != w.dtype and not texts):
        text = {"got": f"{g.dtype}{list(g.shape)}", "want": f"{w.dtype}{list(w.shape)}"}
        return {**_NOTHING, **text, "ok": False, "elements": int(w.size), "wrong": int(w.size)}
    wrong, off, scale = _compared(g, w, rtol, atol, also, coarse)
    bad = np.flatnonzero(wrong)
    found = {**_NOTHING, "ok": bad.size == 0, "elements": int(w.size), "wrong": int(bad.size)}
    top = float(off.max(initial=0.0))
    found |= {"max_abs": top, "max_rel": top / scale if scale else 0.0}
    if bad.size:
        at = np.unravel_index(int(bad[0]), w.shape) if w.shape else ()
        found |= {"first": [int(k) for k in at], "got": str(g[at]), "want": str(w[at])}
    return found


_NOTHING: dict[str, Any] = {
    "ok": True,
    "elements": 0,
    "wrong": 0,
    "max_abs": 0.0,
    "max_rel": 0.0,
    "first": None,
    "got": "",
    "want": "",
}


def coarseness(dtype: Any) -> float:
    """Return the spacing at 1 of element types coarser than float32; 0 for others."""
    kind = np.dtype(dtype)
    if kind.name == "bfloat16":
        return 2.0**-7
    return 2.0**-10 if kind.kind == "f" and kind.itemsize == 2 else 0.0


def _compared(
    g: Any, w: Any, rtol: float, atol: float, also: Any, coarse: float
) -> tuple[Any, Any, float]:
    """Return the mask of disagreeing elements, finite differences, and the largest finite element of the reference."""
    if g.dtype.kind in "biuOSU":
        differs = np.asarray(g != w)
        return differs, np.zeros(0), 0.0
    eps = max(coarseness(g.dtype), coarse)
    rtol, atol = max(rtol, 8 * eps), max(atol, 2 * eps)
    with np.errstate(all="ignore"):
        kind = np.complex128 if g.dtype.kind == "c" else np.float64
        g, w = g.astype(kind), w.astype(kind)
        finite = np.isfinite(g) & np.isfinite(w)
        off = np.where(finite, np.abs(g - w), 0.0)
        scale = float(np.abs(np.where(np.isfinite(w), w, 0.0)).max(initial=0.0))
        near = off <= rtol * np.abs(w) + atol * scale + (0.0 if also is None else also)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        if also is not None:
            same |= np.isinf(also)
    return ~np.where(finite, near, same), off, scale


def about(x: Any) -> dict[str, Any]:
    """Return element type and shape, for a table."""
    if isinstance(x, list | tuple) or x is None:
        return {"dtype": "sequence" if x is not None else "nothing", "shape": [len(x or ())]}
    array = np.asarray(x)
    return {"dtype": array.dtype.name, "shape": list(array.shape)}


def identical(a: Any, b: Any) -> bool:
    """Return True if two arrays have the same dtype, shape and bits."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind in "OSU":
        return False
    return bool(np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())
