"""Every environment variable that autofuse reads: one row each.

A knob is read on use, not on import. ``docs/knobs.md`` and ``autofuse knobs`` are generated from :data:`KNOBS`.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from autofuse.base.diagnostics import AutofuseError, Diagnostic

__all__ = [
    "CACHE_DIR",
    "CACHE_MB",
    "COMPILE_TIMEOUT",
    "CXX",
    "CXXFLAGS",
    "DEBUG",
    "DEVICE",
    "KNOBS",
    "LOG_LEVEL",
    "NVCC",
    "OPT",
    "STRICT",
    "THREADS",
    "TRACE",
    "VERIFY_MEMORY_MB",
    "VERIFY_TIMEOUT",
    "Knob",
    "unknown",
]

T = TypeVar("T", str, int, bool, "tuple[str, ...]")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Knob(Generic[T]):
    """One environment variable.

    Attributes:
        name: the variable.
        default: the value if it is unset; its type is the type of the knob.
        doc: a one-line description.
        fallback: another variable, read if this one is unset.
        least: smallest value of an integer.
        values: the allowed texts besides the empty one; empty for any.
    """

    name: str
    default: T
    doc: str
    fallback: str = ""
    least: int = 0
    values: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``text``, ``integer``, ``switch`` or ``words``."""
        if isinstance(self.default, bool):
            return "switch"
        if isinstance(self.default, int):
            return "integer"
        return "text" if isinstance(self.default, str) else "words"

    def get(self, environ: Mapping[str, str] | None = None) -> T:
        """Return the current value.

        Raises:
            AutofuseError: AF5008, the text is not a value of this type.
        """
        env = os.environ if environ is None else environ
        for name in (self.name, self.fallback):
            if name and name in env:
                return self._read(name, env[name])
        return self.default

    def _read(self, name: str, text: str) -> T:
        default = self.default
        value: object = text
        try:
            if isinstance(default, bool):
                value = _switch(text)
            elif isinstance(default, int):
                value = _integer(text, self.least)
            elif isinstance(default, tuple):
                value = tuple(shlex.split(text))
            elif self.values and text and text not in self.values:
                raise ValueError(f"write one of {', '.join(self.values)}")
        except ValueError as e:
            wanted = "an allowed value" if self.values else _ARTICLE[self.kind]
            raise AutofuseError.of(
                "AF5008",
                f"{name}={text!r} is not {wanted}: {e}",
                hint=f"{name}: {self.doc}; by default {self.default_text()}",
            ) from e
        return value  # type: ignore[return-value]

    def default_text(self) -> str:
        """Return the default as a user would set it."""
        default: object = self.default
        if isinstance(default, tuple):
            return shlex.join(default) or "empty"
        if isinstance(default, bool):
            return "1" if default else "0"
        return str(default) or "empty"


_ARTICLE = {
    "text": "a text",
    "integer": "an allowed integer",
    "switch": "a switch",
    "words": "a list of words",
}


def _integer(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError("write a number in digits") from None
    if value < least:
        raise ValueError(f"the minimum is {least}")
    return value


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("write 1 or 0")


CACHE_DIR = Knob(
    "AUTOFUSE_CACHE_DIR", "", "folder for compiled kernels; empty: the user's cache folder"
)
CACHE_MB = Knob(
    "AUTOFUSE_CACHE_MB",
    1024,
    "size limit in MiB; above it, the least recently used kernels are evicted",
    least=1,
)
CXX = Knob("AUTOFUSE_CXX", "g++", "C++ compiler for the CPU twin", fallback="CXX")
CXXFLAGS: Knob[tuple[str, ...]] = Knob(
    "AUTOFUSE_CXXFLAGS", (), "further compiler flags for the CPU twin"
)
NVCC = Knob("AUTOFUSE_NVCC", "nvcc", "CUDA compiler for kernels of Ascend C on a card")
DEVICE = Knob(
    "AUTOFUSE_DEVICE",
    "cpu",
    "where torch.compile runs Ascend C kernels for CPU tensors: cpu, the CPU twin; cuda or cuda:N, a card",
)
OPT = Knob(
    "AUTOFUSE_OPT",
    "",
    "optimisation level of kernels for the CPU twin; empty: 0 to verify (compiles quickly, "
    "without inlining or vectorisation), 1 elsewhere",
    values=("0", "1", "2", "3"),
)
COMPILE_TIMEOUT = Knob(
    "AUTOFUSE_COMPILE_TIMEOUT", 300, "time limit in seconds to compile one kernel", least=1
)
THREADS = Knob(
    "AUTOFUSE_THREADS", 0, "threads over which the twin spreads the cores; 0: one per CPU"
)
DEBUG = Knob("AUTOFUSE_DEBUG", False, "compile kernels with -O0 -g, and show Python tracebacks")
REPORT = Knob(
    "AUTOFUSE_REPORT",
    False,
    "after each compilation, torch.compile prints what was fused, what was not, and why",
)
STRICT = Knob(
    "AUTOFUSE_STRICT",
    False,
    "raise internal errors in a part of a model or of torch.compile; otherwise that part falls back, with a warning",
)
LOG_LEVEL = Knob(
    "AUTOFUSE_LOG_LEVEL",
    "off",
    "stderr output of generated libraries: error, failing calls; info, also the choices of the tiling function; "
    "debug, also launches",
    values=("off", "error", "info", "debug"),
)
TRACE = Knob(
    "AUTOFUSE_TRACE",
    "",
    "show every pass and every candidate of a build: text on stderr, or html, a page in the output folder of build, "
    "else in the cache folder; empty: nothing",
    values=("text", "html"),
)
VERIFY_TIMEOUT = Knob(
    "AUTOFUSE_VERIFY_TIMEOUT", 300, "time limit in seconds of a worker for one kernel", least=1
)
VERIFY_MEMORY_MB = Knob(
    "AUTOFUSE_VERIFY_MEMORY_MB", 8192, "address space of a worker in MiB; 0: no limit"
)

#: In the order of the documentation.
KNOBS: tuple[Knob[str] | Knob[int] | Knob[bool] | Knob[tuple[str, ...]], ...] = (
    CACHE_DIR,
    CACHE_MB,
    CXX,
    CXXFLAGS,
    NVCC,
    DEVICE,
    OPT,
    COMPILE_TIMEOUT,
    THREADS,
    VERIFY_TIMEOUT,
    VERIFY_MEMORY_MB,
    REPORT,
    STRICT,
    LOG_LEVEL,
    TRACE,
    DEBUG,
)

#: Read only by the tests.
_OF_TESTS = frozenset(
    {
        "AUTOFUSE_SHARED",
    }
)


def unknown(environ: Mapping[str, str] | None = None) -> list[Diagnostic]:
    """Return a warning for each ``AUTOFUSE_*`` variable that nothing reads, with the closest known name."""
    env = os.environ if environ is None else environ
    known = {k.name for k in KNOBS}
    out = []
    for name in sorted(env):
        if name.startswith("AUTOFUSE_") and name not in known | _OF_TESTS:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "autofuse reads: " + ", ".join(sorted(known))
            )
            out.append(
                Diagnostic(
                    "AF5008",
                    f"{name} is set, but autofuse does not read it",
                    hint=hint,
                    severity="warning",
                )
            )
    return out
