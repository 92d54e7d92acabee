"""Options that do not go together, and what the verbs say of GPUs before a kernel is made."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.targets import gpu_names, load_gpu


@pytest.fixture
def file(tmp_path: Path, native: Callable) -> Path:
    path = tmp_path / "add_one.json"
    path.write_text(json.dumps(native()), encoding="utf-8")
    return path


def test_targets_lists_gpus(autofuse: Callable) -> None:
    done = autofuse("targets")
    assert done.code == 0
    assert all(name in done.out for name in gpu_names())
    rows = autofuse("targets", "--json").json()["result"]["gpus"]
    assert [r["name"] for r in rows] == list(gpu_names())
    assert rows[0]["copy_gbs"] == load_gpu("nvidia-h100").copy_gbs


def test_every_figure_of_a_gpu(autofuse: Callable) -> None:
    row = autofuse("targets", "nvidia-h100", "--json").json()["result"]
    assert (row["dialect"], row["multiprocessors"]) == ("cuda", 132)
    assert {f["name"] for f in row["figures"]} == {
        f.name for f in load_gpu("nvidia-h100").figures()
    }
    text = autofuse("targets", "nvidia-h100").out
    assert "nvidia-h100 (Triton, cuda)" in text
    assert "measured" in text


def test_an_unknown_target_is_compared_with_both_kinds(autofuse: Callable, file: Path) -> None:
    for words in (("targets", "nvidia_h100"), ("build", file, "-t", "nvidia_h100")):
        done = autofuse(*words)
        assert done.code == 1
        assert "did you mean 'nvidia-h100'?" in done.err
        assert "ascend910b1" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verify", "--device", "tpu"), "Ascend C kernels run on the CPU twin, not on tpu"),
        (("run", "--device", "cuda:01"), "Ascend C kernels run on the CPU twin, not on cuda:01"),
        (
            ("verify", "--device", "cuda", "-t", "ascend950pr"),
            "kernels for ascend950pr do not run on a",
        ),
        (
            ("run", "--device", "cuda", "-t", "ascend950pr"),
            "kernels for ascend950pr do not run on a",
        ),
        (("verify", "--device", "cuda", "--check-seed", "3"), "--check-seed is for the CPU twin"),
        (("run", "--device", "cuda", "--check", "all"), "--check is for the CPU twin"),
        (("run", "--device", "cuda", "--trace", "t.json"), "--trace is for the CPU twin"),
        (
            ("bench", "--device", "cuda", "-t", "ascend950pr"),
            "kernels for ascend950pr do not run on a",
        ),
        (
            ("bench", "--device", "cuda", "-t", "triton-ascend910b1"),
            "kernels for triton-ascend910b1 do not run on cuda:0",
        ),
        (("verify", "-t", "nvidia-h100", "--check-seed", "3"), "--check-seed is for the CPU twin"),
        (("verify", "-t", "nvidia-h100", "--check", "fast"), "--check is for the CPU twin"),
        (("run", "-t", "nvidia-h100", "--key", "0"), "--key is for the CPU twin"),
        (("run", "-t", "nvidia-h100", "--check", "all"), "--check is for the CPU twin"),
        (("run", "-t", "nvidia-h100", "--trace", "t.json"), "--trace is for the CPU twin"),
        (("run", "-t", "nvidia-h100", "--html", "t.html"), "--html is for the CPU twin"),
        (("build", "-t", "nvidia-h100", "--ub", "65536"), "bytes of UB are for"),
        (("dump", "-t", "nvidia-h100", "--stage", "kernel"), "have no templates"),
        (("dump", "-t", "nvidia-h100", "--template", "0"), "have no templates"),
        (("explain", "-t", "nvidia-h100", "--html", "e.html"), "nvidia-h100 has no templates"),
    ],
)
def test_what_does_not_go_together(
    autofuse: Callable, file: Path, words: tuple[str, ...], message: str
) -> None:
    done = autofuse(words[0], file, *words[1:])
    assert done.code == 1
    assert f"error AF5007: {message}" in done.err or message in done.err.splitlines()[0]
    assert not list(file.parent.glob("*.html"))


@pytest.mark.parametrize("verb", ["verify", "run"])
def test_a_card_needs_its_driver_and_nvcc(
    autofuse: Callable, file: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFUSE_NVCC", "nvcc-that-is-nowhere")
    done = autofuse(verb, file, "--device", "cuda:99")
    assert done.code == 1
    assert "error AF5001" in done.err
    assert "nvcc-that-is-nowhere" in done.err or "there is no card" in done.err


def test_the_loop_level_graph_of_a_gpu(autofuse: Callable, file: Path) -> None:
    done = autofuse("dump", file, "-t", "nvidia-h100", "--stage", "hint")
    assert done.code == 0
    assert "add_one" in done.out
