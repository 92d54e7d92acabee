"""Block sizes from a tuning file, in place of the rules' choice.

A file gives only sizes: the kernels and their forms follow from the graph.  The sizes apply to all uses of the blocks:
the grid, the text, and the scratch between kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted, form
from autofuse.codegen.backends.triton.blocks import (
    LOST,
    MOST_PARTS,
    MOST_REGISTERS,
    MOST_WARPS,
    WARP,
    power,
)
from autofuse.codegen.backends.triton.kernels import Blocks, Form, Program
from autofuse.codegen.backends.tuning_file import SCHEMA, Times, check_head, graph_digest
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text
from autofuse.targets import GpuTarget

__all__ = [
    "KEYS",
    "SCHEMA",
    "KernelTuning",
    "Room",
    "Tuning",
    "check_kernels",
    "check_tuning",
    "graph_digest",
    "tuned",
]

#: Sizes that a file may give, as in :class:`Blocks`.
KEYS = ("rows", "cols", "parts", "warps", "programs", "chunks", "stages")
#: Sizes that the cores of an Ascend chip do not have.
_OF_CARDS = frozenset(("parts", "warps", "stages"))
_POWERS = frozenset(("rows", "cols", "parts", "warps"))
#: Most stages: Triton's output repeats the loads once per stage before a loop.
_MOST_STAGES = 8
#: Sizes of each form, and of kernels that leave partial results.
_HAS: Mapping[Form, tuple[str, ...]] = {
    Form.ITEMS: ("rows", "warps"),
    Form.TILES: ("rows", "cols", "warps"),
    Form.ROWS: ("rows", "cols", "parts", "warps"),
    Form.LOOP: ("rows", "cols", "warps", "stages"),
}
_HAS_LEAVING: Mapping[Form, tuple[str, ...]] = {
    Form.ROWS: ("rows", "cols", "warps", "programs", "stages"),
    Form.LOOP: ("rows", "cols", "warps", "chunks", "stages"),
}


@frozen
class Room:
    """Limits of block sizes from a kernel and a card.

    Attributes:
        form: form of the kernel.
        leaves: True if it leaves partial results for the next kernel.
        rows, cols: elements along the rows and columns of blocks; a program of ROWS holds all columns of a row.
        held: values per element in registers at once.
        loaded: bytes that the loads of a loop transfer per element of a block.
        shares: True if the blocks of a cluster may share a row.
        target: card, or the cores of a chip.
        most: most elements of a block that fit UB of a core; 0 for a card.
    """

    form: Form
    leaves: bool
    rows: int
    cols: int
    held: int
    loaded: int
    shares: bool
    target: GpuTarget
    most: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the sizes that such a kernel has."""
        return _keys(self.form, self.leaves, self.target)

    def wrong(self, b: Blocks) -> Iterator[tuple[str, str]]:
        """Yield the invalid sizes of blocks, each with the reason."""
        for key in self.keys:
            value = getattr(b, key)
            if value < 1:
                yield key, f"is {value}, but must be at least 1"
            elif key in _POWERS and value != power(value):
                yield key, f"is {value}, but must be a power of 2"
        for key, have in (("rows", self.rows), ("cols", self.cols)):
            if getattr(b, key) > power(have):
                yield key, f"is {getattr(b, key)}, but the kernel has {have} {key}"
        if self.form is Form.ROWS and b.cols * b.parts < self.cols:
            yield "cols", f"is {b.cols}: {b.parts} x {b.cols} is less than a row of {self.cols}"
        most = max(self.cols, 1)
        if b.chunks > most:
            yield "chunks", f"is {b.chunks}, but the kernel has {counted(most, 'column')} to divide"
        yield from self._wrong_of_core(b) if self.most else self._wrong_of_card(b)

    def _wrong_of_core(self, b: Blocks) -> Iterator[tuple[str, str]]:
        """Yield sizes that exceed the limits of a core: its programs wait for no other, and blocks lie in UB."""
        cores = self.target.multiprocessors
        if b.rows * b.cols > self.most:
            text = f"{b.rows} x {b.cols} elements of a block do not fit UB; {self.most} do"
            yield "cols" if b.cols > b.rows else "rows", f"is too large: {text}"
        for key, value in (("programs", b.programs), ("chunks", b.chunks)):
            if value > cores:
                yield key, f"is {value}, but there are {cores} cores"

    def _wrong_of_card(self, b: Blocks) -> Iterator[tuple[str, str]]:
        """Yield sizes that exceed the limits of a card."""
        if b.warps > MOST_WARPS:
            yield "warps", f"is {b.warps}; a block has at most {MOST_WARPS}"
        if b.parts > MOST_PARTS:
            yield "parts", f"is {b.parts}; a cluster has at most {MOST_PARTS} blocks"
        if b.parts > 1 and not self.shares:
            yield "parts", f"is {b.parts}, but no cluster can share the rows of this kernel"
        if b.parts == MOST_PARTS and b.rows in LOST:
            yield (
                "rows",
                f"is {b.rows}: Triton cannot compile it in a cluster of {counted(b.parts, 'block')}",
            )
        values = b.rows * b.cols * self.held
        if values > self.target.registers:
            text = (
                f"{counted(values, 'value')} of a block {form(values, 'does', 'do')} not fit "
                f"{self.target.registers} registers"
            )
            yield "cols" if b.cols > b.rows else "rows", f"is too large: {text}"
        elif values > MOST_REGISTERS * WARP * b.warps:
            text = (
                f"{counted(values, 'value')} of a block {form(values, 'does', 'do')} not fit "
                f"{MOST_REGISTERS} registers of a thread"
            )
            yield "warps", f"is {b.warps}: {text}"
        most = self.target.multiprocessors * self.target.threads // (WARP * max(b.warps, 1))
        if b.programs > most:
            yield "programs", f"is {b.programs}; the card has room for {most} at once"
        if b.stages > _MOST_STAGES:
            yield "stages", f"is {b.stages}, but must be at most {_MOST_STAGES}"
        need = b.stages * b.rows * b.cols * self.loaded
        if b.stages > 1 and need > self.target.shared_bytes:
            text = f"{counted(need, 'byte does', 'bytes do')} not fit {self.target.shared_bytes} of shared memory"
            yield "stages", f"is {b.stages}: {text}"


