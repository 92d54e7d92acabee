"""The stages over a folder: what each needs, what it passes over, what a card that measures changes."""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import autofuse.clients.kernelgen.state as states
from autofuse import api
from autofuse.base import artifacts, cache
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen import operator as operators
from autofuse.clients.kernelgen import profiled, stages
from autofuse.clients.kernelgen.defining.definition import Definition, define
from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.stages import TUNING, Options
from autofuse.clients.kernelgen.state_format import Accuracy, Difference, Record, Settings, State
from autofuse.clients.kernelgen.testing.accuracy import Pair
from autofuse.clients.kernelgen.testing.speed import Bench, Times
from autofuse.clients.kernelgen.tuning import patterns
from autofuse.clients.kernelgen.tuning.log import LOG
from autofuse.machines.gpu.profiler import Counted
from autofuse.targets import find_target, load_gpu

GALLERY = Path(__file__).parents[3] / "examples" / "gallery"
TARGET = load_gpu("nvidia-h100")
ALL = ("generate", "check", "tune", "log")


def definition(name: str = "layer_norm", **more: object) -> Definition:
    graph = api.read(GALLERY / f"{name}.json")
    return define(graph, TARGET, requirement="a test", **more)  # type: ignore[arg-type]


def case(ok: bool = True) -> Accuracy:
    error = Record(value=0.0, unit="", status="twin", by={"interpreter": "none"})
    difference = Difference(output="out", elements=3, wrong=0 if ok else 1, error=error)
    reason = "" if ok else "far off"
    return Accuracy(sizes={}, data="random", ok=ok, outputs=(difference,), reason=reason)


