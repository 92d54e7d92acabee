"""Inputs that once took too long, too much memory, or ended in something else than a diagnostic."""

import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends import parse_graph
from autofuse.frontends.json_positions import MAX_VALUES
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.expr.parser import parse
from autofuse.implgraph.ir.serialise import from_json, to_json

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@contextmanager
def within(seconds: float, mib: int) -> Iterator[None]:
    """CPU time and growth of the peak of memory are bounded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < mib << 10


def graph(**changes: Any) -> str:
    base: dict[str, Any] = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
        "nodes": [{"name": "n", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    return json.dumps(base | changes, separators=(",", ":"))


def codes(text: str) -> list[str]:
    with pytest.raises(AutofuseError) as caught:
        parse_graph(text)
    return [d.code for d in caught.value.diagnostics]


# expressions ----------------------------------------------------------------------------------


def test_text_that_doubles_with_every_quotient() -> None:
    """A quotient occurs in every term of its product with a sum: 200 levels ended in the memory."""
    text = "a//b" + "*(a+b)//c" * 200
    with within(2, 100), pytest.raises(ExprError, match=r"inside each other|parts"):
        parse(text)


@pytest.mark.parametrize("op", ["//", "%", "/"])
def test_a_long_chain_of_quotients(op: str) -> None:
    """The parser's own depth does not grow with a chain, but that of the expression does."""
    with within(2, 100), pytest.raises(ExprError, match="inside each other"):
        parse("a" + f"{op}3{op}b" * 400, allow_ratio=True, max_length=1 << 16)


def test_functions_nest_as_deep_as_they_can_be_read_again() -> None:
    text = "a"
    for i in range(16):
        text = f"ceil(({text} + b) / c{i})"
    e = parse(text)
    assert parse(str(e), max_length=1 << 16) == e
    with pytest.raises(ExprError, match="inside each other"):
        parse(f"ceil(({text} + b) / c16)")


def test_many_divisions_of_a_sum_by_a_sum() -> None:
    """Each takes milliseconds: 260 of them took 11 s."""
    text = "(" + "+".join(LETTERS) + ")" + "*(a+b)//(a+b)" * 260
    with within(4, 100), pytest.raises(ExprError, match="too many divisions"):
        parse(text)


@pytest.mark.parametrize("text", ["mod(a+b, c+d)", "CeilDiv(a+b, c+d)", "FloorDiv(a+b, c+d)"])
def test_functions_count_as_divisions(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)
    with pytest.raises(ExprError, match="too many divisions"):
        parse("+".join([text] * 30))


# graph files ----------------------------------------------------------------------------------

MANY: dict[str, Callable[[int], str]] = {
    "inputs": lambda n: graph(inputs=["@"]).replace('"@"', ",".join(["1"] * n)),
    "empty objects": lambda n: graph(nodes=["@"]).replace('"@"', ",".join(["{}"] * n)),
    "lists": lambda n: graph(nodes=["@"]).replace('"@"', ",".join(["[]"] * n)),
    "keys": lambda n: "{" + ",".join(f'"k{i}":1' for i in range(n)) + "}",
    "the same key": lambda n: "{" + ",".join(['"k":1'] * n) + "}",
    "NaN": lambda n: "[" + ",".join(["NaN"] * n) + "]",
}


@pytest.mark.parametrize("kind", MANY)
def test_more_values_than_a_file_may_have(kind: str) -> None:
    """Eight million integers in 16 MiB took seven seconds, a million wrong ones 2 GiB."""
    text = MANY[kind](MAX_VALUES + 2)
    with within(1, 100):
        assert codes(text) == ["AF1003"]


def test_eight_million_integers() -> None:
    text = MANY["inputs"](8_000_000)
    with within(1, 100):
        assert codes(text) == ["AF1003"]


def test_commas_in_texts_are_no_values() -> None:
    parse_graph(graph(**{"$schema": "," * (MAX_VALUES + 2)}))


