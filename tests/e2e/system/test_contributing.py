"""CONTRIBUTING.md: its diffs apply, build and compute what they say; the places that it lists are all there are."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autofuse
from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc import backend
from autofuse.codegen.ir.calls import Call, Count
from autofuse.codegen.ir.kernel_ir import KernelFn

SOURCES = ("autofuse", "codegen", "device_templates", "implgraph", "schedule")
GRAPH: dict[str, Any] = {
    "schema": "autofuse.graph/1",
    "symbols": {"rows": {"min": 1, "max": 100000}},
    "inputs": [{"name": "x", "dtype": "float16", "shape": ["rows", 96]}],
    "outputs": ["y"],
}


@pytest.fixture(scope="module")
def page(repo: Path) -> str:
    return (repo / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def files(diff: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.*)$", diff, re.M)


def applied(diff: str, root: Path) -> None:
    """Change the files of a diff; what a hunk takes away, and what is around it, has to be there once."""
    for part in re.split(r"^--- .*\n(?=\+\+\+ )", diff, flags=re.M)[1:]:
        head, *hunks = re.split(r"^@@.*\n", part, flags=re.M)
        path = root / head.removeprefix("+++ b/").strip()
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            old, new = ("".join(x[1:] or "\n" for x in lines if x[0] != sign) for sign in "+-")
            assert not old or text.count(old) == 1, f"{path}: {old}"
            text = text.replace(old, new) if old else new
        path.write_text(text, encoding="utf-8")


def graph(page: str, node: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        **GRAPH,
        "name": name,
        "nodes": [{"name": "n", "inputs": ["x"], "outputs": ["y"], **node}],
    }


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "number", "count", "node"),
    [
        ("An op", 0, 1, None),
        ("A composed op", 0, 1, {"op": "SquaredRelu"}),
        ("A composed op", 1, 3, {"op": "ReduceSumSquare", "attrs": {"axes": [1]}}),
        ("A chip", 0, 1, {"op": "Exp"}),
    ],
)
def test_the_diffs_work(
    page: str,
    repo: Path,
    tmp_path: Path,
    cache_dir: Path,
    title: str,
    number: int,
    count: int,
    node: Any,
) -> None:
    text = section(page, title)
    diff = blocks(text, "diff")[number]
    assert len(files(diff)) == count
    root = tmp_path / "copy"
    # What is compiled may lie in a folder of its own.
    for source in reversed(autofuse.__path__):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, root / "autofuse", ignore=ignored, dirs_exist_ok=True)
    for folder in ("codegen", "device_templates", "host_templates", "implgraph", "schedule"):
        (root / folder).symlink_to(Path("autofuse") / folder)
    applied(diff, root)
    path = tmp_path / "first_op.json"
    path.write_text(
        blocks(text, "json")[0] if node is None else json.dumps(graph(page, node, "first_op"))
    )
    target = re.findall(r"targets/(\w+)\.toml$", files(diff)[0])
    words = ["verify", str(path), "--shapes", "2", *(f"--target={name}" for name in target)]
    program = "import autofuse.cli as c; print(c.__file__); raise SystemExit(c.main())"
    modules = os.pathsep.join([str(root), *filter(os.path.isabs, sys.path)])
    done = subprocess.run(
        # Without site, whose finder of an editable install goes before all paths.
        [sys.executable, "-S", "-c", program, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": modules, "AUTOFUSE_CACHE_DIR": str(cache_dir)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(root)), done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("title", "word", "where"),
    [
        (
            "A call that is new to the twin",
            "Maxs",
            ("runtime/include", "runtime/src", "runtime/cuda"),
        ),
        ("A device function", "StackRows", ("device_templates", *SOURCES)),
        ("A template family", "row", ("schedule/templates", "tools/pages")),
    ],
)
def test_the_places_are_all_there_are(
    page: str, repo: Path, title: str, word: str, where: Any
) -> None:
    listed = re.findall(r"^- `([\w./]+)`", section(page, title), re.M)
    pattern = rf'"{word}"|templates\.{word}\b' if word == "row" else rf"\b{word}\b"
    found = {
        str(p.relative_to(repo))
        for folder in where
        for p in (repo / folder).rglob("*")
        # Calls on the registers of Ascend 950 are another interface, with names of the same spelling.
        if not p.name.startswith("reg_")
        if p.suffix in (".py", ".h", ".cpp") and re.search(pattern, p.read_text(encoding="utf-8"))
        if folder != "autofuse" or p.resolve().is_relative_to(repo / "autofuse")
    }
    rest = {"implgraph/ops/rows/device.py"} if word == "Maxs" else set()
    assert found | rest == set(listed)
    assert all(word in (repo / p).read_text(encoding="utf-8") for p in listed)


def test_the_table_counts_the_files(page: str) -> None:
    rows = re.findall(
        r"^\| (an? [^|]*) \| (\d)\b", section(page, "How many files a change touches"), re.M
    )
    assert [int(count) for _, count in rows] == [1, 1, 3, 6, 4, 1, 3, 1, 1]
    for title, count in (
        ("A call that is new to the twin", 6),
        ("A device function", 4),
        ("A template family", 3),
    ):
        assert len(re.findall(r"^- `", section(page, title), re.M)) == count


def test_paths_and_commands_are_there(page: str, repo: Path) -> None:
    for path in re.findall(
        r"`((?:autofuse|codegen|implgraph|schedule|runtime|tests|tools|docs)/[\w./*]+)`", page
    ):
        assert list(repo.glob(path.rstrip("/"))), path
    makefile = (repo / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)", page):
        assert re.search(rf"^[a-z ]*\b{target}\b.*:", makefile, re.M), target
    for link in re.findall(r"\]\(([^)#:]+)\)", page):
        assert (repo / link).exists(), link


def test_the_failing_proof_is_what_a_build_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(fn: KernelFn) -> KernelFn:
        return replace(fn, body=_longer(fn.body))

    monkeypatch.setattr(backend, "PIPELINE", (*backend.PIPELINE, longer))
    with pytest.raises(AutofuseError) as e:
        api.build(graph(page, {"op": "Exp"}, "proof"), verify_ir=True)
    text = section(page, "A proof that fails")
    assert str(AutofuseError(e.value.diagnostics[:1])) + "\n" == blocks(text, "text")[0]


def _longer(body: tuple[Any, ...]) -> tuple[Any, ...]:
    """The statements, of which calls of Exp take 64 elements more."""
    out = []
    for s in body:
        if getattr(s, "body", ()):
            s = replace(s, body=_longer(s.body))
        elif isinstance(s, Call) and s.api == "Exp":
            more = (Count(a.value + 64) if isinstance(a, Count) else a for a in s.args)
            s = replace(s, args=tuple(more))
        out.append(s)
    return tuple(out)
