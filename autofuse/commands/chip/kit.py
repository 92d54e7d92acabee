"""``silicon``: collects everything of interest about a chip into one file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.ending import EndedError
from autofuse.commands.options import DEFAULT_TARGET
from autofuse.commands.outcome import Outcome
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.measure.calibration.bundle import write_bundle
from autofuse.measure.silicon.gathered import bundle_of, contents
from autofuse.measure.silicon.jobs import PROBE
from autofuse.measure.silicon.journal import Journal
from autofuse.measure.silicon.kit import Kit, Seen
from autofuse.measure.silicon.units import Unit, chosen
from autofuse.report.text.chip.silicon import print_contents, print_units
from autofuse.report.text.console import console, progress
from autofuse.targets import TargetSpec, load_target

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["listed", "silicon"]

#: Seconds for a chip to identify itself, and between progress lines without a terminal.
_PROBE_S, _LINES_S = 60.0, 30.0
#: Most characters of a failure on the screen.
_SHORT = 160


def listed(target: str | None, only: str | None, words: Sequence[str]) -> Outcome:
    """List the units that the kit would run; it needs no chip."""
    units = _units(load_target(target or DEFAULT_TARGET), only, words)
    rows = [
        {
            "name": u.name,
            "part": u.part,
            "risk": u.risk,
            "figures": list(u.case.figures) if u.case is not None else [],
        }
        for u in units
    ]
    return Outcome({"units": rows}, lambda screen: print_units(screen, rows))


def silicon(
    device: str,
    *,
    target: str | None,
    out: Path | None,
    only: str | None,
    words: Sequence[str],
    limit: float,
    repeats: int,
    seed: int,
    jobs: int,
    resume: bool,
    agree: Callable[[], bool],
    quiet: bool,
) -> Outcome:
    """Run the kit on a chip, show the results, and write the bundle if ``agree`` returns True."""
    chip = _chip_at(device)
    word = target or _target_of(chip)
    spec = load_target(word)
    units = _units(spec, only, words)
    path = out or Path(f"silicon-{spec.name}.json.gz")
    if not path.parent.is_dir():
        raise AutofuseError.of("AF5005", f"there is no folder {path.parent} for the bundle")
    journal = Journal(path.with_name(f"{path.name}.journal"), _head(chip, spec, only, words, seed))
    journal.start(resume=resume)
    try:
        kit = Kit(spec, device, limit, repeats, seed, jobs, named=word)
        left = sum(u.name not in journal.rows for u in units)
        with _watched(left, quiet=quiet) as watch:
            there = kit.run(units, journal, watch)
    except (KeyboardInterrupt, EndedError):
        if not quiet:
            done = len(journal.rows)
            text = f"{done} of {len(units)} are done; to continue, repeat the command with --resume"
            console(sys.stderr).print(text)
        raise
    finally:
        journal.close()
    whole = there and only is None and not words
    bundle = bundle_of(units, journal, chip, spec, complete=whole)
    found = contents(bundle)
    if not quiet:
        print_contents(console(sys.stderr), found)
    is_written = agree()
    if is_written:
        write_bundle(bundle, path)
        if there:
            journal.close(remove=True)
    result = {**found, "bundle": str(path) if is_written else None}

    def show(screen: Console) -> None:
        if is_written:
            screen.print(f"written: {path}; autofuse calibrate {path} makes a target file from it")
        else:
            screen.print("nothing was written; --resume asks again")

    return Outcome(result, show, () if there else (_lost(device),), there)


def _units(target: TargetSpec, only: str | None, words: Sequence[str]) -> tuple[Unit, ...]:
    units = chosen(target, only, words)
    if not units:
        text = f"no item in the kit has {' or '.join(words)} in its name"
        raise AutofuseError.of("AF5007", text, hint="autofuse silicon --list has the names")
    return units


def _chip_at(device: str) -> dict[str, Any]:
    """Return the facts of the chip, queried in another process so that this one never hangs.

    Raises:
        AutofuseError: AF5011, AF5012, the chip does not answer; AF5007, there is no such chip.
    """
    with WorkerPool(PROBE, 1, timeout_s=_PROBE_S, memory_mb=0) as pool:
        outcome = pool.run({"device": device})
    if not outcome.ok:
        raise AutofuseError(outcome.diagnostics)
    found: dict[str, Any] = outcome.value
    return found


def _target_of(chip: dict[str, Any]) -> str:
    if not chip["target"]:
        text = f"no target is known for the chip {chip['soc']}"
        raise AutofuseError.of(
            "AF5006", text, hint="name the target to generate kernels for with -t"
        )
    return str(chip["target"])


def _head(
    chip: dict[str, Any], target: TargetSpec, only: str | None, words: Sequence[str], seed: int
) -> dict[str, Any]:
    """Return the settings that must match for a run to resume."""
    return {
        "autofuse": __version__,
        "target": target.name,
        "soc": chip["soc"],
        "cann": chip["cann"],
        "fake": chip["is_fake"],
        "only": only,
        "filter": list(words),
        "seed": seed,
    }


def _lost(device: str) -> Diagnostic:
    return Diagnostic(
        "AF5012",
        f"{device} stopped responding: the results so far are kept",
        hint="when `npu-smi info` shows it again, repeat the command with --resume",
    )


@contextmanager
def _watched(total: int, *, quiet: bool) -> Iterator[Callable[[Seen], None]]:
    """Show a bar with the remaining time on a terminal, else occasional lines; report failures at once."""
    screen = console(sys.stderr)
    begun = said = time.monotonic()
    done = 0
    with progress("silicon", total, show=not quiet, remaining=True) as tick:

        def watch(seen: Seen) -> None:
            nonlocal done, said
            done += 1
            tick()
            if quiet:
                return
            if seen.text:
                first = seen.text.splitlines()[0][:_SHORT]
                screen.print(f"{seen.unit}: {', '.join(seen.states)}: {first}")
            now = time.monotonic()
            if not screen.is_terminal and now - said > _LINES_S:
                said = now
                left = (now - begun) / done * (total - done)
                screen.print(f"{done} of {total}, about {_duration(left)} left")

        yield watch


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
