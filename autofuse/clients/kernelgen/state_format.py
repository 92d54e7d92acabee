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
#: Entries of a file of patterns.
MOST_PATTERNS = 4096

Sizes: TypeAlias = dict[str, int]
_Word: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
#: Kernel -> what is set of its blocks -> number, as in a tuning file.
Settings: TypeAlias = dict[_Word, dict[_Word, int]]
Data: TypeAlias = Literal["random", "special", "strided"]
Names: TypeAlias = Literal["kernelgen", "document"]
_PART = r"[^/\\\x00-\x1f.][^/\\\x00-\x1f]*"
#: Path inside of the folder; no part begins with a dot.
FileName: TypeAlias = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$")]
#: -> sha256.
Files: TypeAlias = dict[FileName, str]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Record(_Model):
    """A number and where it comes from.

    Attributes:
        value: the number, finite.
        unit: ``us``, ``%``, ``x`` (a ratio), ``GB/s``; empty for one without.
        status: ``measured`` on a device; ``predicted`` by the model of a target; ``twin``: what an interpreter of the
            kernels computes, which says nothing about time.
        by: what made it: device, driver, versions and clocks, or the model.
        when: date and time (UTC) of a measurement; empty for others, which are the same in every run.
    """

    value: float
    unit: str
    status: Literal["measured", "predicted", "twin"]
    by: dict[str, str]
    when: str = ""

    @model_validator(mode="after")
    def _has_a_source(self) -> Record:
        if not self.by:
            raise ValueError("a number needs what made it, in 'by'")
        if bool(self.when) != (self.status == "measured"):
            raise ValueError("'when' belongs to measured numbers, and to no others")
        return self


class Difference(_Model):
    """One output of one case.

    Attributes:
        output: its name.
        elements: that were compared.
        wrong: elements farther from the oracle than the error bounds of its ops allow, or not written.
        error: the largest difference from the oracle, NumPy in higher precision.
        max_diff: the largest difference from the baseline; None where the baseline did not run.
        apart: elements farther from the baseline than ``rtol`` and ``atol``.
        rtol: of the comparison with the baseline.
        atol: as well.
        document: whether kernel and baseline agree within 1e-3, the tolerance of the source document.
        function_diff: the largest difference from the function that the graph is of; None where there is none.
        function_apart: elements farther from it than ``rtol`` and ``atol``.
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
        sizes: of the symbols.
        data: ``random``, ``special`` (with NaN, infinities, subnormal and huge numbers), ``strided``.
        ok: the kernel agrees with the oracle and with the baseline.
        outputs: a comparison for each.
        reason: what failed.
        smaller: a graph with smaller sizes was run in the place of one that is too large for the interpreter.
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
        sizes: of the symbols.
        kernel: time of all kernels of one call.
        baseline: time of the baseline, one kernel for every operator.
        speedup: baseline / kernel.
        bandwidth: what the tensors of the graph need to move, by the time of the kernel, in % of a copy on the target.
        parallelism: places of the target's multiprocessors that the programs of a kernel fill, in waves of one for
            each, in %: the least of all kernels.
        bottleneck: a name of the model of the target.
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
    """One setting that was tried in a round.

    Attributes:
        settings: blocks of the kernels.
        speedup: over the baseline, the geometric mean over all sizes; None where it did not run.
        reason: why it was not taken; empty for the one that was.
        known: a pattern of an earlier run proposed it.
    """

    settings: Settings
    speedup: Record | None = None
    reason: str = ""
    known: bool = False


class Code(_Model):
    """Lines of the kernel file that a round changed, or tried to.

    Attributes:
        before: the lines as they were.
        after: the lines as the round left them.
    """

    before: str
    after: str


class Round(_Model):
    """One round of tuning.

    Attributes:
        version: of the kernel that the round starts with.
        family: of the settings that were tried.
        bottleneck: that led to the family.
        why: from the bottleneck to the family, in words.
        before: settings that differ from what the generator chooses, when the round began; ``after``: when it ended.
        speeds: with ``before``, for every set of sizes.
        speedup: with ``before``, the geometric mean.
        expected: the largest gain that the model predicts for what is tried, in %.
        trials: what was tried.
        result: speedup with ``after``; ``gain``: the difference in %.
        gain: as above.
        target: the speedup that was asked for.
        reached: whether ``result`` is above it.
        profile: what a profiler recorded.
        code: what of the kernel file it was about.
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
    """A stage that ended.

    Attributes:
        key: digest of everything that it depends on; with another one the stage is out of date.
        files: that it wrote -> sha256.
    """

    key: str
    files: Files = Field(default_factory=dict)


