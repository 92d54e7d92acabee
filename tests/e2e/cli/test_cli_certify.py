"""Certificates on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import autofuse as package
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.commands.chip.certify import certify
from autofuse.commands.outcome import Outcome
from autofuse.measure.certificate import certificate_schema

pytestmark = pytest.mark.twin

KERNEL = "device/add_one_kernel.cpp"


def made_here(source: Path, output: Path | None = None, **options: Any) -> Outcome:
    """The verb in this process."""
    usual = {"shapes": 1, "seed": 0, "invariant": False, "target": "ascend910b1", "quiet": True}
    return certify(source, output, **{**usual, **options})


def refused(source: Path, **options: Any) -> Diagnostic:
    with pytest.raises(AutofuseError) as e:
        made_here(source, **options)
    return e.value.diagnostics[0]


def certificate(folder: Path, name: str = "add_one") -> dict[str, object]:
    return json.loads((folder / f"{name}.certificate.json").read_text())


def test_a_certificate_says_what_is_known_and_is_the_same_again(
    autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    made = native()
    made["inputs"][0]["shape"] = ["n", 70]
    made["nodes"] = [
        {"name": "s", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": -1}}
    ]
    (tmp_path / "g.json").write_text(json.dumps(made))
    done = autofuse("certify", "g.json", "--invariant", "--shapes", "2", "-o", "a", "--json")
    assert done.code == 0
    found = done.json()["result"]["certificate"]
    jsonschema.validate(found, certificate_schema())
    assert found == certificate(tmp_path / "a")
    assert found["ok"]
    assert found["kernel"]["invariant"]
    assert all(r["proved"] for r in found["proved"]["checks"])
    assert found["checked"]["shapes"] == [{"n": 500}, {"n": 1}]
    assert {r["grid"] for r in found["accuracy"]["grids"]} == {"ordinary", "range"}
    assert found["bits"]["may_change"]["sizes"] == ["70"]
    assert all(r["on fewer cores"] is not False for r in found["bits"]["shapes"])
    assert [r["ratio"] for r in found["traffic"]["shapes"]] == [1.0, 1.0]
    assert all("status" in found[s] for s in ("proved", "checked", "accuracy", "bits", "traffic"))
    assert found["on_chip"] == "none of this was measured on a chip"
    page = (tmp_path / "a" / "add_one.certificate.html").read_text()
    assert "All checks passed." in page
    assert "http" not in page.replace("http-equiv", "")
    assert made_here(tmp_path / "g.json", tmp_path / "b", invariant=True, shapes=2).ok
    for name in ("add_one.certificate.json", "add_one.certificate.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_of_an_edited_kernel_nothing_is_proved(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    package.build(graph, ub_bytes=100000).write(out)
    done = made_here(out).result["certificate"]
    assert (done["kernel"]["as_generated"], done["ok"]) == (True, True)
    text = (out / KERNEL).read_text()
    (out / KERNEL).write_text(text.replace("Adds(", "Muls("))
    failed = made_here(out)
    assert not failed.ok
    found = failed.result["certificate"]
    assert found == certificate(out)
    assert (found["kernel"]["edited"], found["kernel"]["as_generated"]) == ([KERNEL], False)
    assert not any(r["proved"] for r in found["proved"]["checks"])
    assert found["bits"]["may_change"]["sizes"] is None
    assert {d.code for d in failed.diagnostics} == {"AF5004", "AF6001"}
    page = (out / "add_one.certificate.html").read_text()
    assert "Some checks failed." in page
    (out / KERNEL).write_text(text.replace("Adds(", "NoSuchCall("))
    assert refused(out).code == "AF5015"


def test_names_of_a_graph_are_text_on_the_page() -> None:
    from autofuse.report.pages.certificate_page import certificate_page

    bad = "<script>alert(1)</script>"
    found = {
        "name": bad, "generator": bad, "on_chip": bad, "ok": True,
        "kernel": {"invariant": False, "target": bad, "architecture": bad, "sha256": bad, "edited": [bad],
                   "files": {bad: bad}},
        "proved": {"functions": 1, "graphs": {"count": 1, "invariants": 1, "broken": [bad]}, "refuted": [bad],
                   "status": bad,
                   "checks": [{"check": bad, "about": bad, "meaning": bad, "proved": True, "open": 0}]},
        "checked": {"findings": [bad], "status": bad, "runs": [
            {"symbols": {bad: 1}, "key": 0, "status": bad, "cores": 1, "wrong": 0, "unwritten": 0}]},
        "accuracy": {"grids": [{"grid": bad, "refused": bad}], "status": bad},
        "bits": {"may_change": {"sizes": [bad], "choices": [bad], "why": bad, "status": bad}, "status": bad,
                 "order": [{"template": bad, "op": bad, "dtype": bad, "calls": [{"along": bad, "elements": bad}],
                            "loop": bad, "tile": bad}],
                 "shapes": [{"symbols": {bad: 1}, "cores": 1, "inputs": {bad: bad}, "outputs": {bad: bad},
                             "again": True, "in another order of the pipes": None, "on fewer cores": False,
                             "by other templates": True}]},
        "traffic": {"status": bad, "shapes": [
            {"symbols": {bad: 1}, "read": 1, "written": 1, "compulsory": 2, "ratio": 1.0, "workspace": 0}]},
    }  # fmt: skip
    assert "<script" not in certificate_page(found)


def test_what_has_no_certificate_is_refused(graph: Path, native: Callable, tmp_path: Path) -> None:
    package.build(graph, entry="op-package").write(tmp_path / "op")
    large = native(symbols=None)
    large["inputs"][0]["shape"] = [1 << 21, 8]
    (tmp_path / "large.json").write_text(json.dumps(large))
    assert "launched through aclnn" in refused(tmp_path / "op").message
    assert "16777216 elements" in refused(tmp_path / "large.json").message
    assert "not for cpu" in refused(graph, target="cpu").message
    assert "a different kernel" in refused(tmp_path / "op", invariant=True).message
    package.build(graph).write(tmp_path / "out")
    (tmp_path / "out" / "add_one.certificate.json").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refused(tmp_path / "out").message
    assert not (tmp_path / "elsewhere").exists()
