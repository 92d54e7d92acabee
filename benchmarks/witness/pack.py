"""Pack graphs, their kernels and their runs for a machine with a card.

    python benchmarks/witness/pack.py FOLDER GRAPH... [--target ascend910b1] [--sizes 3] [--most 131072] [--large 0]

Every graph is built, compiled for the CPU twin, and run there with every tiling key that takes the sizes.  The folder
gets the kernels, the tilings, the seeds of the data, checksums of what the twin gave, and all that campaign.py needs
of this project, so that nothing else has to be there.  With --large N there is one more set of sizes, with tensors of
up to N elements, which the twin does not run.  Graphs that are there already are left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packed import PackedCase, PackedRun, digest_of, sums_of, write_case

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.twin.oracle.data import random_inputs
from autofuse.twin.oracle.oracle import shape_of
from autofuse.twin.oracle.sizes import shapes_for
from autofuse.twin.run.compile import QUICK, compile_kernel
from autofuse.twin.run.kernel import TwinKernel, chip_of
from autofuse.twin.run.native import StatusError
from autofuse.witness.nvcc import headers

HERE = Path(__file__).resolve().parent
#: What is read there of the package: not its compiled parts.
_CODE = (".py", ".toml", ".jinja", ".h", ".json")


@dataclass(frozen=True, slots=True)
class Options:
    """What is packed of every graph."""

    folder: Path
    target: str
    sizes: int
    most: int
    large: int
    seed: int


def elements_of(graph: FusionGraph, symbols: Mapping[str, int]) -> int:
    """Of the largest tensor."""
    largest = 0
    for t in graph.tensors.values():
        n = 1
        for e in shape_of(t.shape, symbols):
            n *= e
        largest = max(largest, n)
    return largest


def runs_of(kernel: TwinKernel, o: Options) -> Iterator[PackedRun]:
    """The runs of a kernel, on the twin where it is not too large."""
    graph = kernel.graph
    wanted = [(s, True) for s in shapes_for(graph, o.sizes, o.seed, max_elements=o.most)]
    if o.large:
        wanted += [
            (s, False)
            for s in shapes_for(graph, 4, o.seed, max_elements=o.large)[-1:]
            if (s, True) not in wanted
        ]
    for i, (symbols, twin) in enumerate(wanted):
        on_twin = twin and elements_of(graph, symbols) <= 4 * o.most
        order = [symbols[s.name] for s in graph.symbols]
        inputs = random_inputs(graph, symbols, o.seed + i)
        for key in range(kernel.key_count):
            try:
                tiling = kernel.library.tiling(order, key)
            except StatusError as e:
                if e.not_applicable:
                    continue
                raise
            given = {n: a.copy() for n, a in inputs.items()}
            found = kernel.run(given, symbols=symbols, key=key).outputs if on_twin else {}
            yield PackedRun(
                symbols,
                key,
                o.seed + i,
                tiling,
                digest_of(inputs),
                {n: sums_of(a) for n, a in found.items()},
            )


def pack_one(source: Path | FusionGraph, name: str, o: Options) -> str:
    """Pack a graph; what came of it in words."""
    start = time.perf_counter()
    try:
        graph = api.read(source)
        if elements_of(graph, {s.name: s.min for s in graph.symbols}) > max(4 * o.most, o.large):
            graph = shrink(graph, o.most)
        built = api.build(graph, target=o.target)
        files = built.files
        library = compile_kernel(files, built.graph.name, opt=QUICK)
        kernel = TwinKernel(library, built.graph, chip=chip_of(files, built.graph.name))
        runs = list(runs_of(kernel, o))
    except AutofuseError as e:
        return f"{name}: left out: {e.diagnostics[0].code} {e.diagnostics[0].message[:80]}"
    code = packed_files(files, built.graph.name)
    write_case(o.folder, PackedCase(name, built.graph, code, kernel.key_count, runs))
    return f"{name}: {len(runs)} runs, {time.perf_counter() - start:.1f} s"


def packed_files(files: Mapping[str, str], name: str) -> dict[str, str]:
    """What is compiled for a card, and what says how it is called; the launcher is there by name only."""
    wanted = (f"{name}.json", "autofuse_tiling_data.h")
    kept = {p: t for p, t in files.items() if p.startswith(("device/", "include/")) or p in wanted}
    return {**kept, f"host/{name}_launch.cpp": ""}


def copy_code(folder: Path) -> None:
    """What campaign.py needs of the project."""
    package = Path(api.__file__).resolve().parent
    for target, source, kept in (
        ("autofuse", package, _CODE),
        ("runtime/cuda/autofuse_cuda", headers().include[0], (".h",)),
        ("runtime/include/autofuse_twin", headers().include[-1] / "autofuse_twin", (".h",)),
    ):
        place = folder / "project" / target
        shutil.rmtree(place, ignore_errors=True)
        for f in _files(source):
            if f.suffix in kept and "__pycache__" not in f.parts:
                to = place / f.relative_to(source)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(f, to)
    for f in HERE.glob("*.py"):
        shutil.copyfile(f, folder / f.name)


def _files(folder: Path) -> Iterator[Path]:
    """All files, those behind links as well."""
    for p in sorted(folder.iterdir()):
        if p.is_dir():
            yield from _files(p)
        else:
            yield p


def graphs_of(given: Sequence[Path], limit: int | None, seed: int) -> dict[str, Path]:
    """Files by the name of their case."""
    paths: list[Path] = []
    for p in given:
        found = sorted(p.rglob("*.json")) if p.is_dir() else [p]
        if p.is_dir() and limit is not None and limit < len(found):
            found = sorted(random.Random(seed).sample(found, limit))
        paths += found
    out: dict[str, Path] = {}
    for p in paths:
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in p.stem)[:60]
        name, k = stem, 1
        while name in out:
            k += 1
            name = f"{stem}_{k}"
        out[name] = p
    return out


def main(argv: list[str] | None = None) -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("graphs", type=Path, nargs="*", help="graph files, or folders of them")
    parser.add_argument("--target", default=api.DEFAULT_TARGET)
    parser.add_argument("--sizes", type=int, default=3, help="sets of sizes of a dynamic graph")
    parser.add_argument(
        "--most", type=int, default=1 << 17, help="elements of a tensor on the twin"
    )
    parser.add_argument("--large", type=int, default=0, help="elements of one more set of sizes")
    parser.add_argument("--limit", type=int, help="so many files of a folder, chosen by the seed")
    parser.add_argument("--ops", action="store_true", help="every op of the registry by dtype")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(argv)
    o = Options(args.folder, args.target, args.sizes, args.most, args.large, args.seed)
    wanted: dict[str, Path | FusionGraph] = dict(graphs_of(args.graphs, args.limit, args.seed))
    there = {p.name for p in (args.folder / "cases").glob("*.json.gz")}
    if args.ops:
        from op_kernels import op_kernels

        wanted |= dict(op_kernels())
    todo = {n: p for n, p in wanted.items() if f"{n}.json.gz" not in there}
    copy_code(args.folder)
    with ProcessPoolExecutor(args.jobs) as pool:
        jobs: list[Any] = [pool.submit(pack_one, p, n, o) for n, p in todo.items()]
        for job in jobs:
            print(job.result(), flush=True)
    size = sum(f.stat().st_size for f in args.folder.rglob("*") if f.is_file())
    print(f"{args.folder}: {size / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
