"""``autofuse kernelgen``: five verbs and one for all, over a folder, as a user has them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from extras import needs

from autofuse.cli import main

VERBS = ("describe", "generate", "check", "tune", "log", "run")

runs = needs("torch", "triton")


@pytest.fixture
def file(tmp_path: Path, native: Callable) -> Path:
    path = tmp_path / "add_one.json"
    path.write_text(json.dumps(native()), encoding="utf-8")
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernelgen", verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: autofuse kernelgen {verb}" in out
    assert f"autofuse kernelgen {verb}" in out.partition("Examples:")[2]
    assert "--json" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_verbs_are_in_the_help(autofuse: Callable) -> None:
    for words in (("kernelgen",), ("kernelgen", "-h")):
        done = autofuse(*words)
        assert done.code == 0
        assert all(f"\n  {verb}" in done.out for verb in VERBS)
    assert "kernelgen" in autofuse("--help").out


def test_definition_and_files(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    done = autofuse("kernelgen", "describe", file, "--json")
    assert done.code == 0, done.err
    folder = tmp_path / "kernelgen-out" / "add_one"
    assert done.json()["result"]["folder"] == "kernelgen-out/add_one"
    assert (folder / "definition.md").exists()
    made = autofuse("kernelgen", "generate", folder, "--json").json()["result"]
    assert set(made["stages"]) == {"generate"}
    assert sorted(made["stages"]["generate"]["files"]) == [
        "add_one_baseline.py",
        "add_one_triton.py",
        "test_add_one_accuracy.py",
        "test_add_one_performance.py",
    ]
    assert made["stages"]["generate"]["findings"] == []
    again = autofuse("kernelgen", "generate", file)
    assert again.out.count("up to date") == 2
    for verb, *option in (
        ("generate", "-t", "nvidia-h200"),
        ("run", "--names", "document"),
        ("run", "--rounds", "2"),
    ):
        refused = autofuse("kernelgen", verb, folder, *option)
        assert refused.code == 1
        assert "AF1005" in refused.err
        assert "belongs to a definition" in refused.err


def test_a_sentence_is_a_source(autofuse: Callable, tmp_path: Path) -> None:
    line = "softmax over the last axis of x float16 [b, 64]"
    done = autofuse("kernelgen", "describe", line, "-o", "soft")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "soft" / "definition.json").read_text("utf-8"))["inputs"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        # What runs kernels asks for PyTorch and Triton first.
        pytest.param(("check", "nowhere"), "AF5010", "there is no folder nowhere", marks=runs),
        pytest.param(
            ("tune", "nowhere"),
            "AF5010",
            "autofuse kernelgen describe SOURCE -o nowhere",
            marks=runs,
        ),
        (("log", "nowhere"), "AF5010", "there is no folder nowhere"),
        (("generate", "."), "AF1001", "was not written by kernelgen"),
        (("describe", "nothing.json"), "AF1001", "nothing.json"),
        (("describe", "add_one.json", "-t", "nvidia-h1"), "AF5006", "nvidia-h100"),
        (("describe", "add_one.json", "--speedup", "0"), "AF5007", "out of range"),
        (("describe", "add_one.json", "--rounds", "6"), "AF1005", "--rounds"),
        (("describe", "add_one.json", "--names", "mine"), "AF1005", "mine"),
        (("check", ""), "AF1005", "the path is empty"),
        (("frob",), "AF1005", "frob"),
    ],
)
def test_wrong_words_are_told(
    autofuse: Callable, file: Path, words: tuple[str, ...], code: str, said: str
) -> None:
    done = autofuse("kernelgen", *words)
    assert done.code == 1
    assert code in done.err
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


@pytest.mark.triton
@runs
def test_a_card_that_is_not_there_is_told(autofuse: Callable, file: Path) -> None:
    autofuse("kernelgen", "generate", file, "-o", "op")
    done = autofuse("kernelgen", "check", "op", "--device", "cuda:77")
    assert done.code == 1
    assert "AF5001" in done.err
    assert "cuda:77" in done.err
    odd = autofuse("kernelgen", "check", "op", "--device", "npu")
    assert (odd.code, "AF5007" in odd.err) == (1, True)


@pytest.mark.triton
@runs
def test_all_stages_in_the_interpreter(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    words = ("kernelgen", "run", file, "-o", "op", "--speedup", "1000", "--json")
    done = autofuse(*words)
    assert done.code == 0, done.err
    found = done.json()["result"]["stages"]
    assert list(found) == ["describe", "generate", "check", "tune", "log"]
    assert not any(s["passed_over"] for s in found.values())
    assert all(c["ok"] for c in found["check"]["accuracy"])
    assert {s["kernel"]["status"] for s in found["check"]["speeds"]} == {"predicted"}
    assert found["tune"]["rounds"]
    log = (tmp_path / "op" / "optimization_log.md").read_text("utf-8")
    assert "测试结果" in log
    assert "measured:" not in log
    # Every number with a unit says where it comes from.
    found_out = "\n".join(line for line in log.splitlines() if "目标加速比" not in line)
    assert re.findall(r"\d(?:x| us|%)(?! \((?:predicted|twin): )", found_out) == []
    state = (tmp_path / "op" / "state.json").read_bytes()
    again = autofuse(*words).json()["result"]["stages"]
    assert all(s["passed_over"] for s in again.values())
    assert (tmp_path / "op" / "state.json").read_bytes() == state
    of_folder = autofuse("kernelgen", "run", "op", "--json").json()["result"]["stages"]
    assert list(of_folder) == ["generate", "check", "tune", "log"]
    assert all(s["passed_over"] for s in of_folder.values())


@pytest.mark.triton
@runs
def test_a_kernel_that_was_edited_is_told(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    autofuse("kernelgen", "generate", file, "-o", "op")
    kernel = tmp_path / "op" / "add_one_triton.py"
    kernel.write_text(kernel.read_text("utf-8").replace("+", "-"), "utf-8")
    done = autofuse("kernelgen", "check", "op")
    assert done.code == 1
    assert "add_one_triton.py was edited" in done.err
    forced = autofuse("kernelgen", "generate", "op", "--force")
    assert forced.code == 0
    assert autofuse("kernelgen", "check", "op").code == 0
