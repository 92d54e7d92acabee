"""Names and sizes in generated C++."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autofuse.codegen.backends.ascendc.expr_cpp import CPP_KEYWORDS, check_identifier, to_cpp
from autofuse.codegen.nests.names import Names
from autofuse.implgraph.expr.expression import IntLike
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["CppNames", "entry_point", "size_text"]

#: Reserved names in generated text besides keywords; the macros of its headers have these forms, too.
_RESERVED = (
    *(
        "std",
        "simd",
        "autofuse",
        "data",
        "shapes",
        "half",
        "bfloat16",
        "min",
        "max",
        "start",
        "lanes",
        "j",
    ),
    *(
        "NAN",
        "INFINITY",
        "NULL",
        "INT64_C",
        "UINT64_C",
        "INT64_MIN",
        "unix",
        "linux",
        "main",
        "assert",
        "errno",
        "stdin",
        "stdout",
        "stderr",
    ),
    *(f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)),
    *("size_t", "uintptr_t", "intptr_t", "ptrdiff_t", "int_fast8_t"),
)


class CppNames(Names):
    """C++ identifiers that are not reserved in generated files."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        super().__init__((*taken, *_RESERVED, *CPP_KEYWORDS))

    def take(self, wanted: str) -> str:
        """Take an identifier that does not look like a macro."""
        return super().take(wanted.lower() if wanted.isupper() and len(wanted) > 1 else wanted)


def entry_point(graph: FusionGraph) -> str:
    """Return the name of the function that runs a graph.

    Raises:
        ExprError: if the graph's name is not an identifier; a reader has usually checked it.
    """
    return check_identifier(f"{graph.name}_kernel")


def size_text(e: IntLike, names: Mapping[str, str], *, atomic: bool = False) -> str:
    """Return a size as 64-bit integer arithmetic.

    Args:
        e: expression to print.
        names: C++ names of symbols.
        atomic: parenthesise unless it can stand beside any operator.

    Raises:
        ExprError: for a ``Ratio`` that is no integer, or a number that 64 bits cannot hold.
    """
    return to_cpp(e, names, atomic=atomic)
