"""``tune``: a tuning file for a graph, from what is measured on devices or predicted by a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import words, writing
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.requirements import requirements
from autofuse.report.explanation import sizes_of
from autofuse.report.text.console import ticker
from autofuse.targets import GpuTarget, find_target
from autofuse.tuning.contest import Sizes
from autofuse.tuning.store import Record, Store
from autofuse.tuning.tune import CPU, Options, tune_card

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["devices_of", "tune"]

#: Devices of one run, at most.
_MOST_DEVICES = 64


def tune(
    graph: Path,
    output: Path | None,
    *,
    shapes: Sequence[str],
    target: str,
    device: str,
    budget: float | None,
    top: int,
    rounds: int,
    seed: int,
    store: Path | None,
    quiet: bool = False,
) -> Outcome:
    """Tune a graph and write the tuning file.

    Args:
        graph: the graph file.
        output: the tuning file; None: ``NAME.tuning.json`` in the current folder.
        shapes: a text ``SYMBOL=N,SYMBOL=N`` for each shape; none: the typical one of the graph.
        target: the chip or the card.
        device: ``cpu``, ``cuda:N``, or several as ``cuda:0,1``.
        budget: seconds; None: no limit.
        top: candidates of each template or kernel.
        rounds: samples of each.
        seed: of the data.
        store: a file of what was measured, to go on from.
        quiet: show no progress.
    """
    asked = api.read(graph)
    path = output or Path(f"{asked.name}.tuning.json")
    read = {"the graph": graph} | ({} if store is None else {"the store": store})
    keep_inputs(path, read)
    found_target = find_target(target)
    points = [_point(asked, text) for text in shapes] or [sizes_of(asked.symbols, {})]
    with ticker("tune", show=not quiet) as tell:
        options = Options(devices_of(device), budget, top, rounds, seed, _store(store), tell)
        if not isinstance(found_target, GpuTarget):
            text = f"no tilings are tuned for {found_target.name}"
            raise AutofuseError.of("AF5007", text)
        found = tune_card(asked, found_target, points, options)
    writing.write_all({path: writing.text(found.text)}, None)
    result = {
        "name": asked.label,
        "target": found_target.name,
        "file": str(path),
        **found.to_json(),
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.tuning import print_tuning

        print_tuning(screen, result)

    return Outcome(result, show)


def devices_of(text: str) -> list[str]:
    """The devices that an option names: ``cpu``, ``cuda:1``, ``npu:0,1``.

    Raises:
        AutofuseError: AF5007, it names none, or one twice.
    """
    kind, colon, numbers = text.partition(":")
    found = [f"{kind}:{n}" for n in numbers.split(",")] if colon else [kind]
    numbered = all(n.isascii() and n.isdigit() and len(n) < 3 for n in numbers.split(","))
    known = kind in ("cuda", "npu") and (numbered or not colon)
    if not (known or text == CPU) or len(found) > _MOST_DEVICES or len({*found}) < len(found):
        hint = "cpu, cuda:0, npu:0 or npu:0,1"
        raise AutofuseError.of("AF5007", f"--device {text}: no such devices", hint=hint)
    return found


def _point(graph: FusionGraph, text: str) -> Sizes:
    """The sizes of a shape of the command line.

    Raises:
        AutofuseError: AF1005, AF5007, it is no shape of the graph.
    """
    sizes = sizes_of(graph.symbols, words.sizes(text.split(","), "--shapes"))
    for r in requirements(graph):
        if not r.holds(sizes):
            hint = "a kernel refuses these sizes as well"
            raise AutofuseError.of("AF5007", r.text, hint=hint)
    return sizes


def _store(path: Path | None) -> Store:
    if path is None:
        return Store(None)
    from autofuse.frontends.tuning_store import read_records

    known = (
        Record(r.context, r.sizes, r.key, r.us, r.default_us, r.ratio, r.why)
        for r in read_records(path)
    )
    return Store(path, tuple(known))
