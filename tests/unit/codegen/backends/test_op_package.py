"""Operator packages: names that CANN tells apart, what cannot be one, and the host side on the interfaces of CANN."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.op_package.naming import OpNames, operator_names

ROOT = Path(__file__).parents[4]
INCLUDE = ROOT / "tools" / "fake_cann" / "include"
GRAPHS = ROOT / "tests" / "snapshot" / "graphs"
NEEDS_GPP = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def graph(inputs: list[str], outputs: list[Any], **other: Any) -> dict[str, Any]:
    """Every output is the sum of all inputs, which have the shape [n]."""
    nodes = [
        {"name": f"n{k}", "op": "Add", "inputs": [inputs[0], inputs[-1]], "outputs": [f"t{k}"]}
        for k in range(len(outputs))
    ]
    named = [
        {"tensor": f"t{k}", **(o if isinstance(o, dict) else {"name": o})}
        for k, o in enumerate(outputs)
    ]
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {"n": {"min": 1, "max": 4096}},
        "inputs": [{"name": i, "dtype": "float32", "shape": ["n"]} for i in inputs],
        "nodes": nodes,
        "outputs": named,
        **other,
    }


def names_of(inputs: list[str], outputs: list[Any], **other: Any) -> OpNames:
    return operator_names(api.read(graph(inputs, outputs, **other)))


def documented_function(op_type: str) -> str:
    """The function of an operator type, as CANN's documentation describes the way from one to the other."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op_type)
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()


@pytest.mark.parametrize(
    ("name", "op_type"),
    [
        ("add_bias", "AutofuseAddBias"),
        ("softmax", "AutofuseSoftmax"),
        ("a_b_c", "AutofuseAbC"),
        ("LayerNormGrad", "AutofuseLayernormgrad"),
        ("2d_conv", "AutofuseV2dConv"),
        ("int", "AutofuseVint"),
        ("main", "AutofuseVmain"),
        ("x" * 64, "AutofuseX" + "x" * 63),
        ("größe", "AutofuseGrE"),
        ('"; } //', "AutofuseV"),
        ("add_2_3", "AutofuseAdd23"),
    ],
)
def test_an_operator_type_and_its_function(name: str, op_type: str) -> None:
    found = names_of(["x"], ["y"], name=name)
    assert found.type == op_type
    assert re.fullmatch("[A-Z][A-Za-z0-9]*", found.type)
    assert found.function == documented_function(found.type)


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (["x", "y"], ["z"], (("x", "y"), ("z",))),
        # Macros of CANN have no lower case.
        (["X", "x"], ["z"], (("x", "x_n2"), ("z",))),
        # aclnn: xOut twice.
        (["x_out", "x"], [{"name": "X"}], (("x_out", "x"), ("x_n2",))),
        (["a_1", "a1"], ["y"], (("a_1", "a1_n2"), ("y",))),
        # aclnn: xRef twice.
        (["x", "x_ref"], [{"name": "y", "inout": "x"}], (("x", "x_ref_n2"), ("x",))),
        # The parameters of the functions themselves.
        (["executor", "workspaceSize"], ["stream"], (("executor_n2", "workspacesize_n2"), ("v_stream",))),
        (["int", "Class"], ["DTYPE_X"], (("v_int", "v_class"), ("dtype_x",))),
    ],
)  # fmt: skip
def test_names_that_cann_takes_for_one_are_kept_apart(
    inputs: list[str], outputs: list[Any], expected: tuple[tuple[str, ...], ...]
) -> None:
    found = names_of(inputs, outputs)
    assert (found.inputs, found.outputs) == expected


def test_sizes_that_no_input_tells_are_attributes() -> None:
    cut = {"name": "cut", "op": "Slice", "inputs": ["x"], "outputs": ["t0"]}
    found = names_of(
        ["x"],
        ["y"],
        symbols={"n": {"min": 64, "max": 4096}, "X": {"min": 1, "max": 64}},
        nodes=[{**cut, "attrs": {"starts": [0], "shape": ["X"]}}],
    )
    assert found.inputs == ("x",)
    assert found.attributes == {"X": "x_n2"}


STRIDED = {
    **graph(["x"], ["y"], symbols={}),
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 16], "strides": [32, 1]}],
}
WITHOUT_INPUTS = {
    **graph(["x"], ["y"], symbols={}),
    "inputs": [],
    "nodes": [
        {
            "name": "n0",
            "op": "Iota",
            "inputs": [],
            "outputs": ["t0"],
            "attrs": {"shape": [64], "axis": 0, "dtype": "float32"},
        }
    ],
}


@pytest.mark.parametrize(
    ("given", "says"),
    [(STRIDED, "x has strides"), (WITHOUT_INPUTS, "needs at least one input")],
)
def test_what_cannot_be_an_operator(given: dict[str, Any], says: str) -> None:
    with pytest.raises(AutofuseError, match=says) as e:
        api.build(given, entry="op-package")
    (found,) = e.value.diagnostics
    assert found.code == "AF5007"
    assert "--entry launch" in found.hint
    assert api.build(given).files


