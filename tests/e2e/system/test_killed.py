"""Commands that are killed at any moment, and commands that run at once, share a cache and a folder."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.twin, pytest.mark.slow]

KILLS = 20
#: Seconds after which a loop of kills ends, on a machine that is busy.
BOUND = 10


def _start(cache: Path, *words: object, **more: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("AUTOFUSE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "autofuse", *map(str, words)],
        env={**env, "AUTOFUSE_CACHE_DIR": str(cache), **more},
        # A shell's command in the background does not hear the keyboard.
        preexec_fn=_hear,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _hear() -> None:
    """A command in the background, or under nohup, does not hear all signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _kill_after(seconds: float, cache: Path, *words: object) -> bool:
    """True if the command was still running."""
    command = _start(cache, *words)
    time.sleep(seconds)
    alive = command.poll() is None
    command.send_signal(signal.SIGKILL)
    command.communicate()
    return alive


def _check_folder(folder: Path) -> None:
    """The manifest names every file with its digest, and there is no other file."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest) == {"schema", "files"}
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    del found["manifest.json"]
    assert {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in found.items()} == (
        manifest["files"]
    )


def _check_cache(cache: Path, name: str) -> None:
    """Every entry is whole: whatever has a folder has its library."""
    for entry in (cache / "kernels").glob("*"):
        assert (entry / f"{name}.so").stat().st_size > 1000


def _seconds_of(cache: Path, *words: object) -> float:
    start = time.monotonic()
    command = _start(cache, *words)
    _, err = command.communicate(timeout=120)
    assert command.returncode == 0, err
    return time.monotonic() - start


def test_build_killed_at_random_moments(
    native: Callable, autofuse: Callable, tmp_path: Path, cache_dir: Path
) -> None:
    graph, out = tmp_path / "add_one.json", tmp_path / "out"

    def write(op: str) -> None:
        node = {"name": "n", "op": op, "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}
        graph.write_text(json.dumps(native(nodes=[node])), encoding="utf-8")

    write("Add")
    whole = min(_seconds_of(cache_dir, "build", graph, "-o", out) for _ in range(2))
    rng = random.Random(20)
    killed, end = 0, time.monotonic() + BOUND
    for i in range(KILLS):
        if time.monotonic() > end:
            break
        write(("Mul", "Add")[i % 2])
        hit = _kill_after(rng.uniform(0.5, 1.1) * whole, cache_dir, "build", graph, "-o", out)
        killed += hit
        # The machine may have been busier when the whole build was timed.
        whole *= 1.0 if hit else 0.8
    assert killed
    done = autofuse("build", graph, "-o", out)
    assert done.code == 0, done.err
    _check_folder(out)
    assert autofuse("run", out).code == 0


def test_verify_killed_at_random_moments(graph: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    words = ("verify", graph, "--shapes", 2)
    whole = _seconds_of(tmp_path / "warm", *words)
    rng = random.Random(21)
    killed, end = 0, time.monotonic() + BOUND
    for _ in range(KILLS):
        if time.monotonic() > end:
            break
        killed += _kill_after(rng.uniform(0.1, 1.1) * whole, cache, *words)
        _check_cache(cache, "add_one")
    assert killed
    # A compiler that the last one left behind writes into a folder that is not an entry.
    _seconds_of(cache, *words)
    _check_cache(cache, "add_one")
    assert len(list((cache / "kernels").iterdir())) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_interrupted_leaves_nothing(
    graph: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Neither folders nor processes; the message and the exit code say what it was."""
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    temporary.mkdir()
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    for k in range(6):
        given = json.loads(graph.read_text(encoding="utf-8"))
        given["nodes"][0]["inputs"][1] = {"const": 2.0 + k}
        (graphs / f"g{k}.json").write_text(json.dumps(given), encoding="utf-8")
    commands = [
        ("verify", graphs, "--jobs", 2),
        ("run", graph, "--json"),
        ("build", graphs, "-o", tmp_path / "out"),
    ]
    interrupted = 0
    for words in commands:
        command = _start(cache, *words, TMPDIR=str(temporary))
        begun = tmp_path.glob if words[0] == "build" else cache.glob
        while not any(begun("out" if words[0] == "build" else "tmp/*")) and command.poll() is None:
            time.sleep(0.01)
        if words[0] != "build":
            time.sleep(0.2)
        command.send_signal(number)
        out, err = command.communicate(timeout=60)
        if command.returncode == 0:
            continue  # it was quicker
        interrupted += 1
        assert command.returncode == 128 + number, err
        assert err == "interrupted\n"
        if "--json" in words:
            assert json.loads(out)["ok"] is False
        assert list(temporary.iterdir()) == []
        assert list(cache.glob("tmp/*")) == []
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    # Only the command that compiles nothing may end first.
    assert interrupted >= 2


@pytest.mark.parametrize(
    ("number", "module", "message"),
    [
        (signal.SIGINT, "typer", ""),
        (signal.SIGTERM, "typer", ""),
        (signal.SIGINT, "autofuse.commands.kernels.building", "interrupted\n"),
        (signal.SIGTERM, "autofuse.commands.kernels.building", "interrupted\n"),
        (signal.SIGHUP, "autofuse.commands.kernels.building", "interrupted\n"),
    ],
)
def test_a_signal_while_modules_are_imported(
    graph: Path, tmp_path: Path, number: signal.Signals, module: str, message: str
) -> None:
    """It comes when a module is looked for: before a command line is read, and while one is."""
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from autofuse.__main__ import main\n"
        f"sys.argv = ['autofuse', 'build', {str(graph)!r}, '-o', 'out']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=_hear,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    # A shell says 128 and its number of a process that a signal ends.
    assert done.returncode == (128 + number if message else -number)
    assert done.stderr == message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("processes", [2, 8])
def test_builds_of_one_folder_at_once(graph: Path, tmp_path: Path, processes: int) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    words = ("build", graph, "-o", out, "--json")
    commands = [_start(cache, *words) for _ in range(processes)]
    results = [json.loads(c.communicate(timeout=300)[0]) for c in commands]
    assert [r["ok"] for r in results] == [True] * processes
    assert len({json.dumps(r["result"]["templates"]) for r in results}) == 1
    _check_folder(out)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("processes", [2, 8])
def test_verifications_of_one_graph_at_once(graph: Path, tmp_path: Path, processes: int) -> None:
    cache = tmp_path / "cache"
    words = ("verify", graph, "--shapes", 2, "--seed", 5, "--json")
    commands = [_start(cache, *words) for _ in range(processes)]
    results = [json.loads(c.communicate(timeout=300)[0]) for c in commands]
    assert [r["ok"] for r in results] == [True] * processes
    outputs = {json.dumps(r["result"]["graphs"][0]["outputs"]) for r in results}
    assert len(outputs) == 1
    assert len(list((cache / "kernels").iterdir())) == 1
    assert list((cache / "tmp").iterdir()) == []
