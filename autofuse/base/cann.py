"""Builds of generated files for a chip: the CMake commands, and the first failure."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.base import programs

__all__ = ["COMMAND_SECONDS", "PRESET", "PRESET_COMMANDS", "Failure", "first_failure"]

#: The preset of generated projects that compiles with CANN, and its commands.
PRESET = "ascend"
PRESET_COMMANDS = (["cmake", "--preset", PRESET], ["cmake", "--build", "--preset", PRESET])
#: Time limit of one command.
COMMAND_SECONDS = 900
_LINES = 20
_PREFIXES = "CMAKE_PREFIX_PATH"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed command: its arguments, the reason, and the last lines of its output."""

    command: str
    why: str
    lines: tuple[str, ...]


def first_failure(commands: Iterable[Sequence[str]], folder: Path) -> Failure | None:
    """Run commands in a folder and return the first failure; None if all succeed.

    Args:
        commands: programs with their arguments; no shell is involved.
        folder: their working directory.
    """
    for command in commands:
        words = " ".join(command)
        path = programs.program(command[0])
        if path is None:
            return Failure(words, f"there is no program {command[0]}", ())
        try:
            done = subprocess.run(
                [path, *command[1:]],
                cwd=folder,
                env=_environment(),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            return Failure(words, str(e), ())
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines()[-_LINES:]
            return Failure(words, f"exit status {done.returncode}", tuple(lines))
    return None


def _environment() -> dict[str, str]:
    """Return the environment for CMake, which then finds CANN's language package without set_env.sh."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    given = programs.folders(os.environ.get(_PREFIXES, ""))
    prefixes = os.pathsep.join([*given, *programs.folders(home)])
    return programs.environment(**({_PREFIXES: prefixes} if prefixes else {}))
