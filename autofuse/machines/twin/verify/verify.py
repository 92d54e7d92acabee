"""Verifies a kernel against its graph: runs every tiling key on random data, and compares."""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import differing, part
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.balanced import balanced_inputs
from autofuse.machines.twin.oracle.compare import Comparison, compare, unwritten
from autofuse.machines.twin.oracle.data import POISON, narrows_floats, random_inputs
from autofuse.machines.twin.oracle.indices import outside
from autofuse.machines.twin.oracle.oracle import Reference, evaluate
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.compile import QUICK, compile_kernel, level
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of
from autofuse.machines.twin.run.native import StatusError
from autofuse.machines.twin.run.worker import Outcome, WorkerPool, diagnostic_from_json
from autofuse.results import Run
from autofuse.targets import TargetSpec

__all__ = [
    "VERIFY_JOB",
    "Case",
    "Verifiable",
    "VerifyReport",
    "pack",
    "unpack",
    "verify_in_subprocess",
    "verify_job",
    "verify_kernel",
    "verify_loaded",
    "verify_with",
]

Array: TypeAlias = npt.NDArray[Any]

VERIFY_JOB = "autofuse.machines.twin.verify.verify:verify_job"
#: Most elements computed in the search for operands that are nearly equal.
_SEARCHED = 1 << 22
PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"


