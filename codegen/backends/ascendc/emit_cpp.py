"""Emit KernelIR as Ascend C text.  One small function per statement; no decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autofuse.codegen.backends.ascendc.expr_cpp import to_cpp
from autofuse.codegen.backends.ascendc.registers_cpp import call_lines, function_lines
from autofuse.codegen.backends.ascendc.rows_cpp import row_function_lines
from autofuse.codegen.backends.ascendc.words import INDENT, scalar_text, wrap_call
from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.calls import (
    Arg,
    Call,
    Count,
    EnumArg,
    LocalArg,
    Number,
    Role,
    ScalarVar,
    SizeValue,
    VectorFunction,
)
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Barrier,
    BlockIndex,
    BufDecl,
    BypassL2,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    DmaBlock,
    DmaDims,
    DmaLet,
    EnQue,
    For,
    Free,
    GetBuf,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    PipeDecl,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    Sync,
    TilingField,
)
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import replace

__all__ = ["callee", "emit_function"]

#: Bytes of a UB block, as spelled in the headers: ``kBlockBytes``, ``kDmaBlock``.
BLOCK_BYTES = 32


def emit_function(fn: KernelFn) -> str:
    """Return the text of a device function, ending in a newline."""
    params = [*(f"GM_ADDR {p}" for p in fn.pointers), "const AutofuseTilingData& t"]
    lines = _on_registers(fn)
    lines += [f"// {text}" for text in fn.title]
    lines += wrap_call(f"inline __aicore__ void {fn.name}", params, " {")
    lines += emit_block(_with_places(fn.body), INDENT)
    lines += ["}", ""]
    return "\n".join(lines)


def _on_registers(fn: KernelFn) -> list[str]:
    """Return the register functions that a device function calls."""
    found = _functions_on_registers(fn.body)
    if not found:
        return []
    assert fn.arch is not None
    lines = ["namespace autofuse {", ""]
    for f in found:
        write = row_function_lines if f.rows else function_lines
        lines += [*write(f, fn.arch), ""]
    return [*lines, "}  // namespace autofuse", ""]


def _with_places(body: tuple[Stmt, ...]) -> list[Stmt]:
    """Drop the declarations of tensors that live in registers only."""
    found = _functions_on_registers(body)
    if not found:
        return list(body)
    in_ub = {x for f in found for x in (*f.loads, *f.stores)} | _in_calls(body)
    return _without(body, {x for f in found for x, _ in f.dtypes} - in_ub)


def _without(body: Sequence[Stmt], kept: set[str]) -> list[Stmt]:
    """Drop the declarations of tensors in ``kept``, except those that later aliases refer to."""
    out: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, GetBuf | Alias) and s.local in kept:
            continue
        if isinstance(s, Alias):
            kept.discard(s.of)
        out.append(replace(s, body=tuple(_without(s.body, kept))) if isinstance(s, For) else s)
    return out[::-1]


def _in_calls(body: Sequence[Stmt]) -> set[str]:
    out: set[str] = set()
    for s in body:
        if isinstance(s, For):
            out |= _in_calls(s.body)
        elif isinstance(s, Call):
            out |= {*s.reads, *s.writes}
    return out


def _functions_on_registers(body: Sequence[Stmt]) -> list[VectorFunction]:
    """Return the register functions of a block and its loops, in order."""
    out: list[VectorFunction] = []
    for s in body:
        if isinstance(s, VectorFunction):
            out.append(s)
        elif isinstance(s, For):
            out += _functions_on_registers(s.body)
    return out


def emit_block(body: Sequence[Stmt], indent: str = "") -> list[str]:
    """Return the lines of a block's statements, indented by ``indent``."""
    lines: list[str] = []
    for s in body:
        line = _LINE.get(type(s))
        if line is not None:
            lines.append(indent + line(s))
        elif isinstance(s, For):
            lines.append(indent + _for_head(s))
            lines += emit_block(s.body, indent + INDENT)
            lines.append(indent + "}")
        else:
            lines += [indent + text for text in _LINES[type(s)](s)]
    return lines


def _arg(a: Arg) -> str:
    if isinstance(a, LocalArg):
        if a.role is Role.SCRATCH:
            # The API takes scratch space by non-const reference: pass a named tensor, never a temporary.
            return a.local
        return f"{a.local}.ReinterpretCast<{a.as_type.cpp}>()" if a.as_type else f"{a.local}[0]"
    if isinstance(a, Count):
        return to_cpp(a.value)
    if isinstance(a, Number):
        return scalar_text(a.value, a.dtype)
    if isinstance(a, ScalarVar):
        return a.name
    if isinstance(a, SizeValue):
        text = to_cpp(a.value)
        wide = "float" if a.dtype.kind == "f" and a.dtype.name != "float32" else ""
        return f"static_cast<{a.dtype.cpp}>({f'static_cast<{wide}>({text})' if wide else text})"
    assert isinstance(a, EnumArg)
    return a.text


