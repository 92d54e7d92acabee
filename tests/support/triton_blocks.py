"""Element-wise graphs of one shape as kernels of a single block: what shows that ops and their spelling mean the same.

The backend has an emitter of its own; this one knows no axes, no tiles and no reductions.  Kernels are run and compiled
in another process, by ``triton_worker``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import triton_worker

from autofuse.codegen.backends.triton.ops.spelling import TRITON, TYPES, literal
from autofuse.codegen.nests.legalize import legalize
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.lowering.lowering import lower

__all__ = ["block_kernel", "ends", "work", "write_job"]

HEAD = "import triton\nimport triton.language as tl\n"


def ends(graph: FusionGraph) -> tuple[list[Node], list[Node]]:
    """The Data and the Output nodes of a graph as it is lowered, in the order of their indices."""
    nodes = lower(graph).nodes
    return tuple(
        sorted((n for n in nodes if n.op == op), key=lambda n: n.number("index"))
        for op in ("Data", "Output")
    )


def block_kernel(graph: FusionGraph) -> str:
    """The text of a module with a function ``kernel`` that computes a graph of one-dimensional tensors.

    Its arguments are a pointer per input and per output, the number of elements, and the block that holds them all.
    """
    nodes = legalize(lower(graph).nodes, TRITON)
    by_name = {n.name: n for n in nodes}
    ids = {n.name: f"v{i}" for i, n in enumerate(nodes)}
    lines = []
    for n in nodes:
        if n.op == "Scalar":
            ids[n.name] = literal(n.attrs["value"], n.y.dtype)
        elif n.op == "Load":
            place = f"x{by_name[n.inputs[0]].number('index')}_ptr + at"
            lines.append(f"{ids[n.name]} = tl.load({place}, mask=inside)")
            if n.y.dtype.kind == "b":
                lines.append(f"{ids[n.name]} = {ids[n.name]} != 0")
        elif n.op == "Store":
            (target,) = (o for o in nodes if n.name in o.inputs)
            place = f"y{target.number('index')}_ptr + at"
            lines.append(f"tl.store({place}, {ids[n.inputs[0]]}, mask=inside)")
        elif n.op == "Broadcast":
            lines.append(
                f"{ids[n.name]} = tl.full((BLOCK,), {ids[n.inputs[0]]}, {TYPES[n.y.dtype.name]})"
            )
        elif n.op not in ("Data", "Output"):
            dtypes = [by_name[x].y.dtype for x in n.inputs]
            given = n.attrs, dtypes, n.y.dtype
            text = TRITON.spell(n.op, [ids[x] for x in n.inputs], *given)
            lines.append(f"{ids[n.name]} = {text}")
    inputs, outputs = ends(graph)
    pointers = [f"x{i}_ptr" for i in range(len(inputs))] + [
        f"y{i}_ptr" for i in range(len(outputs))
    ]
    signature = ", ".join((*pointers, "n", "BLOCK: tl.constexpr"))
    body = ["at = tl.arange(0, BLOCK)", "inside = at < n", *lines]
    kernel = f"@triton.jit\ndef kernel({signature}):\n" + "".join(f"    {s}\n" for s in body)
    return "\n\n".join((HEAD, *TRITON.functions(kernel).values(), kernel))


def write_job(folder: Path, kernel: str, job: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """A folder for ``triton_worker``: the text of a module, what it is called with, and arrays."""
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(kernel, encoding="utf-8")
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    for name, array in inputs.items():
        (folder / f"{name}.in").write_bytes(np.ascontiguousarray(array).tobytes())


def work(verb: str, folder: Path) -> None:
    """Let a process run or compile all kernels of a folder."""
    cache = folder.with_name(f"{folder.name}_cache")
    done = subprocess.run(
        [sys.executable, triton_worker.__file__, verb, str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"TRITON_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
