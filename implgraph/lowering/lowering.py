"""Lowering of a FusionGraph to a HintGraph: loads, stores, broadcasts, scalars and axes become explicit.

1. Narrow, if the target is known: integers move to types that take fewer calls
   (:mod:`autofuse.implgraph.rewrites.narrowing`).  Decompose: primitives of activations are recognised as the
   activation (:mod:`autofuse.implgraph.rewrites.recognise`), composite ops are written out
   (:mod:`autofuse.implgraph.rewrites.decompose`), and large reductions are divided among the cores
   (:mod:`autofuse.implgraph.division.split_reductions`).
2. Normalise: Reshape and Identity are views of another tensor, a broadcast inside an op becomes its own step, a
   one-element operand stays as it is (uniform: one value for the whole iteration space).
3. Group: outputs that can be computed in one iteration space form one group; tensors that do not fit go through a
   workspace (:mod:`autofuse.implgraph.lowering.partition`).
4. Axes: a group starts with the dimensions of its first output and walks backwards; dimensions that
   do not coincide with the axes split them (:mod:`autofuse.implgraph.lowering.walk`).
5. Nodes: one per (tensor, axes along which it varies), in an order that keeps live ranges short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.observing import Watch, told
from autofuse.implgraph.division.once import computed_once
from autofuse.implgraph.division.outer_first import outer_first
from autofuse.implgraph.division.row_parts import in_row_parts
from autofuse.implgraph.division.split_reductions import split_forms
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ir.graph import Attr, Axis, HintGraph, Node, TensorView
from autofuse.implgraph.ir.group_order import group_order_hazards, groups, in_place_pairs
from autofuse.implgraph.ir.iteration_space import Axes, contiguous_strides, stride_runs
from autofuse.implgraph.lowering.axis_order import Traffic, axis_order
from autofuse.implgraph.lowering.group import Group, Result
from autofuse.implgraph.lowering.normalise import BROADCAST, INPUT, IOTA, REDUCE, SCAN, Program
from autofuse.implgraph.lowering.partition import partition
from autofuse.implgraph.lowering.shared import computed_in_several, transposed_apart
from autofuse.implgraph.lowering.walk import RELOAD, SCALAR, STORE, SUM, Inst, Places
from autofuse.implgraph.ops.registry import find_call, lookup
from autofuse.implgraph.ops.requirements import may_overlap, memory_span
from autofuse.implgraph.ops.rows.reductions import PART
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.early_gathers import with_early_gathers
from autofuse.implgraph.rewrites.frames import reaches_out
from autofuse.implgraph.rewrites.narrowing import narrowed
from autofuse.implgraph.rewrites.nested_pads import with_nested_pads_joined
from autofuse.implgraph.rewrites.recognise import recognise
from autofuse.implgraph.rewrites.running_sums import with_whole_running_sums
from autofuse.implgraph.rewrites.zero_strides import without_zero_strides
from autofuse.targets import TargetSpec

__all__ = [
    "group_order_hazards",
    "groups",
    "in_place_pairs",
    "lower",
    "lower_all",
    "lower_undivided",
    "lower_written",
]

#: More elements behind a Load make no difference: they complete a block of at most 32 of them.
_MOST_BEHIND = 31


def lower_all(
    graph: FusionGraph,
    target: TargetSpec,
    *,
    columns: bool = True,
    watch: Watch | None = None,
) -> tuple[HintGraph, ...]:
    """Return the candidate forms of a FusionGraph: one, or more where reductions can be divided or done in steps.

    With symbols, the host chooses by the sizes of a call.  With known sizes, the scheduler chooses, also between
    computing the pieces of short rows together or separately, and between a Gather of rows with a known index and the
    equivalent Slices.

    Where the order of sums must be fixed (``target.invariant``), there is one form, in which nothing is divided.

    Args:
        graph: as for :func:`lower`.
        target: the chip.
        columns: compute pieces of short rows together even if they share no loads.
        watch: notified of every step.

    Raises:
        AutofuseError: AF3001 if the target lacks an element type; otherwise as :func:`lower`.
    """
    _check_dtypes(graph, target)
    graph = told(watch, "zero-strides", graph, without_zero_strides(graph))
    graph = told(watch, "nested-pads", graph, with_nested_pads_joined(graph))
    graph = told(watch, "narrow", graph, narrowed(graph, target))
    graph = told(watch, "recognise", graph, recognise(graph))
    early = told(watch, "early-gathers", graph, with_early_gathers(graph))
    written = told(watch, "decompose", early, decompose(early, rows_in_ub=(_row_in_ub(target), 0)))
    if target.invariant:
        # The division of a reduction depends on the number of cores and of kept elements.
        return (told(watch, "loops", written, _lowered(written, columns)[0]),)
    forms: list[HintGraph] = []
    refused: list[tuple[FusionGraph, AutofuseError]] = []
    for way in (written, *_rewritten(graph, early, written, target, watch)):
        for form in split_forms(way, target):
            made = told(watch, "split-reductions", way, form)
            forms += _loops(made, columns, target, refused, watch)
    parted = told(watch, "row-parts", written, in_row_parts(written, target))
    if parted is not written:
        forms += _loops(split_forms(parted, target)[0], columns, target, refused, watch)
    if not forms:
        for form, e in refused:
            if form is written:
                raise e
    return tuple(forms) or (told(watch, "loops", written, lower_written(written)),)


def _check_dtypes(graph: FusionGraph, target: TargetSpec) -> None:
    """Raise AF3001 for tensors whose element type the target lacks, one message per type."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys((*graph.inputs, *graph.tensors)):
        dtype = graph.tensors[name].dtype
        if dtype.cpp in target.arch.lacks:
            found.setdefault(dtype.name, []).append(name)
    if found:
        hint = "cast to float16 or float32 before the kernel and back after it"
        raise AutofuseError(
            Diagnostic("AF3001", f"{target.name} has no {d}, which {_named(names)} have", hint=hint)
            for d, names in found.items()
        )


