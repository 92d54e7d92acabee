"""A server may use autofuse for ever: nothing grows with the graphs it has seen, and nothing of the process changes."""

import decimal
import functools
import gc
import importlib
import os
import pkgutil
import signal
import sys
import threading
import types
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import serve_graphs

import autofuse
from autofuse import api
from autofuse.base.diagnostics import AutofuseError

CONTAINERS = (dict, list, set, deque)
#: Caches without a limit: by the chips that there are, and by the templates.
FINITE = {
    "autofuse.targets.cpu.spec.load_cpu",
    "autofuse.targets.gpu.spec.load_gpu",
    "autofuse.targets.spec.load_chip",
    "autofuse.codegen.render._template",
}


@pytest.fixture(scope="module")
def modules() -> list[types.ModuleType]:
    """Every module of the package, imported, but those that need a package that is not installed."""
    found = [autofuse]
    for info in pkgutil.walk_packages(autofuse.__path__, "autofuse."):
        if info.name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(info.name))
        except ModuleNotFoundError as e:
            if e.name is None or e.name.startswith("autofuse"):
                raise
    return found


def caches(modules: list[types.ModuleType]) -> Iterator[tuple[str, Any]]:
    """Every function and method with a functools cache."""
    for m in modules:
        holders: list[Any] = [m]
        holders += [
            v for v in vars(m).values() if isinstance(v, type) and v.__module__ == m.__name__
        ]
        for holder in holders:
            for value in vars(holder).values():
                inner = getattr(value, "__func__", value)
                if isinstance(inner, functools._lru_cache_wrapper):
                    at = f"{inner.__module__}.{inner.__qualname__}"
                    if inner.__module__ == m.__name__:
                        yield at, inner


def containers(modules: list[types.ModuleType]) -> dict[tuple[str, str], Any]:
    """Every dict, list, set and deque that a module or one of its classes holds."""
    out: dict[tuple[str, str], Any] = {}
    for m in modules:
        for name, value in vars(m).items():
            if isinstance(value, CONTAINERS) and not name.startswith("__"):
                out[m.__name__, name] = value
            if isinstance(value, type) and value.__module__ == m.__name__:
                for member, held in vars(value).items():
                    if isinstance(held, CONTAINERS) and not member.startswith("__"):
                        out[m.__name__, f"{name}.{member}"] = held
    return out


def build_some(numbers: range) -> None:
    for n in numbers:
        autofuse.build(serve_graphs.text(n))


def test_every_cache_has_a_limit(modules: list[types.ModuleType]) -> None:
    found = dict(caches(modules))
    assert len(found) > 10
    for at, function in found.items():
        limit = function.cache_parameters()["maxsize"]
        takes = function.__wrapped__.__code__.co_argcount
        assert limit is not None or takes == 0 or at in FINITE, f"{at} keeps whatever it is given"
    assert set(found) >= FINITE


def test_a_wrong_name_is_not_kept(modules: list[types.ModuleType]) -> None:
    finite = [f for at, f in caches(modules) if at in FINITE]
    assert len(finite) == len(FINITE)
    for function in finite:
        before = function.cache_info().currsize
        for i in range(50):
            with pytest.raises((AutofuseError, KeyError)):
                function(f"no such name {i}")
        assert function.cache_info().currsize == before


def test_no_container_of_a_module_grows(modules: list[types.ModuleType]) -> None:
    build_some(range(12))
    held = containers(modules)
    sizes = {at: len(c) for at, c in held.items()}
    build_some(range(100, 124))
    checked = 0
    for at, c in held.items():
        # A table by classes has no more entries than there are classes, and gets them as these are first used.
        if not (isinstance(c, dict) and all(isinstance(k, type) for k in c)):
            assert len(c) == sizes[at], f"{'.'.join(at)} grew from {sizes[at]} to {len(c)}"
            checked += 1
    assert checked >= 200


def test_nothing_is_left_of_a_build_but_what_caches_hold(modules: list[types.ModuleType]) -> None:
    def blocks() -> int:
        for _, function in caches(modules):
            function.cache_clear()
        gc.collect()
        return sys.getallocatedblocks()

    def round_of(first: int) -> int:
        build_some(range(first, first + 12))
        return blocks()

    round_of(1000)
    before = round_of(2000)
    grown = [round_of(first) - before for first in (3000, 4000, 5000)]
    # Of 36 graphs.  A FusionGraph alone is about 80 blocks, all that a build makes are thousands.
    assert grown[-1] < 36 * 40, grown


def test_the_process_is_as_before() -> None:
    def state() -> dict[str, Any]:
        return {
            "folder": os.getcwd(),  # noqa: PTH109 - what the process has, not a path to work with
            "environment": dict(os.environ),
            "floats": np.geterr(),
            "decimals": repr(decimal.getcontext()),
            "warnings": list(warnings.filters),
            "recursion": sys.getrecursionlimit(),
            "signals": [
                signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
            ],
            "path": list(sys.path),
            "threads": threading.active_count(),
            "random": np.random.get_state()[1].tolist(),  # type: ignore[index, union-attr]
        }

    before = state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: build_some(range(n, n + 2)), range(200, 208)))
    with pytest.raises(AutofuseError):
        api.build({"schema": "autofuse.graph/1", "name": "x"})
    assert state() == before


def test_building_changes_neither_the_graph_nor_the_document() -> None:
    document = serve_graphs.document(7)
    kept = repr(document)
    graph = autofuse.read(document)
    first = autofuse.build(graph)
    assert repr(document) == kept
    assert autofuse.build(graph) == first
    assert autofuse.build(document) == first
