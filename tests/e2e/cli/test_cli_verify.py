"""``verify``: many graphs, one verdict each."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.twin


def write(path: Path, graph: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(graph if isinstance(graph, str) else json.dumps(graph), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, native: Callable) -> Path:
    """Graphs of every kind, and files that are none."""
    fixed = [{"name": "x", "dtype": "float32", "shape": [300, 4000]}]
    matmul = {"name": "m", "op": "MatrixSquareRoot", "inputs": ["x"], "outputs": ["y"]}
    write(tmp_path / "g" / "good.json", native())
    write(tmp_path / "g" / "large.json", native(name="large", inputs=fixed, symbols=None))
    write(tmp_path / "g" / "deep" / "unknown_op.json", native(nodes=[matmul]))
    write(tmp_path / "g" / "deep" / "broken.json", native(outputs=["z"]))
    write(tmp_path / "g" / "graph.schema.json", {})
    write(tmp_path / "g" / "readme.txt", "not a graph")
    return tmp_path / "g"


def test_one_graph_has_a_table_of_errors(autofuse: Callable, graph: Path) -> None:
    done = autofuse("verify", graph)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("add_one.json: passed, ")
    for word in ("output", "max abs", "max rel", "max ulp", "wrong"):
        assert word in lines[2]
    assert lines[1].startswith("ran with n=500, ")
    assert lines[3].startswith("y ")
    assert lines[-1] == "1 passed"


def test_a_folder_counts_each_class(autofuse: Callable, folder: Path) -> None:
    done = autofuse("verify", folder, "--jobs", "2")
    assert done.code == 1
    assert "2 passed, 1 failed, 1 not supported yet" in done.out
    assert "error AF1107" in done.err
    assert "broken.json" in done.err
    assert "AF1201" not in done.err


def test_a_folder_as_json(autofuse: Callable, folder: Path) -> None:
    found = autofuse("verify", folder, "--json").json()
    result = found["result"]
    assert result["counts"] == {"passed": 2, "failed": 1, "not supported yet": 1}
    rows = {Path(r["graph"]).name: r for r in result["graphs"]}
    assert list(rows) == ["broken.json", "unknown_op.json", "good.json", "large.json"]
    assert rows["unknown_op.json"]["codes"] == ["AF1201"]
    assert rows["good.json"]["shrunk"] is None
    assert rows["good.json"]["cases"] > rows["large.json"]["cases"] > 0
    assert rows["large.json"]["shrunk"]["from"] == 1_200_000
    assert rows["large.json"]["shrunk"]["to"] <= result["max_elements"]
    assert [d["code"] for d in found["diagnostics"]] == rows["broken.json"]["codes"]


def test_shrinking_is_said(autofuse: Callable, folder: Path) -> None:
    done = autofuse("verify", folder / "large.json")
    assert done.code == 0
    assert "shrunk: its largest tensor has 1200000 elements" in done.out


@pytest.mark.parametrize("more", [(), ("--symbolic",), ("--split",)], ids=str)
def test_what_build_refuses_does_not_pass_with_smaller_sizes(
    autofuse: Callable, tmp_path: Path, more: tuple[str, ...]
) -> None:
    document = {
        "schema": "autofuse.graph/1",
        "name": "product",
        "inputs": [{"name": "x", "dtype": "int64", "shape": [4, 5_000_000]}],
        "nodes": [
            {
                "name": "n",
                "op": "ReduceProd",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"axes": [1]},
            }
        ],
        "outputs": ["y"],
    }
    write(tmp_path / "product.json", json.dumps(document))
    for command in ("build", "verify"):
        words = more if command == "verify" else ()
        output = ("-o", tmp_path / "out") if command == "build" else ()
        done = autofuse(command, tmp_path / "product.json", *output, *words)
        assert done.code == 1
        assert "error AF3001: there is no way for a product of 5000000 numbers" in done.err


def test_symbolic_makes_fixed_sizes_vary(autofuse: Callable, folder: Path) -> None:
    words = ("verify", folder / "large.json", "--shapes", "3", "--json")
    fixed = autofuse(*words).json()["result"]["graphs"][0]
    symbolic = autofuse(*words, "--symbolic").json()["result"]["graphs"][0]
    assert symbolic["state"] == "passed"
    assert symbolic["cases"] > fixed["cases"]


def test_an_unsupported_graph_alone_is_explained(autofuse: Callable, folder: Path) -> None:
    done = autofuse("verify", folder / "deep" / "unknown_op.json")
    assert done.code == 1
    assert "1 not supported yet" in done.out
    assert "error AF1201" in done.err


def test_generated_folders_are_not_graphs(autofuse: Callable, folder: Path) -> None:
    autofuse("build", folder / "good.json", "-o", folder / "out")
    result = autofuse("verify", folder, "--json").json()["result"]
    assert len(result["graphs"]) == 4


@pytest.mark.parametrize(("word", "why"), [("none.json", "no such file"), (".", "no graph file")])
def test_nothing_to_verify(autofuse: Callable, word: str, why: str) -> None:
    done = autofuse("verify", word)
    assert done.code == 1
    assert "error AF1001" in done.err
    assert why in done.err


def test_a_kernel_that_crashes_is_a_finding(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    """The compiler of the twin is replaced by one that makes every run abort."""
    crash = write(tmp_path / "crash.h", "#include <cstdlib>\nstatic int now = (std::abort(), 0);\n")
    done = autofuse("verify", graph, "--json", AUTOFUSE_CXXFLAGS=f"-include {crash} -Wno-error")
    assert done.code == 1
    (row,) = done.json()["result"]["graphs"]
    assert row["state"] == "failed"
    assert row["codes"] == ["AF5003"]


def test_a_wrong_kernel_is_found(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    """Adds becomes a call that adds something else."""
    text = "#include <kernel_operator.h>\n#define Adds(d, s, v, n) Adds(d, s, (v) + 1, n)\n"
    wrong = write(tmp_path / "wrong.h", text)
    done = autofuse("verify", graph, AUTOFUSE_CXXFLAGS=f"-include {wrong}")
    assert done.code == 1
    assert "add_one.json: failed" in done.out
    assert "FAIL" in done.out
    assert "[0, 0]" in done.out
    assert "error AF6001" in done.err


def test_without_a_compiler(autofuse: Callable, folder: Path) -> None:
    done = autofuse("verify", folder, AUTOFUSE_CXX="no-such-compiler")
    assert done.code == 1
    assert done.err.count("error AF5001") == 1


@pytest.mark.parametrize("verb", ["verify", "run"])
def test_colour_only_where_asked(autofuse: Callable, graph: Path, verb: str) -> None:
    plain: Any = autofuse(verb, graph)
    assert "\x1b" not in plain.out + plain.err
    forced = autofuse(verb, graph, FORCE_COLOR="1")
    assert "\x1b[32m" in forced.out
    both = autofuse(verb, graph, FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b[32m" not in both.out


def test_a_bug_in_a_worker_is_an_internal_error(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    """The reference of every op is broken in workers."""
    given = "import autofuse.commands.kernels.verifying as v\nv.JOB = 'broken:job'\n"
    write(tmp_path / "site" / "sitecustomize.py", given)
    broken = "import autofuse.machines.twin.verify.verify as v\nv.evaluate = None\n"
    broken += "from autofuse.commands.kernels.jobs import verify_job as job\n"
    write(tmp_path / "site" / "broken.py", broken)
    done = autofuse("verify", graph, "--json", PYTHONPATH=str(tmp_path / "site"))
    assert done.code == 2
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF9001"
    assert "reproducer: " in found["notes"][0]


def test_graphs_that_are_equal_but_for_names_run_once(
    autofuse: Callable, tmp_path: Path, native: Callable
) -> None:
    """Every graph is built and has a verdict; the text and the JSON object say which were not run."""
    other = json.loads(
        json.dumps(native(name="twin_of_it")).replace('"x"', '"left"').replace('"y"', '"right"')
    )
    for i, g in enumerate((native(), other, native(name="third"))):
        write(tmp_path / "g" / f"{i}.json", g)
    write(
        tmp_path / "g" / "3.json",
        native(inputs=[{"name": "x", "dtype": "float16", "shape": ["n", 8]}]),
    )
    found = autofuse("verify", tmp_path / "g", "--jobs", "1", "--json").json()
    rows = {Path(r["graph"]).name: r for r in found["result"]["graphs"]}
    assert found["result"]["counts"]["passed"] == 4
    first = rows["0.json"]["graph"]
    assert {n: r["same_as"] for n, r in rows.items()} == {
        "0.json": None, "1.json": first, "2.json": first, "3.json": None,
    }  # fmt: skip
    assert rows["1.json"]["cases"] == rows["0.json"]["cases"] > 0
    done = autofuse("verify", tmp_path / "g")
    assert "4 passed" in done.out
    assert "equal to" in done.out
    assert "except for names, and verified with it" in " ".join(done.out.split())
    alone = autofuse("verify", tmp_path / "g" / "1.json", "--json").json()["result"]["graphs"]
    assert alone[0]["same_as"] is None


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is not installed")
@pytest.mark.parametrize("level", ["0", "2"])
def test_kernels_compile_with_clang(autofuse: Callable, folder: Path, level: str) -> None:
    clang = {"AUTOFUSE_CXX": "clang++", "AUTOFUSE_CXXFLAGS": "-Werror", "AUTOFUSE_OPT": level}
    done = autofuse("verify", folder / "good.json", folder / "large.json", **clang)
    assert (done.code, done.err) == (0, ""), done.out
    assert "2 passed" in done.out


def test_verify_says_which_sizes_ran(autofuse: Callable, graph: Path) -> None:
    (row,) = autofuse("verify", graph, "--json").json()["result"]["graphs"]
    sizes = [s["n"] for s in row["shapes"]]
    assert sizes[0] == 500
    assert 1 in sizes
    assert len(set(sizes)) == len(sizes) == 4
    text = autofuse("verify", graph).out
    assert "ran with " + ", ".join(f"n={n}" for n in sizes) in " ".join(text.split())


def test_verify_of_fixed_sizes_names_none(
    autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    fixed = native(symbols=None, inputs=[{"name": "x", "dtype": "float32", "shape": [4, 8]}])
    (tmp_path / "f.json").write_text(json.dumps(fixed), encoding="utf-8")
    assert "ran with" not in autofuse("verify", "f.json").out
