"""``run``: one run on the twin, beside NumPy."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from extras import needs

from autofuse import api
from autofuse.codegen.backends.tuning_file import graph_digest

pytestmark = pytest.mark.twin


def test_run_compares_with_numpy(autofuse: Callable, graph: Path) -> None:
    done = autofuse("run", graph, "--shape", "n=37", "--seed", "3")
    assert (done.code, done.err) == (0, "")
    assert "add_one on the CPU twin: n=37" in done.out
    assert "[37, 8]" in done.out
    assert " ok" in done.out


def test_run_as_json(autofuse: Callable, graph: Path) -> None:
    found = autofuse("run", graph, "--json").json()["result"]
    assert found["symbols"] == {"n": 500}
    assert 0 <= found["key"] < found["keys"]
    (row,) = found["outputs"]
    assert row["ok"]
    assert (row["output"], row["shape"], row["elements"]) == ("y", [500, 8], 4000)


def test_run_with_a_key(autofuse: Callable, graph: Path) -> None:
    keys = autofuse("run", graph, "--json").json()["result"]["keys"]
    # The last template is the one without conditions.
    found = autofuse("run", graph, "--key", keys - 1, "--json").json()["result"]
    assert found["key"] == keys - 1
    done = autofuse("run", graph, "--key", keys)
    assert done.code == 1
    assert "error AF5007" in done.err


def test_own_data_in_and_out(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.save(tmp_path / "x.npy", x)
    done = autofuse("run", graph, "-i", "x=x.npy", "--save", "out/deep")
    assert done.code == 0, done.err
    assert "n=3" in done.out
    assert "wrote out/deep/y.npy" in done.out
    assert np.array_equal(np.load(tmp_path / "out" / "deep" / "y.npy"), x + 1)


def test_bfloat16_goes_out_and_in(autofuse: Callable, native: Callable, tmp_path: Path) -> None:
    made = native(
        inputs=[{"name": "x", "dtype": "bfloat16", "shape": ["n"]}],
        nodes=[{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
    )
    (tmp_path / "g.json").write_text(json.dumps(made), encoding="utf-8")
    assert autofuse("run", "g.json", "-s", "n=7", "--save", "out").code == 0
    done = autofuse("run", "g.json", "--input", "x=out/y.npy", "--save", "again")
    assert done.code == 0, done.err
    assert (tmp_path / "again/y.npy").read_bytes() == (tmp_path / "out/y.npy").read_bytes()


def test_a_folder_of_generated_files(autofuse: Callable, graph: Path) -> None:
    autofuse("build", graph, "-o", "out")
    graph.unlink()
    done = autofuse("run", "out", "--shape", "n=5")
    assert done.code == 0, done.err
    assert "[5, 8]" in done.out


def test_an_edited_kernel_is_compared_with_another_graph(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    autofuse("build", graph, "-o", "out")
    text = graph.read_text(encoding="utf-8")
    (tmp_path / "minus.json").write_text(text.replace('"Add"', '"Sub"'), encoding="utf-8")
    kernel = tmp_path / "out" / "device" / "add_one_kernel.cpp"
    source = kernel.read_text(encoding="utf-8")
    edited = source.replace(", 1.0f, ", ", -1.0f, ")
    assert edited != source
    kernel.write_text(edited, encoding="utf-8")
    done = autofuse("run", "out", "--shape", "n=5")
    assert done.code == 1
    assert "--against GRAPH_FILE" in done.err
    done = autofuse("run", "out", "--against", "minus.json", "--shape", "n=5")
    assert (done.code, done.err) == (0, "")
    done = autofuse("run", "out", "--against", graph, "--shape", "n=5")
    assert done.code == 1
    assert "--against GRAPH_FILE" not in done.err


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ('"float32"', '"float16"', "input x: float32[n, 8] in out, float16[n, 8] in other.json"),
        ('"n"', '"rows"', "symbol rows: not there in out, a size in other.json"),
    ],
)
def test_a_graph_with_other_parameters_is_refused(
    autofuse: Callable, graph: Path, tmp_path: Path, old: str, new: str, note: str
) -> None:
    autofuse("build", graph, "-o", "out")
    text = graph.read_text(encoding="utf-8").replace(old, new)
    (tmp_path / "other.json").write_text(text, encoding="utf-8")
    done = autofuse("run", "out", "--against", "other.json", AUTOFUSE_CXX="no-such-compiler")
    assert (done.code, done.out) == (1, "")
    assert "error AF5007: other.json has different parameters from out" in done.err
    assert note in done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--shape", "m=3"], "AF5007", "m is not a symbol of add_one"),
        (["--shape", "n"], "AF1005", "expected NAME=VALUE"),
        (["--shape", "n=-1"], "AF1005", "'-1' is not a size"),
        (["--shape", "n=1", "-s", "n=2"], "AF1005", "is given twice"),
        (["--shape", "n=99999"], "AF5007", "n = 99999 is outside [1, 65536]"),
        (["--input", "z=x.npy"], "AF5007", "z is not an input of add_one"),
        (["--input", "x=none.npy"], "AF1001", "there is no such file"),
        (["--input", "x=add_one.json"], "AF1001", "add_one.json is not a valid .npy file"),
        (["--input", "x=/dev/null"], "AF1001", "/dev/null is not a valid .npy file"),
        (["--input", "x=."], "AF1001", "this is a folder, not a .npy file"),
        (["--input", "x="], "AF1005", "expected NAME=VALUE"),
        (["--target", "tpu"], "AF5006", "unknown target 'tpu'"),
    ],
)
def test_run_refuses(
    autofuse: Callable, graph: Path, words: list[str], code: str, message: str
) -> None:
    done = autofuse("run", graph, *words)
    assert done.code == 1
    assert done.out == ""
    assert f"error {code}: " in done.err
    assert message in done.err


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shape", "m=3"], "m is not a symbol of add_one"),
        (["--shape", "n=99999"], "n = 99999 is outside [1, 65536]"),
        (["--input", "z=x.npy"], "z is not an input of add_one"),
        (["--input", "x=wide.npy"], "input x is float64, the kernel takes float32"),
        (["--input", "x=nine.npy"], "dimension 1 of x is 9, the kernel needs 8"),
        (["--input", "x=eight.npy", "-s", "n=4"], "dimension 0 of x is 3, the kernel needs n = 4"),
    ],
)
def test_what_is_asked_wrong_is_said_before_anything_is_compiled(
    autofuse: Callable, graph: Path, tmp_path: Path, words: list[str], message: str, built: bool
) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((3, 8), np.float64))
    np.save(tmp_path / "nine.npy", np.zeros((3, 9), np.float32))
    np.save(tmp_path / "eight.npy", np.zeros((3, 8), np.float32))
    if built:
        autofuse("build", graph, "-o", "out")
    done = autofuse("run", "out" if built else graph, *words, AUTOFUSE_CXX="no-such-compiler")
    assert (done.code, done.out) == (1, "")
    assert "error AF5007: " in done.err
    assert message in done.err
    assert "no-such-compiler" not in done.err


@pytest.mark.parametrize("in_triton", [False, pytest.param(True, marks=needs("torch", "triton"))])
def test_the_examples_of_the_help_work_on_the_graph_that_new_writes(
    autofuse: Callable, tmp_path: Path, in_triton: bool
) -> None:
    """But for those that need a key or a model of one's own."""
    listed = autofuse("run", "--help").out.partition("Examples:")[2]
    examples = [line.split("  ")[0].split() for line in map(str.strip, listed.splitlines()) if line]
    assert autofuse("new", "first").code == 0
    np.save(tmp_path / "x.npy", np.ones((5, 1024), np.float16))
    assert autofuse("build", "first.json", "-o", "out").code == 0
    tuning = {"schema": "autofuse.tuning/1", "graph": "first", "tilings": []}
    digest = graph_digest(api.read(tmp_path / "first.json"))
    tuning |= {"digest": digest, "target": "ascend910b1"}
    (tmp_path / "first.tuning.json").write_text(json.dumps(tuning))
    ran = [e for e in examples if e[2] in ("first.json", "out")]
    assert len(ran) == len(examples) - 1
    asked = [e for e in ran if ("nvidia-h100" in e) is in_triton]
    assert asked
    for example in asked:
        done = autofuse(*example[1:])
        assert done.code == 0, (example, done.err)


def test_data_of_another_shape_and_dtype(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 9), np.float64))
    found = autofuse("run", graph, "-i", "x=x.npy", "--json")
    assert found.code == 1
    assert {d["code"] for d in found.json()["diagnostics"]} == {"AF5007"}
