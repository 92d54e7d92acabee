"""Emission: the text of every statement, and literals that keep their exact value."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import pytest

from autofuse.codegen.backends.ascendc.emit_cpp import (
    _LINE,
    _LINES,
    emit_block,
    emit_function,
)
from autofuse.codegen.backends.ascendc.words import scalar_text
from autofuse.codegen.ir.calls import Call, Count, EnumArg, LocalArg, Number, Role, ScalarVar
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Barrier,
    BlockIndex,
    BufDecl,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    DmaBlock,
    EnQue,
    For,
    Free,
    GetBuf,
    GlobalDecl,
    InitBuffer,
    KernelFn,
    Let,
    Parameters,
    PipeDecl,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    Sync,
    TilingField,
)
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Position

F32, F16, BF16 = BY_NAME["float32"], BY_NAME["float16"], BY_NAME["bfloat16"]
I32, I64, U32, BOOL = (BY_NAME[name] for name in ("int32", "int64", "uint32", "bool"))
DEVICE = Path(__file__).parents[4] / "device_templates"


@pytest.mark.parametrize(
    ("stmt", "lines"),
    [
        (Comment("abs"), ["// abs"]),
        (Let("n", CeilDiv(sym("a"), 8)), ["const int64_t n = autofuse::CeilDiv(a, 8);"]),
        (TilingField("n"), ["const int64_t n = t.n;"]),
        (BlockIndex("b"), ["const int64_t b = GetBlockIdx();"]),
        (ReturnIfEmpty("n"), ["if (n <= 0) {", "  return;", "}"]),
        (PipeDecl("tpipe"), ["TPipe tpipe;"]),
        (QueueDecl("que0", Position.VECIN, 2), ["TQue<TPosition::VECIN, 2> que0;"]),
        (
            QueueDecl("que0", Position.VECOUT, 1, copy=True),
            ["TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que0;"],
        ),
        (BufDecl("buf0", Position.VECCALC), ["TBuf<TPosition::VECCALC> buf0;"]),
        (InitBuffer("tpipe", "que0", 2, const(64)), ["tpipe.InitBuffer(que0, 2, 64);"]),
        (
            InitBuffer("tpipe", "buf0", 0, sym("n")),
            ["tpipe.InitBuffer(buf0, static_cast<uint32_t>(n));"],
        ),
        (GetBuf("x", "buf0", F16), ["LocalTensor<half> x = buf0.Get<half>();"]),
        (Alloc("x", "que0", BOOL), ["LocalTensor<uint8_t> x = que0.AllocTensor<uint8_t>();"]),
        (EnQue("x", "que0", F32), ["que0.EnQue<float>(x);"]),
        (DeQue("x", "que0", BF16), ["x = que0.DeQue<bfloat16_t>();"]),
        (Free("x", "que0"), ["que0.FreeTensor(x);"]),
        (ScalarRead("s", "x", F32), ["const float s = x.GetValue(0);"]),
        (Barrier("PIPE_V"), ["PipeBarrier<PIPE_V>();"]),
        (
            GlobalDecl("gm", I32, "p"),
            ["GlobalTensor<int32_t> gm;", "gm.SetGlobalBuffer((__gm__ int32_t*)p);"],
        ),
        (
            Call(
                "Cast",
                (
                    LocalArg("y"),
                    LocalArg("x", F16),
                    EnumArg("RoundMode::CAST_RINT"),
                    Count(sym("n")),
                ),
                ("y",),
                ("x",),
            ),
            ["Cast(y[0], x.ReinterpretCast<half>(), RoundMode::CAST_RINT, n);"],
        ),
        (
            Call("Adds", (LocalArg("y"), LocalArg("x"), Number(1.5, F16), Count(ONE)), ("y",), ()),
            ["Adds(y[0], x[0], static_cast<half>(1.5f), 1);"],
        ),
        (Call("Muls", (LocalArg("y"), ScalarVar("s")), ("y",), ()), ["Muls(y[0], s);"]),
        (
            Call("Tanh", (LocalArg("y"), LocalArg("y_tmp", None, Role.SCRATCH)), ("y",), ()),
            ["Tanh(y[0], y_tmp);"],
        ),
        (
            For("i", const(3), (Comment("in"),)),
            ["for (int64_t i = 0; i < 3; i++) {", "  // in", "}"],
        ),
    ],
)
def test_statement(stmt: Stmt, lines: list[str]) -> None:
    assert emit_block([stmt]) == lines


def test_dma_parameters_are_in_the_order_of_source_then_destination():
    block = DmaBlock(const(3), const(12), const(7), const(1))
    load = CopyIn("x", ZERO, "gm", sym("at"), F32, block)
    store = CopyOut("x", ZERO, "gm", sym("at"), F32, block)
    assert "DataCopyPad(x[0], gm[at]" in emit_block([load])[0]
    assert "{3, 12, 7, 1, 0}" in emit_block([load])[0]
    assert "DataCopyPad(gm[at], x[0]" in emit_block([store])[0]
    assert "{3, 12, 1, 7, 0}" in emit_block([store])[0]


def test_dma_without_padding_counts_in_32_byte_units():
    block = DmaBlock(const(3), const(64), const(96), const(1))
    load = CopyIn("x", ZERO, "gm", ZERO, F32, block, pad=False)
    (line,) = emit_block([load])
    assert line.startswith("DataCopy(x[0], gm[0], DataCopyParams{")
    assert [c for c in line.split("DataCopyParams")[1] if c.isdigit() and c not in "16_"] == list(
        "323"
    )


def test_sync_sets_and_awaits_the_same_event():
    text = "\n".join(emit_block([Sync("MTE2", "V")]))
    assert text.count("HardEvent::MTE2_V") >= 3
    assert text.index("SetFlag") < text.index("WaitFlag")


def test_every_statement_of_the_grammar_has_an_emitter():
    import typing

    assert set(typing.get_args(Stmt)) == {*_LINE, *_LINES, For}


def test_function_takes_the_pointers_that_it_uses():
    body = (GlobalDecl("b_gm", F32, "b"),)
    text = emit_function(KernelFn("f", Parameters(("a",), ("b",)), body, ("title",)))
    assert text.startswith("// title\ninline __aicore__ void f(GM_ADDR b, const")
    assert text.endswith("}\n")


# literals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, F32, "1.5f"),
        (3, F32, "3.0f"),
        (-0.0, F32, "-0.0f"),
        (0.1, F32, "0.1f"),
        (1e-5, F32, "1e-05f"),
        (math.inf, F32, "autofuse::kInfinity"),
        (-math.inf, F32, "-autofuse::kInfinity"),
        (1e39, F32, "autofuse::kInfinity"),
        (-math.inf, F16, "static_cast<half>(-autofuse::kInfinity)"),
        (-3.4028234663852886e38, F32, "-autofuse::kLargestFloat"),
        (65504.0, F16, "static_cast<half>(autofuse::kLargestHalf)"),
        (65504.0, F32, "65504.0f"),
        (3.3895313892515355e38, BF16, "static_cast<bfloat16_t>(autofuse::kLargestBfloat16)"),
        (0.5, F16, "static_cast<half>(0.5f)"),
        (2.0, BF16, "static_cast<bfloat16_t>(2.0f)"),
        (7, I32, "static_cast<int32_t>(7)"),
        (-(1 << 31), I32, "static_cast<int32_t>(INT32_MIN)"),
        ((1 << 31) - 1, I32, "static_cast<int32_t>(INT32_MAX)"),
        ((1 << 32) - 1, U32, "static_cast<uint32_t>(UINT32_MAX)"),
        ((1 << 31) - 1, U32, "static_cast<uint32_t>(2147483647)"),
        (-(1 << 31), I64, "static_cast<int64_t>(INT64_C(-2147483648))"),
        ((1 << 63) - 1, I64, "static_cast<int64_t>(INT64_MAX)"),
        (1 << 40, I64, "static_cast<int64_t>(INT64_C(1099511627776))"),
        (-(1 << 63), I64, "static_cast<int64_t>(INT64_MIN)"),
        (True, BOOL, "static_cast<uint8_t>(1)"),
        (0.25, BOOL, "static_cast<uint8_t>(1)"),
    ],
)
def test_literal(value, dtype, text):
    assert scalar_text(value, dtype) == text


@pytest.mark.parametrize("value", [math.nan, -math.nan])
def test_nan_has_a_name(value):
    assert scalar_text(value, F32) == "autofuse::kNan"


def test_the_names_of_numbers_have_their_values():
    header = (DEVICE / "autofuse_device.h").read_text(encoding="utf-8")
    for dtype, value in ((F32, 3.4028234663852886e38), (F16, 65504.0), (BF16, 2.0**128 - 2.0**120)):
        name = scalar_text(value, dtype).partition("autofuse::")[2].rstrip(")")
        (literal,) = re.findall(rf"constexpr float {name} = (.*)f;", header)
        assert struct.pack("<f", float(literal)) == struct.pack("<f", value)
    assert "kInfinity = __builtin_inff();" in header
    assert 'kNan = __builtin_nanf("");' in header


@pytest.mark.parametrize("bits", [0x00000001, 0x00800000, 0x3DCCCCCD, 0x3F800001, 0x7F7FFFFE])
def test_float_literals_read_back_exactly(bits):
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    text = scalar_text(value, F32)
    assert struct.pack("<f", float(text.removesuffix("f"))) == struct.pack("<f", value)
