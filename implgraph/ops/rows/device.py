"""Rows of the ops that lowering and legalisation introduce; users do not write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import ANY, Attr, Attrs, Call, OpDef
from autofuse.implgraph.ops.row_kinds import device_op

__all__ = ["MOVED", "PICK_BYTES", "ROWS", "ROW_OPERANDS", "TRANSPOSE_BYTES"]

#: Scratch of ``TransposeRows``: receives the elements outside the result of a call on 16 rows.
TRANSPOSE_BYTES = 512
#: A table of 1024 offsets, and the table derived from it for one call of ``PickBack``.
PICK_BYTES = 4096

ARITH = frozenset({"int16", "int32", "float16", "float32"})
FLOATS = frozenset({"float16", "float32"})
#: Select and Duplicate only move bits: unsupported types are moved as one of the same width.
BITS = {
    "int32": "float32",
    "uint32": "float32",
    "int16": "float16",
    "uint16": "float16",
    "bfloat16": "float16",
}


def _first(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return dtypes[0]


def _second(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return dtypes[1]


def _int32(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return BY_NAME["int32"]


def _mask(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return BY_NAME["mask"]


#: Unsigned sums and products have the same bits as those of the signed type.
WRAPPING = {"uint16": "int16", "uint32": "int32"}


def _scalar(
    name: str, dtypes: frozenset[str] = ARITH, as_type: Mapping[str, str] | None = None
) -> OpDef:
    return device_op(
        name,
        (2, 2),
        _first,
        "elewise",
        call=Call(name.replace("Relus", "Relu"), "scalar", dtypes, as_type or {}),
        cost="unary",
    )


_MODE = (Attr("mode", "str", doc="EQ NE LT LE GT GE"),)


def _structural(name: str, compute_type: str, attrs: tuple[Attr, ...] = ()) -> OpDef:
    """Return the row of a node without arithmetic: Data, Output, Load, Store, Scalar."""
    return device_op(name, (0, 1), _first, compute_type, attrs=attrs, cost="none", ulp=0.0)


#: (op, position of the operand with one element per row) -> the call that takes that operand directly.
ROW_OPERANDS = {
    ("Add", 0): "AddRow",
    ("Add", 1): "AddRow",
    ("Sub", 1): "SubRow",
    ("Sub", 0): "RowSub",
    ("Mul", 0): "MulRow",
    ("Mul", 1): "MulRow",
    ("Div", 1): "DivRow",
    ("Div", 0): "RowDiv",
    ("Maximum", 0): "MaxRow",
    ("Maximum", 1): "MaxRow",
    ("Minimum", 0): "MinRow",
    ("Minimum", 1): "MinRow",
}

#: Types that Gather, GatherMask and transpositions move; Gather moves 64 bits as words.
MOVED = frozenset({"int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"})
LONG = frozenset({"int64", "uint64"})


def _table_bytes(elements: Expr, dtype: DType) -> Expr:
    return const(PICK_BYTES)


def _pick(name: str, dtypes: frozenset[str], operands: int, *, tmp: bool = False) -> OpDef:
    """Return the row of a call that picks elements; its table operand is added at the end of scheduling."""
    call = Call(name, "device", dtypes, tmp=_table_bytes if tmp else None, inplace=False)
    return device_op(
        name,
        (1, operands - 1),
        _first,
        "pick",
        attrs=(
            Attr("step", "int", doc="elements of the run from one that is picked to the next"),
            Attr("first", "int", 0, doc="elements of the run before the first one that is picked"),
        ),
        call=call,
        cost="transpose",
    )


def _offsets(name: str, *, tmp: bool = False) -> OpDef:
    """Return the row of a table of offsets in bytes, built once per core."""
    call = Call(
        name,
        "device",
        frozenset({"int32"}),
        tmp=_table_bytes if tmp else None,
        inplace=False,
    )
    return device_op(
        name,
        (0, 0),
        _int32,
        "offsets",
        attrs=(Attr("step", "int", doc="bytes from one element to the next"),),
        call=call,
        cost="none",
    )


def _with_rows(op: str, name: str) -> OpDef:
    """Return the row of a call that takes one element per row, replacing a Broadcast and the call of ``op``."""
    dtypes = frozenset({"float16", "float32"}) if op == "Div" else ARITH
    return device_op(
        name,
        (2, 2),
        _first,
        "rows",
        call=Call("WithRows", "device", dtypes),
        cost="div" if op == "Div" else "binary",
    )


def _lace(name: str, operands: int, *more: Attr) -> OpDef:
    """Return the row of a call that turns a run of short rows into long rows, or back."""
    return device_op(
        name,
        (1, operands - 1),
        _first,
        "pick",
        attrs=(Attr("k", "int", doc="elements of a short row"), *more),
        call=Call(name, "device", MOVED, inplace=False),
        cost="transpose",
    )


_ROWS_OF_A_RUN = (
    Attr("step", "int", doc="elements of the run from one short row to the next"),
    Attr("first", "int", 0, doc="elements of the run before the first row"),
)
_PIECES = Attr(
    "pieces", "int", 1, doc="Stores that write it, with those of other groups, once scheduled"
)

ROWS: tuple[OpDef, ...] = (
    _structural("Data", "data", (Attr("index", "int", doc="position among the inputs"),)),
    _structural(
        "Output",
        "output",
        (
            Attr("index", "int", doc="position among the outputs"),
            Attr("inout", "int", -1, doc="position of the input whose memory it overwrites"),
            _PIECES,
        ),
    ),
    _structural(
        "Scalar",
        "scalar",
        (
            Attr("value", "float", 0.0, doc="compile-time value"),
            Attr(
                "expr",
                "size",
                "",
                doc="instead: an expression of the graph's symbols, known when the kernel starts",
            ),
            Attr(
                "count",
                "str",
                "",
                doc="instead: elements that a reduce loop has gone through, 'before' an iteration or 'after' it",
            ),
        ),
    ),
    # Memory between two groups: Stores before it write, Loads after it read.
    replace(
        _structural(
            "Workspace",
            "workspace",
            (
                Attr("index", "int", doc="position among the workspaces"),
                Attr("size", "size", doc="elements, an expression of the graph's symbols"),
                Attr(
                    "offset",
                    "size",
                    "0",
                    doc="first byte in the kernel's workspace, once scheduled",
                ),
                _PIECES,
            ),
        ),
        # In a scheduled group that reads it, the Stores belong to another group.
        arity=(0, ANY),
    ),
    # The optional second input is an index: for every element along its axes, the position along one dimension of the
    # first input.
    replace(
        _structural(
            "Load",
            "load",
            (
                Attr("stride", "size", "", doc="elements between neighbours of that dimension"),
                Attr("extent", "size", "", doc="their number"),
                Attr(
                    "run",
                    "bool",
                    False,
                    doc="along its last axis in the tile it loads what lies between the elements as well, in the "
                    "order of GM",
                ),
                Attr(
                    "beyond",
                    "int",
                    0,
                    doc="elements that a run, or each row, goes on behind its last one",
                ),
                Attr(
                    "behind",
                    "int",
                    0,
                    doc="elements of the tensor behind the last one that it loads: all, or enough for a block",
                ),
                Attr(
                    "taken",
                    "bool",
                    False,
                    doc="the index holds offsets in bytes in rows of that dimension, which are loaded whole",
                ),
                Attr(
                    "row",
                    "size",
                    "",
                    doc="elements of whole rows that it loads along an axis of their own",
                ),
                Attr("overlap", "bool", False, doc="rows in GM lie on each other for some sizes"),
                Attr(
                    "inside",
                    "size",
                    "",
                    doc="elements of the tensor, where some places are outside and nothing uses their values",
                ),
            ),
        ),
        arity=(0, 2),
    ),
    _structural(
        "Store",
        "store",
        (Attr("columns", "int", 1, doc="pieces of the output that it writes, once scheduled"),),
    ),
    _scalar("Adds", ARITH.union(WRAPPING), WRAPPING),
    _scalar("Muls", ARITH.union(WRAPPING), WRAPPING),
    _scalar("LeakyRelus", FLOATS),
    _scalar("Maxs"),
    _scalar("Mins"),
    device_op(
        "Compare",
        (2, 2),
        _mask,
        "elewise",
        attrs=_MODE,
        call=Call("Compare", "compare", FLOATS | {"int32"}, inplace=False, whole_repeats=True),
        cost="compare",
    ),
    device_op(
        "CompareScalar",
        (2, 2),
        _mask,
        "elewise",
        attrs=_MODE,
        call=Call("CompareScalar", "compare_scalar", FLOATS, inplace=False, whole_repeats=True),
        cost="compare",
    ),
    device_op(
        "SelectMask",
        (3, 3),
        _second,
        "elewise",
        call=Call("Select", "select", FLOATS, as_type=BITS, inplace=False, whole_repeats=True),
        cost="select",
    ),
    # Masks are bits; And, Or and Not work on 16 of them at a time.
    device_op(
        "MaskAnd",
        (2, 2),
        _mask,
        "elewise",
        call=Call("And", "binary", frozenset({"mask"}), as_type={"mask": "uint16"}),
        cost="unary",
    ),
    device_op(
        "MaskOr",
        (2, 2),
        _mask,
        "elewise",
        call=Call("Or", "binary", frozenset({"mask"}), as_type={"mask": "uint16"}),
        cost="unary",
    ),
    device_op(
        "MaskNot",
        (1, 1),
        _mask,
        "elewise",
        call=Call("Not", "unary", frozenset({"mask"}), as_type={"mask": "uint16"}),
        cost="unary",
    ),
    device_op(
        "Duplicate",
        (1, 1),
        _first,
        "broadcast",
        call=Call(
            "Duplicate",
            "duplicate",
            frozenset({"int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"}),
            inplace=False,
        ),
        cost="duplicate",
    ),
    # [a, x, y] -> [a, y, x] in UB: converts between the layouts of a copy and of the group's calls.
    device_op(
        "UbTranspose",
        (1, 1),
        _first,
        "transpose",
        call=Call(
            "TransposeRows",
            "device",
            MOVED,
            as_type=BITS,
            tmp=lambda elements, dtype: const(TRANSPOSE_BYTES),
            inplace=False,
        ),
        cost="transpose",
    ),
    # Gathers elements with a stride in a UB run into a contiguous one; and the tables of offsets for two of the calls.
    _pick("PickByMask", MOVED, 2),
    _pick("PickAhead", MOVED | LONG, 3),
    _pick("PickBack", MOVED | LONG, 3, tmp=True),
    _offsets("PickOffsets"),
    _offsets("PairOffsets", tmp=True),
    # [a, t, k] in one run and [a, k, t] with rows at 32-byte addresses: tensors with short rows.
    _lace("UnlaceByMask", 2, *_ROWS_OF_A_RUN),
    _lace("Unlace", 3, *_ROWS_OF_A_RUN),
    _lace("Lace", 3),
    # Elements of rows in UB: the second operand has the offsets in bytes of those that are taken.
    device_op(
        "TakeRows",
        (2, 2),
        _first,
        "pick",
        call=Call("TakeRows", "device", MOVED, inplace=False),
        cost="gather",
    ),
    # k tensors [a, t] side by side, [a, k, t]: columns that are stored as short rows.
    device_op(
        "Stack",
        (2, ANY),
        _first,
        "stack",
        call=Call(
            "StackRows",
            "device",
            frozenset(d for d in BY_NAME if d != "mask"),
            inplace=False,
        ),
        cost="unary",
    ),
    # Operands [.., t] and one element per row, [..]: the second operand, or the first of RowSub and RowDiv.
    *(_with_rows(op, name) for name, op in {v: op for (op, _), v in ROW_OPERANDS.items()}.items()),
    device_op(
        "LaceOffsets",
        (0, 0),
        _int32,
        "offsets",
        attrs=(
            Attr("k", "int", doc="elements of a short row"),
            Attr("pitch", "size", doc="elements from one long row to the next"),
            Attr("size", "int", doc="bytes of an element"),
        ),
        call=Call(
            "LaceOffsets",
            "device",
            frozenset({"int32"}),
            tmp=_table_bytes,
            inplace=False,
        ),
        cost="none",
    ),
    # Running sums along the axes of the attribute; in a loop the second input is the carry from earlier tiles.
    device_op(
        "Scan",
        (1, 2),
        _first,
        "scan",
        attrs=(
            Attr("axes", "ints", doc="ids of the axes, outermost first"),
            Attr("exclusive", "bool", False, doc="the element itself is left out"),
            Attr("reverse", "bool", False, doc="sums from the end"),
            Attr("together", "bool", False, doc="rows of a tile side by side, however few"),
        ),
        call=Call(
            "Scan",
            "device",
            frozenset({"int16", "int32", "float32"}),
            as_type=WRAPPING,
            inplace=False,
        ),
        cost="binary",
    ),
    device_op(
        "UbCopy",
        (1, 1),
        _first,
        "elewise",
        call=Call(
            "DataCopy", "ub_copy", frozenset(d for d in BY_NAME if d != "mask"), inplace=False
        ),
        cost="unary",
    ),
)