@dataclass(frozen=True, slots=True)
class KernelTuning:
    """Sizes of the blocks of one kernel.

    Attributes:
        name: function name, as ``autofuse explain`` lists it.
        sizes: some of :data:`KEYS`.
        places: source locations in the file, by key; the kernel's under ``name``.
    """

    name: str
    sizes: Mapping[str, int]
    places: Mapping[str, Where] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Contents of a tuning file.

    Attributes:
        graph: name of the graph.
        digest: digest of the graph, see :func:`graph_digest`.
        target: name of the card.
        kernels: block sizes of each kernel.
        places: locations of ``graph``, ``digest`` and ``target`` in the file.
        times: measured or modelled times that support it.
    """

    graph: str
    digest: str
    target: str
    kernels: tuple[KernelTuning, ...]
    places: Mapping[str, Where] = field(default_factory=dict, compare=False)
    times: tuple[Times, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, program: Program, target: GpuTarget) -> Tuning:
        """Return the blocks of a graph's plan, without kernels that choose theirs at the call."""
        kernels = tuple(
            KernelTuning(
                k.name,
                {key: getattr(k.blocks, key) for key in _keys(k.form, bool(k.partials), target)},
            )
            for k in program.kernels
            if k.blocks is not None
        )
        return cls(program.graph.label, graph_digest(program.graph), target.name, kernels)

    def to_json(self) -> dict[str, object]:
        """Return the contents of the file as JSON data."""
        return {
            "schema": SCHEMA,
            "graph": self.graph,
            "digest": self.digest,
            "target": self.target,
            "kernels": [{"name": k.name, **k.sizes} for k in self.kernels],
            **({"times": [t.to_json() for t in self.times]} if self.times else {}),
        }

    def text(self) -> str:
        """Return the text of the file."""
        return json_text(self.to_json(), indent=2) + "\n"


def check_tuning(tuning: Tuning, graph: FusionGraph, target: GpuTarget) -> None:
    """Check that a tuning is for this graph and this card.

    Raises:
        AutofuseError: AF3007, it is for another graph or card.
    """
    hint = "autofuse explain GRAPH -t TARGET --tuning-out FILE writes a new one"
    check_head(tuning, graph, target.name, hint)


def tuned(tuning: Tuning, name: str, b: Blocks, room: Room) -> Blocks:
    """Return the blocks of a kernel, with the sizes that a tuning gives for it.

    If ``parts`` are given without ``cols``, they divide a row.

    Args:
        tuning: tuning.
        name: kernel name.
        b: blocks from the rules.
        room: limits from the kernel and the card.

    Raises:
        AutofuseError: AF3007, the kernel does not have such a size, or does not allow its value.
    """
    found = [k for k in tuning.kernels if k.name == name]
    return _applied(found[0], b, room) if found else b


def check_kernels(tuning: Tuning, program: Program) -> None:
    """Check that all kernels of a tuning exist, and have tunable blocks.

    Raises:
        AutofuseError: AF3007, if one does not.
    """
    known = {k.name: k.blocks for k in program.kernels}
    hint = f"kernels: {', '.join(k for k, b in known.items() if b is not None) or 'none'}"
    out = []
    for k in tuning.kernels:
        where = k.places.get("name", Where())
        if k.name not in known:
            out.append(Diagnostic("AF3007", f"there is no kernel {k.name!r}", where, hint))
        elif known[k.name] is None:
            text = f"kernel {k.name} chooses its blocks at the call because the length of its rows is a symbol"
            out.append(Diagnostic("AF3007", text, where, "give the graph a fixed size"))
    if out:
        raise AutofuseError(out)


def _applied(k: KernelTuning, b: Blocks, room: Room) -> Blocks:
    """Return blocks with the given sizes; raise AF3007 for invalid ones."""
    lacks = [key for key in k.sizes if key not in room.keys]
    if lacks:
        hint = f"it has {', '.join(room.keys)}"
        text = f"of the form {room.form.value}, has no"
        raise AutofuseError(_finding(k, key, f"{text} {key}", hint) for key in lacks)
    given = dict(k.sizes)
    if given.get("parts", b.parts) != b.parts:
        given.setdefault("cols", max(1, power(room.cols) // max(given["parts"], 1)))
    made = replace(b, **given)
    found = list(room.wrong(made))
    if found:
        raise AutofuseError(_finding(k, key, f"{key} {text}") for key, text in found)
    return made


def _finding(k: KernelTuning, key: str, text: str, hint: str = "") -> Diagnostic:
    # For a size that the file leaves to the rules, point at the kernel.
    where = k.places.get(key, k.places.get("name", Where()))
    return Diagnostic("AF3007", f"kernel {k.name}: {text}", where, hint)


def _keys(form: Form, leaves: bool, target: GpuTarget) -> tuple[str, ...]:
    found = _HAS_LEAVING[form] if leaves else _HAS[form]
    return tuple(k for k in found if not target.chip or k not in _OF_CARDS)