def callee(s: Call) -> str:
    """Return the C++ name of a function, with its template arguments."""
    if s.api not in FUNCTIONS:
        return s.api
    flags = FUNCTIONS[s.api].flags
    names = [flags[i][x] if isinstance(x, bool) else x for i, x in enumerate(s.of)]
    of = ", ".join(f"autofuse::{x}" for x in names)
    return f"autofuse::{s.api}{s.form}<{of}>" if of else f"autofuse::{s.api}{s.form}"


def _call(s: Call) -> list[str]:
    return wrap_call(callee(s), [_arg(a) for a in s.args], ";")


def _block(b: DmaBlock, order: tuple[str, str]) -> str:
    count = to_cpp(b.count) if b.count.is_const else f"static_cast<uint16_t>({to_cpp(b.count)})"
    gaps = {"gm": _u32(b.gm_gap), "ub": _u32(b.ub_gap)}
    return f"{{{count}, {_u32(b.length)}, {gaps[order[0]]}, {gaps[order[1]]}, 0}}"


def _u32(e: Expr) -> str:
    return to_cpp(e) if e.is_const else f"static_cast<uint32_t>({to_cpp(e)})"


def _units(b: DmaBlock, order: tuple[str, str]) -> str:
    """Return DataCopyParams with 16-bit fields, all in blocks."""
    from autofuse.implgraph.expr.expression import FloorDiv

    gaps = {"gm": FloorDiv(b.gm_gap, BLOCK_BYTES), "ub": b.ub_gap}
    parts = [b.count, FloorDiv(b.length, BLOCK_BYTES), gaps[order[0]], gaps[order[1]]]
    return "{" + ", ".join(f"static_cast<uint16_t>({to_cpp(p)})" for p in parts) + "}"


def _list(ctype: str, values: Sequence[Expr]) -> str:
    texts = [to_cpp(e) if e.is_const else f"static_cast<{ctype}>({to_cpp(e)})" for e in values]
    return "{" + ", ".join(texts) + "}"


def _copy_in(s: CopyIn) -> list[str]:
    if s.scalar:
        return [f"{s.local}.SetValue(0, {s.scalar});"]
    dst, src = f"{s.local}[{to_cpp(s.local_offset)}]", f"{s.gm}[{to_cpp(s.gm_offset)}]"
    if isinstance(s.block, DmaDims):
        dims = s.block.dims
        strides = _list("uint64_t", [d.gm for d in dims]), _list("uint32_t", [d.ub for d in dims])
        sizes = _list("uint32_t", [d.size for d in dims])
        return wrap_call(f"autofuse::LoadDims<{s.dtype.cpp}>", [dst, src, *strides, sizes], ";")
    if not s.pad:
        return [f"DataCopy({dst}, {src}, DataCopyParams{_units(s.block, ('gm', 'ub'))});"]
    block = s.block_name or f"DataCopyExtParams{_block(s.block, ('gm', 'ub'))}"
    return wrap_call("DataCopyPad", [dst, src, block, f"autofuse::NoPad<{s.dtype.cpp}>()"], ";")


def _copy_out(s: CopyOut) -> list[str]:
    dst, src = f"{s.gm}[{to_cpp(s.gm_offset)}]", f"{s.local}[{to_cpp(s.local_offset)}]"
    if not s.pad:
        return [f"DataCopy({dst}, {src}, DataCopyParams{_units(s.block, ('ub', 'gm'))});"]
    block = s.block_name or f"DataCopyExtParams{_block(s.block, ('ub', 'gm'))}"
    return wrap_call("DataCopyPad", [dst, src, block], ";")


def _dma_let(s: DmaLet) -> str:
    order = ("gm", "ub") if s.load else ("ub", "gm")
    return f"const DataCopyExtParams {s.name}{_block(s.block, order)};"


def _index_read(s: IndexRead) -> list[str]:
    value = f"{s.local}.GetValue({_u32(s.offset)})"
    return wrap_call(f"const int64_t {s.name} = autofuse::IndexIn", [value, to_cpp(s.extent)], ";")


def _for_head(s: For) -> str:
    return f"for (int64_t {s.var} = 0; {s.var} < {to_cpp(s.extent)}; {s.var}++) {{"


