"""Kernels that crash, loop, eat memory or write where they should not: the command outlives them."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: Seconds for a kernel, and MiB for one that takes all memory.
LIMITS = {"AUTOFUSE_VERIFY_TIMEOUT": "60", "AUTOFUSE_VERIFY_MEMORY_MB": "2048"}
#: Seconds for one that does not end in any time.
ENDLESS = {**LIMITS, "AUTOFUSE_VERIFY_TIMEOUT": "3"}

#: Statements for the kernel, and what the message then says.
BAD = {
    "null write": ("*reinterpret_cast<volatile int *>(0) = 1;", "SIGSEGV"),
    "abort": ("__builtin_abort();", "SIGABRT"),
    "recursion": ("demo_again(0);", "SIGSEGV"),
    "loop": ("volatile int i = 0; while (i == 0) {}", "more than 3 s"),
    "exit": ("_exit(0);", "status 0"),
    "memory": ("for (;;) { *static_cast<volatile char *>(malloc(1u << 26)) = 1; }", "SIGSEGV"),
    "log": ("for (;;) { puts(LONG); }", "printed more than 64 MiB"),
    "answer": (
        "for (int f = 3; f < 64; ++f) { write(f, LONG, 100); }",
        "its answer is not readable",
    ),
}
#: Before the generated kernel.
HEAD = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#pragma GCC diagnostic ignored "-Wnonnull"
static const char LONG[] =
    "a long line of text, a long line of text, a long line of text, a long line of text, a long "
    "line of text\\n";
[[maybe_unused]] __attribute__((noinline, optimize("O0"))) static int demo_again(int n) {
  volatile char room[4096] = {0};
  return demo_again(n + 1) + room[n % 4096];
}
"""
#: A library in place of the compiled one, which does harm when it is loaded.
LIBRARY = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void at_load(void) { %s }
"""


@pytest.fixture
def folder(autofuse: Callable, repo: Path, tmp_path: Path) -> Path:
    """The demo as a folder of generated files."""
    made = autofuse("build", repo / "examples" / "demo.json", "-o", tmp_path / "demo")
    assert made.code == 0, made.err
    return tmp_path / "demo"


def spoil(folder: Path, statement: str) -> None:
    """Let the kernel begin with ``statement``."""
    path = folder / "device" / "demo_kernel.cpp"
    head, entry, rest = path.read_text(encoding="utf-8").partition('extern "C" __global__')
    brace = rest.index("{") + 1
    body = f"{rest[:brace]}\n  {statement}\n{rest[brace:]}"
    path.write_text(HEAD + head + entry + body, encoding="utf-8")


@pytest.mark.parametrize("kind", BAD)
def test_run_of_an_edited_kernel(autofuse: Callable, folder: Path, kind: str) -> None:
    statement, said = BAD[kind]
    spoil(folder, statement)
    done = autofuse("run", folder, "--json", **(ENDLESS if kind == "loop" else LIMITS))
    assert done.code == 1, done.err
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF5003"
    assert said in found["message"]


def test_memory_that_is_damaged_is_no_internal_error(autofuse: Callable, folder: Path) -> None:
    # What is hit differs from run to run; the parent must name it whatever it is.
    # Where the memory comes from is hidden from the compiler, which would refuse it.
    spoil(folder, "char *volatile p = (char *)malloc(64); memset((char *)p - 4096, 0x5a, 1 << 16);")
    done = autofuse("run", folder, "--json", **LIMITS)
    assert done.code in (0, 1), done.err
    assert all(d["code"] in ("AF5003", "AF5004", "AF6001") for d in done.json()["diagnostics"])


@pytest.fixture
def spoilt_cache(autofuse: Callable, repo: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Replace the compiled demo in a cache of its own; returns the environment to use it."""

    def make(statement: str) -> dict[str, str]:
        own = {"AUTOFUSE_CACHE_DIR": str(tmp_path / "own")}
        first = autofuse("verify", repo / "examples" / "demo.json", "--shapes", 1, **own)
        assert first.code == 0, first.err
        (library,) = (tmp_path / "own" / "kernels").glob("*/demo.so")
        source = tmp_path / "bad.c"
        source.write_text(LIBRARY % statement, encoding="utf-8")
        library.unlink()
        subprocess.run(
            ["gcc", "-w", "-O0", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60
        )
        # An entry whose digest is another one is made again; that of the library is the first.
        digests = library.parent / "sha256"
        _, *sources = digests.read_text(encoding="ascii").split()
        found = hashlib.sha256(library.read_bytes()).hexdigest()
        digests.write_text("\n".join([found, *sources]), encoding="ascii")
        return {**LIMITS, **own}

    return make


@pytest.mark.parametrize("statement", ["*(volatile int *)0 = 1;", "for (;;) {}", "exit(3);"])
def test_verify_of_a_file_with_a_bad_library(
    autofuse: Callable, spoilt_cache: Callable, repo: Path, statement: str
) -> None:
    env = spoilt_cache(statement)
    env |= ENDLESS if statement.startswith("for") else {}
    done = autofuse("verify", repo / "examples" / "demo.json", "--json", **env)
    assert done.code == 1
    out = json.loads(done.out)
    assert [d["code"] for d in out["diagnostics"]] == ["AF5003"]
    assert out["result"]["counts"]["failed"] == 1


def test_verify_of_a_folder_goes_on(
    autofuse: Callable, spoilt_cache: Callable, graph: Path, repo: Path, tmp_path: Path
) -> None:
    env = spoilt_cache("*(volatile int *)0 = 1;")
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    shutil.copy(repo / "examples" / "demo.json", graphs / "b.json")
    text = json.loads(graph.read_text(encoding="utf-8"))
    for name in ("a", "c"):
        (graphs / f"{name}.json").write_text(json.dumps({**text, "name": name}))
    done = autofuse("verify", graphs, "--json", "--shapes", 1, "--jobs", 1, **env)
    rows: list[dict[str, Any]] = json.loads(done.out)["result"]["graphs"]
    assert [r["state"] for r in rows] == ["passed", "failed", "passed"]
    assert rows[1]["codes"] == ["AF5003"]


def test_a_looping_kernel_ends_with_its_command(folder: Path, cache_dir: Path) -> None:
    spoil(folder, BAD["loop"][0])
    env = {**os.environ, "AUTOFUSE_CACHE_DIR": str(cache_dir)}
    command = subprocess.Popen(
        [sys.executable, "-m", "autofuse", "run", str(folder)],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        worker = _wait_for(lambda: _busy_child(command.pid), 60)
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    _wait_for(lambda: not Path(f"/proc/{worker}").exists() or _state(worker) == "Z", 20)


def _busy_child(pid: int) -> int:
    """A child that has used more than four seconds of CPU, which only the loop does; else 0."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > 4:
            return int(child)
    return 0


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _wait_for(found: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if value := found():
                return value
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    raise AssertionError("it does not happen")