def test_many_operands_of_the_wrong_type() -> None:
    node = {"name": "n", "op": "Relu", "inputs": [1] * (MAX_VALUES // 4), "outputs": ["y"]}
    with within(4, 400):
        assert set(codes(graph(nodes=[node]))) == {"AF1103", "AF1003"}


def test_many_symbols() -> None:
    symbols: dict[str, Any] = {f"s{i}": {} for i in range(10_001)}
    assert codes(graph(symbols=symbols)) == ["AF1109"]


def test_expressions_of_a_file_have_a_limit() -> None:
    """Four thousand expressions of four thousand characters took half a minute."""
    shapes = [["+".join(["s"] * 2000) + f"+{i}"] for i in range(100)]
    inputs = [{"name": f"x{i}", "dtype": "float32", "shape": s} for i, s in enumerate(shapes)]
    with within(4, 200):
        found = codes(graph(inputs=inputs, symbols={"s": {"max": 4}}))
    assert "AF1108" in found


def dense(i: int, n: int = 15) -> str:
    """A product of 16 and n symbols: 16 * n terms."""
    names = LETTERS + LETTERS.upper()
    first, second = names[:16], names[16 : 16 + n]
    return f"({'+'.join(first)})*({'+'.join(second)})+{i}"


def dense_graph(shapes: list[list[str]]) -> str:
    inputs = [{"name": f"x{i}", "dtype": "float32", "shape": s} for i, s in enumerate(shapes)]
    symbols = {c: {"max": 100} for c in LETTERS + LETTERS.upper()}
    node = {"name": "n", "op": "Relu", "inputs": ["x0"], "outputs": ["y"]}
    return graph(inputs=inputs, nodes=[node], symbols=symbols)


DENSE: dict[str, list[list[str]]] = {
    # 30 s: renaming the symbols of a sum took time with the square of its terms.
    "sums": [[dense(i)] for i in range(800)],
    # Minutes: the product of the sizes has 57600 terms, and is refused.
    "rows": [[dense(2 * i), dense(2 * i + 1)] for i in range(400)],
    # 52 s: eight divisions in each of many expressions.
    "quotients": [["+".join([f"ceil({dense(i)}/(a+b))"] * 8)] for i in range(40)],
    "differences": [[f"{'-'.join([f'({dense(0)})'] * 40)}+{i}"] for i in range(20)],
}


@pytest.mark.parametrize("kind", DENSE)
def test_sums_of_many_terms(kind: str) -> None:
    text = dense_graph(DENSE[kind])
    with within(9, 200):
        assert set(codes(text)) <= {"AF1108", "AF1109"}


def test_a_sum_of_many_terms_may_be_used() -> None:
    text = dense_graph([[dense(0)]] * 50)
    with within(9, 100):
        assert len(parse_graph(text).inputs) == 50


def ir_of(sizes: list[str]) -> str:
    """The JSON form of a graph with these sizes in place of those of its input."""
    found = to_json(parse_graph(graph()))
    tensors: Any = found["tensors"]
    tensors["x"]["shape"] = sizes
    return json.dumps(found)


@pytest.mark.parametrize("kind", DENSE)
def test_sums_of_many_terms_in_json_form(kind: str) -> None:
    text = ir_of([e for shape in DENSE[kind] for e in shape])
    with within(9, 200), pytest.raises(AutofuseError) as caught:
        from_json(json.loads(text))
    assert {d.code for d in caught.value.diagnostics} == {"AF1108"}


def test_expressions_of_a_json_form_have_a_limit() -> None:
    text = ir_of(["+".join(["s"] * 4000) + f"+{i}" for i in range(100)])
    with within(9, 200), pytest.raises(AutofuseError, match="all expressions together"):
        from_json(json.loads(text))


def test_an_expression_may_be_used_often() -> None:
    text = "ceil(rows / 128) * 128"
    inputs = [{"name": f"x{i}", "dtype": "float32", "shape": [text]} for i in range(5000)]
    node = {"name": "n", "op": "Relu", "inputs": ["x0"], "outputs": ["y"]}
    text = graph(inputs=inputs, nodes=[node], symbols={"rows": {"max": 4096}})
    assert len(parse_graph(text).inputs) == 5000
