"""The five stages on an output folder: each reads the output of the previous one, and is skipped if up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofuse import __version__
from autofuse.base import reading
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted
from autofuse.clients.kernelgen import state as states
from autofuse.clients.kernelgen.defining.definition import Definition, read_definition
from autofuse.clients.kernelgen.document import document
from autofuse.clients.kernelgen.files import interface
from autofuse.clients.kernelgen.files.ascendc import ascendc_files
from autofuse.clients.kernelgen.names import definition_files
from autofuse.clients.kernelgen.operator import Measuring, Operator, Predicting
from autofuse.clients.kernelgen.profiled import profiled
from autofuse.clients.kernelgen.reported import Reported
from autofuse.clients.kernelgen.state_format import STAGES, Names, Record, Speed, State
from autofuse.clients.kernelgen.testing.accuracy import workers
from autofuse.clients.kernelgen.testing.speed import Bench
from autofuse.clients.kernelgen.tuning import patterns as known
from autofuse.clients.kernelgen.tuning.log import LOG, digits, log_text
from autofuse.clients.kernelgen.tuning.tuner import Tuner, speedup_of
from autofuse.machines.gpu.loading import checked_device
from autofuse.machines.words import CPU, card_index

__all__ = ["TUNING", "Options", "Result", "check", "describe", "generate", "log", "tune"]

TUNING = "tuning.json"
#: Version of a kernel as generated; each round that changes it increments the minor version.
FIRST = "v1.0"


def _silent(_: str) -> None:
    """Ignore a progress message."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the stages.

    Attributes:
        folder: folder of the operator.
        device: device that runs the kernels: ``cpu`` (the interpreter), ``cuda``, ``cuda:N``.
        names: naming convention of the files, ``kernelgen`` or ``document``.
        ascendc: also generate a variant in Ascend C.
        seed: seed for the data of the accuracy test.
        rounds: maximum number of tuning rounds; None: as in the definition.
        patterns: file of earlier successes; None: ``patterns.json`` next to the folder.
        results: files of times that the performance script measured elsewhere, for tuning and the log.
        profile: count cache hits and unit utilisation of kernels tuned on a card, for the log.
        force: run a stage that is up to date, and replace files that were edited.
        watch: called with progress messages.
    """

    folder: Path
    device: str = CPU
    names: Names = "kernelgen"
    ascendc: bool = False
    seed: int = 0
    rounds: int | None = None
    patterns: Path | None = None
    results: tuple[Path, ...] = ()
    profile: bool = False
    force: bool = False
    watch: Callable[[str], None] = _silent


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a stage.

    Attributes:
        stage: its name.
        ok: False if it found an error.
        passed_over: True if it was up to date.
        facts: its facts, ready for JSON.
        lines: the facts as text for people.
        diagnostics: findings.
    """

    stage: str
    ok: bool
    passed_over: bool
    facts: Mapping[str, Any]
    lines: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = field(default=())


# the stages -----------------------------------------------------------------------------------


def describe(definition: Definition, options: Options) -> Result:
    """Write the definition: a document, and a JSON file that the other stages read.

    Raises:
        AutofuseError: AF5005, the folder cannot be written, or has other files of these names; AF5010, it comes from
            another version.
    """
    folder = options.folder
    paper, data = definition_files(definition.name, seed_names=options.names == "document")
    text = json.dumps(definition.to_json(), indent=2, ensure_ascii=False) + "\n"
    key = digest(f"{__version__} {options.names} {text}")
    old = _loaded(options)
    facts = {"folder": str(folder), "files": [paper, data], "operator": definition.name}
    lines = (f"{folder / paper}", f"{folder / data}")
    if old is not None and not options.force and old.is_done("describe", key):
        states.unchanged(folder, old, ("describe",))
        return Result("describe", True, True, facts, lines)
    state = State(operator=definition.name, target=definition.device, names=options.names)
    files = {paper: document(definition), data: text}
    if old is not None:
        state = state.but(coming=_ours(old))
    written = states.write(folder, state, files, force=options.force)
    if old is not None:
        states.remove(folder, old, set(_ours(old)) - set(files))
    states.save(folder, written.done("describe", key, files))
    return Result("describe", True, False, facts, lines)


