"""Compare ops of PyTorch and ONNX with their references on NaN, infinities, zeros and the limits of the types.

    python benchmarks/clients/edge_values.py              PyTorch, all element types, against eager
    python benchmarks/clients/edge_values.py int8 --group binary
    python benchmarks/clients/edge_values.py --onnx       ONNX, against onnx.reference, and onnxruntime if installed
    python benchmarks/clients/edge_values.py --onnx int64
    python benchmarks/clients/edge_values.py float16 --group binary

Unary ops run on 23 numbers, binary ops on all pairs of them; integer ops on the limits of their type, small numbers and
their negatives, and numbers around the bit width.  Elements agree if they are equal, both NaN, or finite and close.
Integer divisions by 0 and -1, and lcm, are omitted: some of them crash eager.  ``KNOWN`` lists known differences with
reasons; docs/torch.md and docs/onnx.md have the list.  Exit status 1: there are other differences.
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
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "bool")
#: Number of ops in one kernel.
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
_INTEGER_UNARY = """abs neg sign sgn square bitwise_not logical_not relu positive isnan isinf isfinite signbit floor
    ceil round trunc exp sqrt rsqrt reciprocal sigmoid tanh log erf"""
_INTEGER_BINARY = """add sub mul div pow maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign atan2"""
#: Ops tested without divisors 0 and -1.
_QUOTIENTS = "floor_divide fmod remainder gcd"
_INTEGER_REDUCTIONS = (
    "sum mean prod amax amin argmax argmin all any count_nonzero cumsum cumprod logsumexp"
)
_ONNX = """Abs Neg Sign Relu Floor Ceil Round Exp Log Sqrt Reciprocal Sigmoid Tanh Sin Cos Tan Sinh Cosh Asin Acos Atan
    Asinh Acosh Atanh Erf Softplus Softsign Elu Selu Celu LeakyRelu HardSigmoid HardSwish Mish Gelu ThresholdedRelu
    Shrink"""
_ONNX_INTEGERS = """Abs Neg Sign Relu BitwiseNot Add Sub Mul Div Mod Pow Max Min BitwiseAnd BitwiseOr BitwiseXor Equal
    Less Greater LessOrEqual GreaterOrEqual"""

#: Op -> why it differs at some numbers, and why that is accepted.
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
    """Return NaN, infinities, zeros, the limits of a range, and ordinary numbers."""
    ends = [largest, -largest, least, -least, least / 2]
    own = [1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.5, 1e30, -1e30, 1e-30, 88.0, -104.0, 20.5]
    return [NAN, INF, -INF, 0.0, -0.0, *ends, *own]


def agree(got: Any, want: Any, relative: float, absolute: float) -> Any:
    """Return the mask of elements that are equal, both NaN, or finite and close."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        close = np.abs(a - b) <= relative * np.abs(b) + absolute
        return same | (np.isfinite(a) & np.isfinite(b) & close)


# PyTorch --------------------------------------------------------------------------------------


def torch_ops(group: str, dtype: str = "float32") -> dict[str, Callable[..., Any]]:
    """Return the ops of a group (``unary``, ``binary`` or ``rows``) for an element type."""
    import torch
    from torch.nn import functional

    if dtype in INTEGERS:
        return _integer_ops(group, dtype)
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


