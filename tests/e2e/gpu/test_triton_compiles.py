"""Kernels compile for a card, which needs none: one of each kind, and with CORPUS=all every one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import draws
import pytest
from op_steps import OPS, add_op
from storm_maker import DTYPES, Maker
from triton_graphs import MOVES, REDUCTIONS, SUMS, graph
from triton_tunings import random_tuning

pytestmark = [pytest.mark.triton, pytest.mark.slow]
whole = pytest.mark.skipif(not draws.WHOLE, reason="CORPUS=all compiles all kernels")
#: With every Triton that there is: OTHER_TRITON names the Pythons of environments with other versions.
PYTHONS = [sys.executable, *filter(None, os.environ.get("OTHER_TRITON", "").split(os.pathsep))]
with_each_triton = pytest.mark.parametrize("python", PYTHONS)
#: Kernels of a run that takes one of each kind.
MOST = 60

REPO = Path(__file__).resolve().parents[3]
#: Rows and columns: of one block, of a cluster or several parts, of a loop, and such that only a call knows.
SIZES: tuple[Any, ...] = (
    (5, 37),
    (3, 50_000),
    (20_000, 640),
    ("rows", "cols"),
)


def compiled(folder: Path, python: str, most: int | None = None) -> int:
    """All graphs of a folder compile; how many kernels there were."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    words = [str(folder)] if most is None else [str(folder), str(most)]
    done = subprocess.run(
        [python, str(REPO / "tests" / "support" / "triton_ahead.py"), *words],
        capture_output=True,
        text=True,
        timeout=600,
        env=env | {"TRITON_CACHE_DIR": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    count, word = done.stdout.splitlines()[-1].split()
    assert word == "kernels"
    return int(count)


def write(folder: Path, what: str, made: Any) -> Path:
    path = folder / f"{what.replace(' ', '_')}.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


def in_clusters(dtype: str, shape: tuple[int, int], axis: int) -> dict[str, dict[str, Any]]:
    """Reductions that blocks of a cluster share, beside kept elements, by operands along each of both axes."""
    along, other = (
        [1 if k == axis else n for k, n in enumerate(shape)] for axis in (axis, 1 - axis)
    )
    axes = {"axes": [axis], "keepdims": True}
    forms = {
        "sum": [("Sub", ["x0", "x1"], {}), ("Exp", ["t0"], {}), ("ReduceSum", ["t1"], axes)],
        "largest": [
            ("Mul", ["x0", "x2"], {}),
            ("ReduceMax", ["t0"], axes),
            ("Sub", ["t0", "t1"], {}),
        ],
        "softmax": [
            ("Add", ["x0", "x1"], {}),
            ("Softmax", ["t0"], {"axis": axis}),
            ("Mul", ["t1", "x2"], {}),
        ],
        "moments": [
            ("ReduceMean", ["x0"], axes),
            ("Sub", ["x0", "t0"], {}),
            ("Mul", ["t1", "t1"], {}),
            ("ReduceMean", ["t2"], axes),
            ("Add", ["t3", 1.0], {}),
            ("Div", ["t1", "t4"], {}),
        ],
    }
    inputs = [(dtype, list(s)) for s in (shape, other, along)]
    made = {}
    for what, nodes in forms.items():
        outputs = [f"t{k}" for k in ((1, 2) if what in ("sum", "largest") else (len(nodes) - 1,))]
        used = {x for _, operands, _ in nodes for x in operands}
        given = [i for k, i in enumerate(inputs) if f"x{k}" in used]
        names = {f"x{k}": f"x{n}" for n, k in enumerate(k for k in range(3) if f"x{k}" in used)}
        own = [(op, [names.get(x, x) for x in operands], attrs) for op, operands, attrs in nodes]
        made[f"{what} along {axis} of {dtype}"] = graph(what, given, own, outputs)
    return made


def clusters(dtypes: Sequence[str]) -> dict[str, dict[str, Any]]:
    sizes = (((8192, 1000), 0), ((8190, 1001), 0), ((3, 50_000), 1))
    return {
        f"{what} {shape[1]}": made
        for dtype in dtypes
        for shape, axis in sizes
        for what, made in in_clusters(dtype, shape, axis).items()
    }


@with_each_triton
def test_one_kernel_of_each_kind(python: str, tmp_path: Path) -> None:
    """A form, with or without a cluster, of some element types."""
    for what, made in clusters(["float32", "bfloat16"]).items():
        write(tmp_path, f"a {what}", made)
    for what, work in {**REDUCTIONS, **SUMS, **MOVES}.items():
        write(tmp_path, f"b {what}", work(3, 50_000))
        write(tmp_path, f"c {what}", work("rows", "cols"))
    assert 30 <= compiled(tmp_path, python, MOST) <= MOST


@whole
@with_each_triton
def test_all_clusters(python: str, tmp_path: Path) -> None:
    for what, made in clusters(["float32", "float16", "bfloat16"]).items():
        write(tmp_path, what, made)
    compiled(tmp_path, python)


@whole
@with_each_triton
def test_graphs_of_the_repository(python: str, tmp_path: Path) -> None:
    for path in (REPO / "examples" / "gallery").glob("*.json"):
        shutil.copy(path, tmp_path / f"gallery_{path.name}")
    for path in (REPO / "tests" / "snapshot" / "graphs").glob("*.json"):
        shutil.copy(path, tmp_path)
    compiled(tmp_path, python)


@whole
@with_each_triton
@pytest.mark.parametrize("rows_and_cols", SIZES, ids=str)
def test_each_kind_of_work(rows_and_cols: tuple[Any, Any], python: str, tmp_path: Path) -> None:
    for what, made in {**REDUCTIONS, **SUMS, **MOVES}.items():
        write(tmp_path, what, made(*rows_and_cols))
    compiled(tmp_path, python)


@whole
@with_each_triton
def test_random_blocks(python: str, tmp_path: Path) -> None:
    """Of tuning files: what is taken, the compiler takes too."""
    seed = draws.seed()
    rng = Random(seed)
    sys.stdout.write(f"seed {seed}\n")
    for what, made in {**REDUCTIONS, **SUMS, **MOVES}.items():
        path = write(tmp_path, what, made(33, 300))
        tuning, _ = random_tuning(rng, path)
        path.with_suffix(".tuning").write_text(tuning.text(), encoding="utf-8")
    compiled(tmp_path, python)


def documents(rng: Random, op: str) -> Iterator[dict[str, Any]]:
    """The op by itself, of all dtypes that it has."""
    for dtype in DTYPES:
        m = Maker(rng, symbolic=rng.random() < 0.5)
        shape = m.shape(budget=2000)
        made = add_op(m, op, m.input(dtype, shape), m.input(dtype, shape))
        if made is not None:
            m.outputs = [made]
            yield m.case(op).document


@whole
@with_each_triton
def test_every_op(python: str, tmp_path: Path) -> None:
    rng = Random(7)
    for op in OPS:
        document = rng.choice(list(documents(rng, op)))
        write(tmp_path, op, document)
    compiled(tmp_path, python)
