"""docs/c_abi.md says what the generated code has: every function with its arguments, every kind of return code."""

import re
from pathlib import Path

import pytest

from autofuse import api

FUNCTION = re.compile(r'^extern "C" ((?:const )?\w+(?: \*|\*)? ?)(\w+)\((.*?)\)\n\{', re.M | re.S)
ROW = re.compile(r"^\| `([^`|]*\w)` \| (?:`([^`|]*)`)? ?\| ", re.M)


@pytest.fixture(scope="module")
def page(repo: Path) -> str:
    return (repo / "docs" / "c_abi.md").read_text(encoding="utf-8")


def spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_functions_and_arguments(page: str, repo: Path) -> None:
    built = api.build(repo / "examples" / "add_bias_dynamic.json")
    made: dict[str, str] = {}
    for path, text in built.files.items():
        if path.startswith("host/"):
            for result, name, arguments in FUNCTION.findall(text):
                made[f"{spaced(result)} {name}"] = spaced(arguments)
    # What the page writes for this graph, and what is not part of a type.
    places = {
        "int64_t rows, int64_t cols": "<symbols>",
        "void* x, void* bias": "<inputs>",
        "void* y": "<outputs>",
        " = nullptr": "",
        "[[maybe_unused]] ": "",
    }
    for name in made:
        for old, new in places.items():
            made[name] = made[name].replace(old, new)
    table = page.partition("## Functions")[2].partition("\n## ")[0]
    assert dict(ROW.findall(table)) == made


def test_kinds_of_return_codes(page: str, repo: Path) -> None:
    header = (repo / "host_templates" / "headers" / "autofuse_status.h").read_text(encoding="utf-8")
    kinds = {name: int(value) for name, value in re.findall(r"^    (k\w+) = (\d+),?", header, re.M)}
    listed = re.findall(r"^\| (\d+) \| `(k\w+)` \|", page, re.M)
    assert {name: int(value) for value, name in listed} == kinds
    step = re.search(r"kStatusStep = (\d+);", header)
    assert step
    assert f"kind + {step[1]} * (index + 1)" in page
    driver = (repo / "host_templates" / "driver.cpp.jinja").read_text(encoding="utf-8")
    part = re.search(r"kPartStep = (\d+);", driver)
    assert part
    assert f"{part[1]} * (part + 1)" in page


def test_fields_of_the_structs(page: str, repo: Path) -> None:
    header = (repo / "host_templates" / "headers" / "autofuse_tiling_solver.h").read_text(
        encoding="utf-8"
    )
    limit = re.search(r"struct ResLimit \{(.*?)\};", header, re.S)
    assert limit
    for field in re.findall(r"uint32_t (\w+)", limit[1]):
        assert f"`{field}`" in page, field
    shape = (repo / "host_templates" / "headers" / "autofuse_shape.h").read_text(encoding="utf-8")
    for member in ("uint32_t rank", "int64_t dims[16]"):
        assert f"    {member};" in shape
        assert f"`{member}`" in page


def test_the_page_shows_the_commands_of_the_example(page: str, repo: Path) -> None:
    """Those of the test of the example, and of the first lines of its CMakeLists.txt."""
    cmake = (repo / "examples" / "cpp" / "CMakeLists.txt").read_text(encoding="utf-8")
    commands = re.findall(r"^#   (.*)$", cmake, re.M)
    assert len(commands) == 3
    for line in commands:
        for part in line.split(" && "):
            assert part in page, part
