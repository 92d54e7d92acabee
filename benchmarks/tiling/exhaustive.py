"""The best of all legal tilings of a template by the solver's model: every tile, every number of cores.

A test tool.  It compiles the headers of the generated host code with ``tests/cpp_host/solver_c.cpp``, which evaluates
their formulas for all choices: integers below 2**53.  Needs g++, or the compiler in ``CXX``.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path

from autofuse.schedule.search.cost_form import BodyForm
from autofuse.schedule.search.tile_cost import BoundForm, ChipTable, Tiled

__all__ = ["best_of_all", "in_header", "legal_tiles"]

_REPO = Path(__file__).resolve().parents[2]


def legal_tiles(form: BoundForm) -> list[int]:
    """Every legal length of a tile."""
    found = range(form.granule, form.largest + 1, form.granule)
    return sorted({*found, max(form.largest, 1)})


def best_of_all(form: BoundForm, chip: ChipTable) -> Tiled | None:
    """The choice of the fewest cycles, the first of equals; None where no tile is legal."""
    if form.largest == 0:
        return None
    out = (ctypes.c_double * 4)()
    _library().Exhaust(_array(form, chip), out)
    return Tiled(int(out[0]), int(out[1]), int(out[2]), out[3])


def in_header(
    form: BoundForm, chip: ChipTable, tile: int, per_core: int
) -> tuple[float, float, Tiled]:
    """What the header computes: cycles of a choice, what they are at least, and what the search finds.

    Args:
        form: a template for given sizes, with a legal tile.
        chip: figures.
        tile: length of a tile.
        per_core: tiles of one core.
    """
    out = (ctypes.c_double * 6)()
    _library().Solve(_array(form, chip), ctypes.c_int64(tile), ctypes.c_int64(per_core), out)
    return out[0], out[1], Tiled(int(out[2]), int(out[3]), int(out[4]), out[5])


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The headers with their C interface; undefined behaviour ends the process."""
    source = _REPO / "tests" / "cpp_host" / "solver_c.cpp"
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-shared", "-fPIC"]
    command += ["-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command += ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "solver.so"
        include = f"-I{_REPO / 'host_templates' / 'headers'}"
        subprocess.run([*command, include, source, "-o", library], check=True, timeout=120)
        found = ctypes.CDLL(str(library))
    found.Solve.restype = found.Exhaust.restype = None
    return found


def _array(form: BoundForm, chip: ChipTable) -> ctypes.Array[ctypes.c_double]:
    """What ``solver_c.cpp`` reads."""
    given = [*_chip(chip), *_form(form)]
    return (ctypes.c_double * len(given))(*given)


def _chip(chip: ChipTable) -> Iterator[float]:
    cores, ub, l2, line, _, short_row, *figures = astuple(chip)
    yield from (cores, ub, l2, line, short_row, *figures)


def _form(form: BoundForm) -> Iterator[float]:
    yield from (form.extent, form.longest, form.outer, form.reduce_outer, form.granule)
    yield from (form.looped, form.largest)
    yield from (len(form.bodies), len(form.copies), len(form.calls))
    for b in form.bodies:
        yield from _body(b)
    for c in form.copies:
        yield from (c.body, c.route, c.number, *c.commands, *c.rows, *c.row_bytes)
        yield from (c.apart, c.tiles_apart, c.distinct, c.varies, c.varies_by_tile)
        yield from (c.own_base, c.own_step)
    for v in form.calls:
        yield from (v.body, v.base, v.step, *v.along)


def _body(b: BodyForm) -> Iterator[float]:
    yield from (b.place, b.buffers, b.heads, b.scalar, b.chained, b.staggered)
