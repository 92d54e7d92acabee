"""Shape storms on the twin: reductions, norms and data movement of any rank, size, dtype and axis.

``benchmarks/fuzzing/storm.py`` runs the same for as long as one likes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import storm_strategies as storms
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from storm_cases import Case, prove_case, run_case
from storm_maker import DTYPES
from whole_blocks import refusals_of

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.targets import load_target

pytestmark = [pytest.mark.sampled(2), pytest.mark.twin]

EXAMPLES = 4
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("autofuse.machines.twin.verify.verify:verify_job", workers=1) as made:
        yield made


def check(case: Any, pool: WorkerPool, *, refused: bool = False) -> None:
    verdict = run_case(case, pool)
    text = json.dumps(case.to_json())
    assert verdict.ok, f"{verdict.status} {verdict.reason}\n{verdict.text}\n{text}"
    assert refused or verdict.status == "passed", f"{verdict.reason}\n{verdict.text}"


@pytest.mark.parametrize("family", storms.FAMILIES)
def test_storm(pool: WorkerPool, family: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,  # the same graphs in every run; the benchmark looks for new ones
        deadline=None,
        database=None,
        suppress_health_check=RELAXED,
        phases=[Phase.generate],
    )
    @given(st.builds(storms.Random, st.integers(0, 1 << 62)))
    def run(rng: Any) -> None:
        check(storms.random_case(rng, family), pool, refused=True)

    run()


@pytest.mark.parametrize("family", storms.FAMILIES)
def test_storm_on_ascend_950(pool: WorkerPool, family: str) -> None:
    case = storms.random_case(storms.Random(f"950 {family}"), family)
    verdict = run_case(case, pool, target="ascend950pr")
    assert verdict.ok, f"{verdict.status} {verdict.reason}\n{verdict.text}"


@pytest.mark.parametrize("family", storms.FAMILIES)
def test_storm_on_a_chip_that_moves_whole_blocks(pool: WorkerPool, family: str) -> None:
    case = storms.random_case(storms.Random(f"310p {family}"), family, "ascend310p")
    verdict = run_case(case, pool, target="ascend310p")
    assert verdict.ok, f"{verdict.reason}\n{verdict.text}"


# documents ------------------------------------------------------------------------------------


def case(
    inputs: Sequence[tuple[str, Sequence[int | str]]],
    nodes: Sequence[tuple[str, Sequence[Any], dict[str, Any]]],
    bindings: Sequence[dict[str, int]] = ({},),
    *,
    most: int = 1000,
    hint: int | None = 64,
    ub_bytes: int | None = None,
    **least: int,
) -> Any:
    """Inputs are x0, x1, ..., results t0, t1, ...; the last result is the output.  ``least`` is for the symbols."""
    document = {
        "schema": "autofuse.graph/1",
        "name": "storm",
        "symbols": {
            n: {"min": low, "max": most, **({} if hint is None else {"hint": hint})}
            for n, low in least.items()
        },
        "inputs": [
            {"name": f"x{i}", "dtype": d, "shape": list(s)} for i, (d, s) in enumerate(inputs)
        ],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                "outputs": [f"t{i}"],
                "attrs": attrs,
            }
            for i, (op, xs, attrs) in enumerate(nodes)
        ],
        "outputs": [f"t{len(nodes) - 1}"],
    }
    return Case("storm", document, ub_bytes, tuple(bindings))


# every inner size from 1 to 40 ----------------------------------------------------------------

INNER = [{"n": n} for n in range(1, 41)]
#: The reduction of each type: sums, and order where the chip has it in another type.
REDUCES = {
    **dict.fromkeys(DTYPES, "ReduceSum"),
    **dict.fromkeys(("int8", "uint8", "uint32", "uint64"), "ReduceMax"),
    "bool": "ReduceAny",
}
BINARY = {"bool": "LogicalOr", "uint16": "Maximum", "uint32": "Maximum"}


def inner(family: str, dtype: str) -> Any:
    """A kernel with the inner size n; columns: n is the outer size."""
    if family == "broadcast":
        op = BINARY.get(dtype, "Add")
        return case([(dtype, [7, "n"]), (dtype, ["n"])], [(op, ["x0", "x1"], {})], INNER, n=1)
    if family == "rows":
        return case([(dtype, [5, "n"])], [(REDUCES[dtype], ["x0"], {"axes": [1]})], INNER, n=1)
    if family == "columns":
        return case([(dtype, ["n", 5])], [(REDUCES[dtype], ["x0"], {"axes": [0]})], INNER, n=1)
    if family == "concat":
        x = (dtype, [3, "n"])
        return case([x, x], [("Concat", ["x0", "x1"], {"axis": 1})], INNER, n=1)
    attrs = {"starts": [1, 2], "shape": [3, "n"], "steps": [1, 1]}
    return case([(dtype, [5, "n+3"])], [("Slice", ["x0"], attrs)], INNER, n=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["broadcast", "rows", "columns", "concat", "slice"])
def test_every_inner_size(pool: WorkerPool, family: str, dtype: str) -> None:
    check(inner(family, dtype), pool)


# what storms have found -----------------------------------------------------------------------

F = "float32"
FOUND = {
    # 4095 rows of a DMA command, divided by s0 - 3: AF9001, a division by zero.
    "a size that may be 0": case(
        [("int8", ["s", "r", 63])],
        [
            ("Mul", ["x0", 3], {}),
            ("Slice", ["t0"], {"starts": [0, 3, 3], "shape": ["s", "r-3", 57], "steps": [1, 1, 1]}),
        ],
        [{"s": 2, "r": 111}, {"s": 5, "r": 3}],
        s=0,
        r=3,
    ),
    # AF4001: the bytes of a buffer, (2*s - 6)*t, were not seen to grow with t.
    "a buffer of a difference": case(
        [("float16", ["s", "r"])],
        [
            ("Slice", ["x0"], {"starts": [1, 3], "shape": ["s-1", "r-3"], "steps": [1, 1]}),
            ("Add", ["t0", 0.5], {}),
        ],
        [{"s": 17, "r": 173}, {"s": 1, "r": 64}],
        s=1,
        r=3,
    ),
    # AF4001: the frame spans the rows of both pieces.
    "a frame around a concatenation": case(
        [(F, [61, 1, 37]), (F, [61, 1, 37])],
        [
            ("Concat", ["x0", "x1"], {"axis": 1}),
            ("Pad", ["t0"], {"low": [5, 1, 0], "high": [0, 1, 9], "value": 7.0}),
        ],
    ),
    "a frame around a frame": case(
        [("float16", [2, "s", 2])],
        [
            ("Pad", ["x0"], {"low": [0, 5, 1], "high": [5, 0, 0], "value": 0.0}),
            ("Pad", ["t0"], {"low": [1, 0, 9], "high": [2, 2, 9], "value": 1.0}),
        ],
        [{"s": 31}, {"s": 0}],
        s=0,
    ),
    # AF4001: pieces in another order than the axes of the tensor.
    "pieces that were transposed": case(
        [("int16", [3, 128])],
        [
            ("Transpose", ["x0"], {"perm": [1, 0]}),
            ("Reshape", ["t0"], {"shape": [128, 3, 1]}),
            ("Concat", ["t1", "t1"], {"axis": 2}),
            ("Maximum", ["t2", 3], {}),
        ],
    ),
    # AF2002: what uses a reduction of equal numbers ran before the loop that joins it.
    "the place of the largest of equal numbers": case(
        [("float16", [16, 25])],
        [
            ("Pad", ["x0"], {"low": [1, 0], "high": [5, 0], "value": 0.0}),
            ("ArgMax", ["t0"], {"axis": 1, "dtype": "int32"}),
        ],
    ),
    "equal numbers less their sum": case(
        [(F, [16, 1])],
        [
            ("Broadcast", [2.0], {"shape": [16, 300]}),
            ("ReduceSum", ["t0"], {"axes": [1], "keepdims": True}),
            ("Sub", ["t0", "t1"], {}),
            ("Add", ["t2", "x0"], {}),
        ],
    ),
    # AF4001: two pieces of a workspace were taken for two writers of the same elements.
    "a concatenation that is reduced and used again": case(
        [("bfloat16", ["s", 74]), ("bfloat16", ["s", 74])],
        [
            ("Concat", ["x0", "x1"], {"axis": 1}),
            ("ReduceMin", ["t0"], {"axes": [0], "keepdims": True}),
            ("Add", ["t0", "t1"], {}),
        ],
        [{"s": 5}, {"s": 1}, {"s": 0}],
        s=0,
    ),
    # AF4001: with 15 sums of each row, 16 were reserved for those of the other operand, and added up.
    "sums of columns beside a few of each row": case(
        [("bfloat16", [2, 15, "s"]), ("bfloat16", [2, 15, 1])],
        [
            ("CumSum", ["x0"], {"axis": 1, "exclusive": False, "reverse": False}),
            ("Add", ["t0", "x1"], {}),
        ],
        [{"s": 53}, {"s": 33}, {"s": 1}],
        s=0,
    ),
    # AF4001: the value for which pieces were put in order left an empty one, since 16 parts divide it.
    "running sums in sixteen parts": case(
        [("int16", [3, "s"]), ("int16", ["s"])],
        [
            ("CumSum", ["x0"], {"axis": 1, "exclusive": False, "reverse": True}),
            ("Add", ["t0", "x1"], {}),
        ],
        [{"s": 48}, {"s": 11}, {"s": 7}],
        most=1 << 22,
        hint=None,
        s=0,
    ),
    # AF3004: all lower words of a long product came before the upper ones, which need each of them.
    "a product of many int64": case(
        [("int64", [9, "s", 20]), ("int64", [9, "s", 16]), ("int64", [1, "s", 36])],
        [
            ("Add", ["x1", 3], {}),
            ("Concat", ["x0", "t0"], {"axis": 2}),
            ("Add", ["t1", "x2"], {}),
            ("ReduceProd", ["t2"], {"axes": [2], "keepdims": False}),
        ],
        [{"s": 16}, {"s": 65}],
        s=0,
    ),
    # AF4001: of four tensors that are cut alike, the third one was stored twice and the fourth one four times.
    "digits of a sum of columns": case(
        [("int64", ["r", 5, "s", 8]), ("int64", ["r", 5, "s", 8])],
        [
            ("Concat", ["x0", "x1"], {"axis": 3}),
            ("Maximum", ["t0", 3], {}),
            ("ReduceSum", ["t1"], {"axes": [0, 1, 3], "keepdims": False}),
        ],
        [{"s": 61, "r": 2}, {"s": 33, "r": 33}],
        s=0,
        r=0,
    ),
    # AF4001: four results took over the buffers of loads, two each, beside what is loaded before the loop: nine events.
    "pieces of int64 beside a row": case(
        [*[("int64", [4, 64, 2])] * 4, ("int64", [64, 1])],
        [
            *[("Mul", [f"x{k}", 3], {}) for k in (1, 2, 3)],
            ("Concat", ["x0", "t0", "t1", "t2"], {"axis": 2}),
            ("Add", ["t3", 3], {}),
            ("Add", ["t4", "x4"], {}),
        ],
        ub_bytes=60000,
    ),
    # AF3003: each of twelve loads had a queue of its own as far as the chip has one, also where UB was short.
    "a product of twelve int64 in little UB": case(
        [("int64", [12, 129, 7])],
        [
            *[
                ("Slice", ["x0"], {"starts": [0, 0, c], "shape": [12, 129, 1], "steps": [1] * 3})
                for c in (0, 3, 1)
            ],
            ("Maximum", ["t1", 3], {}),
            ("Concat", ["t0", "t3", "t2"], {"axis": 2}),
            ("ReduceProd", ["t4"], {"axes": [0], "keepdims": True}),
        ],
        ub_bytes=60000,
    ),
    # AF4001: behind the reduction along long rows, rows of three halves without padding were reduced, six bytes each.
    "long rows and an axis outside of short ones": case(
        [("bool", [2, "s", 64, 3])],
        [
            ("Transpose", ["x0"], {"perm": [1, 0, 2, 3]}),
            ("ReduceAny", ["t0"], {"axes": [1, 2], "keepdims": False}),
        ],
        [{"s": 6}, {"s": 13}, {"s": 0}],
        s=0,
    ),
    # AF5003: no template took a tensor without elements, of which an index without elements picks none.
    "elements of nothing": case(
        [("bool", ["r", "s"]), ("int32", ["r", "s"])],
        [("GatherElements", ["x0", "x1"], {"axis": 1}), ("LogicalNot", ["t0"], {})],
        [{"r": 0, "s": 1}, {"r": 3, "s": 0}, {"r": 7, "s": 33}],
        s=0,
        r=0,
    ),
    # AF5002: two calls of a loop over tiles that are counted along sizes of their own were one variable of the host.
    "running sums of two lengths": case(
        [("float16", [1, 2, "r", "s", "32*n"])],
        [
            ("CumSum", ["x0"], {"axis": 4, "exclusive": False, "reverse": False}),
            ("Transpose", ["t0"], {"perm": [1, 3, 2, 4, 0]}),
        ],
        [{"r": 5, "s": 3, "n": 1}, {"r": 0, "s": 1, "n": 2}],
        r=0,
        s=0,
        n=0,
        most=31,
        hint=7,
    ),
    "rows of nothing": case(
        [(F, ["r", 5]), ("int64", ["r"])],
        [("Gather", ["x0", "x1"], {"axis": 0}), ("Exp", ["t0"], {})],
        [{"r": 0}, {"r": 17}],
        r=0,
    ),
    "long rows and an axis outside of short ones, beside what they leave": case(
        [(F, [2, 17, 64, 3])],
        [
            ("Transpose", ["x0"], {"perm": [1, 0, 2, 3]}),
            ("ReduceSum", ["t0"], {"axes": [1, 2], "keepdims": True}),
            ("Sub", ["t0", "t1"], {}),
        ],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_storms_have_found(pool: WorkerPool, name: str) -> None:
    check(FOUND[name], pool)


# what a chip may refuse ------------------------------------------------------------------------

ROWS, DTYPES, LONG = "AF3002", "AF3001", "AF3003"
REFUSED: dict[str, tuple[Any, set[str]]] = {
    "rows of blocks": (case([(F, ["n", 16])], [("Neg", ["x0"], {})], n=0), set()),
    "rows of any length": (case([(F, [3, "n"])], [("Neg", ["x0"], {})], n=0), {ROWS}),
    "rows of eight n": (case([(F, [3, "8*n"])], [("Neg", ["x0"], {})], n=0), set()),
    "rows of half a block": (case([("float16", [3, "8*n"])], [("Neg", ["x0"], {})], n=0), {ROWS}),
    "one element": (case([(F, [8]), ("int8", [1, 1])], [("Neg", ["x0"], {})]), set()),
    "one result": (case([(F, [64])], [("ReduceSum", ["x0"], {"axes": [0]})]), {ROWS}),
    "sums of rows": (
        case([(F, [64, 32])], [("ReduceSum", ["x0"], {"axes": [1], "keepdims": True})]),
        set(),
    ),
    "sums of 60 rows": (case([(F, [60, 32])], [("ReduceSum", ["x0"], {"axes": [1]})]), {ROWS}),
    "sums of long rows": (
        case([(F, [64, 8192])], [("ReduceSum", ["x0"], {"axes": [1]})]),
        {ROWS, LONG},
    ),
    "long columns": (case([(F, [8192, 64])], [("ReduceSum", ["x0"], {"axes": [0]})]), set()),
    "backwards": (
        case([(F, [64])], [("Slice", ["x0"], {"starts": [63], "shape": [64], "steps": [-1]})]),
        set(),
    ),
    "every other one": (
        case([(F, [64])], [("Slice", ["x0"], {"starts": [0], "shape": [32], "steps": [2]})]),
        {ROWS},
    ),
    "pieces": (
        case([(F, [8, 4]), (F, [8, 12])], [("Concat", ["x0", "x1"], {"axis": 1})]),
        {ROWS},
    ),
    "bfloat16": (case([("bfloat16", [64])], [("Neg", ["x0"], {})]), {DTYPES}),
    "int64": (case([("int64", [64])], [("Neg", ["x0"], {})]), {DTYPES}),
    "uint32": (case([("uint32", [64])], [("Add", ["x0", "x0"], {})]), set()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_that_are_right_on_a_chip_that_moves_whole_blocks(name: str) -> None:
    made, codes = REFUSED[name]
    graph = api.read(made.document)
    assert set(refusals_of(graph, load_target("ascend310p"))) == codes
    assert not refusals_of(graph, load_target("ascend910b1"))
    verdict = prove_case(made, "ascend310p")
    assert verdict.status == ("refused" if codes else "passed"), verdict.text
