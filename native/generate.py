"""Python modules of autofuse -> C, by mypyc.

    python native/generate.py src BUILD_FOLDER autofuse.schedule.cost.solver autofuse.implgraph.expr.expression ...

Writes into the folder what native/CMakeLists.txt compiles: ``autofuse/__native__native.c``, one library with the code
of all modules, so that calls between them are calls of C functions; and a small file for each module, by which Python
finds it there: ``autofuse/schedule/solver.c`` and so on.  Exits with 1 and the reason where mypyc refuses a module.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from frozen_classes import with_native_classes
from mypyc.build import mypycify

#: The library is the module ``autofuse._native__mypyc``; mypyc appends the end of the name.
GROUP = "autofuse._native"


def main() -> int:
    """Generate what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="the folder that holds the package autofuse")
    parser.add_argument("out", type=Path, help="the folder for the C files")
    parser.add_argument("modules", nargs="+", help="dotted names")
    args = parser.parse_args()
    out = args.out.resolve()
    paths = [f"{name.replace('.', '/')}.py" for name in args.modules]
    # Module names follow from paths that start in the source folder.
    os.chdir(_written_out(args.source, paths, out / "src"))
    options = [
        # Not the project's own settings: what they ask for is no matter of compiling, and the environment of a build
        # has none of the packages that autofuse needs to run.
        "--config-file=",
        "--ignore-missing-imports",
        # Modules that are not compiled are read for their types alone.
        "--follow-imports=silent",
        # Where frozen classes are written out, ``__init__`` assigns to what nobody else may.
        "--disable-error-code=misc",
        f"--cache-dir={out / 'mypy_cache'}",
    ]
    mypycify([*options, *paths], target_dir=str(out), group_name=GROUP)
    return 0


def _written_out(source: Path, paths: list[str], folder: Path) -> Path:
    """A copy of the sources, with the frozen classes of what is compiled written out."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.so"))
    for path in paths:
        file = folder / path
        text = file.read_text(encoding="utf-8")
        file.write_text(with_native_classes(text), encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(main())
