"""Translate a line of restricted English about known operators into a graph, or questions; never guess.

``softmax over the last axis of x float16 [b, 4096], then multiply by mask``: clauses, separated by ``then``, each an
operator of the registry or a composition, with operands, axes and attributes.  The first operand of a later clause is
the result so far, unless the clause says otherwise.  A further operand without element type and shape takes those of
the tensor it is combined with; this is the only implicit rule, and ``notes`` lists its uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.clients.kernelgen.english.compositions import COMPOSITIONS, Composition, Operand
from autofuse.clients.kernelgen.english.sentence import (
    AxisWords,
    Clause,
    OperandWords,
    Questions,
    clauses_of,
)
from autofuse.clients.kernelgen.english.vocabulary import title
from autofuse.frontends.builder import MAX_SIZE
from autofuse.frontends.graph.model import SCHEMA
from autofuse.frontends.graph.reader import read_native
from autofuse.frontends.json_positions import Document, quote
from autofuse.implgraph.expr.expression import Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.names import identifier, is_reserved
from autofuse.implgraph.ops.definition import Attr, OpDef, OpError
from autofuse.implgraph.ops.registry import lookup

__all__ = ["Sentence", "read_line"]

#: Maximum bits of the number of elements spanned by all symbols together.
_BITS = 46
#: Words before a first operand that is not the result so far.
_OF = frozenset(("of", "on", "for"))
_TYPES = "float32, float16, bfloat16, int32"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Meaning of a line.

    Attributes:
        graph: its formula.
        notes: additions by grammar rules, for the definition.
    """

    graph: FusionGraph
    notes: tuple[str, ...]


def read_line(line: str) -> Sentence:
    """Return the formula of a line of English.

    Raises:
        AutofuseError: AF1401, a diagnostic for each ambiguity of the line, with the choices; AF12xx, the op does not
            accept these element types or shapes.
    """
    questions = Questions()
    clauses = clauses_of(line, questions)
    formula = _Formula(questions)
    for k, clause in enumerate(clauses):
        formula.add(clause, is_first=k == 0)
        questions.raise_if_any()
    return Sentence(formula.graph(), tuple(formula.notes))


@dataclass(slots=True)
class _Tensor:
    dtype: str
    shape: tuple[int | str, ...]


