"""The process that prices launches of the fake chips: timed mode of the twin with the chips' own figures.

``pricing.py ROOT``: one process per folder, started by the first timed launch.  It ends after half a minute without
requests.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from autofuse.machines.npu.device import target_of
from autofuse.machines.twin.run.findings import KernelText
from autofuse.machines.twin.run.native import Region
from autofuse.machines.twin.run.record import EVENT, CoreRecord, Recording
from autofuse.machines.twin.timed.source_map import SourceMap
from autofuse.machines.twin.timed.timed import sampled_cores, timed_report
from autofuse.targets import TargetSpec
from fake_cann.figures import HIDDEN, changed, read_figures

IDLE_S = 30.0
_PIPES = ("scalar", "V", "MTE2", "MTE3")
#: Number of tensors without an extra cost.
_FREE_TENSORS = 2


class Prices:
    """The figures of a folder's chips, read on every request."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def chip(self, soc: str) -> tuple[TargetSpec, float]:
        """Return a chip with its own figures, and the cost per tensor that the model lacks."""
        target = target_of(soc)
        assert target is not None
        path = self.root / "figures" / f"{target.name}.toml"
        figures = read_figures(path.read_text(encoding="utf-8"))
        return changed(target, figures), figures.get(HIDDEN, 0.0)

    def answer(self, head: dict[str, Any], blob: bytes) -> str:
        """Return the reply to a request."""
        if "choose" in head:
            return " ".join(map(str, sampled_cores([tuple(m) for m in head["choose"]])))
        own, of_tensor = self.chip(head["soc"])
        recording, tensors = _recording(head, blob)
        cold = self._report(recording, own)
        # Data in L2 loads at L2 bandwidth.
        near = replace(own.model, read_gbs=max(own.model.read_gbs, own.model.l2_read_gbs))
        warm = self._report(recording, replace(own, model=near))
        more = of_tensor * max(0, tensors - _FREE_TENSORS)
        slowest = next(r for r in cold["cores"] if r["core"] == cold["slowest"])
        pipes = [slowest["pipes"][p]["us"] for p in _PIPES]
        numbers = [cold["total_us"] + more, min(warm["total_us"], cold["total_us"]) + more, *pipes]
        return " ".join(f"{n:.6f}" for n in numbers)

    def _report(self, recording: Recording, target: TargetSpec) -> dict[str, Any]:
        # The nodes that calls belong to are not needed.
        source = SourceMap(KernelText(""), None)  # type: ignore[arg-type]
        return timed_report(recording, target, source)


def _recording(head: dict[str, Any], blob: bytes) -> tuple[Recording, int]:
    """Return the recording, and the number of tensors that it touches."""
    at, records, touched = 0, [], set()
    for r in head["records"]:
        size = r["events"] * EVENT.itemsize
        events = np.frombuffer(blob[at : at + size], dtype=EVENT)
        at += size
        touched |= set(events["region"].tolist())
        records.append(CoreRecord(r["core"], bool(r["cut"]), events, tuple(r["apis"]), ()))
    regions = tuple(Region(a, n, "memory", True) for a, n in head["regions"])
    moved = tuple((a, b) for a, b in head["moved"])
    return Recording(head["block_dim"], tuple(records), moved, regions), len(touched - {0})


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        peer = self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[1] != os.getuid():
            return
        while (sizes := self._read(16)) is not None:
            head_size, blob_size = struct.unpack("<QQ", sizes)
            head, blob = self._read(head_size), self._read(blob_size)
            if head is None or blob is None:
                return
            self.server.asked = time.monotonic()  # type: ignore[attr-defined]
            text = self.server.prices.answer(json.loads(head), blob).encode()  # type: ignore[attr-defined]
            self.request.sendall(struct.pack("<Q", len(text)) + text)
            self.server.asked = time.monotonic()  # type: ignore[attr-defined]

    def _read(self, size: int) -> bytes | None:
        parts, left = [], size
        while left:
            part = self.request.recv(min(left, 1 << 20))
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    prices: Prices
    asked: float


def main(argv: list[str]) -> int:
    """Serve until requests stop."""
    root = Path(argv[0])
    about = json.loads((root / "fake_cann.json").read_text(encoding="utf-8"))
    prices = Prices(root)
    try:
        server = _Server("\0" + about["socket"], _Handler)
    except OSError:
        return 0  # another one serves
    server.prices, server.asked = prices, time.monotonic()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while time.monotonic() - server.asked < IDLE_S and root.is_dir():
        time.sleep(0.5)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
