"""Jobs in worker processes: a kernel that crashes, loops or eats memory ends only its worker.

A job is a function named ``package.module:function`` that takes a JSON value and returns one.  A
worker (:func:`main`, started by :mod:`autofuse.machines.twin.run.start`) reads one JSON value per line from
standard input and answers each with a line on the original standard output; output of the job itself goes to standard
error.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import queue
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import autofuse
from autofuse.base import knobs, programs
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.ending import EndedError, end_cleanly

__all__ = ["Outcome", "WorkerPool", "diagnostic_from_json", "main", "worker_command"]

_JOB = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
#: The program of a worker process.
_START = Path(__file__).absolute().with_name("start.py")
#: Most bytes that a job may print, and of its answer.
_MAX_LOG = 64 << 20
_MAX_ANSWER = 256 << 20
#: Seconds after its limit at which a worker ends itself, in case its parent is gone.
_GRACE_S = 5
#: Seconds that a worker has to end when asked to.
_ASKED_S = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one item.

    Attributes:
        item: the argument of the job.
        value: the result of the job; None if it failed.
        diagnostics: reasons of the failure.
        seconds: wall-clock time.
    """

    item: Any
    value: Any = None
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if the job returned a value."""
        return not self.diagnostics


@dataclass(slots=True)
class WorkerPool:
    """A few processes that run one job over many items.

    Attributes:
        job: ``package.module:function``.
        workers: number of processes.
        timeout_s: seconds for one item; None for the knob.
        memory_mb: address space of a worker in MiB, 0 for no limit; None for the knob.
        jobs_per_worker: jobs after which a worker is replaced: loaded kernels are never unloaded.
    """

    job: str
    workers: int = 2
    timeout_s: float | None = None
    memory_mb: int | None = None
    jobs_per_worker: int = 200
    _idle: list[_Worker] = field(default_factory=list)
    _busy: list[_Worker] = field(default_factory=list)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            raise ValueError(f"{self.job!r} is not of the form package.module:function")
        if self.workers < 1:
            raise ValueError("a pool needs a worker")
        if self.timeout_s is None:
            self.timeout_s = float(knobs.VERIFY_TIMEOUT.get())
        if self.memory_mb is None:
            self.memory_mb = knobs.VERIFY_MEMORY_MB.get()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            self.stop()
        self.close()

    def run(self, item: Any) -> Outcome:
        """Return the outcome of one item; may be called from several threads."""
        worker = self._take()
        assert self.timeout_s is not None
        try:
            outcome = worker.run(item, self.timeout_s)
            if worker.lost and worker.jobs > 1 and not self._stopped:
                # An earlier job may have damaged its memory, so this item gets a new process.
                self._put(worker, again=False)
                worker = self._take(fresh=True)
                outcome = worker.run(item, self.timeout_s)
        except BaseException:
            # Its late answer would be taken for the next item's.
            _end_all([worker])
            self._put(worker, again=False)
            raise
        self._put(worker, again=worker.alive and worker.jobs < self.jobs_per_worker)
        return outcome

    def _take(self, *, fresh: bool = False) -> _Worker:
        """Return an idle worker, or a new one."""
        with self._lock:
            worker = self._idle.pop() if self._idle and not fresh else None
            if worker is None and not self._stopped:
                worker = self._new_worker()
            if worker is None:
                raise _StoppedError("the pool was stopped")
            self._busy.append(worker)
        return worker

    def _put(self, worker: _Worker, *, again: bool) -> None:
        """Put a worker back into the pool; it ends unless it is reusable."""
        with self._lock:
            if worker in self._busy:
                self._busy.remove(worker)
            again = again and not self._stopped
            if again:
                self._idle.append(worker)
        if not again:
            worker.close()

    def _new_worker(self) -> _Worker:
        assert self.memory_mb is not None
        assert self.timeout_s is not None
        return _Worker(self.job, self.memory_mb, self.timeout_s)

    def map(self, items: Iterable[Any], *, ordered: bool = True) -> Iterator[Outcome]:
        """Yield outcomes in the order of the items, or as they complete; workers run only a few items ahead."""
        todo = iter(items)
        done: queue.Queue[Outcome] = queue.Queue()
        pending: deque[queue.Queue[Outcome]] = deque()
        jobs: queue.Queue[tuple[Any, queue.Queue[Outcome]] | None] = queue.Queue()

        def serve() -> None:
            while (job := jobs.get()) is not None:
                item, answer = job
                with suppress(_StoppedError):
                    answer.put(self.run(item))

        threads = [threading.Thread(target=serve, daemon=True) for _ in range(self.workers)]
        for t in threads:
            t.start()

        def submit() -> None:
            with suppress(StopIteration):
                answer: queue.Queue[Outcome] = queue.Queue(1) if ordered else done
                jobs.put((next(todo), answer))
                pending.append(answer)

        try:
            for _ in range(4 * self.workers):
                submit()
            while pending:
                outcome = pending.popleft().get()
                submit()
                yield outcome
        except (EndedError, KeyboardInterrupt):
            self.stop()
            raise
        finally:
            with suppress(queue.Empty):
                while True:
                    jobs.get_nowait()
            for _ in threads:
                jobs.put(None)
            for t in threads:
                t.join(self.timeout_s)
            self.close()

    def stop(self) -> None:
        """Kill the busy workers and their child processes; nothing waits for them any more."""
        with self._lock:
            self._stopped = True
            busy = list(self._busy)
        _end_all(busy)

    def close(self) -> None:
        """End the idle workers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for w in idle:
            w.close()


