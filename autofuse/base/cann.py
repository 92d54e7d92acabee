"""Building generated files for a chip: the commands of CMake, and which of them failed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.base import programs

__all__ = ["COMMAND_SECONDS", "PRESET", "PRESET_COMMANDS", "Failure", "first_failure"]

#: The preset of generated projects that compiles with CANN, and the commands that do.
PRESET = "ascend"
PRESET_COMMANDS = (["cmake", "--preset", PRESET], ["cmake", "--build", "--preset", PRESET])
#: How long one command may take.
COMMAND_SECONDS = 900
_LINES = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that failed: its words, why, and the last lines that it printed."""

    command: str
    why: str
    lines: tuple[str, ...]


def first_failure(commands: Iterable[Sequence[str]], folder: Path) -> Failure | None:
    """Run commands in a folder until one fails; None if all succeed.

    Args:
        commands: programs with their arguments; no shell reads them.
        folder: where they run.
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
                env=programs.environment(),
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
