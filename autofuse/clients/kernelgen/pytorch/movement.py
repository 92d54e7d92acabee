"""Rows of views and of ops that move elements."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.clients.kernelgen.pytorch.operation import Operation, Row, number
from autofuse.implgraph.expr.expression import ONE, Expr
from autofuse.implgraph.ops.rows.reductions import reduced_axes

__all__ = ["ROWS", "STRIDED", "VIEWS"]

#: Ops whose result may alias the operand.
VIEWS = frozenset(("Broadcast", "Reshape", "Identity", "Transpose", "Slice", "Cast", "BitCast"))
#: Ops whose result may be non-contiguous; ops on it keep its strides.
STRIDED = frozenset(("Broadcast", "Transpose", "Slice", "Iota"))


def _axis(op: Operation, rank: int) -> int:
    return reduced_axes((op.attrs["axis"],), rank)[0]


def _transposed(op: Operation) -> str:
    rank = len(op.shapes[0])
    order = tuple(p + rank if p < 0 else p for p in op.attrs["perm"])
    return f"torch.permute({op[0]}, {order})"


def _part(op: Operation) -> str:
    """Return a slice; Python slices of tensors only go forwards, so a negative step flips the result."""
    rank = len(op.shapes[0])
    steps = op.attrs.get("steps") or (1,) * rank
    cuts, turned = [], []
    rows = zip(op.shapes[0], op.attrs["starts"], op.attrs["shape"], steps, strict=True)
    for d, (size, start, count, step) in enumerate(rows):
        first, count, length = Expr.of(start), Expr.of(count), abs(step)
        if step < 0:
            turned.append(d)
            first = first + (count - ONE) * step
        if first == 0 and count == size and length == 1:
            cuts.append(":")
            continue
        end = first + count * length
        cuts.append(f"{op.size(first)}:{op.size(end)}" + (f":{length}" if length > 1 else ""))
    x = f"{op[0]}[{', '.join(cuts)}]" if any(c != ":" for c in cuts) else op[0]
    return f"torch.flip({x}, {tuple(turned)})" if turned else x


def _joined(op: Operation) -> str:
    parts = [op.tensor(i) for i in range(len(op.operands))]
    joined = f"({', '.join(parts)})" if len(parts) > 1 else f"({parts[0]},)"
    return f"torch.cat({joined}, dim={_axis(op, len(op.shapes[0]))})"


def _padded(op: Operation) -> str:
    pairs = list(zip(op.attrs["low"], op.attrs["high"], strict=True))
    if not pairs:
        return op[0]
    widths = op.sizes([e for pair in reversed(pairs) for e in pair])
    value = float(op.attrs.get("value", 0.0))
    text = number(value if op.dtype.kind == "f" else int(value))
    return f"torch.nn.functional.pad({op[0]}, {widths}, value={text})"


def _counted(op: Operation) -> str:
    shape, axis = op.shape, _axis(op, len(op.shape))
    start, step = int(op.attrs.get("start", 0)), int(op.attrs.get("step", 1))
    line = f"torch.arange({op.size(shape[axis])}, device={op.device})"
    line += f" * {number(step)}" if step != 1 else ""
    line += f" + {number(start)}" if start else ""
    places = op.sizes([shape[axis] if d == axis else 1 for d in range(len(shape))])
    return f"torch.broadcast_to(({line}).to({op.dtype_text}).reshape({places}), {op.sizes(shape)})"


def _places(op: Operation, axis: int) -> str:
    """Return indices counted from the front, all in-bounds."""
    extent = op.atomic(op.shapes[0][axis])
    at = op.let(f"{op.tensor(1)}.to(torch.int64)")
    return op.let(f"torch.clamp(torch.where({at} < 0, {at} + {extent}, {at}), 0, {extent} - 1)")


def _gathered(op: Operation) -> str:
    axis = _axis(op, len(op.shapes[0]))
    return f"{op[0]}[{', '.join([':'] * axis + [_places(op, axis)])}]"


def _picked(op: Operation) -> str:
    axis = _axis(op, len(op.shapes[0]))
    return f"torch.gather({op[0]}, {axis}, {_places(op, axis)})"


def _move(form: object) -> Row:
    return Row(form, tensors=(0,), moves=True)  # type: ignore[arg-type]


ROWS: Mapping[str, Row] = {
    "Broadcast": _move(lambda op: f"torch.broadcast_to({op[0]}, {op.sizes(op.shape)})"),
    "Reshape": _move(lambda op: f"torch.reshape({op[0]}, {op.sizes(op.shape)})"),
    "Identity": _move("{0}"),
    "Transpose": _move(_transposed),
    "Slice": _move(_part),
    "Concat": _move(_joined),
    "Pad": _move(_padded),
    "Iota": Row(_counted, moves=True),
    "Gather": _move(_gathered),
    "GatherElements": _move(_picked),
}
