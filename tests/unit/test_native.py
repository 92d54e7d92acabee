"""The modules that ``AUTOFUSE_NATIVE=1`` compiles: they exist, and hold nothing that mypyc is known not to take.

Nothing is compiled here; docs/performance.md says how the compiled wheel is tried.
"""

import ast
import platform
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from autofuse import __version__, native
from autofuse.commands import machine
from autofuse.knobs import unknown

MODULES = native.listed()


def tree(repo: Path, name: str) -> ast.Module:
    return ast.parse((repo / "src" / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))


def test_the_list_names_each_module_once_in_order() -> None:
    assert MODULES
    assert list(MODULES) == sorted(set(MODULES))


@pytest.mark.parametrize("name", MODULES)
def test_a_listed_module_is_a_file_of_the_package(repo: Path, name: str) -> None:
    assert name.startswith("autofuse.")
    assert tree(repo, name).body


def refused(module: ast.Module) -> list[int]:
    """Lines with what mypyc does not compile, or compiles to something else."""
    found = []
    for node in ast.walk(module):
        # An internal error of mypyc: x in (*names, "Store").
        if isinstance(node, ast.Compare) and any(
            isinstance(item, ast.Starred)
            for right in node.comparators
            if isinstance(right, ast.Tuple | ast.List)
            for item in right.elts
        ):
            found.append(node.lineno)
        # What TYPE_CHECKING leaves out is left out of the compiled module.
        if isinstance(node, ast.If) and node.orelse and "TYPE_CHECKING" in ast.unparse(node.test):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_a_listed_module_can_be_compiled(repo: Path, name: str) -> None:
    assert refused(tree(repo, name)) == []


@pytest.mark.parametrize(
    "text", ["x in (*names, 'Store')", "if TYPE_CHECKING:\n pass\nelse:\n f = 1"]
)
def test_what_cannot_be_compiled_is_seen(text: str) -> None:
    assert refused(ast.parse(text)) == [1]


def test_no_graph_type_that_is_read_from_json_is_compiled() -> None:
    """JSON is read by the annotations of the classes; mypyc leaves ``tuple`` of ``tuple[Node, ...]``."""
    code = (
        "from autofuse.implgraph.serialise import SCHEMAS, _hints\n"
        "import dataclasses, typing\n"
        "todo, seen = list(SCHEMAS.values()), set()\n"
        "while todo:\n"
        "    t = todo.pop()\n"
        "    todo += typing.get_args(t)\n"
        "    if dataclasses.is_dataclass(t) and t not in seen:\n"
        "        seen.add(t); todo += _hints(t).values()\n"
        "print(*sorted({t.__module__ for t in seen}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    read = done.stdout.split()
    assert "autofuse.implgraph.graph" in read
    assert not set(read) & set(MODULES)


def pretend(monkeypatch: pytest.MonkeyPatch, compiled: tuple[str, ...]) -> None:
    """As if Python found extension modules for these names, and .py files for the others."""

    def spec(name: str) -> ModuleSpec:
        return ModuleSpec(
            name, None, origin=f"x{EXTENSION_SUFFIXES[0] if name in compiled else '.py'}"
        )

    monkeypatch.setattr(native, "find_spec", spec)


@pytest.mark.parametrize(
    ("compiled", "ending"),
    [
        ((), ""),
        (MODULES[:2], f", 2 of {len(MODULES)} modules compiled"),
        (MODULES, f", {len(MODULES)} modules compiled"),
    ],
)
def test_doctor_says_how_many_are_compiled(
    monkeypatch: pytest.MonkeyPatch, compiled: tuple[str, ...], ending: str
) -> None:
    pretend(monkeypatch, compiled)
    assert native.compiled() == compiled
    checks: Any = machine.doctor().result["checks"]
    version = f"{__version__}, Python {platform.python_version()}"
    assert {r["what"]: r["found"] for r in checks}["autofuse"] == version + ending


def test_the_switch_of_the_build_is_no_misspelt_knob() -> None:
    assert unknown({"AUTOFUSE_NATIVE": "1"}) == []
    assert len(unknown({"AUTOFUSE_NATIV": "1"})) == 1
