"""``cache``: shows and empties the folder of compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofuse.base import cache as folder
from autofuse.base import knobs
from autofuse.base.wording import counted
from autofuse.commands.outcome import Outcome

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["clear", "info"]


def info() -> Outcome:
    """Report the path, contents and size limit of the cache.

    Raises:
        AutofuseError: AF5009, the folder cannot be used.
    """
    held = folder.info()

    def show(screen: Console) -> None:
        screen.print(str(held.path), soft_wrap=True)
        screen.print(
            f"{_count(held.entries)}, {_mib(held.bytes)} of {_mib(held.limit_bytes)}; above the limit, the least "
            f"recently used are evicted ({knobs.CACHE_MB.name})"
        )
        for kind, (entries, size) in held.kinds.items():
            screen.print(f"  {kind}: {_count(entries)}, {_mib(size)}", style="dim")

    return Outcome(_json(held), show)


def clear() -> Outcome:
    """Remove every entry; libraries that a running process has loaded stay usable.

    Raises:
        AutofuseError: AF5009, the folder cannot be used.
    """
    removed = folder.clear()

    def show(screen: Console) -> None:
        screen.print(
            f"removed {_count(removed.entries)}, {_mib(removed.bytes)}, from {removed.path}",
            soft_wrap=True,
        )

    return Outcome(_json(removed), show)


def _json(held: folder.CacheInfo) -> dict[str, object]:
    return {
        "path": str(held.path),
        "entries": held.entries,
        "bytes": held.bytes,
        "limit_bytes": held.limit_bytes,
        "kinds": {kind: {"entries": n, "bytes": b} for kind, (n, b) in held.kinds.items()},
    }


def _count(n: int) -> str:
    return counted(n, "entry", "entries")


def _mib(n: int) -> str:
    return f"{n / (1 << 20):.1f} MiB"
