"""Parser for a line of restricted English: splits it into clauses without interpreting them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.clients.kernelgen.english.vocabulary import longest_phrase, similar, title
from autofuse.frontends.json_positions import quote
from autofuse.implgraph.ir.dtypes import dtype

__all__ = ["MAX_LINE", "AxisWords", "Clause", "OperandWords", "Questions", "Word", "clauses_of"]

#: Maximum length of a line in characters.
MAX_LINE = 2000
_TOKEN = re.compile(
    r"\s*(?:(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![A-Za-z_])|([A-Za-z_][A-Za-z0-9_]*)|(-?inf\b)|([\[\](),=.-]))"
)
_DTYPE_LIKE = re.compile(r"(?:u?int|float|bfloat|fp|bf|f|i|u)\d+\Z|double\Z|complex\d*\Z", re.I)
#: Words that join operands.
_JOINS = frozenset(("of", "on", "for", "by", "with", "and", "to", "from", "than", "between"))
_OVER = frozenset(("over", "along", "across"))
_AXIS = frozenset(("axis", "axes", "dim", "dims", "dimension", "dimensions"))
_ENDS = frozenset(("last", "first", "all", "every"))
_COUNTS = {"two": 2, "three": 3, "four": 4}
_KEEP = frozenset(("keep", "keeping"))
_RESULT = frozenset(("it", "result"))
_FILL = frozenset(("the", "please"))
_VERBS = frozenset(("apply", "compute", "calculate", "take"))
#: Words that cannot name a tensor, because sentences would be ambiguous.
_RESERVED = _JOINS | _OVER | _AXIS | _ENDS | _KEEP | _RESULT | _FILL | {"then"}

Number: TypeAlias = "int | float"


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a number or a mark; ``at`` is its column, from 1."""

    text: str
    at: int
    number: Number | None = None

    @property
    def is_name(self) -> bool:
        """True if the word may name a tensor, a size or an attribute."""
        return self.text[:1].isalpha() or self.text[:1] == "_"


@dataclass(slots=True)
class OperandWords:
    """Description of an operand.

    Attributes:
        at: column.
        name: name of the tensor; empty for a number, the result so far, or an unnamed tensor.
        number: value of a constant.
        is_result: True for the result so far.
        dtype: name of the element type; empty if not given.
        shape: its sizes; None if not given.
        join: the word before it, such as ``by``; empty for none.
    """

    at: int
    name: str = ""
    number: Number | None = None
    is_result: bool = False
    dtype: str = ""
    shape: tuple[int | str, ...] | None = None
    join: str = ""


@dataclass(frozen=True, slots=True)
class AxisWords:
    """Description of axes: ``last`` or ``first`` and how many, ``all``, or numbers or names of sizes."""

    at: int
    end: str = ""
    count: int = 1
    listed: tuple[int | str, ...] = ()


@dataclass(slots=True)
class Clause:
    """An operator with its operands, axes and attributes.

    Attributes:
        at: column.
        phrase: the words that name it.
        meanings: ops and compositions that the phrase may mean.
        operands: in the order of the line.
        axes: None if not given.
        attrs: values by name.
        keep: True to keep reduced dimensions.
    """

    at: int
    phrase: str
    meanings: tuple[str, ...]
    operands: list[OperandWords] = field(default_factory=list)
    axes: AxisWords | None = None
    attrs: dict[str, object] = field(default_factory=dict)
    keep: bool = False


class Questions:
    """Ambiguities of a line as questions, each with its choices."""

    def __init__(self) -> None:
        self.asked: list[Diagnostic] = []

    def ask(self, text: str, choices: str, at: int) -> None:
        """Add a question.

        Args:
            text: the question.
            choices: possible answers, in words of a line.
            at: column.
        """
        self.asked.append(Diagnostic("AF1401", text, Where(line=1, column=at), choices))

    def raise_if_any(self) -> None:
        """Raise AF1401 with all questions so far."""
        if self.asked:
            raise AutofuseError(self.asked)


