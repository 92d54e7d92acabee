"""Ops of PyTorch and ONNX on NaN, infinities, zeros and the ends of the ranges, beside those who define them.

    python benchmarks/clients/edge_values.py              PyTorch, all element types, beside eager
    python benchmarks/clients/edge_values.py --onnx       ONNX, beside onnx.reference, and onnxruntime if it is there
    python benchmarks/clients/edge_values.py float16 --group binary

Every op of one element is asked for 23 numbers, every op of two for all their pairs.  Elements agree if they are
equal, both NaN, or finite and close.  What is known to differ is in ``KNOWN``, with the reason; docs/torch.md and
docs/onnx.md have the list.  Exit status 1: something else differs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

INF, NAN = math.inf, math.nan
TYPES = ("float32", "float16", "bfloat16")
#: Ops in one kernel.
CHUNK = 20

_UNARY = """abs neg sign sgn relu floor ceil round trunc frac exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal
    sigmoid tanh sin cos tan sinh cosh asin acos atan asinh acosh atanh erf erfc lgamma digamma square isnan isinf
    isfinite signbit nan_to_num logit deg2rad rad2deg sinc"""
_ACTIVATIONS = """softplus silu gelu mish hardswish hardsigmoid hardtanh elu celu selu leaky_relu relu6 logsigmoid
    softsign tanhshrink hardshrink softshrink"""
_BINARY = """add sub mul div floor_divide fmod remainder pow maximum minimum fmax fmin atan2 hypot copysign xlogy
    logaddexp logaddexp2 eq ne lt le gt ge logical_and logical_or logical_xor heaviside"""
_REDUCTIONS = """sum mean prod amax amin logsumexp argmax argmin all any nansum count_nonzero softmax log_softmax cumsum
    cumprod std var"""
_ONNX = """Abs Neg Sign Relu Floor Ceil Round Exp Log Sqrt Reciprocal Sigmoid Tanh Sin Cos Tan Sinh Cosh Asin Acos Atan
    Asinh Acosh Atanh Erf Softplus Softsign Elu Selu Celu LeakyRelu HardSigmoid HardSwish Mish Gelu ThresholdedRelu
    Shrink"""

#: Op -> why it differs at some of the numbers, and is left so.
KNOWN = {
    "tan": "angles of more than about 1e8 are not reduced: NaN",
    "i0": "infinite at infinities, where eager gives NaN",
    "gelu": "the limits at infinities and at the ends of the range, where eager gives NaN or infinity",
    "gelu_tanh": "the limit at -infinity, where eager gives NaN",
    "mish": "the limit at -infinity, where eager gives NaN; infinite at the end of the range",
    "fmod": "NaN from a quotient of 2^46 on",
    "remainder": "NaN from a quotient of 2^46 on",
    "zeta": "NaN for negative places that are no whole numbers, and 0 at infinity",
    "std": "the sum of squares overflows from about 1e19 on in float32",
    "var": "the sum of squares overflows from about 1e19 on in float32",
    "layer_norm": "0 where the sum of squares overflows, where eager gives NaN",
    "Tan": "angles of more than about 1e8 are not reduced: NaN",
    "Mish": "the limit at -infinity, where 0 times infinity would be NaN; infinite at the end of the range",
    "Gelu": "the limit at -infinity, where 0 times infinity would be NaN",
}


def numbers(largest: float, least: float) -> list[float]:
    """NaN, infinities, zeros, the ends of a range, and ordinary numbers."""
    ends = [largest, -largest, least, -least, least / 2]
    own = [1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.5, 1e30, -1e30, 1e-30, 88.0, -104.0, 20.5]
    return [NAN, INF, -INF, 0.0, -0.0, *ends, *own]


def agree(got: Any, want: Any, relative: float, absolute: float) -> Any:
    """Elements that are equal, both NaN, or finite and close."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        close = np.abs(a - b) <= relative * np.abs(b) + absolute
        return same | (np.isfinite(a) & np.isfinite(b) & close)


# PyTorch --------------------------------------------------------------------------------------


def torch_ops(group: str) -> dict[str, Callable[..., Any]]:
    """Ops of a group: ``unary``, ``binary`` or ``rows``."""
    import torch
    from torch.nn import functional

    if group == "unary":
        found = {n: getattr(torch, n) for n in _UNARY.split()}
        found |= {n: getattr(functional, n) for n in _ACTIVATIONS.split()}
        found["i0"] = torch.special.i0
        found["gelu_tanh"] = lambda x: functional.gelu(x, approximate="tanh")
        found["threshold"] = lambda x: functional.threshold(x, 0.1, 20.0)
        found["clamp"] = lambda x: x.clamp(-1, 1)
        powers = {f"pow {p}": (lambda x, p=p: x**p) for p in (2, 3, 0.5, -1.0, 2.5)}
        return found | powers
    if group == "binary":
        found = {n: getattr(torch, n) for n in _BINARY.split()}
        found["div trunc"] = lambda a, b: torch.div(a, b, rounding_mode="trunc")
        found["where"] = lambda a, b: torch.where(a > b, a, b)
        found["clamp"] = lambda a, b: torch.clamp(a, b, b + 1)
        found["zeta"] = torch.special.zeta
        return found
    found = {n: partial(_along_rows, getattr(torch, n)) for n in _REDUCTIONS.split()}
    for p in (0, 1, 2, 3, INF, -INF, 0.5):
        found[f"vector_norm {p}"] = lambda x, p=p: torch.linalg.vector_norm(x, p, 1)
    found["layer_norm"] = lambda x: functional.layer_norm(x, (3,))
    found["max"] = lambda x: torch.max(x, 1)[0]
    return found


