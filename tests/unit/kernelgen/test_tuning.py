"""Rounds of tuning: which settings are tried, what is kept, when it ends, and what is passed on to later runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import autofuse.clients.kernelgen.tuning.patterns as known
from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import define
from autofuse.clients.kernelgen.state_format import Pattern, Record, Settings, Speed, State
from autofuse.clients.kernelgen.tuning.model import Model
from autofuse.clients.kernelgen.tuning.tables import BOTTLENECKS, CHOICE, FAMILIES, preferred
from autofuse.clients.kernelgen.tuning.tuner import TRIALS, Tuner, ratio, speedup_of
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.targets import load_gpu

GALLERY = Path(__file__).parents[3] / "examples" / "gallery"
ACCESS, BLOCKS, GRID, WARPS = (
    "memory_access_optimization",
    "block_size_optimization",
    "grid_config_optimization",
    "warp_stage_optimization",
)


@pytest.fixture(scope="module")
def model() -> Model:
    target = load_gpu("nvidia-h100")
    graph = api.read(GALLERY / "layer_norm.json")
    return Model(define(graph, target, requirement="a test"), target)


def measured(value: float, unit: str = "us") -> Record:
    by = {"device": "a card"}
    return Record(value=value, unit=unit, status="measured", by=by, when="2026-01-01T00:00:00")


@dataclass
class Clock:
    """A judge whose times are a function of the blocks that the kernels have."""

    model: Model
    us: Callable[[dict[str, int]], float]
    bottleneck: str = "bandwidth"
    fails: Callable[[dict[str, int]], bool] = lambda _: False
    crashes: Callable[[dict[str, int]], bool] = lambda _: False
    seen: list[Settings] = field(default_factory=list)
    checked: list[Settings] = field(default_factory=list)

    def blocks(self, settings: Settings) -> dict[str, int]:
        found = Tuning.of(self.model.program(settings), self.model.target)
        return dict(found.kernels[0].sizes)

    def speeds(self, settings: Settings) -> tuple[Speed, ...]:
        self.seen.append(settings)
        blocks = self.blocks(settings)
        if self.crashes(blocks):
            raise AutofuseError.of("AF5003", "the kernel does not come back")
        us = self.us(blocks)
        record, base = measured(us), measured(100.0)
        speed = Speed(
            sizes={"tokens": 8192},
            kernel=record,
            baseline=base,
            speedup=measured(100.0 / us, "x"),
            bottleneck=self.bottleneck,
        )
        return (speed,)

    def wrong(self, settings: Settings) -> str:
        self.checked.append(settings)
        return "far off" if self.fails(self.blocks(settings)) else ""


def tuner(
    clock: Clock, *, target: float = 1e9, rounds: int = 5, patterns: Sequence[Pattern] = ()
) -> Tuner:
    sizes = {"tokens": 8192}
    return Tuner(clock.model, clock, "Normalization", patterns, target, rounds, sizes, repr)


def start() -> State:
    return State(operator="op", target="nvidia-h100", kernel_version="v1.0")


def tuned(clock: Clock, **options: object) -> tuple[State, Tuner]:
    one = tuner(clock, **options)  # type: ignore[arg-type]
    return one.run(start(), lambda now: now), one


def test_the_best_setting_that_is_right_is_kept(model: Model) -> None:
    # Few warps are fast, one warp is fastest and wrong.
    clock = Clock(model, lambda b: 10.0 + b["warps"], fails=lambda b: b["warps"] == 1)
    state, _ = tuned(clock)
    assert clock.blocks(state.tuning)["warps"] == 2
    assert state.speedup == measured(round(100 / 12, 4), "x")
    rounds = [r for r in state.rounds if r.before != r.after]
    assert [r.after for r in rounds][-1] == state.tuning
    assert state.kernel_version == f"v1.{len(rounds)}"
    wrong = [t for r in state.rounds for t in r.trials if "far off" in t.reason]
    assert all(clock.blocks(t.settings)["warps"] == 1 for t in wrong)
    for r in state.rounds:
        assert sum(not t.reason for t in r.trials) == (r.before != r.after)


def test_each_round_has_one_family_and_a_few_settings(model: Model) -> None:
    state, _ = tuned(Clock(model, lambda _: 10.0))
    families = [r.family for r in state.rounds]
    assert len(set(families)) == len(families)
    assert set(families) | set(state.skipped) == set(FAMILIES)
    assert not set(families) & set(state.skipped)
    assert all(1 <= len(r.trials) <= TRIALS for r in state.rounds)
    assert all(r.before == r.after == {} for r in state.rounds)
    assert state.ended == "no family of settings is left"
    assert CHOICE in state.skipped


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_the_bottleneck_chooses_the_family(model: Model, bottleneck: str) -> None:
    state, _ = tuned(Clock(model, lambda _: 10.0, bottleneck), rounds=1)
    order = [f for f in preferred(bottleneck) if f != CHOICE]
    assert state.rounds[0].family == order[0]
    assert bottleneck in state.rounds[0].why
    assert state.ended == "all rounds have run"


def test_without_a_bottleneck_families_come_in_the_order_of_the_document() -> None:
    assert preferred("nobody knows") == tuple(FAMILIES)
    assert list(FAMILIES) == [GRID, BLOCKS, WARPS, ACCESS, CHOICE]


def test_it_ends_where_the_speedup_is_reached(model: Model) -> None:
    clock = Clock(model, lambda b: 10.0 * b["warps"])
    before = clock.speeds({})[0].speedup
    assert before is not None
    state, _ = tuned(clock, target=before.value * 1.5)
    assert state.rounds[-1].reached is True
    assert all(r.reached is False for r in state.rounds[:-1])
    assert state.ended == "the target speedup is reached"
    none, _ = tuned(clock, target=before.value / 2)
    assert none.rounds == ()
    assert none.ended == state.ended
    exact, _ = tuned(clock, target=before.value, rounds=1)
    assert len(exact.rounds) == 1  # it is to be exceeded


def test_what_does_not_run_is_no_end(model: Model) -> None:
    usual = Clock(model, lambda _: 0.0).blocks({})
    clock = Clock(model, lambda b: 10.0 + b["rows"], crashes=lambda b: b["warps"] != usual["warps"])
    state, _ = tuned(clock)
    reasons = {t.reason for r in state.rounds for t in r.trials if t.speedup is None}
    assert reasons == {"the kernel does not come back"}
    assert clock.blocks(state.tuning)["rows"] == 1


def test_noise_is_no_gain(model: Model) -> None:
    usual = Clock(model, lambda _: 0.0).blocks({})
    clock = Clock(model, lambda b: 10.0 if b == usual else 9.95)
    state, _ = tuned(clock)
    assert state.tuning == {}
    assert clock.checked == []


def test_a_run_that_was_killed_goes_on_behind_its_last_round(model: Model) -> None:
    def us(b: dict[str, int]) -> float:
        return 10.0 + b["warps"] + b["rows"]

    whole, _ = tuned(Clock(model, us))
    kept: list[State] = []

    class KilledError(Exception):
        pass

    def keep(state: State) -> State:
        kept.append(state)
        if len(kept) == 2:
            raise KilledError
        return state

    with pytest.raises(KilledError):
        tuner(Clock(model, us)).run(start(), keep)
    again = tuner(Clock(model, us)).run(kept[-1], lambda now: now)
    assert again == whole


def test_blocks_are_left_to_the_rules_again_where_that_is_better(model: Model) -> None:
    usual = Clock(model, lambda _: 0.0).blocks({})
    clock = Clock(model, lambda b: 20.0 if b == usual else 10.0 + b["warps"])
    state, _ = tuned(clock)
    assert state.tuning
    # The same settings seem slow in a later run, which begins with them.
    late = Clock(model, lambda b: 10.0 if b == usual else 20.0)
    done = tuner(late).run(state.but(rounds=()), lambda now: now)
    assert done.tuning == {}
    assert [r.family for r in done.rounds if r.before != r.after] == [CHOICE]


def test_what_helped_is_tried_first_in_later_runs(model: Model) -> None:
    clock = Clock(model, lambda b: 10.0 + b["warps"], "parallelism")
    _, first = tuned(clock)
    (best,) = [p for p in first.found if p.family == WARPS][:1]
    assert best.gain.status == "measured"
    assert best.case.form == "rows"
    later = Clock(model, lambda b: 10.0 + b["warps"], "parallelism")
    again, _ = tuned(later, patterns=first.found, rounds=1)
    helped = {p.family for p in first.found}
    assert again.rounds[0].family in helped
    assert again.rounds[0].trials[0].known
    other = Clock(model, lambda b: 10.0 + b["warps"], "launch")
    unlike, _ = tuned(other, patterns=first.found, rounds=1)
    assert not any(t.known for t in unlike.rounds[0].trials)


def test_kernels_that_choose_at_the_call_have_nothing_to_tune() -> None:
    target = load_gpu("nvidia-h100")
    graph = api.read(GALLERY / "masked_softmax.json")
    own = Model(define(graph, target, requirement="a test"), target)

    class Judge:
        def speeds(self, settings: Settings) -> tuple[Speed, ...]:
            speed = Speed(sizes={}, kernel=measured(1.0), bottleneck="bandwidth")
            return (speed,)

        def wrong(self, settings: Settings) -> str:
            return ""

    sizes = {s.name: s.hint or 1 for s in graph.symbols}
    one = Tuner(own, Judge(), "Normalization", (), 1.0, 5, sizes, repr)
    state = one.run(start(), lambda now: now)
    assert state.speedup is None
    assert state.tuning == {}
    late = [why for f, why in state.skipped.items() if f != CHOICE]
    assert late
    assert all("at the call" in why for why in late)


# numbers --------------------------------------------------------------------------------------


def test_a_mean_needs_every_number() -> None:
    known_one = Speed(sizes={}, kernel=measured(2.0), speedup=measured(4.0, "x"))
    other = Speed(sizes={}, kernel=measured(4.0), speedup=measured(9.0, "x"))
    missing = Speed(sizes={})
    mean = speedup_of((known_one, other))
    assert mean is not None
    assert mean.value == pytest.approx(6.0)
    assert speedup_of((known_one, missing)) is None
    assert speedup_of(()) is None
    assert ratio((known_one, other), (other, other)) == pytest.approx(0.5**0.5)
    assert ratio((known_one,), (missing,)) is None
    assert ratio((), ()) is None


def test_the_patterns_of_a_run_are_kept_with_those_before(tmp_path: Path, model: Model) -> None:
    _, one = tuned(Clock(model, lambda b: 10.0 + b["warps"]))
    path, summary = known.save(tmp_path / known.PATTERNS, known.joined((), one.found))
    assert known.load(path).patterns == known.joined((), one.found)
    assert "优化模式总结" in summary.read_text("utf-8")