def clauses_of(line: str, questions: Questions) -> list[Clause]:
    """Parse the clauses of a line, which ``then`` separates.

    Raises:
        AutofuseError: AF1401, the line cannot be parsed.
    """
    words = _words(line, questions)
    parts: list[list[Word]] = [[]]
    for w in words:
        if w.text.lower() == "then":
            while parts[-1] and parts[-1][-1].text.lower() in (",", "and", "."):
                parts[-1].pop()
            parts.append([])
        else:
            parts[-1].append(w)
    if parts[-1] and parts[-1][-1].text == ".":
        parts[-1].pop()
    out = []
    for k, part in enumerate(parts):
        if not part:
            at = words[-1].at if words else 1
            where = "the line is empty" if len(parts) == 1 else f"step {k + 1} is empty"
            questions.ask(f"{where}: which operator do you mean?", _EXAMPLE, at)
            questions.raise_if_any()
        out.append(_Clause(part, questions).read())
    return out


_EXAMPLE = 'for instance "softmax over the last axis of x float16 [b, 4096]"'


def _words(line: str, questions: Questions) -> list[Word]:
    if len(line) > MAX_LINE:
        questions.ask(
            f"the line has {len(line)} characters: what is its operator?",
            f"at most {MAX_LINE} characters; larger formulas are graph files",
            1,
        )
        questions.raise_if_any()
    out, at = [], 0
    while line[at:].strip():
        m = _TOKEN.match(line, at)
        if m is None:
            place = at + len(line[at:]) - len(line[at:].lstrip())
            text = f"what does {quote(line[place])} mean here?"
            questions.ask(text, "use letters, digits, and the characters [ ] , = .", place + 1)
            questions.raise_if_any()
            break
        number, name, infinity, mark = m.groups()
        text = number or name or infinity or mark
        value: Number | None = None
        if number:
            value = float(number) if set(number) & set(".eE") else int(number)
        elif infinity or name == "inf":
            value = float(text)
        out.append(Word(text, m.end() - len(text) + 1, value))
        at = m.end()
    return [w for w in out if w.text.lower() not in _FILL]


