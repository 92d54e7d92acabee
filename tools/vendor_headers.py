"""Compile generated kernels against the user's copy of the vendor's headers.

    python tools/vendor_headers.py --include DIR [--include DIR ...]     the examples, and a sample of all ops
    python tools/vendor_headers.py --include DIR --sample 0              every op on every dtype: some hours
    python tools/vendor_headers.py --include DIR --target ascend310p     for another chip

The headers declare the interface that the twin emulates: overloads, structs, dtypes.  A kernel that they refuse is a
finding.  They are compiled as a CPU build (``ASCENDC_CPU_DEBUG``), whose assertions define the features of an
architecture: a cast, a copy or a shift that reaches an assertion that always fails is a finding too.  Nothing is run.

The documents are stricter than the headers, and the compilation also checks their rules: calls that an architecture
lacks, calls allowed in functions on registers, and that 16-bit floats do not saturate (``docs/ascend950.md``).

Faults are planted into a kernel as well: a wrong dtype, a call that does not exist, a wrong number of arguments.  If
the headers accept one, the check is not meaningful for that kind of fault.

Exit status 0: all kernels compile and all faults are refused; 1: a kernel does not compile; 2: the check cannot run,
or cannot fail.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autofuse import AutofuseError
from autofuse.api import build
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.registry import all_ops
from autofuse.report.op_support import DTYPES, one_op_graph
from autofuse.targets import TargetSpec, load_target, target_names

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SAMPLE = 40
LIMIT_S = 600
ASSEMBLY = "kernel.s"
WRITES = ("-S", "-o", ASSEMBLY)
FLAGS = ("-std=c++17", "-w", "-fmax-errors=3", *WRITES)
#: Optimised, so that assertions and marks remain only where a call reaches them; and with a check of the call graph.
OPTIMISED, LOOKS_AT_CALLS = ("-O1",), ("-O0", "-fgnu-tm")
OPERATOR = "kernel_operator.h"
#: The assertion of the headers, and its replacement: a mark where its condition is known to fail.  In the files of
#: vector calls such a condition concerns dtypes, unless it is literally false.  In other files, headers dispatch on
#: positions at run time, and in all files on round modes.
_ASSERTION = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+ASCENDC_ASSERT\(", re.MULTILINE)
_HARDENED = """
#include "{log}"
extern "C" void autofuse_never();
extern "C" void autofuse_dtype();
#define AUTOFUSE_IS(cond, text) (__builtin_strcmp(#cond, text) == 0)
#define AUTOFUSE_HARD(cond)                                                    \\
  do {{                                                                         \\
    if (__builtin_constant_p(cond) && !(cond)) {{                               \\
      if (AUTOFUSE_IS(cond, "false") || AUTOFUSE_IS(cond, "(false)") ||       \\
          __builtin_strstr(__FILE__, "_vec_") == nullptr) autofuse_never();   \\
      else autofuse_dtype();                                                   \\
    }}                                                                          \\
  }} while (0)
