"""Descriptions of an operator: a graph file, a PyTorch function, or a line of English."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import MAX_ROUNDS, Definition, define
from autofuse.clients.kernelgen.defining.functions import Function, remember
from autofuse.clients.kernelgen.defining.shapes import ASSUMED_MEMORY
from autofuse.clients.kernelgen.english.lines import read_line
from autofuse.frontends.json_positions import quote
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import Target, find_known

__all__ = ["describe"]

_PYTHON = re.compile(r"(.+\.py):([A-Za-z_][A-Za-z0-9_]*)\Z", re.S)
_SUFFIXES = (".json", ".info", ".onnx", ".py")
_PATH = re.compile(r"[\w./~+-]+\Z")


@dataclass(frozen=True, slots=True)
class _Source:
    """A formula, its origin and its description."""

    graph: FusionGraph
    requirement: str
    description: str = ""
    function: Function | None = None


def describe(
    source: str | os.PathLike[str] | FusionGraph,
    *,
    target: str | Target = api.DEFAULT_TARGET,
    inputs: Sequence[str] = (),
    rounds: int = MAX_ROUNDS,
    target_speedup: float = 1.0,
    memory_bytes: int = ASSUMED_MEMORY,
) -> Definition:
    """Return the definition of an operator.

    Args:
        source: a graph file (autofuse.graph/1, MindSpore AKG info, ONNX); ``FILE.py:NAME`` of a function or module of
            PyTorch; a line of English such as ``softmax over the last axis of x float16 [b, 4096]``; or a graph.
        target: the chip or the GPU, or its name.
        inputs: example inputs of a function or module, such as ``x=float16[b,4096]``.
        rounds: maximum number of tuning rounds, 1 to 5.
        target_speedup: the kernel must be more than this many times as fast as the baseline.
        memory_bytes: memory of the device, which limits the test shapes.

    Raises:
        AutofuseError: AF1401, a diagnostic for each ambiguity of a line; AF1402, a function is not a single
            graph; AF1xxx, a file cannot be read; AF2xxx, AF3xxx, the target has no kernel for the graph; AF5006,
            AF5007, an option is wrong.
    """
    to = find_known(target) if isinstance(target, str) else target
    found = _found(source, inputs)
    return define(
        found.graph,
        to,
        requirement=found.requirement,
        description=found.description,
        rounds=rounds,
        target_speedup=target_speedup,
        memory_bytes=memory_bytes,
        function=found.function,
    )


def _found(source: str | os.PathLike[str] | FusionGraph, inputs: Sequence[str]) -> _Source:
    if isinstance(source, FusionGraph):
        _no_inputs(inputs, "a graph")
        return _Source(source, f"the graph {source.label}")
    text = os.fspath(source)
    python = _PYTHON.match(text)
    if python is not None:
        return _from_pytorch(Path(python[1]), python[2], inputs)
    if Path(text).suffix == ".py":
        hint = f"{text}:NAME, where NAME is a function, a module, or a module class"
        raise AutofuseError.of("AF1005", f"{quote(text)}: the file needs a name", hint=hint)
    if isinstance(source, os.PathLike) or _is_path(text):
        _no_inputs(inputs, "a graph file")
        return _Source(api.read(Path(text)), f"the file {Path(text).name}")
    _no_inputs(inputs, "a line of English")
    sentence = read_line(text)
    description = ". ".join((" ".join(text.split()).rstrip("."), *sentence.notes))
    return _Source(sentence.graph, text, description)


def _is_path(text: str) -> bool:
    """Return True if a text names a file or looks like a path."""
    try:
        if text.strip() and Path(text).exists():
            return True
    except (OSError, ValueError):  # too long, or with a NUL
        return False
    # A line of English has more than one word.
    return text.endswith(_SUFFIXES) or _PATH.match(text) is not None


def _no_inputs(inputs: Sequence[str], what: str) -> None:
    if inputs:
        text = f"--input {inputs[0]}: {what} already defines its inputs"
        hint = "example inputs are for FILE.py:NAME"
        raise AutofuseError.of("AF1005", text, hint=hint)


def _from_pytorch(path: Path, name: str, inputs: Sequence[str]) -> _Source:
    try:
        from autofuse.clients.torch.capture import capture
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        text = "a function of PyTorch needs PyTorch"
        hint = "pip install 'ascend-autofuse[torch]'"
        raise AutofuseError.of("AF1006", text, hint=hint) from None
    found = capture(path, name, inputs)
    remember(path, found.sha256)
    shown = "".join(f", --input {i}" for i in inputs)
    function = Function(name, found.sha256, found.call)
    return _Source(found.graph, f"{name} of the file {path.name}{shown}", function=function)