def _integer_ops(group: str, dtype: str) -> dict[str, Callable[..., Any]]:
    """Return the ops of a group that eager supports for an integer type."""
    import torch

    if group == "unary":
        found = {n: getattr(torch, n) for n in _INTEGER_UNARY.split()}
        found |= {f"to {t}": (lambda x, t=t: x.to(getattr(torch, t))) for t in (*INTEGERS, *TYPES)}
        found |= {f"pow {p}": (lambda x, p=p: x**p) for p in (0, 2, 3)}
        if dtype != "bool":  # Eager shifts them, but PyTorch cannot trace it.
            found |= {f"<< {n}": (lambda x, n=n: x << n) for n in (1, 7, 63, -1)}
            found |= {f">> {n}": (lambda x, n=n: x >> n) for n in (1, 7, 63, -1)}
        for n in ("floor_divide", "remainder", "fmod"):
            found |= {f"{n} {b}": (lambda x, b=b, n=n: getattr(torch, n)(x, b)) for b in (3, -3, 7)}
        found["clamp"] = lambda x: x.clamp(-1, 1)
    elif group == "binary":
        found = {n: getattr(torch, n) for n in _INTEGER_BINARY.split()}
        found |= {n: partial(_but_by_few, getattr(torch, n)) for n in _QUOTIENTS.split()}
        for way in ("trunc", "floor"):
            found[f"div {way}"] = partial(_but_by_few, partial(torch.div, rounding_mode=way))
        found["where"] = lambda a, b: torch.where(a > b, a, b)
    else:
        found = {n: partial(_along_rows, getattr(torch, n)) for n in _INTEGER_REDUCTIONS.split()}
    operands = torch_operands(group, dtype)
    return {n: op for n, op in found.items() if _is_there(op, operands)}


def _but_by_few(op: Callable[..., Any], a: Any, b: Any) -> Any:
    """Apply a division, with divisor 5 in place of 0 and -1."""
    return op(a, ((b == 0) | (b == -1)).to(b.dtype) * 5 + b * ((b != 0) & (b != -1)))