def _named(names: Sequence[str]) -> str:
    """Return the first twelve items as a list in words."""
    more = len(names) - 12
    shown = [*names[:12], *([f"{more} more"] if more > 0 else [])]
    return " and ".join(p for p in (", ".join(shown[:-1]), shown[-1]) if p)


def _loops(
    form: FusionGraph,
    columns: bool,
    target: TargetSpec,
    refused: list[tuple[FusionGraph, AutofuseError]],
    watch: Watch | None,
) -> Iterator[HintGraph]:
    """Yield the HintGraphs of a form; none without common axes.

    For known sizes also with pieces of short rows apart; where it saves time, also with tensors that are computed once.
    A form that has no common axes once divided stays undivided.  ``refused`` receives the form and the error.
    """
    try:
        hint, ordered = _lowered(form, columns)
        yield told(watch, "loops", form, hint)
        if any(g.columns for g in ordered) and not form.symbols:
            yield told(watch, "loops, columns apart", form, _lowered(form, False)[0])
        behind, front = transposed_apart(ordered[0].program)
        for title, cuts in {
            "some computed once": computed_once(form, target),
            "shared tensors computed once": computed_in_several(ordered),
            "cut behind transpositions": behind,
            "cut in front of transpositions": front,
        }.items():
            if cuts:
                made = _lowered(form, columns, cuts=cuts)[0]
                yield told(watch, f"loops, {title}", form, made)
    except AutofuseError as e:
        # Drop the stack frames, which refer to the list.
        refused.append((form, told(watch, "loops", form, e.with_traceback(None))))


