"""Coverage-guided search: atheris (libFuzzer), or a built-in loop if it is not installed."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPO = Path(__file__).resolve().parents[2]

__all__ = ["OwnEngine", "has_atheris", "run_atheris"]

_PACKAGE_PARTS = ("/autofuse/", "/implgraph/", "/schedule/", "/codegen/")
_MODULES = ("frontends", "implgraph", "schedule", "codegen", "targets")


def has_atheris() -> bool:
    """Return True if atheris is installed; it has wheels only for some platforms and versions."""
    return importlib.util.find_spec("atheris") is not None


def run_atheris(
    target: str,
    corpus: Path,
    folder: Path | None,
    seed: int,
    runs: int,
    seconds: float,
    length: int,
) -> None:
    """Fuzz with libFuzzer, which writes its statistics to standard error and ends the process."""
    import atheris

    # Compiled code is in the installed location.
    compiled = importlib.import_module("autofuse._tiling")
    for name in [n for n in sys.modules if n.partition(".")[0] == "autofuse"]:
        del sys.modules[name]
    sys.modules[compiled.__name__] = compiled
    # Import from the checkout: atheris cannot handle the loader of an editable install.
    sys.path.insert(0, str(REPO / "src"))
    sys.meta_path = [m for m in sys.meta_path if "_editable" not in type(m).__module__]
    with atheris.instrument_imports(include=["autofuse"]):
        import_all()
        from fuzzing.harness import Harness
        from fuzzing.mutate import mutate
        from fuzzing.targets import TARGETS

    harness = Harness(target, TARGETS[target], folder)
    recent: list[bytes] = [b"{}"] * 16

    def one(data: bytes) -> None:
        recent[harness.runs % len(recent)] = data
        harness.run(data)

    def changed(data: bytes, max_size: int, number: int) -> bytes:
        rng = random.Random(number)
        if rng.random() < 0.15:
            return bytes(atheris.Mutate(data, max_size))
        return mutate(target, data, rng.choice(recent), rng)[:max_size]

    args = [
        sys.argv[0],
        f"-seed={seed}",
        f"-max_len={length}",
        "-timeout=120",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
        f"-artifact_prefix={folder}/" if folder else "-artifact_prefix=",
    ]
    args += [f"-runs={runs}"] if runs else [f"-max_total_time={max(1, int(seconds))}"]
    atheris.Setup([*args, str(corpus)], one, custom_mutator=changed)
    harness.limit()
    atheris.Fuzz()


def import_all() -> None:
    """Import every module that a target may reach, to instrument all of them."""
    for part in _MODULES:
        package = importlib.import_module(f"autofuse.{part}")
        for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(m.name)


class OwnEngine:
    """Fuzzer that keeps and mutates inputs that reach a new line; deterministic for a seed."""

    def __init__(self, harness: Any, target: str, seed: int, length: int) -> None:
        self.harness = harness
        self.target = target
        self.rng = random.Random(seed)
        self.length = length
        self.corpus: list[bytes] = []
        self.seen: set[tuple[str, int]] = set()
        self._fresh = 0
        self._idle: dict[CodeType, int] = {}

    def fuzz(self, seeds: Sequence[bytes], runs: int, seconds: float) -> None:
        """Run all seeds, then mutated inputs: ``runs`` of them, or for ``seconds``."""
        from fuzzing.mutate import mutate

        deadline = time.monotonic() + seconds
        for s in seeds:
            self._try(s, keep=True)
        done = 0
        while done < runs if runs else time.monotonic() < deadline:
            done += 1
            # Prefer newer inputs, which reach new lines.
            a = int(len(self.corpus) * self.rng.random() ** 0.6)
            data = mutate(self.target, self.corpus[a], self.rng.choice(self.corpus), self.rng)
            self._try(data[: self.length], keep=False)

    def _try(self, data: bytes, *, keep: bool) -> None:
        self._fresh = 0
        self._start()
        try:
            self.harness.run(data)
        finally:
            self._stop()
        if keep or self._fresh:
            self.corpus.append(data)

    def _note(self, code: CodeType, line: int) -> None:
        place = (code.co_filename, line)
        if place not in self.seen:
            self.seen.add(place)
            self._fresh += 1

    if sys.version_info >= (3, 12):

        def _start(self) -> None:
            m = sys.monitoring
            if m.get_tool(m.COVERAGE_ID) is None:
                m.use_tool_id(m.COVERAGE_ID, "fuzz")
                m.register_callback(m.COVERAGE_ID, m.events.LINE, self._on_line)
            m.set_events(m.COVERAGE_ID, m.events.LINE)

        def _stop(self) -> None:
            sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, 0)

        def _on_line(self, code: CodeType, line: int) -> Any:
            if _is_ours(code.co_filename):
                self._note(code, line)
            return sys.monitoring.DISABLE

    else:

        def _start(self) -> None:
            sys.settrace(self._on_call)

        def _stop(self) -> None:
            sys.settrace(None)

        def _on_call(self, frame: FrameType, event: str, arg: object) -> Any:
            code = frame.f_code
            # Tracing is slow: stop tracing a function after enough calls without a new line.
            idle = self._idle.get(code, 0)
            if idle > 400 or (idle == 0 and not _is_ours(code.co_filename)):
                self._idle[code] = 401
                return None
            self._idle[code] = idle + 1
            return self._on_event

        def _on_event(self, frame: FrameType, event: str, arg: object) -> Any:
            if event == "line":
                before = self._fresh
                self._note(frame.f_code, frame.f_lineno)
                if self._fresh != before:
                    self._idle[frame.f_code] = 1
            return self._on_event


def _is_ours(path: str) -> bool:
    return any(p in path for p in _PACKAGE_PARTS) and "/fuzzing/" not in path
