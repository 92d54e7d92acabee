"""The Python function from which a formula was captured: its parameters, and its copy on this machine.

A definition names no file: its content is read, never run.  The source of a function is kept in the cache of the user
who described it, by its digest.
"""

from __future__ import annotations

import keyword
import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.definition_format import FunctionModel
from autofuse.codegen.backends.triton.call import Argument, Call, is_literal
from autofuse.frontends.json_positions import Findings, quote
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["Function", "function_of", "remember", "remembered"]

_KIND, _TEXT, _FOLDER = "functions", "function.py", "folder"


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function.

    Attributes:
        name: name in its file.
        sha256: digest of the file.
        call: its parameters.
    """

    name: str
    sha256: str
    call: Call

    def to_json(self) -> dict[str, Any]:
        """Return the function, ready for JSON."""
        parameters = [{k: v for k, v in asdict(a).items() if v} for a in self.call.arguments]
        return {"name": self.name, "sha256": self.sha256, "parameters": parameters}


def function_of(model: FunctionModel, graph: FusionGraph, findings: Findings) -> Function:
    """Read the function of a definition file; errors are added to the findings."""
    arguments = tuple(Argument(**p.model_dump()) for p in model.parameters)
    said = Counter(a.name for a in arguments)
    for k, a in enumerate(arguments):
        at = f"/function/parameters/{k}"
        if not a.name.isidentifier() or keyword.iskeyword(a.name) or said[a.name] > 1:
            text = f"{quote(a.name)} cannot be the name of a parameter, or occurs twice"
            findings.add("AF1104", text, f"{at}/name")
        for key, value in (("value", a.value), ("default", a.default)):
            if value and not is_literal(value):
                text = (
                    f"the {key} {quote(value)} is not a Python number, string, dtype, None or tuple"
                )
                findings.add("AF1104", text, f"{at}/{key}")
        if bool(a.input) == bool(a.value):
            text = f"{quote(a.name)} is either an input of the graph or a value"
            findings.add("AF1207", text, at)
    if [a.input for a in arguments if a.input] != list(graph.inputs):
        text = f"the parameters are not the inputs of the graph in their order: {', '.join(graph.inputs)}"
        findings.add("AF1207", text, "/function/parameters")
    if not Call(arguments).is_possible:
        text = "a Python function cannot have these parameters in this order"
        findings.add("AF1104", text, "/function/parameters")
    return Function(model.name, model.sha256, Call.of(arguments, graph))


def remember(path: Path, sha256: str) -> None:
    """Keep the file of a function in the cache, with the folder from which it imports.

    Raises:
        AutofuseError: AF5009, the cache cannot be used.
    """
    folder = str(path.resolve().parent)
    found = cache.lookup(_KIND, sha256, _TEXT)
    if found is not None and (found / _FOLDER).read_text(encoding="utf-8") != folder:
        shutil.rmtree(found, ignore_errors=True)

    def make(fresh: Path) -> None:
        shutil.copyfile(path, fresh / _TEXT)
        (fresh / _FOLDER).write_text(folder, encoding="utf-8")

    cache.entry(_KIND, sha256, _TEXT, make)


def remembered(function: Function) -> tuple[Path, Path]:
    """Return the file of a function as it was when described, and the folder from which it imports.

    Raises:
        AutofuseError: AF5010, the function was not described on this machine.
    """
    found = cache.lookup(_KIND, function.sha256, _TEXT)
    if found is None:
        text = (
            f"this user has no recent description of the function {function.name} of this operator"
        )
        hint = "autofuse kernelgen describe FILE.py:NAME -o FOLDER, with the same --input"
        raise AutofuseError.of("AF5010", text, hint=hint)
    return found / _TEXT, Path((found / _FOLDER).read_text(encoding="utf-8"))
