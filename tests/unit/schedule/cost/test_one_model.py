"""The generated host code, the search that ranks templates and ``explain`` say the same cycles, to the last bit."""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import draws
import pytest
from choose_graphs import GRAPHS

from autofuse import api
from autofuse.codegen.backends.ascendc.host.abi import tiling_fields
from autofuse.report.explanation import explain
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import solve_template
from autofuse.targets import load_target

REPO = Path(__file__).resolve().parents[4]
FOLDERS = ("examples/gallery", "tests/snapshot/graphs")
TARGETS = ("ascend910b2", "ascend950pr")
#: Sizes of symbols at most.
MOST = 1 << 14
#: Asks the functions of one template, as the host function does.
ASK = """
#include "host/{name}_tiling.cpp"

extern "C" int64_t Ask(const AutofuseTilingData* data, int64_t index, int64_t* choice, double* cycles)
{{
    const auto& plan = {name}_tiling::kPlan;
    autofuse::Tile found;
    const int64_t rc = plan.templates[index].solve(*data, plan.chip, autofuse::kForever, &found);
    choice[0] = found.size;
    choice[1] = found.per_core;
    choice[2] = found.block_dim;
    *cycles = found.cycles;
    return rc;
}}
"""


def documents() -> Iterator[dict[str, Any]]:
    """Graphs with symbols; the tiling of others is folded."""
    for graphs in GRAPHS.values():
        yield from graphs.values()
    for folder in FOLDERS:
        for path in sorted((REPO / folder).glob("*.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.get("symbols"):
                yield found


CASES = [(d, t) for d in documents() for t in TARGETS]


def host_of(built: api.BuildResult, folder: Path) -> tuple[Any, type[ctypes.Structure]]:
    """The function ``Ask`` of a graph, and the tiling data that it takes."""
    for path, text in built.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    source, library = folder / "ask.cpp", folder / "ask.so"
    source.write_text(ASK.format(name=built.graph.name), encoding="utf-8")
    command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-ffp-contract=off", "-w"]
    command += [f"-I{folder}", f"-I{folder / 'include'}", str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    ask = ctypes.CDLL(str(library)).Ask
    ask.restype = ctypes.c_int64
    members = [
        (f.name, ctypes.c_uint32 if f.ctype == "uint32_t" else ctypes.c_int64)
        for f in tiling_fields(built.graph, built.schedule)
    ]
    return ask, type("Data", (ctypes.Structure,), {"_fields_": members})


@pytest.mark.twin
@pytest.mark.sampled(16)
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(
    ("document", "chip"), CASES, ids=[f"{d['name']}-{target}" for d, target in CASES]
)
def test_cycles_are_the_same_everywhere(document, chip: str, tmp_path: Path) -> None:
    """Over all cases more than 300 templates: ``CORPUS=all``."""
    built, target, random_ = api.build(document, target=chip), load_target(chip), draws.python_rng()
    ask, data_type = host_of(built, tmp_path)
    costs, head = Costs(target), target.kernel_head_us
    legal = 0
    for _ in range(4):
        sizes = {
            s.name: round(math.exp(random_.uniform(math.log(max(s.min, 1)), math.log(most))))
            for s in built.graph.symbols
            for most in (max(min(s.max, MOST), s.min, 1),)
        }
        data = data_type(**sizes)
        explained = explain("g", built.schedule, target, sizes)
        groups = [(r, g) for r, result in enumerate(built.schedule) for g in result.groups]
        index = 0
        for r, group in groups:
            (row,) = (x for x in explained["results"][r]["groups"] if x["group"] == group.index)
            for impl, told in zip(group.impls, row["templates"], strict=True):
                choice, cycles = (ctypes.c_int64 * 3)(), ctypes.c_double()
                rc = ask(ctypes.byref(data), ctypes.c_int64(index), choice, ctypes.byref(cycles))
                index += 1
                found = solve_template(impl, costs, sizes)
                assert (found is None) == (rc != 0) == (not told["legal"]), (impl.name, sizes)
                if found is None:
                    continue
                legal += 1
                assert (found.tile, found.per_core, found.cores) == tuple(choice)
                assert found.cycles == cycles.value, (impl.name, sizes)
                barrier = group.sync_before * target.sync_all
                us = head + (found.cycles + barrier) / target.clock_mhz
                assert told["us"]["total"] == pytest.approx(us, rel=1e-12), (impl.name, sizes)
                assert (told["tile"], told["cores"]) == (found.tile, found.cores)
    # At least one template is legal for any sizes of a kernel.
    assert legal >= 4
