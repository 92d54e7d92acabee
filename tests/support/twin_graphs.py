"""Graph documents in short, and every template of them: for tests that run kernels on the CPU twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from autofuse.schedule import scheduler


@contextmanager
def every_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of its own, and no limit on templates: those that the model of their cycles drops are right as well."""
    with pytest.MonkeyPatch.context() as m:
        m.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        m.setattr(scheduler, "MAX_STATIC", 10)
        m.setattr(scheduler, "MAX_SYMBOLIC", 10)
        yield


def graph(
    inputs: Mapping[str, tuple[str, Sequence[Any]]],
    nodes: Sequence[tuple[Any, ...]],
    outputs: Sequence[Any] = ("y",),
    **symbols: Mapping[str, int],
) -> dict[str, Any]:
    """inputs: name -> (dtype, shape); nodes: (result, op, operands[, attrs]), a number is a constant."""
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": symbols,
        "inputs": [{"name": n, "dtype": d, "shape": list(s)} for n, (d, s) in inputs.items()],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [x if isinstance(x, str | dict) else {"const": x} for x in xs],
                "outputs": [y],
                "attrs": attrs[0] if attrs else {},
            }
            for i, (y, op, xs, *attrs) in enumerate(nodes)
        ],
        "outputs": list(outputs),
    }
