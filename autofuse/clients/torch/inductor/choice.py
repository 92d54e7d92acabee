"""Choose the regions that are worth a kernel inside Inductor, which fuses well itself.

A region is opaque to Inductor: its operands and results lie in memory.  So a region is compared with what Inductor
would do without it: the folder ``ratios`` has measured times of Inductor's kernels over those of autofuse, by form and
bytes.  Every tensor that Inductor could have kept in registers costs a write and a read, and an operand that it could
have read once for the region and for another op costs a read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import torch
from torch._inductor import config
from torch._inductor.graph import GraphLowering

from autofuse.clients.torch.devices.programs import (
    DETAILS,
    LoopsProgram,
    OperatorProgram,
    TritonProgram,
)
from autofuse.clients.torch.inductor.measured import measured_gain
from autofuse.clients.torch.inductor.neighbours import fuses, origin, read, siblings, users
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.partition import apart, bytes_of
from autofuse.clients.torch.selection import Made
from autofuse.clients.torch.sizes import number_of_elements
from autofuse.implgraph.expr.remainders import tight_bounds
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["Chooser", "Region", "Table", "gain", "modelled_gain", "table"]

#: Least gain, as a part of the time of a region by Inductor: less is within the spread of the ratios.
_LEAST = 0.03
#: Launches of a region that Inductor, too, may need: of a reduction and of what joins its parts.
_USUAL = 2
#: Fewest dimensions of images, which Inductor may lay out channels-last.
_IMAGE = 4


@dataclass(frozen=True)
class Region:
    """A region as far as the choice by measured ratios depends on it.

    Attributes:
        backend: the writer of its kernels, the name of its table.
        form: key of the table, see :attr:`TritonProgram.form`.
        bytes: bytes of all operands and results, at the sizes of tracing.
        kept: bytes of those that Inductor could keep in registers.
        launches: number of launches.
        shared: bytes of operands that Inductor could read once for the region and for another op.
    """

    backend: str
    form: tuple[str, ...]
    bytes: int
    kept: int
    launches: int = 1
    shared: int = 0


@dataclass(frozen=True)
class Table:
    """Measured ratios of one backend, of the file of its name in the folder ``ratios``.

    Attributes:
        small: bytes below which a region is small: about what a launch hides.
        cached: bytes below which it fits the cache that all cores share.
        launch: bytes that the device moves in the time of a launch.
        ratios: by form and size class; an empty class stands for all others of the form.
    """

    small: int
    cached: int
    launch: int
    ratios: Mapping[tuple[tuple[str, ...], str], float]

    def size_class(self, count: int) -> str:
        """Return the class of a number of bytes."""
        return "small" if count < self.small else "cached" if count < self.cached else "large"


class Chooser:
    """Judges the regions of one graph.

    Args:
        gm: the graph, before any region is replaced.
        options: options of the backend.
        is_inference: it has no backward graph.
    """

    def __init__(self, gm: torch.fx.GraphModule, options: Options, *, is_inference: bool) -> None:
        self._how = options.choose
        if self._how == "model" and (config.max_autotune or config.max_autotune_pointwise):
            # Inductor times its choices, too.
            self._how = "measure"
        self._in_cpp = config.cpp_wrapper
        self._moves_channels = GraphLowering.decide_layout_opt(gm, is_inference=is_inference)

    def judge(self, made: Made) -> tuple[bool, str]:
        """Return True if kernels of autofuse compute a region, False if Inductor keeps it, and the reason."""
        values = [n.meta["val"] for n in (*made.arguments, *made.candidate.outputs)]
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        program = made.built.kernel
        if isinstance(program, LoopsProgram | OperatorProgram) and self._in_cpp:
            return False, "Inductor writes its wrapper in C++ (cpp_wrapper)"
        if isinstance(program, TritonProgram) and _may_be_empty(made.lowered.graph):
            return False, "a size may be 0"
        if isinstance(program, OperatorProgram) and not made.lowered.graph.inputs:
            return False, "an operator without a tensor as an argument has no device"
        if any(number_of_elements(t.shape) == 0 for t in tensors):
            return False, "it has no elements"
        if self._moves_channels and any(t.dim() >= _IMAGE for t in tensors):
            return False, "Inductor lays out images channels-last"
        if isinstance(program, OperatorProgram):
            expected = modelled_gain(made)
            words = (
                f"expected gain {expected:+.0%} (bytes by the cost model; no times were measured)"
            )
            return self._how == "all" or expected >= _LEAST, words
        if self._how == "measure" and (found := measured_gain(made)) is not None:
            return found >= _LEAST, f"gain {found:+.0%} (measured)"
        region = described(made)
        expected = gain(region)
        words = f"expected gain {expected:+.0%} (model, form {' '.join(region.form)})"
        return self._how == "all" or expected >= _LEAST, words


def _may_be_empty(graph: FusionGraph) -> bool:
    """Return True if a size that is known at run time may be 0: a launch without programs is an error."""
    ranges = graph.symbol_ranges()
    tensors = [graph.tensors[t] for t in (*graph.inputs, *(o.tensor for o in graph.outputs))]
    sizes = (e for t in tensors for e in t.shape if not e.is_const)
    return any(tight_bounds(e, ranges)[0] < 1 for e in sizes)


def described(made: Made) -> Region:
    """Return what the choice depends on."""
    ends = (*read(made), *made.candidate.outputs)
    program = made.built.kernel
    assert isinstance(program, TritonProgram | LoopsProgram)
    return Region(
        program.target.backend,
        program.form,
        sum(map(bytes_of, dict.fromkeys(ends))),
        _kept(made),
        made.built.parts,
        sum(map(bytes_of, siblings(made))),
    )


def _kept(made: Made) -> int:
    """Return the bytes of operands and results that Inductor could keep in registers."""
    inside = set(made.candidate.nodes) - set(made.candidate.outside)
    kept = sum(bytes_of(n) for n in read(made) if fuses(origin(n)))
    return kept + sum(
        bytes_of(n)
        for n in made.candidate.outputs
        if any(fuses(u) for u in users(n) if u not in inside)
    )


def modelled_gain(made: Made) -> float:
    """Return the expected gain as a part of the bytes that the ops of a region move one by one.

    Without measured ratios, the cost model decides alone, with the same charge for what borders other ops.
    """
    alone = apart(made.candidate)
    moved = alone if made.bytes is None else made.bytes
    more = 2 * _kept(made) + sum(map(bytes_of, siblings(made)))
    return 1.0 - (moved + more) / max(alone, 1)


def gain(region: Region) -> float:
    """Return the expected gain as a part of the time that Inductor needs for the region and the tensors between."""
    known = table(region.backend)
    ratio = next(_ratios(region, known), 1.0)
    moved = 2 * region.kept + region.shared + known.launch * max(0, region.launches - _USUAL)
    return 1.0 - (1.0 / ratio) - moved / max(region.bytes, 1)


def _ratios(region: Region, known: Table) -> Iterator[float]:
    """Yield the ratios of a region: of its class, of its form at any size, and of the form without its last details."""
    form = region.form
    while form:
        for size in (known.size_class(region.bytes), ""):
            if (form, size) in known.ratios:
                yield known.ratios[form, size]
        form = form[:-1] if form[-1] in DETAILS else ()


@cache
def table(backend: str) -> Table:
    """Return the measured ratios of a backend."""
    text = files(__package__).joinpath("ratios", f"{backend}.json").read_text(encoding="utf-8")
    read = json.loads(text)
    ratios = {(tuple(row["form"]), row["size"]): row["ratio"] for row in read["ratios"]}
    return Table(read["small"], read["cached"], read["launch"], ratios)
