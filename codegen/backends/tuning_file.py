"""Common contents of all backends' tuning files: graph, target, and times that support the tuning."""

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
    """Evidence for a tuning; it does not affect generated files.

    Attributes:
        sizes: sizes of the graph's symbols, by their names in its file.
        us: the time with the tuning, in microseconds.
        default_us: the time with the compiler's own choice.
        noise: expected relative difference between two runs of one kernel.
        status: ``measured`` or ``modelled``.
        on: device or model that gave the times.
        fake: the device is a stand-in for tests; its times are meaningless for a chip.
    """

    sizes: Mapping[str, int]
    us: float
    default_us: float
    noise: float
    status: str
    on: str
    fake: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the times as JSON data."""
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
    """Return the digest of a whole graph, which ties a tuning file to it."""
    return digest(json_text(to_json(graph), indent=1))


def check_head(tuning: _Headed, graph: FusionGraph, target: str, hint: str) -> None:
    """Check that a tuning is for this graph and this target.

    Args:
        tuning: contents of a file.
        graph: the graph to build.
        target: name of the target to build it for.
        hint: explains how to write a new file.

    Raises:
        AutofuseError: AF3007, it is for another one.
    """
    texts = {
        "graph": f"graph {tuning.graph!r}, not for {graph.label!r}",
        "digest": f"a different version of the graph {graph.label!r}",
        "target": f"target {tuning.target!r}, not for {target!r}",
    }
    own = {"graph": graph.label, "digest": graph_digest(graph), "target": target}
    for key, text in texts.items():
        if getattr(tuning, key) != own[key]:
            where = tuning.places.get(key, Where())
            text = f"the tuning file is for {text}"
            raise AutofuseError([Diagnostic("AF3007", text, where, hint)])
