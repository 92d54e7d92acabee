"""The kit without a chip: workers that hang, die and lose the chip on purpose, and what a later run makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.silicon.gathered import bundle_of, contents
from autofuse.measure.silicon.journal import Journal
from autofuse.measure.silicon.kit import Kit, Seen
from autofuse.measure.silicon.units import Unit, chosen
from autofuse.targets import load_target

CHIP = load_target("ascend910b2")
HEAD = {"target": CHIP.name}
FACTS = {
    "soc": "Ascend910B2",
    "driver": "25.2 /home/me",
    "clock_mhz": 1800,
    "cann": "8.5.0",
    "is_fake": True,
}
SOURCE = """
import json, os, sys, time

def told():
    return json.load(open(os.environ["TOLD"]))

def run(item):
    name = item["unit"]
    what = told().get(name, "measured")
    if what == "hang":
        time.sleep(60)
    if what == "die":
        os._exit(3)
    row = {"case": name, "program": "start", "parameters": {"cores": 1}, "l2": "warm", "state": what}
    if what == "measured":
        row["times_us"] = [2.50049]
        row["model_us"] = 2.0
    else:
        row["code"] = "AF5012"
    return {"rows": [row], "text": "" if what == "measured" else "it failed"}

def compile(item):
    return None

def probe(item):
    left = told().get("silent", 0)
    if left:
        json.dump({**told(), "silent": left - 1}, open(os.environ["TOLD"], "w"))
        raise RuntimeError("no answer")
    return {}
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the workers do, by the name of the unit."""
    (tmp_path / "kit_jobs.py").write_text(SOURCE)
    path = tmp_path / "told.json"
    path.write_text("{}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TOLD", str(path))
    return path


def _kit(limit: float = 20.0) -> Kit:
    names = ("kit_jobs:run", "kit_jobs:compile", "kit_jobs:probe")
    return Kit(CHIP, "npu:0", limit, 3, 0, 1, (0.0, 0.0), 1.0, names)


def _units() -> tuple[Unit, ...]:
    return chosen(CHIP, "calibration", ["start."])


def _states(journal: Journal) -> list[str]:
    return [r["state"] for rows in journal.rows.values() for r in rows]


def test_units_go_from_safe_to_risky_and_have_names_of_their_own() -> None:
    units = chosen(CHIP, None, [])
    assert [u.risk for u in units] == sorted(u.risk for u in units)
    assert len({u.name for u in units}) == len(units)
    assert {u.part for u in units} == {"conformance", "calibration"}
    assert all(u.name.startswith("sync") or u.subject for u in units if "meet" in str(u.subject))
    assert {u.part for u in chosen(CHIP, "conformance", ["Relu"])} == {"conformance"}
    assert not chosen(CHIP, None, ["no such thing"])


def test_every_unit_has_its_rows(told: Path, tmp_path: Path) -> None:
    journal, seen = Journal(tmp_path / "j", HEAD), list[Seen]()
    journal.start(resume=False)
    assert _kit().run(_units(), journal, seen.append)
    journal.close()
    assert [s.unit for s in seen] == [u.name for u in _units()]
    bundle = bundle_of(_units(), journal, FACTS, CHIP, complete=False)
    assert [r.times_us for r in bundle.calibration] == [[2.5]] * len(seen)
    assert bundle.chip.driver == "25.2homeme"
    assert contents(bundle)["calibration"] == {"measured": len(seen)}


@pytest.mark.parametrize(
    ("what", "states"),
    [
        ("die", ["measured", "failed", "measured"]),
        ("lost", ["measured", "lost", "measured"]),
        ("wrong", ["measured", "wrong", "measured"]),
        ("hang", ["measured", "timeout", "measured"]),
    ],
)
def test_one_that_fails_is_noted_and_the_others_run(
    told: Path, tmp_path: Path, what: str, states: Sequence[str]
) -> None:
    units = _units()[:3]
    told.write_text(json.dumps({units[1].name: what, "silent": 1 if what == "lost" else 0}))
    journal = Journal(tmp_path / "j", HEAD)
    journal.start(resume=False)
    assert _kit(1.0 if what == "hang" else 20.0).run(units, journal, lambda seen: None)
    journal.close()
    assert _states(journal) == states
    # Nothing of it runs again.
    again = Journal(tmp_path / "j", HEAD)
    again.start(resume=True)
    assert _kit().run(units, again, lambda seen: pytest.fail(f"{seen.unit} ran again"))


def test_a_chip_that_does_not_come_back_ends_the_run(told: Path, tmp_path: Path) -> None:
    units = _units()[:3]
    told.write_text(json.dumps({units[0].name: "lost", "silent": 99}))
    journal = Journal(tmp_path / "j", HEAD)
    journal.start(resume=False)
    assert not _kit().run(units, journal, lambda seen: None)
    journal.close()
    assert _states(journal) == ["lost"]
    told.write_text("{}")
    again = Journal(tmp_path / "j", HEAD)
    again.start(resume=True)
    assert _kit().run(units, again, lambda seen: None)
    assert _states(again) == ["lost", "measured", "measured"]


def test_an_interrupted_unit_runs_again(told: Path, tmp_path: Path) -> None:
    units = _units()[:3]

    def interrupt(seen: Seen) -> None:
        if seen.unit == units[1].name:
            raise KeyboardInterrupt

    journal = Journal(tmp_path / "j", HEAD)
    journal.start(resume=False)
    with pytest.raises(KeyboardInterrupt):
        _kit().run(units, journal, interrupt)
    journal.close()
    again, seen = Journal(tmp_path / "j", HEAD), list[Seen]()
    again.start(resume=True)
    assert not again.hung
    assert _kit().run(units, again, seen.append)
    assert [s.unit for s in seen] == [units[2].name]


def test_what_took_the_machine_down_is_not_run_again(told: Path, tmp_path: Path) -> None:
    units = _units()[:2]
    journal = Journal(tmp_path / "j", HEAD)
    journal.start(resume=False)
    journal.begin(units[0].name)
    journal.close()
    with (tmp_path / "j").open("a") as torn:
        torn.write('{"end": "sta')
    again, seen = Journal(tmp_path / "j", HEAD), list[Seen]()
    again.start(resume=True)
    assert again.hung == [units[0].name]
    assert _kit().run(units, again, seen.append)
    assert [s.unit for s in seen] == [units[1].name]
    assert _states(again) == ["lost", "measured"]


def test_a_journal_is_not_overwritten_and_belongs_to_one_run(tmp_path: Path) -> None:
    def code(resume: bool, head: dict[str, str], text: str | None = None) -> str:
        if text is not None:
            (tmp_path / "j").write_text(text)
        with pytest.raises(AutofuseError) as failed:
            Journal(tmp_path / "j", head).start(resume=resume)
        return failed.value.diagnostics[0].code

    first = Journal(tmp_path / "j", HEAD)
    first.start(resume=False)
    first.close()
    assert code(False, HEAD) == "AF5007"
    assert code(True, {"target": "ascend910b1"}) == "AF1403"
    line = json.dumps({"schema": "autofuse.measure.silicon-journal/1", **HEAD})
    assert code(True, HEAD, f'{line}\n{{"rows": 3}}\n{{}}\n') == "AF1403"
    assert code(True, HEAD, "[" * 10_000 + "\n\n") == "AF1001"
    first.close(remove=True)
    assert not (tmp_path / "j").exists()
