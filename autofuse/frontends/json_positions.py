"""JSON with the place of every value.

The standard library's parser reads the text; a second pass finds lines and columns only if there is something to
report. A valid file therefore costs one fast parse.

It is stricter than most JSON parsers, because a graph file must not mean different things to two readers: no duplicate
keys, no ``NaN`` or ``Infinity``, no integers beyond 64 bits, no floats that overflow.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Document",
    "Findings",
    "escape",
    "load",
    "quote",
]

MAX_BYTES = 16 << 20
MAX_DEPTH = 64
#: Most commas outside of strings, about the number of values.
MAX_VALUES = 1 << 18
#: Most findings listed; the last one gives the number of omitted ones.
MAX_FINDINGS = 1000

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_TOKEN = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|([{}\[\],])|([^\s{}\[\],:"]+)', re.S)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)
_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.S)
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class _Place(NamedTuple):
    """Offsets into the text; ``key`` equals ``value`` where there is no key."""

    key: int
    value: int


class _Oddity(NamedTuple):
    """A construct that most JSON parsers accept, but this one does not."""

    code: str
    message: str
    pointer: str
    offset: int
    hint: str


def escape(part: str | int) -> str:
    """Escape one part of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")


def quote(text: str, limit: int = 60) -> str:
    """Quote text from a file for a message: on one line, cut to ``limit`` characters."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


@dataclass(slots=True)
class Document:
    """A parsed file.

    Attributes:
        value: the parsed JSON.
        text: the text, without a byte-order mark; empty for a file that is not text and has no lines.
        path: name of the file for messages; empty for text without a file.
    """

    value: Any
    text: str
    path: str = ""
    _places: dict[str, _Place] = field(default_factory=dict, repr=False)
    _lines: list[int] | None = field(default=None, repr=False)

    def where(self, pointer: str, *, at_key: bool = False, shift: int = 0, node: str = "") -> Where:
        """Return the place of the value at ``pointer``, or of the nearest enclosing value.

        Args:
            pointer: JSON pointer; it need not exist.
            at_key: return the place of the key instead of the value.
            shift: characters to add to the column, for a position inside a string.
            node: name of the graph's node, for the message.
        """
        self.locate([pointer])
        near = pointer
        while near and near not in self._places:
            near = near.rpartition("/")[0]
        place = self._places.get(near)
        if place is None:
            return Where(path=self.path, pointer=pointer, node=node)
        offset = place.key if at_key and near == pointer else place.value
        line, column = self.line_column(offset + (shift if near == pointer else 0))
        return Where(self.path, pointer, line, column, node)

    def locate(self, pointers: Iterable[str]) -> None:
        """Find the places of many values in one pass, so that :meth:`where` is fast for them."""
        wanted = [p for p in pointers if p not in self._places]
        if wanted and self.text:
            self._places |= _locate(self.text, wanted)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column (in characters) of an offset."""
        if self._lines is None:
            self._lines = [0, *(m.end() for m in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


class Findings:
    """Collects the errors of a document, so that they are all reported at once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._found: list[tuple[str, str, str, str, tuple[str, ...], bool, int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    @property
    def is_long(self) -> bool:
        """True if there are so many findings that hints that need a search are not worth their time."""
        return len(self._found) >= 100

    def add(
        self,
        code: str,
        message: str,
        pointer: str,
        *,
        hint: str = "",
        notes: tuple[str, ...] = (),
        at_key: bool = False,
        shift: int = 0,
        node: str = "",
    ) -> None:
        """Note an error at ``pointer``; see :meth:`Document.where` for ``at_key`` and ``shift``."""
        if not node.isprintable():
            node = quote(node)
        self._found.append((code, message, pointer, hint, notes, at_key, shift, node))

    def raise_if_any(self) -> None:
        """Raise AutofuseError with all findings, in the order of the file."""
        if not self._found:
            return
        self.document.locate(found[2] for found in self._found[:MAX_FINDINGS])
        out = [
            Diagnostic(c, m, self.document.where(p, at_key=k, shift=s, node=n), h, notes)
            for c, m, p, h, notes, k, s, n in self._found[:MAX_FINDINGS]
        ]
        out.sort(key=lambda d: (d.where.line, d.where.column))
        left = len(self._found) - MAX_FINDINGS
        if left > 0:
            out.append(
                Diagnostic(
                    "AF1003",
                    f"{counted(left, 'further error is', 'further errors are')} not shown",
                    Where(self.document.path),
                )
            )
        raise AutofuseError(out)


def load(data: str | bytes, path: str = "") -> Document:
    """Parse a JSON text.

    Args:
        data: the text; bytes must be UTF-8, with or without a byte-order mark.
        path: name of the file for messages.

    Raises:
        AutofuseError: AF1002 (not JSON), AF1003 (too large or too deep), AF1104 (a number out of
            range), AF1106 (a key twice).
    """
    if len(data) > MAX_BYTES:
        raise AutofuseError.of(
            "AF1003",
            f"the file has {len(data)} bytes, the limit is {MAX_BYTES}",
            where=Where(path),
            hint="a graph describes one fused kernel; split the graph",
        )
    text = _decode(data, path)
    # Checked before parsing: millions of small values cost far more than their bytes.
    if text.count(",") > MAX_VALUES and _STRING.sub("", text).count(",") > MAX_VALUES:
        raise AutofuseError.of(
            "AF1003",
            f"the file has more than {MAX_VALUES} values",
            where=Where(path),
            hint="a graph describes one fused kernel; split the graph",
        )
    odd = _SURROGATE.search(text) is not None

    def note(value: Any) -> Any:
        nonlocal odd
        odd = True
        return value

    def integer(s: str) -> int:
        v = int(s) if len(s) <= 20 else _INT_MAX + 1
        return v if _INT_MIN <= v <= _INT_MAX else note(0)

    def real(s: str) -> float:
        v = float(s)
        return v if math.isfinite(v) else note(0.0)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        d = dict(pairs)
        return d if len(d) == len(pairs) else note(d)

    try:
        value = json.loads(
            text,
            parse_int=integer,
            parse_float=real,
            parse_constant=lambda s: note(0.0),
            object_pairs_hook=members,
        )
    except RecursionError:
        raise AutofuseError.of(
            "AF1003", f"the file nests deeper than {MAX_DEPTH} levels", where=Where(path)
        ) from None
    except json.JSONDecodeError as e:
        if not text.strip():
            hint = "a command that failed before it wrote its output leaves an empty file"
            text = "the file is empty"
            raise AutofuseError.of("AF1002", text, where=Where(path, "", 1, 1), hint=hint) from None
        where = Where(path, "", e.lineno, e.colno)
        raise AutofuseError.of(
            "AF1002", f"not valid JSON: {e.msg}", where=where, hint=_syntax_hint(text, e.pos)
        ) from None
    document = Document(value, text, path)
    if _depth(value) > MAX_DEPTH:
        raise AutofuseError.of(
            "AF1003", f"the file nests deeper than {MAX_DEPTH} levels", where=Where(path)
        )
    if odd:
        _report(document)
    return document


def _decode(data: str | bytes, path: str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = "this is a binary file, not JSON text"
            raise AutofuseError.of("AF1002", text, where=Where(path)) from None
        line = data.count(b"\n", 0, e.start) + 1
        column = e.start - data.rfind(b"\n", 0, e.start)
        text = f"not valid JSON: byte {data[e.start]:#04x} is not UTF-8"
        where = Where(path, "", line, column)
        raise AutofuseError.of("AF1002", text, where=where, hint="save it as UTF-8") from None


def _syntax_hint(text: str, pos: int) -> str:
    rest = text[pos:].lstrip()
    before = text[:pos].rstrip()
    if not rest:
        return "the file ends too early; is it complete?"
    if rest.startswith(("//", "/*", "#")):
        return 'JSON has no comments; use the value of a "$comment" key'
    if rest[0] in "}]" or (before.endswith(",") and rest[0] not in "'"):
        return "remove the comma before the closing bracket"
    if rest[0] == "'":
        return "write names and strings in double quotes"
    if rest.startswith(("True", "False", "None")):
        return "JSON writes true, false and null"
    begun = text.lstrip().startswith("{") and not text.rstrip().endswith("}")
    return "the file ends too early; is it complete?" if begun else ""


def _depth(value: Any) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        v, depth = todo.pop()
        if not isinstance(v, (dict, list)):
            continue
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
        todo.extend((x, depth + 1) for x in (v.values() if isinstance(v, dict) else v))
    return deepest


def _report(document: Document) -> None:
    """Scan a text a second time after the parser met a construct that is not accepted."""
    out = []
    for o in _oddities(document.text)[:MAX_FINDINGS]:
        line, column = document.line_column(o.offset)
        where = Where(document.path, o.pointer, line, column)
        out.append(Diagnostic(o.code, o.message, where, o.hint))
    if out:
        raise AutofuseError(out)


class _Frame:
    """An object or array during the scan."""

    __slots__ = ("index", "is_object", "key", "key_offset", "keys", "wanted")

    def __init__(self, is_object: bool, wanted: _Wanted | None = None) -> None:
        self.is_object = is_object
        self.wanted = wanted
        self.keys: set[str] = set()
        self.key: str | None = None
        self.key_offset = 0
        self.index = 0

    def part(self) -> str:
        """Return the pointer part of the current member."""
        return (self.key or "") if self.is_object else str(self.index)

    def advance(self) -> None:
        """Go to the next member."""
        self.index += 1
        self.key = None


class _Wanted:
    """Tree of the wanted pointers."""

    __slots__ = ("children", "pointer")

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.children: dict[str, _Wanted] = {}


def _locate(text: str, pointers: Iterable[str]) -> dict[str, _Place]:
    """Return the offsets of values and of all enclosing values, in a text that is known to parse."""
    root = _Wanted("")
    for pointer in pointers:
        at = root
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            at = at.children.setdefault(name, _Wanted(f"{at.pointer}/{part}"))
    places: dict[str, _Place] = {}
    frames: list[_Frame] = []
    position = 0
    while (m := _TOKEN.search(text, position)) is not None:
        position = m.end()
        string, mark, _ = m.groups()
        top = frames[-1] if frames else None
        if mark == ",":
            if top is not None:
                top.advance()
            continue
        if mark in ("}", "]"):
            frames.pop()
            continue
        if string is not None and top is not None and top.is_object and top.key is None:
            top.key, top.key_offset = json.loads(string), m.start()
            continue
        here = root if top is None else top.wanted and top.wanted.children.get(top.part())
        if here is not None:
            key_at = top.key_offset if top is not None and top.is_object else m.start()
            places.setdefault(here.pointer, _Place(key_at, m.start()))
        if mark is not None and here is not None and here.children:
            frames.append(_Frame(mark == "{", here))
        elif mark is not None:
            position = _after(text, position)
    return places


def _after(text: str, position: int) -> int:
    """Return the offset after the object or array whose members begin at ``position``."""
    depth = 1
    for m in _BRACKET.finditer(text, position):
        if m.group() in "[{":
            depth += 1
        elif m.group() in "]}":
            depth -= 1
            if depth == 0:
                return m.end()
    return len(text)


def _oddities(text: str) -> list[_Oddity]:
    """Return the oddities of a text that is known to parse."""
    odd: list[_Oddity] = []
    frames: list[_Frame] = []

    def note(code: str, message: str, hint: str, at: int) -> None:
        pointer = "".join(f"/{escape(f.part())}" for f in frames)
        odd.append(_Oddity(code, message, pointer, at, hint))

    for m in _TOKEN.finditer(text):
        string, mark, scalar = m.groups()
        top = frames[-1] if frames else None
        if mark == "," and top is not None:
            top.advance()
        elif mark in ("}", "]"):
            frames.pop()
        elif mark is not None:
            frames.append(_Frame(mark == "{"))
        elif string is not None:
            word = json.loads(string)
            if top is not None and top.is_object and top.key is None:
                top.key = word
                if word in top.keys:
                    message = f"the key {quote(word)} is used twice"
                    note("AF1106", message, "remove one of them", m.start())
                top.keys.add(word)
            if any("\ud800" <= c <= "\udfff" for c in word):
                hint = "remove the \\ud... escape"
                note("AF1002", "unpaired surrogate in a string", hint, m.start())
        elif scalar not in ("true", "false", "null"):
            problem = _number_problem(scalar)
            if problem is not None:
                note(*problem, m.start())
    return odd


def _number_problem(scalar: str) -> tuple[str, str, str] | None:
    """Return code, message and hint for a number that is not accepted."""
    word = _NOT_FINITE.get(scalar)
    if word is not None:
        hint = f'write the text "{word}" where a constant allows it'
        return "AF1002", f"not valid JSON: {scalar} is not a JSON number", hint
    if scalar.lstrip("-").isdigit():
        if len(scalar) > 20 or not _INT_MIN <= int(scalar) <= _INT_MAX:
            return "AF1104", f"the integer {quote(scalar, 30)} does not fit 64 bits", ""
    elif not math.isfinite(float(scalar)):
        return "AF1104", f"the number {quote(scalar, 30)} does not fit a float64", ""
    return None
