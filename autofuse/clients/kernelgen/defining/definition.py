"""The definition of an operator: output of the first stage, input of all others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.reading import MAX_TEXT, named, unreadable
from autofuse.base.wording import counted
from autofuse.clients.kernelgen.defining.analysis import Analysis, analyse
from autofuse.clients.kernelgen.defining.functions import Function, function_of
from autofuse.clients.kernelgen.defining.parameters import (
    Parameter,
    constraints_of,
    inputs_of,
    kind_of,
    outputs_of,
)
from autofuse.clients.kernelgen.defining.shapes import ASSUMED_MEMORY
from autofuse.clients.kernelgen.defining.strategies import STRATEGIES, outlook
from autofuse.clients.kernelgen.definition_format import (
    MAX_ROUNDS,
    SCHEMA,
    ParameterModel,
    validated,
)
from autofuse.codegen.backends.triton.call import Call
from autofuse.frontends.graph.reader import read_native
from autofuse.frontends.graph.writer import graph_data
from autofuse.frontends.json_positions import Document, Findings, load, quote
from autofuse.frontends.pydantic_errors import did_you_mean
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import Target, find_known

__all__ = ["MAX_ROUNDS", "Definition", "Parameter", "canonical", "define", "read_definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """An operator: its formula, its parameters, and its requirements.

    Attributes:
        graph: the formula.
        name: name of the operator and of the graph, an identifier.
        kind: one of :data:`autofuse.clients.kernelgen.defining.parameters.KINDS`.
        device: name of the target.
        description: what the operator does.
        requirement: the original request: a sentence, or the file.
        inputs: in the order of the graph.
        outputs: in the order of the graph.
        constraints: constraints on the inputs.
        strategies: keys of :data:`autofuse.clients.kernelgen.defining.strategies.STRATEGIES` that can help.
        rounds: maximum number of tuning rounds, 1 to 5.
        target_speedup: the kernel must be more than this many times as fast as the baseline.
        analysis: cost of the operator.
        function: the Python function from which the formula was captured; None for other sources.
    """

    graph: FusionGraph
    name: str
    kind: str
    device: str
    description: str
    requirement: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    constraints: tuple[str, ...]
    strategies: tuple[str, ...]
    rounds: int
    target_speedup: float
    analysis: Analysis
    function: Function | None = None

    @property
    def call(self) -> Call | None:
        """Parameters of the function; None for the inputs of the graph."""
        return None if self.function is None else self.function.call

    def to_json(self) -> dict[str, Any]:
        """Return the definition, ready for JSON; :meth:`from_json` is the inverse.

        ``name``, ``type``, ``inputs``, ``outputs``, ``constraints`` and ``optimization_strategies`` are defined by the
        write-up of the flow.  The other keys are extensions.
        """
        return {
            "schema": SCHEMA,
            "name": self.name,
            "type": self.kind,
            "device": self.device,
            "description": self.description,
            "requirement": self.requirement,
            "inputs": [_parameter(self.graph, p) for p in self.inputs],
            "outputs": [_parameter(self.graph, p) for p in self.outputs],
            "constraints": list(self.constraints),
            "optimization_strategies": list(self.strategies),
            "rounds": self.rounds,
            "target_speedup": self.target_speedup,
            "memory_bytes": self.analysis.memory_bytes,
            "graph": graph_data(self.graph),
            **({} if self.function is None else {"function": self.function.to_json()}),
            "analysis": self.analysis.to_json(),
        }

    @classmethod
    def from_json(cls, data: str | bytes | Mapping[str, Any], *, path: str = "") -> Definition:
        """Parse a definition from :meth:`to_json` or written by hand.

        ``analysis`` is ignored and recomputed from the graph.

        Args:
            data: the text of a file, or its value.
            path: path of the file, for messages.

        Raises:
            AutofuseError: every error in it, with its position; AF1101, the formula is missing.
        """
        text = json.dumps(dict(data)) if isinstance(data, Mapping) else data
        return _read(load(text, path))


def read_definition(path: str | os.PathLike[str]) -> Definition:
    """Read a definition from a file.

    Raises:
        AutofuseError: AF1001, the file cannot be read; and as :meth:`Definition.from_json`.
    """
    try:
        data = named(Path(path), MAX_TEXT)
    except (OSError, ValueError) as e:
        raise unreadable(
            path, "a definition", e, hint="autofuse kernelgen describe writes one"
        ) from None
    return Definition.from_json(data, path=str(path))


def canonical(graph: FusionGraph) -> FusionGraph:
    """Return the graph as if read from a graph file, the form that a definition stores.

    Raises:
        AutofuseError: AF1104, a graph file cannot express it.
    """
    return read_native(Document(graph_data(graph), ""))


def define(
    graph: FusionGraph,
    target: Target,
    *,
    requirement: str,
    description: str = "",
    rounds: int = MAX_ROUNDS,
    target_speedup: float = 1.0,
    memory_bytes: int = ASSUMED_MEMORY,
    function: Function | None = None,
) -> Definition:
    """Return the definition of a formula.

    Args:
        graph: the formula.
        target: target of the operator.
        requirement: the original request.
        description: what the operator does; by default a list of its ops.
        rounds: maximum number of tuning rounds, 1 to 5.
        target_speedup: the kernel must be more than this many times as fast as the baseline.
        memory_bytes: memory of the device, which limits the test shapes.
        function: the Python function from which the formula was captured.

    Raises:
        AutofuseError: AF5007, a number is out of range; AF2xxx, AF3xxx: the target has no kernel for the graph.
    """
    _check(rounds, target_speedup, memory_bytes)
    graph = canonical(graph)
    analysis = analyse(graph, target, memory_bytes)
    verdicts = outlook(graph, target, analysis).verdicts()
    return Definition(
        graph,
        graph.name,
        kind_of(graph),
        target.name,
        description or _described(graph),
        requirement,
        inputs_of(graph),
        outputs_of(graph),
        constraints_of(graph, target, None if function is None else function.call),
        tuple(key for key, v in verdicts.items() if v.applies),
        rounds,
        float(target_speedup),
        analysis,
        function,
    )


def _check(rounds: int, target_speedup: float, memory_bytes: int) -> None:
    if not 1 <= rounds <= MAX_ROUNDS:
        text = f"{rounds} rounds of tuning are out of range"
        raise AutofuseError.of("AF5007", text, hint=f"1 to {MAX_ROUNDS}")
    if not 0.0 < target_speedup < float("inf"):
        text = f"the speedup {target_speedup} is out of range"
        raise AutofuseError.of(
            "AF5007", text, hint="give a number above 0; 1.0 means faster than the baseline"
        )
    if memory_bytes < 1:
        raise AutofuseError.of(
            "AF5007", f"{memory_bytes} bytes of memory are out of range", hint="1 or more"
        )


def _described(graph: FusionGraph) -> str:
    ops = list(dict.fromkeys(n.op for n in graph.nodes))
    more = f" and {counted(len(ops) - 8, 'other op')}" if len(ops) > 8 else ""
    what = f"{', '.join(ops[:8])}{more}" if ops else "a copy"
    return f"{graph.label}: {what} of {', '.join(graph.inputs) or 'no input'}"


# JSON -----------------------------------------------------------------------------------------


def _size(graph: FusionGraph, e: Expr) -> int | str:
    return e.value if e.is_const else graph.in_words(e)


def _parameter(graph: FusionGraph, p: Parameter) -> dict[str, Any]:
    return {
        "name": p.name,
        "type": "torch.Tensor",
        "dtype": p.dtype,
        "shape": [_size(graph, e) for e in p.shape],
        "description": p.description,
        "constraints": list(p.constraints),
    }


def _read(document: Document) -> Definition:
    data = document.value
    if not isinstance(data, dict):
        text = "a definition is a JSON object"
        raise AutofuseError.of("AF1004", text, where=document.where(""))
    if "graph" not in data:
        text = "the definition has no formula: it lists inputs and outputs, but not the computation"
        hint = (
            'add "graph": {"schema": "autofuse.graph/1", ...}, or generate the definition: '
            'autofuse kernelgen describe GRAPH, or describe "softmax over the last axis of x float16 [b, 1024]"'
        )
        raise AutofuseError.of("AF1101", text, where=document.where(""), hint=hint)
    findings = Findings(document)
    model = validated(data, findings)
    graph = _graph(document, data["graph"])
    target = _target(document, model.device)
    found = Definition(
        graph,
        graph.name,
        kind_of(graph),
        target.name,
        model.description,
        model.requirement,
        _checked(findings, graph, "inputs", model.inputs, inputs_of(graph)),
        _checked(findings, graph, "outputs", model.outputs, outputs_of(graph)),
        tuple(model.constraints),
        tuple(model.optimization_strategies),
        model.rounds,
        float(model.target_speedup),
        analyse(graph, target, model.memory_bytes or ASSUMED_MEMORY),
        None if model.function is None else function_of(model.function, graph, findings),
    )
    for key, said, is_now in (("name", model.name, found.name), ("type", model.type, found.kind)):
        if said != is_now:
            text = f"{key} is {quote(said)}, but the graph is {quote(is_now)}"
            findings.add("AF1207", text, f"/{key}", hint="change one of them")
    for k, key in enumerate(model.optimization_strategies):
        if key not in STRATEGIES:
            text = f"the strategy {quote(key)} is not known"
            hint = did_you_mean(key, STRATEGIES)
            findings.add("AF1104", text, f"/optimization_strategies/{k}", hint=hint)
    findings.raise_if_any()
    return found


def _graph(document: Document, value: Any) -> FusionGraph:
    """Return the formula; its errors are located in the definition."""
    try:
        if not isinstance(value, dict):
            raise AutofuseError.of("AF1103", "the graph is not an object", where=Where())
        return read_native(Document(value, ""))
    except AutofuseError as e:
        told: list[Diagnostic] = []
        for d in e.diagnostics:
            at = document.where(f"/graph{d.where.pointer}", node=d.where.node)
            told.append(replace(d, where=at))
        raise AutofuseError(told) from None


def _target(document: Document, name: str) -> Target:
    try:
        return find_known(name)  # the name comes from a file: never open another file by it
    except AutofuseError as e:
        raise AutofuseError(
            [replace(d, where=document.where("/device")) for d in e.diagnostics]
        ) from None


def _checked(
    findings: Findings,
    graph: FusionGraph,
    key: str,
    said: Sequence[ParameterModel],
    own: Sequence[Parameter],
) -> tuple[Parameter, ...]:
    """Return the parameters with the descriptions of the file, which must agree with the graph."""
    if len(said) != len(own):
        text = f"there are {len(said)} {key}, the graph has {len(own)}: {', '.join(p.name for p in own)}"
        findings.add("AF1207", text, f"/{key}")
        return ()
    out = []
    for k, (m, p) in enumerate(zip(said, own, strict=True)):
        shape = [_size(graph, e) for e in p.shape]
        for field, told, want in (
            ("name", m.name, p.name),
            ("dtype", m.dtype, p.dtype),
            ("shape", list(m.shape), shape),
        ):
            if told != want:
                text = (
                    f"the {field} of {quote(p.name)} is {told!r}, but in the graph it is {want!r}"
                )
                findings.add(
                    "AF1207", text, f"/{key}/{k}/{field}", hint="the graph takes precedence"
                )
        constraints = tuple(m.constraints)
        out.append(Parameter(p.name, p.dtype, p.shape, m.description, constraints))
    return tuple(out)
