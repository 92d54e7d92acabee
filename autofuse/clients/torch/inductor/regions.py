"""Put the kernels of a region into a graph, as nodes that Inductor launches or calls from its wrapper."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_functional,
)
from torch._prims_common import make_contiguous_strides_for
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._pytree import tree_any, tree_map_only

from autofuse.clients.torch.devices.programs import LoopsProgram, OperatorProgram, TritonProgram
from autofuse.clients.torch.inductor.operators import operator_for
from autofuse.clients.torch.lower import ScalarInput, TensorInput
from autofuse.clients.torch.places import Place
from autofuse.clients.torch.selection import Made
from autofuse.clients.torch.sizes import value_of
from autofuse.codegen.backends.triton.launches import Launch
from autofuse.codegen.nests.memory import Memory
from autofuse.implgraph.expr.expression import Expr

__all__ = ["PLACE", "insert", "write"]

#: Position in the pipeline of Inductor: its patterns have been applied, and nothing is written in place yet.
PLACE = "post_grad_custom_post_pass"

_aten = torch.ops.aten


def insert(graph: torch.fx.Graph, regions: Sequence[Made]) -> None:
    """Replace the nodes of regions by launches or calls of their kernels.

    The graph is not sorted afterwards: a result may stand behind its users.

    Args:
        graph: the graph of the regions.
        regions: regions with a program each.
    """
    order = {n: i for i, n in enumerate(graph.nodes)}
    #: Results of the regions so far, by the nodes that they replace.
    now: dict[torch.fx.Node, torch.fx.Node] = {}
    for made in regions:
        last = max(made.candidate.nodes, key=order.__getitem__)
        with graph.inserting_before(last):
            results = write(graph, made, now)
        for o, node in zip(made.lowered.outputs, results, strict=True):
            o.node.replace_all_uses_with(node)
            now[o.node] = node
    for made in regions:
        kept = set(made.candidate.outside)
        for n in reversed(made.candidate.nodes):
            if n not in kept and not n.users:
                graph.erase_node(n)


def write(
    graph: torch.fx.Graph, made: Made, now: Mapping[torch.fx.Node, torch.fx.Node]
) -> list[torch.fx.Node]:
    """Write the launches or the call of a region's kernels where nodes are inserted; return the nodes of its outputs.

    Args:
        graph: the graph to write into.
        made: the region.
        now: what stands in the graph for nodes that the region names; others stand for themselves.
    """
    return _Writer(graph, made, now).results()


class _Writer:
    """Writes the nodes of one region."""

    def __init__(
        self, graph: torch.fx.Graph, made: Made, now: Mapping[torch.fx.Node, torch.fx.Node]
    ) -> None:
        self.graph, self.made, self.now = graph, made, now
        example = next(n.meta["val"] for n in made.candidate.outputs)
        self.device, self.fake = example.device, example.fake_mode
        names = [s.name for s in made.lowered.graph.symbols]
        self.sizes = {n: self.size_at(p) for n, p in zip(names, made.places, strict=True)}

    def results(self) -> list[torch.fx.Node]:
        """Return the nodes of the outputs of the region, in order."""
        lowered = self.made.lowered
        given = [
            self.number(how) if isinstance(how, ScalarInput) else self.tensor(how, k)
            for k, how in enumerate(lowered.inputs)
        ]
        shapes = [[self.value(e) for e in o.shape] for o in lowered.outputs]
        program = self.made.built.kernel
        if isinstance(program, LoopsProgram):
            made = self.loops(program, given, shapes)
        elif isinstance(program, TritonProgram):
            made = self.launches(program, given, shapes)
        else:
            assert isinstance(program, OperatorProgram)
            made = self.operator(program, given)
        return [
            node if o.perm is None else self.call(_aten.permute.default, node, list(o.perm))
            for node, o in zip(made, lowered.outputs, strict=True)
        ]

    def launches(
        self, program: TritonProgram, given: Sequence[Any], shapes: Sequence[Sequence[Any]]
    ) -> list[torch.fx.Node]:
        """Add the launches of Triton kernels and return their results."""
        plan, outputs = program.program, self.made.lowered.outputs
        memory = dict(zip(plan.inputs, given, strict=True))
        for m, shape, o in zip(plan.outputs, shapes, outputs, strict=True):
            memory[m] = self.empty(shape, o.dtype)
        for m in plan.scratch:
            assert m.size is not None
            memory[m] = self.empty([self.value(m.size)], getattr(torch, m.dtype.name))
        for launch, kernel in zip(program.launches, program.kernels, strict=True):
            self.launch(launch, kernel, memory)
        return [memory[m] for m in plan.outputs]

    def loops(
        self, program: LoopsProgram, given: Sequence[Any], shapes: Sequence[Sequence[Any]]
    ) -> list[torch.fx.Node]:
        """Add the call of C++ loops and return its results."""
        from autofuse.clients.torch.inductor.loops import call_loops

        outputs = [(s, o.dtype) for s, o in zip(shapes, self.made.lowered.outputs, strict=True)]
        args = (program.text, program.types, given, outputs, list(self.sizes.values()))
        return self.items(self.opaque(call_loops, *args))

    def operator(self, program: OperatorProgram, given: Sequence[Any]) -> list[torch.fx.Node]:
        """Add the call of an operator and return its results."""
        target, described = operator_for(program)
        sizes = (self.sizes[a.symbol] for a in described.arguments if a.symbol)
        node = self.opaque(target, *given, *sizes)
        return [node] if len(described.results) == 1 else self.items(node)

    # nodes ------------------------------------------------------------------------------------
    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a node with its value; a plain result if no argument is a node."""
        has_nodes = tree_any(lambda a: isinstance(a, torch.fx.Node), (args, kwargs))
        if not has_nodes and not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)
        node = self.graph.call_function(target, args, kwargs)
        own, named = _values((args, kwargs))
        with self.fake:
            node.meta["val"] = target(*own, **named)
        return node

    def opaque(self, target: Any, *args: Any) -> torch.fx.Node:
        """Return a call of what needs its tensors as the graph lays them out; Inductor may lay out others anew."""
        node: torch.fx.Node = self.call(target, *args)
        node.meta["eager_input_vals"] = (_values(args), {})
        return node

    def items(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """Return the results of a call."""
        return [self.call(operator.getitem, node, k) for k in range(len(node.meta["val"]))]

    def empty(self, shape: Sequence[Any], dtype: torch.dtype) -> torch.fx.Node:
        """Return uninitialised memory."""
        node: torch.fx.Node = self.call(
            _aten.empty.memory_format,
            list(shape),
            dtype=dtype,
            device=self.device,
            pin_memory=False,
        )
        return node

    def tensor(self, how: TensorInput, k: int) -> torch.fx.Node:
        """Return input ``k`` of the graph with the strides that the kernel expects, copied if it has others."""
        node = self.now.get(how.node, how.node)
        t = node.meta["val"]
        own = self.made.lowered.graph
        declared = own.tensors[own.inputs[k]].strides
        perm = tuple(range(t.dim())) if how.perm is None else how.perm
        shape = [t.shape[p] for p in perm]
        wanted = make_contiguous_strides_for(shape)
        if declared is not None:
            wanted = tuple(int(s.value) for s in declared)
        fits = _have_strides(shape, [t.stride(p) for p in perm], wanted)
        # Unlike an address, the tensor that an operator gets shows the order of its axes.
        if how.perm is not None and (
            isinstance(self.made.built.kernel, OperatorProgram) or not fits
        ):
            node = self.call(_aten.permute.default, node, list(perm))
        if not fits:
            node = self.call(_aten.clone.default, node, memory_format=torch.contiguous_format)
        return node

    def number(self, how: ScalarInput) -> torch.fx.Node:
        """Return a number that is known at run time as a tensor of one element."""
        given: Any = how.node
        given = self.now.get(given, given) if how.expr is None else self.value(how.expr)
        node: torch.fx.Node = self.call(
            _aten.full.default,
            [],
            given,
            dtype=how.dtype,
            device=self.device,
            pin_memory=False,
        )
        return node

    def launch(self, launch: Launch, kernel: Any, memory: dict[Memory, Any]) -> None:
        """Add a launch; what it writes is known by its results from here on."""
        names = list(kernel.arg_names)
        pointers = dict(zip(names, launch.memory, strict=False))
        numbers = [self.sizes[s] for s in launch.sizes]
        numbers += [] if launch.blocks is None else [self.value(launch.blocks)]
        given: dict[str, Any] = {name: memory[m] for name, m in pointers.items()}
        given |= zip(names[len(given) :], numbers, strict=False)
        written = [name for name, m in pointers.items() if m in launch.written]
        named: dict[str, Any] = {
            "kernel_idx": kernel_side_table.add_kernel(kernel),
            "constant_args_idx": kernel_side_table.add_constant_args(dict(launch.constants)),
            "grid": [tuple(self.value(e) for e in launch.grid)],
            "tma_descriptor_metadata": {},
            "kwargs": given,
            "tensors_to_clone": written,
        }
        node = self.graph.call_function(triton_kernel_wrapper_functional, (), named)
        # Each result has memory of its own until Inductor finds that it can be that of its argument.
        with self.fake:
            node.meta["val"] = {n: given[n].meta["val"].clone() for n in written}
        # Inductor may give intermediate tensors other strides, unless it knows those that the kernel takes.
        node.meta["eager_input_vals"] = ((), _values(node.kwargs))
        for name in written:
            result = self.graph.call_function(operator.getitem, (node, name))
            result.meta["val"] = node.meta["val"][name]
            memory[pointers[name]] = result

    # sizes ------------------------------------------------------------------------------------
    def size_at(self, place: Place) -> Any:
        """Return the value of a symbol, as a number or a node."""
        node: Any = self.made.arguments[place.argument]
        node = self.now.get(node, node)
        if place.dim is not None:
            node = self.call(_aten.sym_size.int, node, place.dim)
        for factor, other in place.others:
            node = self.call(
                operator.sub, node, self.call(operator.mul, factor, self.size_at(other))
            )
        if place.plus:
            node = self.call(operator.sub, node, place.plus)
        return node if place.factor == 1 else self.call(operator.floordiv, node, place.factor)

    def value(self, e: Expr) -> Any:
        """Return an expression of sizes, as a number or a node."""
        return value_of(e, self.sizes, self.call)


def _values(tree: Any) -> Any:
    """Return the arguments of a node with values in place of nodes."""
    return tree_map_only(torch.fx.Node, lambda n: n.meta["val"], tree)


def _have_strides(shape: Sequence[Any], have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Return True if strides are known to be equal but for axes of one element."""
    return all(
        statically_known_true(h == w) or statically_known_true(n == 1)
        for n, h, w in zip(shape, have, want, strict=True)
    )
