import json
import math
from dataclasses import replace

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.ir.serialise import SCHEMAS, from_json, from_json_as, to_json


def test_round_trip(abs_impl: ImplGraph, abs_hint: HintGraph, fusion: FusionGraph):
    for g in (abs_impl, abs_hint, fusion):
        data = json.loads(json.dumps(to_json(g), allow_nan=False))
        assert from_json(data) == g
        assert SCHEMAS[data["schema"]] is type(g)
    assert from_json_as(ImplGraph, to_json(abs_impl)) == abs_impl
    assert from_json_as(HintGraph, to_json(abs_hint)) == abs_hint


def test_form(abs_impl: ImplGraph, fusion: FusionGraph):
    data = to_json(abs_impl)
    assert list(data)[:4] == ["schema", "graph", "result", "group"]
    node = data["nodes"][2]  # type: ignore[index]
    assert node["y"]["repeats"][0] == "(40000 / (z0z1Tb_size * z0z1t_size))"
    assert node["y"]["mem"]["position"] == "VECOUT"
    assert node["y"]["dtype"] == "float32"
    nodes: list[dict[str, object]] = to_json(fusion)["nodes"]  # type: ignore[assignment]
    assert nodes[0]["inputs"] == ["x", "k", "v", {"value": 1.5, "dtype": None}]
    assert nodes[1]["attrs"] == {"shape": [{"expr": "(200 * s0)"}]}


def test_floats_without_json(abs_hint: HintGraph):
    node = replace(abs_hint.nodes[2], attrs={"lo": -math.inf, "nan": math.nan, "one": 1.0})
    data = json.loads(json.dumps(to_json(replace(abs_hint, nodes=(node,))), allow_nan=False))
    again = from_json_as(HintGraph, data).nodes[0].attrs
    assert again["lo"] == -math.inf
    assert math.isnan(again["nan"])  # type: ignore[arg-type]
    assert type(again["one"]) is float


def edited(g: HintGraph, path: str, value: object) -> dict[str, object]:
    """JSON of ``g`` with one place set, or removed where the value is ``...``."""
    data = json.loads(json.dumps(to_json(g)))
    *parents, last = path.strip("/").split("/")
    place = data
    for p in parents:
        place = place[int(p)] if isinstance(place, list) else place[p]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "code", "pointer"),
    [
        ("/schema", "autofuse.ir.hint/9", "AF1004", "/schema"),
        ("/schema", ["x"], "AF1004", "/schema"),
        ("/name", 3, "AF1103", "/name"),
        ("/axes", ..., "AF1101", "/"),
        ("/axes/0/kind", "x", "AF1102", "/axes/0/kind"),
        ("/axes/0/type", "TILE", "AF1104", "/axes/0/type"),
        ("/axes/0/type", ["TILE"], "AF1104", "/axes/0/type"),
        ("/axes/0/size", "s0 +", "AF1108", "/axes/0/size"),
        ("/axes/0/size", 200, "AF1103", "/axes/0/size"),
        ("/axes/0/id", True, "AF1103", "/axes/0/id"),
        ("/axes/0/id", 1.5, "AF1103", "/axes/0/id"),
        ("/nodes/1/y/dtype", "float31", "AF1104", "/nodes/1/y/dtype"),
        ("/nodes/1/y/mem", [], "AF1103", "/nodes/1/y/mem"),
        ("/nodes/1/attrs", {"a/b": None}, "AF1103", "/nodes/1/attrs/a~1b"),
        ("/nodes/1/attrs", {"a": {"float": "1"}}, "AF1104", "/nodes/1/attrs/a/float"),
        ("/nodes/1/attrs", {"a": ["x"]}, "AF1103", "/nodes/1/attrs/a/0"),
    ],
)
def test_errors_have_a_pointer(
    abs_hint: HintGraph, path: str, value: object, code: str, pointer: str
):
    with pytest.raises(AutofuseError) as err:
        from_json(edited(abs_hint, path, value))
    (d,) = err.value.diagnostics
    assert (d.code, d.where.pointer) == (code, pointer)


def test_errors_are_collected(abs_hint: HintGraph):
    data = to_json(abs_hint)
    for node in data["nodes"]:  # type: ignore[attr-defined]
        node["op"] = 1
    with pytest.raises(AutofuseError) as err:
        from_json(data)
    assert len(err.value.diagnostics) == len(abs_hint.nodes)


def test_what_is_no_graph(abs_hint: HintGraph):
    for data in (None, [], "x", 1):
        with pytest.raises(AutofuseError, match="a graph is an object"):
            from_json(data)
    with pytest.raises(AutofuseError, match="is a HintGraph, not ImplGraph"):
        from_json_as(ImplGraph, to_json(abs_hint))
