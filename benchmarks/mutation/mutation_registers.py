"""Mutants of functions on vector registers: their masks, barriers, operands, partial results and counts.

Every mutant is a function of the same form with one changed step, so that it can be verified, emitted and run.
Removing a step leaves its register unchanged; in other mutants, later steps read the removed step's input instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from mutation_change import Mutation, change_of
from row_graphs import layer_norm, node, rms_norm, shifted_softmax, softmax, weighed_layer_norm

from autofuse.codegen.ir.calls import (
    Call,
    LocalArg,
    RowLanes,
    RowLoop,
    RowRegister,
    Rows,
    RowStep,
    VectorFunction,
)
from autofuse.codegen.ir.kernel_ir import For, KernelFn, Stmt
from autofuse.codegen.passes.row_calls import reduction_of, row_operation
from autofuse.implgraph.expr.expression import const

__all__ = ["REGISTERS", "register_graphs", "register_mutants", "same_values", "with_own_names"]

#: Classes of changes in functions on registers.
REGISTERS = (
    *("register-mask", "register-barrier", "register-load", "register-store", "register-call"),
    *("register-operand", "register-start", "register-join", "register-fill", "register-reduce"),
    *("register-spread", "register-count"),
)
#: Step -> class of its removal.
_LEFT_OUT = {
    "load": "register-load",
    "store": "register-store",
    "call": "register-call",
    "start": "register-start",
    "join": "register-join",
    "fill": "register-fill",
    "reduce": "register-reduce",
    "spread": "register-spread",
    "stores_wait": "register-barrier",
    "loads_wait": "register-barrier",
}
#: Class, description of the change, and the changed function.
_Changed: TypeAlias = tuple[str, str, VectorFunction]
#: Position of a step: among those of the row, and, in a loop, among its steps.
_Place: TypeAlias = tuple[int, ...]
_Edit: TypeAlias = Callable[[VectorFunction], Iterator[_Changed]]


def register_mutants(fn: KernelFn) -> Iterator[tuple[str, str, KernelFn]]:
    """Yield all mutants: class, text, and the changed template."""
    for kind, text, body in _in_block(fn.body):
        yield kind, text, replace(fn, body=body)


def with_own_names(fn: KernelFn, suffix: str) -> KernelFn:
    """Return the template with its functions on registers renamed, as several templates in one file need."""
    return replace(fn, body=_renamed(fn.body, suffix))


def _renamed(body: tuple[Stmt, ...], suffix: str) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=_renamed(s.body, suffix))
        elif isinstance(s, VectorFunction):
            s = replace(s, name=s.name + suffix)
        out.append(s)
    return tuple(out)


def _in_block(body: tuple[Stmt, ...]) -> Iterator[tuple[str, str, tuple[Stmt, ...]]]:
    for i, s in enumerate(body):
        if isinstance(s, For):
            for kind, text, inner in _in_block(s.body):
                yield kind, text, (*body[:i], replace(s, body=inner), *body[i + 1 :])
        elif isinstance(s, VectorFunction):
            for edit in _OF_ROWS if s.rows is not None else _OF_ELEMENTS:
                for kind, text, changed in edit(s):
                    yield kind, f"{s.name}: {text}", (*body[:i], changed, *body[i + 1 :])


# elements -------------------------------------------------------------------------------------
def _of_tensors(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions that do not load, or do not store, a tensor."""
    for k, x in enumerate(f.loads):
        rest = (*f.loads[:k], *f.loads[k + 1 :])
        yield "register-load", f"without the load of {x}", replace(f, loads=rest)
    for k, x in enumerate(f.stores):
        rest = (*f.stores[:k], *f.stores[k + 1 :])
        yield "register-store", f"without the store of {x}", replace(f, stores=rest)


