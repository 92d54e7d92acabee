"""Pack graphs, their kernels and their runs for a machine with a card.

    python benchmarks/witness/pack.py FOLDER GRAPH... [--target ascend910b1] [--sizes 3] [--most 131072] [--large 0]

Every graph is built, compiled for the CPU twin, and run there with every tiling key that accepts the sizes.  The folder
gets the kernels, the tilings, the seeds of the data, checksums of the twin's results, and the parts of this project
that campaign.py needs, so that it is self-contained.  --large N adds a set of sizes with tensors of up to N elements,
which the twin does not run.  With --own N graphs keep their published sizes, up to N elements in a tensor, and the twin
runs those of up to 2^22; otherwise large ones are shrunk.  --storms N adds N random graphs of every family of shape
storms.  Graphs already in the folder are skipped.
"""

from __future__ import annotations

import argparse
import itertools
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
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for
from autofuse.machines.twin.run.compile import QUICK, compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of
from autofuse.machines.twin.run.native import StatusError
from autofuse.machines.witness.nvcc import headers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "support"))
#: Maximum elements of a tensor that the twin runs if graphs keep their sizes.
TWIN_MOST = 1 << 22
#: Suffixes of the package files to copy, without its compiled parts.
_CODE = (".py", ".toml", ".jinja", ".h", ".json")


@dataclass(frozen=True, slots=True)
class Options:
    """Options for packing graphs.

    Attributes:
        folder: the output folder.
        target: target of the kernels.
        sizes: number of size sets of a dynamic graph.
        most: maximum number of elements of a tensor.
        large: maximum for one more size set, which the twin does not run; 0: no such set.
        seed: seed of sizes and data.
        own: elements of a tensor up to which a graph keeps its sizes; 0: it is shrunk to ``most``.
        cores: limits on cores; everything runs with each of them; 0: no limit.
    """

    folder: Path
    target: str
    sizes: int
    most: int
    large: int
    seed: int
    own: int = 0
    cores: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Storm:
    """A random graph with its build and run parameters.

    Attributes:
        document: the graph.
        bindings: sizes of its symbols for each run.
        ub_bytes: bytes of UB for its kernel; None: all.
    """

    document: Mapping[str, Any]
    bindings: Sequence[Mapping[str, int]]
    ub_bytes: int | None


def runs_of(
    kernel: TwinKernel, o: Options, bindings: Sequence[Mapping[str, int]] | None = None
) -> Iterator[PackedRun]:
    """Yield the runs of a kernel, with the twin's results unless too large; ``bindings``: only these sizes."""
    graph = kernel.graph
    if bindings is None:
        bindings = shapes_for(graph, o.sizes, o.seed, max_elements=o.most)
    wanted = [(s, True) for s in bindings]
    if o.large:
        wanted += [
            (s, False)
            for s in shapes_for(graph, 4, o.seed, max_elements=o.large)[-1:]
            if (s, True) not in wanted
        ]
    for i, (symbols, twin) in enumerate(wanted):
        most = TWIN_MOST if o.own else 4 * o.most
        on_twin = twin and largest_tensor(graph, symbols) <= most
        order = [symbols[s.name] for s in graph.symbols]
        # Data that the twin does not use are generated on the card's machine.
        inputs = random_inputs(graph, symbols, o.seed + i) if on_twin else {}
        digest = digest_of(inputs) if on_twin else ""
        for key, cores in itertools.product(range(kernel.key_count), o.cores):
            try:
                tiling = kernel.library.tiling(order, key, cores)
            except StatusError as e:
                if e.not_applicable:
                    continue
                raise
            given = {n: a.copy() for n, a in inputs.items()}
            found = {}
            if on_twin:
                found = kernel.run(given, symbols=symbols, key=key, cores=cores).outputs
            yield PackedRun(
                symbols,
                key,
                o.seed + i,
                tiling,
                digest,
                {n: sums_of(a) for n, a in found.items()},
                cores,
            )


