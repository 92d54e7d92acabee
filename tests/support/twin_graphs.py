"""Graph documents in short, and every template of them: for tests that run kernels on the CPU twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from autofuse import api
from autofuse.codegen.verification import verify_schedule
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.schedule import rank
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


@contextmanager
def every_template() -> Iterator[None]:
    """No limit on templates: those that the model drops are right as well."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(rank, "needed", lambda times, *_: range(len(times)))
        yield


def graph(
    inputs: Mapping[str, tuple[Any, ...]],
    nodes: Sequence[tuple[Any, ...]],
    outputs: Sequence[Any] = ("y",),
    **symbols: Mapping[str, int],
) -> dict[str, Any]:
    """inputs: name -> (dtype, shape[, more]); nodes: (result, op, operands[, attrs]), a number is a constant."""
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": symbols,
        "inputs": [
            {"name": n, "dtype": d, "shape": list(s), **(more[0] if more else {})}
            for n, (d, s, *more) in inputs.items()
        ],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [x if isinstance(x, str | dict) else {"const": x} for x in xs],
                "outputs": [y],
                "attrs": dict(attrs[0]) if attrs else {},
            }
            for i, (y, op, xs, *attrs) in enumerate(nodes)
        ],
        "outputs": list(outputs),
    }


def centred(rows: int, columns: int) -> dict[str, Any]:
    """Columns less their sums, as in a batch norm."""
    nodes = [
        ("s", "ReduceSum", ["x"], {"axes": [0], "keepdims": True}),
        ("y", "Sub", ["x", "s"]),
    ]
    return graph({"x": ("float32", (rows, columns))}, nodes)


def check(document: dict[str, Any], ub: int | None = None, **options: Any) -> api.BuildResult:
    """A graph builds with ``ub`` bytes of UB, its kernel is proved, and it runs as it should."""
    target = CHIP if ub is None else CHIP.with_ub(ub)
    built = api.build(document, target=target, verify_ir=True)
    assert verify_schedule(built.graph, built.schedule, target) == []
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return built
