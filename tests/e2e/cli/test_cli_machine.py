"""``targets``, ``doctor``, ``knobs``."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from extras import needs
from fake_canns import FakeCann

from autofuse.base.knobs import KNOBS
from autofuse.targets import cpu_names, gpu_names, load_target, target_names


def test_targets_lists_every_chip(autofuse: Callable) -> None:
    done = autofuse("targets")
    assert done.code == 0
    for name in target_names():
        assert name in done.out


@pytest.mark.parametrize("name", [*target_names(), *gpu_names(), *cpu_names()])
def test_how_the_kernels_of_a_target_were_checked_is_one_sentence(
    name: str, autofuse: Callable
) -> None:
    row = autofuse("targets", name, "--json").json()["result"]
    table = autofuse("targets", COLUMNS="400").out
    (line,) = [x for x in table.splitlines() if x.endswith(row["checked"]) and name in x]
    assert line.partition(": ")[2] == row["checked"]
    assert ("experimental" in line) is False
    page = autofuse("targets", name, COLUMNS="400").out
    assert row["checked"] in page.splitlines()[1]
    assert ("experimental" in page.splitlines()[1]) == row["experimental"]
    on_silicon = name.startswith("nvidia") or name == "cpu"
    assert ("not run on" in row["checked"]) != on_silicon
    assert "verified" in row["checked"]


def test_targets_as_json(autofuse: Callable) -> None:
    rows = autofuse("targets", "--json").json()["result"]["targets"]
    assert [r["name"] for r in rows] == list(target_names())
    assert rows[0].keys() >= {"soc", "npu_arch", "experimental", "aiv_cores", "ub_bytes"}


def test_one_target_has_every_figure_with_status_and_source(autofuse: Callable) -> None:
    row = autofuse("targets", "ascend910b1", "--json").json()["result"]
    assert len(row["figures"]) == len(load_target("ascend910b1").figures())
    assert all(f["status"] and f["source"] for f in row["figures"])
    text = autofuse("targets", "ascend910b1").out
    assert "kernel_head_us" in text
    assert "modelled" in text


def test_unknown_target(autofuse: Callable) -> None:
    done = autofuse("targets", "ascend910b9")
    assert done.code == 1
    assert done.out == ""
    assert "error AF5006: unknown target 'ascend910b9'" in done.err
    assert "did you mean" in done.err


def test_doctor_says_what_is_missing_and_what_to_do(autofuse: Callable) -> None:
    done = autofuse("doctor", "--json", AUTOFUSE_CXX="no-such-compiler")
    assert done.code == 1
    checks = {r["what"]: r for r in done.json()["result"]["checks"]}
    chip = {"CANN", "driver", "chips"}
    assert set(checks) == {"autofuse", "C++ compiler", "CPU twin", "Triton", "cache"} | chip
    assert checks["C++ compiler"]["status"] == "missing"
    assert "AUTOFUSE_CXX" in checks["C++ compiler"]["hint"]
    assert checks["CANN"]["status"] == "optional"
    text = autofuse("doctor", AUTOFUSE_CXX="no-such-compiler")
    assert "no-such-compiler" in text.out


@pytest.mark.twin
def test_doctor_finds_everything_here(autofuse: Callable, cache_dir: Path) -> None:
    done = autofuse("doctor")
    assert done.code == 0, done.out
    assert str(cache_dir) in done.out.replace("\n", "")


@needs("torch", "triton")
def test_doctor_assembles_a_kernel(autofuse: Callable, tmp_path: Path) -> None:
    """A version that is printed says nothing about whether it takes what Triton compiles."""

    def row(**env: str) -> tuple[int, dict[str, str]]:
        done = autofuse("doctor", "--json", **env)
        (found,) = (r for r in done.json()["result"]["checks"] if r["what"] == "Triton")
        return done.code, found

    code, found = row()
    assert (code, found["status"]) == (0, "ok")
    assert re.search(r"triton \S+, torch \S+; ptxas \d+\.\d+ assembles for sm_90a$", found["found"])
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\n[ $1 = --version ] && exec echo release 99.1, V99.1.0\nexit 1\n")
    tool.chmod(0o755)
    named = dict.fromkeys(("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), str(tool))
    code, found = row(**named)
    assert (code, found["status"]) == (1, "broken")
    assert "Triton cannot compile probe" in found["found"]
    assert "broken" in autofuse("doctor", **named).out


def test_doctor_finds_bisheng(autofuse: Callable, tmp_path: Path) -> None:
    compiler = tmp_path / "cann" / "bin" / "bisheng"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    done = autofuse("doctor", "--json", ASCEND_HOME_PATH=str(tmp_path / "cann"))
    checks = {r["what"]: r for r in done.json()["result"]["checks"]}
    assert checks["CANN"] == {"what": "CANN", "status": "ok", "found": str(compiler), "hint": ""}
    assert checks["chips"]["status"] == "optional"
    assert "lacks the library libascendcl.so" in checks["chips"]["found"]


@pytest.mark.twin
def test_doctor_says_that_a_chip_is_a_fake(autofuse: Callable, fake_cann: FakeCann) -> None:
    fake_cann.make(fail=("two-chips",))
    done = autofuse("doctor", "--json", ASCEND_HOME_PATH=str(fake_cann.root))
    checks = {r["what"]: r["found"] for r in done.json()["result"]["checks"]}
    assert checks["CANN"] == f"8.5.0 (a fake), {fake_cann.root}/bin/bisheng"
    assert checks["driver"] == "25.2.0.fake"
    first, second = checks["chips"].split("; ")
    assert first.startswith("npu:0 (Ascend910B2, a fake), target ascend910b2, 48 cores, 1850 MHz")
    assert second.startswith("npu:1 (Ascend310P3, a fake), target ascend310p")


@pytest.mark.twin
def test_twin_dir_is_one_line_with_a_folder(autofuse: Callable) -> None:
    done = autofuse("doctor", "--twin-dir")
    assert done.code == 0
    assert Path(done.out.removesuffix("\n")).is_dir()


def test_knobs_lists_every_variable(autofuse: Callable) -> None:
    done = autofuse("knobs", "--json", AUTOFUSE_THREADS="3")
    rows = {r["name"]: r for r in done.json()["result"]["knobs"]}
    assert list(rows) == [k.name for k in KNOBS]
    assert rows["AUTOFUSE_THREADS"]["value"] == "3"
    assert rows["AUTOFUSE_THREADS"]["set"]


def test_a_misspelt_variable_is_a_warning(autofuse: Callable) -> None:
    done = autofuse("knobs", AUTOFUSE_CACHE_DRI="x")
    assert done.code == 0
    assert "warning AF5008: AUTOFUSE_CACHE_DRI is set, but autofuse does not read it" in done.err
    assert "did you mean AUTOFUSE_CACHE_DIR?" in done.err


@pytest.mark.twin
def test_cache_is_shown_and_emptied(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    own = {"AUTOFUSE_CACHE_DIR": str(tmp_path / "own cache"), "AUTOFUSE_CACHE_MB": "70"}
    assert autofuse("run", graph, **own).code == 0
    held = autofuse("cache", "info", "--json", **own).json()["result"]
    assert held["path"] == own["AUTOFUSE_CACHE_DIR"]
    kinds = {kind: found["entries"] for kind, found in held["kinds"].items()}
    assert kinds["kernels"] == 1
    # What kernels have in common is kept for GCC only.
    entries = 1 + kinds["headers"]
    assert held["entries"] == entries
    assert held["limit_bytes"] == 70 << 20 > held["bytes"] > 0
    shown = autofuse("cache", "info", **own)
    assert (shown.code, shown.err) == (0, "")
    assert own["AUTOFUSE_CACHE_DIR"] in shown.out
    count = "1 entry" if entries == 1 else f"{entries} entries"
    assert f"{count}, " in shown.out
    assert " of 70.0 MiB" in shown.out
    cleared = autofuse("cache", "clear", **own)
    assert cleared.out.startswith(f"removed {count}, ")
    assert autofuse("cache", "info", "--json", **own).json()["result"]["entries"] == 0
    assert autofuse("run", graph, **own).code == 0


def test_cache_wants_to_know_what_to_do(autofuse: Callable) -> None:
    for words in ((), ("empty",)):
        done = autofuse("cache", *words)
        assert done.code == 1
        assert "error AF1005" in done.err