class _Clause:
    """Reads the words of one clause."""

    def __init__(self, words: Sequence[Word], questions: Questions) -> None:
        self.words = words
        self.questions = questions
        self.i = 0

    def peek(self, ahead: int = 0) -> str:
        """Return an unread word in lower case; empty past the end."""
        i = self.i + ahead
        return self.words[i].text.lower() if i < len(self.words) else ""

    def word(self, ahead: int = 0) -> Word | None:
        i = self.i + ahead
        return self.words[i] if i < len(self.words) else None

    def take(self) -> Word:
        self.i += 1
        return self.words[self.i - 1]

    def read(self) -> Clause:
        """Parse the clause."""
        if self.peek() in _VERBS:
            self.take()
        made = self.operator()
        join = ""
        while (w := self.word()) is not None:
            low = w.text.lower()
            if low in _OVER:
                self.take()
                made.axes = self.axes(w.at)
            elif low in _KEEP:
                self.take()
                if self.peek() in _AXIS:
                    self.take()
                made.keep = True
            elif low in _JOINS or low == ",":
                self.take()
                join = join if low in (",", "and") else low
            elif w.is_name and self.peek(1) == "=":
                self.attribute(made)
            elif join == "to" and low != "[" and self.is_dtype(w):
                made.attrs["dtype"] = dtype(self.take().text).name
            elif join == "to" and low == "[":
                made.attrs["shape"] = list(self.shape() or ())
            elif w.number is not None or low == "[" or w.is_name:
                made.operands.append(self.operand(join))
                join = "" if join == "of" else join
            else:
                self.unknown(w)
        return made

    def operator(self) -> Clause:
        names = []
        for w in self.words[self.i :]:
            if not w.is_name and w.number is None and w.text != "-":
                break
            names.append(w)
        count, found = longest_phrase([w.text for w in names])
        at = self.words[self.i].at if self.i < len(self.words) else 1
        if not count:
            said = names[0].text if names else self.peek() or "nothing"
            choices = ", ".join(title(op) for op in similar([w.text for w in names]))
            hint = f"perhaps: {choices}" if choices else f"autofuse ops lists them; {_EXAMPLE}"
            self.questions.ask(f"which operator is {quote(said)}?", hint, at)
            self.questions.raise_if_any()
        phrase = " ".join(w.text for w in names[:count])
        self.i += count
        return Clause(at, phrase, found)

    def unknown(self, w: Word) -> None:
        text = f"what does {quote(w.text)} mean here?"
        hint = "an operator may be followed by: of OPERAND and OPERAND, over the last axis, with NAME = VALUE"
        self.questions.ask(text, hint, w.at)
        self.take()

    # parts --------------------------------------------------------------------------------------

    @staticmethod
    def is_dtype(w: Word) -> bool:
        """Return True if a word is the name of an element type."""
        try:
            return dtype(w.text).kind != "m"
        except KeyError:
            return False

    def operand(self, join: str) -> OperandWords:
        """Parse a number, the result so far, or a tensor with its description."""
        first = self.words[self.i]
        made = OperandWords(first.at, join=join)
        if first.number is not None:
            made.number = self.take().number
            return made
        if first.text.lower() in _RESULT:
            self.take()
            made.is_result = True
            return made
        while (w := self.word()) is not None:
            if w.text == "[" and made.shape is None:
                made.shape = self.shape()
            elif w.is_name and self.is_dtype(w) and not made.dtype:
                made.dtype = dtype(self.take().text).name
            elif w.is_name and not made.dtype and _DTYPE_LIKE.match(w.text):
                self.questions.ask(
                    f"which element type is {quote(w.text)}?",
                    "float32, float16, bfloat16, int32, int64, bool, or another autofuse type",
                    w.at,
                )
                made.dtype = "float32"
                self.take()
            elif (
                w.is_name
                and w.text.lower() not in _RESERVED
                and not made.name
                and not (made.dtype and made.shape is not None)
            ):
                if self.peek(1) == "=":
                    break
                made.name = self.take().text
            else:
                break
        if not (made.name or made.dtype or made.shape is not None):
            self.unknown(first)
        return made

    def shape(self) -> tuple[int | str, ...]:
        """Parse a shape such as ``[b, 4096]``."""
        opening = self.take()
        out: list[int | str] = []
        while (w := self.word()) is not None and w.text != "]":
            self.take()
            if w.text == ",":
                continue
            if isinstance(w.number, int) and w.number >= 0:
                out.append(w.number)
            elif w.number is None and w.is_name:
                out.append(w.text)
            else:
                text = f"which size is {quote(w.text)}?"
                self.questions.ask(text, "a number from 0 up, or a name such as b", w.at)
        if self.word() is None:
            self.questions.ask("where does the shape end?", "close it with ]", opening.at)
        else:
            self.take()
        return tuple(out)

    def axes(self, at: int) -> AxisWords:
        """Parse the axes that follow ``over``."""
        end, count = "", 1
        if self.peek() in _ENDS:
            end = "all" if self.peek() == "every" else self.peek()
            self.take()
        w = self.word()
        if (
            end in ("last", "first")
            and w is not None
            and (w.text.lower() in _COUNTS or isinstance(w.number, int))
        ):
            count = _COUNTS.get(w.text.lower()) or int(w.number or 0)
            self.take()
        if self.peek() in _AXIS:
            self.take()
        if end:
            return AxisWords(at, end, count)
        listed: list[int | str] = []
        while (w := self.word()) is not None:
            if isinstance(w.number, int) or (w.is_name and w.text.lower() not in _RESERVED):
                listed.append(w.number if isinstance(w.number, int) else w.text)
                self.take()
            elif w.text == "," or w.text.lower() == "and":
                after = self.word(1)
                if after is None or not isinstance(after.number, int):
                    break
                self.take()
            else:
                break
        return AxisWords(at, listed=tuple(listed))

    def attribute(self, made: Clause) -> None:
        """Parse an attribute such as ``alpha = 0.5``."""
        name = self.take()
        self.take()
        w = self.word()
        if w is None:
            self.questions.ask(f"what is {quote(name.text)}?", f"{name.text} = VALUE", name.at)
            return
        if w.text == "[":
            made.attrs[name.text] = list(self.integers())
            return
        self.take()
        words: Mapping[str, object] = {"true": True, "false": False}
        value: object = w.number if w.number is not None else words.get(w.text.lower(), w.text)
        if w.is_name and w.number is None and self.is_dtype(w):
            value = dtype(w.text).name
        made.attrs[name.text] = value

    def integers(self) -> tuple[int | str, ...]:
        """Parse a list of integers, possibly negative, or of sizes."""
        opening = self.take()
        out: list[int | str] = []
        while (w := self.word()) is not None and w.text != "]":
            self.take()
            if isinstance(w.number, int):
                out.append(w.number)
            elif w.is_name:
                out.append(w.text)
            elif w.text != ",":
                self.questions.ask(f"which number is {quote(w.text)}?", "an integer", w.at)
        if self.word() is None:
            self.questions.ask("where does the list end?", "close it with ]", opening.at)
        else:
            self.take()
        return tuple(out)
