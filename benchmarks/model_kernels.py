"""Modelled times of kernels as large models have them: norms of long rows, sums over the rows, places of the largest.

    python benchmarks/model_kernels.py
    python benchmarks/model_kernels.py --target ascend910b4
    python benchmarks/model_kernels.py --only norm --json        kernels whose names have a word in them

Beside each is what GM needs by itself, and the templates of the groups.  Times are those of the model, as `autofuse
explain` prints them; nothing is measured.  To compare two versions, run it with both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from benchmark_words import target_name
from choose_graphs import graph_of

from autofuse.api import DEFAULT_TARGET, build
from autofuse.report.explanation import explain

F16, BF16, F32 = "float16", "bfloat16", "float32"
ROW = {"axes": [1], "keepdims": True}
COLUMN = {"axes": [0]}

Node: TypeAlias = tuple[str, str, list[Any], dict[str, Any]]


def main() -> int:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--target", type=target_name, default=DEFAULT_TARGET, help=f"(default {DEFAULT_TARGET})"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="kernels with this in their name"
    )
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    args = parser.parse_args()
    wanted = [g for g in graphs() if args.only in g["name"]]
    if not wanted:
        parser.error(f"no kernel has {args.only!r} in its name")
    found = [times(g, args.target) for g in wanted]
    if args.json:
        schema = "autofuse.benchmark.model_kernels/1"
        print(json.dumps({"schema": schema, "target": args.target, "kernels": found}, indent=2))
        return 0
    print(f"model of {args.target}, microseconds; nothing is measured")
    print(f"{'kernel':44} {'us':>8} {'GM':>8}  templates")
    for row in found:
        templates = ", ".join(row["templates"])
        print(f"{row['kernel']:44} {row['us']:8.1f} {row['gm_us']:8.1f}  {templates}")
    return 0


def times(document: dict[str, Any], target: str) -> dict[str, Any]:
    """Modelled microseconds of a kernel and of GM alone, and the templates that are taken."""
    built = build(document, target=target)
    found = explain(built.name, built.schedule, built.target, {}, built.graph.inputs)
    (form,) = (r for r in found["results"] if r["chosen"])
    taken = [t for g in form["groups"] for t in g["templates"] if t["chosen"]]
    return {
        "kernel": built.name,
        "us": found["total_us"],
        "gm_us": sum(t["us"]["gm"] for t in taken),
        "templates": [t["template"] for t in taken],
    }


def graphs() -> Iterator[dict[str, Any]]:
    """The kernels, as graph documents."""
    for dtype in (F16, BF16, F32):
        for columns in (2048, 4096, 5120, 6144, 8192, 10240):
            for scaled in (_layer_norm, _rms_norm):
                for summed in (False, True):
                    yield _rows(8192, columns, dtype, scaled, summed=summed)
    for dtype in (F16, F32):
        for shape in ((8192, 1024), (8192, 4096), (50176, 256), (100352, 256)):
            yield _sums(dtype, shape, "squares")
            yield _sums(dtype, shape, "gradients")
        places = {"axis": 1}
        x = {"x": (dtype, [4096, 32000])}
        yield graph_of(f"argmax_4096_32000_{dtype}", x, [("y", "ArgMax", ["x"], places)], ["y"])
    for columns in (3072, 4096):
        inputs = {"x": (F16, [8192, columns]), "b": (F16, [columns])}
        nodes: list[Node] = [("h", "Add", ["x", "b"], {}), *_wide("h", F16)]
        nodes += [("g", "Gelu", ["hf"], {}), ("y", "Cast", ["g"], {"dtype": F16})]
        yield graph_of(f"gelu_row_8192_{columns}_{F16}", inputs, nodes, ["y"])


def _wide(x: str, dtype: str) -> list[Node]:
    """``xf``, the tensor in float32."""
    return [(f"{x}f", "Identity" if dtype == F32 else "Cast", [x], _to(dtype))]


def _to(dtype: str) -> dict[str, Any]:
    return {} if dtype == F32 else {"dtype": F32}


def _layer_norm(dtype: str) -> list[Node]:
    return [
        ("m", "ReduceMean", ["xf"], ROW),
        ("d", "Sub", ["xf", "m"], {}),
        ("q", "Mul", ["d", "d"], {}),
        *_scaled("d", dtype),
        *_wide("b", dtype),
        ("z", "Add", ["s", "bf"], {}),
    ]


def _rms_norm(dtype: str) -> list[Node]:
    return [("q", "Mul", ["xf", "xf"], {}), *_scaled("xf", dtype), ("z", "Identity", ["s"], {})]


def _scaled(x: str, dtype: str) -> list[Node]:
    """``x`` over the root of the mean of ``q``, times the scale."""
    return [
        ("v", "ReduceMean", ["q"], ROW),
        ("ve", "Add", ["v", {"const": 1e-5}], {}),
        ("r", "Rsqrt", ["ve"], {}),
        ("e", "Mul", [x, "r"], {}),
        *_wide("w", dtype),
        ("s", "Mul", ["e", "wf"], {}),
    ]


def _rows(rows: int, columns: int, dtype: str, norm: Any, *, summed: bool) -> dict[str, Any]:
    """A norm of rows; ``summed``: of the sum of two tensors, which is a result as well."""
    inputs = {"x": (dtype, [rows, columns]), "w": (dtype, [columns])}
    inputs |= {"b": (dtype, [columns])} if norm is _layer_norm else {}
    outputs = ["y"]
    nodes: list[Node] = _wide("x", dtype)
    if summed:
        inputs["u"] = (dtype, [rows, columns])
        nodes = [("h", "Add", ["x", "u"], {}), ("xf", *_wide("h", dtype)[0][1:])]
        outputs = ["h", "y"]
    nodes += norm(dtype)
    narrow = {} if dtype == F32 else {"dtype": dtype}
    nodes.append(("y", "Identity" if dtype == F32 else "Cast", ["z"], narrow))
    name = f"{norm.__name__.strip('_')}{'_of_sum' if summed else ''}_{rows}_{columns}_{dtype}"
    return graph_of(name, inputs, nodes, outputs)


def _sums(dtype: str, shape: Sequence[int], kind: str) -> dict[str, Any]:
    """Sums over the rows: of numbers and their squares, or the gradients of scale and shift behind a layer norm."""
    inputs = {"x": (dtype, list(shape))}
    nodes: list[Node] = _wide("x", dtype)
    if kind == "squares":
        nodes.append(("p", "Mul", ["xf", "xf"], {}))
        first = "xf"
    else:
        inputs |= {"g": (dtype, list(shape)), "m": (F32, [shape[0], 1]), "r": (F32, [shape[0], 1])}
        nodes += [
            *_wide("g", dtype),
            ("d", "Sub", ["xf", "m"], {}),
            ("e", "Mul", ["d", "r"], {}),
            ("p", "Mul", ["gf", "e"], {}),
        ]
        first = "gf"
    nodes += [("s", "ReduceSum", [first], COLUMN), ("t", "ReduceSum", ["p"], COLUMN)]
    name = f"sums_of_{kind}_{shape[0]}_{shape[1]}_{dtype}"
    return graph_of(name, inputs, nodes, ["s", "t"])


if __name__ == "__main__":
    sys.exit(main())