class _Formula:
    """A graph file under construction; implements ``compositions.Nodes``."""

    def __init__(self, questions: Questions) -> None:
        self.questions, self.ask = questions, questions.ask
        self.notes: list[str] = []
        self.inputs: dict[str, _Tensor] = {}
        self.tensors: dict[str, _Tensor] = {}
        self.nodes: list[dict[str, Any]] = []
        self.taken: set[str] = set()
        self.result = ""
        self.called: list[str] = []

    # graph ------------------------------------------------------------------------------------

    def node(
        self, op: str, inputs: Sequence[Operand], attrs: Mapping[str, Any] | None = None
    ) -> str:
        """Add a node and return its result."""
        row = lookup(op)
        name = identifier(_word(op), self.taken)
        out = f"{name}.out"  # a name that no line can contain
        given = dict(attrs or {})
        self.nodes.append(
            {"name": name, "op": op, "inputs": list(inputs), "outputs": [out]}
            | ({"attrs": given} if given else {})
        )
        self.tensors[out] = self.inferred(row, inputs, given)
        return out

    def dtype_of(self, tensor: str) -> str:
        """Return the name of the element type of an input or a result."""
        return self.tensors[tensor].dtype

    def inferred(self, row: OpDef, inputs: Sequence[Operand], attrs: Mapping[str, Any]) -> _Tensor:
        """Return dtype and shape of the result by the registry; the reader checks them again, with positions."""
        tensors = [self.tensors[x] for x in inputs if isinstance(x, str)]
        like = BY_NAME[tensors[0].dtype] if tensors else BY_NAME["float32"]
        dtypes = [BY_NAME[self.tensors[x].dtype] if isinstance(x, str) else like for x in inputs]
        shapes = [_exprs(self.tensors[x].shape) if isinstance(x, str) else () for x in inputs]
        known = {a.name: a.default for a in row.attrs if a.default is not None} | dict(attrs)
        for a in row.attrs:
            if a.kind == "shape" and isinstance(known.get(a.name), list):
                known[a.name] = _exprs(tuple(known[a.name]))
            elif a.kind == "ints" and isinstance(known.get(a.name), list):
                known[a.name] = tuple(known[a.name])
        try:
            shape = row.shape_rule(shapes, known)
            return _Tensor(row.dtype_rule(dtypes, known).name, tuple(_size(e) for e in shape))
        except OpError as e:
            hint = e.hint or row.doc
            raise AutofuseError.of(e.code, f"{row.name}: {e}", hint=hint) from None

    def graph(self) -> FusionGraph:
        """Return the formula."""
        name = identifier("_".join(self.called))
        data = {
            "schema": SCHEMA,
            "name": name,
            "symbols": self.symbols(),
            "inputs": [
                {"name": n, "dtype": t.dtype, "shape": list(t.shape)}
                for n, t in self.inputs.items()
            ],
            "nodes": self.nodes,
            "outputs": [
                {"tensor": self.result, "name": "out" if "out" not in self.inputs else "result"}
            ],
        }
        return read_native(Document(data, ""))

    def symbols(self) -> dict[str, dict[str, int]]:
        """Return the named sizes, with ranges that limit the elements of every tensor."""
        shapes = [t.shape for t in self.tensors.values()]
        listed: list[Sequence[Any]] = [t.shape for t in self.inputs.values()]
        listed += [
            v for n in self.nodes for v in n.get("attrs", {}).values() if isinstance(v, list)
        ]
        names = list(dict.fromkeys(s for shape in listed for s in shape if isinstance(s, str)))
        fixed = 1
        for shape in shapes:
            product = 1
            for s in shape:
                product *= s if isinstance(s, int) else 1
            fixed = max(fixed, product)
        most = max((sum(isinstance(s, str) for s in shape) for shape in shapes), default=1) or 1
        bits = max((_BITS - fixed.bit_length()) // most, 0)
        return {n: {"min": 1, "max": min(1 << bits, MAX_SIZE)} for n in names}

    # clauses ----------------------------------------------------------------------------------

    def add(self, clause: Clause, *, is_first: bool) -> None:
        """Add the nodes of a clause."""
        self.declare(clause, is_first)
        operands = self.ordered(clause, is_first)
        meaning = self.chosen(clause, len(operands))
        if meaning is None:
            return
        composition = COMPOSITIONS.get(meaning)
        self.called.append(_word(meaning))
        if composition is not None:
            self.composed(clause, composition, operands)
        else:
            self.single(clause, lookup(meaning), operands)

    def declare(self, clause: Clause, is_first: bool) -> None:
        """Declare inputs whose element type and shape the clause gives, or that come first."""
        for k, o in enumerate(clause.operands):
            if o.number is not None or o.is_result:
                continue
            known = self.inputs.get(o.name)
            if known is not None:
                if (o.dtype and o.dtype != known.dtype) or (
                    o.shape is not None and o.shape != known.shape
                ):
                    said = _typed(known)
                    self.ask(
                        f"is {o.name} another tensor than {said} before?",
                        "give it another name",
                        o.at,
                    )
                continue
            if not o.dtype and o.shape is None and not (is_first and k == 0):
                continue  # takes those of the tensor it is combined with
            name = o.name or next(n for n in _names() if n not in self.tensors)
            if not o.dtype:
                shape = "[b, 1024]" if o.shape is None else _listed(o.shape)
                self.ask(
                    f"which element type does {name} have?",
                    f"for instance {name} float32 {shape}; known: {_TYPES}, ...",
                    o.at,
                )
            if o.shape is None:
                which = f"{name} {o.dtype or 'float32'}"
                self.ask(
                    f"which shape does {name} have?",
                    f"for instance {which} [b, 1024], {which} [n], or [] for one number",
                    o.at,
                )
            o.name = name
            self.input(name, o.dtype or "float32", o.shape or ())

    def input(self, name: str, dtype: str, shape: tuple[int | str, ...]) -> None:
        """Add a parameter of the operator."""
        self.taken.add(identifier(name))
        self.inputs[name] = self.tensors[name] = _Tensor(dtype, shape)

    def ordered(self, clause: Clause, is_first: bool) -> list[OperandWords]:
        """Return the operands in the op's order, including the result so far if meant."""
        operands = list(clause.operands)
        taken_from = [o for o in operands if o.join == "from"]
        if taken_from:
            operands = taken_from + [o for o in operands if o.join != "from"]
        if is_first or any(o.is_result for o in operands):
            return operands
        named = operands and (operands[0].join in _OF or self.is_complete(clause))
        if not named:
            return [OperandWords(clause.at, is_result=True), *operands]
        text = f"does {quote(clause.phrase)} not use the result of the previous step?"
        self.ask(text, "write 'it' for that result, or leave out the operand", clause.at)
        return operands

    @staticmethod
    def is_complete(clause: Clause) -> bool:
        """Return True if a clause has enough operands for any of its meanings without the result so far."""
        most = 0
        for m in clause.meanings:
            c = COMPOSITIONS.get(m)
            most = max(most, len(c.operands + c.weights) if c else lookup(m).arity[1])
        return len(clause.operands) >= most

    def chosen(self, clause: Clause, count: int) -> str | None:
        """Return the meaning of the phrase; None, with a question, if several remain."""
        left = [m for m in clause.meanings if m in COMPOSITIONS or _takes(lookup(m), count)]
        if len(clause.meanings) > 1 and clause.axes is not None:
            left = [m for m in left if m in COMPOSITIONS or _along(lookup(m))] or left
        if len(left) == 1 or len(clause.meanings) == 1:
            return (left or list(clause.meanings))[0]
        choices = ", ".join(title(m) for m in (left or clause.meanings))
        self.ask(
            f"which operator do you mean by {quote(clause.phrase)}?",
            f"say one of: {choices}",
            clause.at,
        )
        return None

    def value(
        self, o: OperandWords, like: str, shape: Sequence[int | str] | None = None
    ) -> Operand:
        """Return an operand of a node; an input without a description is declared like the tensor ``like``."""
        if o.number is not None:
            value = o.number
            return {"const": str(value) if value in (float("inf"), float("-inf")) else value}
        if o.is_result:
            if not self.result:
                self.ask("which result do you mean? this is the first step", "name a tensor", o.at)
                return {"const": 0}
            return self.result
        if o.name not in self.tensors:
            t = self.tensors.get(like)
            if t is None or t.dtype == "bool":
                # A condition does not determine the type of the values it selects.
                listed = "[n]" if t is None else _listed(t.shape)
                hint = f"for instance {o.name} float32 {listed}"
                self.ask(f"which element type and shape does {o.name} have?", hint, o.at)
                return {"const": 0}
            made = _Tensor(t.dtype, tuple(t.shape if shape is None else shape))
            self.input(o.name, made.dtype, made.shape)
            self.notes.append(
                f"{o.name} is {_typed(made)}, the default for operands without a type or shape"
            )
        return o.name

    def single(self, clause: Clause, row: OpDef, operands: list[OperandWords]) -> None:
        """Add the node of a single op."""
        lo, hi = row.arity
        if not lo <= len(operands) <= hi:
            text = f"{title(row.name)} takes {row.takes('operand')}, the line names {len(operands)}: which are they?"
            self.ask(text, f"{title(row.name)} is: {row.doc}", clause.at)
            return
        first = next(
            (o for o in operands if o.number is None and (o.is_result or o.name in self.tensors)),
            None,
        )
        like = "" if first is None else self.result if first.is_result else first.name
        inputs = [self.value(o, like) for o in operands]
        self.questions.raise_if_any()
        attrs = self.attrs(clause, row, like)
        self.questions.raise_if_any()
        self.result = self.node(row.name, inputs, attrs)

    def attrs(self, clause: Clause, row: OpDef, like: str) -> dict[str, Any]:
        """Return the attributes of an op: those given, and the axes."""
        known = {a.name: a for a in row.attrs}
        out = {}
        for name, value in clause.attrs.items():
            if name not in known:
                has = ", ".join(known) or "none"
                self.ask(
                    f"what is {quote(name)} of {title(row.name)}?",
                    f"its attributes: {has}",
                    clause.at,
                )
                continue
            out[name] = _converted(known[name], value)
        if clause.keep:
            if "keepdims" in known:
                out["keepdims"] = True
            else:
                self.ask(
                    f"which dimensions does {title(row.name)} keep?",
                    "only reductions drop dimensions",
                    clause.at,
                )
        place = next((n for n in ("axes", "axis") if n in known), "")
        if place and place not in out:
            out |= self.placed(clause, place, like)
        elif clause.axes is not None and not place:
            self.ask(
                f"{title(row.name)} takes no axis: what do you mean?",
                "leave out the axis",
                clause.axes.at,
            )
        for a in row.attrs:
            if a.default is None and a.name not in out and a.name != place:
                said = f"with {a.name} = {_example(a.kind)}"
                self.ask(
                    f"what is {a.name} of {title(row.name)}?",
                    f"say: {said}" + (f" ({a.doc})" if a.doc else ""),
                    clause.at,
                )
        return out

    def placed(self, clause: Clause, place: str, like: str) -> dict[str, Any]:
        """Return the axes of an op as its attribute."""
        shape = self.tensors[like].shape if like else ()
        axes = self.axes(clause, shape, several=place == "axes")
        if axes is None:
            return {}
        if place == "axes":
            return {place: axes}
        if len(axes) != 1:
            at = clause.at if clause.axes is None else clause.axes.at
            text = f"{clause.phrase} takes one axis: which one?"
            self.ask(text, _axis_choices(shape, several=False), at)
            return {}
        return {place: axes[0]}

    def axes(
        self, clause: Clause, shape: Sequence[int | str], *, several: bool
    ) -> list[int] | None:
        """Return the axes of a clause; None, with a question, if they are not given.

        Args:
            clause: the clause.
            shape: shape of the tensor with these axes.
            several: allow more than one axis.
        """
        said, rank, what = clause.axes, len(shape), clause.phrase
        choices = _axis_choices(shape, several=several)
        if said is None:
            if rank == 1:
                return [0]
            if rank == 0:
                self.ask(
                    f"along which axis is {what} computed? its operand has none",
                    "an operand with a shape",
                    clause.at,
                )
                return None
            self.ask(f"along which axis is {what} computed?", choices, clause.at)
            return None
        found = _axes(said, shape)
        if (
            not found
            or any(not -rank <= a < rank for a in found)
            or len({a % rank for a in found}) < len(found)
        ):
            self.ask(f"which axis of {_listed(shape)} do you mean?", choices, said.at)
            return None
        return found

    def composed(self, clause: Clause, c: Composition, operands: list[OperandWords]) -> None:
        """Add the nodes of a composition."""
        lo, hi = len(c.operands), len(c.operands) + len(c.weights)
        if not lo <= len(operands) <= hi:
            names = ", ".join(c.operands) + (
                f", and maybe {', '.join(c.weights)}" if c.weights else ""
            )
            text = f"{clause.phrase} takes {names}; the line names {counted(len(operands), 'operand')}: which are they?"
            self.ask(text, f"{clause.phrase} is: {c.doc}", clause.at)
            return
        x = self.value(operands[0], "")
        self.questions.raise_if_any()
        if not isinstance(x, str):
            self.ask(
                f"which tensor does {clause.phrase} take?",
                "a number is not a tensor",
                operands[0].at,
            )
            return
        shape = self.tensors[x].shape
        axes = (self.axes(clause, shape, several=True) or []) if c.has_axes else []
        if clause.axes is not None and not c.has_axes:
            self.ask(
                f"{clause.phrase} takes no axis: what do you mean?",
                "leave out the axis",
                clause.axes.at,
            )
        if clause.keep:
            self.ask(
                f"which dimensions does {clause.phrase} keep?",
                "only reductions drop dimensions",
                clause.at,
            )
        numbers = self.numbers(clause, c)
        self.questions.raise_if_any()
        along = [shape[a] for a in sorted(a % len(shape) for a in axes)] if axes else None
        rest = [
            self.value(o, x, along if k >= lo else None)
            for k, o in enumerate(operands[1:], start=1)
        ]
        weights = [r for r in rest if isinstance(r, str)]
        if len(weights) < len(rest):
            self.ask(
                f"which tensors does {clause.phrase} take?", "a number is not a tensor", clause.at
            )
        self.questions.raise_if_any()
        self.result = c.build(self, [x, *weights], axes, numbers)

    def numbers(self, clause: Clause, c: Composition) -> dict[str, float]:
        """Return the numbers of a composition."""
        out: dict[str, float] = {}
        for name, value in clause.attrs.items():
            if (
                name not in c.numbers
                or isinstance(value, bool)
                or not isinstance(value, int | float)
            ):
                has = ", ".join(c.numbers) or "none"
                self.ask(
                    f"what is {quote(name)} of {clause.phrase}?", f"its numbers: {has}", clause.at
                )
            else:
                out[name] = float(value)
        for name, default in c.numbers.items():
            if name in out:
                continue
            if default is None:
                self.ask(
                    f"what is {name} of {clause.phrase}?",
                    f"say, for instance: {c.choices[name]}",
                    clause.at,
                )
            else:
                out[name] = default
        return out


def _word(meaning: str) -> str:
    """Return an operator's name as part of an identifier."""
    word = title(meaning).replace(" ", "_")
    return f"{word}_op" if is_reserved(word) else word


def _names() -> list[str]:
    return ["x", "y", "z", *(f"x{k}" for k in range(1, 100))]


def _takes(row: OpDef, count: int) -> bool:
    return row.arity[0] <= count <= row.arity[1]


def _along(row: OpDef) -> bool:
    return bool(row.attr_names() & {"axis", "axes"})


def _exprs(shape: Sequence[int | str]) -> tuple[Expr, ...]:
    return tuple(sym(s) if isinstance(s, str) else const(s) for s in shape)


def _size(e: Expr) -> int | str:
    return e.value if e.is_const else str(e)


def _listed(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _typed(t: _Tensor) -> str:
    return f"{t.dtype} {_listed(t.shape)}"


def _axis_choices(shape: Sequence[int | str], *, several: bool) -> str:
    """Return the phrases that name axes; ``several`` allows more than one axis."""
    together = "over all axes, " if several else ""
    listed = ", ".join(f"over axis {k} (of {s})" for k, s in enumerate(shape[:8]))
    return f"over the last axis, {together}{listed}"


def _axes(said: AxisWords, shape: Sequence[int | str]) -> list[int] | None:
    """Return axes by number; None if the shape does not have them."""
    rank = len(shape)
    if said.end == "all":
        return list(range(rank))
    if said.end:
        if not 1 <= said.count <= rank:
            return None
        return (
            [k - said.count for k in range(said.count)]
            if said.end == "last"
            else list(range(said.count))
        )
    out: list[int] = []
    for a in said.listed:
        if isinstance(a, int):
            out.append(a)
        elif list(shape).count(a) == 1:
            out.append(list(shape).index(a))
        else:
            return None
    return out


def _converted(a: Attr, value: object) -> object:
    """Convert a value to the attribute's type, since a line has only one way to write it."""
    if a.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _example(kind: str) -> str:
    return {
        "shape": "[b, 64]",
        "ints": "[1, 0]",
        "dtype": "float32",
        "int": "1",
        "float": "0.5",
        "bool": "true",
        "str": "WORD",
    }[kind]
