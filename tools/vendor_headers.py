"""Compile generated kernels against the headers of the vendor that the user has.

    python tools/vendor_headers.py --include DIR [--include DIR ...]     the examples, and a sample of all ops
    python tools/vendor_headers.py --include DIR --sample 0              every op on every dtype: some hours
    python tools/vendor_headers.py --include DIR --target ascend310p     for another chip

The headers declare what the twin stands for: overloads, structs, dtypes.  A kernel that they refuse is a finding.  They
are those of a CPU build (``ASCENDC_CPU_DEBUG``), whose assertions say what an architecture has: a cast, a copy or a
shift that comes to one that fails whatever the data are is a finding too.  Nothing is run.

Faults are planted into a kernel as well: a wrong dtype, a call that does not exist, a wrong number of arguments.  Where
the headers let one pass, the check says nothing about that kind of fault.

Exit status 0: all kernels compile and all faults are refused; 1: a kernel does not compile; 2: the check cannot be
made, or cannot fail.
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
FLAGS = ("-std=c++17", "-O1", "-w", "-S", "-o", ASSEMBLY, "-fmax-errors=3")
OPERATOR = "kernel_operator.h"
#: The assertion of the headers, and what is made of it: a mark where its condition is known to fail.  In the files of
#: vector calls such a condition is about dtypes, unless it is plainly false.  Elsewhere headers choose by positions
#: when a kernel runs, and everywhere by round modes.
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
#: A call as a function of its own, with all that it calls: a mark is left in its assembly only if the call gets there.
#: Headers choose by round modes when a kernel runs, so these become arguments of the template.
_CAST = """
template <RoundMode kMode, typename T, typename U>
__attribute__((noinline, flatten)) void AutofuseCast(const LocalTensor<T>& dst, const LocalTensor<U>& src, uint32_t n) {
  Cast(dst, src, kMode, n);
}
"""
_CALL = """
template <typename... A>
__attribute__((noinline, flatten)) void Autofuse@(A&&... a) {
  @(static_cast<A&&>(a)...);
}
"""
#: Those that some architecture lacks.  Of all calls it would take minutes per kernel.
_MAY_LACK = ("Copy", "ShiftLeft", "ShiftRight")
_LABEL = re.compile(r"^([A-Za-z_$][\w.$]*):")
_WRAPPED = re.compile(r"Autofuse(Cast|Copy|ShiftLeft|ShiftRight)")
_MARK = re.compile(r"^\s+[a-z]+\s+autofuse_(never|dtype)\b")

#: What is declared where a fault is planted: tensors of several dtypes.
DECLARED = """
  AscendC::LocalTensor<float> f;
  AscendC::LocalTensor<half> h;
  AscendC::LocalTensor<int32_t> i;
  AscendC::LocalTensor<int64_t> w;
"""
#: Has to be accepted.
SOUND = """
  AscendC::Add(f, f, f, 64);
  AscendC::Adds(h, h, static_cast<half>(1.0f), 64);
  AscendC::Cast(i, f, AscendC::RoundMode::CAST_FLOOR, 64);