def generate(options: Options) -> Result:
    """Write kernel, baseline, accuracy test and speed test, and check their interfaces.

    Raises:
        AutofuseError: AF5010, there is no definition; AF5007, its target has no Triton kernels; AF2xxx, AF3xxx, no
            Ascend C kernel exists for it; AF5005, as above.
    """
    state, folder = _ready(options, "generate"), options.folder
    key = digest(f"generate {state.stages['describe'].key} {options.ascendc}")
    operator = Operator(_definition(options, state), state.names)
    if not options.force and state.is_done("generate", key):
        states.unchanged(folder, state)
        names = list(state.stages["generate"].files)
        return Result("generate", True, True, {"files": names}, _paths(folder, names))
    files = operator.files({})
    found = tuple(interface.findings(files))
    files |= ascendc_files(operator.definition) if options.ascendc else {}
    fresh = State(
        operator=state.operator,
        target=state.target,
        names=state.names,
        kernel_version=FIRST,
        stages={"describe": state.stages["describe"]},
        coming=_ours(state),
    )
    written = states.write(folder, fresh, files, force=options.force)
    kept = {*files, *state.stages["describe"].files}
    states.remove(folder, state, set(_ours(state)) - kept)
    states.save(folder, written.done("generate", key, files))
    facts = {"files": list(files), "findings": [f.to_json() for f in found]}
    lines = (*_paths(folder, files), *(str(f) for f in found))
    return Result("generate", not found, False, facts, lines)


def check(options: Options) -> Result:
    """Run the accuracy test and the speed test: measured on a card, else predicted by the target's model.

    Raises:
        AutofuseError: AF5010, there are no files yet, or they were edited; AF5001, AF5007, the device.
    """
    state, folder = _ready(options, "check"), options.folder
    operator = _operator(options, state)
    device = _device(options, operator)
    key = _check_key(state, options)
    if not options.force and state.is_done("check", key):
        return _checked(state, passed_over=True)
    with ExitStack() as stack:
        bench = stack.enter_context(Bench(device)) if card_index(device) is not None else None
        facts = None if bench is None else bench.facts
        options.watch(f"accuracy of {state.operator} on {device}")
        cases = operator.accuracy(state.tuning, device, facts, seed=options.seed)
        options.watch(f"times of {state.operator}")
        speeds = (
            Predicting(operator).speeds(state.tuning)
            if bench is None
            else Measuring(operator, bench).speeds(state.tuning)
        )
    speedup = speedup_of(speeds)
    state = state.but(device=device, accuracy=cases, speeds=speeds, speedup=speedup)
    state = state.but(target_speedup=operator.definition.target_speedup)
    # If rounds were interrupted, the kernel may or may not be written already.
    files = _kernel_files(operator, state)
    state = states.write(folder, state, files, force=options.force).done("check", key, files)
    states.save(folder, state)
    return _checked(state, passed_over=False)