def _address(s: GlobalDecl) -> str:
    return s.param if s.offset.number == 0 else f"({s.param} + {to_cpp(s.offset, atomic=True)})"


def _bypass(s: BypassL2) -> list[str]:
    why = f"// Larger than L2 ({s.size} bytes): bypass it, so other tensors stay cached."
    hints = [f"{name}.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);" for name in s.names]
    if s.held is None:
        return [why, *hints]
    return [why, f"if ({to_cpp(s.held)} > {s.size}) {{", *(INDENT + h for h in hints), "}"]


def _queue(s: QueueDecl) -> str:
    if s.copy:
        return f"TQueBind<TPosition::VECIN, TPosition::VECOUT, {s.depth}> {s.name};"
    return f"TQue<TPosition::{s.position.value}, {s.depth}> {s.name};"


def _sync(s: Sync) -> list[str]:
    event, lines = f"HardEvent::{s.event}", []
    lines.append(f"const auto id = tpipe.AllocEventID<{event}>();")
    lines += [f"SetFlag<{event}>(id);", f"WaitFlag<{event}>(id);"]
    if s.target == "S":
        lines.append(f"tpipe.ReleaseEventID<{event}>(id);")
    else:
        # The scalar unit runs ahead: a queue that reused this id now could set the flag before the wait is reached.
        lines.append("// Keep the event id: other pipes may not have reached the wait yet.")
    return ["{", *(INDENT + line for line in lines), "}"]


def _init(s: InitBuffer) -> str:
    number = f"{s.buf_num}, " if s.buf_num else ""
    return f"{s.pipe}.InitBuffer({s.name}, {number}{_u32(s.nbytes)});"


#: Template arguments of EnQue and DeQue, for queues that do not imply the positions.
_LINKS = {
    "": "",
    "in": "TPosition::GM, TPosition::VECIN, ",
    "out": "TPosition::VECOUT, TPosition::GM, ",
}


def _core(s: BlockIndex) -> str:
    if s.first is None:
        return "GetBlockIdx()"
    return f"autofuse::CoreFrom(t.{s.first}, t.block_dim)"


#: Statements that print as one line.
_LINE: dict[type, Callable[[Any], str]] = {
    Comment: lambda s: f"// {s.text}",
    Let: lambda s: f"const int64_t {s.name} = {to_cpp(s.value)};",
    TilingField: lambda s: f"const int64_t {s.name} = t.{s.name};",
    BlockIndex: lambda s: f"const int64_t {s.name} = {_core(s)};",
    PipeDecl: lambda s: f"TPipe {s.name};",
    QueueDecl: _queue,
    BufDecl: lambda s: f"TBuf<TPosition::{s.position.value}> {s.name};",
    InitBuffer: _init,
    GetBuf: lambda s: f"LocalTensor<{s.dtype.cpp}> {s.local} = {s.buf}.Get<{s.dtype.cpp}>();",
    Alloc: lambda s: (
        f"LocalTensor<{s.dtype.cpp}> {s.local} = {s.queue}.AllocTensor<{s.dtype.cpp}>();"
    ),
    Alias: lambda s: f"LocalTensor<{s.dtype.cpp}> {s.local} = {s.of};",
    EnQue: lambda s: f"{s.queue}.EnQue<{_LINKS[s.link]}{s.dtype.cpp}>({s.local});",
    DeQue: lambda s: f"{s.local} = {s.queue}.DeQue<{_LINKS[s.link]}{s.dtype.cpp}>();",
    Free: lambda s: f"{s.queue}.FreeTensor({s.local});",
    DmaLet: _dma_let,
    ScalarRead: lambda s: (
        f"const {s.dtype.cpp} {s.name} = {s.gm or s.local}.GetValue({to_cpp(s.offset)});"
    ),
    Barrier: lambda s: f"PipeBarrier<{s.pipe}>();",
}

#: All other statements except loops.
_LINES: dict[type, Callable[[Any], list[str]]] = {
    ReturnIfEmpty: lambda s: [f"if ({s.value} <= 0) {{", f"{INDENT}return;", "}"],
    GlobalDecl: lambda s: [
        f"GlobalTensor<{s.dtype.cpp}> {s.name};",
        f"{s.name}.SetGlobalBuffer((__gm__ {s.dtype.cpp}*){_address(s)});",
    ],
    BypassL2: _bypass,
    CopyIn: _copy_in,
    CopyOut: _copy_out,
    Call: _call,
    IndexRead: _index_read,
    Sync: _sync,
    VectorFunction: lambda s: call_lines(s, _arg),
}