@pytest.mark.parametrize(
    ("target", "unit"),
    [
        ("ascend910b1", "ascend910b"),
        ("ascend910c", "ascend910_93"),
        ("ascend310p", "ascend310p"),
    ],
)
def test_the_series_of_a_chip(target: str, unit: str) -> None:
    inputs = [{"name": "x", "dtype": "float32", "shape": [64]}]
    given = {**graph(["x"], ["y"], symbols={}), "inputs": inputs}
    files = api.build(given, target=target, entry="op-package").files
    assert f'AddConfig("{unit}")' in files["op_host/autofuse_g.cpp"]
    assert f'"value": "{unit}"' in files["CMakePresets.json"]


def test_files_have_no_place_of_this_machine_and_scripts_are_right(tmp_path: Path) -> None:
    files = api.build(GRAPHS / "reduce_twice.json", entry="op-package").files
    for path, text in files.items():
        assert str(ROOT) not in text
        assert not any(line != line.rstrip() for line in text.splitlines()), path
    for script in ("build.sh", "install.sh"):
        assert subprocess.run(["bash", "-n"], input=files[script], text=True).returncode == 0
    compile(files["test/test_autofuse_reduce_twice.py"], "test.py", "exec")


DRIVER = """
#include "op_host/FUNCTION.cpp"
#include <cstdio>
#include <cstdlib>

// driver {tile|shapes} DIM...: an input of that shape, to every one of them.
int main(int argc, char** argv)
{
    ops::OpDef& op = ops::Registry().at(0);
    gert::Shape shape;
    for (int i = 2; i < argc; ++i) {
        shape.AppendDim(std::atoll(argv[i]));
    }
    if (argv[1][0] == 's') {
        gert::InferShapeContext context;
        context.inputs_.assign(op.inputs_.size(), shape);
        context.outputs_.resize(op.outputs_.size());
        const bool done = op.shapes_(&context) == ge::GRAPH_SUCCESS;
        std::printf("%d", done);
        for (const gert::Shape& s : context.outputs_) {
            std::printf(" [");
            for (size_t i = 0; i < s.GetDimNum(); ++i) {
                std::printf(" %lld", static_cast<long long>(s.GetDim(i)));
            }
            std::printf(" ]");
        }
        return 0;
    }
    fe::PlatFormInfos platform;
    platform.vector_cores = 40;
    platform.ub_bytes = 196352;
    platform.system_workspace = 1000;
    gert::TilingContext context;
    context.platform_ = &platform;
    context.inputs_.assign(op.inputs_.size(), gert::StorageShape(shape));
    const bool done = op.aicore_.tiling_(&context) == ge::GRAPH_SUCCESS;
    std::printf("%d cores %u mode %u workspace %zu bytes %zu key %d", done, context.cores_, context.mode_,
                context.workspaces_.empty() ? 0 : context.workspaces_[0],
                context.data_.GetDataSize() - sizeof(AutofuseTilingData),
                context.key_ == static_cast<AutofuseTilingData*>(context.data_.GetData())->tiling_key);
    return 0;
}
"""


def driver(folder: Path, name: str) -> Path:
    result = api.build(GRAPHS / f"{name}.json", entry="op-package")
    for path, text in result.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    function = operator_names(result.graph).function
    (folder / "driver.cpp").write_text(DRIVER.replace("FUNCTION", function), encoding="utf-8")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-I."]
    subprocess.run(["g++", *flags, "driver.cpp", "-o", "driver"], cwd=folder, check=True)
    return folder / "driver"


def said(program: Path, *words: object, log: str = "error") -> tuple[str, str]:
    done = subprocess.run(
        [program, *map(str, words)],
        env={"AUTOFUSE_LOG_LEVEL": log},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout, done.stderr


@NEEDS_GPP
def test_cores_that_meet_ask_for_batch_mode_and_workspace_comes_behind_that_of_cann(
    tmp_path: Path,
) -> None:
    program = driver(tmp_path, "reduce_twice")
    sizes = api.read(GRAPHS / "reduce_twice.json").tensors["x"].shape
    out, err = said(program, "tile", *sizes)
    found = re.fullmatch(r"1 cores (\d+) mode 1 workspace (\d+) bytes 0 key 1", out)
    assert found is not None, out
    assert 1 <= int(found[1]) <= 40
    assert int(found[2]) > 1000
    assert err == ""


@NEEDS_GPP
def test_shapes_that_fit_those_that_do_not_and_those_that_are_not_known(tmp_path: Path) -> None:
    program = driver(tmp_path, "in_out")
    out, err = said(program, "tile", 5000)
    assert re.fullmatch(r"1 cores \d+ mode 0 workspace 1000 bytes 0 key 1", out), out
    assert err == ""
    assert said(program, "tile", 0)[0].startswith("1 ")
    assert said(program, "shapes", 77)[0] == "1 [ 77 ]"
    assert said(program, "shapes", -1)[0] == "1 [ -1 ]"
    # A matrix, and a size that is too large: refused, with the reason where it is asked for.
    out, err = said(program, "tile", 5, 7)
    assert out.startswith("0 cores 0 ")
    assert err == "autofuse: AutofuseInOut: input m does not have the shape [n]\n"
    out, err = said(program, "shapes", 1 << 40)
    assert out.startswith("0 ")
    assert err == "autofuse: AutofuseInOut: n is not in [0, 1048576]\n"
    assert said(program, "tile", 5, 7, log="off")[1] == ""
