"""The verb ``silicon`` on the fake CANN: the whole way to a bundle, with kernels that fail on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_canns import FakeCann

from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.timed.timed import timed_run
from autofuse.measure.calibration.bundle import read_bundle
from autofuse.measure.calibration.cases import calibration_cases
from autofuse.measure.calibration.folder import program_files, program_graph
from autofuse.measure.calibration.programs import program_of
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b2")
#: A case of every template of calibration kernels; the slow tests have all.
SOME = ("start.c8", "sync.c2.x4", "load.rows.32x128", "store.one.r2048", "scalar.2.t1000",
        "vector.compare_16.n512", "vector.tanh_32.n128", "vector.gather_16.n512",
        "copy.c48.r1024.t64", "tensors.c16")  # fmt: skip


def _agrees(name: str) -> None:
    """A case computes what it should, and takes as long in timed mode as the model says of its work."""
    case = next(c for c in calibration_cases(CHIP) if c.name == name)
    program = program_of(case.program)
    library = compile_kernel(program_files(program, CHIP), program.kernel, checked=True)
    kernel = TwinKernel(library, program_graph(program), chip=CHIP)
    x = program.input(case.parameters)
    inputs = dict.fromkeys(program.inputs, x)
    run, report = timed_run(kernel, inputs, CHIP, symbols=case.parameters)
    assert program.is_right(run.outputs["y"], x, case.parameters)
    assert not program.is_right(run.outputs["y"] + 1, x, case.parameters)
    assert not report["unpriced"]
    assert case.model_us(CHIP) == pytest.approx(report["total_us"], rel=0.025)


@pytest.mark.parametrize("name", SOME)
def test_the_model_knows_what_a_calibration_kernel_does(name: str) -> None:
    _agrees(name)


@pytest.mark.slow
def test_one_case_of_every_calibration_kernel_agrees() -> None:
    skipped = {c.program for c in calibration_cases(CHIP) if c.name in SOME}
    first = {c.program: c.name for c in reversed(calibration_cases(CHIP))}
    for program, name in first.items():
        if program not in skipped:
            _agrees(name)


@pytest.mark.slow
def test_a_bundle_with_kernels_that_fail_on_purpose(
    fake_cann: FakeCann, autofuse: Callable, tmp_path: Path
) -> None:
    fake_cann.make(fail=("wrong:Relu", "lost:calibration_sync"))
    out = tmp_path / "chip.json.gz"
    words = ("start.c1", "op.Relu.float32", "sync.c2.x0")
    options = [w for x in words for w in ("--filter", x)]
    done = autofuse(
        "silicon",
        *options,
        "--repeats",
        "3",
        "--yes",
        "--json",
        "--jobs",
        "1",
        "--out",
        str(out),
        ASCEND_HOME_PATH=str(fake_cann.root),
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)["result"]
    assert found["fake"]
    assert not found["complete"]
    bundle = read_bundle(out)
    assert bundle.fake
    states = {r.case: r.state for r in (*bundle.calibration, *bundle.conformance)}
    assert states["start.c1"] == "measured"
    assert states["op.Relu.float32"] == "differs"
    assert states["sync.c2.x0"] == "lost"
    wrong = next(r for r in bundle.conformance if r.case == "op.Relu.float32")
    assert wrong.differences
    assert wrong.wrong > 0
    assert len(bundle.calibration[0].times_us) == 3
    assert found.pop("bundle") == str(out)
    text = json.dumps(found) + bundle.model_dump_json()
    for private in (str(tmp_path), str(fake_cann.root), str(Path.home())):
        assert private not in text
    assert list(tmp_path.iterdir()) == [out]


def test_nobody_is_asked_where_nobody_can_answer(autofuse: Callable) -> None:
    done = autofuse("silicon", "--filter", "start", "--json")
    assert done.code == 1
    assert "--yes" in done.out


def test_a_machine_without_cann_says_so(autofuse: Callable, tmp_path: Path) -> None:
    out = str(tmp_path / "b.json")
    done = autofuse("silicon", "--yes", "--out", out, ASCEND_HOME_PATH=str(tmp_path))
    assert done.code == 1
    assert "AF5011" in done.err


def test_the_list_needs_no_chip(autofuse: Callable) -> None:
    done = autofuse("silicon", "--list", "--only", "calibration", "--json")
    units = json.loads(done.out)["result"]["units"]
    assert {"sync_all", "model.read_gbs"} <= {f for u in units for f in u["figures"]}
    assert autofuse("silicon", "--list", "--filter", "no such").code == 1