#undef ASCENDC_ASSERT
#define ASCENDC_ASSERT(cond, ...) AUTOFUSE_HARD(cond)
#undef ASCENDC_REPORT_NOT_SUPPORT
#define ASCENDC_REPORT_NOT_SUPPORT(cond, ...) AUTOFUSE_HARD(cond)
"""
#: A call as a separate function with all its callees inlined: its assembly keeps a mark only if the call reaches it.
#: Headers dispatch on round modes at run time, so these become template arguments.
_CAST = """
template <RoundMode kMode, typename T, typename U>
__attribute__((noinline, flatten)) void AutofuseCast(const LocalTensor<T>& dst, const LocalTensor<U>& src, uint32_t n) {
  AutofuseNarrows<T, U>();
  Cast(dst, src, kMode, n);
}
"""
#: A mark for a conversion to a 16-bit float, which saturates depending on a bit of the control register, and marks
#: where that bit is set, and where it gets another value.
_NARROWS = """
extern "C" void autofuse_narrows();
extern "C" void autofuse_overflows();
extern "C" void autofuse_as_found();
template <typename T, typename U>
inline void AutofuseNarrows() {
  if (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value) autofuse_narrows();
}
template <int8_t kFirst, int8_t kLast>
__attribute__((always_inline)) inline void AutofuseSetCtrlSpr(int64_t value) {
  if (kFirst == 48) {
    if (__builtin_constant_p(value) && value == 1) autofuse_overflows(); else autofuse_as_found();
  }
  SetCtrlSpr<kFirst, kLast>(value);
}
"""
_KEEPS = "template <typename T, typename U> inline void AutofuseNarrows() {}"
#: Functions on registers are in namespace autofuse, where lookup of their ``Reg`` starts.
_REGISTERS = """
namespace autofuse { namespace Reg {
using namespace AscendC::Reg;
template <typename T, typename U, const CastTrait& trait, typename S, typename V>
inline void Cast(S& dst, V& src, MaskReg& mask) {
  AscendC::AutofuseNarrows<T, U>();
  AscendC::Reg::Cast<T, U, trait>(dst, src, mask);
}
} }
#define SetCtrlSpr AutofuseSetCtrlSpr
"""
#: A call that the documents exclude even if the headers accept it: in all forms, and only without arguments.
_LACKING = "template <typename... T, typename... A> void Autofuse@(A&&...) = delete;"
_HARD = """
template <bool kCores = true> void Autofuse@() = delete;
template <bool kCores = true, typename... A> void Autofuse@(A&&... a) { @<kCores>(static_cast<A&&>(a)...); }
"""
#: Architecture -> calls whose form without arguments it lacks: 310P has no hardware barrier over its cores.
_NO_HARD = {"2002": ("SyncAll",)}
#: Headers in which functions for registers count as such that g++ -fgnu-tm has not to look into, and no other does: see
#: ``reg_types.h`` of the twin.
_MARKED = f"""
#if __has_include("stub_def.h")
#include "stub_def.h"
#endif
#undef __simd_callee__
#define __simd_callee__ __attribute__((transaction_pure))
#include "{OPERATOR}"
#undef __simd_callee__
#define __simd_callee__ __attribute__((transaction_safe))
#undef __simd_vf__
#define __simd_vf__ __attribute__((transaction_safe))
#undef __aicore__
#define __aicore__ __attribute__((transaction_unsafe))
"""
#: Stand-ins for missing files that the headers include and that the vendor's build generates or another package has.
_TILING = """
#define BEGIN_TILING_DATA_DEF(name) struct name {{
#define TILING_DATA_FIELD_DEF(type, name) type name{{}}
#define TILING_DATA_FIELD_DEF_ARR(type, size, name) type name[size]{{}}
#define TILING_DATA_FIELD_DEF_STRUCT(type, name) type name{{}}
#define END_TILING_DATA_DEF }}
#define REGISTER_TILING_DATA_CLASS(...)
{structs}
#undef BEGIN_TILING_DATA_DEF
#undef TILING_DATA_FIELD_DEF
#undef TILING_DATA_FIELD_DEF_ARR
#undef TILING_DATA_FIELD_DEF_STRUCT
#undef END_TILING_DATA_DEF
#undef REGISTER_TILING_DATA_CLASS
namespace optiling {{}}
namespace AscendC {{ namespace tiling {{ using namespace optiling; }} }}
using namespace optiling;
"""
_DIM3 = """
struct dim3 {
  constexpr dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
  uint32_t x, y, z;
};
bool __isfinite(float);
"""
_STAND_INS = {
    "kernel_tiling/kernel_tiling.h": _TILING,
    "register/tilingdata_base.h": "",
    "acl/acl.h": _DIM3,
}
_CALL = """
template <typename... A>
__attribute__((noinline, flatten)) void Autofuse@(A&&... a) {
  @(static_cast<A&&>(a)...);
}
"""
#: Calls that some architecture lacks.  Checking all calls would take minutes per kernel.
_MAY_LACK = ("Copy", "ShiftLeft", "ShiftRight")
_LABEL = re.compile(r"^([A-Za-z_$][\w.$]*):")
_WRAPPED = re.compile(r"Autofuse(Cast|Copy|ShiftLeft|ShiftRight)")
_MARK = re.compile(r"^\s+[a-z]+\s+autofuse_(never|dtype|narrows|overflows|as_found)\b")

#: Declarations before a planted fault: tensors of several dtypes.
DECLARED = """
  AscendC::LocalTensor<float> f;
  AscendC::LocalTensor<half> h;
  AscendC::LocalTensor<int32_t> i;
  AscendC::LocalTensor<int64_t> w;
