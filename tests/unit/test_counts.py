"""Counts in messages: singular for one, plural for every other number, in every place by one function."""

import ast
import re
from pathlib import Path

import pytest

import autofuse
from autofuse.base.wording import counted, differing, form, part
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ops import registry

PACKAGE = Path(autofuse.__file__).parent
#: Nouns that texts for people count.
NOUNS = (
    "kernels|graphs|nodes|elements|bytes|inputs|outputs|tensors|keys|launches|runs|shapes|cases|templates|entries|files"
    "|lines|cores|tiles|regions|figures|functions|checks|samples|calls|rows|candidates|ops|rounds|buffers|steps"
)


@pytest.mark.parametrize(
    ("count", "one", "many", "text"),
    [
        (0, "kernel", "", "0 kernels"),
        (1, "kernel", "", "1 kernel"),
        (2, "kernel", "", "2 kernels"),
        (1, "entry", "entries", "1 entry"),
        (3, "entry", "entries", "3 entries"),
        (1, "kernel was", "kernels were", "1 kernel was"),
        (5, "kernel was", "kernels were", "5 kernels were"),
        ("2 to 3", "input", "", "2 to 3 inputs"),
        (const(1), "element", "", "1 element"),
        (sym("n"), "element", "", "n elements"),
    ],
)
def test_a_count_has_the_form_of_its_number(count: object, one: str, many: str, text: str) -> None:
    assert counted(count, one, many) == text


def test_a_verb_has_the_form_of_its_number() -> None:
    assert [form(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]
    assert part(1, 8, "output y", "was", "were") == "1 of 8 elements of output y was"
    assert differing(1, 1, "output y") == "1 of 1 element of output y differs from NumPy"
    assert differing(2, 9, "y", "the model") == "2 of 9 elements of y differ from the model"


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("Relu", "1 input"),
        ("Add", "2 inputs"),
        ("Concat", "1 to 64 inputs"),
        ("Clip", "3 inputs"),
    ],
)
def test_the_inputs_that_an_op_takes(op: str, text: str) -> None:
    row = registry.find(op)
    assert row is not None
    assert row.takes() == text


def test_no_text_for_people_puts_a_plural_behind_a_number_that_may_be_one() -> None:
    wrong = []
    for path in sorted([*PACKAGE.glob("report/**/*.py"), *PACKAGE.glob("commands/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.JoinedStr):
                continue
            for value, text in zip(node.values, node.values[1:], strict=False):
                if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                    continue
                found = re.match(rf" (?:\w+ )?({NOUNS})\b|\(s\)", str(text.value))
                inner = ast.unparse(value.value)
                if found and not re.search(
                    r"[A-Z]{3}|limit|max_elements|vector_bytes|\['key'\]|^form\(", inner
                ):
                    wrong.append(f"{path.name}:{node.lineno}: {inner}{found[0]}")
    assert wrong == []
