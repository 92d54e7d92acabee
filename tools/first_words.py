"""Find docstrings whose first line begins with a relative clause or a question.

    python tools/first_words.py [FOLDER ...]

Prints file, line and docstring of each; exit status 1 if there are any.  ``make lint`` runs it over the product, the
tools and the benchmarks.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("autofuse", "implgraph", "schedule", "codegen", "tools", "benchmarks")
#: A relative clause or a question in place of subject and verb.
ODD = re.compile(r"(What|Which|Who|Whose|Whether|Where|How|The same)\b")


def odd_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and first line of the docstrings of a file that begin oddly."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if not isinstance(node, kinds):
            continue
        text = ast.get_docstring(node)
        if text and ODD.match(text):
            yield node.body[0].lineno, text.splitlines()[0]


def main(folders: list[str]) -> int:
    """Print the findings."""
    root = Path(__file__).resolve().parents[1]
    found = 0
    for folder in folders or FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if path.is_symlink() or any(p.is_symlink() for p in path.parents if p != root):
                continue  # a top-level folder under its other name
            for line, text in odd_docstrings(path):
                print(f"{path.relative_to(root)}:{line}: {text}")
                found += 1
    if found:
        print(
            f"{found} docstrings begin with a relative clause or a question: say what it returns or does"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
