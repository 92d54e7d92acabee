"""The cost model: closed forms, limits, every figure of the table."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.measure.calibration.written import Body, Loop, Work, evaluate
from autofuse.schedule.cost.cost import (
    Call,
    Conflict,
    Copy,
    Reach,
    Traffic,
    line_factor,
    traffic_us,
)
from autofuse.targets import CostTable, TargetSpec, load_chip

CHIP = load_chip("ascend910b2")
US = 1.0 / CHIP.clock_mhz


def with_model(**figures: float) -> TargetSpec:
    return replace(CHIP, model=replace(CHIP.model, **figures))


#: No cost but that of bytes and elements.
BARE = with_model(
    core_start=0, load_issue=0, store_issue=0, load_latency=0, row=0, vector_gap=0, loop=0
)


def copy(nbytes: int, **more: int) -> Copy:
    return Copy(more.pop("commands", 1), more.pop("rows", 1), nbytes, **more)


def body(load: int, elements: int, store: int, buffers: int = 2, *, chained: bool = False) -> Body:
    calls = (Call("binary", elements, 32),) if elements else ()
    return Body((copy(load),), calls, (copy(store),) if store else (), buffers, chained)


def queue_protocol(
    load: float, vector: float, store: float, latency: float, depth: int, n: int
) -> float:
    """When the last store ends, if each pipe works in order and waits for a free buffer."""
    loads, calls, stores = [0.0], [0.0], [0.0]
    begins = [-load]
    for i in range(1, n + 1):
        free_in = calls[i - depth] if i > depth else 0.0
        free_out = stores[i - depth] if i > depth else 0.0
        begins.append(max(begins[-1] + load, free_in))
        loads.append(begins[-1] + latency + load)
        calls.append(max(calls[-1], loads[i], free_out) + vector)
        stores.append(max(stores[-1], calls[i]) + store)
    return stores[-1]


@given(
    st.integers(32, 1 << 16),
    st.integers(1, 1 << 15),
    st.integers(32, 1 << 16),
    st.sampled_from([1, 2]),
    st.integers(1, 40),
)
def test_a_loop_takes_what_the_queue_protocol_takes(
    load: int, elements: int, store: int, depth: int, n: int
) -> None:
    chip = with_model(loop=0)
    made = body(load, elements, store, depth)
    one = evaluate(Work(1, (Loop(made, 1),)), chip)
    found = evaluate(Work(1, (Loop(made, n),)), chip)
    latency = CHIP.model.load_latency * US
    exact = queue_protocol(one.mte2, one.vector, one.mte3, latency, depth, n)
    period = found.pipeline - evaluate(Work(1, (Loop(made, n + 1),)), chip).pipeline
    # What is left is less than one iteration: where a queue of two is what limits, iterations come in pairs.
    assert exact <= found.pipeline * (1 + 1e-9)
    assert found.pipeline <= exact - period + 1e-9


def test_two_buffers_overlap_and_one_does_not() -> None:
    n = 1000
    double, single = (
        evaluate(Work(1, (Loop(body(8192, 8192, 8192, d), n),)), BARE) for d in (2, 1)
    )
    chained = Loop(body(8192, 8192, 8192, 1, chained=True), n)
    serial = evaluate(Work(1, (chained,)), BARE)
    assert double.pipeline == pytest.approx(max(double.mte2, double.vector, double.mte3), rel=5e-3)
    assert single.pipeline == pytest.approx(single.vector + max(single.mte2, single.mte3), rel=5e-3)
    assert serial.pipeline == pytest.approx(serial.mte2 + serial.vector + serial.mte3, rel=5e-3)


@pytest.mark.parametrize(("share", "at_least"), [(0.95, 5.2e3), (0.99, 27e3)])
def test_bytes_per_command_for_a_share_of_the_peak(share: float, at_least: float) -> None:
    """The closed form h t x / (1 - x), with the head and the rate that its figures were derived from."""
    t = 10.24
    chip = with_model(load_issue=27.0, read_gbs=t * 48 * CHIP.clock_mhz / 1e3)
    c = int(27.0 * t * share / (1 - share)) // 32 * 32
    assert c == pytest.approx(at_least, rel=0.02)
    found = evaluate(Work(48, (Loop(body(c, 0, 0), 100),)), chip)
    assert 100 * c * US / t / found.mte2 == pytest.approx(share, rel=1e-3)


def test_loads_and_stores_share_gm() -> None:
    m = CHIP.model
    small = Traffic(read=10_000_000, written=4_000_000, cached=14_000_000)
    assert traffic_us(small, CHIP) == pytest.approx(10e3 / m.read_gbs + 4e3 / m.write_gbs)
    large = replace(small, cached=2 * CHIP.l2_bytes)
    assert traffic_us(large, CHIP) - traffic_us(small, CHIP) == pytest.approx(2e3 / m.writeback_gbs)
    assert traffic_us(replace(small, read=0, reread=10_000_000), CHIP) < traffic_us(small, CHIP)
    assert traffic_us(Traffic(), CHIP) == 0.0


def test_data_that_bypass_l2_leave_room_for_what_is_written() -> None:
    n = 1 << 28
    cached = Traffic(read=2 * n, written=n, cached=3 * n)
    bypassed = replace(cached, cached=n)
    assert traffic_us(bypassed, CHIP) < 0.85 * traffic_us(cached, CHIP)


def test_a_large_kernel_takes_as_long_as_its_busiest_resource() -> None:
    n, tile = 1 << 20, 1 << 13
    for elements, limit in ((64, "GM"), (1 << 17, "vector")):
        found = evaluate(Work(48, (Loop(body(tile, elements, tile), n),)), CHIP)
        assert found.limit == limit
        # What is hidden counts for a 256th.
        assert found.bound <= found.total <= (1 + 1 / 200) * found.bound


def test_a_small_kernel_is_its_start() -> None:
    few, more = (evaluate(Work(n, (Loop(body(256, 64, 256), 1),)), CHIP) for n in (2, 48))
    assert few.limit == "start"
    assert few.start == pytest.approx(CHIP.kernel_head_us + 2 * CHIP.model.core_start * US)
    assert more.start > few.start


def test_no_work_is_the_start_and_the_barriers() -> None:
    plain, found = (evaluate(Work(1, (), barriers=n), CHIP) for n in (0, 2))
    assert found.sync == pytest.approx(2 * CHIP.sync_all * US)
    assert plain.total == pytest.approx(plain.start)
    assert found.total == pytest.approx(found.start + found.sync)
    assert (found.limit, plain.limit) == ("barriers", "start")
    assert plain.pipeline == plain.exposed == plain.gm == 0.0


def test_rows_count_and_commands_count_more() -> None:
    def cycles(commands: int, rows: int) -> float:
        found = Copy(commands, rows, 128, align=128)
        return evaluate(Work(48, (Loop(Body((found,)), 1),)), CHIP).mte2 / US

    m = CHIP.model
    assert cycles(1, 64) - cycles(1, 1) * 1 > 63 * m.row
    assert cycles(64, 64) - cycles(1, 64) == pytest.approx(63 * (m.load_issue - m.row))


@pytest.mark.parametrize(
    ("row", "align", "line", "factor"),
    [
        (2048, 512, 512, 1.0),
        (2048, 2, 512, 4.996 / 4),
        (1024, 32, 512, 1.469),
        (16384, 32, 512, 1.029),
        (128, 128, 512, 1.0),
        (128, 4, 512, 1.242),
        (2048, 2, 128, 1.0615),
        (0, 1, 512, 1.0),
    ],
)
def test_lines_that_rows_touch(row: int, align: int, line: int, factor: float) -> None:
    assert line_factor(row, align, line) == pytest.approx(factor, abs=1e-3)


def test_short_rows_count_as_more_than_their_bytes() -> None:
    def mte2(row_bytes: int) -> float:
        found = Copy(1, 100, row_bytes, align=32)
        return evaluate(Work(48, (Loop(Body((found,)), 1),)), CHIP).mte2

    assert mte2(4) > mte2(32)
    assert evaluate(Work(48, (Loop(Body((Copy(1, 1, 4),)), 1),)), CHIP).mte2 < mte2(32)


@given(
    st.integers(1, 1 << 16),
    st.integers(0, 1 << 14),
    st.integers(1, 48),
    st.integers(1, 100),
    st.sampled_from(list(Reach)),
    st.data(),
)
def test_more_work_never_takes_less_time(
    nbytes: int, elements: int, cores: int, n: int, reach: Reach, data: st.DataObject
) -> None:
    def total(nbytes: int, elements: int, n: int, written: int) -> float:
        call = (Call("exp", elements, 32),)
        made = Body((copy(nbytes, reach=reach),), call, (copy(written),))
        return evaluate(Work(cores, (Loop(made, n),)), CHIP).total

    at = (nbytes, elements, n, nbytes)
    i = data.draw(st.integers(0, 3))
    more = list(at)
    more[i] += data.draw(st.integers(0, 1 << 12))
    assert total(*more) >= total(*at) * (1 - 1e-12)


def works() -> list[Work]:
    """Work that every figure of the table shows in."""
    call = tuple(Call("binary", 4096, 32, c) for c in Conflict)
    out = [
        Work(48, (Loop(body(8192, 4096, 8192), 10),)),
        Work(1, (Loop(Body((copy(8192),), call, (copy(8192),), scalar_reads=1000), 10),)),
        Work(48, (Loop(Body((Copy(1, 64, 8),), (), (Copy(64, 64, 512),)), 1),)),
        Work(48, (Loop(body(65536, 0, 65536), 200),)),
    ]
    for cores in (1, 48):
        for reach in Reach:
            loads = (copy(65536, reach=reach), copy(65536, reach=reach))
            out += [Work(cores, (Loop(Body(loads, buffers=b), n),)) for b, n in ((1, 1), (2, 100))]
    return out


def of_dims() -> Work:
    """Loads of several dimensions, which not every chip has."""
    return Work(8, (Loop(Body((copy(65536, permuted=True),)), 10),))


@pytest.mark.parametrize("name", [f.name for f in fields(CostTable) if f.name != "tiling_load"])
def test_every_figure_of_the_table_counts(name: str) -> None:
    chip = load_chip("ascend950pr") if name.startswith("dims_") else CHIP
    made = [of_dims()] if name.startswith("dims_") else works()
    value = getattr(chip.model, name)
    other = replace(chip, model=replace(chip.model, **{name: 2 * value + 1}))
    assert [evaluate(w, other) for w in made] != [evaluate(w, chip) for w in made]


def test_a_load_of_several_dimensions_takes_its_head_and_its_bytes() -> None:
    chip = load_chip("ascend950pr")
    m = chip.model
    found = evaluate(of_dims(), chip)
    assert found.mte2 * chip.clock_mhz == pytest.approx(10 * (m.dims_issue + 65536 / m.dims_rate))


def test_costs_are_a_function_of_the_work() -> None:
    assert [evaluate(w, CHIP) for w in works()] == [evaluate(w, CHIP) for w in works()]


def test_calls_on_registers_have_one_head() -> None:
    calls = tuple(Call("unary", 640, 32) for _ in range(5))
    work = Work(1, (Loop(Body((), calls), 1),))
    apart = evaluate(work, CHIP).vector / US
    fused = evaluate(work, with_model(vector_fused=1, vector_issue=2)).vector / US
    head = CHIP.vector["unary"].head + CHIP.model.vector_gap
    assert apart == pytest.approx(5 * (head + 10))
    assert fused == pytest.approx(head + 5 * 10 / 2)


def test_free_calls_and_empty_calls_cost_nothing() -> None:
    calls = (Call("none", 4096, 32), Call("exp", 0, 32))
    assert evaluate(Work(1, (Loop(Body((), calls), 1),)), CHIP).vector == 0.0
