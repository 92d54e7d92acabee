"""Prints the file of a graph: functions of floats, a function of loops per nest, and the entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autofuse.codegen.backends.cpu.cpp_text import entry_point, size_text
from autofuse.codegen.backends.cpu.forms import write
from autofuse.codegen.backends.cpu.loops import Program
from autofuse.codegen.backends.cpu.ops.reductions import DECLARED
from autofuse.codegen.backends.cpu.ops.spelling import CPP, TYPES, stored
from autofuse.codegen.backends.cpu.sizes import SIZES, symbol_lines
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.memory import Memory, Role

__all__ = ["file_text"]

#: Headers of all files.
_INCLUDES = ("cmath", "cstdint", "cstring", "limits", "type_traits")
_HEAD = """\
// {name}: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared {file}
"""
#: Instructions that convert floats of 16 bits.
_INTRINSICS = """\
#if defined(__F16C__)
#include <immintrin.h>
#endif
"""
#: Products and sums that must round one by one.
_EXACT = """\
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif
"""


def file_text(program: Program) -> str:
    """The text of the file."""
    graph = program.graph
    headers = {*_INCLUDES, *(("memory",) if program.scratch else ())}
    bodies, calls = [], []
    for loops in program.loops:
        w = Writer(loops, program.symbols, program.buffers, program.targets, program.exact)
        write(w)
        headers.update(w.headers)
        bodies.append(_function(loops.name, w.parameters(), w.lines))
        arguments = [*w.memory, *(program.symbols[s] for s in w.sizes)]
        calls.append(f"    {loops.name}({', '.join(arguments)});")
    entry = _entry(program, calls)
    parts = [_HEAD.format(name=graph.name, file=f"{graph.name}.cpp")]
    parts.append("".join(f"#include <{name}>\n" for name in sorted(headers)))
    text = "".join(bodies)
    declared = [d for name, d in DECLARED.items() if f"reduction({name} :" in text]
    called = CPP.functions(text, *declared)
    if not {"widen", "narrow"}.isdisjoint(called):
        parts.append(_INTRINSICS)
    if program.exact:
        parts.append(_EXACT)
    used = {m.dtype.name for m in (*program.inputs, *program.outputs, *program.scratch)}
    used |= {n.y.dtype.name for loops in program.loops for n in loops.nest.nodes}
    sizes = f"\n{SIZES}" if "autofuse::" in text + entry else ""
    parts.append(_header(used, called, declared) + sizes)
    parts += [*bodies, entry]
    return "\n".join(p for p in parts if p)


def _header(types: Iterable[str], called: Mapping[str, str], declared: Iterable[str]) -> str:
    """Types and functions that the loops use."""
    short = [t for t in ("float16", "bfloat16") if t in types]
    halves = [TYPES[t] for t in short]
    for name in ("half", "bfloat16"):
        if any(name in f for f in called) and name not in halves:
            halves.append(name)
    lines = [f"using {name} = uint16_t; // its bits\n" for name in halves]
    text = "".join(lines)
    if called:
        inner = "\n".join(called.values())
        text += f"\nnamespace simd {{\n\n{inner}\n}} // namespace simd\n"
    return text + "".join(f"\n{d}" for d in declared)


def _function(name: str, parameters: list[str], lines: list[str]) -> str:
    one = f"static void {name}({', '.join(parameters)})"
    if len(one) > 100:
        one = f"static void {name}(\n    " + ",\n    ".join(parameters) + ")"
    return "\n".join((one, "{", *lines, "}", ""))


def _entry(program: Program, calls: list[str]) -> str:
    graph = program.graph
    dynamic = ", const int64_t* const* shapes" if graph.symbols else ""
    lines = [f'extern "C" void {entry_point(graph)}(void** data{dynamic})', "{"]
    memory: dict[str, Memory] = {m.name: m for m in (*program.inputs, *program.outputs)}
    for k, m in enumerate(memory.values()):
        const = "" if m in program.outputs else "const "
        kind = f"{const}{stored(m.dtype)}*"
        lines.append(f"    {kind} const {m.name} = static_cast<{kind}>(data[{k}]);")
    lines += symbol_lines(graph, program.symbols)
    for m in program.scratch:
        assert m.role is Role.SCRATCH
        assert m.size is not None
        size, kind = size_text(m.size, program.symbols), stored(m.dtype)
        lines.append(f"    const std::unique_ptr<{kind}[]> {m.name}_memory(new {kind}[{size}]);")
        lines.append(f"    {kind}* const {m.name} = {m.name}_memory.get();")
    return "\n".join((*lines, *calls, "}", ""))
