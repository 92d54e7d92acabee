"""The modules that ``AUTOFUSE_NATIVE=1`` compiles: they exist, and mypyc takes them.

No wheel is built here; docs/performance.md says how a compiled one is tried.
"""

import ast
import platform
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from autofuse import __version__
from autofuse.base import native
from autofuse.base.knobs import unknown
from autofuse.commands import machine

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


@pytest.mark.slow
def test_mypyc_takes_them_all(repo: Path, tmp_path: Path) -> None:
    """To C; g++ is left out, which takes minutes."""
    command = [sys.executable, repo / "native" / "generate.py", repo / "src", tmp_path, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in MODULES:
        assert (tmp_path / f"{name.replace('.', '/')}.c").stat().st_size > 0


def left_out(module: ast.Module) -> list[int]:
    """Lines that a compiled module does not have: what is for TYPE_CHECKING or else."""
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.If) and node.orelse and "TYPE_CHECKING" in ast.unparse(node.test)
    ]


@pytest.mark.parametrize("name", MODULES)
def test_a_listed_module_is_compiled_to_what_it_says(repo: Path, name: str) -> None:
    assert left_out(tree(repo, name)) == []


def test_what_would_be_left_out_is_seen() -> None:
    assert left_out(ast.parse("if TYPE_CHECKING:\n pass\nelse:\n f = 1")) == [1]


@pytest.mark.parametrize("name", MODULES)
def test_a_listed_module_asks_for_nothing_that_a_compiled_one_finds_each_time(
    repo: Path, name: str
) -> None:
    """mypyc makes a property of a ``cached_property``, and a list of a generator, which must have an end."""
    source = ast.unparse(tree(repo, name))
    assert "cached_property" not in source
    assert "in itertools.count(" not in source


def caught_twice(module: ast.Module) -> list[str]:
    """Functions that give one name to exceptions of different types: mypyc refuses the second one as it runs."""
    found = []
    for f in ast.walk(module):
        if isinstance(f, ast.FunctionDef):
            types: dict[str, set[str]] = {}
            for n in ast.walk(f):
                if isinstance(n, ast.ExceptHandler) and n.name and n.type:
                    types.setdefault(n.name, set()).add(ast.unparse(n.type))
            found += [f.name] * any(len(t) > 1 for t in types.values())
    return found


@pytest.mark.parametrize("name", MODULES)
def test_a_listed_module_has_a_name_for_each_kind_of_exception(repo: Path, name: str) -> None:
    assert caught_twice(tree(repo, name)) == []


def test_a_name_for_two_kinds_of_exceptions_is_seen() -> None:
    source = "def f():\n try: g()\n except A as e: h(e)\n except B as e: h(e)"
    assert caught_twice(ast.parse(source)) == ["f"]


def decorators(module: ast.Module) -> dict[str, str]:
    """The decorators of the classes of a module."""
    return {
        n.name: " ".join(ast.unparse(d).partition("(")[0] for d in n.decorator_list)
        for n in ast.walk(module)
        if isinstance(n, ast.ClassDef)
    }


@pytest.mark.parametrize("name", MODULES)
def test_mypyc_knows_the_decorators_of_classes(repo: Path, name: str) -> None:
    """A class with another one has slow attributes, and ``==`` of two of its objects becomes ``is``."""
    assert set(decorators(tree(repo, name)).values()) <= {"", "dataclass", "frozen"}


def test_graph_types_that_are_read_from_json_keep_their_annotations(repo: Path) -> None:
    """JSON is read by them; of a dataclass that is compiled mypyc leaves ``tuple`` of ``tuple[Node, ...]``."""
    code = (
        "from autofuse.implgraph.ir.serialise import SCHEMAS, _hints\n"
        "import dataclasses, typing\n"
        "todo, seen = list(SCHEMAS.values()), set()\n"
        "while todo:\n"
        "    t = todo.pop()\n"
        "    todo += typing.get_args(t)\n"
        "    if dataclasses.is_dataclass(t) and t not in seen:\n"
        "        seen.add(t); todo += _hints(t).values()\n"
        "print(*sorted({f'{t.__module__}:{t.__name__}' for t in seen}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    read = [found.partition(":") for found in done.stdout.split()]
    compiled = [(name, kind) for name, _, kind in read if name in MODULES]
    assert ("autofuse.implgraph.ir.graph", "Node") in compiled
    assert {decorators(tree(repo, name))[kind] for name, kind in compiled} == {"frozen"}


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
