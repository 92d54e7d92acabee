"""What the generated host code chooses, with limits and again and again, is what ``solver.choose`` says."""

import ctypes
import math
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import draws
import pytest
from choose_graphs import GRAPHS, random_sizes

from autofuse import api
from autofuse.codegen.backends.ascendc.host.abi import tiling_fields
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.report.explanation import explain
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.search import solver
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import Choice, choose
from autofuse.targets import load_target

CHIP = load_target("ascend910b2")
NAMES = (
    *("abs", "add_row", "gelu_row", "mul_column", "sum_rows", "sum_columns", "softmax"),
    "layer_norm",
)
BY_NAME = {name: graph for graphs in GRAPHS.values() for name, graph in graphs.items()}
pytestmark = [
    pytest.mark.twin,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


class ResLimit(ctypes.Structure):
    _fields_ = [
        ("valid_num", ctypes.c_uint32),
        ("aiv_num", ctypes.c_uint32),
        ("aic_num", ctypes.c_uint32),
        ("ub_size", ctypes.c_uint32),
        ("resv", ctypes.c_uint32 * 10),
    ]


@dataclass(frozen=True)
class Host:
    """The tiling function of a graph."""

    built: api.BuildResult
    function: Callable[..., int]
    data: type[ctypes.Structure]
    costs: Costs = field(default_factory=lambda: Costs(CHIP))

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.built.graph.symbols)

    def __call__(
        self, sizes: Mapping[str, int], cores: int = 0, ub: int = 0
    ) -> ctypes.Structure | int:
        """The tiling data, or the error code; 0 grants all there is."""
        data, workspace, block_dim = self.data(), ctypes.c_uint32(), ctypes.c_uint32()
        limit = ResLimit(aiv_num=cores, ub_size=ub)
        given = [ctypes.c_int64(sizes[s]) for s in self.symbols]
        out = [ctypes.byref(x) for x in (data, workspace, block_dim, limit)]
        rc = self.function(*given, *out)
        assert rc or block_dim.value == data.block_dim
        return rc or data

    def expected(self, sizes: Mapping[str, int], cores: int = 0, ub: int = 0) -> Choice | None:
        return choose(self.built.schedule, self.costs, sizes, ub=ub or None, cores=cores or None)

    def chosen(self, choice: Choice) -> list[ImplGraph]:
        """The templates behind a key."""
        key = choice.key
        for result in self.built.schedule:
            count = math.prod(len(g.impls) for g in result.groups)
            if key < count:
                out = []
                for g in reversed(result.groups):
                    out.append(g.impls[key % len(g.impls)])
                    key //= len(g.impls)
                return out
            key -= count
        raise AssertionError("no such key")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Host]:
    return {name: compiled(name, tmp_path_factory.mktemp(name), "-O1") for name in NAMES}


def compiled(name: str, folder: Path, level: str) -> Host:
    """The tiling function of a graph."""
    built = api.build(BY_NAME[name], target=CHIP)
    for path, text in built.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (source,) = (folder / "host").glob("*_tiling.cpp")
    library = folder / "tiling.so"
    command = ["g++", "-std=c++17", level, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{folder}", f"-I{folder / 'include'}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True, timeout=120)
    function = ctypes.CDLL(str(library)).AutofuseTiling
    function.restype = ctypes.c_int64
    members = [
        (f.name, ctypes.c_uint32 if f.ctype == "uint32_t" else ctypes.c_int64)
        for f in tiling_fields(built.graph, built.schedule)
    ]
    data = type("Data", (ctypes.Structure,), {"_fields_": members})
    return Host(built, function, data)


def agree(host: Host, sizes: Mapping[str, int], cores: int = 0, ub: int = 0) -> Choice | None:
    """Asserts that both say the same; what they say."""
    want, found = host.expected(sizes, cores, ub), host(sizes, cores, ub)
    where = (host.built.graph.name, sizes, cores, ub)
    if want is None:
        assert isinstance(found, int), where
        return None
    assert not isinstance(found, int), (where, found)
    assert (found.tiling_key, found.block_dim) == (want.key, want.cores), where
    assert {n: getattr(found, n) for n in want.fields} == want.fields, where
    return want


@pytest.mark.parametrize("name", NAMES)
def test_both_choose_the_same(hosts, name: str) -> None:
    host, random_ = hosts[name], draws.python_rng()
    for _ in range(25):
        assert agree(host, random_sizes(host.symbols, random_)) is not None


#: Sizes for which the least modelled time belongs to another template than the one that the host function takes.
CLOSE = {
    "mul_column": [{"m": 1, "n": 8}, {"m": 6, "n": 32}],
    "sum_rows": [{"m": 304, "n": 2072}],
    "sum_columns": [{"m": 56, "n": 2}, {"m": 1, "n": 595}, {"m": 158, "n": 1}],
}


