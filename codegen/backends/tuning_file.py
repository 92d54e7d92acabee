"""What tuning files of all backends have: the graph and the target that they are for, and times that speak for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text, to_json

__all__ = ["MEASURED", "MODELLED", "SCHEMA", "Times", "check_head", "graph_digest"]

SCHEMA = "autofuse.tuning/1"
MEASURED, MODELLED = "measured", "modelled"


@dataclass(frozen=True, slots=True)
class Times:
    """What speaks for a tuning; nothing of it reaches generated files.

    Attributes:
        sizes: of the symbols of the graph, by the names of its file.
        us: the time with the tuning, in microseconds.
        default_us: that of what the compiler chooses.
        noise: the share of a time by which two runs of one kernel may differ.
        status: ``measured`` or ``modelled``.
        on: the device or the model that the times are from.
        fake: the device is a stand-in that runs tests: its times say nothing of a chip.
    """

    sizes: Mapping[str, int]
    us: float
    default_us: float
    noise: float
    status: str
    on: str
    fake: bool = False

    def to_json(self) -> dict[str, Any]:
        """What the file has of it."""
        return {
            "sizes": dict(self.sizes),
            "us": self.us,
            "default_us": self.default_us,
            "noise": self.noise,
            "status": self.status,
            "on": self.on,
            "fake": self.fake,
        }


class _Headed(Protocol):
    @property
    def graph(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def places(self) -> Mapping[str, Where]: ...


def graph_digest(graph: FusionGraph) -> str:
    """The digest of everything that a graph is, by which a tuning file knows its own."""
    return digest(json_text(to_json(graph), indent=1))


def check_head(tuning: _Headed, graph: FusionGraph, target: str, hint: str) -> None:
    """Whether a tuning is for this graph and this target.

    Args:
        tuning: what a file says.
        graph: that is built.
        target: the name of what it is built for.
        hint: what writes a new file.

    Raises:
        AutofuseError: AF3007, it is for another one.
    """
    texts = {
        "graph": f"graph {tuning.graph!r}, not for {graph.label!r}",
        "digest": f"another state of the graph {graph.label!r}",
        "target": f"target {tuning.target!r}, not for {target!r}",
    }
    own = {"graph": graph.label, "digest": graph_digest(graph), "target": target}
    for key, text in texts.items():
        if getattr(tuning, key) != own[key]:
            where = tuning.places.get(key, Where())
            text = f"the tuning file is for {text}"
            raise AutofuseError([Diagnostic("AF3007", text, where, hint)])