"""
#: Must be accepted.
SOUND = """
  AscendC::Add(f, f, f, 64);
  AscendC::Adds(h, h, static_cast<half>(1.0f), 64);
  AscendC::Cast(i, f, AscendC::RoundMode::CAST_FLOOR, 64);
"""
#: Must be accepted for an architecture with registers: its requirements for 16-bit floats, and a function.
SOUND_ON_REGISTERS = """
  struct Sound {
    __simd_vf__ static inline void Run(__ubuf__ float* x, uint32_t count) {
      AscendC::Reg::RegTensor<float> a;
      AscendC::Reg::MaskReg mask = AscendC::Reg::UpdateMask<float>(count);
      AscendC::Reg::Duplicate(a, -__builtin_inff());
      AscendC::Reg::StoreAlign(x, a, mask);
    }
  };
  const int64_t found = AscendC::GetCtrlSpr<48, 48>();
  AscendC::SetCtrlSpr<48, 48>(1);
  AscendC::Cast(h, f, AscendC::RoundMode::CAST_RINT, 64);
  Sound::Run((__ubuf__ float*)f.GetPhyAddr(), 64);
  AscendC::SetCtrlSpr<48, 48>(found);
"""
#: Must be refused, by kind of fault.
FAULTS = {
    "operands of two dtypes": "AscendC::Add(f, f, h, 64);",
    "a scalar of another dtype": "AscendC::Duplicate(h, 1.0f, 64);",
    "a call that does not exist": "AscendC::AddThree(f, f, f, 64);",
    "an argument too few": "AscendC::Add(f, f, 64);",
    "an argument too many": "AscendC::Exp(f, f, 64, 64, 64);",
    "arguments in another order": "AscendC::Add(64, f, f, f);",
    "a dtype that a call lacks": "AscendC::Exp(w, w, 64);",
    "a cast that does not exist": "AscendC::Cast(w, h, AscendC::RoundMode::CAST_NONE, 64);",
    "a round mode that a cast lacks": "AscendC::Cast(f, h, AscendC::RoundMode::CAST_FLOOR, 64);",
    "an unknown round mode": "AscendC::Cast(i, f, AscendC::RoundMode::CAST_DOWN, 64);",
    "a number for a struct": "AscendC::DataCopy(f, f, AscendC::DataCopyParams(1, 2, 3, 4, 5, 6));",
    "an unknown position": "AscendC::TQue<AscendC::TPosition::VECTOR, 1> q;",
}
#: Must be refused for an architecture that lacks the call.
LACKING = {
    "Copy": "AscendC::Copy(f, f, uint64_t{64}, uint8_t{1}, AscendC::CopyRepeatParams(1, 1, 8, 8));",
    "ShiftRight": "AscendC::ShiftRight(i, i, 1, 64);",
}
#: Must be refused for an architecture with registers.
FUNCTION = """
  struct Fault {{
    __simd_vf__ static inline void Run(__ubuf__ float* x, uint32_t count) {{ {call} }}
  }};
  Fault::Run((__ubuf__ float*)f.GetPhyAddr(), 64);
