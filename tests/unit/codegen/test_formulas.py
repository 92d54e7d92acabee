"""Formulas of the loop backends: as functions of NumPy, and as both languages write them."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from autofuse.codegen.backends.cpu.ops import spelling as cpp_spelling
from autofuse.codegen.backends.cpu.ops.spelling import CPP
from autofuse.codegen.backends.triton.ops import spelling as triton_spelling
from autofuse.codegen.backends.triton.ops.spelling import TRITON
from autofuse.codegen.nests.formulas import COEFFICIENTS, FORMULAS, FUNCTIONS
from autofuse.codegen.nests.language import Language, parsed
from autofuse.implgraph.ir.dtypes import BY_NAME

F = np.float32
LANGUAGES = pytest.mark.parametrize("language", [CPP, TRITON], ids=["C++", "Triton"])


def functions(bits: int = 8, **words: Any) -> dict[str, Callable[..., Any]]:
    """The functions of the table in NumPy: Python is the language that they are written in."""
    known: dict[str, Any] = {
        "where": np.where,
        "at_least": lambda x, n: np.where(np.isnan(x), x, np.maximum(x, F(n))),
        "at_most": lambda x, n: np.where(np.isnan(x), x, np.minimum(x, F(n))),
        "bits": lambda x: x.view(np.uint32),
        "number": lambda x: x.view(F),
        "copysign": np.copysign,
        "absolute": np.abs,
        "exp": lambda x: np.exp(x.astype(np.float64)).astype(F),
        "exp2": lambda x: np.exp2(x.astype(np.float64)).astype(F),
        "trunc": np.trunc,
        "one": np.ones_like,
        "polynomial": _polynomial,
        **COEFFICIENTS,
        "T": None,
        "BITS": bits,
        "TOP": bits - 1,
        **words,
    }
    for text in FUNCTIONS.values():
        exec(text, known)
    return {name: known[name] for name in FUNCTIONS}


def _polynomial(x: Any, coefficients: Any) -> Any:
    total = F(coefficients[-1]) * np.ones_like(x)
    for c in coefficients[-2::-1]:
        total = total * x + F(c)
    return total


def _normal(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


REFERENCES: dict[str, tuple[Callable[[float], float], float]] = {
    "expm1": (math.expm1, 3),
    "softplus": (lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))), 3),
    "tanh": (math.tanh, 3),
    "erf": (math.erf, 3),
    "gelu": (_normal, 8),
    "round_even": (lambda x: float(round(x)), 0),
    "round_away": (lambda x: math.copysign(math.floor(abs(x) + 0.5), x), 0),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_functions_of_floats(name: str) -> None:
    reference, most = REFERENCES[name]
    rng = np.random.default_rng(7)
    sizes = 10.0 ** rng.uniform(-30, 1.9, 20_000)
    halves = np.arange(-20, 20, 0.5)
    x = np.concatenate((sizes, -sizes, halves, rng.uniform(-14, 14, 20_000))).astype(F)
    x = np.minimum(x, F(80.0))
    with np.errstate(all="ignore"):
        got = functions()[name](x).astype(np.float64)
    want = np.array([reference(float(v)) for v in x])
    unit = np.maximum(np.spacing(np.abs(want).astype(F)).astype(np.float64), 2.0**-149)
    assert np.max(np.abs(got - want) / unit) <= most


@pytest.mark.parametrize("name", ["expm1", "softplus", "tanh", "erf", "gelu", "round_even"])
def test_functions_of_floats_at_the_ends(name: str) -> None:
    x = np.array([np.nan, np.inf, -0.0, 0.0], F)
    with np.errstate(all="ignore"):
        got = functions()[name](x)
    top = {"tanh": 1.0, "erf": 1.0}.get(name, np.inf)
    nothing = math.log(2) if name == "softplus" else 0.0
    np.testing.assert_allclose(got, np.array([np.nan, top, nothing, nothing]), rtol=1e-6)
    if name == "expm1":
        assert list(np.signbit(got[2:])) == [True, False]


def _wrapped(value: int, dtype: Any) -> int:
    return int(np.array(value % 256, np.uint8).view(dtype))


def _quotient(a: int, b: int) -> int:
    return 0 if b == 0 else int(a / b)


INTEGERS: dict[str, tuple[Any, Callable[[int, int], int]]] = {
    "trunc_div": (np.int8, _quotient),
    "trunc_mod": (np.int8, lambda a, b: 0 if b == 0 else int(math.fmod(a, b))),
    "floor_div": (np.int8, lambda a, b: 0 if b == 0 else a // b),
    "floor_mod": (np.int8, lambda a, b: 0 if b == 0 else a % b),
    "unsigned_div": (np.uint8, lambda a, b: 0 if b == 0 else a // b),
    "unsigned_mod": (np.uint8, lambda a, b: 0 if b == 0 else a % b),
    "shift_left": (np.int8, lambda a, b: a << b if 0 <= b < 8 else 0),
    "shift_right": (np.int8, lambda a, b: a >> (b if 0 <= b < 8 else 7)),
    "unsigned_shift_right": (np.uint8, lambda a, b: a >> b if b < 8 else 0),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_functions_of_integers(name: str) -> None:
    dtype, reference = INTEGERS[name]
    low = int(np.iinfo(dtype).min)
    pairs = list(itertools.product(range(low, low + 256), repeat=2))
    a, b = (np.array(x, dtype) for x in zip(*pairs, strict=True))
    found = functions(where=_typed_where)
    with np.errstate(all="ignore"):
        got = found[name](a.view(_Truncated), b.view(_Truncated))
    assert [int(v) for v in got] == [_wrapped(reference(x, y), dtype) for x, y in pairs]


class _Truncated(np.ndarray[Any, Any]):
    """Integers whose ``//`` and ``%`` round to zero, as those of the languages do."""

    def __floordiv__(self, other: Any) -> Any:
        return np.trunc(np.asarray(self, float) / np.asarray(other, float)).astype(self.dtype)

    def __mod__(self, other: Any) -> Any:
        return np.fmod(np.asarray(self), np.asarray(other))


