"""Default inputs of a run: sizes that the model accepts, and in-bounds indices into its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.onnx.pieces import ModelPieces
from autofuse.frontends.onnx.regions import evaluated
from autofuse.frontends.onnx.values import Known

if TYPE_CHECKING:
    import onnx

__all__ = ["choose_sizes", "largest_number"]

#: The first size to try, and the following ones: of images, sequences, windows.
_SIZE = 8
_OTHERS = (32, 64, 128, 224, 256, 16, 299, 512, 1)
#: Maximum elements of an initialiser passed to shape inference; larger ones are data.
_MAX_SHOWN = 64
#: Ops that pass indices on unchanged.
_HANDS_ON = frozenset(
    (
        "Identity",
        "Cast",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Transpose",
        "Expand",
        "Slice",
    )
)


def choose_sizes(pieces: ModelPieces, given: Mapping[str, int]) -> dict[str, int]:
    """Choose sizes for the undecided symbols of the inputs.

    Takes the first sizes that ONNX's shape inference accepts and that do not empty a tensor that other sizes leave
    non-empty: 8 for all, then sizes of images, then one symbol at a time different from the rest.  If the inference
    refuses the model with all sizes open, it is not consulted.

    Args:
        pieces: the model.
        given: decided sizes, by symbol.

    Returns:
        A size for each other symbol, within its limits.

    Raises:
        AutofuseError: AF5007, none of the sizes is accepted.
    """
    free = [s for s in _symbols(pieces) if s not in given]
    if not free:
        return {}
    light = _without_data(pieces)
    _declare(light, pieces, None)
    judged, empty = _is_sound(light), frozenset[str]()
    if judged:
        problem, empty = _judged(light)
        judged = not problem
    why = ""
    emptied: dict[str, int] | None = None
    for found in _candidates(pieces, free):
        _declare(light, pieces, {**given, **found})
        problem, zero = _judged(light) if judged else ("", empty)
        if not problem and zero <= empty:
            return found
        if not problem and emptied is None:
            emptied = found
        why = why or problem
    if emptied is not None:
        return emptied
    names = ", ".join(pieces.dims[s] for s in free)
    text = f"found no sizes of {names} that {pieces.label} accepts; with 8 for all: {why}"
    hint = " ".join(f"--shape {pieces.dims[s]}=N" for s in free)
    raise AutofuseError.of("AF5007", text, where=Where(pieces.path), hint=f"set them: {hint}")


def _symbols(pieces: ModelPieces) -> list[str]:
    """Return the symbols of the inputs, in order."""
    shapes = (pieces.values[n].shape for n in pieces.inputs)
    return list(dict.fromkeys(s for shape in shapes for e in shape for s in sorted(e.symbols())))


def _candidates(pieces: ModelPieces, free: Sequence[str]) -> Iterator[dict[str, int]]:
    def within(sizes: Mapping[str, int]) -> dict[str, int]:
        limits = {s: pieces.symbols[s] for s in sizes}
        return {s: min(max(n, limits[s].min), limits[s].max) for s, n in sizes.items()}

    yield within(dict.fromkeys(free, _SIZE))
    inner = {
        s for n in pieces.inputs for e in pieces.values[n].shape[1:] for s in sorted(e.symbols())
    }
    alone = free if len(free) > 1 else ()
    # For a mask over past and present, or a row with an extra first element.
    for other in (2 * _SIZE, _SIZE + 1):
        for s in alone:
            yield within({**dict.fromkeys(free, _SIZE), s: other})
    for size in _OTHERS:
        # One large image is enough.
        yield within({s: size if s in inner else 1 for s in free})
    for s in alone:
        yield within({**dict.fromkeys(free, _SIZE), s: 1})


def _without_data(pieces: ModelPieces) -> onnx.ModelProto:
    """Return the model for shape inference: inputs first, large initialisers declared as inputs."""
    from onnx import helper

    whole = pieces.model
    kinds = {v.name: v.type.tensor_type.elem_type for v in whole.graph.input}
    inputs = [helper.make_tensor_value_info(n, kinds[n], None) for n in pieces.inputs]
    small = []
    for t in whole.graph.initializer:
        if math.prod(t.dims) <= _MAX_SHOWN:
            small.append(t)
        else:
            inputs.append(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)))
    graph = helper.make_graph(whole.graph.node, "sizes", inputs, [], small)
    return helper.make_model(
        graph,
        opset_imports=whole.opset_import,
        functions=whole.functions,
        ir_version=whole.ir_version,
    )


def _is_sound(light: onnx.ModelProto) -> bool:
    """Return True if a model passes ONNX's checker; an invalid one must not reach the C++ code of the inference."""
    from onnx import checker

    try:
        checker.check_model(light)
    except (checker.ValidationError, RuntimeError, ValueError):
        return False
    return True