@pytest.mark.parametrize("name", NAMES)
def test_explain_says_what_the_host_function_takes(hosts, name: str) -> None:
    host, random_ = hosts[name], draws.python_rng()
    schedule = host.built.schedule
    drawn = [random_sizes(host.symbols, random_) for _ in range(10)]
    for sizes in [*CLOSE.get(name, []), *drawn]:
        found, data = explain(name, schedule, CHIP, sizes), host(sizes)
        assert not isinstance(data, int)
        assert found["key"] == data.tiling_key, sizes
        (form,) = (r for r in found["results"] if r["chosen"])
        assert form["total_us"] == found["total_us"]
        taken = [t for g in form["groups"] for t in g["templates"] if t["chosen"]]
        impls = tiling_keys(schedule)[data.tiling_key]
        assert [t["function"] for t in taken] == [i.name for i in impls], sizes
        for t, impl in zip(taken, impls, strict=True):
            assert t["tile"] == getattr(data, impl.tiling.opened.symbol), sizes
            assert t["tiles_per_core"] == getattr(data, impl.tiling.block_size), sizes
            assert t["lost"] == ""
        assert max(t["cores"] for t in taken) <= data.block_dim
        # What is not taken has a reason, also where its modelled time is less.
        for r in found["results"]:
            assert bool(r["lost"]) is not r["chosen"]
            for t in (t for g in r["groups"] for t in g["templates"]):
                assert bool(t["lost"]) is not t["chosen"]


@pytest.mark.parametrize("name", ["add_row", "layer_norm"])
def test_code_that_is_not_optimised_chooses_the_same(tmp_path: Path, name: str) -> None:
    host, random_ = compiled(name, tmp_path, "-O0"), draws.python_rng()
    for _ in range(25):
        assert agree(host, random_sizes(host.symbols, random_)) is not None


def test_short_rows_in_many_lengths(hosts) -> None:
    """The search about the best length goes on from figures of two lengths, whatever was tried in between."""
    for n in (1, 2, 5, 64, 77):
        for m in (512, 1221, 2048, 4096, 9999):
            assert agree(hosts["sum_rows"], {"m": m, "n": n}) is not None


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_honoured(hosts, name: str) -> None:
    """Fewer cores, less UB, both; what cannot be had is refused by both."""
    host, random_ = hosts[name], draws.python_rng()
    refused = 0
    for _ in range(25):
        sizes = random_sizes(host.symbols, random_)
        cores, ub = random_.choice([0, 1, 3, 47, 1000]), int(2.0 ** random_.uniform(5, 18))
        found = agree(host, sizes, cores, ub)
        refused += found is None
        if found is not None:
            assert 1 <= found.cores <= (cores or CHIP.aiv_cores)
            for impl in host.chosen(found):
                tile = found.fields[impl.tiling.opened.symbol]
                used = impl.tiling.ub.evaluate({**sizes, impl.tiling.opened.symbol: tile})
                assert used <= min(ub, impl.tiling.ub_limit)
    # 16 bytes hold no tile of anything.
    assert isinstance(host(random_sizes(host.symbols, random_), 0, 16), int)
    assert refused < 25


def test_templates_that_load_rows_again_have_to_be_better_by_a_quarter(
    hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take the template that keeps rows in UB where the other one is better by less than that."""
    decided = []
    for name in ("softmax", "layer_norm"):
        host = hosts[name]
        for sizes in ({"m": m, "n": n} for m in (1, 2, 48) for n in range(4000, 16384, 1531)):
            here = agree(host, sizes)
            assert here is not None
            with monkeypatch.context() as patch:
                patch.setattr(solver, "LEEWAY", 0.0)
                without = host.expected(sizes)
            assert without is not None
            if without.key != here.key:
                (kept,), (again,) = host.chosen(here), host.chosen(without)
                assert cost_form(again, CHIP).reads_again
                assert not cost_form(kept, CHIP).reads_again
                costs = [solver.solve_template(i, Costs(CHIP), sizes) for i in (again, kept)]
                assert costs[0] is not None
                assert costs[1] is not None
                assert costs[0].cycles < costs[1].cycles <= costs[0].cycles * 1.25
                decided.append((name, sizes))
    assert decided, "no shape where the rule decides"


@pytest.mark.parametrize("name", ["abs", "softmax", "sum_columns"])
def test_calls_that_come_again_get_the_same(hosts, name: str) -> None:
    """Shapes and limits in turns, more than are kept, from several threads: always the choice of that call."""
    host, random_ = hosts[name], draws.python_rng()
    calls = [
        (
            random_sizes(host.symbols, random_),
            random_.choice([0, 0, 5]),
            random_.choice([0, 0, 4096]),
        )
        for _ in range(50)
    ]
    wanted = [host.expected(*call) for call in calls]
    wrong: list[object] = []

    def work(seed: int) -> None:
        order = random.Random(seed)
        for _ in range(600):
            # Few of them most of the time, so that both hits and replacements occur.
            i = order.randrange(len(calls)) if order.random() < 0.3 else order.randrange(6)
            found, want = host(*calls[i]), wanted[i]
            if want is None or isinstance(found, int):
                if want is not None or not isinstance(found, int):
                    wrong.append((calls[i], found))
            elif (found.tiling_key, found.block_dim) != (want.key, want.cores) or any(
                getattr(found, n) != v for n, v in (*want.fields.items(), *calls[i][0].items())
            ):
                wrong.append((calls[i], want))

    threads = [threading.Thread(target=work, args=(random_.randrange(1 << 30),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[:3]
