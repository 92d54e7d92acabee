"""One object, three renderings: text, terminal, JSON."""

import io
import json
import pickle
import re
from pathlib import Path

import pytest
from rich.console import Console

from autofuse.base.diagnostics import CODES, AutofuseError, Diagnostic, Where
from autofuse.report.text.console import printable
from autofuse.report.text.diagnostics import print_diagnostics, to_text

FULL = Diagnostic(
    "AF1107",
    "tensor 'z' is used but never defined",
    Where("g.json", "/nodes/0/inputs/1", 3, 9, "add_0", "z0"),
    "did you mean 'x'?",
    ("known: x, y",),
)


def test_every_code_is_well_formed_and_explained() -> None:
    for code, text in CODES.items():
        assert re.fullmatch(r"AF[1-9]\d{3}", code)
        assert text
        assert text[0].islower() or text.startswith(("KernelIR", "ImplGraph"))
        assert not text.endswith(".")


def test_an_unregistered_code_is_a_programming_error() -> None:
    with pytest.raises(KeyError, match="AF0000"):
        Diagnostic("AF0000", "x")


def test_text_has_every_part() -> None:
    assert str(FULL) == (
        "error AF1107: tensor 'z' is used but never defined\n"
        "  --> g.json:3:9, at /nodes/0/inputs/1, node add_0, axis z0\n"
        "  | known: x, y\n"
        "  hint: did you mean 'x'?"
    )


def test_json_has_every_part_and_omits_what_is_empty() -> None:
    assert json.loads(json.dumps(FULL.to_json())) == {
        "code": "AF1107",
        "severity": "error",
        "message": "tensor 'z' is used but never defined",
        "where": {
            "path": "g.json",
            "pointer": "/nodes/0/inputs/1",
            "line": 3,
            "column": 9,
            "node": "add_0",
            "axis": "z0",
        },
        "hint": "did you mean 'x'?",
        "notes": ["known: x, y"],
    }
    assert Diagnostic("AF9001", "boom").to_json() == {
        "code": "AF9001",
        "severity": "error",
        "message": "boom",
    }


def test_error_holds_all_diagnostics() -> None:
    error = AutofuseError([FULL, Diagnostic("AF1106", "twice")])
    assert [d.code for d in error.diagnostics] == ["AF1107", "AF1106"]
    assert str(error).count("error AF") == 2


def test_error_of_is_one_diagnostic() -> None:
    error = AutofuseError.of("AF5005", "no", where=Where(path="out"), hint="yes", notes=["a", "b"])
    assert error.diagnostics == (Diagnostic("AF5005", "no", Where(path="out"), "yes", ("a", "b")),)


def test_diagnostics_travel_between_processes() -> None:
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    error = pickle.loads(pickle.dumps(AutofuseError([FULL])))
    assert error.diagnostics == (FULL,)


def plain(d: Diagnostic) -> str:
    return to_text(d).plain


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "g.json"
    path.write_text('{\n  "name": "g",\n  "out": ["yy", 3]\n}\n', encoding="utf-8")
    return path


def test_terminal_shows_the_line_and_marks_the_token(graph: Path) -> None:
    text = plain(Diagnostic("AF1107", "m", Where(str(graph), "/out/0", 3, 11), "h", ("n",)))
    assert text.splitlines() == [
        "error AF1107: m",
        f"  --> {graph}:3:11, at /out/0",
        '3 |   "out": ["yy", 3]',
        "  |           ^^^^",
        "  | n",
        "  hint: h",
    ]


@pytest.mark.parametrize(("column", "carets"), [(16, "^"), (18, "^"), (80, "^"), (3, "^^^^^")])
def test_caret_covers_one_token(graph: Path, column: int, carets: str) -> None:
    marked = plain(Diagnostic("AF1107", "m", Where(str(graph), "", 3, column))).splitlines()[3]
    assert marked == "  | " + " " * (min(column, 19) - 1) + carets


def test_a_long_line_is_cut_around_the_token(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text("[" + "1," * 400 + '"here"' + ",2" * 400 + "]", encoding="utf-8")
    lines = plain(Diagnostic("AF1107", "m", Where(str(path), "", 1, 802))).splitlines()
    snippet, carets = lines[2], lines[3]
    assert len(snippet) < 110
    assert snippet[carets.index("^") : carets.rindex("^") + 1] == '"here"'
    assert snippet[4:7] == snippet[-3:] == "..."


def test_wide_characters_do_not_move_the_caret(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text('["図形", "x"]', encoding="utf-8")
    lines = plain(Diagnostic("AF1107", "m", Where(str(path), "", 1, 8))).splitlines()
    assert lines[3] == "  | " + " " * 9 + "^^^"


@pytest.mark.parametrize("where", [Where(), Where("missing.json", "", 1, 1), Where("", "", 1, 1)])
def test_no_snippet_without_the_file(where: Where) -> None:
    assert "^" not in plain(Diagnostic("AF1107", "m", where))


def test_a_line_beyond_the_end_has_no_snippet(graph: Path) -> None:
    assert "^" not in plain(Diagnostic("AF1107", "m", Where(str(graph), "", 99, 1)))


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = plain(Diagnostic("AF1105", "name 'a\x1b[2J\x07' \u202e", hint="\x1b[31m"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert printable("a\x1b\tb\n") == "a\u241b b\n"


def test_markup_in_a_message_is_text() -> None:
    out = io.StringIO()
    print_diagnostics(
        Console(file=out, markup=False, width=80),
        [Diagnostic("AF1105", "[bold]x[/bold] :smile:"), FULL],
    )
    assert "[bold]x[/bold]" in out.getvalue()
    assert "\n\nerror AF1107" in out.getvalue()


def test_names_that_are_as_long_as_a_file_are_shortened() -> None:
    long = "a" * 1_000_000
    found = Diagnostic("AF1107", long, Where(long, f"/nodes/{long}/end", 1, 1, long, long), long)
    assert len(str(found)) < 20_000
    assert len(json.dumps(found.to_json())) < 20_000
    assert found.where.pointer.startswith("/nodes/a")
    assert found.where.pointer.endswith("a/end")
