"""The benchmark on a GPU, as far as a CPU can tell: its rows, its oracle, its driver, its page."""

import json
import math
import random
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from extras import required

pytestmark = required("torch")

import archive
import model
import oracle
import records
import report
import run
import torch
import worker
from competitors import generated
from oracle import Oracle, call_of
from rows import SETS, Case, Maker, compulsory_bytes, rows
from torch._subclasses import FakeTensorMode

from autofuse.codegen.backends.triton.cost import Work, time_of
from autofuse.targets import load_gpu

DRIVER = Path(run.__file__)
ROWS = rows()


def named(name):
    (row,) = (r for r in ROWS if r.name == name)
    return row


def seed():
    return int(torch.randint(1 << 31, ()))


# rows -----------------------------------------------------------------------------------------


def test_sets_are_whole_and_names_are_unique():
    assert [sum(r.set == s for r in ROWS) for s in SETS] == [46, 50, 107, 25]
    assert len({(r.set, r.name) for r in ROWS}) == len(ROWS)
    assert rows(("sweep",), ("softmax bwd",)) == [
        r for r in ROWS if r.sweep.endswith("softmax") and r.backward
    ]
    assert rows(SETS, ("9?_cum*",)) == [
        named(n) for n in ("90_cumprod", "91_cumsum_reverse", "92_cumsum_exclusive")
    ]


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("23_Softmax", 2 * 4 * 4096 * 393216),
        ("33_BatchNorm", 2 * 4 * 64 * 64 * 512 * 512 + 4 * 4 * 64),
        # Its input is read twice by nature.
        ("37_FrobeniusNorm_", 3 * 4 * 112 * 64 * 512 * 512),
        ("41_Max_Pooling_1D", 4 * 64 * 192 * (65536 + 65523)),
        ("51_Argmax_over_a_dimension", 4 * 128 * 4096 * 4095 + 8 * 128 * 4095),
        ("93_masked_cumsum", 9 * 32768 * 32768),
        ("100_HingeLoss", 4 * 32768 * 32768 + 4 * 32768 + 4),
        ("swiglu bwd 8192x2x14336 bf16", 2 * 5 * 8192 * 14336),
        ("layer_norm bwd 16384x4096 fp32", 4 * (3 * 16384 * 4096 + 4 * 4096)),
        ("cross_entropy bwd 8192x32000 bf16", 2 * 2 * 8192 * 32000 + 8 * 8192 + 4),
        ("dynamic_quant 16384x4096 bf16", 3 * 16384 * 4096 + 4 * 16384),
        ("embedding 65536 of 32000x1024 bf16", 8 * 65536 + 2 * 1024 * (32000 + 65536)),
        ("rms_norm 64x1048576 fp32", 4 * (2 * 64 + 1) * 1048576),
    ],
)
def test_compulsory_bytes_at_full_size(name, moved):
    with FakeTensorMode():
        row = named(name)
        case = row.case("cpu", 0, tiny=False)
        assert compulsory_bytes(row, case, call_of(case.function, case)()) == moved


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.set}/{r.name}")
def test_eager_agrees_with_the_oracle(row):
    case = row.case("cpu", seed(), tiny=True)
    results = call_of(case.function, case)()
    assert max(Oracle(case).errors(results)) < 64
    wanted = [x for k, x in enumerate(case.inputs) if k in case.gradients]
    assert not row.backward or [r.shape for r in results] == [w.shape for w in wanted]


def test_random_rows_follow_from_their_seed():
    """The first ones are the same for every number of them; each is right by eager, and of a kind of its own."""
    drawn = rows(("random",), (), (5, 40))
    names = [r.name for r in drawn]
    assert names[:7] == [r.name for r in rows(("random",), (), (5, 7))]
    assert names != [r.name for r in rows(("random",), (), (6, 40))]
    assert len(set(names)) == len(names)
    assert len({n[4:].partition(":")[0] for n in names}) >= 7
    assert {r.backward for r in drawn} == {False, True}
    for row in drawn:
        assert 1 << 16 <= math.prod(row.shape) <= 1 << 29
        case = row.case("cpu", seed(), tiny=True)
        assert max(Oracle(case).errors(call_of(case.function, case)())) < 1e5, row.name


# the oracle -----------------------------------------------------------------------------------


def softmax_case(rows=7, columns=33, dtype=torch.float32):
    x = Maker("cpu", seed()).normal((rows, columns), dtype)
    return Case(lambda x: torch.softmax(x, -1), (x,), split=1, gradients=(0,))


