"""Compiles Triton kernels ahead of time, for a card that may be absent, to PTX that any program can load.

Triton adds two scratch pointers to a kernel, which our kernels do not use, and leaves the size of shared memory to the
launcher. A runtime that knows only the kernel's parameters would launch such an entry with wrong arguments. So these
pointers are removed, and the PTX declares the size of shared memory if the card accepts it there. The result is
assembled by the assembler that Triton itself uses for the card: a wheel has several.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.gpu.importing import imported
from autofuse.machines.gpu.loading import needs_triton
from autofuse.machines.twin.run.worker import WorkerPool

__all__ = ["Entry", "Ptx", "compile_ahead", "compile_job", "probe"]

_JOB = "autofuse.machines.gpu.ahead:compile_job"
#: Most bytes of static shared memory of a kernel; more is requested at launch.
_STATIC_SHARED = 48 << 10
_SHARED = ".extern .shared .align 16 .b8 global_smem[];"
_REPORTED = {"registers": r"Used (\d+) registers", "spill_bytes": r"(\d+) bytes spill stores"}
_SHOWN_LINES = 12
_PROBE = """\
import triton
import triton.language as tl


@triton.jit
def probe(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1.0)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel to compile.

    Attributes:
        name: name of the function in its module.
        types: types of its parameters in Triton's notation: ``*fp32`` for a 16-byte aligned pointer, ``i32`` for a
            size.
        constants: the constexpr parameters after these, by name.
        warps: warps of a block.
        parts: blocks of a cluster; 1 for none.
        fusion: allow fused multiply-add.
    """

    name: str
    types: tuple[str, ...]
    constants: Mapping[str, int]
    warps: int
    parts: int
    fusion: bool


@dataclass(frozen=True, slots=True)
class Ptx:
    """A compiled kernel.

    Attributes:
        text: the PTX, which has one entry with the name of the function.
        arch: its architecture, such as ``sm_90a``.
        registers: registers of a thread.
        spill_bytes: spilled bytes of a thread.
        shared_bytes: shared memory of a block.
        dynamic_shared_bytes: the part of it that the launch must request.
        compiler: its name and version.
        assembler: its name and version.
    """

    text: str
    arch: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    dynamic_shared_bytes: int
    compiler: str
    assembler: str


def compile_ahead(
    text: str, file: str, entries: Sequence[Entry], *, capability: int
) -> tuple[Ptx, ...]:
    """Compile kernels of a module, in a worker process.

    Args:
        text: text of the module, which is imported.
        file: its name, which ends in ``.py``.
        entries: the kernels.
        capability: compute capability of the card, ten times the major number plus the minor one.

    Returns:
        The PTX of each kernel, deterministic for a text and a version of Triton.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or its assembler are missing; AF5002, a kernel does not compile; AF5003,
            the compiler crashed or took too long.
    """
    needs_triton()
    job = {
        "text": text,
        "file": file,
        "entries": [asdict(e) for e in entries],
        "capability": capability,
    }
    outcome = _workers().run(job)
    if not outcome.ok:
        raise AutofuseError(outcome.diagnostics)
    return tuple(Ptx(**found) for found in outcome.value)


def probe(capability: int) -> Ptx:
    """Compile a one-line kernel for a card.

    Args:
        capability: as for :func:`compile_ahead`, whose errors it raises.
    """
    entry = Entry("probe", ("*fp32",), {}, warps=1, parts=1, fusion=True)
    (made,) = compile_ahead(_PROBE, "probe.py", [entry], capability=capability)
    return made


@lru_cache
def _workers() -> WorkerPool:
    # The compiler reserves more address space than it uses.
    pool = WorkerPool(_JOB, memory_mb=0)
    atexit.register(pool.close)
    return pool


def compile_job(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run :func:`compile_ahead` in a worker."""
    # The PTX must not contain file paths, and the caller's environment may select the interpreter.
    os.environ.pop("TRITON_INTERPRET", None)
    with cache.scratch() as folder:
        os.environ |= {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_CACHE_DIR": str(folder / "triton")}
        module = imported(job["text"], job["file"])
        made = []
        for given in job["entries"]:
            entry = Entry(**given)
            kernel = getattr(module, entry.name)
            # Inside a Launcher, if the module has one.
            kernel = getattr(kernel, "kernel", None) or kernel
            made.append(asdict(_compiled(kernel, entry, job["capability"], folder)))
    return made


def _compiled(kernel: Any, entry: Entry, capability: int, folder: Path) -> Ptx:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability
    from triton.compiler import ASTSource

    types = (*entry.types, *("constexpr" for _ in entry.constants))
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types) if t.startswith("*")}
    source = ASTSource(
        kernel, dict(zip(kernel.arg_names, types, strict=True)), dict(entry.constants), aligned
    )
    options = {
        "num_warps": entry.warps,
        "num_ctas": entry.parts,
        "enable_fp_fusion": entry.fusion,
    }
    try:
        found = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except Exception as e:
        lines = f"{type(e).__name__}: {e}".strip().splitlines()
        text = f"Triton cannot compile {entry.name}: {lines[0]}"
        raise AutofuseError.of("AF5002", text, notes=lines[1:_SHOWN_LINES]) from e
    arch = sm_arch_from_capability(capability)
    shared = found.metadata.shared
    fixed = shared <= _STATIC_SHARED
    ptx = _own_parameters(found.asm["ptx"], entry)
    if fixed:
        ptx = ptx.replace(_SHARED, _SHARED.replace(".extern ", "").replace("[]", f"[{shared}]"))
    ptxas = get_ptxas(capability)
    report = _assembled(ptx, entry, arch, ptxas.path, folder)
    return Ptx(
        ptx,
        arch,
        shared_bytes=shared,
        dynamic_shared_bytes=0 if fixed else shared,
        compiler=f"triton {triton.__version__}",
        assembler=f"ptxas {ptxas.version}",
        **report,
    )


def _own_parameters(ptx: str, entry: Entry) -> str:
    """Return the PTX without the two parameters after those of the kernel.

    Raises:
        AutofuseError: AF5002, the kernel uses them.
    """
    for number in (len(entry.types), len(entry.types) + 1):
        name = rf"\b{entry.name}_param_{number}\b"
        ptx = re.sub(rf",\s*\.param [^\n]*{name}", "", ptx, count=1)
        if re.search(name, ptx):
            text = f"{entry.name} needs Triton's own scratch memory, which no runtime allocates"
            raise AutofuseError.of("AF5002", text)
    return ptx


def _assembled(ptx: str, entry: Entry, arch: str, ptxas: str, folder: Path) -> dict[str, int]:
    """Assemble a kernel and return the figures that the assembler reports, by field of :class:`Ptx`.

    Raises:
        AutofuseError: AF5001, the assembler does not run; AF5002, it rejects the kernel.
    """
    source = folder / f"{entry.name}.ptx"
    source.write_text(ptx, encoding="ascii")
    flags = ["-v", f"--gpu-name={arch}", "-o", str(source.with_suffix(".cubin"))]
    try:
        done = subprocess.run([ptxas, *flags, str(source)], capture_output=True, text=True)
    except OSError as e:
        text = f"Triton's assembler, {ptxas}, cannot be run: {e.strerror or e}"
        raise AutofuseError.of("AF5001", text) from e
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines()[-_SHOWN_LINES:]
        text = f"ptxas rejects {entry.name}"
        raise AutofuseError.of("AF5002", text, notes=lines)
    said = {key: re.search(form, done.stderr) for key, form in _REPORTED.items()}
    return {key: int(m[1]) if m else 0 for key, m in said.items()}
