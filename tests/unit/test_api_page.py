"""Every public name is exported, typed, described, and on the pages."""

import builtins
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from extras import required

pytestmark = required("onnx")

from pages.api_page import PUBLIC_MODULES, api_page, public_names

import autofuse
from autofuse.base.diagnostics import CODES

FORWARD = ("Any", "Path", "AutofuseError")


def members() -> Iterator[tuple[str, Any]]:
    """Public functions, classes, and what classes define themselves, by name."""
    for module in PUBLIC_MODULES:
        prefix = "models." if module == "autofuse.models" else ""  # has a build of its own
        for plain in public_names(module):
            value = getattr(importlib.import_module(module), plain)
            if not (inspect.isfunction(value) or isinstance(value, type)):
                continue
            name = prefix + plain
            yield name, value
            if isinstance(value, type):
                for member, held in vars(value).items():
                    if not member.startswith("_") or member == "__call__":
                        inner = getattr(held, "fget", None) or getattr(held, "__func__", held)
                        if inspect.isfunction(inner):
                            yield f"{name}.{member}", inner


MEMBERS = dict(members())
FUNCTIONS = {n: f for n, f in MEMBERS.items() if inspect.isfunction(f)}
CLASSES = {n: c for n, c in MEMBERS.items() if isinstance(c, type)}


def test_the_page_is_up_to_date(repo: Path) -> None:
    page = (repo / "docs" / "api_reference.md").read_text(encoding="utf-8")
    hint = "run: python tools/pages/api_page.py > docs/api_reference.md"
    assert page == api_page(), hint


def test_names_are_exported_once_and_lazily(tmp_path: Path) -> None:
    assert len(set(autofuse.__all__)) == len(autofuse.__all__)
    assert set(autofuse._HOME_OF) == set(autofuse.__all__) - {"__version__"}
    for name in autofuse.__all__:
        assert name in dir(autofuse)
    for name, home in autofuse._HOME_OF.items():
        assert getattr(autofuse, name) is getattr(importlib.import_module(home), name), name
    code = "import sys, autofuse; print(any(m in sys.modules for m in ('numpy', 'pydantic', 'autofuse.api')))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = autofuse.nothing  # type: ignore[attr-defined]


def test_everything_that_type_checkers_see_is_there(repo: Path) -> None:
    """The imports under TYPE_CHECKING are those of the table."""
    text = (repo / "autofuse" / "__init__.py").read_text(encoding="utf-8")
    shown = text.partition("if TYPE_CHECKING:")[2].partition("__version__")[0]
    names = {w.strip(" ,()") for w in shown.replace("import", ",").replace("\n", ",").split(",")}
    assert set(autofuse._HOME_OF) <= names


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_typed(name: str) -> None:
    function = FUNCTIONS[name]
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for p in signature.parameters.values():
        if p.name not in ("self", "cls"):
            assert p.annotation is not inspect.Parameter.empty, p.name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_described(name: str) -> None:
    doc = inspect.getdoc(FUNCTIONS[name])
    assert doc
    assert doc.splitlines()[0].rstrip().endswith((".", ":")) or "\n" in doc
    arguments = [
        p for p in inspect.signature(FUNCTIONS[name]).parameters if p not in ("self", "cls")
    ]
    described = [a for a in arguments if f"{a}:" in doc]
    # All of them, or none where one line says it.
    assert described in (arguments, []), set(arguments) - set(described)
    if len(arguments) > 2 and name != "AutofuseError.of":
        assert described == arguments


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_are_described_and_typed(name: str) -> None:
    kind = CLASSES[name]
    doc = inspect.getdoc(kind)
    assert doc
    if is_dataclass(kind):
        for f in fields(kind):
            assert f.name.startswith("_") or f.name in doc.partition("Attributes:")[2], f.name
            assert f.type


@pytest.mark.parametrize(
    "name", ["build", "build_split", "load", "read", "timed", "verify", "load_target"]
)
def test_functions_say_what_they_raise(name: str) -> None:
    doc = inspect.getdoc(FUNCTIONS[name]) or ""
    assert "AutofuseError" in doc.partition("Raises:")[2]


def test_codes_that_docstrings_name_exist() -> None:
    for name, value in MEMBERS.items():
        for code in re.findall(r"AF\d{4}", inspect.getdoc(value) or ""):
            assert code in CODES, f"{name}: {code}"


def test_the_guide_names_everything(repo: Path) -> None:
    guide = (repo / "docs" / "api.md").read_text(encoding="utf-8")
    for name in public_names("autofuse"):
        assert f"`{name}`" in guide, name
    for module in PUBLIC_MODULES:
        assert f"`{module}`" in guide or f"`{module}." in guide


def test_annotations_can_be_resolved() -> None:
    """Names that only type checkers import are allowed; what is not a name of anything is not."""
    for name in ("build", "build_split", "load", "read", "timed", "verify"):
        for text in FUNCTIONS[name].__annotations__.values():
            assert isinstance(text, str)
            for word in re.findall(r"[A-Za-z]\w+", text):
                known = hasattr(autofuse, word) or hasattr(builtins, word)
                assert known or word in (*FORWARD, "Mapping", "Sequence", "None"), f"{name}: {word}"
