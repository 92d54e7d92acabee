"""What ``--entry torch`` writes: schemas, formulas, and files that are Python and TOML whatever names say."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch_extension import GRAPHS, built

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.torchext.formula import formula_of, formula_text
from autofuse.codegen.backends.ascendc.torchext.schema import operator_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

N = {"n": {"min": 1, "max": 4096}}


def graph(
    inputs: Any,
    nodes: Any,
    outputs: Any,
    *,
    name: str = "g",
    symbols: Any = None,
) -> dict[str, Any]:
    """A graph file of float32; inputs are ``(name, shape, more)``, nodes ``(op, inputs, output, attrs)``."""
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": symbols or {},
        "inputs": [{"name": n, "dtype": "float32", "shape": s, **more} for n, s, more in inputs],
        "nodes": [
            {"name": f"n{i}", "op": op, "inputs": ins, "outputs": [out], "attrs": attrs}
            for i, (op, ins, out, attrs) in enumerate(nodes)
        ],
        "outputs": outputs,
    }


def absolute(name: str = "g", tensor: str = "x", made: str = "y") -> dict[str, Any]:
    return graph([(tensor, ["n"], {})], [("Abs", [tensor], made, {})], [made], name=name, symbols=N)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("scaled_softmax", "scaled_softmax(Tensor x, Scalar scale) -> Tensor"),
        ("v_lambda", "v_lambda(Tensor v_self, Tensor v_return) -> (Tensor, Tensor)"),
        ("in_out", "in_out(Tensor(a!) m, Tensor g) -> ()"),
        ("spread", "spread(Tensor x, SymInt copies) -> (Tensor, Tensor)"),
        ("strided", "strided(Tensor x) -> Tensor"),
    ],
)
def test_schema(name: str, schema: str) -> None:
    assert operator_of(api.read(GRAPHS[name][0])).schema == schema


def test_each_tensor_that_is_overwritten_aliases_itself_alone() -> None:
    two = graph(
        [("a", [8], {}), ("b", [8], {})],
        [("Abs", ["a"], "c", {}), ("Neg", ["b"], "d", {})],
        [{"tensor": "c", "inout": "a"}, {"tensor": "d", "inout": "b"}],
    )
    assert operator_of(api.read(two)).schema == "g(Tensor(a!) a, Tensor(b!) b) -> ()"


def test_arguments_have_names_of_their_own() -> None:
    """The symbol ``in`` is written ``v_in``, as an input is called."""
    g = graph(
        [("v_in", [8], {})],
        [("Broadcast", ["v_in"], "y", {"shape": ["in", 8]})],
        ["y"],
        symbols={"in": {"min": 1, "max": 64}},
    )
    assert operator_of(api.read(g)).schema == "g(Tensor v_in, SymInt v_in_2) -> Tensor"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            graph([("k", [], {"scalar": True})], [("Abs", ["k"], "y", {})], ["y"]),
            "no tensor input",
        ),
    ],
)
def test_what_pytorch_has_no_operator_for(given: Any, text: str) -> None:
    with pytest.raises(AutofuseError, match=f"AF5007.*{text}"):
        operator_of(api.read(given))


def test_several_kernels_are_refused() -> None:
    g = graph(
        [("x", [64], {})],
        [("Abs", ["x"], "a", {}), ("Neg", ["a"], "b", {})],
        ["b"],
    )
    with pytest.raises(AutofuseError, match="cannot launch kernels with the entry 'torch'"):
        api.build_split(g, entry="torch", cut_after=["n0"])


@pytest.mark.parametrize("entry", ["launch", "op-package"])
def test_a_gradient_goes_with_an_operator_of_pytorch_only(entry: str) -> None:
    with pytest.raises(AutofuseError, match=r"AF5007.*does not support gradients"):
        api.build(absolute(), entry=entry, backward=absolute())


# the formula --------------------------------------------------------------------------------


def test_the_formula_passes_gradients_results_arguments_and_sizes() -> None:
    forward = graph(
        [("x", ["2*n + 1"], {}), ("w", ["n"], {}), ("k", [], {"scalar": True})],
        [("Mul", ["w", "k"], "y", {}), ("Abs", ["x"], "z", {})],
        ["y", "z"],
        symbols=N,
    )
    backward = graph(
        [("grad_z", ["2*n + 1"], {}), ("k", [], {"scalar": True}), ("y", ["n"], {})],
        [("Mul", ["grad_z", "k"], "grad_x", {}), ("Abs", ["y"], "grad_w", {})],
        ["grad_w", "grad_x"],
        name="other",
        symbols=N,
    )
    f = formula_of(operator_of(api.read(forward)), api.read(backward))
    assert f.operator.schema == "g_backward(Tensor grad_z, Scalar k, Tensor y) -> (Tensor, Tensor)"
    text = formula_text(f)
    assert "ctx.save_for_backward(output[0])" in text
    assert "ctx.rest = [inputs[2]]" in text
    assert "found = g_backward(grads[1], ctx.rest[0], saved[0])" in text
    assert "return found[1], found[0], None" in text


def test_a_size_that_the_gradient_cannot_see_is_read_off_the_inputs() -> None:
    forward = graph(
        [("x", ["2*n + 1"], {})], [("ReduceSum", ["x"], "y", {"axes": [0]})], ["y"], symbols=N
    )
    backward = graph(
        [("grad_y", [], {})],
        [("Broadcast", ["grad_y"], "grad_x", {"shape": ["2*n + 1"]})],
        ["grad_x"],
        symbols=N,
    )
    f = formula_of(operator_of(api.read(forward)), api.read(backward))
    assert f.operator.schema == "g_backward(Tensor grad_y, SymInt n) -> Tensor"
    text = formula_text(f)
    assert "ctx.rest = [(inputs[0].shape[0] - 1) // 2]" in text
    assert "return found,\n" in text
    ast.parse(text)


@pytest.mark.parametrize(
    ("inputs", "outputs", "texts"),
    [
        (
            [("grad_x", ["n"], {}), ("v", ["n"], {})],
            ["grad_x2", "grad_y"],
            [
                "the input 'grad_x' is neither an input nor a result of g",
                "valid inputs: 'x', 'y', 'grad_y'",
                "the input 'v' is neither",
                "the output 'grad_x2' is not a gradient of an input of g",
                "valid outputs: 'grad_x'",
            ],
        ),
        (
            [("grad_y", ["n", 2], {}), ("x", ["n"], {"dtype": "float16"})],
            ["grad_x"],
            [
                "'grad_y' is float32 [n, 2], but float32 [n] in the forward graph",
                "'x' is float16 [n], but float32 [n] in the forward graph",
            ],
        ),
        (
            [("grad_y", ["n"], {}), ("x", [], {"scalar": True})],
            ["grad_x"],
            ["'x' is a scalar, but a tensor in the forward graph"],
        ),
        (
            [("grad_y", ["m"], {})],
            ["grad_x"],
            ["'grad_y' is float32 [m], but float32 [n]", "both graphs must use the same"],
        ),
    ],
)
def test_everything_that_does_not_fit_is_said_at_once(
    inputs: Any, outputs: Any, texts: list[str]
) -> None:
    first = inputs[0][0]
    backward = graph(
        inputs,
        [("Abs", [first], o, {}) for o in outputs],
        outputs,
        name="b",
        symbols=N | {"m": {"min": 1, "max": 8}},
    )
    with pytest.raises(AutofuseError) as e:
        api.build(absolute(), entry="torch", backward=backward)
    assert {d.code for d in e.value.diagnostics} == {"AF1404"}
    for text in texts:
        assert text in str(e.value)


def test_what_overwrites_an_input_has_no_gradient() -> None:
    with pytest.raises(AutofuseError, match=r"AF1404.*overwrites an input has no gradient"):
        api.build(GRAPHS["in_out"][0], entry="torch", backward=absolute(tensor="g", made="grad_g"))


# names --------------------------------------------------------------------------------------

HOSTILE = [
    '"); system("x"); //',
    "lambda",
    "torch",
    "Path",
    "name",
    "_ops",
    "Tensor",
    "self",
    "??/",
    "{{ banner }}",
    "x" * 200,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_reaches_code(name: str) -> None:
    result = api.build(absolute(name, name, f"{name}2"), entry="torch")
    inside = result.name
    assert inside.isidentifier()
    assert inside.isascii()
    op = operator_of(result.graph)
    for word in (op.name, *(a.name for a in op.arguments)):
        assert word.isidentifier()
        ast.parse(f"{word} = 1")
    of_the_kernel = ("device/", "host/", "include/", "autofuse_tiling_data.h", "CMake", inside)
    for path, text in result.files.items():
        assert path.isascii()
        # Files of the kernel have names in comments.
        assert path.startswith(of_the_kernel) or "system(" not in text
        if path.endswith(".py"):
            tree = ast.parse(text)
            assert len(tree.body) > 3
        elif path.endswith(".toml"):
            assert tomllib.loads(text)["project"]["dependencies"] == ["torch>=2.11"]


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_python_is_python(name: str) -> None:
    files = built(name).files
    found = [p for p in files if p.endswith(".py")]
    assert len(found) == 3
    for path in found:
        ast.parse(files[path])


def test_the_kernel_is_that_of_a_launch() -> None:
    """The folder can be run, verified and timed like any other."""
    plain, torch = api.build(absolute()), api.build(absolute(), entry="torch")
    assert plain.files.items() <= torch.files.items()
    more = torch.files.keys() - plain.files.keys()
    assert {p.split("/")[0] for p in more} == {
        *("autofuse_g", "csrc", "pyproject.toml", "setup.py", "tests"),
    }


def test_nothing_of_pytorch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from autofuse import api\n"
        "api.build(sys.argv[1], entry='torch', backward=sys.argv[2])\n"
        "loaded = {m.split('.')[0] for m, found in sys.modules.items() if found is not None}\n"
        "assert loaded.isdisjoint(('torch', 'torch_npu'))\n"
    )
    example = Path(__file__).parents[4] / "examples" / "torch"
    files = [str(example / f) for f in ("swish.json", "swish_backward.json")]
    subprocess.run([sys.executable, "-c", code, *files], cwd=tmp_path, check=True, timeout=120)