def pack_one(source: Path | FusionGraph | Storm, name: str, o: Options) -> str:
    """Pack a graph and return the outcome in words."""
    start = time.perf_counter()
    try:
        storm = source if isinstance(source, Storm) else None
        graph = api.read(storm.document if storm else source)
        elements = largest_tensor(graph, {s.name: s.min for s in graph.symbols})
        if o.own and elements > o.own:
            return f"{name}: left out: {elements} elements"
        if not o.own and elements > max(4 * o.most, o.large):
            graph = shrink(graph, o.most)
        built = api.build(graph, target=o.target, ub_bytes=storm.ub_bytes if storm else None)
        files = built.files
        library = compile_kernel(files, built.graph.name, opt=QUICK)
        kernel = TwinKernel(library, built.graph, chip=chip_of(files, built.graph.name))
        runs = list(runs_of(kernel, o, _sizes_of(storm, built.graph) if storm else None))
    except AutofuseError as e:
        return f"{name}: left out: {e.diagnostics[0].code} {e.diagnostics[0].message[:80]}"
    code = packed_files(files, built.graph.name)
    write_case(o.folder, PackedCase(name, built.graph, code, kernel.key_count, runs))
    return f"{name}: {len(runs)} runs, {time.perf_counter() - start:.1f} s"


def _sizes_of(storm: Storm, graph: FusionGraph) -> list[dict[str, int]] | None:
    from storm_cases import fitted

    return fitted(graph, storm.bindings) or None


def packed_files(files: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the files needed to compile for a card and those that describe the call; the launcher is left empty."""
    wanted = (f"{name}.json", "autofuse_tiling_data.h")
    kept = {p: t for p, t in files.items() if p.startswith(("device/", "include/")) or p in wanted}
    return {**kept, f"host/{name}_launch.cpp": ""}


def copy_code(folder: Path) -> None:
    """Copy the parts of the project that campaign.py needs."""
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
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE.parent / "gpu", folder / "gpu", dirs_exist_ok=True, ignore=ignored)
    for f in HERE.glob("*.py"):
        shutil.copyfile(f, folder / f.name)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files, following links."""
    for p in sorted(folder.iterdir()):
        if p.is_dir():
            yield from _files(p)
        else:
            yield p


def graphs_of(
    given: Sequence[Path], limit: int | None, seed: int, between: tuple[int, int] = (0, 0)
) -> dict[str, Path]:
    """Return files by case name; ``between`` limits the elements of a tensor for graphs from folders."""
    paths: list[Path] = []
    for p in given:
        found = sorted(p.rglob("*.json")) if p.is_dir() else [p]
        if p.is_dir() and between[1]:
            found = [f for f in found if between[0] < _elements_in(f) <= between[1]]
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


def _elements_in(path: Path) -> int:
    try:
        graph = api.read(path)
    except AutofuseError:
        return 0
    return largest_tensor(graph, {s.name: s.min for s in graph.symbols})


def storms(each: int, seed: int) -> Iterator[tuple[str, Storm]]:
    """Yield ``each`` random graphs of every family, with the sizes that a storm would try."""
    from storm_strategies import FAMILIES, random_case

    for family in FAMILIES:
        for k in range(each):
            case = random_case(random.Random(f"{family} {seed} {k}"), family)
            name = f"storm_{family}_{seed}_{k}"
            yield name, Storm(case.document, case.bindings, case.ub_bytes)


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("graphs", type=Path, nargs="*", help="graph files, or folders of them")
    parser.add_argument("--target", default=api.DEFAULT_TARGET)
    parser.add_argument("--sizes", type=int, default=3, help="sets of sizes of a dynamic graph")
    parser.add_argument(
        "--most", type=int, default=1 << 17, help="elements of a tensor on the twin"
    )
    parser.add_argument("--large", type=int, default=0, help="elements of one more set of sizes")
    parser.add_argument("--own", type=int, default=0, help="keep sizes of up to so many elements")
    parser.add_argument("--least", type=int, default=0, help="with --own: only of more elements")
    parser.add_argument("--storms", type=int, default=0, help="random graphs of every family")
    parser.add_argument("--limit", type=int, help="so many files of a folder, chosen by the seed")
    parser.add_argument("--ops", action="store_true", help="every op of the registry by dtype")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(argv)
    o = Options(args.folder, args.target, args.sizes, args.most, args.large, args.seed, args.own)
    given = graphs_of(args.graphs, args.limit, args.seed, (args.least, args.own))
    wanted: dict[str, Path | FusionGraph | Storm] = dict(given)
    wanted |= dict(storms(args.storms, args.seed))
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
