"""Words on the command lines of benchmarks: what does not fit is said before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from autofuse.targets import target_names

__all__ = ["graph_folder", "positive", "target_name"]


def positive(text: str) -> int:
    """An integer from 1 on."""
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def target_name(text: str) -> str:
    """A chip that kernels can be generated for."""
    if text not in target_names():
        known = ", ".join(target_names())
        raise argparse.ArgumentTypeError(f"unknown target {text!r}; known: {known}")
    return text


def graph_folder(text: str) -> Path:
    """A folder with graph files."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    if next(path.rglob("*.json"), None) is None:
        raise argparse.ArgumentTypeError(f"{text}: no graph file (*.json) is in it")
    return path
