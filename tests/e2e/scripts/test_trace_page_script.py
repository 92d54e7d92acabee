"""The script of timed mode's page, executed by node on a stand-in for a browser's document."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.twin,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs node"),
]

ROOT = Path(__file__).resolve().parents[3]
NOTHING = re.compile(r"\b(undefined|NaN|Infinity|null|\[object)\b")


def shown(page: Path) -> dict[str, Any]:
    """What a page shows: see the script."""
    command = ["node", str(ROOT / "tests" / "support" / "page_dom.js"), str(page)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["bad"] == []
    everything = [
        *found["texts"].values(),
        *found["tips"],
        *(t for d in found["drawn"].values() for t in d),
    ]
    assert [t for t in everything if NOTHING.search(t)] == []
    return found


def test_every_text_is_one(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("run", ROOT / "examples" / "demo.json", "--html", "t.html", "--json")
    timed = done.json()["result"]["timed"]
    found = shown(tmp_path / "t.html")
    texts = found["texts"]
    assert texts["path"].startswith(f"Core {timed['slowest']}: ")
    assert f"Modelled time {timed['total_us']:.2f} us" in texts["summary"]
    assert "model: nothing here was measured" in texts["note"]
    assert "1e9 operations per second (model)" in found["drawn"]["roofline"]
    assert found["tips"]
    assert all("(model)" in tip for tip in found["tips"])
    for pipe in ("scalar", "MTE2", "V", "MTE3"):
        assert pipe in found["drawn"]["timeline"]
    # The timeline comes first; what lies in UB has the names of the graph.
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    places = [page.index(f'id="{x}"') for x in ("timeline", "ub", "held", "summary", "roofline")]
    assert places == sorted(places)
    for tensor in ("x", "residual", "bias", "out"):
        assert tensor in texts["held"]
        assert any(tensor in label for label in found["drawn"]["ub"])


@pytest.mark.parametrize(
    ("n", "cores"), [(0, "No core has any work"), (1, "There is one core with work")]
)
def test_hardly_anything(
    autofuse: Callable, native: Callable, tmp_path: Path, n: int, cores: str
) -> None:
    made = native(
        symbols={"n": {"min": 0, "max": 100}},
        inputs=[{"name": "x", "dtype": "float32", "shape": ["n"]}],
        nodes=[{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
    )
    (tmp_path / "g.json").write_text(json.dumps(made), encoding="utf-8")
    done = autofuse("run", "g.json", "-s", f"n={n}", "--html", "t.html")
    assert done.code == 0, done.err
    assert cores in shown(tmp_path / "t.html")["texts"]["summary"]
    # The launch starts one core also where there is nothing to do, as explain counts it.
    explained = autofuse("explain", "g.json", "-s", f"n={n}").out
    start = re.search(r"(\S+) us start", done.out)
    assert start is not None
    assert re.search(rf"\* +general +{re.escape(start[1])} ", explained)


def test_every_group_has_a_panel_of_ub_and_every_lane_a_name(
    autofuse: Callable, tmp_path: Path
) -> None:
    graph = ROOT / "examples" / "gallery" / "layer_norm_backward.json"
    done = autofuse("run", graph, "--shape", "tokens=256", "--html", "t.html", "--json")
    ub = done.json()["result"]["timed"]["ub"]
    assert len(ub["groups"]) > 1
    found = shown(tmp_path / "t.html")
    names = {name for b in ub["buffers"] for name in b["holds"] or [b["name"]]}
    # Names that have no room are shortened, at their beginning or at their end.
    for text in found["drawn"]["ub"]:
        if text.endswith(" us") or text in ub["groups"]:
            continue
        first = text.partition(",")[0]
        assert any(n == first or n.endswith(first.lstrip("\u2026")) for n in names), text
    assert all(group in found["texts"]["held"] for group in ub["groups"])
    assert [g for g in ub["groups"] if g not in found["drawn"]["ub"]] == []