def tune(options: Options) -> Result:
    """Run rounds of tuning, write the best kernel, and add the changes that helped to the patterns.

    Raises:
        AutofuseError: AF5010, ``check`` has not run, or the accuracy test failed; AF5007, the target's kernels do not
            run on the device.
    """
    state, folder = _ready(options, "tune"), options.folder
    wrong = next((c for c in state.accuracy if not c.ok), None)
    if wrong is not None:
        text = f"the accuracy test failed, so there is nothing to tune: {wrong.reason}"
        raise AutofuseError.of("AF5010", text, hint=f"autofuse kernelgen check {folder}")
    operator = _operator(options, state)
    device = _device(options, operator)
    definition = operator.definition
    rounds = definition.rounds if options.rounds is None else options.rounds
    reported = Reported(operator, options.results)
    measured = [reading.sha256(p) for p in options.results]
    key = digest(f"tune {_base(state)} {device} {rounds} {definition.target_speedup} {measured}")
    if not options.force and state.is_done("tune", key):
        return _tuned(state, passed_over=True)
    if options.force or state.tuned_for != key:
        fresh = {"rounds": (), "skipped": {}, "ended": "", "tuning": {}}
        state = state.but(**fresh, kernel_version=FIRST, tuned_for=key)
    file = options.patterns or folder.absolute().parent / known.PATTERNS
    before = known.load(file).patterns

    def keep(now: State) -> State:
        now = states.write(folder, now, _kernel_files(operator, now), force=options.force)
        last = now.rounds[-1]
        options.watch(
            f"round {len(now.rounds)}: {last.family}, {counted(len(last.trials), 'setting')}"
        )
        return now

    with ExitStack() as stack:
        bench = stack.enter_context(Bench(device)) if card_index(device) is not None else None
        operator.pool = stack.enter_context(workers(device))
        judge = Predicting(operator) if bench is None else Measuring(operator, bench)
        memory = () if bench is None else (bench.memory,)
        tuner = Tuner(
            operator.model,
            judge,
            definition.kind,
            before,
            definition.target_speedup,
            rounds,
            operator.sizes(*memory)[-1],
            operator.kernel_text,
            reported.speeds,
        )
        state = tuner.run(state, keep)
        facts = None if bench is None else bench.facts
        options.watch(f"accuracy of {state.operator} after tuning")
        cases = state.accuracy
        if state.rounds:
            cases = operator.accuracy(state.tuning, device, facts, seed=options.seed)
        if any(not c.ok for c in cases):
            # The rounds passed at fewer sizes only: discard them.
            text = next(c.reason for c in cases if not c.ok)
            state = state.but(tuning={}, ended=f"the accuracy test fails at more sizes: {text}")
            speeds = reported.speeds({}) or judge.speeds({})
            state = state.but(speeds=speeds, speedup=speedup_of(speeds), kernel_version=FIRST)
            cases = operator.accuracy({}, device, facts, seed=options.seed)
            tuner.found.clear()
    files = _kernel_files(operator, state)
    written = states.write(folder, state, files, force=options.force)
    if TUNING not in files:
        states.remove(folder, written, [TUNING])
    state = written.but(device=device, accuracy=cases)
    state = state.done("check", _check_key(state, options), files).done("tune", key, files)
    states.save(folder, state)
    known.record(file, tuner.found, state)
    return _tuned(state, passed_over=False)


def log(options: Options) -> Result:
    """Write ``optimization_log.md`` from the state; with ``profile``, add counters from a profiler.

    Raises:
        AutofuseError: AF5010, ``tune`` has not run; with ``profile`` AF5007, it did not run on a card, AF5001, there is
            no profiler, AF5003, the profiler cannot count.
    """
    state, folder = _ready(options, "log"), options.folder
    if options.results:
        state = Reported(_operator(options, state), options.results).in_state(state)
    if options.profile:
        options.watch(f"counters of {state.operator}")
        state = profiled(state, _operator(options, state), again=options.force)
    text = log_text(state)
    key = digest(f"log {text}")
    facts = {"file": LOG, "rounds": len(state.rounds)}
    lines = (str(folder / LOG),)
    if not options.force and state.is_done("log", key):
        states.unchanged(folder, state)
        return Result("log", True, True, facts, lines)
    files = {LOG: text}
    written = states.write(folder, state, files, force=options.force)
    states.save(folder, written.done("log", key, files))
    return Result("log", True, False, facts, lines)


# shared by the stages -------------------------------------------------------------------------


def _loaded(options: Options) -> State | None:
    """Return the state; with ``force``, None instead of an unusable one."""
    try:
        return states.load(options.folder)
    except AutofuseError:
        if options.force:
            return None
        raise


def _ready(options: Options, stage: str) -> State:
    """Return the state of a folder in which the earlier stages have finished and their files are unchanged."""
    folder = options.folder
    state = states.load(folder)
    before = STAGES[: STAGES.index(stage)]
    missing = [s for s in before if state is None or s not in state.stages]
    if state is None or missing:
        first = missing[0]
        what = "SOURCE -o" if first == "describe" else ""
        raise AutofuseError.of(
            "AF5010",
            f"{stage} needs the output of {first}, which is not in {folder}"
            if folder.is_dir()
            else f"{folder} is a file, not a folder"
            if folder.exists()
            else f"there is no folder {folder}",
            where=Where(path=str(folder)),
            hint=" ".join(
                f"autofuse kernelgen {first} {what} {'DIR' if folder.is_file() else folder}".split()
            ),
        )
    states.unchanged(folder, state, before)
    return state


def _ours(state: State) -> dict[str, tuple[str, ...]]:
    """Return every file that stages wrote or began to write, with its possible digests."""
    return {n: state.digests(n) for n in (*state.files, *state.coming)}


def _definition(options: Options, state: State) -> Definition:
    data = next(n for n in state.stages["describe"].files if n.endswith(".json"))
    return read_definition(options.folder / data)


