"""Standard streams that are closed or full: a message where there is room, exit code 1, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = (
    ("targets",),
    ("targets", "--json"),
    ("show", "add_one.json"),
    ("dump", "add_one.json", "--stage", "fusion"),
    ("show", "none.json", "--json"),
    ("none", "--json"),
    ("--version",),
    ("--help",),
)


def _run(folder: Path, cache: Path, words: tuple[str, ...], streams: str) -> tuple[int, str]:
    command = f'exec "$0" -m autofuse "$@" {streams}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *words],
        cwd=folder,
        env={**os.environ, "AUTOFUSE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
@pytest.mark.parametrize(
    ("stream", "why"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
    ids=["closed", "full"],
)
def test_stdout_that_takes_nothing(graph: Path, cache_dir: Path, words, stream, why) -> None:
    code, err = _run(graph.parent, cache_dir, words, stream)
    assert code == 1
    assert err == f"error AF5005: the output of the command cannot be written: {why}\n"


@pytest.mark.parametrize("streams", [">&- 2>&-", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", WORDS[:3], ids=" ".join)
def test_both_streams(graph: Path, cache_dir: Path, words, streams) -> None:
    assert _run(graph.parent, cache_dir, words, streams) == (1, "")


def test_a_message_on_a_stream_that_is_full(graph: Path, cache_dir: Path) -> None:
    assert _run(graph.parent, cache_dir, ("show", "none.json"), "2>/dev/full") == (1, "")
