"""Run KernelGen's own converter, from a checkout of its repository, on the four files of operators.

    git clone https://github.com/flagos-ai/KernelGen
    python benchmarks/kernelgen_converter.py --checkout KernelGen [--akg DIR --count 60] [GRAPH ...]

Without graphs it takes those of the gallery, and with ``--akg`` ``--count`` graphs of the corpus, drawn by ``--seed``.
The converter is not included here: CI tests a reimplementation of its rules
(``autofuse.clients.kernelgen.files.converter_rules``).

An operator is accepted if the converter succeeds, the kernels are unchanged byte for byte, and its test is valid Python
with all names defined and without any text that the converter should have replaced.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import define
from autofuse.clients.kernelgen.files.generate import four_files
from autofuse.clients.kernelgen.files.interface import findings
from autofuse.clients.kernelgen.files.naming import operator_name
from autofuse.targets import find_target

REPO = Path(__file__).resolve().parent.parent
CONVERTER = Path("tools") / "kernelgen_to_flaggems.py"
#: Text that the conversion must replace.
WORDS = ("bench.", "to_reference", "@label", "@parametrize", "from bench.")
#: Import in its test for KernelGen's timing; the converter keeps it.
KEPT = "from bench_v2."


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", type=Path, help="graph files  [default: the gallery]")
    parser.add_argument("--checkout", type=Path, required=True, help="of flagos-ai/KernelGen")
    parser.add_argument("--akg", type=Path, help="a folder of AKG info files to draw from")
    parser.add_argument("--count", type=int, default=60, help="how many  [default: 60]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-t", "--target", default="nvidia-h100")
    parser.add_argument("--keep", type=Path, help="a folder for all files")
    options = parser.parse_args()
    tool = options.checkout / CONVERTER
    if not tool.is_file():
        parser.error(f"there is no {CONVERTER} in {options.checkout}")
    graphs = options.graphs or sorted((REPO / "examples" / "gallery").glob("*.json"))
    with tempfile.TemporaryDirectory() as folder:
        out = options.keep or Path(folder)
        given = [tried(p, tool, options.target, out / "given") for p in graphs]
        drawn = []
        if options.akg:
            files = sorted(options.akg.rglob("*.json"))
            random.Random(options.seed).shuffle(files)
            drawn = list(first(files, options.count, tool, options.target, out / "akg"))
    report("given" if options.graphs else "gallery", given)
    report("akg", drawn)
    sys.exit(any(not ok for _, ok, _ in (*given, *drawn)))


def first(
    files: list[Path], count: int, tool: Path, target: str, out: Path
) -> Iterator[tuple[str, bool, str]]:
    """Yield the first graphs with Triton kernels; others, such as matrix products, are skipped and counted."""
    passed = found = 0
    for path in files:
        if found == count:
            break
        result = tried(path, tool, target, out)
        if not result[1] and result[2].startswith("refused"):
            passed += 1
            continue
        found += 1
        yield result
    print(f"akg: {passed} graphs are refused by the backend and were passed over")


def tried(path: Path, tool: Path, target: str, out: Path) -> tuple[str, bool, str]:
    """Convert a graph; return its name, whether it is accepted, and the reason if not."""
    try:
        graph = api.read(path)
        definition = define(graph, find_target(target), requirement=path.name)
        files = four_files(definition)
    except AutofuseError as e:
        return path.stem, False, f"refused: {str(e).splitlines()[0]}"
    name = operator_name(definition.graph)
    folder, made = out / name / "in", out / name / "out"
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    ours = findings(files)
    if ours:
        return name, False, f"our own check: {ours[0]}"
    command = [sys.executable, str(tool), str(folder), str(made), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return name, False, f"the converter: {(done.stdout + done.stderr).strip().splitlines()[-1]}"
    wrong = next(faults(files, made, name), "")
    return name, not wrong, wrong


def faults(files: Mapping[str, str], made: Path, name: str) -> Iterator[str]:
    """Yield the faults of the converted files."""
    if (made / f"{name}.py").read_text(encoding="utf-8") != files[f"{name}_triton.py"]:
        yield "the kernels are not those that were given"
    text = (made / f"{name}_test.py").read_text(encoding="utf-8")
    for line in text.splitlines():
        if KEPT not in line and any(w in line for w in WORDS):
            yield f"left as it was: {line.strip()}"
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        yield f"the test is no Python: line {e.lineno}, {e.msg}"
        return
    tests = [f.name for f in tree.body if isinstance(f, ast.FunctionDef)]
    if tests != [f"{name}_baseline", f"test_{name}", f"test_{name}_performance"]:
        yield f"the functions are {tests}"
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    known = {n.id for n in names if isinstance(n.ctx, ast.Store)} | set(dir(builtins)) | set(tests)
    known |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    for n in ast.walk(tree):
        if isinstance(n, ast.Import | ast.ImportFrom):
            known |= {(a.asname or a.name).partition(".")[0] for a in n.names}
    for n in names:
        if n.id not in known:
            yield f"{n.id} is not defined, line {n.lineno}"


def report(title: str, results: list[tuple[str, bool, str]]) -> None:
    """Print the lines of one set."""
    for name, ok, why in results:
        if not ok:
            print(f"{title}: {name}: {why}")
    if results:
        print(f"{title}: {sum(ok for _, ok, _ in results)} of {len(results)} accepted")


if __name__ == "__main__":
    main()
