"""Folders with edited kernels on the command line: adopt, build, verify, run, explain."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

KERNEL = "device/add_one_kernel.cpp"


@pytest.fixture
def out(autofuse: Callable, graph: Path, tmp_path: Path) -> Path:
    assert autofuse("build", graph, "-o", "out").code == 0
    return tmp_path / "out"


def edit(out: Path, old: str, new: str) -> int:
    """Replace a text of the kernel wherever it stands; the first line of it."""
    text = (out / KERNEL).read_text()
    assert old in text
    (out / KERNEL).write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def test_adopt_build_and_drop(autofuse: Callable, graph: Path, out: Path) -> None:
    edit(out, "#include", "// mine\n#include")
    shown = autofuse("adopt", "out", "--diff")
    assert (shown.code, "+// mine" in shown.out, "stop here" in shown.out) == (0, True, True)
    assert f"{KERNEL} is adopted" in autofuse("adopt", "out").out
    done = autofuse("build", graph, "-o", "out", "--json").json()
    assert done["result"]["written"]["kept"] == [KERNEL]
    assert done["diagnostics"] == []
    content = json.loads(graph.read_text())
    content["nodes"][0]["op"] = "Mul"
    graph.write_text(json.dumps(content))
    done = autofuse("build", graph, "-o", "out", "--json").json()
    assert [d["code"] for d in done["diagnostics"]] == ["AF5016"]
    found = autofuse("adopt", "out", "--drop", KERNEL, "--json").json()
    assert found["result"]["dropped"] == [KERNEL]
    assert found["result"]["edited"] == []
    refused = autofuse("adopt", "out", "--diff", "--drop", KERNEL)
    assert (refused.code, "AF5007" in refused.err) == (1, True)


@pytest.mark.twin
def test_verify_and_explain_take_an_edited_kernel(
    autofuse: Callable, graph: Path, out: Path, tmp_path: Path
) -> None:
    edit(out, "Adds(", "Muls(")
    failed = autofuse("verify", "out", "--shapes", "1", "--json").json()
    assert failed["ok"] is False
    assert failed["result"]["graphs"][0]["edited"] == [KERNEL]
    other = json.loads(graph.read_text())
    other["nodes"][0]["op"] = "Mul"
    (tmp_path / "mul.json").write_text(json.dumps(other))
    done = autofuse("verify", "out", "--against", "mul.json", "--shapes", "1", "--json").json()
    assert (done["ok"], done["result"]["counts"]["passed"]) == (True, 1)
    told = autofuse("explain", "out")
    assert told.code == 0
    assert f"edited: {KERNEL}; the figures describe the generated kernel (model)" in told.out
    assert autofuse("explain", "out", "--json").json()["result"]["edited"] == [KERNEL]
    for word in ("--symbolic", "--split"):
        assert "AF5007" in autofuse("verify", "out", word).err
    assert "AF5007" in autofuse("verify", graph, "--against", "mul.json").err


@pytest.mark.twin
@pytest.mark.parametrize("verb", ["run", "verify"])
def test_an_edit_that_does_not_compile_is_its_users(
    autofuse: Callable, out: Path, verb: str
) -> None:
    line = edit(out, "Adds(", "NoSuchCall(")
    failed = autofuse(verb, "out", "--json").json()
    (d, *_) = failed["diagnostics"]
    assert (d["code"], d["where"]["line"]) == ("AF5015", line)
    assert d["where"]["path"].endswith(KERNEL)
    assert f"--drop {KERNEL}" in d["hint"]
