"""Memory layouts of the results of ops in eager PyTorch.

A decomposition computes the same elements but often another memory order, and PyTorch's meta functions do not always
return eager's layout either.  Code that reads strides or storage of a result sees the difference.  So an op with
non-contiguous operands is run on small tensors with the same layouts as its operands.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves

from autofuse.clients.torch.sizes import hint_of

__all__ = ["laid_out", "memory_order"]

#: Total elements of the operands up to which an op runs on tensors of their real sizes.
_SMALL = 1 << 14
#: Maximum size for larger operands; different sizes stay different as far as this allows.
_LONGEST = 8
#: Maximum number of cached orders, by op and operands.
_KEPT = 4096
_UNKNOWN = (torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output)

Order = tuple[int, ...]
Opened = Callable[..., Any]


def laid_out(opened: Mapping[Any, Opened], whole: Sequence[Any]) -> dict[Any, Opened]:
    """Return decompositions whose results have the memory layout of the ops' results.

    Args:
        opened: decompositions, by op.
        whole: ops without decomposition, whose results have the layout of PyTorch's meta functions.
    """
    known = [op for op in opened if torch.Tag.dynamic_output_shape not in getattr(op, "tags", ())]
    ops = [op for op in dict.fromkeys((*known, *whole)) if _allocates(op)]
    return {**opened, **{op: _keeping(op, opened.get(op)) for op in ops}}


def memory_order(t: torch.Tensor) -> Order | None:
    """Return the memory order of the axes of a dense tensor, with axes of size 1 placed by their stride.

    A contiguous tensor with its axes in this order has the strides of ``t``.  None if there is no such order.
    """
    sizes, strides = [hint_of(s) for s in t.shape], [hint_of(s) for s in t.stride()]
    if any(s is None for s in (*sizes, *strides)):
        return None
    return _order(sizes, strides)  # type: ignore[arg-type]


def _order(sizes: Sequence[int], strides: Sequence[int]) -> Order | None:
    perm = sorted(range(len(sizes)), key=lambda d: (-strides[d], sizes[d] == 1, d))
    step = 1
    for d in reversed(perm):
        if strides[d] != step:
            return None
        step *= max(sizes[d], 1)
    return tuple(perm)


def _allocates(op: Any) -> bool:
    """Return True if an op allocates new tensors that depend only on its operands."""
    if not isinstance(op, torch._ops.OpOverload) or set(_UNKNOWN) & set(op.tags):
        return False
    schema = op._schema
    return not schema.is_mutable and not any(r.alias_info for r in schema.returns)


class _Inside(threading.local):
    """Thread-local flag: the parts of a composite op are being traced, and it sets the layout itself."""

    now = False


_INSIDE = _Inside()


@contextmanager
def _inside() -> Iterator[None]:
    _INSIDE.now = True
    try:
        yield
    finally:
        _INSIDE.now = False


def _keeping(op: Any, how: Opened | None) -> Opened:
    def kept(*args: Any, **kwargs: Any) -> Any:
        operands = _tensors((args, kwargs))
        # If a mask determines the number of results, their shape is unknown.
        asks = torch.Tag.dynamic_output_shape in op.tags
        masked = asks and any(t.dtype in (torch.bool, torch.uint8) for t in operands)
        if _INSIDE.now or masked or all(map(_is_plain, operands)):
            return NotImplemented if how is None else how(*args, **kwargs)
        orders = _ORDERS.of(op, args, kwargs)
        with _inside():
            made = NotImplemented if how is None else how(*args, **kwargs)
            if made is NotImplemented or not orders:
                with disable_proxy_modes_tracing():
                    told = op(*args, **kwargs)
                orders = orders or [memory_order(t) for t in _tensors(told)]
                if made is NotImplemented:
                    if all(map(_lies, _tensors(told), orders)):
                        return NotImplemented
                    made = op(*args, **kwargs)
            return _arranged(made, orders)

    return kept


def _is_plain(t: torch.Tensor) -> bool:
    return t.layout is not torch.strided or _lies(t, tuple(range(t.dim())))


def _tensors(made: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(made) if isinstance(t, torch.Tensor)]


def _lies(t: torch.Tensor, order: Order | None) -> bool:
    """Return True if the axes of a tensor have a given memory order."""
    if order is None or t.dim() != len(order) or t.layout is not torch.strided:
        return True
    step = 1
    for d in reversed(order):
        if hint_of(t.stride(d)) != step:
            return False
        step *= max(hint_of(t.shape[d]) or 0, 1)
    return True


def _arranged(made: Any, orders: Sequence[Order | None]) -> Any:
    """Return the results, each copied if its axes have another memory order."""
    leaves, spec = tree_flatten(made)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    for i, order in zip(places, orders, strict=False):
        if not _lies(leaves[i], order):
            assert order is not None
            inverse = [order.index(d) for d in range(len(order))]
            dense = leaves[i].permute(order).clone(memory_format=torch.contiguous_format)
            leaves[i] = dense.permute(inverse)
    return spec.unflatten(leaves)


class _Orders:
    """Cache of the memory orders of ops' results, by op and arguments."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Any, list[Order | None]] = {}

    def of(self, op: Any, args: Any, kwargs: Any) -> list[Order | None]:
        """Return the order of every tensor among the results; None if unknown or undefined."""
        leaves, spec = tree_flatten((args, kwargs))
        try:
            told = [_Operand(x) if isinstance(x, torch.Tensor) else _number(x) for x in leaves]
            key = (op, str(spec), tuple(x.key if isinstance(x, _Operand) else x for x in told))
            hash(key)
        except (TypeError, _UnknownError):
            return []
        with self._lock:
            found = self._known.get(key)
        if found is None:
            found = _run(op, spec, told)
            with self._lock:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = found
        return found


