"""Runs the text of a generated Triton file with NumPy, where neither Triton nor PyTorch is installed.

It has what the generated files use of both, and no more.  Programs run one after another; all blocks of a cluster are
one program, as in Triton's interpreter.  An access outside of a tensor that no mask leaves out is an ``IndexError``;
what no program stores stays NaN or the least integer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["run"]

KINDS = (
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)


class Block(np.ndarray):
    """A value of a kernel."""

    def to(self, kind: Any, bitcast: bool = False) -> Any:
        """The same numbers, or bits, of another type."""
        return np.ascontiguousarray(self).view(kind).view(Block) if bitcast else _cast(self, kind)


def _block(x: Any, kind: Any = None) -> Any:
    return np.asarray(x, kind).view(Block)


def _cast(x: Any, kind: Any) -> Any:
    if not isinstance(kind, np.dtype):
        return x.to(kind)
    return np.asarray(x).astype(kind).view(Block)


class Tensor:
    """A tensor without gaps on the one device that there is."""

    def __init__(self, data: Any) -> None:
        self.shape, self.dtype, self.memory = data.shape, data.dtype, np.array(data).reshape(-1)
        self.device = SimpleNamespace(index=None, type="cpu")

    def data_ptr(self) -> int:
        return 16

    def is_contiguous(self) -> bool:
        return True

    def numel(self) -> int:
        return self.memory.size

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(int(np.prod(self.shape[k + 1 :])) for k in range(len(self.shape)))
        return strides if axis is None else strides[axis]

    def array(self) -> Any:
        return self.memory.reshape(self.shape)


class Pointer:
    """Addresses of elements of a tensor."""

    def __init__(self, memory: Any, at: Any = 0) -> None:
        self.memory, self.at = memory, at

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.memory, self.at + more)


def _places(p: Pointer, mask: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Addresses, and which of them are accessed."""
    at = np.broadcast_to(np.asarray(p.at, np.int64), shape)
    live = np.ones(shape, bool) if mask is None else np.broadcast_to(np.asarray(mask, bool), shape)
    reached = at[live]
    if reached.size and not (0 <= reached.min() and reached.max() < p.memory.size):  # noqa: SIM300
        raise IndexError(f"{reached.min()} to {reached.max()} of {p.memory.size} elements")
    return at, live


def _load(p: Pointer, mask: Any = None, other: Any = 0, cache_modifier: str = "") -> Any:
    shape = np.broadcast_shapes(np.shape(p.at), np.shape(mask) if mask is not None else ())
    at, live = _places(p, mask, shape)
    found = np.full(shape, other, p.memory.dtype)
    found[live] = p.memory[at[live]]
    return _block(found)


def _store(p: Pointer, value: Any, mask: Any = None) -> None:
    shape = np.shape(p.at)
    # As in Triton a value or mask is spread over the addresses, not the other way round.
    at, live = _places(p, mask, shape)
    p.memory[at[live]] = np.broadcast_to(np.asarray(value).astype(p.memory.dtype), shape)[live]


def _reduce(x: Any, axis: int, combine: Callable[[Any, Any], Any], keep_dims: bool = False) -> Any:
    x = np.moveaxis(np.asarray(x), axis, -1)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = np.asarray(combine(_block(x[..., :half]), _block(x[..., half:])))
    x = np.moveaxis(x, -1, axis)
    return _block(x if keep_dims else np.squeeze(x, axis))


def _extreme(pick: Any, quiet: Any) -> Callable[..., Any]:
    def made(a: Any, b: Any, propagate_nan: Any = None) -> Any:
        return _block((pick if propagate_nan else quiet)(a, b))

    return made


def _along(how: Any) -> Callable[..., Any]:
    def made(x: Any, axis: int, keep_dims: bool = False) -> Any:
        x = np.asarray(x)
        more = {"dtype": x.dtype} if how is np.sum else {}
        return _block(how(x, axis, keepdims=keep_dims, **more))

    return made


def _scan(x: Any, axis: int, combine: Callable[[Any, Any], Any], reverse: bool = False) -> Any:
    many = isinstance(x, tuple)
    parts = [np.moveaxis(np.asarray(v), axis, 0) for v in (x if many else (x,))]
    parts = [v[::-1] if reverse else v for v in parts]
    state = [v[0] for v in parts]
    steps = [state]
    for k in range(1, len(parts[0])):
        here = [v[k] for v in parts]
        joined = combine(*map(_block, state), *map(_block, here))
        state = list(joined) if many else [joined]
        steps.append(state)
    found = [np.stack([np.asarray(s[i]) for s in steps]) for i in range(len(parts))]
    found = [_block(np.moveaxis(v[::-1] if reverse else v, 0, axis)) for v in found]
    return tuple(found) if many else found[0]


class _Programs:
    """Which program runs."""

    at: tuple[int, ...] = (0, 0, 0)
    grid: tuple[int, ...] = (1, 1, 1)