def _of_calls(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with a call removed, or with two operands swapped."""
    for k, s in enumerate(f.calls):
        left = replace(
            f, calls=(*f.calls[:k], *f.calls[k + 1 :]), notes=(*f.notes[:k], *f.notes[k + 1 :])
        )
        # Its result stays declared for its readers.
        if any(s.writes[0] in c.reads for c in left.calls) or s.writes[0] in f.stores:
            yield "register-call", f"without {s.api} to {s.writes[0]}", left
        for text, other in _exchanged(s):
            calls = (*f.calls[:k], other, *f.calls[k + 1 :])
            yield "register-operand", text, replace(f, calls=calls)


def _exchanged(s: Call) -> Iterator[tuple[str, Call]]:
    """Yield the call with its last two operands swapped, if they differ."""
    places = [k for k, a in enumerate(s.args) if k and isinstance(a, LocalArg)]
    if len(places) < 2 or s.args[places[-2]] == s.args[places[-1]]:
        return
    i, j = places[-2:]
    args = list(s.args)
    args[i], args[j] = args[j], args[i]
    reads = tuple(a.local for a in args[1:] if isinstance(a, LocalArg))
    yield (
        f"{s.api} to {s.writes[0]}: operands exchanged",
        replace(s, args=tuple(args), reads=reads),
    )


def _of_count(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with one element more, or less."""
    for by in (1, -1):
        yield "register-count", f"count {by:+d}", replace(f, count=f.count + const(by))


# rows -----------------------------------------------------------------------------------------
def _places(rows: Rows) -> Iterator[tuple[_Place, RowStep]]:
    for i, s in enumerate(rows.steps):
        if isinstance(s, RowLoop):
            for k, step in enumerate(s.steps):
                yield (i, k), step
        else:
            yield (i,), s


def _with(f: VectorFunction, changes: dict[_Place, tuple[RowStep, ...]]) -> VectorFunction:
    """Return the function with other steps in some positions."""
    assert f.rows is not None
    out: list[RowStep | RowLoop] = []
    for i, s in enumerate(f.rows.steps):
        if isinstance(s, RowLoop):
            inner = (x for k, step in enumerate(s.steps) for x in changes.get((i, k), (step,)))
            out.append(replace(s, steps=tuple(inner)))
        else:
            out += changes.get((i,), (s,))
    return replace(f, rows=replace(f.rows, steps=tuple(out)))


def _instead(f: VectorFunction, at: _Place, to: RowRegister, by: RowRegister) -> VectorFunction:
    """Return the function without a step; later steps read another register until its result is redefined."""
    assert f.rows is not None
    changes: dict[_Place, tuple[RowStep, ...]] = {at: ()}
    for place, s in _places(f.rows):
        if place <= at:
            continue
        if s.op != "load" and to in s.of:
            of = tuple(by if x == to else x for x in s.of)
            changes[place] = (replace(s, of=of),)
        if s.op != "store" and s.to == to:
            break
    return _with(f, changes)


def _name(x: RowRegister) -> str:
    return x[0] if x[1] is None else f"{x[0]} {x[1]}"


def _of_steps(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with a step removed, or with later steps reading its input instead of its result."""
    assert f.rows is not None
    for at, s in _places(f.rows):
        kind, inside = _LEFT_OUT[s.op], " in a loop" if len(at) > 1 else ""
        text = f"{s.op} {_name(s.to)}{inside}"
        yield kind, f"without {text}", _with(f, {at: ()})
        if s.op in ("fill", "reduce", "spread", "join") and s.to not in s.of:
            yield kind, f"{_name(s.of[0])} instead of {text}", _instead(f, at, s.to, s.of[0])


def _of_masks(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with other lanes in a mask, where the text has one and it changes the lanes."""
    assert f.rows is not None
    masks: tuple[RowLanes, ...] = ("all", "row", "part")
    lanes = max(256 // f.lane, 1)
    size = {"all": lanes, "row": f.rows.pitch, "part": f.rows.length}
    have = {m: size[m] % lanes or lanes for m in masks}
    for at, s in _places(f.rows):
        if s.op in ("load", "start", "stores_wait", "loads_wait"):
            continue
        # A row's single element is stored from the lowest lane for any mask.
        if s.op == "store" and s.to[1] is None:
            continue
        for mask in masks:
            if have[mask] != have[s.lanes]:
                other = replace(s, lanes=mask)
                text = f"lanes of {s.op} {_name(s.to)}: {mask} for {s.lanes}"
                yield "register-mask", text, _with(f, {at: (other,)})


def _of_operands(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with swapped operands of a step, or with another register of the same tensor as operand."""
    assert f.rows is not None
    steps = list(_places(f.rows))
    made = {s.to for _, s in steps if s.op not in ("store", "stores_wait", "loads_wait")}
    kinds = {"call": "register-operand", "join": "register-join", "store": "register-store"}
    for at, s in steps:
        text = f"{s.op} {_name(s.to)}"
        if s.op == "call" and len(s.of) > 1 and s.of[0] != s.of[1]:
            other = replace(s, of=(*s.of[:-2], s.of[-1], s.of[-2]))
            yield kinds[s.op], f"{text}: operands exchanged", _with(f, {at: (other,)})
        if s.op == "join":
            other = replace(s, of=(s.of[0], s.of[0]))
            yield kinds[s.op], f"{text}: one operand twice", _with(f, {at: (other,)})
        if s.op in kinds:
            for k, (x, part) in enumerate(s.of):
                near = (x, part + 1 if (x, part + 1) in made else part - 1) if part else (x, 1)
                if part is not None and near in made and near not in s.of:
                    other = replace(s, of=(*s.of[:k], near, *s.of[k + 1 :]))
                    yield kinds[s.op], f"{text}: {_name(near)} read", _with(f, {at: (other,)})


def _of_places(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with the row parts of two loads or stores of a tensor swapped, or with a load after its use."""
    assert f.rows is not None
    steps = list(_places(f.rows))
    for n, (at, s) in enumerate(steps):
        if s.op not in ("load", "store") or s.to[1] is None:
            continue
        kind = _LEFT_OUT[s.op]
        for there, other in steps[n + 1 :]:
            if s.op == "load" and s.to in other.of and other.op != "load":
                late = _with(f, {at: (), there: (other, s)})
                yield kind, f"load {_name(s.to)} behind {other.op} {_name(other.to)}", late
                break
        same = (o for _, o in steps[n + 1 :] if o.op == s.op and o.to[0] == s.to[0])
        near = next((o for o in same if o.to != s.to), None)
        if near is None:
            continue
        wrong = replace(s, to=near.to, of=(near.to,) if s.op == "load" else s.of)
        text = f"{s.op} {_name(near.to)} for {s.op} {_name(s.to)}"
        yield kind, text, _with(f, {at: (wrong,)})


def _of_sizes(f: VectorFunction) -> Iterator[_Changed]:
    """Yield functions with one more or less: row, element per row, distance of rows, iteration."""
    rows, kind = f.rows, "register-count"
    assert rows is not None
    for by in (1, -1):
        count = replace(rows, count=rows.count + const(by))
        yield kind, f"rows {by:+d}", replace(f, rows=count)
        if any(s.op == "reduce" for s in rows.written):
            length = replace(rows, length=rows.length + by)
            yield kind, f"length {by:+d}", replace(f, rows=length)
        pitch = replace(rows, pitch=rows.pitch + 32 // f.lane * by)
        yield kind, f"pitch {32 // f.lane * by:+d}", replace(f, rows=pitch)
        for i, s in enumerate(rows.steps):
            if isinstance(s, RowLoop):
                for name in ("times", "width"):
                    loop = replace(s, **{name: getattr(s, name) + by})
                    steps = (*rows.steps[:i], loop, *rows.steps[i + 1 :])
                    yield (
                        kind,
                        f"{name} {by:+d} of loop {i}",
                        replace(f, rows=replace(rows, steps=steps)),
                    )


_OF_ELEMENTS: tuple[_Edit, ...] = (_of_tensors, _of_calls, _of_count)
_OF_ROWS: tuple[_Edit, ...] = (_of_steps, _of_masks, _of_operands, _of_places, _of_sizes)


# equivalence ----------------------------------------------------------------------------------
_COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min"})
#: Value of a register: its computation, and the number of lowest lanes that hold it.
_Held: TypeAlias = tuple[object, int]


def same_values(m: Mutation) -> bool:
    """Return True if the function stores the same values in the same order, computed by the same calls from the loads.

    Element-wise calls work lane by lane, so a mask of more or fewer lanes matters only in lanes that are used: by a
    store, except for the padding after the row; by a fill and a reduction, up to their mask; by a join, all lanes.
    Loading a value that the register already holds has no effect.  Operands of a commutative call may be swapped.  All
    barriers are still present between the same stores.
    """
    old, new = change_of(m)
    if not isinstance(old, VectorFunction) or not isinstance(new, VectorFunction):
        return False
    if old.rows is None or new.rows is None:
        have = _stored(old)
        return old.count == new.count and have is not None and have == _stored(new)
    shape = (old.rows.count, old.rows.length, old.rows.pitch)
    if shape != (new.rows.count, new.rows.length, new.rows.pitch):
        return False
    before, after = _Trace(old, old.rows), _Trace(new, new.rows)
    return before.whole() and after.whole() and before.done == after.done


def _stored(f: VectorFunction) -> dict[str, object] | None:
    """Return the expressions that a function on elements stores; None if it reads an undefined value."""
    held: dict[str, object] = {x: ("load", x) for x in f.loads}
    for s in f.calls:
        if not all(x in held for x in s.reads):
            return None
        args = tuple(a for a in s.args if not isinstance(a, LocalArg))
        held[s.writes[0]] = (s.api, args, _in_order(s.api, [held[x] for x in s.reads]))
    return {x: held.get(x) for x in f.stores}


def _in_order(name: str, of: list[object]) -> tuple[object, ...]:
    return tuple(sorted(of, key=repr) if name in _COMMUTATIVE else of)


class _Trace:
    """Trace of the steps for a row: the stored values, each as an expression."""

    def __init__(self, f: VectorFunction, rows: Rows) -> None:
        self.f, self.rows = f, rows
        self.lanes = 256 // f.lane
        made = [s.writes[0] for s in f.calls if s.api == "Duplicate"]
        self.held: dict[RowRegister, _Held] = {(x, None): (x, self.lanes) for x in made}
        self.stored: dict[RowRegister, _Held] = {}
        self.settled: dict[RowRegister, _Held] = {}
        #: Stores and barriers in order.
        self.done: list[object] = []

    def whole(self) -> bool:
        """Follow all steps; return True if all their operands are defined."""
        for s in self.rows.steps:
            loop = s if isinstance(s, RowLoop) else RowLoop(1, 0, (s,))
            for i in range(loop.times):
                if not all(self._step(step, i * loop.width) for step in loop.steps):
                    return False
        return True

    def _mask(self, step: RowStep) -> int:
        size = {"all": self.lanes, "row": self.rows.pitch, "part": self.rows.length}[step.lanes]
        return size % self.lanes or self.lanes

    def _step(self, s: RowStep, first: int) -> bool:
        place = (s.to[0], None if s.to[1] is None else first + s.to[1])
        if s.op in ("stores_wait", "loads_wait"):
            self.done.append(s.op)
            self.settled = dict(self.stored)
            return True
        if s.op == "load":
            made = any(s.to[0] == c.writes[0] for c in self.f.calls)
            if made and place not in self.settled:
                return False
            self.held[s.to] = self.settled[place] if made else (place, self.lanes)
            return True
        if s.op == "start":
            self.held[s.to] = (("start", s.call), self.lanes)
            return True
        if not all(x in self.held for x in s.of):
            return False
        values = [self.held[x] for x in s.of]
        of, right, mask = [v for v, _ in values], min(n for _, n in values), self._mask(s)
        if s.op == "store":
            part = place[1]
            left = 1 if part is None else self.rows.length - part * self.lanes
            self.stored[place] = of[0], min(mask, right)
            self.done.append((place, of[0], mask))
            return right >= min(mask, left)
        if s.op == "call":
            call = self.f.calls[s.call]
            name = row_operation(call)[0] if call.api == "WithRows" else call.api
            self.held[s.to] = (s.call, _in_order(name, of)), min(mask, right)
            return True
        if s.op == "spread":
            self.held[s.to] = (("spread", of[0]), self.lanes)
            return right >= 1 and mask == self.lanes
        kind = reduction_of(self.f.calls[s.call])
        self.held[s.to] = (s.op, kind, mask, tuple(of)), 1 if s.op == "reduce" else self.lanes
        return right >= mask


# kernels --------------------------------------------------------------------------------------
def register_graphs() -> dict[str, dict[str, Any]]:
    """Return small graphs with functions on registers: elements, kept rows, streamed rows; with tails.

    In two of them, all rows share weights, and results are stored over their operands.
    """
    chosen = [
        node("sum", "Add", "x", "b"),
        node("mask", "Greater", "sum", {"const": 0.5}),
        node("scaled", "Mul", "x", {"const": 3.0}),
        node("picked", "Select", "mask", "scaled", "b"),
        node("y", "Sub", "picked", "x"),
    ]
    narrow = [
        node("wide", "Cast", "x", dtype="float32"),
        node("e", "Exp", "wide"),
        node("less", "Sub", "e", "wide"),
        node("y", "Cast", "less", dtype="float16"),
    ]
    return {
        "chosen": _elements("chosen", {"x": "float32", "b": "float32"}, chosen),
        "narrow": _elements("narrow", {"x": "float16"}, narrow),
        "softmax": softmax(5, 300) | {"name": "softmax"},
        "layer_norm": layer_norm(5, 300) | {"name": "layer_norm"},
        "rms_norm": rms_norm(5, 499, "float16") | {"name": "rms_norm"},
        "streamed": softmax(3, 1999) | {"name": "streamed"},
        "weighed": weighed_layer_norm(5, 300, batches=3) | {"name": "weighed"},
        "in_place": shifted_softmax(3, 1999) | {"name": "in_place"},
    }


def _elements(name: str, inputs: dict[str, str], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    given = [{"name": n, "dtype": d, "shape": [7, 77]} for n, d in inputs.items()]
    named = [{"name": f"n{k}", **n} for k, n in enumerate(nodes)]
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "inputs": given,
        "nodes": named,
        "outputs": ["y"],
    }
