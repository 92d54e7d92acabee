"""Target files of one's own: what they change, what they may not say, and how errors name their lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run.kernel import chip_of
from autofuse.report.explanation import explain
from autofuse.targets import (
    ascend_chip,
    find_known,
    find_target,
    load_chip,
    load_target,
    read_target,
)

HEAD = 'schema = "autofuse.target/1"\nname = "mine"\nbase = "ascend910b2"\n'
GOOD = (
    HEAD
    + """
[chip]
soc = "Ascend910B2C"

[calibration]
chip = "Ascend910B2C"
kernels = 12

[figures]
sync_all = { value = 4000, unit = "cycles", status = "measured", source = "a bench of ours" }
aiv_cores = { value = 40, status = "assumed", source = "a bench of ours" }

[model]
read_gbs = { value = 900.5, status = "fitted", source = "a bench of ours" }

[vector.exp]
rate32 = { value = 16, status = "fitted", source = "a bench of ours" }
"""
)
GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "g",
    "symbols": {"rows": {"min": 1, "max": 100000}},
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", 96]}],
    "nodes": [{"name": "n", "op": "Exp", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refused(folder: Path, text: str | bytes) -> AutofuseError:
    with pytest.raises(AutofuseError) as caught:
        read_target(write(folder, text))
    return caught.value


def modelled_us(built: api.BuildResult) -> float:
    """Of the kernel, by the model of its own target."""
    sizes = {"rows": 50_000}
    return float(explain("g", built.schedule, ascend_chip(built.target), sizes)["total_us"])


def test_a_file_changes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    base, mine = load_chip("ascend910b2"), load_target(write(tmp_path, GOOD))
    assert (mine.name, mine.base, mine.soc) == ("mine", "ascend910b2", "Ascend910B2C")
    assert (mine.sync_all, mine.aiv_cores, mine.model.read_gbs) == (4000, 40, 900.5)
    assert mine.vector["exp"].rate32 == 16
    assert mine.vector["exp"].rate16 == base.vector["exp"].rate16
    assert mine.arch is base.arch
    changed = {f.name: f for f in mine.figures() if f not in base.figures()}
    assert set(changed) == {"sync_all", "aiv_cores", "model.read_gbs", "vector.exp.rate32"}
    assert (changed["model.read_gbs"].status, changed["model.read_gbs"].unit) == ("fitted", "GB/s")
    assert [f.name for f in mine.figures()] == [f.name for f in base.figures()]


def test_a_file_is_a_target_wherever_one_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert find_target(path) == load_target(path)
    built = api.build(GRAPH, target=path)
    assert built.metadata["target"] == "mine"
    assert built.metadata["targetBase"] == "ascend910b2"
    assert built.metadata["blockDim"] == 40
    assert "Ascend910B2C" in built.files["CMakePresets.json"]
    usual = api.build(GRAPH, target="ascend910b2")
    assert modelled_us(built) > 1.3 * modelled_us(usual)
    # Whoever has the folder alone runs it as a kernel of the base.
    assert chip_of(built.files, "g") is load_chip("ascend910b2")


def test_a_build_for_a_chip_of_autofuse_says_no_base() -> None:
    assert "targetBase" not in api.build(GRAPH, target="ascend910b2").metadata


@pytest.mark.parametrize("place", ["target", "targetBase"])
def test_metadata_of_a_folder_open_no_file(tmp_path: Path, place: str) -> None:
    path = write(tmp_path, GOOD)
    said = {"target": "ascend910b2", place: path}
    assert chip_of({"g.json": json.dumps(said)}, "g") is None
    with pytest.raises(AutofuseError, match="AF5006"):
        find_known(path)


ROW = 'value = 900, status = "fitted", source = "a bench of ours"'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD.replace("target/1", "target/2"), 1, "not a target file"),
        (HEAD.replace('"ascend910b2"', "3"), 3, "base must be"),
        (HEAD.replace("ascend910b2", "ascend910b9"), 3, "unknown target 'ascend910b9'"),
        (HEAD.replace("mine", "ascend910b1"), 2, "name of a built-in target"),
        (HEAD.replace("mine", "a b"), 2, "name must be"),
        (HEAD.replace('"mine"', '"*/ int x; /*"'), 2, "name must be"),
        (HEAD.replace("mine", "x.toml"), 2, "name must be"),
        (HEAD + "fake = true\n", 2, "does not say so"),
        (HEAD + "fake = 1\n", 4, "fake must be"),
        (HEAD + "figure = 1\n", 4, "no key 'figure'"),
        (HEAD + '[chip]\nsoc = "$(id)"\n', 5, "soc must be"),
        (HEAD + '[chip]\nnpu_arch = "dav-2201"\n', 4, "only the key soc"),
        (HEAD + f"[model]\nread_gb = {{ {ROW} }}\n", 5, "no figure 'model.read_gb'"),
        (HEAD + f"[vector.expo]\nhead = {{ {ROW} }}\n", 5, "no figure 'vector.expo.head'"),
        (HEAD + f"[figures]\nblock_bytes = {{ {ROW} }}\n", 5, "no figure"),
        (HEAD + "[model]\nread_gbs = 900\n", 5, "is a table of value"),
        (HEAD + f"[model]\nread_gbs = {{ {ROW}, extra = 1 }}\n", 5, "is a table of value"),
        (HEAD + f'[model]\nread_gbs = {{ {ROW}, unit = "MB/s" }}\n', 5, "not 'MB/s'"),
        (HEAD + f"[model]\nread_gbs = {{ {ROW.replace('fitted', 'sure')} }}\n", 5, "status of"),
        (
            HEAD + f"[model]\nread_gbs = {{ {ROW.replace('a bench of ours', '')} }}\n",
            5,
            "source of",
        ),
        (HEAD + f"[model]\nread_gbs = {{ {ROW.replace('900', 'true')} }}\n", 5, "be a number"),
        (HEAD + f"[model]\nread_gbs = {{ {ROW.replace('900', 'nan')} }}\n", 5, "not plausible"),
        (HEAD + f"[model]\nread_gbs = {{ {ROW.replace('900', 'inf')} }}\n", 5, "not plausible"),
        (HEAD + f"[model]\nread_gbs = {{ {ROW.replace('900', '-1')} }}\n", 5, "not plausible"),
        (HEAD + f"[model]\nrow = {{ {ROW.replace('900', '1e9')} }}\n", 5, "not plausible"),
        (HEAD + f"[figures]\nclock_mhz = {{ {ROW.replace('900', '900.5')} }}\n", 5, "an integer"),
        (HEAD + f"[figures]\nub_bytes = {{ {ROW.replace('900', '1e12')} }}\n", 5, "not plausible"),
        (
            HEAD + f"[figures]\nub_reserved = {{ {ROW.replace('900', '190000')} }}\n",
            5,
            "not plausible",
        ),
        (HEAD + "[model]\nread_gbs = {\n", 5, "not valid TOML"),
        (HEAD + "figures = 3\n", 4, "must be a table"),
        (HEAD + "[vector]\nexp = 3\n", 5, "head, rate16 and rate32"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    found = refused(tmp_path, text).diagnostics
    assert message in found[0].message
    assert found[0].where.line == line
    assert found[0].where.path.endswith("mine.toml")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    bad = HEAD + "[model]\nread_gbs = 1\nrow = 2\n\n[figures]\nsync_all = 3\n"
    assert [d.where.line for d in refused(tmp_path, bad).diagnostics] == [9, 5, 6]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xfe", "AF1405"),
        (b"x = " + b"[" * 50_000, "AF1405"),
        (b"x = " + b"9" * 20_000, "AF1405"),
        (b"#" * (1 << 19), "AF1003"),
        (HEAD.encode() + b"[model]\nrow = " + b"{ a = " * 2000, "AF1405"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, data: bytes, code: str) -> None:
    assert {d.code for d in refused(tmp_path, data).diagnostics} == {code}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AutofuseError, match="AF1001"):
        load_target(str(tmp_path / "none.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(AutofuseError, match="AF1001"):
        load_target(str(tmp_path / "folder.toml"))


def test_a_base_of_another_architecture(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD.replace("ascend910b2", "ascend950pr"))
    assert load_target(path).npu_arch == "dav-3510"


def test_a_definition_of_an_operator_opens_no_target_file(tmp_path: Path) -> None:
    from autofuse.clients.kernelgen.defining.sources import describe

    with pytest.raises(AutofuseError, match="AF5006"):
        describe(api.read(GRAPH), target=write(tmp_path, GOOD))


def test_a_folder_does_not_have_the_target_file(tmp_path: Path) -> None:
    """What builds the kernel of a folder again needs the figures."""
    built = api.build(GRAPH, target=write(tmp_path, GOOD))
    with pytest.raises(AutofuseError, match=r"AF5006.*for mine, a custom target file"):
        api.built_again(built.graph, built.files)
