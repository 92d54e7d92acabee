import json

import pytest
from malformed_cases import CASES, graph

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends import parse_graph


def diagnostics(text):
    with pytest.raises(AutofuseError) as caught:
        parse_graph(text, path="graph.json")
    return caught.value.diagnostics


def test_there_are_enough_cases_and_their_names_differ():
    ids = [c[0] for c in CASES]
    assert len(ids) == len(set(ids)) >= 40


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_exactly_the_expected_diagnostics(text, expected):
    found = diagnostics(text)
    assert sorted((d.code, d.where.pointer) for d in found) == sorted(expected), "\n".join(
        str(d) for d in found
    )
    for d in found:
        assert d.where.path == "graph.json"
        assert d.message
        assert d.message.isprintable()
        assert len(d.message) < 500
        json.dumps(d.to_json())


@pytest.mark.parametrize("text", [c[1] for c in CASES], ids=[c[0] for c in CASES])
def test_places_are_inside_the_text(text):
    lines = (text if isinstance(text, str) else text.decode("latin1")).split("\n")
    for d in diagnostics(text):
        if d.code == "AF1003":
            continue
        assert 1 <= d.where.line <= len(lines)
        assert 1 <= d.where.column <= len(lines[d.where.line - 1]) + 1


HINTS = {
    "unknown_op": "Add",
    "unknown_dtype": "'float32'",
    "unknown_field_of_input": "'dtype'",
    "unknown_field_of_symbol": "'max'",
    "unknown_field_of_node": "'attrs'",
    "unknown_field_at_the_top": "'inputs'",
    "misspelt_attr": "'dtype'",
    "unknown_symbol": "s0",
    "undefined_operand": "'b'",
    "undefined_inout": "'x'",
    "comment": "$comment",
    "trailing_comma": "comma",
    "single_quotes": "double quotes",
    "truncated": "ends too early",
    "empty": "empty",
    "cpp_in_graph_name": "'x_system_rm_rf'",
    "nan_literal": '"nan"',
    "too_many_elements_for_some_symbols": "smaller max",
    "other_version": "autofuse.graph/1",
    "akg_unsupported": "",
    "akg_two_unsupported": "Add",
}


@pytest.mark.parametrize(("name", "words"), HINTS.items(), ids=list(HINTS))
def test_hint(name, words):
    text = next(c[1] for c in CASES if c[0] == name)
    assert any(words in d.hint for d in diagnostics(text)), [d.hint for d in diagnostics(text)]


def test_places_are_exact():
    text = """{
  "schema": "autofuse.graph/1",
  "name": "g",
  "symbols": {"rows": {}},
  "inputs": [{"name": "x", "dtype": "f33", "shape": ["2 * row", 8], "extra": 1}],
  "nodes": [{"name": "n", "op": "Abs", "inputs": ["y"], "outputs": ["z"]}],
  "outputs": ["z"]
}"""
    inputs, nodes = text.split("\n")[4:6]
    got = [(d.code, d.where.line, d.where.column) for d in diagnostics(text)]
    assert got == [
        ("AF1104", 5, inputs.index('"f33"') + 1),
        ("AF1108", 5, inputs.index("row") + 1),
        ("AF1102", 5, inputs.index('"extra"') + 1),
        ("AF1107", 6, nodes.index('"y"') + 1),
    ]


def test_number_of_diagnostics_is_limited():
    text = json.dumps(graph(nodes=[{"a": 1}] * 1000))
    found = diagnostics(text)
    assert len(found) == 1001
    assert "4000 further errors" in found[-1].message


def test_a_file_that_is_too_large():
    found = diagnostics(" " * ((16 << 20) + 1))
    assert [d.code for d in found] == ["AF1003"]
