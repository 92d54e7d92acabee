"""What the lowering makes of PyTorch's ops, by NumPy, beside eager: indices, strides, limits, statistics.

Nothing is compiled, so that every place of an index and every correction can be tried.  Shapes have sizes of which no
two are equal, and sizes that are all equal: the one shows dimensions that are exchanged, the other what only their
sizes have kept apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest
import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.capture import capture
from autofuse.clients.torch.devices import npu
from autofuse.clients.torch.lower import layout_of
from autofuse.machines.twin.oracle.oracle import evaluate

SHAPES = [(3, 4, 5, 6), (4, 4, 4, 4)]


def compare(tmp_path: Path, results: Sequence[str], inputs: dict[str, torch.Tensor]) -> None:
    """Compare a function of these inputs that returns ``results``, as a graph and in eager.

    Raises:
        AutofuseError: the function is refused.
    """
    path = tmp_path / "ops.py"
    names = ", ".join(inputs)
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    path.write_text(f"import torch\n\ndef f({names}):\n    return {result}\n", encoding="utf-8")
    examples = [
        f"{n}={str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for n, t in inputs.items()
    ]
    graph = capture(path, "f", examples).graph
    want = eval(f"lambda {names}: ({', '.join(results)},)", {"torch": torch})(*inputs.values())
    data = {n: t.numpy() for n, t in zip(graph.inputs, inputs.values(), strict=True)}
    found = [r.value for r in evaluate(graph, data, {}).values()]
    assert len(found) == len(want) == len(results)
    for text, have, right in zip(results, found, want, strict=True):
        assert have.shape == tuple(right.shape), text
        np.testing.assert_allclose(
            have.astype(np.float64), right.double().numpy(), rtol=1e-5, atol=2e-5, err_msg=text
        )


def lowers(tmp_path: Path, call: str, x: torch.Tensor) -> bool:
    """False if the call is refused for its strides; else its result is compared."""
    try:
        compare(tmp_path, [call], {"x": x})
    except AutofuseError as e:
        if "strides" not in str(e):
            raise
        return False
    return True


# indices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("shape", SHAPES)
def test_indices_of_every_set_of_axes(
    tmp_path: Path, shape: Sequence[int], order: int, negative: bool
) -> None:
    """One to four tensors of places, together and apart, each along a dimension of its own.

    These dimensions follow each other as the axes do, or the other way round.
    """
    least = min(shape)
    sizes = {"i": (2, 1, 1, 1), "j": (3, 1, 1), "k": (2, 1), "l": (3,)}
    places = {n: torch.randint(0, least, size) for n, size in sizes.items()}
    if negative:
        places = {n: t - least for n, t in places.items()}
    results = []
    for count in range(1, 5):
        for axes in itertools.combinations(range(4), count):
            named = dict(zip(axes, sorted("lkji"[:count])[::order], strict=True))
            results.append(f"x[{', '.join(named.get(a, ':') for a in range(4))}]")
    assert len(results) == 15
    compare(tmp_path, results, {"x": torch.randn(shape), **places})


def test_places_that_belong_together_are_refused(tmp_path: Path) -> None:
    places = {"i": torch.tensor([0, 1]), "j": torch.tensor([2, 0])}
    with pytest.raises(AutofuseError, match="index in several dimensions"):
        compare(tmp_path, ["x[i, j]"], {"x": torch.randn(3, 3), **places})


@pytest.mark.parametrize("shape", SHAPES)
def test_indices_beside_slices_numbers_and_new_axes(tmp_path: Path, shape: Sequence[int]) -> None:
    inputs = {
        "x": torch.randn(shape),
        "i": torch.tensor([[2], [0], [-1]]),
        "j": torch.tensor([1, -2]),
    }
    results = [
        "x[1, i]",
        "x[1, i, :, 0]",
        "x[i, 1]",
        "x[:, 1, i]",
        "x[i, :, 1]",
        "x[1:, i, ::2, j]",
        "x[i, 1:3, j]",
        "x[None, i, :, j]",
        "x[:, None, i, j]",
        "x[i, None, j]",
        "x[..., i]",
        "x[..., i, j]",
        "x[i, ..., j]",
        "x[-1, ..., i]",
    ]
    compare(tmp_path, results, inputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", range(4))
def test_one_axis_at_a_time(tmp_path: Path, shape: Sequence[int], axis: int) -> None:
    """Functions that take an axis, from the front and from the end."""
    rows = torch.tensor([0, 2, 1, 2])
    taken = torch.randint(0, shape[axis], [2 if a == axis else s for a, s in enumerate(shape)])
    inputs = {"x": torch.randn(shape), "i": rows, "t": taken}
    results = [
        f"{text.format(a)}"
        for a in (axis, axis - 4)
        for text in (
            "x.index_select({}, i)",
            "x.gather({}, t)",
            "torch.take_along_dim(x, t, {})",
            "x.select({}, -1)",
            "x.narrow({}, 1, 2)",
            "x.flip({})",
            "x.roll(2, {})",
            "x.unbind({})[1]",
            "x.movedim({}, 0)",
            "x.cumsum({})",
            "x.diff(dim={})",
        )
    ]
    compare(tmp_path, results, inputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", range(4))
def test_masks(tmp_path: Path, shape: Sequence[int], axis: int) -> None:
    """A mask of one axis, of all from one on, and of all."""
    ones = [s if a == axis else 1 for a, s in enumerate(shape)]
    inputs = {
        "x": torch.randn(shape),
        "m": torch.rand(ones) < 0.5,
        "n": torch.rand(shape[axis:]) < 0.5,
    }
    results = ["torch.where(m, x, 2.0)", "x.masked_fill(m, -3.0)", "x.masked_fill(n, 7.0)", "x * n"]
    compare(tmp_path, results, inputs)


# strides ----------------------------------------------------------------------------------------


def _strided(shape: Sequence[int], rng: Any) -> Iterator[str]:
    """Calls of ``as_strided`` that stay within as many elements as a tensor of this shape has."""
    total = int(np.prod(shape))
    while True:
        rank = rng.randint(1, 4)
        if rng.random() < 0.5:  # as many elements as there are
            size = rng.sample(list(shape), 4) if rng.random() < 0.5 else [total // 2, 2]
        else:
            size = [rng.randint(1, 4) for _ in range(rank)]
        stride = [int(np.prod(size[k + 1 :])) for k in range(len(size))]
        if rng.random() < 0.7:
            rng.shuffle(stride)
        offset = rng.choice([0, 0, 1, 5])
        if offset + sum((s - 1) * t for s, t in zip(size, stride, strict=True)) < total:
            yield f"x.as_strided({size}, {stride}, {offset}) + 1.0"


@pytest.mark.parametrize("shape", SHAPES)
def test_any_strides(tmp_path: Path, shape: Sequence[int]) -> None:
    """``as_strided`` is right or refused; those that keep the order of elements are lowered."""
    rng = draws.python_rng()
    contiguous = [int(np.prod(shape[k + 1 :])) for k in range(4)]
    assert lowers(tmp_path, f"x.as_strided({list(shape)}, {contiguous}) + 1.0", torch.randn(shape))
    turned = f"x.as_strided({list(shape[::-1])}, {contiguous[::-1]}) + 1.0"
    calls = [turned, *itertools.islice(_strided(shape, rng), 10)]
    assert not all([lowers(tmp_path, call, torch.randn(shape)) for call in calls])


# limits -----------------------------------------------------------------------------------------


def test_limits_in_the_wrong_order(tmp_path: Path) -> None:
    """Where the least is above the most, the most is the result; NaN stays, and is one where a limit is."""
    x = torch.tensor([-3.0, 0.0, 1.5, 9.0, float("nan"), float("inf"), -float("inf")])
    inputs = {"x": x, "a": torch.full_like(x, 2.0), "b": torch.full_like(x, -1.0)}
    inputs["b"][2] = float("nan")
    results = [
        "torch.clamp(x, 2.0, -1.0)",
        "torch.clamp(x, -1.0, 2.0)",
        "torch.clamp(x, a, b)",
        "torch.clamp(x, b, a)",
        "x.clamp(min=2.0).clamp(max=-1.0)",
        "x.clamp(max=-1.0).clamp(min=2.0)",
        "torch.nn.functional.hardtanh(x, 1.0, 1.0)",
        "torch.clamp(x, a, None)",
        "torch.clamp(x, None, b)",
        "torch.clip(x, 3.0, -3.0)",
    ]
    compare(tmp_path, results, inputs)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_limits_of_integers(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 5, 9, 100], dtype=dtype)
    results = [
        "torch.clamp(x, 7, 2)",
        "torch.clamp(x, 2, 7)",
        "torch.clamp(x, min=x.flip(0), max=x)",
    ]
    compare(tmp_path, results, {"x": x})


# statistics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_corrections_up_to_the_count_and_above(tmp_path: Path, shape: Sequence[int]) -> None:
    """A divisor is never below 0: from a correction by the count on a variance is infinite, or NaN."""
    inputs = {"x": torch.randn(shape), "c": torch.full(shape, 2.0)}
    results = []
    for axis, n in enumerate(shape):
        for correction in (0, 1, n - 1, n, n + 1, n + 3, 0.5):
            given = f"dim={axis}, correction={correction}"
            results += [f"x.var({given})", f"x.std({given})", f"torch.var_mean(x, {given})[0]"]
        results.append(f"c.var(dim={axis}, correction={n + 1})")
    results += [
        "x.var(dim=(0, 2), correction=100)",
        "x.var(correction=1000)",
        "x.std(unbiased=False)",
    ]
    compare(tmp_path, results, inputs)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_of_every_set_of_axes(tmp_path: Path, shape: Sequence[int]) -> None:
    results = []
    for count in range(1, 5):
        for axes in itertools.combinations(range(4), count):
            results += [
                f"x.sum({axes}, keepdim={count % 2 == 0})",
                f"x.amax({axes})",
                f"torch.logsumexp(x, {axes})",
                f"x.mean({tuple(a - 4 for a in axes)})",
            ]
    results += [f"x.arg{e}({a}, keepdim={a > 1})" for e in ("max", "min") for a in range(4)]
    results += [f"x.{e}({a})[{k}]" for e in ("max", "min") for a in range(4) for k in (0, 1)]
    compare(tmp_path, results, {"x": torch.randn(shape)})


def test_the_order_of_axes_in_memory() -> None:
    """Also with gaps and axes of size 1; none for what is in order, or lies one over the other."""
    x = torch.empty(4, 6, 10)
    assert layout_of(x.permute(2, 0, 1)) == (1, 2, 0)
    assert layout_of(x[:, ::2].permute(2, 0, 1)) == (1, 2, 0)
    assert layout_of(torch.empty(2, 3, 1, 5, 7).permute(0, 1, 2, 4, 3)) == (0, 1, 2, 4, 3)
    assert layout_of(x) is layout_of(x[:, ::2]) is layout_of(x[:1].transpose(0, 1)) is None
    assert layout_of(torch.empty(1).expand(4, 6)) is layout_of(x.unfold(2, 4, 2)) is None


def test_what_an_npu_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(npu.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setattr(npu.programs, "program", lambda name: "/bin/cmake")
    assert npu.requirements() == []
    monkeypatch.setattr(npu.programs, "program", lambda name: None)
    assert npu.requirements() == ["cmake"]
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(npu.importlib.util, "find_spec", lambda name: None)
    assert [m.split()[0] for m in npu.requirements()] == ["the", "CANN", "cmake"]