def _along_rows(op: Callable[..., Any], x: Any) -> Any:
    return op(x, 1)


def torch_operands(group: str, dtype: str) -> list[Any]:
    """What the ops of a group are asked for."""
    import torch

    kind = getattr(torch, dtype)
    if group == "rows":
        rows = [
            [NAN, INF, 1.0],
            [INF, INF, 1.0],
            [-INF, -INF, -INF],
            [INF, -INF, 0.0],
            [1.0, NAN, -2.0],
            [0.0, -0.0, 0.0],
            [1e30, -1e30, 1e30],
            [1e-30, -1e-30, 3e-30],
            [-INF, 1.0, 2.0],
            [3e38, 3e38, 3e38],
        ]
        return [torch.tensor(rows, dtype=torch.float64).to(kind)]
    ends = torch.finfo(kind)
    x = torch.tensor(numbers(ends.max, ends.tiny), dtype=torch.float64).to(kind)
    if group == "unary":
        return [x]
    return [a.contiguous() for a in torch.meshgrid(x, x, indexing="ij")]


def torch_differences(
    group: str, dtype: str, names: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Ops that differ from eager, each with the first numbers for which it does."""
    import torch

    import autofuse.torch  # noqa: F401 - the backend

    ops, operands = torch_ops(group), torch_operands(group, dtype)
    relative, absolute = {
        "float32": (2e-5, 1e-6),
        "float16": (4e-3, 1e-4),
        "bfloat16": (2e-2, 1e-6),
    }[dtype]
    chosen = list(ops if names is None else names)
    if dtype != "float32":
        chosen = [n for n in chosen if n != "zeta"]
    for k in range(0, len(chosen), CHUNK):
        part = chosen[k : k + CHUNK]

        def several(*xs: Any, part: Sequence[str] = tuple(part)) -> tuple[Any, ...]:
            return tuple(ops[n](*xs) for n in part)

        torch._dynamo.reset()
        options = {"min_ops": 1, "opt": "-O0"}
        made = torch.compile(several, backend="autofuse", options=options)(*operands)
        for name, got in zip(part, made, strict=True):
            want = ops[name](*operands)
            bad = ~agree(got.double().numpy(), want.double().numpy(), relative, absolute)
            if bad.any():
                at = tuple(int(i[0]) for i in np.nonzero(bad))
                given = [
                    x[at].item() if x.ndim == got.ndim else x[at[0]].tolist() for x in operands
                ]
                text = f"{int(bad.sum())} differ, first at {given}: {got[at].item()}, eager {want[at].item()}"
                yield name, text


# ONNX -----------------------------------------------------------------------------------------


def onnx_differences() -> Iterator[tuple[str, str]]:
    """Ops that differ from ``onnx.reference``, or from onnxruntime where that is installed."""
    import importlib.util

    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    from autofuse.onnx_backend import AutofuseBackend

    ends = np.finfo(np.float32)
    x = np.array(numbers(float(ends.max), float(ends.tiny)), np.float32)

    def model(names: Sequence[str]) -> Any:
        nodes = [helper.make_node(n, ["x"], [f"y{k}"]) for k, n in enumerate(names)]
        size = [x.size]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)]
        outputs = [
            helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, size)
            for k in range(len(names))
        ]
        graph = helper.make_graph(nodes, "edges", inputs, outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    names = _ONNX.split()
    ours = AutofuseBackend.prepare(model(names)).run([x])
    others: dict[str, Callable[[Any], Any]] = {
        "onnx.reference": lambda m: ReferenceEvaluator(m).run(None, {"x": x})[0]
    }
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        others["onnxruntime"] = lambda m: onnxruntime.InferenceSession(
            m.SerializeToString(), providers=["CPUExecutionProvider"]
        ).run(None, {"x": x})[0]
    for name, got in zip(names, ours, strict=True):
        for who, run in others.items():
            with np.errstate(all="ignore"):
                want = run(model([name]))
            bad = np.flatnonzero(~agree(got, want, 2e-5, 1e-6))
            if bad.size:
                at = bad[0]
                yield name, f"{bad.size} differ, first at {x[at]}: {got[at]}, {who} {want[at]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print what differs; 1 if something does that is not known to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("types", nargs="*", choices=[*TYPES, []], help="element types; none: all")
    parser.add_argument("--group", choices=("unary", "binary", "rows"), help="ops; none: all")
    parser.add_argument("--onnx", action="store_true", help="ONNX, not PyTorch")
    args = parser.parse_args(argv)
    if args.onnx:
        cases = [("onnx", "float32", onnx_differences())]
    else:
        groups = [args.group] if args.group else ["unary", "binary", "rows"]
        cases = [(g, t, torch_differences(g, t)) for t in args.types or TYPES for g in groups]
    unknown = 0
    for group, dtype, found in cases:
        for name, text in found:
            known = KNOWN.get(name)
            unknown += known is None
            print(
                f"{dtype:8} {group:6} {name:16} {text}{'' if known is None else f' (known: {known})'}"
            )
    print(f"{unknown} ops differ that are not known to")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
