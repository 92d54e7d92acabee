"""From a FusionGraph to a HintGraph: loads, stores, broadcasts, scalars and axes become explicit.

1. Normalise: Reshape and Identity are views of another tensor, a broadcast inside an op becomes its
   own step, an operand of one element stays as it is (it is uniform: one value for the whole
   iteration space).
2. Group: element-wise ops and views link tensors of the same number of elements; every set of
   linked tensors that holds an output of the graph is one group with its own iteration space.  A
   group recomputes what it needs from smaller tensors, so no group waits for another one.
3. Axes: a group starts with the dimensions of its first output and walks backwards; dimensions that
   do not coincide with the axes split them (:mod:`autofuse.implgraph.iteration_space`).
4. Nodes: one per (tensor, axes along which it varies), in an order that keeps live ranges short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.diagnostics import AutofuseError, Where
from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import ONE, ZERO, Expr
from autofuse.implgraph.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.graph import Attr, Axis, HintGraph, Node, TensorView
from autofuse.implgraph.iteration_space import (
    Axes,
    ConflictError,
    IterationSpace,
    contiguous_strides,
    stride_runs,
)
from autofuse.implgraph.normalise import BROADCAST, INPUT, OP, Program, Use
from autofuse.implgraph.ops import lookup
from autofuse.implgraph.ordering import execution_order

__all__ = ["group_order_hazards", "groups", "in_place_pairs", "lower"]

#: Further kinds of instances.
SCALAR, STORE = range(3, 5)


@dataclass(slots=True)
class _Inst:
    """A step for one choice of axes.  ``tensor`` is an index; -1 for scalars."""

    kind: int
    tensor: int
    axes: Axes
    operands: list[int] = field(default_factory=list)
    uses: list[tuple[int, Axes]] = field(default_factory=list)
    constant: Constant | None = None
    output: int = -1
    origin: str = ""


class _Group:
    """One group: its outputs, its axes and its instances."""

    def __init__(self, program: Program, outputs: Sequence[int]) -> None:
        self.program = program
        self.outputs = outputs
        graph = program.graph
        first = graph.outputs[outputs[0]]
        self.shape = graph.tensors[first.tensor].shape
        self.size = program.count(self.shape)
        self.empty = self.size == 0
        dims = [s for s in self.shape if s != 1]
        starts = [[ZERO]] if self.empty else [dims] if len(dims) > 1 else []
        if not self.empty:
            starts.append([self.size])
        for start in starts[:-1]:
            if self._settle(IterationSpace(start)) is None:
                return
        conflict = self._settle(IterationSpace(starts[-1]))
        if conflict is not None:
            raise self._no_space(conflict)

    def _no_space(self, e: ConflictError) -> AutofuseError:
        return AutofuseError.of(
            "AF2101",
            f"dimensions {_text(e.want)} do not line up with {_text(e.have)} in the iteration "
            f"space of {_text(self.shape)}",
            where=_where(self._current),
            hint="cut the graph at the Reshape between the two and compile it as two kernels",
        )

    def _settle(self, space: IterationSpace) -> ConflictError | None:
        """Walk until a walk makes no new split; or the reason why these axes do not do."""
        self.space = space
        try:
            while True:
                before = space.splits
                self._walk()
                if space.splits == before:
                    return None
        except ConflictError as e:
            return e

    def full(self) -> Axes:
        """Axes along which the outputs vary."""
        return () if self.size == 1 else self.space.axes()

    def _walk(self) -> None:
        self.insts: list[_Inst] = []
        self._keys: dict[tuple[object, ...], int] = {}
        self._current = ""
        self.stores: list[int] = []
        graph = self.program.graph
        for k in self.outputs:
            out = graph.outputs[k]
            inst = _Inst(
                STORE, self.program.index[out.tensor], self.full(), output=k, origin=f"/outputs/{k}"
            )
            runs = self._output_runs(k)
            if runs and not self.empty:
                self.space.align(inst.axes, [size for size, _ in runs])
            self.stores.append(self._new(inst))
        done = 0
        while done < len(self.insts):
            inst = self.insts[done]
            done += 1
            self._current = inst.origin
            axes = self.space.resolve(inst.axes)
            if inst.kind == STORE:
                inst.operands = [self._demand(inst.tensor, axes)]
            elif inst.kind == BROADCAST:
                inst.operands = [
                    self._demand(t, self.space.resolve(a)) for t, a in inst.uses
                ] or inst.operands
            elif inst.kind == OP:
                self._expand_op(inst, axes)
            elif inst.kind == INPUT:
                t = self.program.steps[inst.tensor].tensor
                if t.strides is not None and axes and not self.empty:
                    self.space.align(axes, [size for size, _ in stride_runs(t.shape, t.strides)])

    def _output_runs(self, k: int) -> tuple[tuple[Expr, Expr], ...]:
        """(size, stride) runs of the strided input that an output overwrites; else none."""
        t = self._overwritten(k)
        return stride_runs(t.shape, t.strides) if t is not None and t.strides is not None else ()

    def _overwritten(self, k: int) -> Tensor | None:
        graph = self.program.graph
        name = graph.outputs[k].inout
        if name is None or self.program.count(graph.tensors[name].shape) != self.size:
            return None
        return graph.tensors[name]

    def _expand_op(self, inst: _Inst, axes: Axes) -> None:
        step = self.program.steps[inst.tensor]
        operands: list[int] = []
        for use in step.uses:
            if use.constant is not None:
                operands.append(self._scalar(use.constant, inst.origin))
                continue
            have = self._operand_axes(use, axes)
            if use.runs is None or not have or have == axes:
                operands.append(self._demand(use.tensor, have))
            else:
                operands.append(self._broadcast(use.tensor, have, axes, inst.origin))
        inst.operands = operands

    def _operand_axes(self, use: Use, axes: Axes) -> Axes:
        if use.runs is None or not axes:
            return axes
        if self.empty:
            return axes if self.program.counts[use.tensor] == 0 else ()
        return self.space.kept(self.space.resolve(axes), use.runs)

    def _new(self, inst: _Inst) -> int:
        self.insts.append(inst)
        return len(self.insts) - 1

    def _demand(self, tensor: int, axes: Axes) -> int:
        """The instance of a tensor that varies along ``axes``."""
        while True:
            key = (tensor, axes)
            found = self._keys.get(key)
            if found is not None:
                return found
            step = self.program.steps[tensor]
            origin = step.node.origin if step.node else step.tensor.origin
            if step.kind != BROADCAST:
                n = self._keys[key] = self._new(_Inst(step.kind, tensor, axes, origin=origin))
                return n
            use = step.uses[0]
            if use.constant is not None:
                n = self._keys[key] = self._new(_Inst(BROADCAST, tensor, axes, origin=origin))
                self.insts[n].operands = [self._scalar(use.constant, origin)]
                return n
            self._current = origin
            have = self._operand_axes(use, axes)
            if have != axes:
                return self._broadcast(use.tensor, have, axes, origin)
            tensor = use.tensor

    def _broadcast(self, tensor: int, have: Axes, axes: Axes, origin: str) -> int:
        key = (tensor, have, axes)
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._new(
                _Inst(BROADCAST, tensor, axes, uses=[(tensor, have)], origin=origin)
            )
        return found

    def _scalar(self, c: Constant, origin: str) -> int:
        assert c.dtype is not None
        key = ("scalar", c.dtype.name, type(c.value).__name__, repr(c.value))
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._new(_Inst(SCALAR, -1, (), constant=c, origin=origin))
        return found

    def loads(self) -> Iterator[tuple[int, _Inst]]:
        """(input index, instance) of every load."""
        for inst in self.insts:
            if inst.kind == INPUT:
                yield self.program.steps[inst.tensor].index, inst

    def check_in_place(self) -> None:
        """Every input that this group overwrites is read element by element where it is written.

        Raises:
            AutofuseError: AF2102.
        """
        graph = self.program.graph
        written = {
            graph.inputs.index(name): graph.outputs[k].name
            for k in self.outputs
            if (name := graph.outputs[k].inout) is not None
        }
        full = self.full()
        for index, inst in self.loads() if written else ():
            if index in written and inst.axes != full:
                name = graph.inputs[index]
                raise AutofuseError.of(
                    "AF2102",
                    f"output {written[index]} overwrites {name} element by element, but the graph "
                    f"also reads {name} under another shape",
                    where=_where(inst.origin),
                    hint="write to a new tensor, or split the graph into two kernels",
                )

    def execution_order(self) -> list[int]:
        """The instances in execution order; an input is read before it is overwritten."""
        graph = self.program.graph
        operands = [i.operands for i in self.insts]
        for store, k in zip(self.stores, self.outputs, strict=True):
            name = graph.outputs[k].inout
            if name is not None:
                index = graph.inputs.index(name)
                reads = [n for n, inst in enumerate(self.insts) if self._reads(inst, index)]
                operands[store] = [*operands[store], *reads]
        return execution_order(operands, self.stores, [i.kind == SCALAR for i in self.insts])

    def _reads(self, inst: _Inst, index: int) -> bool:
        return inst.kind == INPUT and self.program.steps[inst.tensor].index == index


class _Views:
    """TensorViews of one group; ``base`` is the global id of its first axis."""

    def __init__(self, group: _Group, base: int) -> None:
        self.local = group.space.axes()
        self.sizes = tuple(group.space.sizes[a] for a in self.local)
        self.ids = tuple(range(base, base + len(self.local)))
        self._group = group
        self._shapes: dict[Axes, tuple[tuple[Expr, ...], tuple[Expr, ...]]] = {}
        self._views: dict[tuple[str, Axes], TensorView] = {}

    def axes(self) -> list[Axis]:
        """The axes for the HintGraph."""
        return [Axis(i, f"z{i}", size) for i, size in zip(self.ids, self.sizes, strict=True)]

    def view(self, dtype: DType, axes: Axes) -> TensorView:
        """A contiguous tensor that varies along ``axes``."""
        key = (dtype.name, axes)
        v = self._views.get(key)
        if v is None:
            if axes not in self._shapes:
                size = self._group.space.sizes
                steps = dict(zip(axes, contiguous_strides([size[a] for a in axes]), strict=True))
                self._shapes[axes] = self._expand(axes, steps)
            v = self._views[key] = TensorView(dtype, self.ids, *self._shapes[axes])
        return v

    def _expand(
        self, axes: Axes, steps: Mapping[int, Expr]
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        size = self._group.space.sizes
        return (
            tuple(size[a] if a in steps else ONE for a in self.local),
            tuple(steps.get(a, ZERO) for a in self.local),
        )

    def memory(self, dtype: DType, axes: Axes, t: Tensor) -> TensorView:
        """A tensor in GM with the strides and the offset of ``t``."""
        offset = t.offset if t.offset is not None else ZERO
        if t.strides is None or self._group.empty or not axes:
            v = self.view(dtype, axes)
            return TensorView(dtype, v.axis, v.repeats, v.strides, offset) if offset != ZERO else v
        runs = stride_runs(t.shape, t.strides)
        size = self._group.space.sizes
        steps: dict[int, Expr] = {}
        for part, (_, stride) in zip(
            self._group.space.align(axes, [s for s, _ in runs]), runs, strict=True
        ):
            inner = contiguous_strides([size[a] for a in part])
            steps.update((a, s * stride) for a, s in zip(part, inner, strict=True))
        return TensorView(dtype, self.ids, *self._expand(axes, steps), offset)


def _ordered_groups(program: Program) -> list[_Group]:
    graph = program.graph
    members: dict[int, list[int]] = {}
    for k, out in enumerate(graph.outputs):
        members.setdefault(program.find(program.index[out.tensor]), []).append(k)
    found = [_Group(program, outputs) for outputs in members.values()]
    for g in found:
        g.check_in_place()
    writers: dict[int, int] = {}
    for n, g in enumerate(found):
        for k in g.outputs:
            name = graph.outputs[k].inout
            if name is not None:
                writers[graph.inputs.index(name)] = n
    # before[n]: groups that must run before group n
    before: list[set[int]] = [set() for _ in found]
    for n, g in enumerate(found):
        for index, _ in g.loads():
            if writers.get(index, n) != n:
                before[writers[index]].add(n)
    order: list[int] = []
    left = list(range(len(found)))
    while left:
        ready = next((n for n in left if not before[n] - set(order)), None)
        if ready is None:
            names = ", ".join(graph.outputs[k].name for n in left for k in found[n].outputs)
            raise AutofuseError.of(
                "AF2102",
                f"the outputs {names} overwrite inputs that each other's computation still reads",
                hint="write one of them to a new tensor",
            )
        order.append(ready)
        left.remove(ready)
    return [found[n] for n in order]


def lower(graph: FusionGraph) -> HintGraph:
    """The HintGraph of a FusionGraph.

    Data and Output nodes have no axes; all other nodes carry all axes of their group (``repeats``
    is 1 and the stride is 0 along axes on which a tensor does not vary).  Operands of one element
    are used as they are: an element-wise op takes them as uniform operands, without a Broadcast; a
    constant is a Scalar node.  The input of a Store is never a Scalar.  An Output that overwrites
    an input has that input's index as the attribute ``inout``.

    Raises:
        AutofuseError: AF2101 when the shapes have no common iteration space, AF2102 when an
            in-place write conflicts with a read.
    """
    program = Program(graph)
    ordered = _ordered_groups(program)
    names = _Names(graph, ordered)
    axes: list[Axis] = []
    body: list[Node] = []
    stored: dict[int, str] = {}
    for g in ordered:
        views = _Views(g, len(axes))
        axes += views.axes()
        _build(g, views, names, body, stored)
    data = [
        Node(
            f"Data_{i}",
            "Data",
            (),
            TensorView(graph.tensors[x].dtype, (), (), ()),
            {"index": i},
            origin=graph.tensors[x].origin,
        )
        for i, x in enumerate(graph.inputs)
    ]
    outputs: list[Node] = []
    for k, out in enumerate(graph.outputs):
        attrs: dict[str, Attr] = {"index": k}
        if out.inout is not None:
            attrs["inout"] = graph.inputs.index(out.inout)
        view = TensorView(graph.tensors[out.tensor].dtype, (), (), ())
        outputs.append(
            Node(f"Output_{k}", "Output", (stored[k],), view, attrs, origin=f"/outputs/{k}")
        )
    return HintGraph(graph.name, graph.symbols, tuple(axes), (*data, *body, *outputs))


class _Names:
    """Names of nodes: fixed patterns for what lowering adds, the user's names for ops."""

    def __init__(self, graph: FusionGraph, ordered: Sequence[_Group]) -> None:
        self._next = dict.fromkeys(("gather", "broadcast", "scalar", "store"), 0)
        kinds = [i.kind for g in ordered for i in g.insts]
        self._taken = {f"Data_{i}" for i in range(len(graph.inputs))}
        self._taken |= {f"Output_{i}" for i in range(len(graph.outputs))}
        for prefix, kind in (("gather", INPUT), ("broadcast", BROADCAST), ("scalar", SCALAR)):
            self._taken |= {f"{prefix}_{i}" for i in range(kinds.count(kind))}
        self._taken |= {_store_name(i) for i in range(len(graph.outputs))}
        self._users = {n.name for n in graph.nodes}
        self._suffix: dict[str, int] = {}

    def number(self, prefix: str) -> str:
        """The next ``prefix_<k>``; stores are ``store``, ``store_1``, ..."""
        k = self._next[prefix]
        self._next[prefix] = k + 1
        return _store_name(k) if prefix == "store" else f"{prefix}_{k}"

    def user(self, name: str) -> str:
        """``name``, or with a suffix when it is taken."""
        new, k = name, self._suffix.get(name, 0)
        while new in self._taken or (k and new in self._users):
            k += 1
            new = f"{name}_{k}"
        self._suffix[name] = k
        self._taken.add(new)
        return new


