"""The chips of this machine: parsing of ``npu:0,1``, and facts from runtime and driver."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autofuse.base import programs
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible
from autofuse.machines.npu.acl import Acl, open_acl
from autofuse.machines.npu.cann import Cann, find_cann
from autofuse.targets import TargetSpec, load_chip, target_names

__all__ = [
    "CHIPS_JOB",
    "PREFIX",
    "Chip",
    "chip_at",
    "chips",
    "chips_job",
    "parse_devices",
    "target_of",
]

CHIPS_JOB = "autofuse.machines.npu.device:chips_job"
#: Prefix of chip names.
PREFIX = "npu"
_DEVICES = re.compile(r"npu(?::(?P<list>\d{1,4}(?:,\d{1,4}){0,63}))?")
_VALUE = re.compile(r"^\s*(?P<name>[A-Za-z][A-Za-z ()/]*?)\s*:\s*(?P<value>\S.*?)\s*$", re.M)
_SMI_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip of this machine.

    Attributes:
        index: as in ``npu:INDEX``.
        soc: its name in CANN.
        target: autofuse's target of this name; empty for none.
        npu_arch: architecture of that target; empty if unknown.
        cores: vector cores; None if the runtime does not report them.
        l2_bytes: bytes of L2; None if the runtime does not report them.
        memory_bytes: bytes of HBM.
        free_bytes: bytes of HBM that are free now.
        driver: version of the driver; empty if ``npu-smi`` does not report it.
        clock_mhz: current clock of the cores; None if ``npu-smi`` does not report it.
        cann: release of CANN; empty if unknown.
        is_fake: True for the fake of the tests, whose times are not measurements.
    """

    index: int
    soc: str
    target: str
    npu_arch: str
    cores: int | None
    l2_bytes: int | None
    memory_bytes: int
    free_bytes: int
    driver: str
    clock_mhz: int | None
    cann: str
    is_fake: bool

    @property
    def label(self) -> str:
        """Text for messages: device, name, and a note if it is a fake."""
        return f"npu:{self.index} ({self.soc}{', a fake' if self.is_fake else ''})"

    def to_json(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return asdict(self)


def parse_devices(text: str) -> tuple[int, ...]:
    """Return the distinct numbers of ``npu``, ``npu:0`` or ``npu:0,1``, in that order.

    Raises:
        AutofuseError: AF5007, the text has another form.
    """
    m = _DEVICES.fullmatch(text)
    if m is None:
        raise AutofuseError.of(
            "AF5007",
            f"{visible(text)!r} does not name a chip",
            hint="npu:0 is the first Ascend chip, npu:0,1 the first two",
        )
    return tuple(dict.fromkeys(int(n) for n in (m["list"] or "0").split(",")))


def chips(cann: Cann) -> tuple[Chip, ...]:
    """Return all chips that the runtime sees.

    Raises:
        AutofuseError: AF5011, the runtime cannot be loaded; AF5012, it does not answer.
    """
    acl = open_acl(cann.library)
    return tuple(_chip(acl, cann, i) for i in range(acl.device_count()))


def chips_job(_: object) -> list[dict[str, Any]]:
    """Run :func:`chips` of the installed CANN in a worker; return the attributes of each by name."""
    return [c.to_json() for c in chips(find_cann())]


def chip_at(cann: Cann, index: int) -> Chip:
    """Return one chip.

    Args:
        cann: the installation with the runtime.
        index: from 0.

    Raises:
        AutofuseError: as :func:`chips`; AF5007, there is no such chip.
    """
    acl = open_acl(cann.library)
    count = acl.device_count()
    if not 0 <= index < count:
        there = f"npu:0 to npu:{count - 1}" if count > 1 else "npu:0" if count else "none"
        raise AutofuseError.of(
            "AF5007", f"there is no chip npu:{index}", hint=f"chips here: {there}"
        )
    return _chip(acl, cann, index)


def target_of(soc: str) -> TargetSpec | None:
    """Return autofuse's target for a chip's name in CANN; names of variants extend the target's name."""
    known = {load_chip(n).soc: n for n in target_names()}
    fits = [s for s in known if soc.lower().startswith(s.lower())]
    return load_chip(known[max(fits, key=len)]) if fits else None


def _chip(acl: Acl, cann: Cann, index: int) -> Chip:
    with acl.device(index) as device:
        soc = acl.soc_name()
        free, total = device.memory()
    target = target_of(soc)
    driver, clock = _driver_facts(cann, index)
    return Chip(
        index,
        soc,
        "" if target is None else target.name,
        "" if target is None else target.npu_arch,
        acl.cores(index),
        acl.l2_bytes(index),
        total,
        free,
        driver,
        clock,
        cann.release,
        acl.is_fake,
    )


def _driver_facts(cann: Cann, index: int) -> tuple[str, int | None]:
    """Return driver version and clock in MHz, as ``npu-smi`` prints them; serial numbers are not queried."""
    smi = shutil.which("npu-smi", path=str(cann.root / "bin")) or programs.program("npu-smi")
    if smi is None:
        return "", None
    board = _printed(Path(smi), "board", index)
    common = _printed(Path(smi), "common", index)
    driver = re.sub(r"[^0-9A-Za-z._-]", "", board.get("software version", ""))[:40]
    clock = next((v for k, v in common.items() if "aicore" in k and "freq" in k), "")
    return driver, int(clock) if re.fullmatch(r"\d{2,5}", clock) else None


def _printed(smi: Path, kind: str, index: int) -> dict[str, str]:
    """Return the lines ``name : value`` of ``npu-smi info -t KIND -i INDEX``, names in lower case."""
    try:
        done = subprocess.run(
            [str(smi), "info", "-t", kind, "-i", str(index)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SMI_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=smi.parent,
            env=programs.environment(LC_ALL="C"),
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {m["name"].lower(): m["value"] for m in _VALUE.finditer(done.stdout)}
