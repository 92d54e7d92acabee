"""The package on disk, as installed, and as imported: one name, one version, no weight."""

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import autofuse

LINKED_PACKAGES = ("implgraph", "schedule", "codegen")
LINKED_TEMPLATES = ("host_templates", "device_templates")
HEAVY = ("sympy", "networkx", "pydantic", "rich", "typer", "jinja2", "numpy")


def run_python(code: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("src/autofuse", "../autofuse"),
        *((f"autofuse/{name}", f"../{name}") for name in LINKED_PACKAGES + LINKED_TEMPLATES),
    ],
)
def test_link_is_a_relative_link(repo: Path, link: str, target: str) -> None:
    path = repo / link
    assert path.is_symlink(), f"{link} must be a symbolic link; was it checked out without them?"
    assert path.readlink() == Path(target)
    assert path.is_dir()


def test_nothing_else_beside_the_source_link(repo: Path) -> None:
    """An editable install puts src/ on sys.path: what lies there becomes importable everywhere."""
    assert [p.name for p in (repo / "src").iterdir()] == ["autofuse"]


@pytest.mark.parametrize("name", LINKED_PACKAGES)
def test_linked_package_has_one_name(name: str) -> None:
    module = importlib.import_module(f"autofuse.{name}")
    assert module.__name__ == f"autofuse.{name}"
    assert name not in sys.modules


@pytest.mark.parametrize("name", LINKED_PACKAGES)
def test_bare_name_does_not_leak_from_the_installation(name: str, tmp_path: Path) -> None:
    result = run_python(f"import {name}", cwd=tmp_path)
    assert f"No module named '{name}'" in result.stderr


@pytest.mark.parametrize("name", LINKED_PACKAGES)
def test_bare_name_in_the_checkout_says_what_to_write(name: str, repo: Path) -> None:
    result = run_python(f"import {name}", cwd=repo)
    assert result.returncode == 1
    assert f"ImportError: the folder '{name}' is part of the package autofuse" in result.stderr
    assert f"import autofuse.{name}" in result.stderr


def test_version_is_the_same_everywhere() -> None:
    assert importlib.metadata.version("ascend-autofuse") == autofuse.__version__


def test_version_has_a_changelog_entry(repo: Path) -> None:
    changelog = (repo / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {autofuse.__version__}" in changelog


def test_package_is_typed() -> None:
    assert Path(autofuse.__file__).with_name("py.typed").is_file()


def test_import_is_light(tmp_path: Path) -> None:
    code = f"import sys, autofuse; print(sorted(set({HEAVY}) & set(sys.modules)))"
    result = run_python(code, cwd=tmp_path)
    assert result.stderr == ""
    assert result.stdout.strip() == "[]"


def test_kernels_of_triton_are_written_without_it(repo: Path, tmp_path: Path) -> None:
    """Neither it nor PyTorch is imported, nor could be."""
    graph = str(repo / "examples" / "gallery" / "swiglu.json")
    code = f"""
import runpy, sys
sys.modules.update(torch=None, triton=None)
sys.argv = ["autofuse", "build", {graph!r}, "-t", "nvidia-h100", "-o", "out"]
runpy.run_module("autofuse", run_name="__main__")
"""
    result = run_python(code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "import triton" in (tmp_path / "out" / "swiglu_triton.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", autofuse.__all__)
def test_export_resolves(name: str) -> None:
    assert getattr(autofuse, name) is not None
    assert name in dir(autofuse)


def test_unknown_export_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'biuld'"):
        _ = autofuse.biuld