_ORDERS = _Orders()


class _UnknownError(Exception):
    """A size depends on data."""


def _number(x: Any) -> Any:
    if not isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool):
        return x
    if not x.node.has_hint():
        raise _UnknownError
    return x.node.hint


class _Operand:
    """Shape, dtype and layout of a tensor, without its elements."""

    def __init__(self, t: torch.Tensor) -> None:
        if t.layout is not torch.strided:
            raise _UnknownError
        self.sizes = [_number(s) for s in t.shape]
        self.strides = [_number(s) for s in t.stride()]
        self.dtype, self.device = t.dtype, t.device
        self.key = (tuple(self.sizes), tuple(self.strides), t.dtype, t.device)

    def small(self, sizes: Mapping[int, int]) -> torch.Tensor:
        """Return a tensor of other sizes with the same memory order of axes, gaps and zero strides."""
        strides = [0] * len(self.sizes)
        inner, step = 1, 1
        for d in sorted(
            range(len(strides)), key=lambda d: (self.strides[d], self.sizes[d] != 1, -d)
        ):
            if self.strides[d] == 0:
                continue
            gap = self.strides[d] > inner and self.sizes[d] != 1
            strides[d] = 2 * step if gap else step
            inner = max(self.sizes[d], 1) * self.strides[d]
            step = max(sizes[self.sizes[d]], 1) * strides[d]
        shape = [sizes[s] for s in self.sizes]
        count = 1 + sum(max(n - 1, 0) * step for n, step in zip(shape, strides, strict=True))
        # Index 0 is in-bounds for every dimension; 1 is a safe divisor.
        places = not self.dtype.is_floating_point and not self.dtype.is_complex
        held = torch.full((count,), 0 if places else 1, dtype=self.dtype, device=self.device)
        return held.as_strided(shape, strides)


def _run(op: Any, spec: Any, told: Sequence[Any]) -> list[Order | None]:
    """Return the orders of the results of an op for small operands."""
    operands = [x for x in told if isinstance(x, _Operand)]
    known = sorted({s for x in operands for s in x.sizes})
    small = sum(torch.Size(x.sizes).numel() for x in operands) <= _SMALL
    long = [s for s in known if s > 1]
    shrunk = {s: min(s, max(2, _LONGEST - len(long) + 1 + i)) for i, s in enumerate(long)}
    sizes = {s: s if small else shrunk.get(s, s) for s in known}
    try:
        with _disable_current_modes(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            leaves = [x.small(sizes) if isinstance(x, _Operand) else x for x in told]
            args, kwargs = spec.unflatten(leaves)
            made = op(*args, **kwargs)
    except Exception:
        # Its number arguments require the original sizes, or it needs other elements.
        return []
    return [_order(t.shape, t.stride()) for t in _tensors(made)]
