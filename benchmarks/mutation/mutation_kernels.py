"""The mutants of a kernel, and a single library with all of them.

A launch selects a mutant through the upper bits of the tiling key; 0 is the unchanged kernel.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutation import CLASSES, mutants
from mutation_memory import has_room
from mutation_registers import REGISTERS, register_mutants, with_own_names

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.emit_cpp import callee, emit_function
from autofuse.codegen.ir.calls import Call, LocalArg, Number
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Barrier,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    EnQue,
    For,
    Free,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.implgraph.expr.expression import FloorDiv
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.targets import TargetSpec

__all__ = [
    "ACCUMULATION",
    "KEY_BITS",
    "KINDS",
    "MEMORY",
    "SYNCHRONISATION",
    "Candidate",
    "compiled",
    "impls_of",
    "sample",
    "without_sync",
]

#: Bits of the tiling key below the number of the mutant.
KEY_BITS = 12
#: Start of the entry; kernels whose cores wait for each other name their schedule mode in it.
_ENTRY = re.compile(r'^extern "C" .*?__global__', re.MULTILINE)
_SYNC_ALL = "  SyncAll();\n"

#: Classes that change the order of pipes, cores and buffers.
SYNCHRONISATION = (
    *("delete-pair", "early-pair", "delete-enque", "delete-deque", "delete-sync", "weaken-sync"),
    *("delete-barrier", "weaken-barrier", "delete-syncall", "delete-free", "early-free"),
)
#: Classes that change addresses and amounts of data.
MEMORY = (
    *(
        "gm-base",
        "gm-offset",
        "ub-offset",
        "index-read",
        "dma-length",
        "dma-count",
        "dma-gap",
        "call-count",
    ),
    *("reduce-shape", "drop-tail", "loop-extent", "reduce-loop", "shrink-buffer", "halve-scratch"),
)
#: Classes that change accumulators of reduce loops.
ACCUMULATION = ("delete-start", "change-start", "early-start", "late-start", "delete-join")
#: Classes that change the computation.
COMPUTATION = (
    *("swap-operands", "change-constant", "delete-copy-in", "delete-copy-out", "delete-call"),
)
KINDS = (*SYNCHRONISATION, *MEMORY, *ACCUMULATION, *COMPUTATION, *REGISTERS)
#: Functions with three or more operands whose last one is scratch space.
_WITH_SCRATCH = ("autofuse::Broadcast", "autofuse::Reduce", "autofuse::Scan", "autofuse::WithRows")


# mutants --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Candidate:
    """A changed kernel: a changed template, or (``fn`` None) a dispatch without its ``sync``-th SyncAll."""

    kind: str
    text: str
    impl: ImplGraph | None
    original: KernelFn | None
    fn: KernelFn | None
    sync: int = -1


def candidates(built: api.BuildResult) -> Iterator[Candidate]:
    """Yield all mutants of a kernel, by template."""
    tensors = parameter_names(built.graph)
    for impl in impls_of(built):
        fn = run_passes(lower_kernel(impl, tensors, built.target))
        kinds = tuple(k for k in CLASSES if k in KINDS and k != "shrink-buffer")
        for m in mutants(fn, kinds):
            yield Candidate(m.kind, m.text, impl, fn, m.fn)
        for text, smaller in _smaller(fn, impl, built.target):
            yield Candidate("shrink-buffer", text, impl, fn, smaller)
        for text, smaller in _scratch(fn, impl, built.target):
            yield Candidate("halve-scratch", text, impl, fn, smaller)
        moved = (*_moves(fn.body), *_reductions(fn.body))
        for kind, text, body in moved:
            yield Candidate(kind, text, impl, fn, replace(fn, body=body))
        for kind, text, changed in register_mutants(fn):
            yield Candidate(kind, text, impl, fn, changed)
    for i in range(_kernel_text(built).count(_SYNC_ALL)):
        yield Candidate("delete-syncall", f"without SyncAll {i} of the entry", None, None, None, i)


def impls_of(built: api.BuildResult) -> list[ImplGraph]:
    """Return all templates of a kernel."""
    return list({i.name: i for r in built.schedule for g in r.groups for i in g.impls}.values())


def without_sync(built: api.BuildResult, number: int) -> tuple[ScheduleResult, ...]:
    """Return the schedule without SyncAll number ``number`` of the entry."""
    synced = {(r.index, g.index) for r in built.schedule for g in r.groups if g.sync_before}
    calls = [(i.result, i.group) for choice in tiling_keys(built.schedule) for i in choice]
    result, group = [c for c in calls if c in synced][number]

    def changed(r: ScheduleResult) -> ScheduleResult:
        groups = (replace(g, sync_before=g.sync_before and g.index != group) for g in r.groups)
        return replace(r, groups=tuple(groups)) if r.index == result else r

    return tuple(map(changed, built.schedule))


def _moves(body: tuple[Stmt, ...]) -> Iterator[tuple[str, str, tuple[Stmt, ...]]]:
    """Yield changes of more than one statement, and weaker forms of one: (class, text, changed body)."""
    for i, s in enumerate(body):
        if isinstance(s, For):
            for kind, text, inner in _moves(s.body):
                yield kind, text, (*body[:i], replace(s, body=inner), *body[i + 1 :])
        elif isinstance(s, EnQue):
            after = body[i + 1] if i + 1 < len(body) else None
            if isinstance(after, DeQue) and after.local == s.local:
                rest = (*body[:i], *body[i + 2 :])
                yield "delete-pair", f"without EnQue and DeQue of {s.local}", rest
                at = _before(body, i, s.local)
                if at is not None:
                    moved = (*body[:at], s, after, *body[at:i], *body[i + 2 :])
                    yield "early-pair", f"EnQue and DeQue of {s.local} one call earlier", moved
        elif isinstance(s, Free):
            at = _before(body, i, s.local)
            if at is not None:
                moved = (*body[:at], s, *body[at:i], *body[i + 1 :])
                yield "early-free", f"{s.local} is freed before its last use", moved
        elif isinstance(s, Sync):
            other = Sync(s.target, s.source)
            changed = (*body[:i], other, *body[i + 1 :])
            yield "weaken-sync", f"{other.event} for {s.event}", changed
        elif isinstance(s, Barrier):
            changed = (*body[:i], Barrier("PIPE_MTE2"), *body[i + 1 :])
            yield "weaken-barrier", f"PIPE_MTE2 for the barrier {_place(body, i)}", changed


def _smaller(fn: KernelFn, impl: ImplGraph, target: TargetSpec) -> Iterator[tuple[str, KernelFn]]:
    """Yield queues with one buffer less, and buffers with the smallest reduction that may show.

    Lengths are rounded up.  If calls and copies provably fit in 32 bytes less for every tile, that is no fault, so
    further 32 bytes are removed until they do not.  Pads hold no data.
    """
    held = {s.queue if isinstance(s, Alloc) else s.buf for s in _held(fn.body)}
    for i, s in enumerate(fn.body):
        if not isinstance(s, InitBuffer) or s.name not in held:
            continue
        for less in range(32, target.arch.bank_period + 1, 32):
            smaller = _with(fn, i, replace(s, nbytes=s.nbytes - less))
            if not has_room(smaller, impl, target):
                yield f"{s.name}: {less} bytes less", smaller
                break
        if s.buf_num > 1:
            yield f"{s.name}: one buffer less", _with(fn, i, replace(s, buf_num=s.buf_num - 1))


def _held(body: tuple[Stmt, ...]) -> Iterator[Alloc | GetBuf]:
    """Yield the statements that provide tensors and scratch space."""
    for s in body:
        if isinstance(s, For):
            yield from _held(s.body)
        elif isinstance(s, Alloc | GetBuf):
            yield s


def _with(fn: KernelFn, at: int, s: Stmt) -> KernelFn:
    return replace(fn, body=(*fn.body[:at], s, *fn.body[at + 1 :]))


def _scratch(fn: KernelFn, impl: ImplGraph, target: TargetSpec) -> Iterator[tuple[str, KernelFn]]:
    """Yield buffers used as scratch space, possibly among other uses, with half their bytes.

    If calls provably fit into half of the rounded length, use a quarter, and so on.
    """
    bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
    calls = [c for c in _calls(fn.body) if callee(c).startswith(_WITH_SCRATCH)]
    locals_ = [[a.local for a in c.args if isinstance(a, LocalArg)] for c in calls]
    used = {bufs.get(x[-1]) for x in locals_ if len(x) > 2}
    for i, s in enumerate(fn.body):
        if not isinstance(s, InitBuffer) or s.name not in used:
            continue
        for parts, name in ((2, "half"), (4, "a quarter"), (8, "an eighth"), (16, "a sixteenth")):
            smaller = _with(fn, i, replace(s, nbytes=FloorDiv(s.nbytes, 32 * parts) * 32))
            if not has_room(smaller, impl, target):
                yield f"{s.name}: {name} of its bytes", smaller
                break


def _reductions(body: tuple[Stmt, ...]) -> Iterator[tuple[str, str, tuple[Stmt, ...]]]:
    """Yield changes of the loops over reduced tiles, and of their accumulators."""
    for at, s in enumerate(body):
        if not isinstance(s, For):
            continue
        outside = {x for c in s.body if isinstance(c, Call) for x in c.writes[:1]}
        joined = {
            x
            for f in s.body
            if isinstance(f, For)
            for c in _calls(f.body)
            for x in (*c.writes[:1], *_carried(c))
            if x in outside
        }
        for kind, text, outside, inner in _accumulation(s.body, joined):
            before = () if outside is None else (outside,)
            yield kind, text, (*body[:at], *before, replace(s, body=inner), *body[at + 1 :])


def _carried(c: Call) -> tuple[str, ...]:
    """Return the tensors that a running sum carries from tile to tile."""
    return (
        tuple(x for x in c.reads if x in c.writes) if callee(c).startswith("autofuse::Scan") else ()
    )


def _accumulation(
    body: tuple[Stmt, ...], joined: set[str]
) -> Iterator[tuple[str, str, Stmt | None, tuple[Stmt, ...]]]:
    """Yield changes of the body of the loop over tiles, each with a statement to insert before that loop."""
    for i, s in enumerate(body):
        rest = (*body[:i], *body[i + 1 :])
        if isinstance(s, For) and _calls(s.body):
            for by in (1, -1):
                loop = replace(s, extent=s.extent + by)
                changed = (*body[:i], loop, *body[i + 1 :])
                yield "reduce-loop", f"loop {i} over {s.var} runs {by:+d} times", None, changed
            for k, c in enumerate(s.body):
                if isinstance(c, Call) and not joined.isdisjoint(c.writes):
                    loop = replace(s, body=(*s.body[:k], *s.body[k + 1 :]))
                    changed = (*body[:i], loop, *body[i + 1 :])
                    yield "delete-join", f"without {callee(c)} to {c.writes[0]}", None, changed
        elif isinstance(s, Call) and not joined.isdisjoint(s.writes):
            what = s.writes[0]
            yield "delete-start", f"without the initial value of {what}", None, rest
            yield "early-start", f"{what} gets its initial value once", s, rest
            for k, a in enumerate(s.args):
                if isinstance(a, Number):
                    other = Number(a.value + 1 if a.value in (0, 1) else 0, a.dtype)
                    changed = replace(s, args=(*s.args[:k], other, *s.args[k + 1 :]))
                    text = f"{other.value} as the initial value of {what}"
                    yield "change-start", text, None, (*body[:i], changed, *body[i + 1 :])
            loop = next((k for k in range(i, len(body)) if isinstance(body[k], For)), None)
            if loop is not None:
                f = body[loop]
                assert isinstance(f, For)
                inside = replace(f, body=(s, *f.body))
                changed = (*body[:i], *body[i + 1 : loop], inside, *body[loop + 1 :])
                yield "late-start", f"{what} gets its initial value in every tile", None, changed


def _calls(body: tuple[Stmt, ...]) -> list[Call]:
    nested = [_calls(s.body) if isinstance(s, For) else [s] for s in body]
    return [s for part in nested for s in part if isinstance(s, Call)]


def _before(body: tuple[Stmt, ...], i: int, local: str) -> int | None:
    """Return the index of the last statement before ``i`` that touches the tensor."""
    for k in range(i - 1, -1, -1):
        if local in _touched(body[k]):
            return k
    return None


def _touched(s: Stmt) -> tuple[str, ...]:
    if isinstance(s, CopyIn | CopyOut | ScalarRead | IndexRead):
        return (s.local,)
    if isinstance(s, Call):
        return (*s.writes, *s.reads)
    if isinstance(s, For):
        return tuple(x for inner in s.body for x in _touched(inner))
    return ()


def _place(body: tuple[Stmt, ...], i: int) -> str:
    after = next((x for x in body[i + 1 :] if not isinstance(x, Comment)), None)
    return f"before {callee(after)} to {after.writes[0]}" if isinstance(after, Call) else f"at {i}"


def sample(built: api.BuildResult, kinds: Sequence[str], most: int, seed: int) -> list[Candidate]:
    """Return at most ``most`` mutants of each class, in a fixed order."""
    groups: dict[str, list[Candidate]] = {k: [] for k in kinds}
    for c in candidates(built):
        if c.kind in groups:
            groups[c.kind].append(c)
    out: list[Candidate] = []
    for kind, found in groups.items():
        rng = random.Random(f"{seed}:{built.name}:{kind}")
        chosen = (
            range(len(found)) if len(found) <= most else sorted(rng.sample(range(len(found)), most))
        )
        out += [found[i] for i in chosen]
    return out


# one library ----------------------------------------------------------------------------------
def _kernel_text(built: api.BuildResult) -> str:
    return built.files[_kernel_path(built)]


def _kernel_path(built: api.BuildResult) -> str:
    return f"device/{built.name}_kernel.cpp"


def library_text(built: api.BuildResult, chosen: Sequence[Candidate]) -> str:
    """Return the kernel file with every mutant; mutant ``k`` runs for tiling keys with ``k + 1`` in the upper bits."""
    text = _kernel_text(built)
    (start,) = _ENTRY.finditer(text)
    functions, entry = text[: start.start()], text[start.end() :]
    head, brace, rest = entry.partition(") {\n")
    # A control bit of the core may precede the kind of the kernel.
    before, kind, after = rest.partition("KERNEL_TASK_TYPE_DEFAULT")
    assert kind
    task, newline, dispatch = after.partition("\n")
    task = before + kind + task
    body = dispatch[: dispatch.rindex("}")].replace(
        "t.tiling_key ==", f"(t.tiling_key & {(1 << KEY_BITS) - 1}u) =="
    )
    added, cases = [], []
    for k, c in enumerate(chosen):
        own = body
        if c.fn is not None:
            name = f"{c.fn.name}_m{k}"
            added.append(emit_function(with_own_names(replace(c.fn, name=name), f"_m{k}")))
            own = re.sub(rf"\b{c.fn.name}\(", f"{name}(", own)
        else:
            parts = own.split(_SYNC_ALL)
            head_parts, tail_parts = parts[: c.sync + 1], parts[c.sync + 1 :]
            own = _SYNC_ALL.join(head_parts) + _SYNC_ALL.join(tail_parts)
        cases.append(f"  if (t.tiling_key >> {KEY_BITS} == {k + 1}u) {{\n{own}  return;\n  }}\n")
    return "".join(
        (
            functions,
            "\n".join(added),
            "\n",
            start[0],
            head,
            brace,
            task,
            newline,
            *cases,
            body,
            "}\n",
        )
    )


def compiled(built: api.BuildResult, chosen: Sequence[Candidate]) -> list[tuple[Path | None, int]]:
    """Return for every mutant its library and its number there; None if it does not compile."""
    files = {**built.files, _kernel_path(built): library_text(built, chosen)}
    try:
        path = compile_kernel(files, built.name, opt="-O0", checked=True)
    except AutofuseError:
        if len(chosen) <= 1:
            return [(None, 0)] * len(chosen)
        half = len(chosen) // 2
        return [*compiled(built, chosen[:half]), *compiled(built, chosen[half:])]
    return [(path, k) for k in range(len(chosen))]