def _rewritten(
    graph: FusionGraph,
    early: FusionGraph,
    written: FusionGraph,
    target: TargetSpec,
    watch: Watch | None,
) -> Iterator[FusionGraph]:
    """Yield alternatives to ``written`` for decomposing a graph where the fastest one depends on the sizes.

    With symbols, alternatives that a kernel would hardly need as well are left out.  ``early``: the graph with gathers
    in front of element-wise work; places are compared along the rows of the graph itself.
    """
    all_ops = {n.op for n in graph.nodes}
    ops = set[str]() if graph.symbols else all_ops
    row = _row_in_ub(target)
    ways: list[dict[str, Any]] = [{"gather_rows": True}] if "Gather" in ops else []
    ways += [{"frames": True}] if ops & {"Concat", "Pad"} else []
    ways += [{"compare_places": True}] if "GatherElements" in ops else []
    if row and all_ops & {"Gather", "GatherElements"}:
        ways += [{"rows_in_ub": (row, target.ub_usable // 2)}, {"rows_in_ub": (0, 0)}]
    found = [written]
    for how in ways:
        base = graph if "compare_places" in how else early
        other = told(watch, _title(how), base, decompose(base, **{"rows_in_ub": (row, 0)} | how))
        if other not in found:
            found.append(other)
    other = told(watch, "outer-first", written, outer_first(written, target))
    yield from [*found[1:], *([other] if other not in found else [])]


def _title(how: Mapping[str, Any]) -> str:
    ((name, value),) = how.items()
    return f"decompose, {name}" if value is True else f"decompose, {name} {value}"


def _row_in_ub(target: TargetSpec) -> int:
    """Return the most bytes of a row of which gathers take elements in UB: two buffers are a quarter of it."""
    return 0 if find_call("TakeRows", target.arch) is None else target.ub_usable // 8


def lower_undivided(
    graph: FusionGraph, watch: Watch | None = None, *, masks: bool = False
) -> HintGraph:
    """Return the HintGraph for a backend that plans kernels itself: integers are not narrowed, reductions not divided.

    Args:
        graph: as for :func:`lower`.
        watch: notified of every step.
        masks: a Load may have the attribute ``inside``, the number of elements of the tensor that it reads: positions
            below 0 or at least ``inside`` are out of bounds, and nothing uses their values.

    Raises:
        AutofuseError: as :func:`lower`.
    """
    graph = told(watch, "zero-strides", graph, without_zero_strides(graph))
    graph = told(watch, "nested-pads", graph, with_nested_pads_joined(graph))
    graph = told(watch, "running-sums", graph, with_whole_running_sums(graph))
    written = decompose(with_early_gathers(recognise(graph)), native_integers=True, masks=masks)
    graph = told(watch, "decompose", graph, written)
    return told(watch, "loops", graph, _lowered(graph, True, masks=masks)[0])


def lower(graph: FusionGraph) -> HintGraph:
    """Return the HintGraph of a FusionGraph, for one core or many: reductions are not divided.

    Data, Output and Workspace nodes have no axes; all other nodes carry all axes of their group (``repeats`` is 1 and
    the stride is 0 along axes on which a tensor does not vary).  One-element operands are used directly: an
    element-wise op takes them as uniform operands, without a Broadcast, unless a reduction produces them; a constant is
    a Scalar node.  The input of a Store is never a Scalar.  An Output that overwrites an input has that input's index
    as the attribute ``inout``.  Several Outputs of one ``index`` are pieces of it; a Workspace (attributes ``index``,
    and ``size`` in elements) has the Stores that write it as inputs.

    Raises:
        AutofuseError: AF2101 if the shapes have no common iteration space, AF2103 if an op cannot be compiled.
    """
    return lower_written(decompose(recognise(graph)))


def lower_written(graph: FusionGraph) -> HintGraph:
    """Lower a graph whose composite ops are already decomposed, without rewriting it.

    Raises:
        AutofuseError: as :func:`lower`.
    """
    return _lowered(graph, True)[0]


def _lowered(
    graph: FusionGraph, columns: bool, *, masks: bool = False, cuts: Sequence[str] = ()
) -> tuple[HintGraph, list[Group]]:
    """Return the HintGraph and its groups; ``cuts``: tensors that pass through a workspace.

    Pieces of short rows are computed together only with ``columns``.
    """
    program = Program(graph, masks=masks)
    ordered = partition(program, columns=columns, cuts=[program.index[x] for x in cuts])
    return _Builder(program, ordered).graph(), ordered


class _Views:
    """TensorViews of one group; ``base`` is the global id of its first axis."""

    def __init__(self, group: Group, base: int) -> None:
        space = group.space
        self.space = space
        local = space.axes() or space.add_axes([ONE])  # every group has an axis
        steps = group.program.steps
        stored = {n: r.memory for n, r in zip(group.walk.stores, group.results, strict=True)}
        traffic = [
            Traffic(
                self._strides(i.axes, steps[i.tensor].tensor if i.kind == INPUT else stored.get(n))[
                    0
                ]
            )
            for n, i in enumerate(group.insts)
            if i.kind in (INPUT, RELOAD, STORE)
        ]
        traffic += [Traffic(self._indexed(i.places)[0]) for i in group.insts if i.places]
        self.local = axis_order(local, space.sizes, traffic, group.program.graph.symbols)
        self.sizes = tuple(space.sizes[a] for a in self.local)
        self.ids = tuple(range(base, base + len(self.local)))
        self._shapes: dict[Axes, tuple[tuple[Expr, ...], tuple[Expr, ...]]] = {}
        self._views: dict[tuple[str, Axes], TensorView] = {}

    def axes(self) -> list[Axis]:
        """Return the axes for the HintGraph."""
        return [Axis(i, f"z{i}", size) for i, size in zip(self.ids, self.sizes, strict=True)]

    def view(self, dtype: DType, axes: Axes) -> TensorView:
        """Return the view of a contiguous tensor that varies along ``axes``."""
        axes = self.space.flatten(axes)
        key = (dtype.name, axes)
        v = self._views.get(key)
        if v is None:
            if axes not in self._shapes:
                # UB uses the order of the axes, whatever the order of the tensor's dimensions.
                ordered = tuple(a for a in self.local if a in axes)
                size = self.space.sizes
                inner = contiguous_strides([size[a] for a in ordered])
                self._shapes[axes] = self._expand(dict(zip(ordered, inner, strict=True)))
            v = self._views[key] = TensorView(dtype, self.ids, *self._shapes[axes])
        return v

    def _expand(self, steps: Mapping[int, Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        size = self.space.sizes
        return (
            tuple(size[a] if a in steps else ONE for a in self.local),
            tuple(steps.get(a, ZERO) for a in self.local),
        )

    def memory(self, dtype: DType, axes: Axes, t: Tensor | None = None) -> TensorView:
        """Return the view of a tensor in GM with the strides and offset of ``t``, or dense."""
        steps, offset = self._strides(axes, t)
        return TensorView(dtype, self.ids, *self._expand(steps), offset)

    def _strides(self, axes: Axes, t: Tensor | None) -> tuple[dict[int, Expr], Expr]:
        """Return the stride per axis, and the offset."""
        strided = t is not None and t.strides is not None and axes
        offset = t.offset if t is not None and t.offset is not None else ZERO
        if strided:
            assert t is not None
            assert t.strides is not None
            runs = stride_runs(t.shape, t.strides)
            parts = self.space.align(axes, [s for s, _ in runs])
        else:
            runs, parts = ((ONE, ONE),), [axes]
        steps: dict[int, Expr] = {}
        for part, (_, stride) in zip(parts, runs, strict=True):
            offset = offset + self._along(part, stride, steps)
        return steps, offset

    def _along(self, part: Axes, stride: Expr, steps: dict[int, Expr]) -> Expr:
        """Add the strides of the axes of one dimension to ``steps``; return the initial offset of its windows."""
        size, offset = self.space.sizes, ZERO
        for a, inner in zip(part, contiguous_strides([size[a] for a in part]), strict=True):
            w = self.space.window_of(a)
            if w is None:
                steps[a] = inner * stride
                continue
            offset = offset + w.offset * inner * stride
            base = self.space.resolve(w.base)
            for b, s in zip(base, contiguous_strides([size[b] for b in base]), strict=True):
                steps[b] = s * inner * stride * w.step
        return offset

    def indexed(self, dtype: DType, axes: Axes, places: Places) -> TensorView:
        """Return the view of indexed elements in GM: the stride is 0 along the axes of the index."""
        steps, offset = self._indexed(places)
        whole = dict.fromkeys(self.space.flatten(axes), ZERO) | steps
        return TensorView(dtype, self.ids, *self._expand(whole), offset)

    def _indexed(self, places: Places) -> tuple[dict[int, Expr], Expr]:
        steps: dict[int, Expr] = {}
        offset = places.offset
        for part, stride in places.parts:
            offset = offset + self._along(part, stride, steps)
        return steps, offset


class _Names:
    """Names of nodes: fixed patterns for nodes added by lowering, the user's names for ops."""

    def __init__(self, graph: FusionGraph, ordered: Sequence[Group]) -> None:
        self._next = dict.fromkeys(("gather", "broadcast", "scalar", "store", "iota"), 0)
        kinds = [i.kind for g in ordered for i in g.insts]
        stores = sum(len(g.results) for g in ordered)
        self._taken = {f"Data_{i}" for i in range(len(graph.inputs))}
        self._taken |= {f"Output_{i}" for i in range(len(graph.outputs))}
        self._taken |= {f"Workspace_{i}" for i in range(stores)}
        loads = kinds.count(INPUT) + kinds.count(RELOAD)
        counts = {"gather": loads, "iota": kinds.count(IOTA), "scalar": kinds.count(SCALAR)}
        for prefix, count in {**counts, "broadcast": kinds.count(BROADCAST)}.items():
            self._taken |= {f"{prefix}_{i}" for i in range(count)}
        self._taken |= {_store_name(i) for i in range(stores)}
        self._users = {n.name for n in graph.nodes}
        self._suffix: dict[str, int] = {}

    def number(self, prefix: str) -> str:
        """Return the next ``prefix_<k>``; stores are ``store``, ``store_1``, ..."""
        k = self._next[prefix]
        self._next[prefix] = k + 1
        return _store_name(k) if prefix == "store" else f"{prefix}_{k}"

    def user(self, name: str) -> str:
        """Return ``name``, with a suffix if it is taken."""
        new, k = name, self._suffix.get(name, 0)
        while new in self._taken or (k and new in self._users):
            k += 1
            new = f"{name}_{k}"
        self._suffix[name] = k
        self._taken.add(new)
        return new


def _store_name(k: int) -> str:
    return f"store_{k}" if k else "store"


class _Builder:
    """Builds the nodes of all groups."""

    def __init__(self, program: Program, ordered: Sequence[Group]) -> None:
        self.program = program
        self.ordered = ordered
        self.names = _Names(program.graph, ordered)
        self.body: list[Node] = []
        self.axes: list[Axis] = []
        #: The Stores of each output, and of each workspace, by index.
        self.outputs: dict[int, list[str]] = {}
        self.spills: dict[int, list[str]] = {}
        self.workspace = {
            r.tensor: r.workspace for g in ordered for r in g.results if r.workspace >= 0
        }

    def graph(self) -> HintGraph:
        """Return the graph."""
        g = self.program.graph
        missing = {
            w: sum(r.workspace == w for x in self.ordered for r in x.results)
            for w in self.workspace.values()
        }
        for group in self.ordered:
            views = _Views(group, len(self.axes))
            self.axes += views.axes()
            self._group(group, views)
            for result in group.results:
                w = result.workspace
                if w >= 0 and len(self.spills[w]) == missing.get(w):
                    del missing[w]
                    self.body.append(self._workspace(result))
        data = [
            Node(
                f"Data_{i}",
                "Data",
                (),
                TensorView(g.tensors[x].dtype, (), (), ()),
                {"index": i},
                origin=g.tensors[x].origin,
            )
            for i, x in enumerate(g.inputs)
        ]
        outputs = [n for k in range(len(g.outputs)) for n in self._outputs(k)]
        return HintGraph(g.name, g.symbols, tuple(self.axes), (*data, *self.body, *outputs))

    def _workspace(self, result: Result) -> Node:
        step = self.program.steps[result.tensor]
        attrs: dict[str, Attr] = {
            "index": result.workspace,
            "size": self.program.counts[result.tensor],
        }
        view = TensorView(step.tensor.dtype, (), (), ())
        name = f"Workspace_{result.workspace}"
        stores = tuple(self.spills[result.workspace])
        return Node(name, "Workspace", stores, view, attrs, origin=step.origin)

    def _outputs(self, k: int) -> list[Node]:
        g = self.program.graph
        out = g.outputs[k]
        attrs: dict[str, Attr] = {"index": k}
        if out.inout is not None:
            attrs["inout"] = g.inputs.index(out.inout)
        view = TensorView(g.tensors[out.tensor].dtype, (), (), ())
        made: list[Node] = []
        for store in self.outputs[k]:
            name = f"Output_{k}" if not made else self.names.user(f"Output_{k}")
            made.append(Node(name, "Output", (store,), view, attrs, origin=f"/outputs/{k}"))
        return made

    def _group(self, group: Group, views: _Views) -> None:
        made: dict[int, Node] = {}
        stores = dict(zip(group.walk.stores, group.results, strict=True))
        for n in group.execution_order():
            inst = group.insts[n]
            operands = [made[i] for i in inst.operands]
            result = stores.get(n)
            if result is not None:
                node = self._store(views, inst, operands[0], result)
            else:
                node = self._node(views, inst, operands)
            made[n] = node
            self.body.append(node)

    def _store(self, views: _Views, inst: Inst, operand: Node, result: Result) -> Node:
        y = views.memory(operand.y.dtype, inst.axes, result.memory)
        name = self.names.number("store")
        table = self.outputs if result.output >= 0 else self.spills
        table.setdefault(max(result.output, result.workspace), []).append(name)
        return Node(name, "Store", (operand.name,), y, axis=views.ids, origin=inst.origin)

    def _node(self, views: _Views, inst: Inst, operands: Sequence[Node]) -> Node:
        step = self.program.steps[inst.tensor]
        dtype = step.tensor.dtype
        inputs = tuple(o.name for o in operands)
        attrs: dict[str, Attr] = {}
        y = views.view(dtype, inst.axes)
        if inst.kind == INPUT:
            name, op = self.names.number("gather"), "Load"
            inputs = (f"Data_{step.index}",)
            y = views.memory(dtype, inst.axes, step.tensor)
            if may_overlap(step.tensor, self.program.graph.symbol_ranges()):
                attrs = {"overlap": True}
            attrs |= self._inside(views, inst)
            if "inside" not in attrs and not self._is_overwritten(step.index):
                attrs |= self._behind(memory_span(step.tensor), y)
        elif inst.kind == RELOAD:
            name, op = self.names.number("gather"), "Load"
            inputs = (f"Workspace_{self.workspace[inst.tensor]}",)
            y = views.memory(dtype, inst.axes)
            attrs = self._inside(views, inst)
            attrs = attrs or self._behind(self.program.counts[inst.tensor], y)
        elif inst.places is not None:
            assert step.node is not None
            name, op = self.names.user(step.node.name), "Load"
            inputs = (self._memory_of(inst.places), *inputs)
            y = views.indexed(dtype, inst.axes, inst.places)
            attrs = {"stride": inst.places.stride, "extent": inst.places.extent}
            attrs |= {"taken": True} if step.node.op == "Take" else {}
        elif inst.kind == SCALAR:
            assert inst.constant is not None
            assert inst.constant.dtype is not None
            name, op = self.names.number("scalar"), "Scalar"
            y = views.view(inst.constant.dtype, ())
            attrs = _scalar_attrs(inst.constant)
        elif inst.kind == BROADCAST:
            name, op = self.names.number("broadcast"), "Broadcast"
            y = views.view(operands[0].y.dtype, inst.axes)
        elif inst.kind == IOTA:
            name, op = self.names.number("iota"), "Iota"
            attrs = {"start": _number(inst.line[0]), "step": _number(inst.line[1])}
        elif inst.kind == SCAN:
            assert step.node is not None
            assert views.space.scanned is not None
            name, op = self.names.user(step.node.name), "Scan"
            along, reverse = views.space.scanned
            attrs = {
                "axes": tuple(views.ids[views.local.index(a)] for a in views.space.resolve(along)),
                "exclusive": bool(step.node.attrs.get("exclusive", False)),
                "reverse": reverse,
            }
        elif inst.kind == SUM:
            assert step.node is not None
            name, op = self.names.user(f"{step.node.name}_sum"), "Add"
        else:
            assert step.node is not None
            name, op = self.names.user(step.node.name), lookup(step.node.op).name
            attrs = _attrs(step.node) if inst.kind != REDUCE else {}
            if step.part:
                attrs = {PART: step.part}
        return Node(name, op, inputs, y, attrs, axis=views.ids, origin=inst.origin)

    def _inside(self, views: _Views, inst: Inst) -> dict[str, Attr]:
        """Return the attribute ``inside``, the number of elements, if some positions are out of bounds; else none."""
        if not self.program.masks or not reaches_out(views.space, inst.axes):
            return {}
        return {"inside": _number(self.program.counts[inst.tensor])}

    def _is_overwritten(self, index: int) -> bool:
        """Return True if an output overwrites the input of this index: other cores may be writing next to a Load."""
        g = self.program.graph
        return any(o.inout == g.inputs[index] for o in g.outputs)

    def _behind(self, span: Expr, y: TensorView) -> dict[str, Attr]:
        """Return the attribute ``behind``, the number of elements after the last one of a Load, if there are any.

        Args:
            span: elements of the memory that it reads.
            y: its view of that.
        """
        ranges = self.program.graph.symbol_ranges()
        last = y.offset
        for size, stride in zip(y.repeats, y.strides, strict=True):
            low, high = bounds(stride, ranges)
            if low >= 0:
                last = last + (size - 1) * stride
            elif high > 0:
                return {}
        left = bounds(span - 1 - last, ranges)[0]
        return {"behind": min(left, _MOST_BEHIND)} if left > 0 else {}

    def _memory_of(self, places: Places) -> str:
        """Return the node of the indexed tensor's memory."""
        w = self.workspace.get(places.source)
        return f"Data_{self.program.steps[places.source].index}" if w is None else f"Workspace_{w}"


def _scalar_attrs(c: Constant) -> dict[str, Attr]:
    return {"value": c.value} if c.expr is None else {"expr": c.expr}


def _number(e: Expr) -> Attr:
    return e.value if e.is_const else e


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
