"""Verbs about kernels on real chips: each module adds its own to the command line."""

from __future__ import annotations

from types import ModuleType

import typer

from autofuse.commands.chip import (
    adopt,
    bench,
    calibrate,
    certify,
    import_msprof,
    silicon,
    tune,
)

__all__ = ["register"]

#: Modules with a function ``register(app)``, in the order in which help lists their verbs.
_VERBS: tuple[ModuleType, ...] = (bench, import_msprof, silicon, calibrate, tune, adopt, certify)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    for verb in _VERBS:
        verb.register(app)
