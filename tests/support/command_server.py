"""Runs command lines, each in a fork of a process that has imported the modules of autofuse.

An interpreter takes longer to import them than most commands take to run.  ``Forks`` starts this file as a program.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Forks"]


class Forks:
    """A server of commands; one at a time."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self.server.communicate()

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: tuple[Path, Path],
        seconds: int,
    ) -> int:
        """Run ``python -m autofuse`` and return its exit code.

        Args:
            words: arguments.
            folder: current folder.
            environment: all variables.
            streams: files for stdout and stderr.
            seconds: time limit.
        """
        request = {
            "words": list(words),
            "folder": str(folder),
            "environment": dict(environment),
            "streams": [str(p) for p in streams],
            "seconds": seconds,
        }
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())


def _serve() -> None:
    """Fork for each line of stdin, and print the exit code."""
    import autofuse.commands

    for module in pkgutil.walk_packages(autofuse.commands.__path__, "autofuse.commands."):
        importlib.import_module(module.name)
    importlib.import_module("autofuse.cli")
    importlib.import_module("autofuse.machines.twin.machine")
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            answers.close()
            _command(json.loads(line))
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _command(request: Mapping[str, Any]) -> None:
    """Become the process of a command."""
    signal.alarm(request["seconds"])
    for number, path in enumerate(request["streams"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["autofuse", *request["words"]]
    sys.path[0] = request["folder"]
    runpy.run_module("autofuse", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