def test_one_wrong_element_is_seen_in_every_part(monkeypatch):
    case = softmax_case()
    right = torch.softmax(case.inputs[0].double(), -1)
    for part in (1 << 27, 70, 33):
        monkeypatch.setattr(oracle, "_PART", part)
        assert max(Oracle(case).errors([right.float()])) <= 0.5
        for at in (0, 3 * 33 + 5, 7 * 33 - 1):
            result = right.float()
            result.view(-1)[at] *= 1.001
            # 0.001 is about 8,389 eps; beside it stands the root mean square.
            assert 50 < max(Oracle(case).errors([result])) < 8400
            result.view(-1)[at] = math.nan
            assert Oracle(case).errors([result]) == [math.inf]


def test_errors_are_in_roundings_of_the_dtype():
    case = softmax_case(dtype=torch.float16)
    right = torch.softmax(case.inputs[0].double(), -1)
    assert max(Oracle(case).errors([right.half()])) <= 0.5
    assert max(Oracle(case).errors([right.half() * 1.01])) > 1
    assert Oracle(case).errors([right.half()[:-1]]) == [math.inf]
    assert Oracle(case).errors([]) == [math.inf]


def test_whole_numbers_may_be_one_beside_now_and_then():
    right = torch.randint(-100, 100, (40, 50), dtype=torch.int8)
    given = right.clone()
    given[3, 4] += 1
    assert oracle.error(right, right, 0.0) == 0
    assert oracle.error(given, right, 0.0) == pytest.approx(0.5)
    given[3, 4] += 1
    assert oracle.error(given, right, 0.0) == math.inf


def test_an_index_of_an_equal_element_is_right():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 0.0, 5.0, 1.0]])
    case = named("argmax 16384x8192 fp32").make(
        SimpleNamespace(normal=lambda shape, dtype: x), x.shape, x.dtype
    )
    assert Oracle(case).errors([torch.tensor([2, 0])]) == [0]
    assert Oracle(case).errors([torch.tensor([1, 2])]) == [0]
    assert max(Oracle(case).errors([torch.tensor([3, 0])])) > 64
    assert Oracle(case).errors([torch.tensor([1, 113])]) == [math.inf]


def test_gradients_are_compared_with_float64():
    case = named("layer_norm bwd 8192x8192 fp32").case("cpu", seed(), tiny=True)
    results = list(call_of(case.function, case)())
    results[2] = results[2] + 1e-3
    assert [e > 64 for e in Oracle(case).errors(results)] == [False, False, True]


def test_an_oracle_that_is_not_finite_is_refused():
    case = Case(lambda x: x / 0, (torch.ones(3),))
    with pytest.raises(ValueError, match="infinities"):
        Oracle(case).errors([torch.ones(3)])


# the driver -----------------------------------------------------------------------------------

TINY = ("--device=cpu", "--tiny", "--competitors=eager,quack")
THREE = ("19_ReLU", "91_cumsum_reverse", "layer_norm bwd 8192x8192 bf16")


def drive(folder, *more):
    command = [sys.executable, str(DRIVER), f"--out={folder}", f"--rows={','.join(THREE)}", *TINY]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_rows_are_measured_once(tmp_path):
    shown = drive(tmp_path)
    found = {r["name"]: r for r in records.read(tmp_path)}
    assert sorted(found) == sorted(THREE)
    for r in found.values():
        eager = r["results"]["eager"]
        assert eager["right"]
        assert eager["us"] > 0
        assert r["results"]["quack"].keys() == {"skipped", "seconds"}
        assert r["roof_us"] == pytest.approx(r["bytes"] / r["run"]["copy_gbs"] / 1e3)
        assert r["name"] in shown
    assert not (tmp_path / "current.json").exists()
    lines = {p.name: len(p.read_text().splitlines()) for p in tmp_path.iterdir()}
    assert lines == {"kernelbench.jsonl": 2, "operators.jsonl": 1}
    drive(tmp_path)
    assert len((tmp_path / "kernelbench.jsonl").read_text().splitlines()) == 2
    drive(tmp_path, "--again", "--set=operators")
    assert len((tmp_path / "operators.jsonl").read_text().splitlines()) == 2


LOSES = """
import json, os, pathlib, sys, time
out = pathlib.Path(sys.argv[1])
if out.joinpath("sweep.jsonl").exists():
    sys.exit(0)
record = {"set": "sweep", "name": "a", "run": {"time": 1.0}, "results": {"eager": {"us": 1.0}}}
noted = {"doing": "inductor", "began": time.time(), "record": record}
out.joinpath("current.json").write_text(json.dumps(noted))
HOW
"""


