"""Numbers beside tensors of 16 bits: eager rounds them first, or computes with them in float32, op by op."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

import autofuse.clients.torch

pytestmark = pytest.mark.twin

OPTIONS = {
    "target": "ascend910b1",
    "opt": "-O0",
    "min_ops": 1,
    "max_ops": 1000,
    "fallback": "error",
}
TYPES = [torch.float16, torch.bfloat16]
NUMBERS: tuple[float, ...] = (
    *(
        65536.0,
        1e-8,
        0.1,
        70001,
        1 / 3,
        -0.3,
        math.inf,
        -math.inf,
        math.nan,
        -70001,
        3,
        2.5,
        1e6,
        -1e-3,
    ),
    *(0.0, 257, 2049.0, 1e5, 65519.0, -65520.0),
)
Op = Callable[..., Any]

#: Ops of a tensor and a number, which may be a tensor of no dimension too.
BINARY: dict[str, Op] = {
    "mul": lambda x, y, c: x * c,
    "rmul": lambda x, y, c: c * x,
    "add": lambda x, y, c: x + c,
    "sub": lambda x, y, c: x - c,
    "rsub": lambda x, y, c: c - x,
    "div": lambda x, y, c: x / c,
    "rdiv": lambda x, y, c: c / x,
    "div_floor": lambda x, y, c: torch.div(x, c, rounding_mode="floor"),
    "div_trunc": lambda x, y, c: torch.div(x, c, rounding_mode="trunc"),
    "fmod": lambda x, y, c: torch.fmod(x, c),
    "remainder": lambda x, y, c: x % c,
    "rremainder": lambda x, y, c: c % x,
    "eq": lambda x, y, c: x == c,
    "ne": lambda x, y, c: x != c,
    "lt": lambda x, y, c: x < c,
    "le": lambda x, y, c: x <= c,
    "gt": lambda x, y, c: x > c,
    "ge": lambda x, y, c: x >= c,
    "where": lambda x, y, c: torch.where(x > 0, x, c),
    "copysign": lambda x, y, c: torch.copysign(x, c),
    "xlogy": lambda x, y, c: torch.xlogy(x, c),
    "rxlogy": lambda x, y, c: torch.xlogy(c, y),
    "xlog1py": lambda x, y, c: torch.special.xlog1py(x, c),
}
#: Ops of numbers only.
SCALAR: dict[str, Op] = {
    "masked_fill": lambda x, y, c: x.masked_fill(y > 0, c),
    "pow": lambda x, y, c: x**c,
    "clamp_min": lambda x, y, c: x.clamp(min=c),
    "clamp_max": lambda x, y, c: x.clamp(max=c),
    "hardshrink": lambda x, y, c: F.hardshrink(x, c),
    "softshrink": lambda x, y, c: F.softshrink(x, c),
    "threshold": lambda x, y, c: F.threshold(x, c, 0.7),
    "threshold_value": lambda x, y, c: F.threshold(x, 0.1, c),
    "hardtanh": lambda x, y, c: F.hardtanh(x, -0.1, c),
    "leaky_relu": lambda x, y, c: F.leaky_relu(x, c),
    "softplus": lambda x, y, c: F.softplus(x, c),
    "softplus_threshold": lambda x, y, c: F.softplus(x, 1, c),
    "nan_to_num": lambda x, y, c: torch.nan_to_num(x, c, c, c),
    "lerp": lambda x, y, c: torch.lerp(x, y, c),
    "addcmul": lambda x, y, c: torch.addcmul(x, x, y, value=c),
    "addcmul_": lambda x, y, c: x.clone().addcmul_(x, y, value=c),
    "addcdiv_": lambda x, y, c: x.clone().addcdiv_(x, y, value=c),
    "add_alpha": lambda x, y, c: torch.add(x, y, alpha=c),
    "sub_alpha": lambda x, y, c: torch.sub(x, y, alpha=c),
    "rsub_alpha": lambda x, y, c: torch.rsub(x, y, alpha=c),
}
#: Ops of tensors; a number is one of no dimension.
TENSOR: dict[str, Op] = {
    "maximum": lambda x, y, c: torch.maximum(x, c),
    "hypot": lambda x, y, c: torch.hypot(x, c),
    "atan2": lambda x, y, c: torch.atan2(x, c),
    "clamp": lambda x, y, c: torch.clamp(x, min=c),
    "floor_divide": lambda x, y, c: x // c,
    "mul_of_two": lambda x, y, c: x * (c + c),
}
#: Eager rounds a step in between (bfloat16 stays float32 within a kernel), or has another last bit.
ALMOST = {
    *(
        "pow",
        "rdiv",
        "rxlogy",
        "xlogy",
        "xlog1py",
        "softplus",
        "hypot",
        "atan2",
        "lerp",
        "addcmul",
        "addcmul_",
    ),
    "addcdiv_",
    *("add_alpha", "sub_alpha", "rsub_alpha"),
}


def data(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Values that make a difference, among them those that numbers above are rounded to."""
    special = [*NUMBERS, 65504.0, -65504.0, 1e-7, -0.0, 1.0, -1.0]
    random_ones = torch.cat((torch.randn(30) * 3, torch.rand(22) * 1e-3, torch.randn(50) * 300))
    x = torch.cat((random_ones, torch.tensor(special))).to(dtype)
    assert len(x) == 128  # whole vectors: in the rest of a row eager may round more often
    return x, x.roll(17)


