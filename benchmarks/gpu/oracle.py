"""Float64 results of the timed function, and the element-wise errors of other results against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from rows import Case, Function, Tensors, tensors

#: Maximum elements of a tensor in one part of the oracle, and of elements compared at once.
_PART = 1 << 27
#: Fraction of integers that may be off by one: a quotient may be on either side of a half.
_BESIDE = 1e-3


def call_of(function: Function, case: Case) -> Callable[[], Tensors]:
    """Return the call to time: the function, or its backward graph after one forward pass.

    The forward pass runs here, on the current stream.
    """
    if not case.dys:

        def forward() -> Tensors:
            with torch.no_grad():
                return tensors(function(*case.inputs))

        return forward
    inputs = [x.detach() for x in case.inputs]
    wanted = [inputs[k].requires_grad_() for k in case.gradients]
    with torch.enable_grad():
        outputs = tensors(function(*inputs))
    return lambda: torch.autograd.grad(outputs, wanted, case.dys, retain_graph=True)


class Oracle:
    """The correct results of a case.

    An error is ``max |result - right| / (eps * (|right| + rms))``, with ``eps`` of the result's dtype and the root
    mean square of the correct output: 1 is about two roundings of a typical element.  For integers it is the fraction
    that differs by one, in units of 0.001; any larger difference is infinite.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._scales: list[float] = []

    def errors(self, results: Sequence[torch.Tensor]) -> list[float]:
        """Return the error of every result; infinite for a wrong shape, a NaN, or a missing result."""
        scales = self._scales or self._measured()
        found = [0.0] * len(scales)
        for at, right in self._parts():
            given = self._observed(tuple(r[at] for r in results) if at else tuple(results), at)
            if len(given) != len(right):
                return [math.inf] * len(scales)
            for k, (g, r) in enumerate(zip(given, right, strict=True)):
                found[k] = max(found[k], error(g, r, scales[k]))
        return found

    def _measured(self) -> list[float]:
        """Return the root mean square of every output."""
        totals: list[float] = []
        counts: list[int] = []
        for _, right in self._parts():
            totals = totals or [0.0] * len(right)
            counts = counts or [0] * len(right)
            for k, r in enumerate(right):
                totals[k] += float(torch.linalg.vector_norm(r.double())) ** 2
                counts[k] += r.numel()
        self._scales = [math.sqrt(t / max(n, 1)) for t, n in zip(totals, counts, strict=True)]
        if not all(map(math.isfinite, self._scales)):
            raise ValueError("the oracle itself has infinities or NaN")
        return self._scales

    def _parts(self) -> Iterator[tuple[slice | None, Tensors]]:
        """Yield the correct outputs part by part, with the slice of the part along dimension 0; None for all."""
        case = self.case
        whole = not case.split or bool(case.dys)
        extent = 1 if whole else case.inputs[0].shape[0]
        most = max(x.numel() for x in case.inputs)
        step = max(1, extent * _PART // max(most, 1))
        for start in range(0, extent, step):
            at = None if whole else slice(start, start + step)
            yield at, self._observed(call_of(case.function, self._upcast(at))(), at)

    def _observed(self, outputs: Tensors, at: slice | None) -> Tensors:
        if self.case.observed is None:
            return outputs
        split = self.case.split
        inputs = tuple(x[at] if at and k < split else x for k, x in enumerate(self.case.inputs))
        return self.case.observed(outputs, inputs)

    def _upcast(self, at: slice | None) -> Case:
        case = self.case
        inputs = (x[at] if at and k < case.split else x for k, x in enumerate(case.inputs))
        wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        return Case(
            case.function,
            wide,
            gradients=case.gradients,
            dys=tuple(y.double() for y in case.dys),
        )


def error(given: torch.Tensor, right: torch.Tensor, scale: float) -> float:
    """Return the error of one result (see :class:`Oracle`); ``scale`` is the root mean square of the correct one."""
    if given.shape != right.shape or given.is_floating_point() != right.is_floating_point():
        return math.inf
    if not given.numel():
        return 0.0
    pieces = zip(given.flatten().split(_PART), right.flatten().split(_PART), strict=True)
    if not given.is_floating_point():
        apart = [(g.long() - r.long()).abs() for g, r in pieces]
        if any(int(a.max()) > 1 for a in apart):
            return math.inf
        return sum(int(a.sum()) for a in apart) / given.numel() / _BESIDE
    eps = torch.finfo(given.dtype).eps
    found = [_farthest(g.double(), r.double(), eps, scale) for g, r in pieces]
    return math.inf if any(map(math.isnan, found)) else max(found)


def _farthest(given: torch.Tensor, right: torch.Tensor, eps: float, scale: float) -> float:
    unit = (eps * (right.abs() + scale)).clamp(min=torch.finfo(torch.float64).tiny)
    return float(((given - right).abs() / unit).max())
