"""The ops and dtypes of another compiler of fused vector graphs, by name, against our registry.

The table says under which name of ours an op is found.  What we do not do is listed with the reason; an entry there
that is no longer true fails as well.
"""

import pytest

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.registry import find
from autofuse.report.op_support import NONE, realised
from autofuse.targets import load_target

FLOATS = "f32 f16 bf16"
SIGNED = "i8 i16 i32 i64"
UNSIGNED = "u8 u16 u32 u64"
NUMBERS = f"{FLOATS} {SIGNED} {UNSIGNED}"
EVERY = f"{NUMBERS} b"


def same(dtypes, names):
    """Ops that have the same name here."""
    return {name: (name, dtypes) for name in names.split()}


#: Op there -> (ops here, dtypes of the first operand there).  Names of dtypes: f float, i and u integers, b bool.
ELEMENTWISE = {
    "Abs": ("Abs", f"{FLOATS} {SIGNED} u8"),
    "Exp": ("Exp", FLOATS),
    "Ln": ("Ln", FLOATS),
    "Sqrt": ("Sqrt", FLOATS),
    "Rsqrt": ("Rsqrt", FLOATS),
    "Reciprocal": ("Reciprocal", f"{FLOATS} i64 u64"),
    "Erf": ("Erf", FLOATS),
    "Sign": ("Sign", f"{FLOATS} i32 i64 u8"),
    "Tanh": ("Tanh", FLOATS),
    "Isnan": ("Isnan", FLOATS),
    "IsFinite": ("IsFinite", FLOATS),
    "IsInf": ("IsInf", FLOATS),
    "Relu": ("Relu", "f32 f16 i32 i64 u8"),
    "Neg": ("Neg", f"{FLOATS} {SIGNED}"),
    "LogicalNot": ("LogicalNot", EVERY),
    "Sigmoid": ("Sigmoid", FLOATS),
    "Add": ("Add", NUMBERS),
    "Sub": ("Sub", NUMBERS),
    "Div": ("Div", "f32 f16"),
    "Mul": ("Mul", NUMBERS),
    "Minimum": ("Minimum", NUMBERS),
    "Maximum": ("Maximum", NUMBERS),
    "TrueDiv": ("TrueDiv", f"{FLOATS} i32"),
    "Remainder": ("Remainder", f"{FLOATS} i32"),
    "LogicalOr": ("LogicalOr", EVERY),
    "LogicalAnd": ("LogicalAnd", EVERY),
    "LogicalXor": ("LogicalXor", EVERY),
    "Pow": ("Pow", f"{FLOATS} i8 i16 i32 u8 u16 u32"),
    "ClipByValue": ("ClipByValue", NUMBERS),
    "Ge": ("Ge", NUMBERS),
    "Eq": ("Eq", NUMBERS),
    "Ne": ("Ne", NUMBERS),
    "Gt": ("Gt", NUMBERS),
    "Le": ("Le", NUMBERS),
    "Lt": ("Lt", NUMBERS),
    "Select": ("Select", "f32 f16 i16 i32 i64"),
    "Where": ("Where", NUMBERS),
    "MaskedFill": ("MaskedFill", FLOATS),
    "LeakyRelu": ("LeakyRelu", "f32 f16"),
    "BitwiseAnd": ("BitwiseAnd", f"{SIGNED} {UNSIGNED}"),
    "BitwiseOr": ("BitwiseOr", f"{SIGNED} {UNSIGNED}"),
    "BitwiseXor": ("BitwiseXor", f"{SIGNED} {UNSIGNED}"),
    "BitwiseNot": ("BitwiseNot", f"{SIGNED} {UNSIGNED}"),
    "Xor": ("Xor", "i16 u16 u8"),
    "LShift": ("LShift", f"{SIGNED} {UNSIGNED}"),
    "RShift": ("RShift", f"{SIGNED} {UNSIGNED}"),
    "FloorDiv": ("FloorDiv", f"f32 f16 {SIGNED} {UNSIGNED}"),
    "Gelu": ("Gelu", "f32 f16"),
    "Axpy": ("Axpy", f"{FLOATS} i64 u64"),
    "Cast": ("Cast", NUMBERS),
    "Square": ("Square", f"{FLOATS} i16 i32 i64 {UNSIGNED}"),
    "RoundToInt": ("RoundToInt", FLOATS),
    "TruncToInt": ("TruncToInt", FLOATS),
    "FloorToInt": ("FloorToInt", FLOATS),
    "Ceil2Int": ("Ceil2Int", FLOATS),
    "Trunc": ("Trunc", FLOATS),
    "Round": ("Round", FLOATS),
    "Floor": ("Floor", FLOATS),
    "Ceil": ("Ceil", FLOATS),
    "TruncDiv": ("TruncDiv", FLOATS),
    "Mod": ("Mod", f"{FLOATS} i8 i16 u8"),
    "Fmod": ("Fmod", FLOATS),
    "Fma": ("Fma", f"{FLOATS} i8 i16 u8"),
    "SignBit": ("SignBit", "f32 i32"),
    "Frexp": ("FrexpMantissa FrexpExponent", "f32"),
    **same(FLOATS, "Sin Cos Tan Asin Acos Atan Atan2 Sinh Cosh Asinh Acosh Atanh Exp2 Expm"),
    **same(FLOATS, "Log2 Log10 Log1p Erfc Erfcx Digamma Lgamma Hypot CopySign"),
    **same("f32", "Ndtr Ndtri Igamma Igammac Zeta AiryAi Erfinv BesselJ0 BesselJ1 BesselY0"),
    **same("f32", "BesselY1 SphericalBesselJ0 ModifiedBesselI0 ModifiedBesselI1"),
    **same("f32", "ModifiedBesselK0 ModifiedBesselK1 ScaledModifiedBesselK0"),
    **same("f32", "ScaledModifiedBesselK1 ShiftedChebyshevPolynomialT ShiftedChebyshevPolynomialU"),
    **same("f32", "ShiftedChebyshevPolynomialV ShiftedChebyshevPolynomialW"),
    "LaguerrePolynomialL": ("LaguerrePolynomialL", "f32"),
    "LegendrePolynomialP": ("LegendrePolynomialP", "f32"),
}
REDUCTIONS = {
    "Max": ("ReduceMax", "i8 u8 i16 i32 bf16 f16 f32 i64"),
    "Min": ("ReduceMin", "i8 u8 i16 i32 bf16 f16 f32 i64"),
    "Sum": ("ReduceSum", "i8 i16 i32 bf16 f16 f32 i64"),
    "Mean": ("ReduceMean", "f32"),
    "Prod": ("ReduceProd", "f32"),
    "Any": ("ReduceAny", "f32"),
    "All": ("ReduceAll", "f32"),
    "ArgMax": ("ArgMax", "f32 i32"),
    "Softmax": ("Softmax", "f32 f16 bf16 i8 u8 i16 i32 i64"),
}
MOVES = {
    "Broadcast": ("Broadcast", f"f32 f16 {SIGNED} {UNSIGNED} b"),
    "Concat": ("Concat", NUMBERS),
    "Split": ("Slice", EVERY),
    "Transpose": ("Transpose", f"{FLOATS} i16 u16 i32 u32 b"),
    "Gather": ("Gather", "i16 u16 i32 u32 f16 bf16 f32"),
    "IndirectLoad": ("Gather", "i16 u16 i32 u32 f16 bf16 f32"),
}
#: Ops there that are no ops of a graph here, and why.
NO_OPS = {
    "part of the graph or of its schedule, not an op": """
        Data Scalar ScalarData IndexExpr Output Workspace Load Store Nddma Ub2ub RemovePad Pad Nop VectorFunc
        Unsupported ArgMaxMultiRPhase1 ArgMaxMultiRPhase2""",
    "has neither inputs nor outputs there": "FlashSoftmax",
    "work of the cube unit": """
        MatMul MatMulBias MatMulOffset MatMulOffsetBias BatchMatMul BatchMatMulBias BatchMatMulOffset
        BatchMatMulOffsetBias Conv2D Conv2DBias Conv2DOffset Conv2DOffsetBias""",
}
#: (op there, dtypes there that we refuse) -> why.
REFUSED = {
    (
        "Softmax",
        "i8 u8 i16 i32 i64",
    ): "a softmax of integers is none; a Cast before it says which float is meant",
    ("SignBit", "i32"): "of an integer it is Less than 0",
}
LONG_NAMES = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "b": "bool"}


def dtypes(text):
    return [BY_NAME[LONG_NAMES[d.rstrip("0123456789")] + d.lstrip("bfiu")] for d in text.split()]


def refused(op):
    return {d for (name, text), _ in REFUSED.items() if name == op for d in dtypes(text)}


def pairs():
    for there, (ours, text) in (ELEMENTWISE | REDUCTIONS | MOVES).items():
        for name in ours.split():
            yield pytest.param(there, name, text, id=f"{there}-{name}")


def test_every_op_is_accounted_for_once():
    out = [op for names in NO_OPS.values() for op in names.split()]
    assert len(out) == len(set(out))
    assert not set(out) & {*ELEMENTWISE, *REDUCTIONS, *MOVES}
    assert len(out) + len(ELEMENTWISE | REDUCTIONS | MOVES) == 157  # ops there


@pytest.mark.parametrize(("there", "name", "text"), list(pairs()))
def test_op_and_dtypes_are_here(there, name, text):
    row = find(name)
    assert row is not None, f"{there} has no counterpart"
    target = load_target("ascend910b1")
    missing = {d for d in dtypes(text) if realised(row, d, target) == NONE}
    assert missing == refused(there)
