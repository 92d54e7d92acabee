"""Whole networks from the ``onnx`` package: regions, fallbacks, bytes and times.

    python benchmarks/clients/onnx_networks.py                     all of them, as a Markdown table
    python benchmarks/clients/onnx_networks.py --model squeezenet  those with this in their name
    python benchmarks/clients/onnx_networks.py --json
    python benchmarks/clients/onnx_networks.py --write             and keep the table: docs/onnx_networks.md

Every network is partitioned and run on the CPU twin, with ``onnx.reference`` for the rest; every region and the output
are compared with it.  The twin counts bytes; times are of this machine, including g++ for kernels that are not cached.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from autofuse.clients.onnx import models

PAGE = Path(__file__).parents[2] / "docs" / "onnx_networks.md"
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

_HEAD = (
    "network",
    "nodes",
    "known",
    "in kernels",
    "regions",
    "kernels",
    "views",
    "by `onnx.reference`",
    "moved, MB",
    "unfused, MB",
    "regions that agree",
    "output",
    "build, s",
    "run, s",
)

_TEXT = """\
# Networks of the onnx package

Made by `python benchmarks/clients/onnx_networks.py --write`; do not edit.
[onnx.md](onnx.md) says how models are partitioned.

The networks are those that `onnx` {version} ships for its own tests. Most of their weights are one constant, so the
results of the networks say little; every region is compared for itself too. *Moved* is what the kernels of the regions
read and write, counted by the CPU twin; *unfused* what their nodes would, every operand and every result once (model).
LRN alone moves more, because a kernel reads a window of channels again. Seconds are measured on a machine with other
work to do, and say how long to wait, no more; *run* has g++ for kernels that are not in the cache, `onnx.reference` for
all nodes, and the comparison. Nothing ran on a chip.

"""


def networks() -> list[Path]:
    """Return the model files."""
    return sorted(_LIGHT.glob("*.onnx"), key=lambda p: p.name)


def measure(path: Path) -> dict[str, Any]:
    """Build and run one network."""
    start = time.perf_counter()
    built = models.build(path)
    ready = time.perf_counter()
    done = models.run(built)
    end = time.perf_counter()
    ops = {p.index: p.op for p in built.pieces.pieces}
    (output,) = done.compared
    agree = "agrees" if output["ok"] else "ill-conditioned" if output["ill_conditioned"] else "no"
    return {
        "name": path.stem.removeprefix("light_"),
        **built.manifest["counts"],
        "fallback_ops": dict(Counter(ops[f.node] for f in built.fallbacks)),
        "views": sum(not r.kernel for r in built.regions),
        "moved": sum(r["bytes_moved"] or 0 for r in done.regions),
        "unfused": sum(r["bytes_unfused"] for r in done.regions),
        "agree": sum(r["state"] == "ok" for r in done.regions),
        "output": agree,
        "ok": done.ok,
        "build_s": round(ready - start, 1),
        "run_s": round(end - ready, 1),
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
    for r in rows:
        ops = ", ".join(f"{n} {op}" for op, n in r["fallback_ops"].items())
        cells = [
            r["name"],
            r["nodes"],
            r["known"],
            r["inKernels"],
            r["regions"] - r["views"],
            r["kernels"],
            r["views"],
            f"{r['fallbacks']} ({ops})",
            f"{r['moved'] / 1e6:.1f}",
            f"{r['unfused'] / 1e6:.1f}",
            f"{r['agree']} of {r['regions']}",
            r["output"],
            r["build_s"],
            r["run_s"],
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, and write if requested; return 1 if a network disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="part of the name")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    args = parser.parse_args(argv)
    chosen = [p for p in networks() if args.model in p.name]
    if not chosen:
        parser.error(f"no network has {args.model!r} in its name")
    rows = []
    for path in chosen:
        rows.append(measure(path))
        print(f"{rows[-1]['name']}: {rows[-1]['run_s']} s", file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1) if args.json else markdown(rows))
    if args.write:
        text = _TEXT.format(version=onnx.__version__) + markdown(rows)
        PAGE.write_text(text, encoding="utf-8")
    return 0 if all(r["ok"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