class _Function:
    """What ``triton.jit`` makes: kernels are launched, functions are called."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.fn(*args, **named)

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        def launched(*args: Any, **named: Any) -> None:
            for option in ("num_warps", "num_ctas", "enable_fp_fusion"):
                named.pop(option, None)
            given = [Pointer(a.memory) if isinstance(a, Tensor) else a for a in args]
            _Programs.grid = (*grid, 1, 1)[:3]
            for at in itertools.product(*map(range, _Programs.grid)):
                _Programs.at = at
                self.fn(*given, **named)

        return launched


class _Constexpr:
    """An annotation, or a value known to the compiler, which is the value here."""

    def __new__(cls, value: Any) -> Any:
        return value


def _flushed(x: Any) -> Any:
    """Zeros for subnormal numbers, as some instructions of a card take them."""
    return np.where(np.abs(x) < np.finfo(np.float32).smallest_normal, x * 0, x)


def _language() -> Any:
    kinds = {k: np.dtype(k) for k in KINDS}
    return SimpleNamespace(
        **kinds,
        float16=np.dtype(np.float16),
        bfloat16=np.dtype(ml_dtypes.bfloat16),
        int1=np.dtype(bool),
        constexpr=_Constexpr,
        PropagateNan=SimpleNamespace(ALL=True, NONE=False),
        program_id=lambda k: _block(_Programs.at[k], np.int32),
        num_programs=lambda k: int(_Programs.grid[k]),
        arange=lambda a, b: _block(np.arange(a, b, dtype=np.int32)),
        full=lambda shape, v, kind: _block(np.full(shape, v, kind)),
        zeros=lambda shape, kind: _block(np.zeros(shape, kind)),
        zeros_like=lambda x: _block(np.zeros_like(x)),
        cast=lambda x, kind: _block(x).to(kind),
        reshape=lambda x, *shape: _block(np.reshape(x, shape[0] if len(shape) == 1 else shape)),
        broadcast_to=lambda x, shape: _block(np.broadcast_to(np.asarray(x), shape)),
        where=lambda c, a, b: _block(np.where(c, a, b)),
        load=_load,
        store=_store,
        reduce=_reduce,
        associative_scan=_scan,
        cumsum=lambda x, axis=0, reverse=False: _scan(x, axis, lambda a, b: a + b, reverse),
        sum=_along(np.sum),
        max=_along(np.max),
        min=_along(np.min),
        maximum=_extreme(np.maximum, np.fmax),
        minimum=_extreme(np.minimum, np.fmin),
        cdiv=lambda a, b: -(-a // b),
        range=lambda *ends, num_stages=1: range(*(int(e) for e in ends)),
        static_range=range,
        exp=lambda x: _block(np.exp(x)),
        exp2=lambda x: _block(np.exp2(x)),
        log=lambda x: _block(np.log(x)),
        log2=lambda x: _block(np.log2(x)),
        floor=lambda x: _block(np.floor(_flushed(x))),
        ceil=lambda x: _block(np.ceil(_flushed(x))),
        abs=lambda x: _block(np.abs(x)),
        sqrt_rn=lambda x: _block(np.sqrt(x)),
        sqrt=lambda x: _block(np.sqrt(x)),
        rsqrt=lambda x: _block(1 / np.sqrt(x)),
        div_rn=lambda a, b: _block(a / b),
        fma=lambda a, b, c: _block(a * b + c),
    )


def _empty(*shape: Any, dtype: Any, device: Any = None) -> Tensor:
    shape = shape[0] if len(shape) == 1 else shape
    lowest = np.iinfo(dtype).min if dtype.kind in "iu" else False if dtype.kind == "b" else np.nan
    return Tensor(np.full(shape, lowest, dtype))


def _modules() -> Mapping[str, Any]:
    interpreted = SimpleNamespace(runtime=SimpleNamespace(interpret=True))
    triton = SimpleNamespace(
        jit=_Function, cdiv=lambda a, b: -(-a // b), knobs=interpreted, next_power_of_2=_power
    )
    kinds = {k: np.dtype(k) for k in KINDS}
    torch = SimpleNamespace(
        **kinds,
        float16=np.dtype(np.float16),
        bfloat16=np.dtype(ml_dtypes.bfloat16),
        bool=np.dtype(bool),
        empty=_empty,
    )
    return {"torch": torch, "triton": triton, "tl": _language()}


def _power(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _without_imports(text: str) -> Iterator[str]:
    known = ("import torch", "import triton", "import triton.language as tl")
    for line in text.splitlines():
        yield "" if line in known else line


def run(text: str, name: str, *inputs: Any) -> list[Any]:
    """The results of a function of a generated file."""
    # Sizes are Python's numbers, and offsets and programs NumPy's: a range takes both.
    scope: dict[str, Any] = {**_modules(), "range": lambda *ends: range(*(int(e) for e in ends))}
    exec(compile("\n".join(_without_imports(text)), f"{name}.py", "exec"), scope)
    with np.errstate(all="ignore"):
        found = scope[name](*(Tensor(np.asarray(x)) for x in inputs))
    return [t.array() for t in (found if isinstance(found, tuple) else (found,))]
