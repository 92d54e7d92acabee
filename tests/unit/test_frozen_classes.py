"""Frozen classes of modules that ``AUTOFUSE_NATIVE=1`` compiles: how they are written out, and what they are then."""

import ast
import runpy
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.base import native

HEAD = "from dataclasses import field\n\nfrom autofuse.implgraph.ir.frozen import frozen, replace\n\n\n"
POINT = '''@frozen
class Point:
    """A point."""

    x: int
    y: int = 2
    tags: dict[str, int] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list, compare=False, repr=False)

    def moved(self, by: int) -> "Point":
        return replace(self, x=self.x + 1 // by)


@frozen
class Pair:
    """A point, for now."""

    one: Point

    @property
    def twice(self) -> bool:
        return self.one == Point(4)
'''


@pytest.fixture(scope="module")
def written(repo: Path) -> Callable[[str], str]:
    found: Callable[[str], str] = runpy.run_path(str(repo / "native" / "frozen_classes.py"))[
        "with_native_classes"
    ]
    return found


def places(text: str) -> dict[str, int]:
    """The lines of functions and classes."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    out = {n.name: n.lineno for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)}
    return {name: line for name, line in out.items() if name not in ("__init__", "_changed")}


def test_a_module_without_frozen_classes_stays_as_it_is(written: Callable[[str], str]) -> None:
    text = "import ast\n\n\nclass A:\n    x: int\n"
    assert written(text) == text


def test_methods_take_the_lines_of_fields(written: Callable[[str], str]) -> None:
    found = written(HEAD + POINT)
    assert places(found) == places(HEAD + POINT)
    assert "@frozen" not in found
    (init,) = [line for line in found.split("\n") if "def __init__(self, x" in line]
    assert "x: int, y: int = 2, tags: dict[str, int] | None = None" in init
    assert "self.y = y; self.tags = dict() if tags is None else tags" in init


@pytest.mark.parametrize("name", native.listed())
def test_every_compiled_module_can_be_written_out(
    repo: Path, written: Callable[[str], str], name: str
) -> None:
    text = (repo / "src" / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
    found = written(text)
    assert "@frozen" not in found
    assert places(found) == places(text)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "    x: int\n\n    def f(self) -> None: ...\n\n    y: int\n",
            "no fields, or other things",
        ),
        ("    x: int = field(default=1)\n\n\n", r"x is a field\(\) without"),
        ('    """Nothing."""\n', "no fields, or other things"),
        ("    x: int\n    def f(self) -> None: ...\n", "no lines for its methods"),
    ],
)
def test_what_cannot_be_written_out_is_refused(
    written: Callable[[str], str], body: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        written(f"{HEAD}@frozen\nclass A:\n{body}")


CHECK = f"""
import copy, dataclasses, pickle, sys, traceback, typing
import autofuse
autofuse.__path__.insert(0, "autofuse")
from small.points import Pair, Point
from autofuse.implgraph.ir.frozen import replace

def error(call):
    try:
        call()
    except Exception as e:
        return type(e).__name__ + ": " + str(e)

found = Point(1)
assert (found.x, found.y, found.tags) == (1, 2, {{}}) and found.tags is not Point(1).tags
assert Point(1, 3) == Point(x=1, y=3) == replace(found, y=3) == dataclasses.replace(found, y=3)
assert Point(1, seen=[5]) == Point(1) != Point(2) and replace(found).seen is found.seen
assert replace(found) is not found and repr(found) == "Point(x=1, y=2, tags={{}})"
assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
assert Pair(Point(4)).twice and not Pair(Point(5)).twice
assert typing.get_type_hints(Point)["tags"] == dict[str, int]
assert [f.type for f in dataclasses.fields(Point)][:3] == ["int", "int", "dict[str, int]"]
assert error(lambda: setattr(found, "x", 3)).startswith("FrozenInstanceError")
assert error(lambda: replace(found, z=3)) == "TypeError: Point has no field z"
assert error(lambda: Point()).startswith("TypeError")
assert not hasattr(found, "__dict__")
try:
    found.moved(0)
except ZeroDivisionError as e:
    (line,) = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.name == "moved"]
    assert line == {(HEAD + POINT)[: (HEAD + POINT).index("return replace")].count(chr(10)) + 1}
"""


@pytest.mark.slow
def test_a_compiled_class_is_what_it_was(repo: Path, tmp_path: Path) -> None:
    import mypyc.build

    sources = {
        "small/points.py": HEAD + POINT,
        # Of the package mypy needs no more than this.
        "autofuse/implgraph/ir/frozen.py": (repo / "implgraph" / "frozen.py").read_text("utf-8"),
    }
    for name, text in sources.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True)
        for folder in (file.parent, file.parent.parent):
            if folder.name != "src":
                (folder / "__init__.py").touch()
        file.write_text(text, encoding="utf-8")
    generate = [sys.executable, repo / "native" / "generate.py", tmp_path / "src", tmp_path / "c"]
    subprocess.run([*generate, "small.points"], check=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (tmp_path / "autofuse").mkdir()
    (tmp_path / "small").mkdir()
    for source, made in (
        ("autofuse/__native__native.c", f"autofuse/_native__mypyc{suffix}"),
        ("small/points.c", f"small/points{suffix}"),
    ):
        include = (sysconfig.get_path("include"), mypyc.build.include_dir(), tmp_path / "c")
        cc = [*shlex.split(sysconfig.get_config_var("CC")), "-shared", "-fPIC", "-w"]
        folders = [f"-I{folder}" for folder in include]
        subprocess.run([*cc, *folders, tmp_path / "c" / source, "-o", tmp_path / made], check=True)
    subprocess.run([sys.executable, "-c", CHECK], check=True, cwd=tmp_path)