@dataclass(frozen=True, slots=True)
class Case:
    """One tiling key with one set of sizes.

    Attributes:
        symbols: the sizes.
        key: the tiling key; -1 for the tiling function's choice.
        status: ``passed``, ``failed`` or ``not applicable``.
        reason: reason why it is not applicable.
        block_dim: number of cores; 0 for a module of Triton kernels.
        outputs: a comparison per output.
        seconds: wall-clock time of the run; the time of the twin or an interpreter says nothing about the device.
    """

    symbols: Mapping[str, int]
    key: int
    status: str
    reason: str = ""
    block_dim: int = 0
    outputs: tuple[Comparison, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all attributes, as a JSON-ready dict."""
        return {
            "symbols": dict(self.symbols),
            "key": self.key,
            "status": self.status,
            "reason": self.reason,
            "block_dim": self.block_dim,
            "outputs": [c.to_json() for c in self.outputs],
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification.

    Attributes:
        name: name of the kernel.
        seed: seed of the random data.
        cases: the cases, in the order of their runs.
        diagnostics: errors (the kernel is wrong) and warnings (the data says too little).
        compile_seconds: time of compilation, or of finding the library in the cache.
        seconds: total time.
    """

    name: str
    seed: int
    cases: tuple[Case, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    compile_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if no error was found and something ran."""
        return not any(d.severity == "error" for d in self.diagnostics) and self.passed > 0

    @property
    def passed(self) -> int:
        """Number of cases that agree with the reference."""
        return sum(c.status == PASSED for c in self.cases)

    @property
    def inconclusive(self) -> bool:
        """True if some reference is too ill-conditioned to be conclusive."""
        return any(o.inconclusive for c in self.cases for o in c.outputs)

    @property
    def max_ulp(self) -> float:
        """Largest difference in units of the last place."""
        return max((o.max_ulp for c in self.cases for o in c.outputs), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Return all attributes and ``ok``, as a JSON-ready dict."""
        return {
            "name": self.name,
            "ok": self.ok,
            "seed": self.seed,
            "compile_seconds": self.compile_seconds,
            "seconds": self.seconds,
            "diagnostics": [d.to_json() for d in self.diagnostics],
            "cases": [c.to_json() for c in self.cases],
        }

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> VerifyReport:
        """Return the inverse of :meth:`to_json`."""
        cases = tuple(
            Case(**{**c, "outputs": tuple(Comparison.from_json(o) for o in c["outputs"])})
            for c in d["cases"]
        )
        found = tuple(diagnostic_from_json(x) for x in d["diagnostics"])
        return cls(d["name"], d["seed"], cases, found, d["compile_seconds"], d["seconds"])


class Verifiable(Protocol):
    """A loaded kernel that can be compared with the reference."""

    @property
    def graph(self) -> FusionGraph:
        """The graph that it computes."""

    @property
    def key_count(self) -> int:
        """Number of tiling keys."""

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Raise StatusError if its host function chooses no template for these sizes."""

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        symbols: Mapping[str, int],
        key: int | None,
        poison: int,
    ) -> Run:
        """Run as :meth:`TwinKernel.run <autofuse.machines.twin.run.kernel.TwinKernel.run>`."""


def verify_kernel(
    files: Mapping[str, str],
    graph: FusionGraph,
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
    given: Mapping[str, Array] | None = None,
    cache: bool = True,
    check: str = "all",
    check_seed: int = 0,
    opt: str | None = None,
) -> VerifyReport:
    """Compile a kernel and compare every tiling key with the reference.

    The kernel runs in this process: see :func:`verify_in_subprocess`.

    Args:
        files: generated files: path inside the output folder -> text.
        graph: the graph that it was generated from.
        bindings: sizes to try; None: ``shapes_for(graph, count, seed)``.
        count: number of sizes to try when none are given.
        seed: of sizes and data.
        special: mix infinities, NaN and subnormal numbers into the data.
        given: arrays for inputs that are not random.
        cache: use a library that is already compiled.
        check: ``all`` or ``fast``, see :class:`~autofuse.machines.twin.run.kernel.TwinKernel`.
        check_seed: as there.
        opt: optimisation of the kernel, ``-O0`` to ``-O3``; None: the knob's, or else quick mode.

    Returns:
        The report; a wrong kernel is a finding in it, not an exception.

    Raises:
        AutofuseError: AF5001 or AF5002, it cannot be compiled.
    """
    start = time.perf_counter()
    path = compile_kernel(
        files, graph.name, cache=cache, opt=opt or level(QUICK), checked=check == "all"
    )
    compiled = time.perf_counter() - start
    report = verify_loaded(
        path,
        graph,
        bindings=bindings,
        count=count,
        seed=seed,
        special=special,
        given=given,
        check=check,
        check_seed=check_seed,
        chip=chip_of(files, graph.name),
    )
    seconds = time.perf_counter() - start
    return replace(report, name=graph.name, compile_seconds=compiled, seconds=seconds)


def verify_loaded(
    library: Path,
    graph: FusionGraph,
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
    given: Mapping[str, Array] | None = None,
    check: str = "fast",
    check_seed: int = 0,
    chip: TargetSpec | None = None,
) -> VerifyReport:
    """Verify a compiled library as :func:`verify_kernel`; ``all`` needs one compiled with ``checked``."""
    try:
        kernel = TwinKernel(library, graph, check=check, check_seed=check_seed, chip=chip)
    except AutofuseError as e:
        return VerifyReport(graph.label, seed, (), e.diagnostics)
    return verify_with(
        kernel,
        bindings=bindings,
        count=count,
        seed=seed,
        special=special,
        given=given,
        flushes=kernel.flushes,
    )


def verify_with(
    kernel: Verifiable,
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
    given: Mapping[str, Array] | None = None,
    keys: Sequence[int] | None = None,
    flushes: bool = False,
) -> VerifyReport:
    """Verify a loaded kernel as :func:`verify_kernel`.

    Args:
        kernel: the kernel to run.
        bindings: as for :func:`verify_kernel`.
        count: as there.
        seed: as there.
        special: as there.
        given: as there.
        keys: the tiling keys to run besides the host's choice, None for all.
        flushes: as for :func:`~autofuse.machines.twin.oracle.oracle.evaluate`.
    """
    start = time.perf_counter()
    graph = kernel.graph
    verdict = _Check(graph, seed, flushes, special, given or {})
    chosen = shapes_for(graph, count, seed) if bindings is None else bindings
    for i, symbols in enumerate(chosen):
        verdict.sizes(kernel, symbols, seed + i, keys)
    found = (*verdict.found, *verdict.warnings())
    return VerifyReport(
        graph.label, seed, tuple(verdict.cases), found, 0.0, time.perf_counter() - start
    )


def verify_made(make: Callable[[], Verifiable], **options: Any) -> VerifyReport:
    """Run :func:`verify_with` on the kernel that ``make`` compiles and loads; record the time of that."""
    start = time.perf_counter()
    kernel = make()
    made = time.perf_counter() - start
    found = verify_with(kernel, **options)
    return replace(found, compile_seconds=made, seconds=time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class _Data:
    """Inputs with their expected outputs, and a description."""

    inputs: Mapping[str, Array]
    references: Mapping[str, Reference]
    label: str


@dataclass(slots=True)
class _Check:
    """Collects cases and findings; among equal findings the first is kept."""

    graph: FusionGraph
    seed: int
    flushes: bool
    special: bool
    given: Mapping[str, Array]
    cases: list[Case] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str, int]] = field(default_factory=set)

    def labelled(self, symbols: Mapping[str, int]) -> dict[str, int]:
        """Return sizes by the user's names."""
        labels = self.graph.symbol_labels()
        return {labels[n]: size for n, size in symbols.items()}

    def sizes(
        self,
        kernel: Verifiable,
        symbols: Mapping[str, int],
        seed: int,
        keys: Sequence[int] | None = None,
    ) -> None:
        """Run every tiling key, or ``keys`` and the host's choice, with one set of sizes."""
        inputs = random_inputs(self.graph, symbols, seed, special=self.special, given=self.given)
        first = _Data(inputs, self._expected(inputs, symbols), f"data seed {seed}")
        if faults := outside(self.graph, inputs, symbols):
            for d in faults:
                self._add(_at(d, self.labelled(symbols), -1, first), str(d.where), -1)
            return
        data, close = [first], None
        if not self.special:
            close = balanced_inputs(self.graph, symbols, seed, most=_SEARCHED, given=self.given)
        if close is not None and not outside(self.graph, close, symbols):
            label = f"data seed {seed}, operands of comparisons nearly equal"
            data.append(_Data(close, self._expected(close, symbols), label))
        # An intermediate result kept in float32 does not overflow where a 16-bit one does.
        rounds = getattr(kernel, "rounds_each_step", False)
        if rounds and not self.special and narrows_floats(self.graph):
            beyond = random_inputs(self.graph, symbols, seed, special=True, given=self.given)
            label = f"data seed {seed}, with infinities, NaN and overflow"
            data.append(_Data(beyond, self._expected(beyond, symbols), label))
        before = len(self.cases)
        for key in range(kernel.key_count) if keys is None else (-1, *keys):
            self.cases.append(self._case(kernel, symbols, key, data))
        reasons = {c.reason for c in self.cases[before:]}
        if all(c.status == NOT_APPLICABLE for c in self.cases[before:]):
            text = f"no tiling key accepts the sizes {_sizes_text(self.labelled(symbols))}"
            self._add(Diagnostic("AF5003", text, notes=tuple(sorted(reasons))), "", -1)
            return
        # The template that the tiling function chooses must be legal.
        try:
            kernel.choose(symbols)
        except StatusError as e:
            self._add(_at(e.diagnostics[0], symbols, -1, data[0]), "", -1)

    def _expected(
        self, inputs: Mapping[str, Array], symbols: Mapping[str, int]
    ) -> dict[str, Reference]:
        return evaluate(self.graph, inputs, symbols, flushes=self.flushes)

    def _case(
        self, kernel: Verifiable, symbols: Mapping[str, int], key: int, data: Sequence[_Data]
    ) -> Case:
        """Run one tiling key; return the case of the first data, or of the first that fail."""
        first = self._tried(kernel, symbols, key, data[0])
        if first.status != PASSED:
            return first
        others = (self._tried(kernel, symbols, key, d) for d in data[1:])
        return next((c for c in others if c.status != PASSED), first)

    def _tried(self, kernel: Verifiable, symbols: Mapping[str, int], key: int, data: _Data) -> Case:
        start = time.perf_counter()
        inputs = data.inputs
        try:
            run, given = self._run(kernel, symbols, key, inputs, POISON[0])
        except StatusError as e:
            if e.not_applicable:
                return Case(self.labelled(symbols), key, NOT_APPLICABLE, reason=e.text)
            return self._failure(e, symbols, key, data)
        except AutofuseError as e:
            return self._failure(e, symbols, key, data)
        seconds = time.perf_counter() - start
        # One run with the other poison serves all outputs.
        again = cache(lambda: self._run(kernel, symbols, key, inputs, POISON[1])[0])
        compared = []
        for o in self.graph.outputs:
            dtype = self.graph.tensors[o.tensor].dtype
            c = compare(o.name, run.outputs[o.name], data.references[o.name], dtype)
            compared.append(self._unwritten(run, again, c))
        changed = self._changed(inputs, given)
        self._explain(compared, changed, symbols, key, data)
        ok = all(c.ok for c in compared) and not changed
        status = PASSED if ok else FAILED
        return Case(
            self.labelled(symbols), key, status, "", run.block_dim, tuple(compared), seconds
        )

    def _run(
        self,
        kernel: Verifiable,
        symbols: Mapping[str, int],
        key: int,
        inputs: Mapping[str, Array],
        poison: int,
    ) -> tuple[Run, dict[str, Array]]:
        """Run once on copies of the inputs."""
        given = {n: a.copy() for n, a in inputs.items()}
        wanted = None if key < 0 else key
        return kernel.run(given, symbols=symbols, key=wanted, poison=poison), given

    def _unwritten(self, run: Run, again: Callable[[], Run], c: Comparison) -> Comparison:
        """Count the unwritten elements: those that show the poison of two runs."""
        if any(o.name == c.output and o.inout for o in self.graph.outputs):
            return c
        suspicious = unwritten(run.outputs[c.output], POISON[0])
        if not suspicious.any():
            return c
        left = suspicious & unwritten(again().outputs[c.output], POISON[1])
        return replace(c, unwritten=int(np.count_nonzero(left)))

    def _changed(self, inputs: Mapping[str, Array], given: Mapping[str, Array]) -> list[str]:
        written = {o.inout for o in self.graph.outputs}
        return [
            n for n, a in inputs.items() if n not in written and a.tobytes() != given[n].tobytes()
        ]

    # findings ---------------------------------------------------------------------------------

    def _failure(self, e: AutofuseError, symbols: Mapping[str, int], key: int, data: _Data) -> Case:
        for d in e.diagnostics:
            # Keep the first finding per broken rule and place; the numbers in its message differ between runs.
            about = f"{d.where} {d.message.partition(' on core')[0]}" if d.code == "AF5004" else ""
            self._add(_at(d, self.labelled(symbols), key, data), about, key)
        reason = e.diagnostics[0].message if e.diagnostics else ""
        return Case(self.labelled(symbols), key, FAILED, reason=reason)

    def _explain(
        self,
        compared: Sequence[Comparison],
        changed: Sequence[str],
        symbols: Mapping[str, int],
        key: int,
        data: _Data,
    ) -> None:
        for c in compared:
            if c.unwritten:
                text = f"{part(c.unwritten, c.elements, f'output {c.output}', 'is', 'are')} not written"
                self._add(_at(Diagnostic("AF6002", text), symbols, key, data), c.output, key)
            elif c.wrong:
                self._add(_at(_difference(c), symbols, key, data), c.output, key)
        for name in changed:
            text = f"the kernel overwrites its input {name}"
            self._add(_at(Diagnostic("AF6002", text), symbols, key, data), name, key)

    def _add(self, d: Diagnostic, about: str, key: int) -> None:
        if (d.code, about, key) not in self._seen:
            self._seen.add((d.code, about, key))
            self.found.append(d)

    def warnings(self) -> list[Diagnostic]:
        """Add a warning per output with an inconclusive reference."""
        worst: dict[str, Comparison] = {}
        for o in (o for case in self.cases for o in case.outputs if o.inconclusive):
            if o.output not in worst or o.ill_conditioned > worst[o.output].ill_conditioned:
                worst[o.output] = o
        return [
            Diagnostic(
                "AF6003",
                part(o.ill_conditioned, o.elements, f"output {o.output}", "depends", "depend")
                + " on rounding errors: any value was accepted",
                hint="the graph amplifies last-place errors on random data: a difference of "
                "nearly equal numbers, a comparison of computed numbers, or a result close to "
                "the end of the range",
                severity="warning",
            )
            for o in worst.values()
        ]


def _sizes_text(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{k}={v}" for k, v in symbols.items()) or "of the graph"


def _difference(c: Comparison) -> Diagnostic:
    index = "".join(f"[{i}]" for i in c.first or ())
    return Diagnostic(
        "AF6001",
        differing(c.wrong, c.elements, f"output {c.output}", "the reference"),
        notes=(
            f"first: {c.output}{index} is {c.got}, expected {c.want} within {c.tolerance:.3g}",
            f"largest difference: {c.max_abs:.3g}, relative {c.max_rel:.3g}, {c.max_ulp:.3g} ulp",
        ),
    )


def _at(d: Diagnostic, symbols: Mapping[str, int], key: int, data: _Data) -> Diagnostic:
    """Return the finding with the data needed to reproduce it."""
    run = f"sizes {_sizes_text(symbols)}; {data.label}"
    if key >= 0:
        run = f"tiling key {key}; {run}"
    return Diagnostic(d.code, d.message, d.where, d.hint, (*d.notes, run), d.severity)


# in another process ---------------------------------------------------------------------------


def pack(value: tuple[Mapping[str, str], FusionGraph, Mapping[str, Any]]) -> str:
    """Pack files, graph and options as a job for a worker."""
    return base64.b64encode(pickle.dumps(value)).decode()


def verify_job(payload: str) -> dict[str, Any]:
    """Run :func:`verify_kernel` in a worker."""
    files, graph, options = unpack(payload)
    return verify_kernel(files, graph, **options).to_json()


def unpack(payload: str) -> tuple[dict[str, str], FusionGraph, dict[str, Any]]:
    """Unpack a job from :func:`pack`; only for data of the parent process, because unpacking can run code."""
    found: tuple[dict[str, str], FusionGraph, dict[str, Any]] = pickle.loads(
        base64.b64decode(payload)
    )
    return found


def verify_in_subprocess(
    files: Mapping[str, str],
    graph: FusionGraph,
    *,
    pool: WorkerPool | None = None,
    job: str = VERIFY_JOB,
    **options: Any,
) -> VerifyReport:
    """Run :func:`verify_kernel` in a worker process, which isolates crashes and endless loops of the kernel.

    Args:
        files: as there.
        graph: as there.
        pool: workers with the job :data:`VERIFY_JOB`; None: one is made for this call.
        job: the job of the worker; other jobs take the same payload (:func:`unpack`).
        **options: as there.

    Raises:
        AutofuseError: AF5001, AF5002.  A worker that dies is a finding AF5003 in the report.
    """
    payload = pack((dict(files), graph, options))
    if pool is not None:
        outcome = pool.run(payload)
    else:
        with WorkerPool(job, workers=1) as own:
            outcome = own.run(payload)
    return _report_of(outcome, graph, int(options.get("seed", 0)))


def _report_of(outcome: Outcome, graph: FusionGraph, seed: int) -> VerifyReport:
    if outcome.ok:
        return VerifyReport.from_json(outcome.value)
    if all(d.code == "AF5003" for d in outcome.diagnostics):
        found = tuple(
            Diagnostic(d.code, d.message, Where(node=graph.label), d.hint, d.notes)
            for d in outcome.diagnostics
        )
        return VerifyReport(graph.label, seed, (), found, 0.0, outcome.seconds)
    raise AutofuseError(outcome.diagnostics)
