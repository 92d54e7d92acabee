"""Every command and every piece of Python in the documentation works, in the order of the page.

On the pages of docs/guides, of Triton, of AKG and of certificates, a block of text is lines of what the commands above
it print, one of C++ (``cpp``) or Python (``py``) is lines of what they wrote, and a diff is applied.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from extras import needs
from pages import screenshots

from autofuse import build

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
#: Made by the Makefile, for the shell of a person, or for a checkout.
NOT_HERE = ("make ", "source ", "python benchmarks/")


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "quickstart.md",
        "cli.md",
        "split.md",
        pytest.param("api.md", marks=needs("onnx")),
        "clients.md",
        "bench.md",
        "cpu.md",
        "certificate.md",
        pytest.param("kernelgen.md", marks=needs("torch", "triton")),
        pytest.param("triton.md", marks=needs("torch", "triton")),
        pytest.param("akg.md", marks=needs("torch", "triton")),
        "guides/from_json.md",
        pytest.param("guides/from_onnx.md", marks=needs("onnx")),
        pytest.param("guides/from_pytorch.md", marks=needs("torch")),
        "guides/reading_a_kernel.md",
        "guides/rows_in_registers.md",
        "guides/changing_a_kernel.md",
        "guides/edited_kernels.md",
        "guides/fast_graphs.md",
        "guides/reading_explain.md",
        "guides/fake_cann.md",
    ],
)
def test_page(name: str, repo: Path, tmp_path: Path, cache_dir: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOFUSE_", "ASCEND_"))}
    scripts = str(Path(sys.executable).parent)
    environ |= {
        # A page may empty the cache.
        "AUTOFUSE_CACHE_DIR": str(tmp_path / "cache" if name == "cli.md" else cache_dir),
        "PATH": f"{scripts}{os.pathsep}{environ['PATH']}",
    }
    folder = tmp_path / "work"
    folder.mkdir()
    excerpts = name.startswith("guides/") or name in ("triton.md", "akg.md", "certificate.md")
    page = (repo / "docs" / name).read_text(encoding="utf-8")
    if "tools/fake_cann cann" in page:
        (folder / "tools").symlink_to(repo / "tools")
        environ["ASCEND_HOME_PATH"] = str(folder / "cann")
    if re.search(r"examples/(gallery/|abs_test)", page):
        (folder / "examples").symlink_to(repo / "examples")
    ran, printed = 0, ""
    for language, text in blocks(repo / "docs" / name):
        if language == "json" and '"autofuse.graph/1"' in text:
            graph = json.loads(text)["name"]
            (folder / f"{graph}.json").write_text(text, encoding="utf-8")
            continue
        if excerpts and language in ("text", "cpp", "py"):
            shown = printed if language == "text" else written(folder, language)
            for line in text.splitlines():
                assert plain(line) in plain(shown), f"{line}\n{printed}"
            continue
        if language == "sh":
            lines = [line for line in text.splitlines() if not line.startswith(NOT_HERE)]
            command = ["bash", "-euc", "\n".join(lines)]
        elif language == "python":
            command = [sys.executable, "-c", text]
        elif language == "diff":
            (folder / "page.diff").write_text(text, encoding="utf-8")
            command = ["git", "apply", "page.diff"]
        else:
            continue
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        if language != "diff":
            printed = done.stdout + done.stderr
        ran += 1
    assert ran


def plain(text: str) -> str:
    """The text on one line, with one blank between words."""
    return " ".join(text.split())


def written(folder: Path, suffix: str) -> str:
    """All C++ in the folder that is not of a header, or all Python."""
    return "\n".join(p.read_text(encoding="utf-8") for p in sorted(folder.rglob(f"*.{suffix}")))


def test_the_readme_names_targets_of_the_makefile(repo: Path) -> None:
    makefile = (repo / "Makefile").read_text(encoding="utf-8")
    text = (repo / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:^|`)make ([a-z]+)", text, re.M)
    assert {"demo", "test"} <= set(named)
    for target in named:
        assert re.search(rf"^[a-z ]*\b{target}\b.*:", makefile, re.M), target


@pytest.mark.parametrize("page", ["README.md", "docs"])
def test_links_lead_somewhere(page: str, repo: Path) -> None:
    path = repo / page
    for file in [path] if path.is_file() else sorted(path.rglob("*.md")):
        text = re.sub(r"`[^`\n]+`", "", FENCE.sub("", file.read_text(encoding="utf-8")))
        for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
            assert (file.parent / link).exists(), f"{file.name}: {link}"


def test_pictures_are_there_and_small(repo: Path) -> None:
    shown = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
    found = 0
    for page in (repo / "README.md", *sorted((repo / "docs").rglob("*.md"))):
        for link in shown.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            picture = page.parent / (link[0] or link[1])
            assert picture.is_file(), f"{page.name}: {picture}"
            assert picture.suffix != ".png" or picture.stat().st_size <= screenshots.LIMIT
            found += 1
    assert found > 10


def test_screenshots_have_a_graph_and_a_page_that_shows_them(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert screenshots.GRAPH.is_file()
    text = (repo / "docs" / "guides" / "reading_explain.md").read_text(encoding="utf-8")
    for picture in screenshots.FILES:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"../pictures/{picture.name}" in text
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="no browser on PATH"):
        screenshots.browser()


def test_the_readme_leads_to_every_page(repo: Path) -> None:
    """By links, from page to page."""
    found: set[Path] = set()
    left = [repo / "README.md"]
    while left:
        page = left.pop()
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#:\s]+\.md)[^)]*\)", text):
            there = (page.parent / link).resolve()
            if there.exists() and there not in found:
                found.add(there)
                left.append(there)
    assert {p.resolve() for p in (repo / "docs").rglob("*.md")} <= found


def test_the_readme_shows_the_kernel_of_the_demo(repo: Path) -> None:
    kernel = build(repo / "examples" / "demo.json").files["device/demo_kernel.cpp"]
    text = (repo / "README.md").read_text(encoding="utf-8")
    shown = [body for language, body in FENCE.findall(text) if language == "cpp"]
    assert len(shown) == 1
    for part in re.split(r"^ *// \.\.\.\n", shown[0], flags=re.M):
        assert part in kernel
    assert len(text.splitlines()) <= 80


def test_architecture_lists_the_floors_that_are_checked(repo: Path) -> None:
    text = (repo / "docs" / "architecture.md").read_text(encoding="utf-8")
    project = (repo / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r"^layers = \[(.*?)^\]", project, re.M | re.S)
    assert layers
    floors = [re.findall(r"\((\w+)\)", line) for line in layers[1].splitlines() if line.strip()]
    shown = re.search(r"^cli > .*?^```", text, re.M | re.S)
    assert shown
    listed = [re.findall(r"\w+", part) for part in shown[0].removesuffix("```").split(">")]
    assert [set(f) for f in floors if f != ["__main__"]] == [set(part) for part in listed]


def test_the_readme_counts_the_ops(repo: Path) -> None:
    """Ops that compile for the 910B, as the page of supported ops says."""
    page = (repo / "docs" / "support.md").read_text(encoding="utf-8").split("\n## ")[1]
    rows = [r.strip("| ").split(" | ") for r in page.splitlines() if r.startswith("| ")][2:]
    there = [r[0] for r in rows if set(r[3:]) != {"-"}]
    readme = (repo / "README.md").read_text(encoding="utf-8")
    said = re.search(r"\| more than (\d+) ops ", readme)
    assert said
    assert int(said[1]) < len(there)
