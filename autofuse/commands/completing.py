"""Shell completion of targets, ops, stages and entries, and of the symbols and inputs of the graph on the line.

Only completion calls these functions, so each does its own imports. A graph that cannot be read completes nothing: the
command reports the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from autofuse.base.diagnostics import AutofuseError

if TYPE_CHECKING:
    from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["entries", "has_templates", "inputs", "keys", "ops", "symbols", "targets"]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [n for n in names if n.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Complete names of targets."""
    from autofuse.targets import cpu_names, gpu_names, target_names

    return _beginning((*target_names(), *gpu_names(), *cpu_names()), incomplete)


def ops(incomplete: str) -> list[str]:
    """Complete names of ops, or aliases that begin with the text."""
    from autofuse.implgraph.ops.registry import all_ops

    rows = all_ops(user=True)
    found = _beginning((r.name for r in rows), incomplete)
    return found or _beginning((a for r in rows for a in r.aliases), incomplete)


def has_templates(ctx: typer.Context) -> bool:
    """Return True if kernels for the target on the line have templates."""
    from autofuse.codegen.backends.interface import plans
    from autofuse.targets import find_target

    try:
        return not plans(find_target(_target(ctx)))
    except AutofuseError:
        return True


def entries(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete entries of the backend of the target on the line."""
    from autofuse.codegen.backends.interface import load_backend
    from autofuse.targets import find_target

    def found() -> Iterable[str]:
        return load_backend(find_target(_target(ctx)).backend).capabilities.entries

    return _beginning(_readable(found), incomplete)


def symbols(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete ``SYMBOL=`` for each symbol of the graphs on the line."""
    return _of_graphs(ctx, incomplete, lambda g: [f"{s.label}=" for s in g.symbols])


def inputs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete ``NAME=`` for each input of the graphs on the line."""
    return _of_graphs(ctx, incomplete, lambda g: [f"{n}=" for n in g.inputs])


def keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete tiling keys of the kernel of the graph on the line."""

    def found(graph: FusionGraph) -> Iterable[str]:
        from autofuse import api
        from autofuse.schedule.axes.result import tiling_keys

        built = api.build(graph, target=_target(ctx))
        return map(str, range(len(tiling_keys(built.schedule))))

    return _of_graphs(ctx, incomplete, found)


def _of_graphs(
    ctx: typer.Context, incomplete: str, found: Callable[[FusionGraph], Iterable[str]]
) -> list[str]:
    """Return names from the graphs on the line so far, in files or in folders that a build wrote."""
    from autofuse import api

    # After an option whose value is being completed, arguments are not assigned yet.
    given: Any = ctx.params.get("graph") or ctx.params.get("graphs") or map(Path, ctx.args)
    paths = [given] if isinstance(given, Path) else list(given)
    return _beginning(
        dict.fromkeys(n for p in paths for n in _readable(lambda p=p: found(api.graph_of(p)))),  # type: ignore[misc]
        incomplete,
    )


def _target(ctx: typer.Context) -> str:
    """Return the target on the line, else the default."""
    from autofuse import api

    return ctx.params.get("target") or api.DEFAULT_TARGET


def _readable(found: Callable[[], Iterable[str]]) -> Iterable[str]:
    """Return the items of a search, or nothing if it cannot read a file or a target."""
    try:
        return found()
    except AutofuseError:
        return ()
