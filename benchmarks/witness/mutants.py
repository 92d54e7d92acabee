"""Remove one ordering call from kernels, and compare whether the twin or the card notices.

    python benchmarks/witness/mutants.py pack FOLDER GRAPH... [--seed 1]
    python benchmarks/witness/campaign.py FOLDER --out OUT --repeats 5 --timeout 3
    python benchmarks/witness/mutants.py table FOLDER OUT

A mutant lacks one barrier of the vector pipe, one pair of EnQue and DeQue, one pair of flags, or one SyncAll, in one
template.  The twin runs it with all checks, in program order and in others; a finding or a wrong element kills it.
The card kills it by an element that differs from the twin's result without the mutation, by a failed launch, or by one
that does not end.  There are three reasons why neither kills a mutant: no run reaches it, because the twin does not see
a fault planted in its place either; it lacks a pair of EnQue and DeQue that the next pair implies, by :func:`implied`;
or its call orders nothing in these runs, because the twin has seen no two conflicting accesses without other ordering.
The exit status of ``table`` is 1 if the card kills a mutant that survives the twin.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from pack import Options, copy_code, graphs_of, packed_files, runs_of
from packed import PackedCase, PackedRun, write_case

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.run.compile import QUICK, compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of

#: Lines to remove, by class, with the matching line of a pair.
_BARRIER = re.compile(r"\s*PipeBarrier<PIPE_V>\(\);")
_SYNC = re.compile(r"\s*SyncAll\b.*;")
_ENQUE = re.compile(r"\s*(?P<queue>\w+)\.EnQue<\w+>\((?P<local>\w+)\);")
_SET = re.compile(r"\s*SetFlag(?P<what><[^;]*);")
#: Fault planted in a line that must be reached: a wait for a flag that is never set.
_PLANTED = "WaitFlag<HardEvent::V_S>(7);\n"
#: Allowed between two pairs if the second implies the first: nothing that reads the copied data.
_COPIES = re.compile(
    r"\s*(//.*|LocalTensor<.*AllocTensor<\w+>\(\);|DataCopyPad\(\w+_local\[0\], \w+_gm\[.*\);)"
)
#: Orders of the twin's scheduler, elements of a tensor, and number of size sets to try.
_ORDERS, _ELEMENTS, _SIZES = (0, 1, 2), 8192, 2
#: With few cores, a core takes several tiles, as for large tensors.
_CORES = (0, 2)
#: Mutants per kernel and class.
_EACH = 2


def mutants_of(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield (class, line from 1, text) of every mutant."""
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        found = next(
            ((k, m) for k, p in _CLASSES.items() if (m := p.fullmatch(line.rstrip("\n")))), None
        )
        if found is None:
            continue
        kind, m = found
        left_out = {i}
        if kind in ("queue", "flag"):
            other = _other(lines, i, kind, m)
            if other is None:
                continue
            left_out.add(other)
        yield kind, i + 1, "".join(x for k, x in enumerate(lines) if k not in left_out)


_CLASSES = {"barrier": _BARRIER, "queue": _ENQUE, "flag": _SET, "sync": _SYNC}


def _other(lines: Sequence[str], i: int, kind: str, m: re.Match[str]) -> int | None:
    """Return the line with the other half of a pair: the next one that matches."""
    start = f"{m['local']} = {m['queue']}.DeQue<" if kind == "queue" else f"WaitFlag{m['what']};"
    return next((k for k in range(i + 1, len(lines)) if lines[k].strip().startswith(start)), None)


def implied(text: str, line: int) -> bool:
    """Return True if the next pair implies the order of the EnQue and DeQue at a line of a kernel.

    This holds if a copy from GM filled the tensor, and another tensor is copied and awaited after it before any other
    call: MTE2 completes copies in order, so waiting for the later one waits for both.  Calls that span lines count as
    other calls.

    Args:
        text: text of the kernel.
        line: line of the EnQue, from 1.
    """
    lines = text.splitlines()
    at = line - 1
    if not _copied(lines, at):
        return False
    for k in range(at + 2, len(lines)):
        if _ENQUE.fullmatch(lines[k]):
            return _copied(lines, k) and "DeQue<" in lines[k + 1]
        if not _COPIES.fullmatch(lines[k]):
            return False
    return False


def _copied(lines: Sequence[str], at: int) -> bool:
    """Return True if the line before an EnQue copies its tensor from GM."""
    m = _ENQUE.fullmatch(lines[at])
    return m is not None and lines[at - 1].strip().startswith(f"DataCopyPad({m['local']}[0], ")


def reached(
    files: Mapping[str, str],
    device: str,
    line: int,
    graph: FusionGraph,
    runs: Sequence[PackedRun],
) -> bool:
    """Return True if a run reaches a line of the kernel: the twin finds a fault planted there."""
    lines = files[device].splitlines(keepends=True)
    lines.insert(line - 1, _PLANTED)
    return bool(verdict_of({**files, device: "".join(lines)}, graph, runs)["killed"])


