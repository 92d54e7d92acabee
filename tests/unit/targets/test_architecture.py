"""Architectures are data: files that nobody has seen make chips, kernels and other plans."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

import pytest

from autofuse._twin import Architecture as TwinArchitecture
from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.verification import verify_schedule
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph, Position
from autofuse.implgraph.ops.cast_routes import cast_route
from autofuse.implgraph.ops.registry import all_ops, call_of, find_call
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.schedule.scheduler import schedule_all
from autofuse.targets import Architecture, TargetSpec, load_chip, load_target, read_chip
from tests.unit.schedule.conftest import hint_of, make_graph

ROOT = Path(__file__).parents[3]
SOURCE = resources.files("autofuse.targets")


def texts(base: str, chip: str, change: Callable[[str], str] = str) -> Mapping[str, str]:
    """Files of a made-up architecture and its chip: those of ``base`` and ``chip``, the first one changed."""
    own = change((SOURCE / f"{base}.toml").read_text(encoding="utf-8"))
    own = own.replace('name = "' + base.removeprefix("dav-"), 'name = "9999', 1)
    mine = (SOURCE / f"{chip}.toml").read_text(encoding="utf-8").replace(base, "dav-9999")
    return {"dav-9999": own, "mine": mine}


def with_figure(name: str, value: object) -> Callable[[str], str]:
    def change(text: str) -> str:
        found, count = re.subn(rf"(?m)^({name} = \{{ value = )[^,]+", rf"\g<1>{value}", text)
        assert count == 1
        return found

    return change


def made_up(change: Callable[[str], str] = str) -> TargetSpec:
    return read_chip("mine", texts("dav-2201", "ascend910b1", change))


def chain() -> FusionGraph:
    """max(x + z, x) of any length, by a comparison."""
    inputs = {x: ("float32", ["n"]) for x in "xz"}
    nodes = [("t", "Add", ["x", "z"]), ("m", "Greater", ["t", "x"])]
    nodes += [("y", "Select", ["m", "t", "x"])]
    return make_graph(inputs, nodes, ["y"], n=(1, 1 << 20, 4000))


def plan(target: TargetSpec, graph: FusionGraph) -> tuple[tuple[object, ...], ...]:
    built = build(graph, target=target)
    assert verify_schedule(built.graph, built.schedule, target) == []
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return tuple((i.name, i.tiling.opened.granule, i.tiling.ub, i.buffers) for i in impls)


# files ----------------------------------------------------------------------------------------
def test_a_chip_of_a_known_architecture_is_one_file() -> None:
    files = {
        "dav-2201": (SOURCE / "dav-2201.toml").read_text(encoding="utf-8"),
        "mine": (SOURCE / "ascend910b4.toml").read_text(encoding="utf-8").replace("40", "13"),
    }
    mine = read_chip("mine", files)
    assert mine.arch is load_target("ascend910b1").arch
    built = build(chain(), target=mine)
    assert (built.target.name, mine.aiv_cores) == ("mine", 13)
    assert '"npuArch": "dav-2201"' in built.files["g.json"]


def test_an_architecture_is_one_file_more(tmp_path: Path) -> None:
    for name, text in texts("dav-2201", "ascend910b1").items():
        text = text.replace('"dav-2201"', '"dav-9999"').replace("ascend910b", "made-up")
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    files = {f.stem: f.read_text(encoding="utf-8") for f in tmp_path.glob("*.toml")}
    mine, like = read_chip("mine", files), load_target("ascend910b1")
    assert (mine.arch.name, mine.npu_arch) == ("9999", "dav-9999")
    built = build(chain(), target=mine)
    assert '"dav-9999"' in built.files["CMakePresets.json"]
    assert '"made-up"' in built.files["CMakePresets.json"]
    assert plan(mine, chain()) == plan(like, chain())


def test_no_code_names_an_architecture() -> None:
    names = {load_chip(n).arch.name for n in ("ascend910b1", "ascend310p", "ascend950pr")}
    assert names == {"2201", "2002", "3510"}
    for folder in ("autofuse", "codegen", "implgraph", "schedule"):
        for path in (ROOT / folder).rglob("*.py"):
            found = re.findall(r"""["']([0-9]{4})["']""", path.read_text(encoding="utf-8"))
            assert names.isdisjoint(found), path


@pytest.mark.parametrize(
    ("change", "odd"),
    [
        (lambda t: t.replace("event_ids", "event_idle"), "event_idle"),
        (lambda t: re.sub(r"(?m)^block_bytes = .*\n", "", t), "block_bytes"),
        (lambda t: t.replace("zero_is_nothing = true\n", ""), "zero_is_nothing"),
        (lambda t: t.replace("asc-devkit docs, DataBlock", ""), "source"),
    ],
)
def test_what_is_missing_or_unknown_in_a_file_is_named(
    change: Callable[[str], str], odd: str
) -> None:
    with pytest.raises(ValueError, match=odd):
        made_up(change)


def test_architectures_are_shared_and_travel() -> None:
    one, other = load_target("ascend910b1"), load_target("ascend910c")
    assert one.arch is other.arch
    assert pickle.loads(pickle.dumps(one)) == one
    assert isinstance(one.arch, Architecture)


# figures that change the plan -------------------------------------------------------------------
def impls(target: TargetSpec) -> list[ImplGraph]:
    results = schedule_all([hint_of(chain())], target)
    return [i for r in results for g in r.groups for i in g.impls]


def test_blocks_change_the_plan() -> None:
    """With blocks of 64 bytes every buffer is whole ones; the device functions are not written for that."""
    usual, wide = impls(made_up()), impls(made_up(with_figure("block_bytes", 64)))
    env = {"n": 1001, usual[0].tiling.opened.symbol: 9}
    for block, found in ((32, usual), (64, wide)):
        lengths = [b.nbytes.evaluate(env) for i in found for b in i.buffers]
        assert all(n % block == 0 for n in lengths)
    assert [i.tiling.ub for i in usual] != [i.tiling.ub for i in wide]
    with pytest.raises(AutofuseError, match="block_bytes of architecture 9999 is 64"):
        build(chain(), target=made_up(with_figure("block_bytes", 64)))


@pytest.mark.parametrize(
    ("groups", "banks"), [(16, {0, 256, None}), (32, {0, 512, None}), (8, {None})]
)
def test_groups_of_banks_change_where_buffers_start(groups: int, banks: set[int | None]) -> None:
    target = made_up(with_figure("ub_bank_groups", groups))
    built = build(chain(), target=target)
    assert verify_schedule(built.graph, built.schedule, target) == []
    (general, *_) = (i for r in built.schedule for g in r.groups for i in g.impls)
    assert {b.bank for b in general.buffers} | {None} == banks


def test_limits_of_queues_change_the_plan() -> None:
    inputs = {f"x{i}": ("float32", [4096]) for i in range(4)}
    nodes = [("a", "Add", ["x0", "x1"]), ("b", "Add", ["x2", "x3"]), ("y", "Add", ["a", "b"])]
    graph = make_graph(inputs, nodes, ["y"])

    def most(target: TargetSpec) -> int:
        built = build(graph, target=target)
        assert verify_schedule(built.graph, built.schedule, target) == []
        plans = [i.buffers for r in built.schedule for g in r.groups for i in g.impls]
        return max(
            sum(b.buf_num for b in plan if b.position is Position.VECIN and b.kind == "queue")
            for plan in plans
        )

    assert most(made_up()) == 8
    assert most(made_up(with_figure("queue_buffers_per_position", 4))) == 4


def test_a_plan_beyond_the_limits_of_another_architecture_is_found() -> None:
    built = build(chain(), target=made_up())
    for name in ("queue_buffers_per_position", "buffers_total", "event_ids"):
        found = verify_schedule(built.graph, built.schedule, made_up(with_figure(name, 1)))
        assert found, name


def test_cache_lines_keep_workspaces_apart() -> None:
    inputs, nodes = {"x": ("float32", [1 << 22])}, [("y", "ReduceSum", ["x"], {"axes": (0,)})]
    graph = make_graph(inputs, nodes, ["y"])
    hint = build(graph, target=load_target("ascend910b1")).schedule[0].hint
    count = len(list(hint.ops("Workspace")))
    assert count
    for line in (128, 512, 1 << 20):
        chip = made_up(with_figure("cache_line_bytes", line))
        nbytes = workspace_bytes(hint, chip).evaluate({})
        assert nbytes % line == 0
        assert nbytes >= count * line


# calls ----------------------------------------------------------------------------------------
def test_every_call_and_cast_that_a_file_names_is_one_of_the_registry() -> None:
    rows = {r.name: r.call for r in all_ops()}
    for name in ("ascend910b1", "ascend310p", "ascend950pr"):
        for op, dtypes in load_target(name).arch.calls:
            call = rows[op]
            assert call is not None
            assert dtypes < {*call.dtypes, *call.as_type}, op


def test_the_file_says_which_calls_there_are() -> None:
    a2, p310 = (load_target(n).arch for n in ("ascend910b1", "ascend310p"))
    assert find_call("Low", p310) is None
    assert call_of("Low", a2).api == "LowWords"
    assert call_of("Compare", a2).dtypes - call_of("Compare", p310).dtypes == {"int32"}
    a5 = load_target("ascend950pr").arch
    assert call_of("Sqrt", a2).dtypes - call_of("Sqrt", a5).dtypes == {"float16"}
    assert call_of("Exp", a5) == call_of("Exp", a2)
    with pytest.raises(KeyError, match="2002 has no call for Join"):
        call_of("Join", p310)
    assert find_call("Sar", p310) is None
    assert call_of("Sar", a2).api == "ShiftRight"
    assert p310.lacks >= {"Copy", "ShiftLeft", "ShiftRight", "DataCopyPad"}
    assert not a2.lacks


def test_a_call_that_is_taken_away_is_not_made() -> None:
    row = '[calls]\nExp = { dtypes = [%s], status = "assumed", source = "a test" }\n\n[casts]'
    graph = make_graph({"x": ("float16", [1000])}, [("y", "Exp", ["x"])], ["y"])

    def calls(dtypes: str | None) -> list[str]:
        change = str if dtypes is None else lambda t: t.replace("[casts]", row % dtypes)
        (kernel,) = build(graph, target=made_up(change)).schedule
        return [n.op for n in kernel.groups[0].impls[0].nodes if n.api and n.api.unit == "Vector"]

    assert calls(None) == calls('"float16"') == ["Exp"]
    assert calls('"float32"') == ["Cast", "Exp", "Cast"]
    with pytest.raises(AutofuseError, match="Exp on float16"):
        calls("")


def test_the_twin_alone_has_the_round_modes_of_atlas_a2() -> None:
    arch = load_target("ascend910b1").arch
    for source, to in sorted({(x, y) for x, y, _ in arch.modes}):
        own = {m for x, y, m in arch.modes if (x, y) == (source, to)}
        assert set(TwinArchitecture.default_modes(source, to)) == own, (source, to)


def test_a_cast_that_is_taken_away_has_another_route() -> None:
    fewer = made_up(lambda t: t.replace(', float32 = "NONE" }, status', " }, status", 1))
    assert cast_route(made_up().arch, "int16", "float32") == ("float32",)
    # float16 does not hold every int16.
    assert cast_route(fewer.arch, "int16", "float32") is None
    assert cast_route(fewer.arch, "int8", "float32") == ("float16", "float32")


# headers --------------------------------------------------------------------------------------
def test_headers_have_the_figures_of_the_files() -> None:
    device = (ROOT / "device_templates/autofuse_device.h").read_text(encoding="utf-8")
    host = (ROOT / "host_templates/headers/autofuse_tile_model.h").read_text(encoding="utf-8")
    for name in ("ascend910b1", "ascend310p"):
        arch = load_target(name).arch
        assert f"kBlockBytes = {arch.block_bytes};" in device
        assert f"kBlock = {arch.block_bytes};" in host
