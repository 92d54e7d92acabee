"""Torch library extensions, called on CPU tensors through the twin, and through a stand-in for torch_npu."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_extension
from torch_extension import GRAPHS, built, package

pytestmark = [pytest.mark.twin, pytest.mark.slow]


def operator(name: str) -> Any:
    return getattr(package(name), name)


def softmax(x: np.ndarray, scale: float) -> np.ndarray:
    wide = x.astype(np.float64) * scale
    e = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_gradient(g: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
    return scale * y * (g - (g * y).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("shape", [(5, 37), (1, 1), (64, 1000)])
def test_results_are_those_of_numpy(shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    y = operator("scaled_softmax")(x, 1.5)
    np.testing.assert_allclose(y.numpy(), softmax(x.numpy(), 1.5), rtol=1e-5, atol=1e-7)


def test_a_tensor_without_elements() -> None:
    y = operator("scaled_softmax")(torch.randn(0, 37), 1.5)
    assert y.shape == (0, 37)
    # One that the graph does not allow: a softmax of nothing.
    with pytest.raises(ValueError, match=r"cols is not in \[1, 4096\]"):
        operator("scaled_softmax")(torch.randn(3, 0), 1.5)


def test_inputs_need_not_be_contiguous() -> None:
    op, x = operator("scaled_softmax"), torch.randn(37, 40)
    for view in (x.t(), x[::2], x[:, 3:17], x[3].expand(6, 40)):
        np.testing.assert_allclose(
            op(view, 0.5).numpy(), softmax(view.numpy(), 0.5), rtol=1e-5, atol=1e-7
        )


def test_the_gradient_is_that_of_numpy() -> None:
    op = operator("scaled_softmax")
    x = torch.randn(7, 33, requires_grad=True)
    g = torch.randn(33, 7).t()
    op(x, 1.5).backward(g)
    y = softmax(x.detach().numpy(), 1.5)
    assert x.grad is not None
    np.testing.assert_allclose(
        x.grad.numpy(), softmax_gradient(g.numpy(), y, 1.5), rtol=1e-4, atol=1e-6
    )


def test_an_operator_without_a_formula_says_so_where_a_gradient_is_asked_for() -> None:
    x = torch.ones(3, 8, dtype=torch.float16, requires_grad=True)
    y, _ = operator("v_lambda")(x, x)
    with pytest.raises(NotImplementedError, match="no gradient: build it with --backward"):
        y.sum().backward()


def test_sizes_may_be_symbols() -> None:
    """One graph for all sizes; what Dynamo makes of their own are sizes 0 and 1."""
    op, graphs = operator("scaled_softmax"), 0

    def counting(module: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return module.forward

    from torch._dynamo.backends.common import aot_autograd

    fast = torch.compile(
        lambda x: op(x * 2, 0.5) + 1,
        backend=aot_autograd(fw_compiler=counting),
        dynamic=True,
        fullgraph=True,
    )
    for rows in (3, 5, 9, 64):
        x = torch.randn(rows, 33 + rows)
        np.testing.assert_allclose(fast(x).numpy(), softmax(x.numpy(), 1.0) + 1, rtol=1e-5)
    assert graphs == 1
    assert fast(torch.randn(0, 33)).shape == (0, 33)


SAMPLES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "scaled_softmax": lambda: (torch.randn(5, 12, requires_grad=True), 1.5),
    "v_lambda": lambda: (torch.ones(3, 8).half(), torch.ones(3, 8).half()),
    "in_out": lambda: (torch.randn(70), torch.randn(70)),
    "spread": lambda: (torch.randn(33), 5),
    "strided": lambda: (torch.randn(9, 24)[:, 8:16],),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_operator_keeps_the_rules_of_pytorch(name: str) -> None:
    """Schema, meta function, formula, and a compiled call with symbols for sizes."""
    torch.library.opcheck(operator(name).default, SAMPLES[name]())


def test_names_of_other_languages_and_several_results() -> None:
    a, b = torch.randn(6, 8).half(), torch.randn(6, 8).half()
    total, product = operator("v_lambda")(v_self=a, v_return=b)
    assert torch.equal(total, a + b)
    assert torch.equal(product, a * b)


def test_an_input_is_overwritten() -> None:
    op = operator("in_out")
    m, g = torch.randn(1000), torch.randn(1000)
    expected = m.numpy() * np.float32(0.5) + g.numpy()
    assert op(m, g) is None
    np.testing.assert_array_equal(m.numpy(), expected)
    # Where the kernel cannot write, what it wrote elsewhere is copied; the gaps stay as they are.
    wide = torch.zeros(1000, 2)
    op(wide[:, 1], g)
    np.testing.assert_array_equal(wide[:, 1].numpy(), g.numpy())
    assert not wide[:, 0].any()


def test_memory_that_is_overwritten_is_no_others() -> None:
    op, base = operator("in_out"), torch.randn(3000)
    kept = base.clone()
    table = base.view(1000, 3)
    for m, g, said in (
        (base[:1000], base[:1000], "m shares memory with g"),
        (base[:1000], base[999:1999], "m shares memory with g"),
        (base[999:1999], base[:1000], "m shares memory with g"),
        (table[:, 0], base[1500:2500], "m shares memory with g"),
        (table[:, 2], base[2999:].expand(1000), "m shares memory with g"),
        (base[5:6].expand(1000), torch.ones(1000), "elements of m share memory"),
        (base.as_strided((1000,), (0,), 7), torch.ones(1000), "elements of m share memory"),
    ):
        with pytest.raises(ValueError, match=said):
            op(m, g)
    assert torch.equal(base, kept)
    # Columns between each other, and what is only read, may lie side by side.
    op(table[:, 0], table[:, 2])
    assert torch.equal(table[:, 0], kept.view(1000, 3)[:, 0] * 0.5 + kept.view(1000, 3)[:, 2])
    op(base[:1000], kept[:1].expand(1000))
    op(base[:0], base[:0])


def test_a_size_that_no_shape_shows_is_an_argument() -> None:
    x = torch.randn(33)
    half, rows = operator("spread")(x, 7)
    assert torch.equal(half, x[::2])
    assert torch.equal(rows, x.expand(7, 33))
    made = operator("spread")(x.to("meta"), 7)
    assert [t.shape for t in made] == [(17,), (7, 33)]


def test_strides_that_the_graph_fixes() -> None:
    op, x = operator("strided"), torch.randn(9, 24)
    assert torch.equal(op(x[:, 8:16]), x[:, 8:16].abs())
    # Another layout is copied into that one.
    assert torch.equal(op(x[:, :16:2]), x[:, :16:2].abs())


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((torch.randn(3, 4).double(), 1.0), TypeError, "x must be float32, not float64"),
        ((torch.randn(3), 1.0), ValueError, "x must have 2 dimensions, not 1"),
        ((torch.randn(3, 4097), 1.0), ValueError, r"cols is not in \[1, 4096\]"),
    ],
)
def test_what_does_not_fit_is_refused(args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=rf"autofuse::scaled_softmax: {text}"):
        operator("scaled_softmax")(*args)


def test_shapes_that_do_not_fit_each_other() -> None:
    f = torch.zeros(3, 8).half()
    with pytest.raises(
        ValueError, match="dimension 0 of v_return is 2; the graph says in, which is 3 here"
    ):
        operator("v_lambda")(f, f[:2])
    with pytest.raises(ValueError, match="v_return is on meta, and others on cpu"):
        operator("v_lambda")(f, f.to("meta"))


def test_the_part_for_an_npu_queues_a_task_that_keeps_what_it_needs() -> None:
    """Run with the kernel of the twin, by a stand-in for the task queue of torch_npu: no chip has run this."""
    package("scaled_softmax")
    queued = torch.ops.autofuse_queued
    x = torch.randn(5, 37)
    y = queued.scaled_softmax(x.t().contiguous().t(), 1.5)
    m, g = torch.ones(64), torch.ones(64)
    queued.in_out(m, g)
    assert queued.run() == 2
    np.testing.assert_allclose(y.numpy(), softmax(x.numpy(), 1.5), rtol=1e-5, atol=1e-7)
    assert torch.equal(m, torch.full((64,), 1.5))
    assert queued.scaled_softmax(torch.randn(0, 37), 1.5).shape == (0, 37)
    assert queued.run() == 0


def test_a_device_that_was_left_out_of_the_build_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError):
        operator("scaled_softmax")(torch.empty_quantized([2], torch.zeros(1)), 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "unsigned AutofuseAbiVersion(void) { return 99; }",
            "has version 99 of the C interface, and this extension calls version 1; build the extension again",
        ),
        ("int nothing;", "has no function AutofuseAbiVersion; build the extension again"),
    ],
)
def test_a_library_with_another_interface_is_refused(text: str, says: str, tmp_path: Path) -> None:
    """In a process of its own: an operator opens its library once."""
    inside = Path(str(package("scaled_softmax").__file__)).parent
    shutil.copyfile(inside / "_ops.so", tmp_path / "_ops.so")
    (tmp_path / "other.c").write_text(text)
    library = "libscaled_softmax_twin.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, "other.c"], cwd=tmp_path, check=True)
    call = "import torch; torch.ops.load_library('./_ops.so'); torch.ops.autofuse.scaled_softmax(torch.ones(2, 3), 1.0)"
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=tmp_path, capture_output=True, text=True
    )
    assert f"autofuse::scaled_softmax: the library of the kernel {says}" in done.stderr


def test_the_project_is_built_and_its_own_test_passes(tmp_path: Path) -> None:
    """As its user does: the command, setup.py with CMake, and pytest on what it wrote."""
    graph = Path(__file__).parents[2] / "examples" / "add_bias_dynamic.json"
    folder = tmp_path / "out"
    bin_folder = Path(sys.executable).parent
    quick = {"CFLAGS": "-O0", "CMAKE_ARGS": "-DCMAKE_CXX_FLAGS_RELEASE=-O0"}
    env = {**os.environ, **quick, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}

    def must(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=folder if folder.is_dir() else tmp_path,
            env={**env, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    said = must("-m", "autofuse", "build", graph, "-o", folder, "--entry", "torch")
    assert "pip install --no-build-isolation" in " ".join(said.split())
    if shutil.which("cmake", path=env["PATH"]) is None:
        pytest.skip("there is no cmake")
    must("setup.py", "-q", "build_ext", "--inplace")
    inside = {p.name.split(".")[0] for p in (folder / "autofuse_add_bias_dynamic").glob("*.so")}
    assert inside == {"_ops", "libadd_bias_dynamic_twin"}
    # The rules of PyTorch take seconds more to look at, and are looked at above.
    tests = must("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not rules", "tests")
    assert "4 passed, 1 skipped, 1 deselected" in tests


def test_every_graph_here_has_a_sample() -> None:
    assert SAMPLES.keys() == GRAPHS.keys()
    assert all(built(n).name for n in GRAPHS)
    assert torch_extension.DECLARED.is_dir()
