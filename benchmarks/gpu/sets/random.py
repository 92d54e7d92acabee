"""Rows drawn at random from a grammar of vector work, so that nobody can tune for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from rows import Case, Maker, Row, Shape, wide

_Make = Callable[[Maker, Shape, torch.dtype], Case]
_Unary = Callable[[torch.Tensor], torch.Tensor]

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: Elements of the largest tensor of a row, as powers of 2: from a launch's worth to far beyond the L2 of a card.
MOST, _SPAN = 27, 9

_UNARY: dict[str, _Unary] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "tanh gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp of minus": lambda x: torch.exp(-x.abs()),
    "softplus": F.softplus,
    "square": torch.square,
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1.5, 1.5),
    "scale": lambda x: x * 0.37,
    "shift": lambda x: x + 1.25,
    "root": lambda x: torch.sqrt(x.abs() + 0.5),
    "cosine": torch.cos,
    "where": lambda x: torch.where(x > 0.0, x, x * -0.5),
}
#: Functions whose gradients jump: rounding decides on which side a number is.
_JUMPS = frozenset(("relu", "abs", "clamp", "exp of minus", "root", "where", "maximum"))
_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "maximum": torch.maximum,
    "gate": lambda x, y: F.silu(x) * y,
    "divide": lambda x, y: x / (y.abs() + 1.0),
}
_REDUCE: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "norm": lambda x, d, keepdim=False: torch.linalg.vector_norm(x, dim=d, keepdim=keepdim),
    "variance": lambda x, d, keepdim=False: torch.var(x, d, keepdim=keepdim),
    "logsumexp": lambda x, d, keepdim=False: torch.logsumexp(x, d, keepdim=keepdim),
}


def drawn(seed: int, count: int, most: int = MOST) -> list[Row]:
    """Return rows with at most about 2**most elements; the first ones are the same for every count."""
    return [_row(random.Random(f"{seed}/{k}"), k, most) for k in range(count)]


def _row(rng: random.Random, k: int, most: int) -> Row:
    kind, make_of = rng.choice(_KINDS)
    shape = _shape(rng, most)
    name, make, backward = make_of(rng, shape)
    title = f"{k:03d} {kind}: {name}{' backward' if backward else ''}"
    return Row(title, "random", shape, make, rng.choice(_DTYPES), backward=backward)


def _shape(rng: random.Random, most: int) -> Shape:
    """Draw a shape: sizes of models, or any."""
    rank = rng.choice((2, 2, 3, 3, 4))
    bits = rng.uniform(most - _SPAN, most)
    cuts = sorted(rng.uniform(1.5, bits - 1.5) for _ in range(rank - 1))
    sizes = [b - a for a, b in zip((0.0, *cuts), (*cuts, bits), strict=True)]
    round_ = rng.random()
    if round_ < 0.5:
        return tuple(1 << max(1, round(s)) for s in sizes)
    if round_ < 0.8:
        return tuple(max(2, round(2**s / 8) * 8) for s in sizes)
    return tuple(max(2, round(2**s)) for s in sizes)


# parts ----------------------------------------------------------------------------------------


def _chain_of(rng: random.Random, most: int, smooth: bool = False) -> tuple[str, _Unary]:
    known = [n for n in _UNARY if not (smooth and n in _JUMPS)]
    names = [rng.choice(known) for _ in range(rng.randint(1, most))]

    def chain(x: torch.Tensor) -> torch.Tensor:
        for n in names:
            x = _UNARY[n](x)
        return x

    return ", ".join(names), chain


def _dims(rng: random.Random, rank: int) -> tuple[int, ...]:
    """Draw axes: most often the last one."""
    if rng.random() < 0.45:
        return (rank - 1,)
    return tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))


def _beside(rng: random.Random, shape: Shape) -> Shape:
    """Draw the shape of an operand that broadcasts."""
    how = rng.random()
    if how < 0.4:
        return shape
    if how < 0.7:
        return shape[-1:]
    return tuple(s if rng.random() < 0.5 else 1 for s in shape)


# kinds ----------------------------------------------------------------------------------------


def _chain(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    backward = rng.random() < 0.3
    first, before = _chain_of(rng, 3, backward)
    second, after = _chain_of(rng, 2, backward)
    op = rng.choice([n for n in _BINARY if not (backward and n in _JUMPS)])
    other = _beside(rng, shape)

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        y = maker.normal(tuple(min(a, b) for a, b in zip(other, shape[-len(other) :], strict=True)))
        given = (maker.normal(shape, dtype), y.to(dtype))
        return Case(lambda x, y: after(_BINARY[op](before(x), y)), given, gradients=(0,))

    return f"{first}, {op}, {second}", make, backward


def _reduction(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    first, before = _chain_of(rng, 2)
    op, dims = rng.choice(list(_REDUCE)), _dims(rng, len(shape))
    back = rng.random() < 0.4

    def function(x: torch.Tensor) -> torch.Tensor:
        found = _REDUCE[op](wide(before(x)), dims, keepdim=True)
        return (wide(x) / (found.abs() + 1.0)).to(x.dtype) if back else found.to(x.dtype)

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        return Case(function, (maker.normal(shape, dtype),), gradients=(0,))

    return f"{first}, {op} over {dims}{', scaled' if back else ''}", make, False


def _norm(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    which = rng.choice(("layer", "rms", "group", "instance"))
    backward = rng.random() < 0.4
    after, act = _chain_of(rng, 1, backward)
    residual = rng.random() < 0.5

    def normalised(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if which == "layer":
            return F.layer_norm(x, x.shape[-1:], w, b)
        if which == "rms":
            h = wide(x)
            h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)
            return (h * wide(w)).to(x.dtype)
        channels = x.shape[1]
        groups = next(g for g in (8, 4, 2, 1) if channels % g == 0)
        if which == "instance":
            groups = channels
        flat = x if x.dim() > 2 else x.unsqueeze(-1)
        return F.group_norm(flat, groups).reshape(x.shape)

    def function(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        h = x + r if residual else x
        return act(normalised(h, w, b))

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        rest = maker.normal(shape if residual else (1,), dtype)
        w, b = maker.normal(shape[-1:], dtype), maker.normal(shape[-1:], dtype)
        wanted = (0, 2, 3) if which == "layer" else (0, 2) if which == "rms" else (0,)
        return Case(function, (maker.normal(shape, dtype), rest, w, b), gradients=wanted)

    return f"{which}, {after}", make, backward


def _softmax(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    which = rng.choice(("softmax", "log softmax", "masked", "capped"))
    dim = len(shape) - 1 if rng.random() < 0.75 else rng.randrange(len(shape))

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if which == "log softmax":
            return torch.log_softmax(x, dim)
        if which == "masked":
            return torch.softmax(x.masked_fill(mask, -1e4), dim)
        if which == "capped":
            return torch.softmax(torch.tanh(x / 20) * 20, dim)
        return torch.softmax(x * 0.125, dim)

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        mask = maker.truths(shape if which == "masked" else (1,))
        return Case(function, (maker.normal(shape, dtype), mask), gradients=(0,))

    return f"{which} over {dim}", make, rng.random() < 0.35


def _loss(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    which = rng.choice(("cross entropy", "z loss", "divergence", "huber"))
    flat = (math.prod(shape[:-1]), shape[-1])

    def function(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        if which == "huber":
            return F.smooth_l1_loss(wide(x), wide(y))
        if which == "divergence":
            return F.kl_div(
                torch.log_softmax(wide(x), -1), torch.softmax(wide(y), -1), reduction="batchmean"
            )
        lse = torch.logsumexp(wide(x), -1)
        loss = F.cross_entropy(wide(x), at)
        return loss + 1e-4 * lse.square().mean() if which == "z loss" else loss

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        own = (math.prod(shape[:-1]), shape[-1])
        other = own if which in ("huber", "divergence") else (1,)
        given = (maker.normal(own, dtype), maker.normal(other, dtype))
        return Case(function, (*given, maker.integers(own[1], own[:1])), gradients=(0,))

    # Gradients of the others are small differences of large numbers, or jump.
    return f"{which} of {flat[1]}", make, which == "z loss" and rng.random() < 0.6


def _gather(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    which = rng.choice(("rows", "embedding and norm", "columns", "picked"))
    after, act = _chain_of(rng, 1)

    def function(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        if which == "rows":
            return act(x[at])
        if which == "embedding and norm":
            return F.layer_norm(x[at], x.shape[-1:])
        if which == "columns":
            return act(x[:, at])
        return act(x.gather(-1, at.unsqueeze(-1)))

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        own = (math.prod(shape[:-1]), shape[-1])
        count = own[1] if which == "columns" else own[0]
        below = own[1] if which in ("columns", "picked") else own[0]
        return Case(function, (maker.normal(own, dtype), maker.integers(below, (count,))))

    return f"{which}, {after}", make, False


def _moved(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    which = rng.choice(("cat", "pad", "roll", "flip", "permuted", "half", "rope", "differences"))
    after, act = _chain_of(rng, 2)
    axis = rng.randrange(len(shape))
    order = tuple(rng.sample(range(len(shape)), len(shape)))

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if which == "cat":
            return torch.cat((act(x), y), axis)
        if which == "pad":
            return F.pad(act(x), (3, 1))
        if which in ("roll", "flip"):
            return act(x.roll(1, axis) if which == "roll" else x.flip(axis)) + x
        if which == "permuted":
            return act(x).permute(order).contiguous()
        n = x.shape[-1] // 2
        if which == "half":
            return act(x[..., :n]) * x[..., n : 2 * n]
        if which == "rope":
            a, b = x[..., :n], x[..., n : 2 * n]
            c, s = torch.cos(y[..., :n]), torch.sin(y[..., :n])
            return torch.cat((a * c - b * s, a * s + b * c), -1)
        return act(x[..., 1:] - x[..., :-1])

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        other = shape if which == "cat" else shape[-2:] if which == "rope" else (1,)
        return Case(function, (maker.normal(shape, dtype), maker.normal(other, dtype)))

    return f"{which}, {after}", make, False


def _running(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    first, before = _chain_of(rng, 1)
    axis = len(shape) - 1 if rng.random() < 0.6 else rng.randrange(len(shape))

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        function = lambda x: torch.cumsum(wide(before(x)) * 0.01, axis).to(x.dtype)  # noqa: E731
        return Case(function, (maker.normal(shape, dtype),))

    return f"{first}, cumsum over {axis}", make, False


def _quantised(rng: random.Random, shape: Shape) -> tuple[str, _Make, bool]:
    block = rng.choice((0, 32, 128))

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = wide(x)
        if block and h.shape[-1] % block == 0:
            h = h.unflatten(-1, (-1, block))
        scale = h.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
        # Rounding to integers is no continuous function: what is compared is within half a step.
        return (h / scale).clamp(-127, 127).flatten(), scale.flatten()

    def make(maker: Maker, shape: Shape, dtype: torch.dtype) -> Case:
        return Case(function, (maker.normal(shape, dtype),))

    return f"blocks of {block or 'a row'}", make, False


_KINDS = (
    ("chain", _chain),
    ("reduction", _reduction),
    ("reduction", _reduction),
    ("norm", _norm),
    ("norm", _norm),
    ("softmax", _softmax),
    ("loss", _loss),
    ("gather", _gather),
    ("moved", _moved),
    ("moved", _moved),
    ("running sum", _running),
    ("quantised", _quantised),
)