def _store_name(k: int) -> str:
    return f"store_{k}" if k else "store"


def _build(
    g: _Group, views: _Views, names: _Names, body: list[Node], stored: dict[int, str]
) -> None:
    program = g.program
    made: dict[int, Node] = {}

    def emit(
        n: int,
        name: str,
        op: str,
        inputs: tuple[str, ...],
        y: TensorView,
        attrs: Mapping[str, Attr],
    ) -> None:
        made[n] = Node(name, op, inputs, y, attrs, axis=views.ids, origin=g.insts[n].origin)
        body.append(made[n])

    for n in g.execution_order():
        inst = g.insts[n]
        operands = tuple(made[i].name for i in inst.operands)
        step = program.steps[inst.tensor]
        if inst.kind == INPUT:
            y = views.memory(step.tensor.dtype, inst.axes, step.tensor)
            emit(n, names.number("gather"), "Load", (f"Data_{step.index}",), y, {})
        elif inst.kind == SCALAR:
            assert inst.constant is not None
            assert inst.constant.dtype is not None
            y = views.view(inst.constant.dtype, ())
            emit(n, names.number("scalar"), "Scalar", (), y, {"value": inst.constant.value})
        elif inst.kind == BROADCAST:
            y = views.view(made[inst.operands[0]].y.dtype, inst.axes)
            emit(n, names.number("broadcast"), "Broadcast", operands, y, {})
        elif inst.kind == OP:
            assert step.node is not None
            y = views.view(step.tensor.dtype, inst.axes)
            emit(
                n,
                names.user(step.node.name),
                lookup(step.node.op).name,
                operands,
                y,
                _attrs(step.node),
            )
        else:
            k = inst.output
            overwritten = g._overwritten(k)
            y = views.view(made[inst.operands[0]].y.dtype, inst.axes)
            if overwritten is not None:
                y = views.memory(y.dtype, inst.axes, overwritten)
            emit(n, names.number("store"), "Store", operands, y, {})
            stored[k] = made[n].name