"""
FAULTS_ON_REGISTERS = {
    "a function of the core, called on registers": """
  struct Core {
    static __aicore__ inline float One() { return 1.0f; }
  };
"""
    + FUNCTION.format(
        call="AscendC::Reg::RegTensor<float> a; AscendC::Reg::Duplicate(a, Core::One());"
    ),
    "a call of memory on registers": FUNCTION.format(
        call="AscendC::LocalTensor<float> t; AscendC::Adds(t, t, 1.0f, 64);"
    ),
    "a cast that saturates": "AscendC::Cast(h, f, AscendC::RoundMode::CAST_RINT, 64);",
    "a control bit that is left set": """
  AscendC::SetCtrlSpr<48, 48>(1);
  AscendC::Cast(h, f, AscendC::RoundMode::CAST_RINT, 64);
""",
}


class CheckError(Exception):
    """The check cannot run."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the corpus: ``files`` by path, one of them the source."""

    name: str
    source: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiler settings of a chip; ``passes`` are g++ options with the path of the first include."""

    command: tuple[str, ...]
    folder: Path
    passes: tuple[tuple[tuple[str, ...], str], ...]

    def errors(self, files: Mapping[str, str], source: str) -> list[str]:
        """Return the errors of a source file; none if it compiles.

        Raises:
            CheckError: the compiler cannot be run, or takes too long.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            for path, text in files.items():
                at = folder / path
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_text(text, encoding="utf-8")
            found: list[str] = []
            for flags, prelude in self.passes:
                first = ("-include", prelude) if prelude else ()
                found += self._one(
                    [*self.command, *flags, *first, "-I.", "-Iinclude", source], folder
                )
        return found

    def _one(self, words: Sequence[str], folder: Path) -> list[str]:
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise CheckError(f"{self.command[0]}: {e}") from e
        if done.returncode == 0:
            return _reached((folder / ASSEMBLY).read_text(errors="replace"))
        found = [line for line in done.stderr.splitlines() if " error: " in line]
        return [_short(line) for line in found] or done.stderr.splitlines()[:3] or ["it failed"]


def _wrapped(target: TargetSpec) -> str:
    """Return the calls as separate functions with the calls' names."""
    arch = target.arch
    lacks = sorted(arch.lacks - set(_MAY_LACK))
    functions = [_NARROWS if arch.control_register else _KEEPS, _CAST]
    functions += [_CALL.replace("@", n) for n in _MAY_LACK]
    functions += [_LACKING.replace("@", n) for n in lacks]
    hard = _hard(target)
    functions += [_HARD.replace("@", n) for n in hard]
    after = [_REGISTERS if arch.control_register else ""]
    after += ["#define Cast(dst, src, mode, n) AutofuseCast<mode>(dst, src, n)"]
    after += [f"#define {n}(...) Autofuse{n}(__VA_ARGS__)" for n in _MAY_LACK]
    after += [f"#define {n} Autofuse{n}" for n in (*lacks, *hard)]
    return "\n".join(["namespace AscendC {", *functions, "}", *after, ""])


def _reached(assembly: str) -> list[str]:
    """Return calls that reach an assertion that always fails, and casts that may saturate."""
    inside, found, marks = "", set[str](), set[str]()
    for line in assembly.splitlines():
        if label := _LABEL.match(line):
            inside = label[1]
        elif mark := _MARK.match(line):
            call = _WRAPPED.search(inside)
            marks.add(mark[1])
            if mark[1] == "dtype":
                found.add(f"a call does not take a dtype: in {inside}")
            elif mark[1] == "never" and call:
                found.add(f"{call[1]} is not supported in this way: {inside}")
    if "narrows" in marks and "overflows" not in marks:
        found.add(
            "a cast to a float of 16 bits saturates: bit 48 of the control register is not set"
        )
    if "overflows" in marks and "as_found" not in marks:
        found.add("bit 48 of the control register is set, and not put back")
    return sorted(found)