def _operator(options: Options, state: State) -> Operator:
    """Return the operator of a folder whose files match those that would be generated now.

    Raises:
        AutofuseError: AF5010, they do not match.
    """
    operator = Operator(_definition(options, state), state.names)
    stale = [
        n
        for n, text in operator.files(state.tuning).items()
        if digest(text) not in state.digests(n)
    ]
    if stale:
        text = f"{options.folder / stale[0]} differs from what this autofuse generates"
        hint = f"autofuse kernelgen generate {options.folder} --force"
        raise AutofuseError.of("AF5010", text, hint=hint)
    return operator


def _device(options: Options, operator: Operator) -> str:
    """Return the device that runs the kernels of an operator.

    Raises:
        AutofuseError: AF5001, AF5007, the kernels do not run there.
    """
    chip = operator.target.chip
    if chip and options.device != CPU:
        text = f"kernels for {chip} do not run on {options.device!r} here"
        hint = (
            "--device cpu predicts their times; to measure them, run NAME_performance.py of --names document with "
            "--device npu --results FILE on a machine with the chip, and pass --results FILE here"
        )
        raise AutofuseError.of("AF5007", text, hint=hint)
    return checked_device(options.device)


def _kernel_files(operator: Operator, state: State) -> dict[str, str]:
    """Return the files that depend on the settings: the kernel, and its tuning file."""
    plain = operator.files({})
    files = {n: t for n, t in operator.files(state.tuning).items() if t != plain[n]}
    kernel = operator.called.kernel
    files.setdefault(kernel, plain[kernel])
    tuning = operator.model.tuning(state.tuning)
    return files if tuning is None else {**files, TUNING: tuning.text()}


def _base(state: State) -> str:
    return state.stages["generate"].key


def _check_key(state: State, options: Options) -> str:
    settings = json.dumps(state.tuning, sort_keys=True)
    return digest(f"check {_base(state)} {options.device} {options.seed} {settings}")


def _paths(folder: Path, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(folder / n) for n in names)


def _checked(state: State, *, passed_over: bool) -> Result:
    cases, speedup = state.accuracy, state.speedup
    failed = [c for c in cases if not c.ok]
    facts = {
        "device": state.device,
        "accuracy": [c.model_dump(mode="json") for c in cases],
        "speeds": [s.model_dump(mode="json") for s in state.speeds],
        "speedup": None if speedup is None else speedup.model_dump(mode="json"),
    }
    lines = [
        f"accuracy: {len(cases) - len(failed)} of {counted(len(cases), 'case')} passed on {state.device}"
    ]
    lines += [f"  {_sizes(c.sizes)}, {c.data}: {c.reason}" for c in failed]
    lines += [_speed_line(s) for s in state.speeds]
    lines.append(f"speedup, geometric mean: {number(speedup)}")
    diagnostics = tuple(
        Diagnostic("AF6001", f"{state.operator} at {_sizes(c.sizes)}, {c.data} data: {c.reason}")
        for c in failed
    )
    return Result("check", not failed, passed_over, facts, tuple(lines), diagnostics)


def _tuned(state: State, *, passed_over: bool) -> Result:
    speedup = state.speedup
    facts = {
        "device": state.device,
        "rounds": [r.model_dump(mode="json") for r in state.rounds],
        "skipped": dict(state.skipped),
        "ended": state.ended,
        "tuning": dict(state.tuning),
        "speedup": None if speedup is None else speedup.model_dump(mode="json"),
    }
    lines = [
        f"round {k}: {r.family}, {counted(len(r.trials), 'setting')}, gain {number(r.gain)}"
        for k, r in enumerate(state.rounds, 1)
    ]
    lines += [f"skipped {family}: {why}" for family, why in state.skipped.items()]
    lines += [f"ended: {state.ended}", f"speedup, geometric mean: {number(speedup)}"]
    return Result("tune", True, passed_over, facts, tuple(lines))


def number(record: Record | None) -> str:
    """Return a number with its status, for a terminal."""
    if record is None:
        return "not recorded"
    return f"{digits(record.value)} {record.unit} ({record.status})"


def _speed_line(s: Speed) -> str:
    found = f"kernel {number(s.kernel)}, baseline {number(s.baseline)}"
    return f"  {_sizes(s.sizes)}: {found}, bandwidth {number(s.bandwidth)}"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n} = {size}" for n, size in sizes.items()) or "the sizes of the graph"