def _attrs(node: FusionNode) -> dict[str, Attr]:
    out: dict[str, Attr] = {}
    for key, value in node.attrs.items():
        if isinstance(value, tuple):
            ints = tuple(v for v in value if isinstance(v, int))
            if len(ints) == len(value):
                out[key] = ints
        else:
            out[key] = value
    return out


def _text(shape: Sequence[Expr]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _where(pointer: str, node: str = "") -> Where:
    return Where(pointer=pointer, node=node)


def groups(hint: HintGraph) -> list[tuple[Node, ...]]:
    """The nodes of every group in execution order, without Data and Output nodes.

    Groups have disjoint axes; they run in this order.
    """
    found: dict[int, list[Node]] = {}
    for n in hint.nodes:
        if n.axis:
            found.setdefault(n.axis[0], []).append(n)
    return [tuple(v) for v in found.values()]


def group_order_hazards(hint: HintGraph) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of groups: the later one overwrites an input that the earlier reads.

    :func:`lower` orders the groups so that ``earlier < later``; a kernel that runs both needs a
    barrier between them.
    """
    group_of = {n.name: g for g, nodes in enumerate(groups(hint)) for n in nodes}
    writers = _writers(hint)
    pairs = {
        (group_of[n.name], group_of[writers[n.inputs[0]]])
        for n in hint.ops("Load")
        if n.inputs[0] in writers
    }
    return sorted((a, b) for a, b in pairs if a != b)


def in_place_pairs(hint: HintGraph) -> list[tuple[str, str]]:
    """Pairs (Load, Store) of one group where the Store overwrites what the Load reads.

    Both touch the same elements in the same iteration, so the Load must come first; where the
    stored value does not depend on it, the copy to GM must wait for the copy from GM.
    """
    writers = _writers(hint)
    if not writers:
        return []
    axis = {n.name: n.axis for n in hint.ops("Store")}
    return [
        (n.name, writers[n.inputs[0]])
        for n in hint.ops("Load")
        if n.inputs[0] in writers and axis[writers[n.inputs[0]]] == n.axis
    ]


def _writers(hint: HintGraph) -> dict[str, str]:
    """The Store that overwrites an input, by the name of the Data node."""
    return {
        f"Data_{out.attrs['inout']}": out.inputs[0]
        for out in hint.ops("Output")
        if "inout" in out.attrs
    }
