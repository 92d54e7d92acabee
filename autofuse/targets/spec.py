"""Reads ``*.toml`` of this folder into :class:`TargetSpec`.

A chip's file names a ``base`` file with the common figures of its architecture; a figure in the chip's file overrides
the base. Base files start with ``dav-`` and are not targets.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, SupportsIndex

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted
from autofuse.targets.architecture import Architecture, read_architecture
from autofuse.targets.cost_table import UNITS, CostTable
from autofuse.targets.figures import Figure, figure, made, parsed, read_figures, target_files

__all__ = [
    "TargetSpec",
    "VectorCost",
    "known_target",
    "load_chip",
    "read_chip",
    "target_names",
    "unknown_target",
]


@dataclass(frozen=True, slots=True)
class VectorCost:
    """Cycles of one vector call over n elements: ``head + n / rate``.

    The rate is that of the wider operand; a rate of 0 means that the call is free.
    """

    head: float
    rate16: float
    rate32: float

    def cycles(self, count: int, bits: int = 32) -> float:
        """Return the cycles for ``count`` elements of ``bits`` bits."""
        rate = self.rate16 if bits <= 16 else self.rate32
        return self.head + count / rate if rate else 0.0


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A chip.  Bandwidths are bytes per cycle and core unless the name says otherwise.

    Attributes:
        name: as passed to ``load_target``, or as given in the user's target file.
        soc: name of the chip in CANN.
        arch: architecture of its cores.
        backend: the folder of ``codegen.backends`` that writes its kernels.
        queues: True if data pass between the pipes of a core in queues; False: local memory is plain arrays.
        families: the template families to try; None: all of them.
        invariant: only the sizes of reduced axes may change the bits of a result (:meth:`in_fixed_order`).
        experimental: kernels for this chip may change more than others do.
        checked: a sentence without its full stop: how the generated code was checked, and whether it ran on silicon.
        base: for a user's target file, its base chip; else empty.
        aiv_cores: vector cores.
        ub_bytes: bytes of UB of a core, including reserved ones.
        ub_reserved: bytes of UB reserved by the framework.
        ub_reserved_select: bytes of UB reserved by Select and some other calls.
        clock_mhz: clock of the cores.
        l2_bytes: bytes of L2.
        load_head, store_head: cycles of a DMA command before its first byte.
        load_rate, store_rate: rate of one core alone.
        load_rate_all, store_rate_all: rate per core if all cores read, or write.
        kernel_head_us: microseconds of a nearly empty kernel.
        sync_all: cycles of a barrier of all cores.
        gm_bandwidth_gbs, l2_bandwidth_gbs: whole chip, 1e9 B/s, reads and writes together.
        vector: cost rows by name (``unary``, ``binary``, ``exp``, ...), see ``OpDef.cost``.
        model: the other figures of the cost model.
    """

    name: str
    soc: str
    arch: Architecture
    backend: str
    queues: bool
    families: frozenset[str] | None
    invariant: bool
    experimental: bool
    checked: str
    base: str
    aiv_cores: int
    ub_bytes: int
    ub_reserved: int
    ub_reserved_select: int
    clock_mhz: int
    l2_bytes: int
    gm_bandwidth_gbs: float
    l2_bandwidth_gbs: float
    load_head: float
    store_head: float
    load_rate: float
    store_rate: float
    load_rate_all: float
    store_rate_all: float
    kernel_head_us: float
    sync_all: float
    vector: Mapping[str, VectorCost]
    model: CostTable
    _figures: tuple[Figure, ...]

    @property
    def npu_arch(self) -> str:
        """Value of the compiler's ``--npu-arch``."""
        return self.arch.npu_arch

    @property
    def ub_usable(self) -> int:
        """Bytes of UB that a kernel may use."""
        return self.ub_bytes - self.ub_reserved - self.ub_reserved_select

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        """Make results picklable; a mappingproxy is not."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restored, ({**values, "vector": dict(self.vector)},)

    def with_ub(self, nbytes: int) -> TargetSpec:
        """Return this chip with ``nbytes`` of usable UB.

        Raises:
            AutofuseError: AF5007, the chip does not have that much.
            TypeError: ``nbytes`` is not an integer.
        """
        if not isinstance(nbytes, SupportsIndex):
            raise TypeError(f"bytes of UB must be an integer, not {type(nbytes).__name__}")
        if not 0 < nbytes <= self.ub_usable:
            raise AutofuseError.of(
                "AF5007",
                f"{counted(nbytes, 'byte')} of UB are out of range for {self.name}",
                hint=f"a kernel may use 1 to {self.ub_usable} bytes",
            )
        taken = self.ub_bytes - self.ub_reserved_select - nbytes
        return replace(self, ub_reserved=taken)

    def with_values(self, values: Mapping[str, float]) -> TargetSpec:
        """Return this chip with other values of some figures; their recorded sources stay unchanged.

        Args:
            values: by the names of :meth:`figures`, such as ``sync_all``, ``model.row``, ``vector.exp.head``.

        Raises:
            KeyError: there is no such row of vector calls.
            TypeError: there is no such figure.
        """
        plain: dict[str, Any] = {}
        model: dict[str, float] = {}
        rows = dict(self.vector)
        for name, value in values.items():
            table, _, rest = name.partition(".")
            if table == "model":
                model[rest] = value
            elif table == "vector":
                kind, _, part = rest.partition(".")
                rows[kind] = replace(rows[kind], **{part: value})
            else:
                plain[name] = value
        if model:
            plain["model"] = replace(self.model, **model)
        return replace(self, vector=MappingProxyType(rows), **plain)

    def with_figures(self, figures: Iterable[Figure]) -> TargetSpec:
        """Return this chip with other figures: their values, status and sources.

        Raises:
            KeyError, TypeError: as :meth:`with_values`.
        """
        new = {f.name: f for f in figures}
        chip = self.with_values({n: f.value for n, f in new.items()})  # type: ignore[misc]
        return replace(chip, _figures=tuple(new.get(f.name, f) for f in self._figures))

    def in_fixed_order(self) -> TargetSpec:
        """Return this chip for invariant kernels: only the sizes of reduced axes can change the bits of a result."""
        return replace(self, invariant=True)

    @property
    def home(self) -> str:
        """Kind of device that runs its kernels."""
        return "npu"

    def figures(self) -> tuple[Figure, ...]:
        """Return every number with unit, status and source, in the order of the files."""
        return (*self.arch.figures, *self._figures)

    def __hash__(self) -> int:
        return hash(self.name)


def target_names() -> tuple[str, ...]:
    """Return the sorted names of the chips that kernels can be generated for."""
    return tuple(sorted(n for n in target_files("autofuse.targets") if not n.startswith("dav-")))


def known_target(name: str) -> TargetSpec:
    """Return the built-in chip called ``name``; no file is opened, so the name may come from an untrusted file.

    Raises:
        AutofuseError: AF5006 if there is none.
        TypeError: the name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"a target must be the name of a chip or a TargetSpec, not {type(name).__name__}"
        )
    return load_chip(name)