@pytest.mark.parametrize(
    ("how", "why"),
    [("os.abort()", "ended with -6"), ("time.sleep(60)", "no end after 1 s")],
)
def test_a_lost_process_is_replaced_and_its_row_noted(tmp_path, monkeypatch, how, why):
    script = tmp_path / "loses.py"
    script.write_text(LOSES.replace("HOW", how))
    out = tmp_path / "raw"
    out.mkdir()
    monkeypatch.setattr(run, "_WORKER", script)
    reason = run.watched([str(out)], out / "current.json", 1.0)
    assert why in reason
    noted = json.loads((out / "current.json").read_text())
    records.append(out, run.lost(noted, ["eager", "inductor", "autofuse"], reason))
    (record,) = records.read(out)
    assert record["results"]["eager"] == {"us": 1.0}
    assert record["results"]["inductor"] == {"failed": reason}
    assert "not reached" in record["results"]["autofuse"]["skipped"]
    assert records.done([record], ["eager", "autofuse"]) == {("sweep", "a")}
    (out / "current.json").unlink()
    assert run.watched([str(out)], out / "current.json", 1.0) is None


def test_bounds_follow_peers():
    measured = SimpleNamespace(
        specs=[((1,), torch.float16), ((1,), torch.float32), ((1,), torch.int8)],
        found={"results": {"inductor": {"errors": [0.25, 3.0, 0.0], "right": True}}},
    )
    assert worker.Measurement._bounds(measured) == [1.0, 6.0, 4.0]
    measured.found["results"]["eager"] = {"errors": [2.0, 3.5, 0.0], "right": True}
    assert worker.Measurement._bounds(measured) == [2.5, 6.0, 4.0]
    measured.found["results"]["inductor"] = {"failed": "no"}
    assert worker.Measurement._bounds(measured) == [2.5, 4.375, 4.0]
    measured.found["results"]["eager"]["right"] = False
    assert worker.Measurement._bounds(measured) == [1.0, 4.0, 4.0]


def test_a_graph_is_taken_from_a_row():
    """Up to the module, which the backend of another target does not write."""
    row = named("rms_norm 2048x32768 fp32")
    with pytest.raises(KeyError, match=r"_triton\.py"):
        generated(row, row.case("cpu", seed(), tiny=True), "ascend910b1")


# the page -------------------------------------------------------------------------------------


def fake(name, set_="sweep", shape=(64, 64), roof=100.0, **times):
    results = {
        c: {"us": us, "errors": [0.5], "right": True, "host_us": 2 * us} for c, us in times.items()
    }
    facts = {"name": "A & B", "torch": "2", "copy_gbs": 3000.0, "time": 0.0}
    return {
        "set": set_,
        "name": name,
        "shape": list(shape),
        "dtype": "float32",
        "backward": False,
        "sweep": "softmax" if set_ == "sweep" else "",
        "aim": 0.95,
        "counted": True,
        "bytes": 1,
        "roof_us": roof,
        "run": facts,
        "results": results,
    }


FAKES = [
    fake("softmax 64", autofuse=100.0, inductor=120.0, eager=300.0),
    fake("softmax 4096", shape=(9, 4096), autofuse=125.0, inductor=135.0, max=120.0),
    fake("softmax 1M", shape=(9, 1 << 20), autofuse=200.0, inductor=160.0, quack=100.0),
    fake("tiny", shape=(9, 128), roof=1.0, autofuse=50.0, inductor=1.0),
    fake("19_ReLU", "kernelbench", autofuse=100.0, inductor=100.0),
]


def test_page_of_known_numbers(tmp_path):
    for r in FAKES:
        records.append(tmp_path, r)
    wrong = fake("wrong", "operators", inductor=9.0)
    wrong["results"]["autofuse"] = {"us": 1.0, "errors": [99.0], "right": False}
    failed = fake("failed", "operators", inductor=9.0)
    failed["results"]["autofuse"] = {"failed": "Error: a|b\nmore"}
    for r in (wrong, failed):
        records.append(tmp_path, r)
    assert records.read(tmp_path, since=1.0) == []
    found = records.read(tmp_path)
    page = report.markdown(found, "autofuse", ["gpu_softmax.svg"], {}, str(tmp_path))
    default = (1.2 * 1.08 * 0.8) ** (1 / 3)
    better = (1.2 * 0.96 * 0.8) ** (1 / 3)
    assert (
        f"| Rows of 64 to 2^20 | 3 | {default:.2f} | 1.20 | {better:.2f} | 1.14 | 1 | 0 |" in page
    )
    assert "| KernelBench, level 1 | 1 | 1.00 | 1.15 | 1.00 | 1.06 | 0 | 0 |" in page
    assert "| Operators of models | 0 | - | 1.20 | - | 1.14 | 0 | 2 |" in page
    assert "- softmax 1M: 0.80\n" in page
    assert "- softmax 4096: 0.80 of the roof; aim 0.95" in page
    assert "- wrong: wrong: error 99\n- failed: Error: a/b" in page
    assert "| softmax fp32 | 1.00 / 0.83 | 0.02 / 1.00 | 0.80 / 0.83 | 0.50 / 0.62 |" in page
    assert "| tiny | -, - | 1.0, 2.0 | 50.0, 100 |" in page
    assert "![softmax](pictures/gpu_softmax.svg)" in page