Case = tuple[str, Op, Any]


def cases(
    ops: dict[str, Op], numbers: Sequence[Any], x: torch.Tensor, y: torch.Tensor
) -> list[Case]:
    """Ops with numbers, without those that eager refuses: too large for the type, or not in a range.

    Nor those that a release of PyTorch has otherwise: before 2.13 Dynamo opens two into ops of which each rounds;
    before 2.14 eager's softshrink rounds once, and a bound that is no number is passed on by some of its instructions.
    """
    old = ("softshrink",) if torch.__version__ < (2, 14) else ()
    old += ("addcmul_", "addcdiv_") if torch.__version__ < (2, 13) else ()
    out = []
    for (name, op), c in itertools.product(ops.items(), numbers):
        if name in old:
            continue
        with contextlib.suppress(RuntimeError, ValueError):
            found = op(x, y, c)
            if name.startswith("clamp") and c != c and not found.isnan().all():
                continue
            out.append((name, op, c))
    return out


def check(function: Op, taken: Sequence[Case], *inputs: Any) -> None:
    """All ops in one function, compiled and by eager."""
    x, y = inputs[:2]
    have, want = function(*inputs), [op(x, y, c) for _, op, c in taken]
    wrong = [_difference(case, x, y, a, b) for case, a, b in zip(taken, have, want, strict=True)]
    assert not list(filter(None, wrong))