def _end_all(workers: Sequence[_Worker]) -> None:
    """Kill workers in the middle of their jobs.

    They are first asked to end, so that they clean up; one inside a kernel does not respond.
    """
    for w in workers:
        w.end(signal.SIGTERM)
    end = time.monotonic() + _ASKED_S
    while any(w.alive for w in workers) and time.monotonic() < end:
        time.sleep(0.01)
    for w in workers:
        w.end()


class _StoppedError(RuntimeError):
    """The pool was stopped and takes no more items."""


class _TooMuchError(Exception):
    """A worker exceeded a limit on its output; the text names the limit."""


class _Worker:
    """The parent's side of one worker process; ``lost``: it ended without being asked to."""

    def __init__(self, job: str, memory_mb: int, timeout_s: float) -> None:
        self.jobs = 0
        self.lost = False
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
        self._process = subprocess.Popen(
            worker_command(
                [job, str(memory_mb), str(math.ceil(timeout_s) + _GRACE_S), str(os.getpid())]
            ),
            env=programs.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._rest = b""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(self, item: Any, timeout_s: float) -> Outcome:
        start = time.monotonic()
        self.jobs += 1
        self._log.seek(0, os.SEEK_END)
        log_start = self._log.tell()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(item).encode() + b"\n")
            self._process.stdin.flush()
            line = self._read_line(start + timeout_s, log_start + _MAX_LOG)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        except TimeoutError:
            self._kill()
            problem = _died(
                f"it took more than {timeout_s:g} s and was ended", self._tail(log_start)
            )
            return Outcome(item, None, (problem,), time.monotonic() - start)
        except _TooMuchError as e:
            self._kill()
            return Outcome(
                item, None, (_died(str(e), self._tail(log_start)),), time.monotonic() - start
            )
        seconds = time.monotonic() - start
        if not line:
            self.lost = True
            status = self._wait()
            return Outcome(
                item, None, (_died(_status_text(status), self._tail(log_start)),), seconds
            )
        try:
            answer = json.loads(line)
            if "value" in answer:
                return Outcome(item, answer["value"], (), seconds)
            found = tuple(diagnostic_from_json(d) for d in answer["diagnostics"])
        except (ValueError, KeyError, TypeError, AttributeError):
            # Its memory is corrupted, or the kernel wrote into the pipe.
            self.lost = True
            self._kill()
            found = (_died("its answer is not readable", self._tail(log_start)),)
        return Outcome(item, None, found, seconds)

    def _read_line(self, deadline: float, log_end: int) -> bytes:
        """Read one line of the worker; empty at the end of the pipe.

        Raises:
            TimeoutError: at the deadline.
            _TooMuchError: it prints or answers more than the limit.
        """
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(fd, selectors.EVENT_READ)
            parts, length = [self._rest], len(self._rest)
            while b"\n" not in parts[-1]:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                if os.fstat(self._log.fileno()).st_size > log_end:
                    raise _TooMuchError(f"it printed more than {_MAX_LOG >> 20} MiB")
                if not ready.select(min(left, 0.5)):
                    continue
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    return b""
                parts.append(chunk)
                length += len(chunk)
                if length > _MAX_ANSWER:
                    raise _TooMuchError(f"its answer is longer than {_MAX_ANSWER >> 20} MiB")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _tail(self, start: int) -> list[str]:
        """Return the last lines that the worker wrote to standard error since ``start``."""
        self._log.seek(0, os.SEEK_END)
        end = self._log.tell()
        self._log.seek(max(start, end - 4096))
        return self._log.read().decode(errors="replace").strip().splitlines()[-8:]

    def _wait(self) -> int:
        try:
            return self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._kill()
            return self._process.wait()

    def end(self, number: int = signal.SIGKILL) -> None:
        """Kill the worker in the middle of its job; its pipe closes, which a waiting reader notices."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        self.end()
        self._process.wait()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self.alive:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
        if self.alive:
            self._kill()
        self._log.close()


def worker_command(words: list[str]) -> list[str]:
    """Return the command that starts a worker with these arguments and the modules of this process; see :func:`main`.

    An entry of ``sys.path`` that is the current folder is dropped, unless PYTHONPATH names it in full, because Python
    adds it on its own. Packages installed there are found nevertheless.
    """
    named = programs.folders(os.environ.get("PYTHONPATH", ""))
    assert autofuse.__file__ is not None
    modules = {
        "path": [p for p in sys.path if p in named or _is_elsewhere(p)],
        "autofuse": str(Path(autofuse.__file__).absolute()),
        "folders": [str(Path(p).absolute()) for p in autofuse.__path__],
    }
    # Without site: entries of its .pth files are already in this process's path, and the finder of an editable install
    # would give the worker another autofuse.
    flags = ["-I", "-S"]
    # -I also ignores the variables that configure Python's input and output.
    if sys.dont_write_bytecode:
        flags.append("-B")
    if sys.pycache_prefix is not None:
        flags += ["-X", f"pycache_prefix={Path(sys.pycache_prefix).absolute()}"]
    if sys.flags.utf8_mode:
        flags += ["-X", "utf8"]
    return [sys.executable, *flags, str(_START), json.dumps(modules), *words]


def _is_elsewhere(path: str) -> bool:
    """Return True if a folder or an archive has an absolute path, exists, and is not the current folder."""
    try:
        return Path(path).is_absolute() and not Path(path).samefile(Path())
    except OSError:
        return False


def _status_text(status: int) -> str:
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"its process ended with status {status}"


def _died(how: str, log: list[str]) -> Diagnostic:
    return Diagnostic(
        "AF5003",
        f"the kernel, or the code that generated it, did not return: {how}",
        hint="only the worker process is lost",
        notes=tuple(log),
    )


def diagnostic_from_json(d: dict[str, Any]) -> Diagnostic:
    """Return the inverse of ``Diagnostic.to_json``."""
    return Diagnostic(
        d["code"],
        d["message"],
        Where(**d.get("where", {})),
        d.get("hint", ""),
        tuple(d.get("notes", ())),
        d.get("severity", "error"),
        tuple(d.get("cut_after", ())),
    )


# the worker -----------------------------------------------------------------------------------


def _resolve(job: str) -> Callable[[Any], Any]:
    module, _, name = job.partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    return function


def _answer(function: Callable[[Any], Any], line: bytes) -> dict[str, Any]:
    try:
        return {"value": function(json.loads(line))}
    except AutofuseError as e:
        return {"diagnostics": [d.to_json() for d in e.diagnostics]}
    except MemoryError:
        problem = Diagnostic(
            "AF5003",
            "the worker reached its memory limit",
            hint=f"raise {knobs.VERIFY_MEMORY_MB.name}",
        )
    except Exception as e:  # the parent interprets a failed job
        problem = Diagnostic(
            "AF9001",
            f"{type(e).__name__}: {e}",
            notes=tuple(traceback.format_exc().splitlines()[-12:]),
        )
    return {"diagnostics": [problem.to_json()]}


def _limit_memory(mb: int) -> None:
    import resource

    # A core file would be as large as the memory of a crashed kernel.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if mb > 0:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        want = mb << 20
        resource.setrlimit(resource.RLIMIT_AS, (want if hard < 0 else min(want, hard), hard))


def _be_first_to_go() -> None:
    """Make this process, with the kernel under test, the first one that the OOM killer ends."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("900", encoding="ascii")


def _end_with(parent: int) -> None:
    """End this process soon after its parent, also in an endless loop of a kernel."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(argv: list[str]) -> int:
    """Serve jobs until standard input ends.

    Args:
        argv: the job; MiB of address space; seconds per job after which this process ends itself unconditionally; the
            id of its parent, 0 for one that ends its children itself; a file of jobs that replaces standard input.
    """
    job, memory_mb, seconds, parent, *given = argv
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _be_first_to_go()
    if int(parent):
        _end_with(int(parent))
    _limit_memory(int(memory_mb))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    end_cleanly()
    try:
        function = _resolve(job)
        for line in Path(given[0]).read_bytes().splitlines() if given else sys.stdin.buffer:
            signal.alarm(int(seconds))
            answer = json.dumps(_answer(function, line)).encode() + b"\n"
            signal.alarm(0)
            out.write(answer)
            out.flush()
    except EndedError as e:
        return 128 + e.number
    return 0
