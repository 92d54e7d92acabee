"""Records of the stages of ``autofuse.clients.kernelgen``: the fields of ``state.json`` and of ``patterns.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autofuse import __version__
from autofuse.base import artifacts, reading
from autofuse.frontends.json_positions import Findings, load
from autofuse.frontends.kinds import of_another_kind
from autofuse.frontends.pydantic_errors import validated

__all__ = [
    "MOST_PATTERNS",
    "STAGES",
    "Accuracy",
    "Case",
    "Data",
    "Difference",
    "Done",
    "Files",
    "Names",
    "Pattern",
    "PatternFile",
    "Profile",
    "Record",
    "Results",
    "Round",
    "Settings",
    "Speed",
    "State",
    "Timed",
    "Trial",
    "read_patterns",
    "read_results",
    "read_state",
]

#: In the order in which they run.
STAGES = ("describe", "generate", "check", "tune", "log")
#: Maximum number of entries in a pattern file.
MOST_PATTERNS = 4096

Sizes: TypeAlias = dict[str, int]
_Word: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
#: Kernel -> block setting -> number, as in a tuning file.
Settings: TypeAlias = dict[_Word, dict[_Word, int]]
Data: TypeAlias = Literal["random", "special", "strided"]
Names: TypeAlias = Literal["kernelgen", "document"]
_PART = r"[^/\\\x00-\x1f.][^/\\\x00-\x1f]*"
#: Path inside the folder; no part begins with a dot.
FileName: TypeAlias = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$")]
#: File name -> SHA-256.
Files: TypeAlias = dict[FileName, str]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Record(_Model):
    """A number and where it comes from.

    Attributes:
        value: the number, finite.
        unit: ``us``, ``%``, ``x`` (a ratio), ``GB/s``; empty for one without.
        status: ``measured`` on a device; ``predicted`` by the model of a target; ``twin``: computed by an
            interpreter of the kernels, which says nothing about time.
        by: its source: device, driver, versions and clocks, or the model.
        when: date and time (UTC) of a measurement; empty for others, which are deterministic.
    """

    value: float
    unit: str
    status: Literal["measured", "predicted", "twin"]
    by: dict[str, str]
    when: str = ""

    @model_validator(mode="after")
    def _has_a_source(self) -> Record:
        if not self.by:
            raise ValueError("a number needs its source, in 'by'")
        if bool(self.when) != (self.status == "measured"):
            raise ValueError("only measured numbers have 'when'")
        return self


class Difference(_Model):
    """One output of one case.

    Attributes:
        output: name of the output.
        elements: number of elements compared.
        wrong: number of elements outside the error bounds of the oracle, or not written.
        error: the largest difference from the oracle, NumPy in higher precision.
        max_diff: the largest difference from the baseline; None if the baseline did not run.
        apart: number of elements that differ from the baseline by more than ``rtol`` and ``atol``.
        rtol: relative tolerance of the comparison with the baseline.
        atol: absolute tolerance of the comparison with the baseline.
        document: True if kernel and baseline agree within 1e-3, the tolerance of the source document.
        function_diff: the largest difference from the graph's source function; None without one.
        function_apart: number of elements that differ from it by more than ``rtol`` and ``atol``.
    """

    output: str
    elements: int
    wrong: int
    error: Record
    max_diff: Record | None = None
    apart: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    document: bool | None = None
    function_diff: Record | None = None
    function_apart: int = 0


class Accuracy(_Model):
    """One case of the accuracy test.

    Attributes:
        sizes: sizes of the symbols.
        data: ``random``, ``special`` (with NaN, infinities, subnormal and huge numbers), ``strided``.
        ok: the kernel agrees with the oracle and with the baseline.
        outputs: comparison of each output.
        reason: the failure.
        smaller: True if a graph with smaller sizes ran in place of one too large for the interpreter.
    """

    sizes: Sizes
    data: Data
    ok: bool
    outputs: tuple[Difference, ...] = ()
    reason: str = ""
    smaller: bool = False


class Speed(_Model):
    """Times at one set of sizes.

    Attributes:
        sizes: sizes of the symbols.
        kernel: time of all kernels of one call.
        baseline: time of the baseline, one kernel per op.
        speedup: baseline / kernel.
        bandwidth: bytes that the graph's tensors must move, divided by the kernel's time, in % of a copy on the target.
        parallelism: occupancy of the target's multiprocessors by the programs of a kernel, in waves of one program
            each, in %: the minimum over all kernels.
        bottleneck: bottleneck by the target's model.
    """

    sizes: Sizes
    kernel: Record | None = None
    baseline: Record | None = None
    speedup: Record | None = None
    bandwidth: Record | None = None
    parallelism: Record | None = None
    bottleneck: str = ""


class Profile(_Model):
    """Figures recorded by a profiler; nothing else fills them."""

    cache_hit: Record | None = None
    core_use: Record | None = None


class Trial(_Model):
    """One setting tried in a round.

    Attributes:
        settings: blocks of the kernels.
        speedup: speedup over the baseline, the geometric mean over all sizes; None if it did not run.
        reason: why it was rejected; empty for the accepted one.
        known: True if a pattern of an earlier run proposed it.
    """

    settings: Settings
    speedup: Record | None = None
    reason: str = ""
    known: bool = False


class Code(_Model):
    """Lines of the kernel file that a round changed, or tried to.

    Attributes:
        before: the lines before the round.
        after: the lines after the round.
    """

    before: str
    after: str


class Round(_Model):
    """One round of tuning.

    Attributes:
        version: version of the kernel at the start of the round.
        family: family of the settings tried.
        bottleneck: bottleneck that led to the family.
        why: reason for the family, in words.
        before: settings that differ from the generator's choice at the start; ``after``: at the end.
        speeds: speeds with ``before``, for every set of sizes.
        speedup: speedup with ``before``, the geometric mean.
        expected: the largest gain that the model predicts for the trials, in %.
        trials: the settings tried.
        result: speedup with ``after``; ``gain``: the difference in %.
        gain: as above.
        target: the requested speedup.
        reached: True if ``result`` exceeds it.
        profile: counters from a profiler.
        code: the affected lines of the kernel file.
    """

    version: str
    family: str
    bottleneck: str
    why: str
    before: Settings = Field(default_factory=dict)
    after: Settings = Field(default_factory=dict)
    speeds: tuple[Speed, ...] = ()
    speedup: Record | None = None
    expected: Record | None = None
    trials: tuple[Trial, ...] = ()
    result: Record | None = None
    gain: Record | None = None
    target: float | None = None
    reached: bool | None = None
    profile: Profile = Profile()
    code: Code | None = None


class Done(_Model):
    """A finished stage.

    Attributes:
        key: digest of all its dependencies; if it changes, the stage is out of date.
        files: file that it wrote -> SHA-256.
    """

    key: str
    files: Files = Field(default_factory=dict)


class State(_Model):
    """The state of one operator folder.

    Attributes:
        schema_: schema of the file.
        version: version of autofuse.
        operator: name of the operator.
        target: target of the kernels.
        names: naming convention of the files, ``kernelgen`` or ``document``.
        device: device option of the last stage that ran the kernels: ``cpu``, ``cuda``, ``cuda:N``.
        stages: the finished stages.
        accuracy: cases of the accuracy test.
        speeds: results of the speed test.
        speedup: geometric mean over these.
        kernel_version: version of the current kernel.
        target_speedup: the requested speedup.
        rounds: rounds of tuning.
        skipped: family of settings that tuning skipped -> reason.
        ended: why tuning ended.
        tuning: settings that differ from the generator's choice.
        tuned_for: key of the stage that the rounds belong to, also while it runs.
        coming: file that a stage has begun to write -> its possible digests.
    """

    schema_: Literal["autofuse.kernelgen/1"] = Field(default="autofuse.kernelgen/1", alias="schema")
    version: str = __version__
    operator: str
    target: str
    names: Names = "kernelgen"
    device: str = "cpu"
    stages: dict[Literal["describe", "generate", "check", "tune", "log"], Done] = Field(
        default_factory=dict
    )
    accuracy: tuple[Accuracy, ...] = ()
    speeds: tuple[Speed, ...] = ()
    speedup: Record | None = None
    kernel_version: str = ""
    target_speedup: float | None = None
    rounds: tuple[Round, ...] = Field(default=(), max_length=5)
    skipped: dict[str, str] = Field(default_factory=dict)
    ended: str = ""
    tuning: Settings = Field(default_factory=dict)
    tuned_for: str = ""
    coming: dict[FileName, tuple[str, ...]] = Field(default_factory=dict)

    def but(self, **changes: Any) -> State:
        """Return a copy with changed values."""
        return self.model_copy(update=changes)

    def done(self, stage: str, key: str, files: Mapping[str, str] | None = None) -> State:
        """Return a copy in which a stage has finished and written ``files``, and later stages have not."""
        kept = {s: d for s, d in self.stages.items() if STAGES.index(s) < STAGES.index(stage)}
        ended = Done(key=key, files={n: artifacts.digest(t) for n, t in (files or {}).items()})
        return self.but(stages={**kept, stage: ended}, coming={})

    def is_done(self, stage: str, key: str) -> bool:
        """Return True if a stage has finished with the same key."""
        return stage in self.stages and self.stages[stage].key == key

    def digests(self, name: str) -> tuple[str, ...]:
        """Return the digests that a file may have: as recorded, and as a write in progress leaves it."""
        own = (self.files[name],) if name in self.files else ()
        return (*own, *self.coming.get(name, ()))

    @property
    def files(self) -> dict[str, str]:
        """Digest of every file, as left by the last stage that wrote it."""
        return {n: d for s in STAGES if s in self.stages for n, d in self.stages[s].files.items()}


class Case(_Model):
    """Case that a pattern applies to.

    Attributes:
        target: name of the card.
        kind: kind of the operator, as in its definition.
        form: form of the kernel: what one program holds.
        bucket: data volume of a call, in words.
        bottleneck: bottleneck by the model.
    """

    target: str
    kind: str
    form: str
    bucket: str
    bottleneck: str


class Pattern(_Model):
    """A change that helped.

    Attributes:
        case: the case it applies to.
        family: family of the settings.
        change: setting -> steps up or down; empty: back to the choice by rules.
        gain: its largest gain, in % of the speed.
        operator: operator with this gain.
        operators: all operators that it helped.
    """

    case: Case
    family: str
    change: dict[str, int]
    gain: Record
    operator: str
    operators: tuple[str, ...]

    def key(self) -> tuple[object, ...]:
        """Key that identifies a pattern; it includes the status, because a prediction may be wrong."""
        c = self.case
        where = (c.target, c.kind, c.form, c.bucket, c.bottleneck)
        return (*where, self.family, tuple(sorted(self.change.items())), self.gain.status)


class Run(_Model):
    """A run of tuning, whether anything helped or not.

    Attributes:
        operator: the tuned operator.
        target: target of its kernels.
        bottleneck: bottleneck of the initial kernel at the largest size.
        families: families of settings tried.
        helped: families that made the kernel faster.
        before: initial speedup.
        after: final speedup.
        ended: why it ended.
    """

    operator: str
    target: str
    bottleneck: str
    families: tuple[str, ...] = ()
    helped: tuple[str, ...] = ()
    before: Record | None = None
    after: Record | None = None
    ended: str = ""

    def key(self) -> tuple[str, ...]:
        """Key of a run: operator, target and status; a later run with the same key replaces it."""
        return self.operator, self.target, "" if self.after is None else self.after.status


class PatternFile(_Model):
    """A file of patterns, and of the runs that searched for them."""

    schema_: Literal["autofuse.patterns/1"] = Field(default="autofuse.patterns/1", alias="schema")
    patterns: tuple[Pattern, ...] = Field(default=(), max_length=MOST_PATTERNS)
    runs: tuple[Run, ...] = Field(default=(), max_length=MOST_PATTERNS)


class Timed(_Model):
    """Times of one call.

    Attributes:
        shape: shape in the performance script.
        kernel_us: microseconds of the kernel.
        baseline_us: microseconds of the baseline.
    """

    shape: tuple[int, ...]
    kernel_us: float = Field(gt=0)
    baseline_us: float = Field(gt=0)


class Results(_Model):
    """Times measured by the performance script of an operator.

    Attributes:
        operator: its name.
        kernel: SHA-256 of the kernel file.
        device: name of the device.
        when: date and time (UTC).
        times: by shape.
    """

    schema_: Literal["autofuse.kernelgen.results/1"] = Field(
        default="autofuse.kernelgen.results/1", alias="schema"
    )
    operator: str
    kernel: str = Field(pattern="^[0-9a-f]{64}$")
    device: str = Field(min_length=1)
    when: str = Field(min_length=1)
    times: tuple[Timed, ...] = Field(default=(), max_length=MOST_PATTERNS)


_M = TypeVar("_M", State, PatternFile, Results)


def read_state(path: Path) -> State:
    """Read the state of a folder.

    Raises:
        AutofuseError: AF1001 to AF1003, it cannot be read; AF110x, all invalid fields.
    """
    return _read(path, State, "the state of kernelgen")


def read_patterns(path: Path) -> PatternFile:
    """Read a pattern file.

    Raises:
        AutofuseError: as :func:`read_state`.
    """
    return _read(path, PatternFile, "a file of patterns")


def read_results(path: Path) -> Results:
    """Read a file of times measured elsewhere.

    Raises:
        AutofuseError: as :func:`read_state`.
    """
    return _read(path, Results, "a file of results")


def _read(path: Path, model: type[_M], what: str) -> _M:
    try:
        data = reading.content(path)
    except (OSError, ValueError) as e:
        raise reading.unreadable(path, what, e) from None
    document = load(data, str(path))
    value: Any = document.value
    schema = model.model_fields["schema_"].default
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise of_another_kind(document, what, f'such a file has "schema": "{schema}"')
    return validated(model, value, Findings(document))
