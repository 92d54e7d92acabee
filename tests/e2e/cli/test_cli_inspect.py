"""``show`` and ``dump``."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ir_text_parser import parse_graph

from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.ir.serialise import from_json


def test_show_summarises(autofuse: Callable, graph: Path) -> None:
    done = autofuse("show", graph)
    assert (done.code, done.err) == (0, "")
    assert "graph add_one: 1 Add" in done.out
    assert "n: 1 to 65536, typically 500" in done.out


def test_show_as_json(autofuse: Callable, graph: Path) -> None:
    found = autofuse("show", graph, "--json").json()["result"]
    assert found["ops"] == {"Add": 1}
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["n", "8"]}]
    assert found["outputs"] == [
        {"name": "y", "dtype": "float32", "shape": ["n", "8"], "inout": None}
    ]
    assert found["symbols"] == [{"name": "n", "min": 1, "max": 65536, "hint": 500}]


def test_show_draws(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    done = autofuse("show", graph, "-o", "g.svg")
    assert done.code == 0
    assert "wrote g.svg" in done.out
    root = ElementTree.parse(tmp_path / "g.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_show_cannot_write_the_picture(autofuse: Callable, graph: Path) -> None:
    done = autofuse("show", graph, "-o", "no/such/folder/g.svg")
    assert done.code == 1
    assert "error AF5005" in done.err


def test_dump_fusion(autofuse: Callable, graph: Path) -> None:
    done = autofuse("dump", graph, "--stage", "fusion")
    assert done.out == (
        "graph add_one\n"
        "symbol n: 1..65536, hint 500\n"
        "input x: float32[n, 8]\n"
        "y: float32[n, 8] = Add(x, 1.0)\n"
        "output y = y\n"
    )


def test_dump_hint_can_be_read_back(autofuse: Callable, graph: Path) -> None:
    done = autofuse("dump", graph, "--stage", "hint")
    assert done.code == 0, done.err
    assert isinstance(parse_graph(done.out), HintGraph)


def test_dump_impl_has_every_template_once(autofuse: Callable, graph: Path) -> None:
    parts = autofuse("dump", graph, "--json").json()["result"]["parts"]
    names = [p["name"] for p in parts]
    assert len(set(names)) == len(names) >= 1
    for p in parts:
        ir = from_json(p["ir"])
        assert isinstance(ir, ImplGraph)
        assert ir == parse_graph(p["text"])


def test_dump_one_template(autofuse: Callable, graph: Path) -> None:
    one = autofuse("dump", graph, "--template", "0", "--json").json()["result"]["parts"]
    assert len(one) == 1


def test_dump_kernel(autofuse: Callable, graph: Path) -> None:
    done = autofuse("dump", graph, "--stage", "kernel", "--template", "0")
    assert done.code == 0, done.err
    assert "add_one_0_" in done.out


def test_dump_files(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    text = autofuse("dump", graph, "--stage", "files").out
    files = autofuse("dump", graph, "--stage", "files", "--json").json()["result"]["files"]
    assert "device/add_one_kernel.cpp" in files
    for name, content in files.items():
        assert f"==> {name}\n{content}" in text
    assert [p.name for p in tmp_path.iterdir()] == ["add_one.json"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--stage", "hnit"], "AF1005", "did you mean hint?"),
        (["--stage", "fusion", "--template", "0"], "AF1005", "has none"),
        (["--template", "99"], "AF5007", "there is no tiling key 99"),
    ],
)
def test_dump_refuses(
    autofuse: Callable, graph: Path, words: list[str], code: str, message: str
) -> None:
    done = autofuse("dump", graph, *words)
    assert done.code == 1
    assert code in done.err
    assert message in done.err


def test_a_reader_that_goes_away_is_not_an_error(graph: Path) -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m autofuse dump {graph} --stage fusion | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert json.dumps(done.stdout) == '"g"'


def test_a_picture_is_svg_and_is_called_so(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    done = autofuse("show", graph, "-o", tmp_path / "g.png")
    assert done.code == 1
    assert "AF5007" in done.err
    assert "g.svg" in done.err
    assert not (tmp_path / "g.png").exists()
    for name in ("g", "g.SVG"):
        assert autofuse("show", graph, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text().startswith("<svg")