def verdict_of(
    files: Mapping[str, str], graph: FusionGraph, runs: Sequence[PackedRun]
) -> dict[str, Any]:
    """Return the twin's verdict on a mutant: the codes of its findings, and whether an element is wrong."""
    library = compile_kernel(files, graph.name, opt=QUICK, checked=True)
    chip = chip_of(files, graph.name)
    codes: set[str] = set()
    differs = False
    for r in runs:
        inputs = random_inputs(graph, r.symbols, r.seed)
        references = evaluate(graph, inputs, r.symbols)
        for order in _ORDERS:
            kernel = TwinKernel(library, graph, check="all", check_seed=order, chip=chip)
            try:
                given = {n: a.copy() for n, a in inputs.items()}
                done = kernel.run(given, symbols=r.symbols, key=r.key, cores=r.cores)
            except AutofuseError as e:
                codes.update(d.code for d in e.diagnostics)
                return {"killed": True, "codes": sorted(codes), "differs": differs}
            for o in graph.outputs:
                dtype = graph.tensors[o.tensor].dtype
                differs |= not compare(o.name, done.outputs[o.name], references[o.name], dtype).ok
    return {"killed": differs, "codes": [], "differs": differs}


def pack_kernel(path: Path, name: str, o: Options) -> list[str]:
    """Pack mutants of a graph's kernel and return the outcome of each in words."""
    graph = api.read(path)
    built = api.build(graph, target=o.target)
    graph, files = built.graph, dict(built.files)
    device = f"device/{graph.name}_kernel.cpp"
    library = compile_kernel(files, graph.name, opt=QUICK)
    kernel = TwinKernel(library, graph, chip=chip_of(files, graph.name))
    runs = list(runs_of(kernel, o))
    draw = random.Random(f"{o.seed} {name}")
    found = list(mutants_of(files[device]))
    out = []
    for kind in _CLASSES:
        own = [m for m in found if m[0] == kind]
        for _, line, text in draw.sample(own, min(_EACH, len(own))):
            case = f"{name}__{kind}_{line}"
            start = time.perf_counter()
            changed = {**files, device: text}
            try:
                verdict = verdict_of(changed, graph, runs)
            except AutofuseError as e:
                out.append(f"{case}: left out: {e.diagnostics[0].code}")
                continue
            about = {"kind": kind, "line": line, "kernel": name, **verdict}
            if not verdict["killed"]:
                about["implied"] = kind == "queue" and implied(files[device], line)
                about["reached"] = reached(files, device, line, graph, runs)
            write_case(
                o.folder,
                PackedCase(case, graph, packed_files(changed, graph.name), kernel.key_count, runs),
            )
            place = o.folder / "verdicts" / f"{case}.json"
            place.parent.mkdir(exist_ok=True)
            place.write_text(json.dumps(about))
            out.append(f"{case}: {verdict}, {time.perf_counter() - start:.1f} s")
    return out


def table(
    verdicts: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, bool]:
    """Return counts by class, and True if the twin kills every mutant that the card kills."""
    counts: Counter[tuple[str, bool, bool]] = Counter()
    holes, lived = [], set()
    for row in rows:
        twin = verdicts[row["name"]]
        card = killed_by_card(row)
        counts[twin["kind"], twin["killed"], bool(card)] += 1
        if not (card or twin["killed"]):
            lived.add(row["name"])
        if card and not twin["killed"]:
            holes.append(f"CARD ALONE {row['name']}: {card}")
    head = f"{'class':10}{'mutants':>9}{'both':>7}{'twin':>7}{'card':>7}{'neither':>9}"
    lines = [f"{head}{'not reached':>13}{'implied':>9}"]
    for kind in _CLASSES:
        both, twin, card, neither = (
            counts[kind, t, c]
            for t, c in ((True, True), (True, False), (False, True), (False, False))
        )
        total = both + twin + card + neither
        left = [v for n, v in verdicts.items() if v["kind"] == kind and n in lived]
        away = sum(not v.get("reached", True) for v in left)
        same = sum(v.get("implied", False) for v in left)
        lines.append(f"{kind:10}{total:9}{both:7}{twin:7}{card:7}{neither:9}{away:13}{same:9}")
    return "\n".join([*lines, *holes]), not holes


def killed_by_card(row: Mapping[str, Any]) -> str:
    """Return how the card kills a mutant; empty if it survives."""
    for r in row["runs"]:
        if r.get("failed"):
            return str(r["failed"])[:120]
        for o in r.get("outputs", ()):
            if o["wrong"] or o.get("differ"):
                return f"key {r['key']}: {o['wrong']} wrong, {o.get('differ', 0)} groups differ"
    return str(row.get("failed", ""))[:120]


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    pack = verbs.add_parser("pack")
    pack.add_argument("folder", type=Path)
    pack.add_argument("graphs", type=Path, nargs="+")
    pack.add_argument("--target", default=api.DEFAULT_TARGET)
    pack.add_argument("--seed", type=int, default=1)
    pack.add_argument("--jobs", type=int, default=1)
    shown = verbs.add_parser("table")
    shown.add_argument("folder", type=Path)
    shown.add_argument("out", type=Path)
    args = parser.parse_args(argv)
    if args.verb == "table":
        files = (args.folder / "verdicts").glob("*.json")
        verdicts = {p.name.removesuffix(".json"): json.loads(p.read_text()) for p in files}
        lines = (args.out / "results.jsonl").read_text().splitlines()
        text, ok = table(verdicts, [json.loads(x) for x in lines])
        print(text)
        return 0 if ok else 1
    o = Options(args.folder, args.target, _SIZES, _ELEMENTS, 0, args.seed, cores=_CORES)
    copy_code(args.folder)
    with ProcessPoolExecutor(args.jobs) as pool:
        wanted = graphs_of(args.graphs, None, args.seed)
        jobs = [pool.submit(pack_kernel, p, n, o) for n, p in wanted.items()]
        for job in jobs:
            print("\n".join(job.result()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