"""
#: What has to be refused, by the kind of the fault.
FAULTS = {
    "operands of two dtypes": "AscendC::Add(f, f, h, 64);",
    "a scalar of another dtype": "AscendC::Adds(h, h, 1.0f, 64);",
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
#: The same for an architecture that lacks the call.
LACKING = {
    "Copy": "AscendC::Copy(f, f, uint64_t{64}, uint8_t{1}, AscendC::CopyRepeatParams(1, 1, 8, 8));",
    "ShiftRight": "AscendC::ShiftRight(i, i, 1, 64);",
}


class CheckError(Exception):
    """The check cannot be made."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the corpus: ``files`` by path, one of them the source."""

    name: str
    source: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Compiler:
    """How a kernel is compiled for a chip: ``prelude`` is the path of what is included first."""

    command: tuple[str, ...]
    folder: Path
    prelude: str = ""

    def errors(self, files: Mapping[str, str], source: str) -> list[str]:
        """The errors of a source file; none if it compiles.

        Raises:
            CheckError: the compiler cannot be run, or takes too long.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            for path, text in files.items():
                at = folder / path
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_text(text, encoding="utf-8")
            first = ("-include", self.prelude) if self.prelude else ()
            words = [*self.command, *first, "-I.", "-Iinclude", source]
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


def _wrapped() -> str:
    """Calls as functions of their own, under the names of the calls."""
    functions = [_CAST, *(_CALL.replace("@", n) for n in _MAY_LACK)]
    macros = ["#define Cast(dst, src, mode, n) AutofuseCast<mode>(dst, src, n)"]
    macros += [f"#define {n}(...) Autofuse{n}(__VA_ARGS__)" for n in _MAY_LACK]
    return "\n".join(["namespace AscendC {", *functions, "}", *macros, ""])


def _reached(assembly: str) -> list[str]:
    """Calls that end in an assertion that always fails."""
    inside, found = "", set[str]()
    for line in assembly.splitlines():
        if label := _LABEL.match(line):
            inside = label[1]
        elif mark := _MARK.match(line):
            call = _WRAPPED.search(inside)
            if mark[1] == "dtype":
                found.add(f"a call does not take a dtype: in {inside}")
            elif call:
                found.add(f"{call[1]} is not supported in this way: {inside}")
    return sorted(found)


def _short(line: str) -> str:
    """An error without the folders of its file."""
    place, _, text = line.partition(": ")
    return f"{Path(place).name}: {text}" if text else line


def corpus(target: TargetSpec, sample: int) -> Iterator[Kernel]:
    """The examples, and ops on single dtypes: ``sample`` of those that the chip has, 0 for all."""
    for path in sorted(EXAMPLES.glob("*.json")):
        try:
            built = build(path, target=target)
        except AutofuseError:
            continue  # not for this chip
        yield Kernel(path.stem, f"device/{built.name}_kernel.cpp", built.files)
    singles = [(row, dtype) for row in all_ops(user=True) for dtype in DTYPES]
    # Evenly over the table, and as many more as are refused.
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
    """A kernel of nothing but these calls."""
    text = f'#include "{OPERATOR}"\nextern "C" __global__ __aicore__ void planted() {{{DECLARED}{calls}\n}}\n'
    return {"planted.cpp": text}


def compiler(
    cxx: str, include: Sequence[Path], define: Sequence[str], target: TargetSpec, folder: Path
) -> Compiler:
    """The compiler for a chip, with assertions that are errors and the headers read once.

    Raises:
        CheckError: the headers are not there or do not compile.
    """
    for path in include:
        if not path.is_dir():
            raise CheckError(f"there is no folder {path}")
    if not any((p / OPERATOR).is_file() for p in include):
        raise CheckError(f"no folder of --include has {OPERATOR}")
    macros = ("ASCENDC_CPU_DEBUG=1", f"__NPU_ARCH__={target.arch.name}", *define)
    # The user's macros are the last, so that they count.
    words = (cxx, *FLAGS, *(f"-D{m}" for m in macros), *(f"-I{p.resolve()}" for p in include))
    log = next((f for p in include for f in sorted(p.rglob("*.h")) if _asserts(f)), None)
    hardened = "" if log is None else _HARDENED.format(log=log.resolve())
    prelude = folder / "prelude.h"
    prelude.write_text(f'{hardened}#include "{OPERATOR}"\n{_wrapped()}', encoding="utf-8")
    problems = Compiler(words, folder).errors({"all.cpp": f'#include "{prelude}"\n'}, "all.cpp")
    if problems:
        raise CheckError("the headers do not compile:\n  " + "\n  ".join(problems))
    made = [w for w in words if w not in ("-S", "-o", ASSEMBLY)]
    ready = [*made, "-x", "c++-header", "-o", f"{prelude}.gch", str(prelude)]
    subprocess.run(ready, capture_output=True, timeout=LIMIT_S, check=False)
    return Compiler(words, folder, str(prelude))


def _asserts(path: Path) -> bool:
    """Whether a header defines the assertion."""
    try:
        return _ASSERTION.search(path.read_bytes()) is not None
    except OSError:
        return False


def faults_for(target: TargetSpec) -> dict[str, str]:
    """What has to be refused on a chip."""
    lacking = {k: v for k, v in LACKING.items() if k in target.arch.lacks}
    return {**FAULTS, **{f"{k}, which the architecture lacks": v for k, v in lacking.items()}}


def check(
    compile_: Compiler, kernels: Sequence[Kernel], faults: Mapping[str, str], jobs: int
) -> int:
    """Compile the faults and the kernels, print a table and return the exit status."""
    problems = compile_.errors(with_calls(SOUND), "planted.cpp")
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
    """The command line."""
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
    """Run the script; returns the exit status."""
    args = arguments(argv)
    target = load_target(args.target)
    try:
        with tempfile.TemporaryDirectory(prefix="autofuse-vendor-") as folder:
            at = Path(folder).resolve()
            made = compiler(args.cxx, args.include, args.define, target, at)
            return check(made, list(corpus(target, args.sample)), faults_for(target), args.jobs)
    except CheckError as e:
        print(f"the check cannot be made: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