class State(_Model):
    """Everything that is known about the operator of one folder.

    Attributes:
        schema_: of the file.
        version: of autofuse.
        operator: its name.
        target: what the kernels are written for.
        names: how the files are named, ``kernelgen`` or ``document``.
        device: where they ran, as the last stage that ran them was told: ``cpu``, ``cuda``, ``cuda:N``.
        stages: that ended.
        accuracy: cases of the accuracy test.
        speeds: of the speed test.
        speedup: the geometric mean over these.
        kernel_version: of the kernel as it is now.
        target_speedup: that is wanted.
        rounds: of tuning.
        skipped: families of settings that tuning passed over -> why.
        ended: why tuning ended.
        tuning: settings that differ from what the generator chooses.
        tuned_for: key of the stage that the rounds belong to, also while it runs.
        coming: files that a stage has begun to write -> the last digests that they may have.
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
        """A copy with other values."""
        return self.model_copy(update=changes)

    def done(self, stage: str, key: str, files: Mapping[str, str] | None = None) -> State:
        """A copy in which a stage has ended, having written ``files``, and those behind it have not."""
        kept = {s: d for s, d in self.stages.items() if STAGES.index(s) < STAGES.index(stage)}
        ended = Done(key=key, files={n: artifacts.digest(t) for n, t in (files or {}).items()})
        return self.but(stages={**kept, stage: ended}, coming={})

    def is_done(self, stage: str, key: str) -> bool:
        """Return True if a stage has ended with the same key."""
        return stage in self.stages and self.stages[stage].key == key

    def digests(self, name: str) -> tuple[str, ...]:
        """Return the digests that a file may have: as recorded, and as a write in progress leaves it."""
        own = (self.files[name],) if name in self.files else ()
        return (*own, *self.coming.get(name, ()))

    @property
    def files(self) -> dict[str, str]:
        """The digest of every file, as the last stage that wrote it left it."""
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
        case: what it is for.
        family: of the settings.
        change: setting -> steps up or down; empty: left to the rules again.
        gain: the best that it brought, in % of the speed.
        operator: that it brought it to.
        operators: all that it helped.
    """

    case: Case
    family: str
    change: dict[str, int]
    gain: Record
    operator: str
    operators: tuple[str, ...]

    def key(self) -> tuple[object, ...]:
        """Patterns with the same key are one; the status counts, since what is predicted may not be so."""
        c = self.case
        where = (c.target, c.kind, c.form, c.bucket, c.bottleneck)
        return (*where, self.family, tuple(sorted(self.change.items())), self.gain.status)


class Run(_Model):
    """A run of tuning, whether anything helped or not.

    Attributes:
        operator: that was tuned.
        target: what its kernels are for.
        bottleneck: of the kernel that it began with, at the largest size.
        families: of settings that were tried.
        helped: those of them that made the kernel faster.
        before: the speedup that it began with.
        after: the speedup that it ended with.
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
    """A file of patterns, and of the runs that looked for them."""

    schema_: Literal["autofuse.patterns/1"] = Field(default="autofuse.patterns/1", alias="schema")
    patterns: tuple[Pattern, ...] = Field(default=(), max_length=MOST_PATTERNS)
    runs: tuple[Run, ...] = Field(default=(), max_length=MOST_PATTERNS)


class Timed(_Model):
    """Times of one call.

    Attributes:
        shape: as the performance script has it.
        kernel_us: microseconds of the kernel.
        baseline_us: microseconds of the baseline.
    """

    shape: tuple[int, ...]
    kernel_us: float = Field(gt=0)
    baseline_us: float = Field(gt=0)


class Results(_Model):
    """Times that the performance script of an operator measured.

    Attributes:
        operator: its name.
        kernel: sha256 of the file of the kernels.
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
    """The state of a folder.

    Raises:
        AutofuseError: AF1001 to AF1003, it cannot be read; AF110x, all that is wrong with its fields.
    """
    return _read(path, State, "the state of kernelgen")


def read_patterns(path: Path) -> PatternFile:
    """A file of patterns.

    Raises:
        AutofuseError: as :func:`read_state`.
    """
    return _read(path, PatternFile, "a file of patterns")


def read_results(path: Path) -> Results:
    """A file of times that were measured elsewhere.

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