def _difference(
    case: Case, x: torch.Tensor, y: torch.Tensor, have: torch.Tensor, want: torch.Tensor
) -> str:
    """What differs; empty if nothing does, or by one unit of the last place where that is allowed."""
    name, _, c = case
    assert have.dtype == want.dtype, name
    bad = ~((have == want) | (have.isnan() & want.isnan()))
    if want.is_floating_point() and name in ALMOST:
        large = want.double().abs()
        if "alpha" in name:
            large = torch.stack((large, x.double().abs(), (y.double() * c).abs())).amax(0)
        elif "addc" in name:
            # Its sum may be next to nothing beside what is added.
            large = torch.maximum(large, x.double().abs())
        eps = torch.finfo(want.dtype).eps
        bad &= ~((have.double() - want.double()).abs() <= large * eps)
    if "remainder" in name or name == "fmod":
        quotient = c / x.double() if name == "rremainder" else x.double() / c
        bad &= quotient.abs() < 1 << 46  # NaN from there on
    at = bad.nonzero().flatten().tolist()[:3]
    return (
        f"{name} {c}: {[(x[i].item(), have[i].item(), want[i].item()) for i in at]}" if at else ""
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_of_python(dtype: torch.dtype) -> None:
    """Three of the numbers for all ops: others at each run."""
    numbers = random.sample(NUMBERS, 3)
    print(numbers)  # noqa: T201 - for a failure
    x, y = data(dtype)
    taken = cases(BINARY | SCALAR, numbers, x, y)
    function = torch.compile(
        lambda x, y: [op(x, y, c) for _, op, c in taken], backend="autofuse", options=OPTIONS
    )
    check(function, taken, x, y)
    (graph,) = autofuse.clients.torch.report().graphs
    assert graph.fused
    assert not graph.not_fused


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_that_are_tensors(dtype: torch.dtype) -> None:
    """One graph for all of them: a kernel does not know the number."""
    x, y = data(dtype)
    ops = BINARY | TENSOR
    function = torch.compile(
        lambda x, y, c: [op(x, y, c) for op in ops.values()], backend="autofuse", options=OPTIONS
    )
    for c in NUMBERS:
        one = torch.tensor(float(c))
        check(function, [(name, op, one) for name, op in ops.items()], x, y, one)
    (graph,) = autofuse.clients.torch.report().graphs
    assert graph.fused
    assert not graph.not_fused


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_that_are_sizes(dtype: torch.dtype) -> None:
    x, y = data(dtype)
    ops = {n: BINARY[n] for n in ("mul", "add", "div", "div_floor", "eq", "rdiv")}
    function = torch.compile(
        lambda x, y, z: [op(x, y, z.shape[0]) for op in ops.values()],
        backend="autofuse",
        options=OPTIONS,
        dynamic=True,
    )
    for n in (257, 2049, 70001):
        check(function, [(name, op, n) for name, op in ops.items()], x, y, torch.zeros(n, 0))
    assert len(autofuse.clients.torch.report().graphs) == 1


def test_numbers_that_follow_from_a_reduction() -> None:
    """A mean in float32 stays so where eager leaves a number unrounded; of several tensors eager rounds each."""
    x, y = data(torch.float16)

    def function(x: torch.Tensor, y: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, ...]:
        number = wide.amax()
        return x * number, x / number, x + number, x == number, torch.where(x > 0, number, x)

    wide = torch.tensor([0.1, 1 / 3, -7.0])
    have = torch.compile(function, backend="autofuse", options=OPTIONS)(x, y, wide)
    for a, b in zip(have, function(x, y, wide), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a.nan_to_num(), b.nan_to_num())


def test_numbers_that_eager_refuses() -> None:
    """What is too large for the type is an error of PyTorch's where it is one in eager."""
    x = torch.ones(64, dtype=torch.float16)
    for op in (lambda x: torch.add(x, x, alpha=70001.0), lambda x: x**70001.0):
        for function in (op, torch.compile(op, backend="autofuse", options=OPTIONS)):
            with pytest.raises(RuntimeError, match="without overflow"):
                function(x)


def test_steps_that_overflow_in_between() -> None:
    """An op of several steps is computed in float32 and rounded once."""
    big = torch.linspace(-60000, 60000, 128).to(torch.float16)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.flip(0)
        return (
            torch.lerp(x, y, 0.3),
            torch.lerp(x, y, 0.7),
            torch.lerp(x, y, x.abs() * 1e-5),
            torch.addcmul(x, x.abs(), y, value=1e-5),
            torch.add(x, y, alpha=2),
            torch.sub(x, y, alpha=0.75),
            torch.hypot(x, y * 0.1),
            torch.logaddexp(x, y),
            F.softplus(x * 2e-4),
            x.std(),
            x.mean(),
            torch.softmax(x, 0),
            F.layer_norm(x, (128,)),
            F.mse_loss(x, x + 32, reduction="none"),
        )

    have, want = torch.compile(function, backend="autofuse", options=OPTIONS)(big), function(big)
    for a, b in zip(have, want, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=2**-10, atol=1e-4)
    assert all(t.isfinite().all() for t in have[:4])
