"""Kernels compile for a card, which needs none: those of the gallery, of every op, and of each kind of work."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import storm_strategies as storms
from op_steps import OPS, add_op
from triton_graphs import MOVES, REDUCTIONS, SUMS
from triton_tunings import random_tuning

pytestmark = [
    pytest.mark.sampled(2),
    pytest.mark.triton,
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
        reason="PyTorch or Triton is not installed",
    ),
]

REPO = Path(__file__).resolve().parents[3]
#: Rows and columns: of one block, of a cluster or several parts, of a loop, and such that only a call knows.
SIZES: tuple[Any, ...] = (
    (5, 37),
    (3, 50_000),
    (20_000, 640),
    ("rows", "cols"),
)


def compiled(folder: Path) -> None:
    """All graphs of a folder compile."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(REPO / "tests" / "support" / "triton_ahead.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        env=env | {"TRITON_CACHE_DIR": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_graphs_of_the_repository(tmp_path: Path) -> None:
    for path in (REPO / "examples" / "gallery").glob("*.json"):
        shutil.copy(path, tmp_path / f"gallery_{path.name}")
    for path in (REPO / "tests" / "snapshot" / "graphs").glob("*.json"):
        shutil.copy(path, tmp_path)
    compiled(tmp_path)


@pytest.mark.parametrize("rows_and_cols", SIZES, ids=str)
def test_each_kind_of_work(rows_and_cols: tuple[Any, Any], tmp_path: Path) -> None:
    for what, made in {**REDUCTIONS, **SUMS, **MOVES}.items():
        text = json.dumps(made(*rows_and_cols))
        (tmp_path / f"{what.replace(' ', '_')}.json").write_text(text, encoding="utf-8")
    compiled(tmp_path)


def test_random_blocks(tmp_path: Path) -> None:
    """Of tuning files: what is taken, the compiler takes too."""
    seed = secrets.randbelow(1 << 31)
    rng = Random(seed)
    sys.stdout.write(f"seed {seed}\n")
    for what, made in {**REDUCTIONS, **SUMS, **MOVES}.items():
        graph, name = made(33, 300), what.replace(" ", "_")
        (tmp_path / f"{name}.json").write_text(json.dumps(graph), encoding="utf-8")
        tuning, _ = random_tuning(rng, tmp_path / f"{name}.json")
        (tmp_path / f"{name}.tuning").write_text(tuning.text(), encoding="utf-8")
    compiled(tmp_path)


def documents(rng: Random, op: str) -> Iterator[dict[str, Any]]:
    """The op by itself, of all dtypes that it has."""
    for dtype in storms.DTYPES:
        m = storms.Maker(rng, symbolic=rng.random() < 0.5)
        shape = m.shape(budget=2000)
        made = add_op(m, op, m.input(dtype, shape), m.input(dtype, shape))
        if made is not None:
            m.outputs = [made]
            yield m.case(op).document


def test_every_op(tmp_path: Path) -> None:
    rng = Random(7)
    for op in OPS:
        document = rng.choice(list(documents(rng, op)))
        (tmp_path / f"{op}.json").write_text(json.dumps(document), encoding="utf-8")
    compiled(tmp_path)