class Verdicts:
    """In the place of the accuracy test: says what it is told to, and of which settings it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Settings, str]] = []
        self.wrong: Settings | None = None

    def __call__(
        self, own: operators.Operator, settings: Settings, device: str, *_: object, **__: object
    ) -> tuple[Accuracy, ...]:
        self.asked.append((settings, device))
        return (case(settings != self.wrong),)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch, triton_installed: None) -> Verdicts:
    del triton_installed
    found = Verdicts()
    monkeypatch.setattr(
        operators.Operator,
        "accuracy",
        lambda self, *words, **more: found(self, *words, **more),
    )
    return found


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(tmp_path / "op")


def run(name: str, options: Options) -> stages.Result:
    done: stages.Result = getattr(stages, name)(options)
    return done


def run_all(options: Options, found: Definition | None = None) -> list[stages.Result]:
    first = stages.describe(found or definition(), options)
    return [first, *(run(name, options) for name in ALL)]


def read(options: Options) -> State:
    state = states.load(options.folder)
    assert state is not None
    return state


def code(error: pytest.ExceptionInfo[AutofuseError]) -> str:
    return error.value.diagnostics[0].code


# order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "before"), list(zip(ALL, ("describe", *ALL), strict=False)))
def test_a_stage_needs_the_one_before(
    options: Options, verdicts: Verdicts, stage: str, before: str
) -> None:
    if stage == "generate":
        options.folder.mkdir(parents=True)
    else:
        stages.describe(definition(), options)
    for name in ALL[: max(0, ALL.index(stage) - 1)]:
        run(name, options)
    with pytest.raises(AutofuseError) as error:
        run(stage, options)
    assert code(error) == "AF5010"
    found = error.value.diagnostics[0]
    assert f"{stage} needs the output of {before}" in found.message
    assert f"autofuse kernelgen {before}" in found.hint


def test_what_is_up_to_date_is_passed_over(options: Options, verdicts: Verdicts) -> None:
    found = definition(target_speedup=1e9)
    first = run_all(options, found)
    assert [r.passed_over for r in first] == [False] * 5
    texts = {p.name: p.read_bytes() for p in options.folder.iterdir()}
    asked = len(verdicts.asked)
    again = run_all(options, found)
    assert [r.passed_over for r in again] == [True] * 5
    assert [r.facts for r in again[2:4]] == [r.facts for r in first[2:4]]
    assert {p.name: p.read_bytes() for p in options.folder.iterdir()} == texts
    assert len(verdicts.asked) == asked


def test_a_run_is_the_same_in_another_folder(tmp_path: Path, verdicts: Verdicts) -> None:
    texts = []
    for name in ("a", "b"):
        folder = tmp_path / name / "op"
        run_all(Options(folder), definition(target_speedup=1e9))
        texts.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert texts[0] == texts[1]


def test_another_definition_begins_anew(options: Options, verdicts: Verdicts) -> None:
    run_all(options, definition(target_speedup=1e9))
    assert not stages.describe(definition("swiglu"), options).passed_over
    state = read(options)
    assert list(state.stages) == ["describe"]
    assert (state.operator, state.rounds, state.tuning) == ("swiglu", (), {})
    assert sorted(p.name for p in options.folder.iterdir()) == [
        "definition.json",
        "definition.md",
        states.STATE,
    ]


def test_another_seed_is_another_check(options: Options, verdicts: Verdicts) -> None:
    run_all(options)
    again = run("check", replace(options, seed=1))
    assert not again.passed_over
    assert run("check", replace(options, seed=1)).passed_over


def test_force_runs_what_is_up_to_date(tmp_path: Path, verdicts: Verdicts) -> None:
    run_all(Options(tmp_path / "op"))
    again = run_all(Options(tmp_path / "op", force=True))
    assert [r.passed_over for r in again] == [False] * 5


# files ----------------------------------------------------------------------------------------


def test_files_that_were_edited_are_refused(tmp_path: Path, verdicts: Verdicts) -> None:
    plain, forced = Options(tmp_path / "op"), Options(tmp_path / "op", force=True)
    stages.describe(definition(), plain)
    run("generate", plain)
    kernel = plain.folder / "layer_norm_triton.py"
    text = kernel.read_text("utf-8")
    kernel.write_text(text + "# mine\n", "utf-8")
    for stage in ("generate", "check"):
        with pytest.raises(AutofuseError) as error:
            run(stage, plain)
        assert code(error) == "AF5010"
        assert "layer_norm_triton.py was edited" in error.value.diagnostics[0].message
    run("generate", forced)
    assert kernel.read_text("utf-8") == text
    run("check", plain)


def test_a_definition_that_was_edited_is_refused(options: Options) -> None:
    stages.describe(definition(), options)
    path = options.folder / "definition.json"
    path.write_text(path.read_text("utf-8").replace('"rounds": 5', '"rounds": 4'), "utf-8")
    with pytest.raises(AutofuseError) as error:
        run("generate", options)
    assert code(error) == "AF5010"


@pytest.mark.usefixtures("triton_installed")
def test_a_folder_of_another_version_is_refused(options: Options) -> None:
    stages.describe(definition(), options)
    path = options.folder / states.STATE
    data = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**data, "version": "0.0.0"}), "utf-8")
    for stage in ALL:
        with pytest.raises(AutofuseError) as error:
            run(stage, options)
        assert code(error) == "AF5010"
    with pytest.raises(AutofuseError):
        stages.describe(definition(), options)
    forced = Options(options.folder, force=True)
    assert not stages.describe(definition(), forced).passed_over


def test_names_of_the_document(tmp_path: Path, verdicts: Verdicts) -> None:
    options = Options(tmp_path / "op", names="document")
    run_all(options)
    names = {p.name for p in options.folder.iterdir()}
    assert "layer_norm算子定义文档.md" in names
    assert {"layer_norm_accuracy.py", "layer_norm_performance.py", LOG} <= names


def test_a_variant_in_ascend_c_comes_and_goes(tmp_path: Path) -> None:
    both = Options(tmp_path / "op", ascendc=True)
    stages.describe(definition("swiglu"), both)
    run("generate", both)
    wrapper = both.folder / "ascendc" / "swiglu_ascendc.py"
    assert wrapper.exists()
    assert run("generate", both).passed_over
    assert not run("generate", Options(both.folder)).passed_over
    assert not wrapper.parent.exists()
    assert (both.folder / "swiglu_triton.py").exists()


# tuning ---------------------------------------------------------------------------------------


def test_nothing_is_tuned_that_is_wrong(options: Options, verdicts: Verdicts) -> None:
    stages.describe(definition(), options)
    run("generate", options)
    verdicts.wrong = {}
    assert not run("check", options).ok
    with pytest.raises(AutofuseError) as error:
        run("tune", options)
    assert code(error) == "AF5010"
    assert "far off" in error.value.diagnostics[0].message


class KilledError(BaseException):
    """What a kill is to a process: nothing behind it runs."""


class Card:
    """In the place of a card: kernels with few warps are fast."""

    memory = 1 << 28
    facts: Mapping[str, str] = {"device": "NVIDIA Zed", "when": "2026-01-01T00:00:00"}

    def __init__(self, device: str) -> None:
        self.device = device
        self.timed: list[str] = []

    def __enter__(self) -> "Card":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    measured = Bench.measured

    def times(self, texts: Sequence[str], pair: Pair, sizes: Mapping[str, int]) -> list[Times]:
        out = []
        for text in texts:
            self.timed.append(text)
            warps = re.search(r"num_warps=(\d+)", text)
            us = 90.0 if warps is None else 10.0 + int(warps[1])
            out.append(Times(self.measured(us, "us")))
        return out


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "Bench", Card)
    monkeypatch.setattr(stages, "checked_device", lambda device: device)


def test_on_a_card_every_section_of_the_log_is_filled(
    tmp_path: Path, card: None, verdicts: Verdicts
) -> None:
    options = Options(tmp_path / "op", device="cuda")
    run_all(options, definition(target_speedup=8.15))
    state = read(options)
    assert state.rounds
    assert state.tuning
    assert all(device == "cuda" for _, device in verdicts.asked)
    for speed in state.speeds:
        for record in (speed.kernel, speed.baseline, speed.speedup, speed.bandwidth):
            assert record is not None
            assert record.status == "measured"
            assert record.by == {"device": "NVIDIA Zed"}
    last = state.rounds[-1]
    assert last.reached is True
    assert last.gain is not None
    assert last.gain.status == "measured"
    assert last.expected is not None
    assert last.expected.status == "predicted"
    # The kernel has what was best, and the tuning file makes the same kernel.
    text = (options.folder / "layer_norm_triton.py").read_text("utf-8")
    warps = next(iter(state.tuning.values()))["warps"]
    assert f"num_warps={warps}" in text
    graph = api.read(GALLERY / "layer_norm.json")
    built = api.build(
        definition().graph, target=TARGET, entry="plain", tuning=options.folder / TUNING
    )
    assert built.files["layer_norm_triton.py"] == text
    assert built.graph.name == graph.name
    log = (options.folder / LOG).read_text("utf-8")
    rounds = log[: log.index("## All rounds")].split("## Round")[1:]
    assert len(rounds) == len(state.rounds)
    left = [line for r in rounds for line in r.splitlines() if "not recorded" in line]
    profiler = ("Cache命中率", "AI Core利用率")
    assert all(any(p in x for p in profiler) for x in left)
    helped = json.loads((tmp_path / "patterns.json").read_text("utf-8"))["patterns"]
    assert {p["gain"]["status"] for p in helped} == {"measured"}


def test_a_profiler_fills_what_is_left_of_the_log(
    tmp_path: Path, card: None, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(tmp_path / "op", device="cuda")
    run_all(options, definition(target_speedup=8.15))
    state = read(options)
    kernels = list(dict.fromkeys(json.dumps(r.before) for r in state.rounds))
    asked = []

    def counted(arguments: Sequence[str], metrics: Sequence[str], folder: Path) -> object:
        jobs = json.loads(Path(arguments[-1]).read_text("utf-8"))
        asked.append([j["sizes"] for j in jobs])
        two = [Counted("a", (10.0, 300.0, 80.0, 5.0)), Counted("b", (30.0, 100.0, 20.0, 25.0))]
        return [two for _ in jobs]

    monkeypatch.setattr(profiled, "counters", counted)
    monkeypatch.setattr(profiled, "Bench", Card)
    assert not stages.log(replace(options, profile=True)).passed_over
    assert asked == [[state.rounds[0].speeds[-1].sizes] * len(kernels)]
    for r in read(options).rounds:
        found = r.profile.cache_hit, r.profile.core_use
        assert [x and (x.value, x.unit, x.status) for x in found] == [
            (65.0, "%", "measured"),
            (20.0, "%", "measured"),
        ]
    log = (options.folder / LOG).read_text("utf-8")
    assert "Cache命中率): 65% (measured: NVIDIA Zed)" in log
    assert "not recorded" not in log[: log.index("## All rounds")].partition("## Round")[2]
    # What is known is not counted again.
    assert stages.log(replace(options, profile=True)).passed_over
    assert len(asked) == 1


def test_a_profile_is_of_what_a_card_ran(options: Options, verdicts: Verdicts) -> None:
    run_all(options)
    with pytest.raises(AutofuseError, match=r"no round of .* ran on a card") as e:
        stages.log(replace(options, profile=True))
    assert e.value.diagnostics[0].code == "AF5007"


def test_what_fails_at_more_sizes_is_not_kept(
    tmp_path: Path, card: None, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(tmp_path / "op", device="cuda")
    stages.describe(definition(target_speedup=8.15), options)
    run("generate", options)
    run("check", options)
    plain = (options.folder / "layer_norm_triton.py").read_bytes()

    def accuracy(
        self: operators.Operator, settings: Settings, *_: object, few: bool = False, **__: object
    ) -> tuple[Accuracy, ...]:
        return (case(few or not settings),)

    monkeypatch.setattr(operators.Operator, "accuracy", accuracy)
    run("tune", options)
    state = read(options)
    assert state.tuning == {}
    assert "fails at more sizes" in state.ended
    assert (options.folder / "layer_norm_triton.py").read_bytes() == plain
    assert not (options.folder / TUNING).exists()
    found = patterns.load(tmp_path / patterns.PATTERNS)
    assert found.patterns == ()
    assert "fails at more sizes" in found.runs[0].ended


def test_a_run_of_tuning_that_was_killed_goes_on(
    tmp_path: Path, card: None, verdicts: Verdicts
) -> None:
    found = definition(target_speedup=1e9)
    whole = Options(tmp_path / "whole" / "op", device="cuda")
    run_all(whole, found)

    def kill(text: str) -> None:
        if text.startswith("round 2"):
            raise KilledError

    folder = tmp_path / "killed" / "op"
    with pytest.raises(KilledError):
        run_all(Options(folder, device="cuda", watch=kill), found)
    state = states.load(folder)
    assert state is not None
    assert len(state.rounds) == 2
    assert "tune" not in state.stages
    again = run_all(Options(folder, device="cuda"), found)
    assert [r.passed_over for r in again] == [True, True, False, False, False]
    for path in whole.folder.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name


def test_whatever_write_a_run_is_killed_at_the_next_one_goes_on(
    tmp_path: Path, card: None, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = definition(target_speedup=1e9, rounds=2)
    write, written = cache.write_atomic, 0
    most = 1 << 30

    def counted(path: Path, data: str) -> None:
        nonlocal written
        written += 1
        if written > most:
            raise KilledError
        write(path, data)

    monkeypatch.setattr(cache, "write_atomic", counted)
    whole = Options(tmp_path / "whole" / "op", device="cuda")
    run_all(whole, found)
    texts = {p.name: p.read_bytes() for p in whole.folder.iterdir()}
    every = range(1, written)
    for k in sorted(random.sample(every, 5)):
        folder = tmp_path / f"at{k}" / "op"
        most, written = k, 0
        with pytest.raises(KilledError):
            run_all(Options(folder, device="cuda"), found)
        most, written = 1 << 30, 0
        run_all(Options(folder, device="cuda"), found)
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == texts, f"write {k}"


def test_other_options_tune_again(tmp_path: Path, card: None, verdicts: Verdicts) -> None:
    options = Options(tmp_path / "op", device="cuda")
    run_all(options, definition(target_speedup=1e9))
    one = run("tune", Options(options.folder, device="cuda", rounds=1))
    assert not one.passed_over
    assert len(read(options).rounds) == 1
    assert "log" not in read(options).stages


def test_what_helped_elsewhere_is_tried_first(
    tmp_path: Path, card: None, verdicts: Verdicts
) -> None:
    for name in ("first", "second"):
        options = Options(tmp_path / name, device="cuda", patterns=tmp_path / "helped.json")
        run_all(options, definition(target_speedup=1e9))
    rounds = read(options).rounds
    assert rounds[0].trials[0].known
    assert (tmp_path / "helped.md").exists()
    assert "a pattern from an earlier run" in (options.folder / LOG).read_text("utf-8")


@pytest.mark.parametrize("name", ["tl", "lambda", "x):", "../up", "torch", "state"])
def test_names_of_graphs_are_no_paths_and_no_words(
    tmp_path: Path, verdicts: Verdicts, name: str
) -> None:
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": name,
            "symbols": {"n": {"hint": 4096}},
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}],
            "nodes": [{"name": "y", "op": "Exp", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }
    )
    options = Options(tmp_path / "out" / "op")
    found = define(graph, TARGET, requirement="a test", target_speedup=1e9, rounds=1)
    results = run_all(options, found)
    assert all(r.ok for r in results), [r.lines for r in results]
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_dir()) == ["op"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    log = (options.folder / LOG).read_text("utf-8")
    assert log.count("\n# ") == 0


@pytest.mark.parametrize("target", ["ascend910b1", "triton-ascend910b1"])
def test_every_stage_runs_for_a_chip_of_ascend(
    tmp_path: Path, verdicts: Verdicts, target: str
) -> None:
    """Without one its times are predicted, and said to be; what is measured elsewhere takes their place."""
    made = define(api.read(GALLERY / "log_sum_exp.json"), find_target(target), requirement="a test")
    options = Options(tmp_path / "op")
    run_all(options, replace(made, target_speedup=99.0))
    state = read(options)
    assert state.target == target
    assert state.rounds
    assert state.tuning
    assert {s.kernel.status for s in state.speeds if s.kernel} == {"predicted"}
    assert all(r.code is not None and r.code.before for r in state.rounds)
    text = (options.folder / LOG).read_text(encoding="utf-8")
    assert "predicted: kernel times of triton-ascend910b1" in text
    assert "measured:" not in text.partition("\n## ")[2]
    assert "```python" in text
    summary = tmp_path / "optimization_patterns.md"
    assert "log_sum_exp" in summary.read_text(encoding="utf-8")

    kernel = (options.folder / "log_sum_exp_triton.py").read_text(encoding="utf-8")
    shapes = Cases(made.graph).shapes(operators.Operator(made, "kernelgen").sizes())
    results = {
        "schema": "autofuse.kernelgen.results/1",
        "operator": "log_sum_exp",
        "kernel": artifacts.digest(kernel),
        "device": "Ascend910B1",
        "when": "2026-01-01T00:00:00",
        "times": [{"shape": s, "kernel_us": 20.0, "baseline_us": 50.0} for s in shapes],
    }
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results), encoding="utf-8")
    stages.log(replace(options, results=(file,)))
    state = read(options)
    assert state.speedup is not None
    assert (state.speedup.value, state.speedup.status) == (2.5, "measured")
    text = (options.folder / LOG).read_text(encoding="utf-8")
    assert "2.5x (measured: Ascend910B1)" in text
    for change, code in (({"kernel": "0" * 64}, "AF5007"), ({"operator": "x"}, "AF5007")):
        file.write_text(json.dumps(results | change), encoding="utf-8")
        with pytest.raises(AutofuseError) as caught:
            stages.log(replace(options, results=(file,)))
        assert caught.value.diagnostics[0].code == code


def test_results_end_tuning_where_they_are_fast_enough(tmp_path: Path, verdicts: Verdicts) -> None:
    made = define(
        api.read(GALLERY / "log_sum_exp.json"), find_target("ascend910b1"), requirement="a test"
    )
    made = replace(made, target_speedup=50.0)
    options = Options(tmp_path / "op")
    for stage in (lambda o: stages.describe(made, o), stages.generate, stages.check):
        stage(options)
    kernel = (options.folder / "log_sum_exp_triton.py").read_text(encoding="utf-8")
    shapes = Cases(made.graph).shapes(operators.Operator(made, "kernelgen").sizes())
    file = tmp_path / "results.json"
    times = [{"shape": s, "kernel_us": 1.0, "baseline_us": 60.0} for s in shapes]
    head = {"schema": "autofuse.kernelgen.results/1", "operator": "log_sum_exp"}
    more = {
        "device": "Ascend910B1",
        "when": "2026-01-01T00:00:00",
        "kernel": artifacts.digest(kernel),
    }
    file.write_text(json.dumps({**head, **more, "times": times}), encoding="utf-8")
    stages.tune(replace(options, results=(file,)))
    state = read(options)
    assert (state.rounds, state.ended) == ((), "the target speedup is reached")
    assert state.speedup is not None
    assert (state.speedup.value, state.speedup.status) == (60.0, "measured")


@pytest.mark.parametrize("device", ["cuda", "npu", "npu:1"])
def test_the_hint_names_the_hardware_of_the_target(
    tmp_path: Path, verdicts: Verdicts, device: str
) -> None:
    made = define(
        api.read(GALLERY / "log_sum_exp.json"), find_target("ascend910b1"), requirement="a test"
    )
    options = Options(tmp_path / "op")
    run_all(options, made)
    for stage in (stages.check, stages.tune):
        with pytest.raises(AutofuseError) as caught:
            stage(replace(options, device=device))
        (d,) = caught.value.diagnostics
        assert d.code == "AF5007"
        assert "ascend910b1" in d.message
        assert "npu" in d.hint
        assert "cuda" not in d.hint
    with pytest.raises(AutofuseError) as caught:
        stages.log(replace(options, profile=True))
    assert "msprof" in caught.value.diagnostics[0].hint
