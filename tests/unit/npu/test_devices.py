"""Names of chips, and errors of the runtime."""

import pickle

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.npu.codes import CODES, AclError, Kind
from autofuse.machines.npu.device import Chip, parse_devices, target_of


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("npu", (0,)), ("npu:0", (0,)), ("npu:3", (3,)), ("npu:0,1", (0, 1)), ("npu:1,0,1", (1, 0))],
)
def test_devices(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_devices(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "cpu", "npu:", "npu:-1", "npu:0,", "npu:x", "NPU:0", "npu:0\n"]
)
def test_what_names_no_chip(text: str) -> None:
    with pytest.raises(AutofuseError, match="AF5007"):
        parse_devices(text)


@pytest.mark.parametrize(
    ("soc", "target"),
    [
        ("Ascend910B2", "ascend910b2"),
        ("Ascend910B2C", "ascend910b2"),
        ("Ascend910_9362", "ascend910c"),
        ("Ascend310P3", "ascend310p"),
        ("Ascend950PR_9599", "ascend950pr"),
        ("Ascend950DT_9582", "ascend950dt"),
    ],
)
def test_targets_of_chips(soc: str, target: str) -> None:
    found = target_of(soc)
    assert found is not None
    assert found.name == target


def test_a_chip_that_is_no_target() -> None:
    assert target_of("Ascend910A") is None
    assert target_of("") is None


def test_a_fake_says_so() -> None:
    facts = (
        0,
        "Ascend910B2",
        "ascend910b2",
        "dav-2201",
        48,
        1 << 27,
        1 << 36,
        1 << 35,
        "",
        None,
        "8.5.0",
    )
    assert Chip(*facts, is_fake=False).label == "npu:0 (Ascend910B2)"
    assert Chip(*facts, is_fake=True).label == "npu:0 (Ascend910B2, a fake)"
    assert Chip(**Chip(*facts, is_fake=True).to_json()).is_fake


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (507046, Kind.TIMEOUT, "timeout: f returned 507046 (ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)"),
        (507010, Kind.LOST, "device lost: f returned 507010 (ACL_ERROR_RT_LOST_HEARTBEAT)"),
        (207001, Kind.MEMORY, "out of memory: f returned 207001 (ACL_ERROR_RT_MEMORY_ALLOCATION)"),
        (507035, Kind.KERNEL, "kernel stopped: f returned 507035"),
        (424242, Kind.OTHER, "failed: f returned 424242"),
    ],
)
def test_errors_are_told_apart(code: int, kind: Kind, text: str) -> None:
    error = AclError.make("f", code, "first\n\nsecond")
    assert (error.kind, error.code, error.function) == (kind, code, "f")
    assert text in str(error)
    assert error.diagnostics[0].hint
    assert error.diagnostics[0].notes == ("CANN says: first", "CANN says: second")


def test_names_of_codes_are_different() -> None:
    assert len({name for name, _ in CODES.values()}) == len(CODES)


def test_an_error_of_the_runtime_comes_out_of_a_worker() -> None:
    again = pickle.loads(pickle.dumps(AclError.make("f", 507046)))
    assert (again.kind, again.code, again.name) == (Kind.TIMEOUT, 507046, CODES[507046][0])
    assert again.diagnostics[0].code == "AF5012"