@cache
def load_chip(name: str) -> TargetSpec:
    """Return the chip called ``name``.

    Raises:
        AutofuseError: AF5006 if there is none.
    """
    if name not in target_names():
        raise unknown_target(name, target_names())
    return read_chip(name, target_files("autofuse.targets"))


def unknown_target(name: str, names: tuple[str, ...]) -> AutofuseError:
    """Return AF5006 for a name not among ``names``, with the closest one as a hint."""
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    hint += f"known targets: {', '.join(names)}"
    return AutofuseError((Diagnostic("AF5006", f"unknown target {name!r}", Where(), hint),))


def _restored(values: dict[str, Any]) -> TargetSpec:
    return TargetSpec(**{**values, "vector": MappingProxyType(values["vector"])})


#: Optional entries of a file.
_USUAL = {
    "base": "",
    "backend": "ascendc",
    "queues": True,
    "families": None,
    "invariant": False,
}


def read_chip(name: str, files: Mapping[str, str]) -> TargetSpec:
    """Return the chip of the file ``name``; ``files`` has its text and its base's text by name.

    A file without ``base`` includes the figures of its architecture.

    Raises:
        KeyError: a file or a table is missing.
        ValueError: a figure is missing or unknown, or lacks its status or its source.
    """
    chip = parsed(files[name])
    base = parsed(files[chip["base"]]) if "base" in chip else {}
    values: dict[str, Any] = {"name": name, **_USUAL, **base.get("chip", {}), **chip["chip"]}
    values["arch"] = read_architecture(files[chip.get("base", name)])
    rows = {**base.get("vector", {}), **chip.get("vector", {})}
    figures = {f.name: f for doc in (base, chip) for f in _read_figures(doc)}
    values |= {f.name: f.value for f in figures.values() if "." not in f.name}
    model = {**base.get("model", {}), **chip["model"]}
    values["model"] = CostTable.read({name: row["value"] for name, row in model.items()})
    values["vector"] = MappingProxyType(
        {k: VectorCost(r["head"], r["rate16"], r["rate32"]) for k, r in rows.items()}
    )
    values["_figures"] = tuple(figures.values())
    return made(TargetSpec, values, f"target file {name}.toml")


def _read_figures(doc: Mapping[str, Any]) -> Iterator[Figure]:
    yield from read_figures(doc.get("figures", {}))
    yield from read_figures(doc.get("model", {}), "model.", UNITS)
    for key, row in doc.get("vector", {}).items():
        for part, unit in (
            ("head", "cycles"),
            ("rate16", "elements/cycle"),
            ("rate32", "elements/cycle"),
        ):
            yield figure(f"vector.{key}.{part}", row[part], unit, row)
