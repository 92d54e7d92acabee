"""``tune``: a tuning file for a graph, from times measured on devices or predicted by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import words, writing
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.measure.bench.devices import parse_devices
from autofuse.measure.bench.subjects import points
from autofuse.measure.tuning.chips import Range
from autofuse.measure.tuning.contest import Clock, Sizes
from autofuse.measure.tuning.store import Record, Store
from autofuse.measure.tuning.tune import CPU, Found, Options, tune_card, tune_chip
from autofuse.report.text.console import ticker
from autofuse.targets import (
    Target,
    TargetSpec,
    ascend_chip,
    find_known,
    find_target,
    gpu_target,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["devices_of", "tune"]


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
    scheduler: str | None = None,
    bundle: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """Tune a graph and write the tuning file.

    Args:
        graph: the graph file.
        output: the tuning file; None: ``NAME.tuning.json`` in the current folder.
        shapes: a text ``SYMBOL=N,SYMBOL=N..M`` per shape or range; empty: the typical shape of the graph.
        target: the chip or the card.
        device: ``cpu``, ``cuda:N``, or several such as ``npu:0,1``.
        budget: seconds; None: no limit.
        top: candidates of each template or kernel.
        rounds: samples of each.
        seed: seed of the data.
        store: a file of earlier measurements to resume from.
        scheduler: address of a Dask scheduler, whose workers have the devices.
        bundle: a bundle of ``autofuse silicon``; times are predicted by figures fitted to it.
        quiet: show no progress.
    """
    asked = api.read(graph)
    path = output or Path(f"{asked.name}.tuning.json")
    others = {"the store": store, "the bundle": bundle}
    keep_inputs(path, {"the graph": graph, **{n: p for n, p in others.items() if p is not None}})
    spec = find_target(target)
    devices = devices_of(device)
    _fits(devices, spec, scheduler)
    if bundle is not None and (devices != (CPU,) or spec.home != "npu"):
        text = (
            "a bundle supplies figures for the model of a chip and cannot be combined with a device"
        )
        raise AutofuseError.of("AF5007", text, hint="leave out --bundle, or --device")
    ranges = [_range(asked, text) for text in shapes] or [_range(asked, "")]
    kept = _store(store)
    with ticker("tune", show=not quiet) as tell:
        options = Options(
            devices,
            Clock(budget),
            top,
            rounds,
            seed,
            kept,
            scheduler,
            tell=tell,
        )
        found = _TUNED[spec.backend](asked, spec, ranges, options, target, bundle)
    writing.write_all({path: writing.text(found.text)}, None)
    result = {"name": asked.label, "target": spec.name, "file": str(path), **found.to_json()}

    def show(screen: Console) -> None:
        from autofuse.report.text.chip.tuning import print_tuning

        print_tuning(screen, result)

    return Outcome(result, show)


def _card(
    asked: FusionGraph, spec: Target, ranges: Sequence[Range], options: Options, *_: Any
) -> Found:
    return tune_card(asked, gpu_target(spec), [p for r in ranges for p in r.points], options)


def _chip(
    asked: FusionGraph,
    spec: Target,
    ranges: Sequence[Range],
    options: Options,
    priced: str,
    bundle: Path | None,
) -> Found:
    chip = ascend_chip(spec)
    figures = "" if bundle is None else _figures(bundle, chip)
    return tune_chip(asked, chip, ranges, options, priced=priced, figures=figures)


#: Backend of the target -> tuner.
_TUNED = {"triton": _card, "ascendc": _chip}


def _figures(bundle: Path, chip: TargetSpec) -> str:
    """Return the target file fitted to a bundle.

    Raises:
        AutofuseError: AF1403, AF5007, the bundle is implausible, or from another chip; AF5014, it has too few
            measurements.
    """
    from autofuse.measure.calibration.bundle import read_bundle
    from autofuse.measure.calibration.calibrating import calibrate

    read = read_bundle(bundle)
    if read.target not in (chip.name, chip.base):
        text = f"the bundle is for {read.target}, not for {chip.name}"
        raise AutofuseError.of("AF5007", text, hint=f"-t {find_known(read.target).name}")
    return calibrate(read, chip).text


def _fits(devices: Sequence[str], spec: Target, scheduler: str | None) -> None:
    """Raise AF5007 if the devices cannot run kernels for the target."""
    if _TUNED.get(spec.backend) is None:
        text = f"{spec.name} cannot be tuned"
        raise AutofuseError.of("AF5007", text, hint="tuning supports Ascend chips and NVIDIA cards")
    kind = devices[0].partition(":")[0]
    wanted = spec.home
    if kind not in (CPU, wanted):
        text = f"kernels for {spec.name} do not run on {devices[0]}"
        raise AutofuseError.of(
            "AF5007", text, hint=f"--device {wanted}:0, or choose another target with -t"
        )
    if scheduler is not None and kind == CPU:
        text = "--scheduler is for devices, but the model needs none"
        raise AutofuseError.of("AF5007", text, hint=f"--device {wanted}:0")


def devices_of(text: str) -> tuple[str, ...]:
    """Return the devices that an option names: ``cpu``, ``cuda:1``, ``npu:0,1``.

    Raises:
        AutofuseError: AF5007, it names none, or one twice.
    """
    return (CPU,) if text == CPU else tuple(map(str, parse_devices(text)))


def _range(graph: FusionGraph, text: str) -> Range:
    """Parse a shape, or a range of shapes, of the command line.

    Raises:
        AutofuseError: AF1005, AF5007, it is not a shape of the graph.
    """
    parts = [p for p in text.split(",") if p]
    ends = [[_end(p, at) for p in parts] for at in (0, -1)]
    low, high = (_sizes(graph, words.sizes(e, "--shape")) for e in ends)
    for n in low:
        if low[n] > high[n]:
            label = graph.symbol_labels()[n]
            text = f"--shape {label}={low[n]}..{high[n]}: the first size must be the smaller one"
            raise AutofuseError.of("AF1005", text)
    return Range({n: (low[n], high[n]) for n in low})


def _end(word: str, at: int) -> str:
    """Return one end of ``rows=8..64``; for a single size, that size."""
    name, equals, value = word.partition("=")
    return f"{name}{equals}{value.split('..')[at] if value.count('..') == 1 else value}"


def _sizes(graph: FusionGraph, given: Mapping[str, int]) -> Sizes:
    (found,) = points(graph, [given])
    return found


def _store(path: Path | None) -> Store:
    if path is None:
        return Store(None)
    from autofuse.measure.tuning.store_format import read_records

    known = (
        Record(r.context, r.sizes, r.key, r.us, r.default_us, r.ratio, r.why)
        for r in read_records(path)
    )
    return Store(path, tuple(known))
