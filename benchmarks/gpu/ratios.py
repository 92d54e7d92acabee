"""Write a ratio table of ``autofuse/clients/torch/inductor/ratios`` from measured random rows.

    python benchmarks/gpu/run.py --set random --draw SEED/COUNT --competitors eager,inductor,all --out FOLDER
    python benchmarks/gpu/ratios.py FOLDER/random.jsonl --source "H200, date" --write

A row counts if all its regions have one form; the forms are found again on fake tensors, without a card.  A form of
floats of 16 bits counts for the form of any floats, too.  The ratio of
a class is the geometric mean of its rows, drawn towards 1 as by as many rows without a gain as ``--calm``, less half of
the standard deviation: of two classes with one mean, the one in which more regions would lose has the lower ratio.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from model import run_on_fakes
from rows import Row, rows
from sets.random import MOST

from autofuse.clients.torch.devices.programs import SHORT_FLOATS
from autofuse.clients.torch.inductor import choice, fusing
from autofuse.targets import find_target

#: Rows from which a class of sizes, and a form with a further word, has a ratio of its own.
_ENOUGH, _SOME = 8, 3


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="else, the table is only shown")
    parser.add_argument("--source", default="", help="what the rows were measured on, and when")
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--calm", type=float, default=2.0)
    args = parser.parse_args()
    records = [json.loads(x) for f in args.files for x in f.read_text().splitlines()]
    found: dict[tuple[tuple[str, ...], str], list[float]] = defaultdict(list)
    for r in records:
        ratio = _ratio(r)
        if ratio is None:
            continue
        drawn = (r["draw"], _count(r["name"]), r.get("most", MOST))
        (row,) = rows(["random"], [r["name"]], drawn)
        known = choice.table(find_target(args.target).backend)
        keys = {(g.form, known.size_class(g.bytes)) for g in regions(row, args.target)}
        if len(keys) == 1:
            form, size = keys.pop()
            for one in {form, tuple(word for word in form if word != SHORT_FLOATS)}:
                found[one, size].append(ratio)
                found[one, ""].append(ratio)
    table = []
    for (form, size), ratios in sorted(found.items()):
        if size and len(ratios) < _ENOUGH:
            continue
        logs = [math.log(r) for r in ratios]
        mean = sum(logs) / (len(logs) + args.calm)
        spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / len(logs))
        ratio = math.exp(mean - spread / 2)
        shown = f"{min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
        sys.stdout.write(f"{' '.join(form):32} {size:7} {len(ratios):4} {ratio:.2f} ({shown})\n")
        # Few rows say that a form may lose, but not that it gains beside the form without its last details.
        if len(ratios) < _SOME and ratio >= 1.0:
            continue
        table.append(
            {"form": list(form), "size": size, "ratio": round(ratio, 3), "rows": len(ratios)}
        )
    if args.write:
        file = Path(choice.__file__).parent / "ratios" / f"{find_target(args.target).backend}.json"
        written = json.loads(file.read_text(encoding="utf-8")) | {"source": args.source}
        head = "".join(
            f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in written.items() if k != "ratios"
        )
        lines = ",\n".join(f"  {json.dumps(row)}" for row in table)
        file.write_text(f'{{\n{head} "ratios": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    return 0


def _count(name: str) -> int:
    return int(name.partition(" ")[0]) + 1


def _ratio(record: dict[str, Any]) -> float | None:
    """Return the time of Inductor over that of autofuse; None if one of them failed."""
    one, other = (record["results"].get(c, {}) for c in ("inductor", "all"))
    return one["us"] / other["us"] if "us" in one and "us" in other else None


def regions(row: Row, target: str) -> list[choice.Region]:
    """Return the regions of a row, or of its backward graph, at its own sizes and on fake tensors."""
    found: list[choice.Region] = []
    own: Callable[..., Any] = fusing.Chooser.judge
    to_the_end: Callable[..., Any] = fusing.compile_fx_inner

    def judge(self: Any, made: Any) -> tuple[bool, str]:
        found.append(choice.described(made))
        return False, "its form is all that is wanted"

    def passes_only(gm: Any, inputs: Any, **how: Any) -> Any:
        """Return what runs node by node: loops on a CPU would be called with fake tensors."""
        return fusing._node_by_node(gm, inputs, fusing._KIND.get() or "graph")

    fusing.Chooser.judge = judge  # type: ignore[method-assign]
    fusing.compile_fx_inner = passes_only
    try:
        run_on_fakes(row, target, found)
    finally:
        fusing.Chooser.judge = own  # type: ignore[method-assign]
        fusing.compile_fx_inner = to_the_end
    return found


if __name__ == "__main__":
    sys.exit(main())
