"""Streams of a few instructions whose times can be worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.machines.twin.timed.clocks import (
    Cause,
    Kind,
    Pipe,
    Step,
    StuckError,
    critical_path,
    play,
)
from autofuse.measure.calibration.written import Body, Loop, Work, evaluate
from autofuse.schedule.cost.cost import Call, Copy
from autofuse.targets import load_chip


def load(cycles, hold=0.0, latency=0.0, lead=0.0, before=0.0) -> Step:
    return Step(
        Kind.ISSUE, Pipe.MTE2, cycles=cycles, hold=hold, latency=latency, lead=lead, before=before
    )


def call(cycles) -> Step:
    return Step(Kind.ISSUE, Pipe.V, cycles=cycles)


def store(cycles, hold=0.0, later=0.0) -> Step:
    return Step(Kind.ISSUE, Pipe.MTE3, cycles=cycles, hold=hold, later=later)


def sets(pipe, flag) -> Step:
    return Step(Kind.SET, pipe, flag)


def waits(pipe, flag, cause=Cause.DATA) -> Step:
    return Step(Kind.WAIT, pipe, flag, cause)


def one(*steps, gap=0.0, sync=0.0):
    (found,) = play([steps], gap=gap, sync=sync)
    return found


def test_pipes_run_side_by_side() -> None:
    p = one(load(100.0), call(30.0), store(50.0))
    assert p.start == [0.0, 0.0, 0.0]
    assert p.end == [100.0, 30.0, 50.0]
    assert p.finish == 100.0
    assert p.busy == {Pipe.SCALAR: 0.0, Pipe.V: 30.0, Pipe.MTE2: 100.0, Pipe.MTE3: 50.0}


def test_instructions_of_one_pipe_follow_each_other() -> None:
    p = one(call(10.0), call(20.0), call(5.0))
    assert p.start == [0.0, 10.0, 30.0]
    assert p.finish == 35.0
    assert p.stall[Pipe.V] == {}


def test_a_flag_makes_a_pipe_wait_for_the_data_and_their_latency() -> None:
    p = one(
        load(100.0, latency=40.0),
        sets(Pipe.MTE2, 1),
        waits(Pipe.V, 1),
        call(30.0),
        sets(Pipe.V, 2),
        waits(Pipe.MTE3, 2),
        store(50.0),
    )
    assert (p.start[3], p.end[3], p.start[6], p.end[6]) == (140.0, 170.0, 170.0, 220.0)
    assert p.stall[Pipe.V] == {Cause.DATA: 140.0}
    assert p.stall[Pipe.MTE3] == {Cause.DATA: 170.0}
    assert critical_path(p) == [0, 3, 6]


def test_a_slot_makes_the_next_load_wait() -> None:
    """One buffer: load, call, load."""
    p = one(
        load(100.0),
        sets(Pipe.MTE2, 1),
        waits(Pipe.V, 1),
        call(30.0),
        sets(Pipe.V, 2),
        waits(Pipe.MTE2, 2, Cause.SLOT),
        load(100.0),
    )
    assert p.start[6] == 130.0
    assert p.stall[Pipe.MTE2] == {Cause.SLOT: 30.0}


def test_a_barrier_of_the_vector_unit_costs_the_gap() -> None:
    barrier = Step(Kind.BARRIER, Pipe.V)
    p = one(barrier, call(10.0), barrier, call(10.0), call(10.0), gap=7.0)
    assert p.start[1] == 0.0  # nothing was there to wait for
    assert p.start[3] == 17.0
    assert p.start[4] == 27.0
    assert p.stall[Pipe.V] == {Cause.BARRIER: 7.0}


def test_a_barrier_of_a_load_waits_for_its_latency() -> None:
    p = one(load(10.0, latency=40.0), Step(Kind.BARRIER, Pipe.MTE2), load(10.0), gap=7.0)
    assert p.start[2] == 50.0


def test_the_scalar_unit_comes_by_everything_in_order() -> None:
    read = Step(Kind.ISSUE, Pipe.SCALAR, cycles=11.0)
    p = one(call(30.0), sets(Pipe.V, 1), waits(Pipe.SCALAR, 1), read, load(10.0, before=45.0))
    assert p.start[3] == 30.0
    assert p.start[4] == 30.0 + 11.0 + 45.0
    assert p.stall[Pipe.MTE2] == {Cause.SCALAR: 86.0}
    assert p.stall[Pipe.SCALAR] == {Cause.DATA: 30.0}
    assert p.busy[Pipe.SCALAR] == 56.0


def test_a_barrier_of_all_pipes() -> None:
    p = one(load(10.0, latency=5.0), call(40.0), Step(Kind.BARRIER_ALL, Pipe.SCALAR), call(1.0))
    assert p.start[3] == 40.0
    p = one(load(50.0, latency=5.0), call(40.0), Step(Kind.BARRIER_ALL, Pipe.SCALAR), store(1.0))
    assert p.start[3] == 55.0
    assert p.stall[Pipe.MTE3] == {Cause.BARRIER: 55.0}


def test_a_load_and_a_store_divide_gm() -> None:
    """Each alone would take all of GM for its 100 cycles; together they take 200."""
    p = one(load(100.0, hold=100.0), store(100.0, hold=100.0))
    assert (p.end[0], p.end[1]) == (200.0, 200.0)
    assert p.stall[Pipe.MTE2] == {Cause.GM: 100.0}
    assert p.gm_busy == 200.0


def test_who_asks_for_less_of_gm_gets_it() -> None:
    """The store asks for a fifth: it gets that, and the load the rest until the store is done."""
    p = one(load(100.0, hold=100.0), store(50.0, hold=10.0))
    assert p.end[1] == pytest.approx(50.0)
    assert p.end[0] == pytest.approx(110.0)


def test_gm_slows_down_what_asks_for_more_than_there_is() -> None:
    p = one(load(100.0, hold=150.0))
    assert p.end == [150.0]
    assert p.stall[Pipe.MTE2] == {Cause.GM: 50.0}


def test_what_l2_writes_on_takes_what_is_left() -> None:
    """A store leaves 30 cycles of GM behind, which the load after it does not see: it asks for a half."""
    flag = (sets(Pipe.MTE3, 1), waits(Pipe.MTE2, 1))
    p = one(store(10.0, hold=10.0, later=30.0), *flag, load(100.0, hold=50.0))
    assert p.end[-1] == 110.0
    assert p.finish == 110.0
    # Alone it is done when GM is.
    assert one(store(10.0, hold=10.0, later=30.0)).finish == 40.0


def test_what_l2_writes_on_holds_stores_up_after_two_of_them() -> None:
    """40 cycles of GM for each store of 10: the pipe is as slow as GM in the long run."""
    n = 50
    p = one(*(store(10.0, hold=10.0, later=30.0) for _ in range(n)))
    assert p.finish == pytest.approx(40.0 * n)
    assert p.stall[Pipe.MTE3][Cause.GM] > 0


def test_all_cores_go_on_together() -> None:
    meet = Step(Kind.SYNC, Pipe.SCALAR)
    end = Step(Kind.BARRIER_ALL, Pipe.SCALAR)
    a = [call(10.0), end, meet, call(5.0)]
    b = [call(70.0), end, meet, call(5.0)]
    x, y = play([a, b], sync=100.0)
    assert x.start[3] == y.start[3] == 170.0
    assert x.finish == y.finish == 175.0
    assert x.stall[Pipe.V] == {Cause.CORES: 160.0}


def test_streams_that_never_end() -> None:
    with pytest.raises(StuckError, match="never set"):
        one(waits(Pipe.V, 3), call(1.0))
    with pytest.raises(StuckError, match="never set"):
        one(waits(Pipe.SCALAR, 3))
    with pytest.raises(StuckError, match="not every core"):
        play([[call(1.0), Step(Kind.SYNC, Pipe.SCALAR)], [call(1.0)]])


def test_nothing_takes_no_time() -> None:
    p = one()
    assert p.finish == 0.0
    assert critical_path(p) == []


cycles = st.floats(1.0, 1000.0)


@given(cycles, cycles, cycles, st.integers(1, 2), st.integers(1, 40))
def test_a_loop_takes_what_the_closed_form_says(mte2, v, mte3, buffers, n) -> None:
    """Without contention: fill, n - 1 times the period, drain, as ``schedule/cost/cost.py`` has it."""
    steps: list[Step] = []
    for i in range(n):
        if i >= buffers:
            steps.append(waits(Pipe.MTE2, 4 * (i - buffers) + 2, Cause.SLOT))
        steps += [load(mte2), sets(Pipe.MTE2, 4 * i + 1), waits(Pipe.V, 4 * i + 1)]
        if i >= buffers:
            steps.append(waits(Pipe.V, 4 * (i - buffers) + 4, Cause.SLOT))
        steps += [call(v), sets(Pipe.V, 4 * i + 2), sets(Pipe.V, 4 * i + 3)]
        steps += [waits(Pipe.MTE3, 4 * i + 3), store(mte3), sets(Pipe.MTE3, 4 * i + 4)]
    found = one(*steps).finish
    period = max(mte2, v, mte3, (mte2 + v) / buffers, (v + mte3) / buffers)
    alone = mte2 + v + mte3
    # With two buffers the iterations of a cycle of two may begin closer together than the period on average.
    assert found <= alone + (n - 1) * period + 1e-6 + period
    assert found >= n * period - 1e-6
    if buffers == 1:
        assert found == pytest.approx(alone + (n - 1) * period)


@given(st.lists(st.tuples(st.sampled_from([Pipe.V, Pipe.MTE2, Pipe.MTE3]), cycles, st.booleans())))
def test_times_add_up(rows) -> None:
    """Of every pipe, busy and waiting cycles are those until its last instruction ends."""
    steps = []
    for flag, (pipe, n, chained) in enumerate(rows, start=1):
        if chained and flag > 1:
            steps.append(waits(pipe, flag - 1))
        gm = 0.5 * n if pipe is not Pipe.V else 0.0
        steps += [Step(Kind.ISSUE, pipe, cycles=n, hold=gm), sets(pipe, flag)]
    p = one(*steps)
    for pipe in (Pipe.V, Pipe.MTE2, Pipe.MTE3):
        last = max((p.end[i] for i, s in enumerate(steps) if s.pipe is pipe), default=0.0)
        assert p.busy[pipe] + sum(p.stall[pipe].values()) == pytest.approx(max(last, 0.0))
    for i, s in enumerate(steps):
        assert (p.end[i] >= p.start[i] >= 0) == (s.kind is Kind.ISSUE)


def test_the_cost_model_is_the_same_one() -> None:
    """A loop that GM does not limit, priced by the same functions, against ``evaluate``."""
    from timed_streams import recording_of

    from autofuse.machines.twin.run.findings import KernelText
    from autofuse.machines.twin.timed.source_map import SourceMap
    from autofuse.machines.twin.timed.timed import timed_report

    target = load_chip("ascend910b2")
    copy = Copy(1, 1, 8192)
    body = Body((copy,), (Call("exp", 2048, 32), Call("div", 2048, 32)), (copy,), 2)
    work = Work(8, (Loop(body, 40),))
    source = SourceMap(KernelText(""), None)
    found = timed_report(recording_of(work), target, source)
    assert found["total_us"] == pytest.approx(evaluate(work, target).total, rel=0.02)
