"""Regions as operators of PyTorch, with the schemas of ``--entry torch``, for kernels that Inductor cannot launch.

Inductor calls them as it calls operators of any library.  The code that it writes defines the operators that it calls:
it may come from a cache, in another process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch._inductor.ir import FallbackKernel, IRNode
from torch.utils._pytree import tree_map_only

from autofuse.base import artifacts
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.devices.kernels import built_for, key_of
from autofuse.clients.torch.devices.programs import OperatorProgram
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.places import Place, as_line
from autofuse.clients.torch.region import Launcher
from autofuse.clients.torch.sizes import value_of
from autofuse.codegen.backends.ascendc.torchext.schema import Operator, operator_of
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as, json_text, to_json

__all__ = ["defined", "operator_for"]

_SPACE = "autofuse"
#: Letters of a digest in the name of an operator.
_DIGITS = 12
#: Type of device -> key of PyTorch's dispatcher.
_KEYS = {"cpu": "CPU", "npu": "PrivateUse1"}
#: Inductor makes intermediate tensors with the strides of the graph.  Inductors that do not know the first tag, as that
#: of torch_npu for MLIR, heed the second one.
_TAGS = (torch.Tag.needs_exact_strides, torch.Tag.needs_fixed_stride_order)


def operator_for(program: OperatorProgram) -> tuple[Any, Operator]:
    """Return the operator of a kernel, and its description; equal ones are defined once in a process.

    Raises:
        AutofuseError: AF5007, PyTorch has no such operator: the graph has no tensor as an input.
    """
    graph, options = program.graph, program.options
    key = key_of(graph, options, program.device)
    digest = artifacts.digest(json.dumps([key, options.threads]))
    found = _OPERATORS.get(f"{graph.name}_{digest[:_DIGITS]}", program)
    return found.target, found.described


def defined(name: str, graph: str, options: Mapping[str, Any], device: str) -> Any:
    """Return an operator, defining it if this process does not have it; code of Inductor calls this.

    Args:
        name: its name.
        graph: JSON of its graph.
        options: options of the backend.
        device: type of the device of its tensors.
    """
    read = from_json_as(FusionGraph, json.loads(graph))
    program = built_for(read, Options.of(options), torch.device(device)).kernel
    assert isinstance(program, OperatorProgram)
    return _OPERATORS.get(name, program).target


class _Defined:
    """An operator.

    Attributes:
        described: its arguments and results.
        target: PyTorch's operator.
        text: a call of :func:`defined` that gives it.
    """

    def __init__(self, library: torch.library.Library, name: str, program: OperatorProgram) -> None:
        graph, options, kind = program.graph, program.options, program.device.type
        self.described = operator_of(graph, name)
        self._name = graph.name
        self._places = _places(self.described)
        self._symbols = [s.name for s in graph.symbols]
        self._inputs = [
            (k, None if (strides := graph.tensors[a.tensor].strides) is None else _numbers(strides))
            for k, a in enumerate(self.described.arguments)
            if a.tensor
        ]
        self._outputs = [(r.shape, getattr(torch, r.dtype.name)) for r in self.described.results]
        self._launch = Launcher(program.kernel, self._symbols, self._outputs, options.threads)
        own = self.described.name
        library.define(self.described.schema, tags=_TAGS)
        library.impl(own, self._called, _KEYS[kind])
        torch.library.register_fake(f"{_SPACE}::{own}", self._like, lib=library)
        self.target = getattr(getattr(torch.ops, _SPACE), own).default
        given = (name, json_text(to_json(graph), indent=0), asdict(options), kind)
        self.text = f"defined_operator({', '.join(map(repr, given))})"

    def _called(self, *args: Any) -> Any:
        """Run the kernel."""
        sizes = tuple([p.read(args) for p in self._places])
        inputs = [_laid_out(args[k], strides) for k, strides in self._inputs]
        outputs, why, wrong = self._launch(sizes, inputs, inputs[0].device)
        if why:
            hint = "without the option inductor, PyTorch computes such calls"
            raise AutofuseError.of(wrong or "AF5003", f"{self._name} {why}", hint=hint)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _like(self, *args: Any) -> Any:
        """Return tensors like the results; sizes may be symbols."""
        sizes = [p.read(args) for p in self._places]
        env = dict(zip(self._symbols, sizes, strict=True))
        device = args[self._inputs[0][0]].device
        outputs = tuple(
            torch.empty([value_of(e, env, _apply) for e in shape], dtype=dtype, device=device)
            for shape, dtype in self._outputs
        )
        return outputs[0] if len(outputs) == 1 else outputs


class _Operators:
    """The operators of this process, by name; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._library: torch.library.Library | None = None
        self._known: dict[str, _Defined] = {}

    def get(self, name: str, program: OperatorProgram) -> _Defined:
        """Return an operator."""
        from torch._inductor.lowering import add_needs_realized_inputs, fallbacks, lowerings

        with self._lock:
            found = self._known.get(name)
            if found is None:
                if self._library is None:
                    self._library = torch.library.Library(_SPACE, "FRAGMENT")
                found = _Defined(self._library, name, program)
                self._known[name] = found
            if found.target not in lowerings:
                # torch_npu replaces this table when it changes its backend.
                add_needs_realized_inputs(found.target)
                fallbacks.add(found.target)
                lowerings[found.target] = _lowered(found)
            return found


_OPERATORS = _Operators()


class _Call(FallbackKernel):  # type: ignore[misc]
    """A call of an operator of a region, in code that also defines the operator."""

    definition = ""

    def codegen(self, wrapper: Any) -> None:
        """Write the definition, once per operator, and the call."""
        if self.definition not in wrapper.src_to_kernel:
            name = f"autofuse_operator_{wrapper.next_kernel_suffix()}"
            wrapper.src_to_kernel[self.definition] = name
            wrapper.add_import_once(f"from {__name__} import defined as defined_operator")
            wrapper.define_kernel(name, self.definition, gpu=False)
        super().codegen(wrapper)


def _lowered(found: _Defined) -> Any:
    """Return the function with which Inductor lowers a call."""
    kind: Any = type("_Call", (_Call,), {"definition": found.text})

    def lowered(*args: Any) -> Any:
        made = kind.create(found.target, *args)
        return tree_map_only(IRNode, lambda x: x.wrap_for_lowering(), made)

    return lowered


def _places(described: Operator) -> list[Place]:
    """Return where among the arguments of an operator the symbols of its graph are, in their order."""
    graph = described.graph
    found: dict[str, Place] = {}
    for s in described.solved:
        line = as_line(graph.tensors[graph.inputs[s.input]].shape[s.dim])
        assert line is not None
        found[s.symbol] = Place(s.input, s.dim, *line[1:])
    for k, a in enumerate(described.arguments):
        if a.symbol:
            found[a.symbol] = Place(k, None)
    return [found[s.name] for s in graph.symbols]


def _numbers(strides: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(s.value) for s in strides)


def _laid_out(t: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    """Return a tensor with the strides of the graph, None for contiguous: itself, or a copy."""
    if strides is None:
        return t.contiguous()
    if t.stride() == strides:
        return t
    return torch.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device).copy_(t)


def _apply(function: Any, *args: Any) -> Any:
    return function(*args)