def _declare(light: onnx.ModelProto, pieces: ModelPieces, sizes: Mapping[str, int] | None) -> None:
    """Set the shapes of the inputs; symbolic if ``sizes`` is None."""
    for v, name in zip(light.graph.input, pieces.inputs, strict=False):
        if name in pieces.shapeless:
            continue
        shape = v.type.tensor_type.shape
        shape.SetInParent()
        del shape.dim[:]
        for e in pieces.values[name].shape:
            known = sizes is not None and e.symbols() <= sizes.keys()
            if known or not e.symbols():
                shape.dim.add().dim_value = e.evaluate(sizes or {})
            else:
                shape.dim.add().dim_param = str(e)


def _judged(light: onnx.ModelProto) -> tuple[str, frozenset[str]]:
    """Return the first error of shape inference (empty if none), and the tensors without elements."""
    from onnx import shape_inference

    try:
        found = shape_inference.infer_shapes(light, strict_mode=True, data_prop=True)
    # Accept any exception of the C++ code: its answer is only advice.
    except Exception as e:
        return (str(e).strip().splitlines() or [type(e).__name__])[-1], frozenset()
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim if d.HasField("dim_value")]
        for v in found.graph.value_info
    }
    negative = (f"{n} would have the shape {s}" for n, s in shapes.items() if min(s, default=0) < 0)
    return next(negative, ""), frozenset(n for n, s in shapes.items() if 0 in s)


def largest_number(pieces: ModelPieces, name: str, sizes: Mapping[str, int]) -> int:
    """Return the largest value for elements of an integer input: 1, or the last index into the tables it selects from.

    Args:
        pieces: the model.
        name: the input.
        sizes: sizes of all known symbols.
    """
    same = {name}
    limits = []
    for n in pieces.model.graph.node:
        if n.op_type in _HANDS_ON and n.input and n.input[0] in same:
            same.update(n.output)
        limits += _rows(n, pieces, sizes, same)
    return max(min(limits, default=2) - 1, 0)


def _rows(
    n: onnx.NodeProto, pieces: ModelPieces, sizes: Mapping[str, int], indices: set[str]
) -> list[int]:
    """Return the sizes of the table axes that a node indexes with one of the tensors."""
    attrs = {a.name: a.i for a in n.attribute}
    given: list[Any] = [pieces.values.get(x) for x in n.input]
    if n.op_type == "OneHot" and n.input[0] in indices:
        depth = given[1]
        return [int(depth.array.reshape(-1)[0])] if _is_number(depth) else []
    if len(n.input) < 2 or n.input[1] not in indices or given[0] is None:
        return []
    shape = given[0].shape
    if n.op_type in ("Gather", "GatherElements", "ScatterElements", "Scatter"):
        axis = attrs.get("axis", 0)
        axes = [axis + len(shape) if axis < 0 else axis]
    elif n.op_type in ("GatherND", "ScatterND"):
        depth = given[1].shape[-1].as_int() if given[1] is not None and given[1].shape else None
        first = attrs.get("batch_dims", 0)
        axes = list(range(first, first + (depth or 0)))
    else:
        return []
    rows = [shape[a] for a in axes if 0 <= a < len(shape)]
    return [*evaluated((e for e in rows if e.symbols() <= sizes.keys()), sizes)]


def _is_number(v: Any) -> bool:
    return isinstance(v, Known) and v.array.size == 1 and v.array.dtype != object