def _is_there(op: Callable[..., Any], operands: Sequence[Any]) -> bool:
    try:
        op(*operands)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def integers(low: int, high: int, bits: int) -> list[int]:
    """Return the limits of a range, numbers around the bit width, and ordinary numbers."""
    ends = [low, low + 1, low // 2, high, high - 1, high // 2, high // 2 + 1]
    own = [0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -7, -100, bits - 1, bits, bits + 1, 46341]
    return sorted({n for n in (*ends, *own) if low <= n <= high})


def torch_operands(group: str, dtype: str) -> list[Any]:
    """Return the operands for the ops of a group."""
    import torch

    kind = getattr(torch, dtype)
    if dtype in INTEGERS:
        ends = torch.iinfo(kind) if dtype != "bool" else None
        known = [0, 1] if ends is None else integers(ends.min, ends.max, ends.bits)
        low, high = known[0], known[-1]
        if group == "rows":
            few = [[low, high, low], [high] * 3, [low] * 3, [low, high, high], [1, 0, 1], [0] * 3]
            return [torch.tensor(few).to(kind)]
        x = torch.tensor(known).to(kind)
        return [x] if group == "unary" else _pairs(x)
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
    return [x] if group == "unary" else _pairs(x)


def _pairs(x: Any) -> list[Any]:
    import torch

    return [a.contiguous() for a in torch.meshgrid(x, x, indexing="ij")]


def torch_differences(
    group: str, dtype: str, names: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield ops that differ from eager, each with the first numbers for which it does."""
    import torch

    import autofuse.clients.torch  # noqa: F401 - the backend

    ops, operands = torch_ops(group, dtype), torch_operands(group, dtype)
    relative, absolute = {"float16": (4e-3, 1e-4), "bfloat16": (2e-2, 1e-6)}.get(
        dtype, (2e-5, 1e-6)
    )
    chosen = list(ops if names is None else names)
    if dtype in ("float16", "bfloat16"):
        chosen = [n for n in chosen if n != "zeta"]
    for k in range(0, len(chosen), CHUNK):
        part = chosen[k : k + CHUNK]

        def several(*xs: Any, part: Sequence[str] = tuple(part)) -> tuple[Any, ...]:
            return tuple(ops[n](*xs) for n in part)

        torch._dynamo.reset()
        options = {"target": "ascend910b1", "min_ops": 1, "opt": "-O0"}
        made = torch.compile(several, backend="autofuse", options=options)(*operands)
        for name, got in zip(part, made, strict=True):
            want = ops[name](*operands)
            if want.is_floating_point():
                bad = ~agree(got.double().numpy(), want.double().numpy(), relative, absolute)
            else:
                bad = (got != want).numpy() | (got.dtype != want.dtype)
            if bad.any():
                at = tuple(int(i[0]) for i in np.nonzero(bad))
                given = [
                    x[at].item() if x.ndim == got.ndim else x[at[0]].tolist() for x in operands
                ]
                text = f"{int(bad.sum())} differ, first at {given}: {got[at].item()}, eager {want[at].item()}"
                yield name, text


# ONNX -----------------------------------------------------------------------------------------


def onnx_differences() -> Iterator[tuple[str, str]]:
    """Yield ops that differ from ``onnx.reference``, or from onnxruntime if installed."""
    import importlib.util

    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    from autofuse.clients.onnx.backend import AutofuseBackend

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


def onnx_integer_differences(dtype: str) -> Iterator[tuple[str, str]]:
    """Yield integer ops, and casts of integers, that differ from ``onnx.reference`` where it supports them."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    from autofuse.clients.onnx.backend import AutofuseBackend

    ends = np.iinfo(dtype)
    known = np.array(integers(int(ends.min), int(ends.max), ends.bits), dtype)
    a, b = (np.ravel(part) for part in np.meshgrid(known, known, indexing="ij"))
    few = {"Div": (b != 0) & (b != np.array(-1).astype(dtype)), "Pow": (b >= 0) & (b < 10)}
    few["Mod"] = few["Div"]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def case(name: str, **attrs: Any) -> tuple[Any, dict[str, Any]]:
        arity = 1 if name in ("Abs", "Neg", "Sign", "Relu", "BitwiseNot", "Cast") else 2
        keep = few.get(name, np.ones(a.shape, bool))
        given = {"x": known} if arity == 1 else {"x": a[keep], "y": b[keep]}
        size = [given["x"].size]
        compares = "Equal" in name or name in ("Less", "Greater")
        out = attrs.get("to", TensorProto.BOOL if compares else kind)
        inputs = [helper.make_tensor_value_info(n, kind, size) for n in given]
        result = [helper.make_tensor_value_info("z", out, size)]
        node = helper.make_node(name, list(given), ["z"], **attrs)
        graph = helper.make_graph([node], "edges", inputs, result)
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9), given

    cases = {n: case(n) for n in _ONNX_INTEGERS.split()}
    cases |= {f"BitShift {w}": case("BitShift", direction=w) for w in ("LEFT", "RIGHT")}
    for other in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(other))
        cases[f"Cast {other}"] = case("Cast", to=to)
    for name, (model, given) in cases.items():
        try:
            with np.errstate(all="ignore"):
                want = np.asarray(ReferenceEvaluator(model).run(None, given)[0])
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            continue  # Not for this type.
        got = AutofuseBackend.prepare(model).run(list(given.values()))[0]
        bad = np.flatnonzero((got != want) | (got.dtype != want.dtype))
        if bad.size:
            at = bad[0]
            asked = [int(x[at]) for x in given.values()]
            yield name, f"{bad.size} differ, first at {asked}: {got[at]}, onnx.reference {want[at]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the differences; return 1 if there is an unknown one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "types", nargs="*", choices=[*TYPES, *INTEGERS, []], help="element types; none: all"
    )
    parser.add_argument("--group", choices=("unary", "binary", "rows"), help="ops; none: all")
    parser.add_argument("--onnx", action="store_true", help="ONNX, not PyTorch")
    args = parser.parse_args(argv)
    if args.onnx:
        asked = args.types or ("float32", *INTEGERS[:-1])
        cases = [("onnx", "float32", onnx_differences())] if "float32" in asked else []
        cases += [("onnx", t, onnx_integer_differences(t)) for t in asked if t in INTEGERS[:-1]]
    else:
        groups = [args.group] if args.group else ["unary", "binary", "rows"]
        cases = [
            (g, t, torch_differences(g, t))
            for t in args.types or (*TYPES, *INTEGERS)
            for g in groups
        ]
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
