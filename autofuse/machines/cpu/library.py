"""Compiles a generated C++ file into a shared library for this machine: one cached compiler call."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from autofuse.base import knobs
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.compiler import although_emptied, key_of, made, toolchain

__all__ = ["FLAGS", "compile_library", "flags_for_speed", "source_file"]

_MATH = ("-fno-math-errno", "-fno-trapping-math")
#: As in the head of a generated file; the library uses all instructions of this machine.
FLAGS = ("-std=c++17", "-march=native", "-fopenmp", *_MATH)
_OBJECT = ("-fPIC", "-shared")


def source_file(graph: FusionGraph) -> str:
    """Return the path of the file inside the output folder."""
    return f"{graph.name}.cpp"


def compile_library(
    files: Mapping[str, str], graph: FusionGraph, *, opt: str | None = None
) -> Path:
    """Compile the generated file for a CPU.

    Args:
        files: path inside the output folder -> text.
        graph: the graph that it was generated from.
        opt: ``-O0`` to ``-O3``; None: the knob's, or else ``-O3``.

    Returns:
        The library, in a cache entry together with its source.

    Raises:
        AutofuseError: AF5001 no compiler; AF5002 the code does not compile; AF5009 the cache folder cannot be used.
    """
    cxx = toolchain()
    source, library = source_file(graph), f"{graph.name}.so"
    texts = {source: files[source]}
    opt = opt or f"-O{knobs.OPT.get() or 3}"
    cmd = [
        cxx.path,
        *FLAGS,
        opt,
        *_wide(is_gcc=cxx.is_gcc),
        *_OBJECT,
        *knobs.CXXFLAGS.get(),
        "-o",
        library,
        source,
    ]
    key = key_of(texts, cmd, cxx, _machine())
    return although_emptied(lambda: made(texts, cmd, key, library, graph.label))


def flags_for_speed(*, is_gcc: bool) -> tuple[str, ...]:
    """Return flags for a host that compiles generated text with ``-O3`` and others, which these follow.

    GCC vectorises nothing, not even ``omp simd``, after ``-fno-tree-loop-vectorize``, and no square root while it may
    set ``errno``.
    """
    own = ("-ftree-loop-vectorize",) if is_gcc else ()
    return (*_MATH, *own, "-ffp-contract=fast", *_wide(is_gcc=is_gcc))


def _wide(*, is_gcc: bool) -> tuple[str, ...]:
    """Return flags for full-width vectors: for processors that GCC does not know it uses half the width."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    return ("-mprefer-vector-width=512",) if is_gcc and x86 else ()


@cache
def _machine() -> str:
    """Return a digest of this machine's instruction set: machines may share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        flags = next((x for x in lines if x.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return hashlib.sha256(f"{platform.machine()} {flags}".encode()).hexdigest()