def _short(line: str) -> str:
    """Return an error without the folders of its file."""
    place, _, text = line.partition(": ")
    return f"{Path(place).name}: {text}" if text else line


def corpus(target: TargetSpec, sample: int) -> Iterator[Kernel]:
    """Yield the examples, and ops on single dtypes: ``sample`` of those that the chip supports, 0 for all."""
    for path in sorted(EXAMPLES.glob("*.json")):
        try:
            built = build(path, target=target)
        except AutofuseError:
            continue  # not for this chip
        yield Kernel(path.stem, f"device/{built.name}_kernel.cpp", built.files)
    singles = [(row, dtype) for row in all_ops(user=True) for dtype in DTYPES]
    # Evenly over the table, plus one for each refused.
    step = max(len(singles) // sample, 1) if sample else 1
    order = [k for first in range(step) for k in range(first, len(singles), step)]
    left = sample or len(singles)
    for row, dtype in (singles[k] for k in order):
        if left == 0:
            return
        try:
            built = build(one_op_graph(row, dtype), target=target)
        except (AutofuseError, OpError):
            continue
        left -= 1
        yield Kernel(f"{row.name} {dtype}", f"device/{built.name}_kernel.cpp", built.files)


def with_calls(calls: str) -> dict[str, str]:
    """Return a kernel that consists of these calls."""
    text = f'#include "{OPERATOR}"\nextern "C" __global__ __aicore__ void planted() {{{DECLARED}{calls}\n}}\n'
    return {"planted.cpp": text}


def compiler(
    cxx: str, include: Sequence[Path], define: Sequence[str], target: TargetSpec, folder: Path
) -> Compiler:
    """Return the compiler for a chip, with assertions as errors and precompiled headers.

    Raises:
        CheckError: the headers are missing or do not compile.
    """
    for path in include:
        if not path.is_dir():
            raise CheckError(f"there is no folder {path}")
    if not any((p / OPERATOR).is_file() for p in include):
        raise CheckError(f"no folder of --include has {OPERATOR}")
    macros = ("ASCENDC_CPU_DEBUG=1", f"__NPU_ARCH__={target.arch.name}", *define)
    folders = [*(p.resolve() for p in include), _stand_ins(include, folder / "stand_ins")]
    # The user's macros come last, so that they take precedence.
    words = (cxx, *FLAGS, *(f"-D{m}" for m in macros), *(f"-I{p}" for p in folders))
    log = next((f for p in include for f in sorted(p.rglob("*.h")) if _asserts(f)), None)
    hardened = "" if log is None else _HARDENED.format(log=log.resolve())
    first = f'#include <type_traits>\n{hardened}#include "{OPERATOR}"\n{_wrapped(target)}'
    preludes = [(OPTIMISED, "prelude.h", first)]
    if target.arch.vector_registers:
        preludes.append((LOOKS_AT_CALLS, "calls.h", _MARKED))
    passes = []
    for flags, name, text in preludes:
        prelude = folder / name
        prelude.write_text(text, encoding="utf-8")
        alone = Compiler(words, folder, ((flags, ""),))
        problems = alone.errors({"all.cpp": f'#include "{prelude}"\n'}, "all.cpp")
        if problems:
            raise CheckError("the headers do not compile:\n  " + "\n  ".join(problems))
        made = [w for w in (*words, *flags) if w not in WRITES]
        ready = [*made, "-x", "c++-header", "-o", f"{prelude}.gch", str(prelude)]
        subprocess.run(ready, capture_output=True, timeout=LIMIT_S, check=False)
        passes.append((flags, str(prelude)))
    return Compiler(words, folder, tuple(passes))


def _stand_ins(include: Sequence[Path], folder: Path) -> Path:
    """Return a folder with stand-ins for included files that no folder of ``include`` has."""
    structs = sorted({f.resolve() for p in include for f in p.rglob("*_tilingdata.h")})
    for path, text in _STAND_INS.items():
        if any((p / path).is_file() for p in include):
            continue
        if path == "kernel_tiling/kernel_tiling.h":
            text = text.format(structs="\n".join(f'#include "{f}"' for f in structs))
        at = folder / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"#pragma once\n#include <cstdint>\n{text}", encoding="utf-8")
    return folder


