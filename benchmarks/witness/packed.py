"""Packed campaign: graphs, their kernels, the tilings of every run, and the twin's results.

A machine with a card needs Python with NumPy and ml_dtypes, nvcc, and the campaign; neither a C++ compiler for host
code nor the twin.  A case is one JSON document per graph in ``cases/``; texts shared by kernels are stored once, in
``texts/``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as, to_json
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.native import Tiling

#: Groups of elements per output, each compared with the twin by a checksum.
GROUPS = 2048


@dataclass(frozen=True, slots=True)
class PackedRun:
    """One run: sizes, template, data, and the twin's results.

    Attributes:
        symbols: the sizes.
        key: the tiling key.
        seed: seed of the data.
        tiling: result of the tiling function.
        inputs: digest of the data; empty if only the card uses them.
        twin: checksums of groups of elements by output; empty if the twin did not run.
        cores: limit on cores; 0 for all cores of the chip.
    """

    symbols: Mapping[str, int]
    key: int
    seed: int
    tiling: Tiling
    inputs: str
    twin: Mapping[str, Sequence[int]]
    cores: int = 0


@dataclass(frozen=True, slots=True)
class PackedCase:
    """A graph with its kernel.

    Attributes:
        name: name of the case.
        graph: its graph.
        files: path inside the output folder -> text.
        keys: number of tiling keys.
        runs: the runs, in order.
    """

    name: str
    graph: FusionGraph
    files: Mapping[str, str]
    keys: int
    runs: Sequence[PackedRun]


def sums_of(array: Any) -> list[int]:
    """Return a checksum per group of elements; all NaN are treated as equal."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind not in "iub":
        flat = flat.copy()
        flat[np.isnan(flat.astype(np.float32))] = np.nan
    size = group_of(flat.size)
    return [zlib.crc32(flat[i : i + size].tobytes()) for i in range(0, flat.size, size)]


def group_of(elements: int) -> int:
    """Return the number of elements of a group."""
    return -(-elements // GROUPS) or 1


def digest_of(inputs: Mapping[str, Any]) -> str:
    """Return the digest of the data of a run."""
    h = hashlib.sha256()
    for name in sorted(inputs):
        h.update(name.encode() + np.ascontiguousarray(inputs[name]).tobytes())
    return h.hexdigest()[:16]


def write_case(folder: Path, case: PackedCase) -> None:
    """Write a case."""
    (folder / "cases").mkdir(parents=True, exist_ok=True)
    (folder / "texts").mkdir(exist_ok=True)
    digests = {}
    for path, text in case.files.items():
        digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        place = folder / "texts" / f"{digest}.gz"
        if not place.exists():
            place.write_bytes(gzip.compress(text.encode(), mtime=0))
        digests[path] = digest
    runs = [
        {
            "symbols": dict(r.symbols),
            "key": r.key,
            "seed": r.seed,
            "data": base64.b64encode(r.tiling.data).decode(),
            "workspace": r.tiling.workspace,
            "block_dim": r.tiling.block_dim,
            "inputs": r.inputs,
            "cores": r.cores,
            "twin": {
                n: base64.b64encode(np.array(s, dtype="<u4").tobytes()).decode()
                for n, s in r.twin.items()
            },
        }
        for r in case.runs
    ]
    document = {
        "name": case.name,
        "graph": to_json(case.graph),
        "files": digests,
        "keys": case.keys,
        "runs": runs,
        "work": len(case.graph.nodes)
        * sum(largest_tensor(case.graph, r.symbols) for r in case.runs),
    }
    text = json.dumps(document, separators=(",", ":"))
    (folder / "cases" / f"{case.name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def read_case(folder: Path, name: str) -> PackedCase:
    """Read a case."""
    raw = gzip.decompress((folder / "cases" / f"{name}.json.gz").read_bytes())
    d = json.loads(raw)
    files = {
        path: gzip.decompress((folder / "texts" / f"{digest}.gz").read_bytes()).decode()
        for path, digest in d["files"].items()
    }
    runs = [
        PackedRun(
            r["symbols"],
            r["key"],
            r["seed"],
            Tiling(base64.b64decode(r["data"]), r["workspace"], r["block_dim"]),
            r["inputs"],
            {
                n: np.frombuffer(base64.b64decode(s), dtype="<u4").tolist()
                for n, s in r["twin"].items()
            },
            r.get("cores", 0),
        )
        for r in d["runs"]
    ]
    return PackedCase(d["name"], from_json_as(FusionGraph, d["graph"]), files, d["keys"], runs)


def names_in(folder: Path) -> list[str]:
    """Return the cases of a packed campaign."""
    return sorted(p.name.removesuffix(".json.gz") for p in (folder / "cases").glob("*.json.gz"))


def write_binary(folder: Path, name: str, digest: str, binary: bytes) -> None:
    """Store the binary of a case with the digest of its sources."""
    (folder / "binaries").mkdir(exist_ok=True)
    place = folder / "binaries" / f"{name}.xz"
    made = place.with_suffix(".tmp")
    made.write_bytes(lzma.compress(digest.encode() + b"\n" + binary))
    made.rename(place)


def read_binary(folder: Path, name: str, digest: str) -> bytes | None:
    """Return the binary of a case if it was compiled from exactly these sources."""
    place = folder / "binaries" / f"{name}.xz"
    if not place.exists():
        return None
    known, _, binary = lzma.decompress(place.read_bytes()).partition(b"\n")
    return binary if known == digest.encode() else None


def longest_first(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the cases, most work first: elements that NumPy computes, then bytes to compile."""

    def size(name: str) -> tuple[int, int]:
        document = json.loads(gzip.decompress((folder / "cases" / f"{name}.json.gz").read_bytes()))
        texts = (folder / "texts" / f"{d}.gz" for d in document["files"].values())
        return document["work"], sum(t.stat().st_size for t in texts)

    found = {n: size(n) for n in names}
    return sorted(names, key=lambda n: (*(-x for x in found[n]), n))


class PackedLibrary:
    """Host functions of a packed kernel, which return the packed results.

    Attributes:
        key_count: number of tiling keys.
        row_count: rows of a tuning file: none.
    """

    row_count = 0

    def __init__(self, case: PackedCase) -> None:
        self.key_count = case.keys
        names = [s.name for s in case.graph.symbols]
        self._known = {
            (tuple(r.symbols[n] for n in names), r.key, r.cores): r.tiling for r in case.runs
        }

    def tiling(self, symbols: Sequence[int], key: int | None = None, cores: int = 0) -> Tiling:
        """Return the tiling that was packed for these sizes."""
        assert key is not None
        return self._known[tuple(symbols), key, cores]

    def infer_shape(self, inputs: Sequence[Sequence[int]], outputs: int) -> None:
        """Do nothing: shapes follow from the graph."""