def _typed_where(condition: Any, a: Any, b: Any) -> Any:
    dtype = next(x.dtype for x in (a, b) if isinstance(x, np.ndarray))
    return np.where(condition, np.asarray(a, dtype), np.asarray(b, dtype)).view(_Truncated)


def _formulas(language: Language) -> Iterator[str]:
    for kinds in (*FORMULAS.values(), *language.formulas.values()):
        yield from kinds.values()


@LANGUAGES
def test_a_language_has_all_words(language: Language) -> None:
    trees: list[ast.AST] = [parsed(text) for text in _formulas(language)]
    trees += [ast.parse(text) for text in FUNCTIONS.values()]
    called = {
        n.func.id
        for t in trees
        for n in ast.walk(t)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    own = "_" if language is TRITON else ""
    unknown = {
        w
        for w in called - {"polynomial", "range", "where"}
        if w not in language.words and language.function(f"{own}{w}") is None
    }
    assert unknown == set()


@LANGUAGES
def test_functions_stand_behind_those_that_they_call(language: Language) -> None:
    float32, int8 = BY_NAME["float32"], BY_NAME["int8"]
    texts = []
    for op, dtype in (("Gelu", float32), ("LogSigmoid", float32), ("Remainder", int8)):
        if language is TRITON:
            texts.append(TRITON.spell(op, ["a", "b"], {}, [dtype, dtype], dtype))
        else:
            texts.append(CPP.spell(op, ["a", "b"], [dtype, dtype], dtype))
    found = language.functions(*texts)
    known: list[str] = []
    for name, text in found.items():
        inner = [x for x in language.named(text) if x in found and x != name]
        assert set(inner) <= set(known)
        known.append(name)
    assert len(found) > 4


@pytest.mark.parametrize(
    ("text", "cpp", "triton"),
    [
        ("a * (b + c)", "x * (y + z)", "x * (y + z)"),
        ("a - (b - c)", "x - (y - z)", "x - (y - z)"),
        ("a - b - c", "x - y - z", "x - y - z"),
        ("a / (b * c)", "x / (y * z)", "x / (y * z)"),
        ("-(a + b)", "-(x + y)", "(x + y) * -1.0"),
        ("a * -b", "x * -y", "x * (y * -1.0)"),
        ("(a < b) & (a != c)", "(x < y) & (x != z)", "(x < y) & (x != z)"),
        ("number(bits(a + b) << 23)", None, None),
    ],
)
def test_parentheses(text: str, cpp: str | None, triton: str | None) -> None:
    given = dict(zip("abc", "xyz", strict=True))
    a = cpp_spelling._Printer(CPP, given, integers=False).text(parsed(text))
    b = triton_spelling._Printer(TRITON, given, integers=False).text(parsed(text))
    cpp = cpp or "simd::bit_cast<float>(simd::bit_cast<uint32_t>(x + y) << 23)"
    triton = triton or "((x + y).to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)"
    assert (a, b) == (cpp, triton)


def test_integers_wrap_as_unsigned_ones() -> None:
    int8 = BY_NAME["int8"]
    text = CPP.spell("Fma", ["x", "y", "z"], [int8] * 3, int8)
    unsigned = r"static_cast<uint32_t>\(\w\)"
    assert re.fullmatch(rf"static_cast<int8_t>\({unsigned} \* {unsigned} \+ {unsigned}\)", text)
