"""Tilings of a tuning file: what the host function makes of them, against the rules in Python; what is refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generated_host import Host

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.host.abi import tiling_fields
from autofuse.codegen.backends.ascendc.tuning import Tiling, Tilings, given_tilings
from autofuse.frontends.tuning import read_tuning
from autofuse.results import BuildResult
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import (
    GivenTile,
    GivenTiling,
    given_cycles,
    placed,
    take,
    taken,
)
from autofuse.schedule.search.solver import Choice, choose
from autofuse.targets import ascend_chip, load_target

CHIP = load_target("ascend910b1")
NEEDS_GPP = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def _graph(name: str, shape: list[int | str], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    symbols = {s: {"min": 1, "max": 100_000} for s in shape if isinstance(s, str)}
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        **({"symbols": symbols} if symbols else {}),
        "inputs": [{"name": "x", "dtype": "float16", "shape": shape}],
        "nodes": nodes,
        "outputs": [n["outputs"][0] for n in nodes if n["outputs"][0].startswith("y")],
    }


def _node(op: str, source: str, result: str, **attrs: Any) -> dict[str, Any]:
    return {
        "name": f"n_{result}",
        "op": op,
        "inputs": [source],
        "outputs": [result],
        **({"attrs": attrs} if attrs else {}),
    }


SOFTMAX = _graph("soft", ["rows", 1000], [_node("Softmax", "x", "y", axis=-1)])
FIXED = _graph("fixed", [3000, 1000], [_node("Exp", "x", "y")])
#: Two groups, with a barrier in between, in several forms.
SUMS = _graph(
    "sums",
    ["rows", "cols"],
    [
        _node("ReduceSum", "x", "y0", axes=[0]),
        _node("ReduceMax", "x", "y1", axes=[1]),
    ],
)


def _rows(built: BuildResult, rng: random.Random, count: int) -> Iterator[Tiling]:
    """Tilings drawn at random: legal ones, and others that are not legal everywhere."""
    keys = tiling_keys(built.schedule)
    for _ in range(count):
        groups = tuple(
            GivenTile(
                i.name,
                rng.choice((i.tiling.opened.granule, 1)) * rng.choice((1, 2, 3, 8, 64, 500)),
                rng.choice((1, 7, 40, 48, 4000)),
            )
            for i in rng.choice(keys)
        )
        sizes = {}
        for s in built.graph.symbols:
            low = rng.choice((1, 100, 3000))
            sizes[s.label] = (low, rng.choice((low, 50_000)))
        yield Tiling(sizes, groups)


def _legal(built: BuildResult, count: int, seed: int) -> Tilings:
    """A file of rows that a build takes."""
    rng = random.Random(seed)
    found: list[Tiling] = []
    while len(found) < count:
        for row in _rows(built, rng, 20):
            one = Tilings.of(built.graph, CHIP.name, [row])
            try:
                api.build(built.graph, tuning=one)
            except AutofuseError as e:
                if e.diagnostics[0].code != "AF3007":
                    raise
            else:
                found.append(row)
    return Tilings.of(built.graph, CHIP.name, found[:count])


def _same(data: Any, choice: Choice) -> None:
    assert (data.tiling_key, data.block_dim) == (choice.key, choice.cores)
    assert {name: getattr(data, name) for name in choice.fields} == dict(choice.fields)


@NEEDS_GPP
@pytest.mark.parametrize("graph", [SOFTMAX, FIXED, SUMS], ids=lambda g: str(g["name"]))
def test_the_host_function_takes_the_table_before_it_searches(
    graph: Mapping[str, Any], tmp_path: Path
) -> None:
    plain = api.build(graph)
    tilings = _legal(plain, 5, seed=7)
    built = api.build(graph, tuning=tilings)
    for name, text in built.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    host = Host(tiling_fields(built.graph, built.schedule), tmp_path, workspace=True)
    keys = len(tiling_keys(built.schedule))
    costs, rows = Costs(CHIP), given_tilings(tilings, built.graph)
    rng, counted = random.Random(3), {"row": 0, "search": 0, "refused": 0}
    for _ in range(60):
        sizes = {
            s.name: rng.choice((1, 100, 3000, rng.randint(1, 60_000))) for s in built.graph.symbols
        }
        given = [sizes[s.name] for s in built.graph.symbols]
        cores, ub = rng.choice(((0, 0), (0, 0), (5, 0), (0, 40_000)))
        limits = {"cores": cores or None, "ub": ub or None}
        first = taken(rows, built.schedule, costs, sizes, **limits)
        want = choose(built.schedule, costs, sizes, **limits) if first is None else first[1]
        data = host.tiling(*given, cores=cores, ub=ub)
        counted["search" if first is None else "row"] += 1
        if want is None:
            assert isinstance(data, str)
        else:
            _same(data, want)
        # A key behind those of the templates takes a row, whatever sizes it is for.
        for i, row in enumerate(rows):
            one = take(row, built.schedule, costs, sizes, **limits)
            data = host.tiling(*given, key=keys + i, cores=cores, ub=ub)
            if isinstance(one, str):
                counted["refused"] += 1
                assert isinstance(data, str)
            else:
                _same(data, one)
        assert host.tiling(*given, key=keys + len(rows)) == "no such tiling key"
    assert counted["row"] > 0
    assert counted["refused"] > 0
    assert counted["search"] > 0 or not built.graph.symbols  # else every row is for every call


def test_without_rows_nothing_changes() -> None:
    empty = Tilings.of(api.read(SOFTMAX), CHIP.name, [])
    assert api.build(SOFTMAX, tuning=empty).files == api.build(SOFTMAX).files


def test_the_device_code_is_the_same() -> None:
    plain = api.build(SOFTMAX)
    tuned = api.build(SOFTMAX, tuning=_legal(plain, 2, seed=1))
    changed = {n for n in tuned.files if tuned.files[n] != plain.files.get(n)}
    assert changed == {"host/soft_tiling.cpp", "include/autofuse_tuned.h", "soft.json"}
    assert len(tuned.metadata["tuned"]) == 2


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    tilings = _legal(api.build(SUMS), 3, seed=5)
    path = tmp_path / "t.json"
    path.write_text(tilings.text())
    read = read_tuning(path)
    assert read == tilings
    assert isinstance(read, Tilings)
    assert read.text() == tilings.text()
    assert read.rows[0].place.line > 1


def _choice(built: BuildResult, sizes: Mapping[str, int]) -> tuple[GivenTile, ...]:
    """What the search takes, as a file would say it."""
    found = choose(built.schedule, Costs(CHIP), sizes)
    assert found is not None
    impls = tiling_keys(built.schedule)[found.key]
    return tuple(
        GivenTile(i.name, found.fields[i.tiling.opened.symbol], found.cores) for i in impls
    )


def test_the_model_says_of_the_choice_of_the_search_what_it_said() -> None:
    built = api.build(SOFTMAX)
    sizes = {built.graph.symbols[0].name: 4096}
    costs = Costs(ascend_chip(built.target))
    (one,) = _choice(built, sizes)
    best = given_cycles(GivenTiling({}, (one,)), built.schedule, costs, sizes)
    fewer = replace(one, cores=2)
    slower = given_cycles(GivenTiling({}, (fewer,)), built.schedule, costs, sizes)
    assert not isinstance(best, str)
    assert not isinstance(slower, str)
    assert slower > 5 * best


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"template": "soft_9_none"}, "no form with the templates soft_9_none"),
        ({"tile": 4000}, "bytes of UB, and"),
        ({"sizes": {"rows": (0, 4)}}, "rows must be from 1 to 100000"),
        ({"sizes": {"lines": (4, 4)}}, "unknown symbol 'lines'"),
        ({"digest": "0" * 64}, "for a different version of the graph"),
        ({"target": "ascend910b2"}, "for target 'ascend910b2', not for 'ascend910b1'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    built = api.build(SOFTMAX)
    (one,) = _choice(built, {built.graph.symbols[0].name: 4096})
    tile = {k: v for k, v in change.items() if k in ("template", "tile")}
    row = Tiling(change.get("sizes", {"rows": (60_000, 90_000)}), (replace(one, **tile),))
    tilings = Tilings.of(built.graph, CHIP.name, [row])
    head = {k: v for k, v in change.items() if k in ("digest", "target")}
    with pytest.raises(AutofuseError, match=message) as e:
        api.build(SOFTMAX, tuning=replace(tilings, **head))
    assert e.value.diagnostics[0].code == "AF3007"


def test_a_tile_is_a_multiple_of_what_its_template_needs() -> None:
    built = api.build(_graph("flat", [1 << 22], [_node("Exp", "x", "y")]))
    (one,) = _choice(built, {})
    row = Tiling({}, (replace(one, tile=one.tile - 1),))
    with pytest.raises(
        AutofuseError, match="tiles must be multiples of 128, or the whole axis of"
    ) as e:
        api.build(built.graph, tuning=Tilings.of(built.graph, CHIP.name, [row]))
    assert e.value.diagnostics[0].code == "AF3007"


def test_conditions_that_do_not_hold_are_named() -> None:
    """Of a template's conditions, those and no others; without any the tile is legal, or illegal for its length."""
    built = api.build(SUMS)
    costs = Costs(CHIP)
    rows, cols = (s.name for s in built.graph.symbols)
    refused = accepted = 0
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        for sizes in ({rows: r, cols: c} for r in (1, 40, 5000) for c in (1, 15, 64, 9000)):
            found = placed(impl, costs, sizes, GivenTile(impl.name, 1, 48))
            broken = [c.text() for c in impl.tiling.conditions if not c.holds(sizes)]
            if broken:
                assert found == f"requires that {' and '.join(broken)}"
            else:
                assert not isinstance(found, str) or not found.startswith("requires")
            refused += bool(broken)
            accepted += bool(impl.tiling.conditions) and not broken
    assert refused
    assert accepted


def test_blocks_of_a_card_are_not_for_a_chip(tmp_path: Path) -> None:
    tilings = Tilings.of(api.read(SOFTMAX), CHIP.name, [])
    with pytest.raises(AutofuseError, match="for target 'ascend910b1', not for 'nvidia-h100'"):
        api.build(SOFTMAX, target="nvidia-h100", tuning=tilings)
    with pytest.raises(AutofuseError, match="not for cpu"):
        api.build(SOFTMAX, target="cpu", tuning=tilings)
