"""The benchmark over the gallery keeps the states of a card, goes on behind what fails, and says what is missing."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import autofuse.clients.kernelgen.state as states
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.state_format import Accuracy, Profile, Record, Round, Speed, State

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "kernelgen" / "gallery.py"
CARD = {"device": "NVIDIA Zed"}


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernelgen_gallery", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(value: float, unit: str) -> Record:
    return Record(value=value, unit=unit, status="measured", by=CARD, when="2026-01-01T00:00:00")


def state(name: str, *, ok: bool = True) -> State:
    ratio, share = measured(2.0, "x"), measured(60.0, "%")
    speed = Speed(sizes={}, bandwidth=share, parallelism=share, bottleneck="launch")
    done = Round(
        version="v1.0",
        family="block_size_optimization",
        bottleneck="launch",
        why="",
        speeds=(speed,),
        speedup=ratio,
        result=ratio,
        gain=share,
        profile=Profile(cache_hit=share),
    )
    return State(
        operator=name,
        target="nvidia-h100",
        accuracy=(Accuracy(sizes={}, data="random", ok=ok, reason="" if ok else "far off"),),
        speeds=(speed,),
        speedup=ratio,
        rounds=(done,),
    )


def test_states_of_a_card_are_kept(
    gallery: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def operator(name: str, _: object) -> State:
        if name == "swiglu":
            raise AutofuseError.of("AF5003", "the card fell off")
        return state(name, ok=name != "adamw")

    monkeypatch.setattr(gallery, "operator", operator)
    words = ["--states", str(tmp_path), "--only", "swiglu,adamw,layer_norm"]
    assert gallery.main([*words, "--device", "cpu"]) == 2
    assert list(tmp_path.iterdir()) == []
    assert gallery.main(words) == 2
    out, err = capsys.readouterr()
    assert "adamw: far off" in out
    assert "swiglu: error AF5003: the card fell off" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adamw.json", "layer_norm.json"]
    table = "\n".join(gallery.report(tmp_path))
    assert "| layer_norm | 1 of 1 | 2x (measured: NVIDIA Zed) |" in table
    assert "| adamw | 0 of 1 |" in table


def test_nothing_is_begun_behind_the_time(
    gallery: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gallery, "operator", lambda name, _: state(name))
    assert gallery.main(["--states", str(tmp_path), "--seconds", "-1"]) == 0
    assert list(tmp_path.iterdir()) == []
    names = [p.stem for p in gallery.GALLERY.glob("*.json")]
    out = capsys.readouterr().out
    assert names
    assert all(f"{name}: not begun" in out for name in names)


def test_what_is_missing_is_named(gallery: ModuleType, tmp_path: Path) -> None:
    assert gallery.missing(state("op")) == ["use of units"]
    bare = State(operator="op", target="t")
    assert gallery.missing(bare) == ["rounds"]
    one = state("op").rounds[0].model_copy(update={"gain": None, "bottleneck": ""})
    assert gallery.missing(state("op").but(rounds=(one,))) == [
        "bottleneck",
        "gain",
        "use of units",
    ]
    states.save_as(tmp_path / "op.json", bare)
    assert "not recorded" in "\n".join(gallery.report(tmp_path))