def test_pictures_show_every_point():
    drawn = report.pictures(FAKES, "autofuse")
    assert sorted(drawn) == [
        "ratio_kernelbench.svg",
        "ratio_sweep.svg",
        "softmax.svg",
    ]
    space = "{http://www.w3.org/2000/svg}"
    roots = {n: ET.fromstring(text) for n, text in drawn.items()}
    # Two lines of four points, and the legend; seven ratios, and four peers in the legend.
    assert len(roots["softmax.svg"].findall(f"{space}circle")) == 2 * 4 + 2
    assert len(roots["ratio_sweep.svg"].findall(f"{space}circle")) == 7 + 4
    polylines = roots["softmax.svg"].findall(f"{space}polyline[@class='line']")
    assert len(polylines) == 2
    for root in roots.values():
        width, height = float(root.get("width")), float(root.get("height"))
        for c in root.iter(f"{space}circle"):
            assert 0 <= float(c.get("cx")) <= width
            assert 0 <= float(c.get("cy")) <= height


def test_the_command_writes_page_and_pictures(tmp_path):
    found, docs = tmp_path / "found", tmp_path / "docs"
    for r in FAKES:
        records.append(found, r)
    command = [sys.executable, report.__file__, str(found), f"--docs={docs}"]
    subprocess.run(command, check=True, timeout=60)
    page = (docs / "measured_gpu.md").read_text()
    assert "do not edit" in page
    shown = {line.partition("pictures/")[2][:-1] for line in page.splitlines() if line[:2] == "!["}
    assert shown == {p.name for p in (docs / "pictures").iterdir()}


# the model of kernel time ---------------------------------------------------------------------

FILES = archive.files("h100", "gpu")


def test_the_numbers_of_the_model_are_of_the_measured_rows():
    written = json.loads(FILES[model.FILE])
    assert written["held_out"] <= report.MODEL_AIM
    assert written["in"] <= written["held_out"] < written["bytes_only"]
    found = {r["name"]: r for r in records.latest(FILES)}
    by_name = {r["name"]: r for r in written["rows"]}
    assert by_name.keys() | set(written["left_out"]) == found.keys()
    for name, row in by_name.items():
        assert row["us"] == pytest.approx(found[name]["results"]["autofuse"]["us"], rel=1e-3)


def test_hardly_a_row_is_off_by_a_factor_of_two():
    """Of some rows, each time others, with the kernels of this version: of all 201, one is."""
    gpu = load_gpu("nvidia-h100")
    timed = [r for r in records.latest(FILES) if records.time_of(r, "autofuse")]
    chosen = [r for r in random.sample(timed, 6) if not r["results"]["autofuse"]["left"]]
    points, left = model.points(chosen, gpu)
    assert all("Pooling" in name for name in left)  # measured, but no longer fused
    off = {p.name: p.error(gpu) for p in points if abs(p.error(gpu)) >= math.log(2)}
    assert len(off) <= 1, off
    assert all(abs(e) < math.log(3) for e in off.values()), off


def test_a_fit_finds_the_figures_that_made_the_times():
    gpu = load_gpu("nvidia-h100")
    right = replace(gpu, launch_us=3.0, copy_gbs=2000.0)
    work = Work("k", 1 << 20, ((1 << 20, 1 << 20),), 1000, 128, 0, 1, 1, 1000, 0, 0)
    points = []
    for k in range(1, 9):
        w = replace(work, bytes=k << 16, runs=((k << 16, 1 << 20),))
        points.append(model.Point(f"p{k}", "one", time_of(w, right).us, (w,)))
    assert model.error(points, gpu) > 0.2
    assert model.error(points, model.fit(points, gpu)) < 0.01


def test_operators_have_no_sizes():
    rows = [r for r in ROWS if r.set != "level2"]
    names = {model.operator(r) for r in rows}
    assert {"softmax", "softmax bwd", "layer_norm", "19_ReLU", "cross_entropy bwd"} <= names
    assert not any("x" in n and n.replace("x", "").isdigit() for w in names for n in w.split())
    assert len(names) < len(rows) / 2