def _asserts(path: Path) -> bool:
    """Return True if a header defines the assertion."""
    try:
        return _ASSERTION.search(path.read_bytes()) is not None
    except OSError:
        return False


def faults_for(target: TargetSpec) -> dict[str, str]:
    """Return the faults that must be refused on a chip: code by description."""
    lacking = {k: v for k, v in LACKING.items() if k in target.arch.lacks}
    hard = {
        f"{n} without arguments, which the documents exclude": f"AscendC::{n}();"
        for n in _hard(target)
    }
    own = FAULTS_ON_REGISTERS if target.arch.vector_registers else {}
    return {
        **FAULTS,
        **{f"{k}, which the architecture lacks": v for k, v in lacking.items()},
        **hard,
        **own,
    }


def sound_for(target: TargetSpec) -> str:
    """A source text that the compiler must accept."""
    return SOUND + (SOUND_ON_REGISTERS if target.arch.vector_registers else "")


def _hard(target: TargetSpec) -> tuple[str, ...]:
    return _NO_HARD.get(target.arch.name, ())


def check(compile_: Compiler, kernels: Sequence[Kernel], target: TargetSpec, jobs: int) -> int:
    """Compile the faults and the kernels, print a table and return the exit status."""
    faults = faults_for(target)
    problems = compile_.errors(with_calls(sound_for(target)), "planted.cpp")
    if problems:
        raise CheckError("sound calls are refused:\n  " + "\n  ".join(problems))
    passed = 0
    with ThreadPoolExecutor(jobs) as pool:
        planted = pool.map(lambda c: compile_.errors(with_calls(c), "planted.cpp"), faults.values())
        for name, found in zip(faults, planted, strict=True):
            print(f"{'refused' if found else 'ACCEPTED':10} fault   {name}", flush=True)
            passed += not found
        refused = 0
        compiled = pool.map(lambda k: compile_.errors(k.files, k.source), kernels)
        for kernel, found in zip(kernels, compiled, strict=True):
            print(f"{'REFUSED' if found else 'compiles':10} kernel  {kernel.name}", flush=True)
            for line in found:
                print(f"{'':19}{line}")
            refused += bool(found)
    print(f"\n{len(kernels)} kernels, {refused} refused; {len(faults)} faults, {passed} accepted")
    if passed:
        print("the check cannot fail: the headers accept a fault", file=sys.stderr)
        return 2
    if not kernels:
        raise CheckError("there is no kernel to compile")
    return 1 if refused else 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--include", action="append", type=Path, required=True, metavar="DIR")
    p.add_argument("--define", action="append", default=[], metavar="NAME[=VALUE]")
    p.add_argument("--target", default="ascend910b1", choices=target_names())
    p.add_argument("--sample", type=int, default=SAMPLE, metavar="N", help="ops; 0: all")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    p.add_argument("--cxx", default=os.environ.get("CXX", "g++"))
    args = p.parse_args(argv)
    if args.sample < 0 or args.jobs < 1:
        p.error("--sample is 0 or more, --jobs 1 or more")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script and return the exit status."""
    args = arguments(argv)
    target = load_target(args.target)
    try:
        with tempfile.TemporaryDirectory(prefix="autofuse-vendor-") as folder:
            at = Path(folder).resolve()
            made = compiler(args.cxx, args.include, args.define, target, at)
            return check(made, list(corpus(target, args.sample)), target, args.jobs)
    except CheckError as e:
        print(f"the check cannot be made: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
