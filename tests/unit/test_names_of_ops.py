"""General passes ask the row of an op for a property, not for its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from autofuse.implgraph.ops.registry import all_ops

ROOT = Path(__file__).parents[2]
#: Structure of a graph, and functions of expressions that are called like ops.
_STRUCTURE = frozenset({"Cast", "Identity", "FloorDiv", "Mod"})
OPS = frozenset(r.name for r in all_ops() if r.compute_type == "elewise") - _STRUCTURE
#: Tables and rules of single ops: their spelling in a language, or what one of them becomes.
_RULES = ("implgraph/ops/", "codegen/backends/ascendc/", "codegen/passes/register_calls.py")
#: Modules that still know ops by their names, and why.
KNOWN = {
    "codegen/backends/cpu/writer.py": "a mean takes the total of a sum in double",
    "codegen/backends/triton/limits.py": "what triton-ascend lacks, by its documents",
    "codegen/backends/triton/text/writer.py": "a row over one number is multiplied by its reciprocal",
    "codegen/nests/legalize.py": "calls of Ascend as ops of a language",
    "implgraph/division/online_reductions.py": "laws of single ops",
    "implgraph/rewrites/differences.py": "a - b < 0 is a < b",
    "implgraph/rewrites/narrowing.py": "ranges of integers through each op",
    "implgraph/rewrites/recognise.py": "forms of compositions",
    "implgraph/simplify/identities.py": "identities of single ops",
    "implgraph/simplify/integer_limits.py": "bounds of integers as floats",
    "schedule/legal/casts.py": "words of long integers",
    "schedule/legal/legalize.py": "calls that a chip has",
    "schedule/placement/scalars.py": "masks of one element",
    "schedule/placement/scan.py": "copies in UB",
}


def _modules() -> Iterator[str]:
    for top in ("implgraph", "schedule", "codegen"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(_RULES) and "/ops/" not in name:
                yield name


def _asked(tree: ast.AST) -> Iterator[str]:
    """Names of ops in comparisons, and in constants that are sets or tuples."""
    for n in ast.walk(tree):
        constant = isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
        is_set = constant and isinstance(n.value, ast.Call | ast.Set | ast.Tuple | ast.BinOp)
        if isinstance(n, ast.Compare) or (is_set and n.targets[0].id.isupper()):
            for c in ast.walk(n):
                if isinstance(c, ast.Constant) and c.value in OPS:
                    yield f"line {c.lineno}: {c.value}"


def test_no_general_pass_asks_for_an_op_by_its_name() -> None:
    found = {m: list(_asked(ast.parse((ROOT / m).read_text(encoding="utf-8")))) for m in _modules()}
    unknown = {m: lines for m, lines in found.items() if lines and m not in KNOWN}
    assert not unknown
    assert [m for m in KNOWN if not found.get(m)] == []


@pytest.mark.parametrize(
    "text", ['n.op == "Exp"', 'n.op in ("Exp", "Ln")', '_SPECIAL = frozenset({"Exp"})']
)
def test_a_name_is_found(text: str) -> None:
    assert list(_asked(ast.parse(text)))
