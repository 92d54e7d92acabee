"""Runs of a kernel on the CPU twin, in a worker process: checks, accuracy on a grid, bits, bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate, shape_of
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.compile import QUICK, compile_kernel, level
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of
from autofuse.machines.twin.run.record import core_bytes
from autofuse.machines.twin.verify.verify import unpack, verify_loaded
from autofuse.measure.certificate.grid import GRIDS, grid_inputs, grid_values

__all__ = ["JOB", "runs_job"]

JOB = "autofuse.measure.certificate.runs:runs_job"

Array: TypeAlias = npt.NDArray[Any]


def runs_job(payload: str) -> dict[str, Any]:
    """Run a kernel for its certificate.

    Args:
        payload: files, graph and ``shapes`` (their number), ``seed``, as packed by ``twin.verify.verify.pack``.

    Returns:
        ``checked``, ``accuracy``, ``bits`` and ``traffic`` of the certificate.
    """
    files, graph, options = unpack(payload)
    path = compile_kernel(files, graph.name, opt=level(QUICK), checked=True)
    chip = chip_of(files, graph.name)
    bindings = shapes_for(graph, options["shapes"], options["seed"])
    report = verify_loaded(
        path, graph, bindings=bindings, seed=options["seed"], check="all", chip=chip
    )
    fast = TwinKernel(path, graph, chip=chip)
    hostile = TwinKernel(path, graph, check="all", check_seed=options["seed"] + 1, chip=chip)
    bits, traffic = [], []
    for symbols in bindings:
        one = _Bits(graph, fast, hostile, symbols, options["seed"])
        found = one.found()
        if found is not None:
            bits.append(found)
            traffic.append(one.traffic)
    labels = graph.symbol_labels()
    return {
        "checked": {
            "ok": report.ok,
            "shapes": [{labels[n]: v for n, v in s.items()} for s in bindings],
            "runs": [
                {
                    "symbols": dict(c.symbols),
                    "key": c.key,
                    "status": c.status,
                    "cores": c.block_dim,
                    "wrong": sum(o.wrong for o in c.outputs),
                    "unwritten": sum(o.unwritten for o in c.outputs),
                }
                for c in report.cases
            ],
            "findings": [f"{d.code}: {d.message}" for d in report.diagnostics],
        },
        "accuracy": _accuracy(graph, fast, bindings[0], options["seed"]),
        "bits": bits,
        "traffic": traffic,
    }


def _accuracy(
    graph: FusionGraph, kernel: TwinKernel, symbols: Mapping[str, int], seed: int
) -> list[dict[str, Any]]:
    """Return a row per grid and output."""
    rows: list[dict[str, Any]] = []
    for grid in GRIDS:
        inputs = grid_inputs(graph, symbols, grid, seed)
        expected = evaluate(graph, inputs, symbols, flushes=kernel.flushes)
        try:
            run = kernel.run(_copies(graph, inputs), symbols=symbols)
        except AutofuseError as e:
            rows.append({"grid": grid, "refused": str(e.diagnostics[0].message)})
            continue
        values = {
            graph.tensors[n].dtype.name: int(grid_values(graph.tensors[n].dtype, grid).size)
            for n in graph.inputs
        }
        for o in graph.outputs:
            dtype = graph.tensors[o.tensor].dtype
            c = compare(o.name, run.outputs[o.name], expected[o.name], dtype)
            rows.append(
                {
                    "grid": grid,
                    "output": o.name,
                    "dtype": dtype.name,
                    "values": values,
                    "elements": c.elements,
                    "finite": _finite(expected[o.name].value, dtype),
                    "wrong": c.wrong,
                    "ill_conditioned": c.ill_conditioned,
                    "max_ulp": _rounded(c.max_ulp),
                    "max_rel": _rounded(c.max_rel),
                }
            )
    return rows


def _finite(a: Array, dtype: DType) -> int:
    """Return the number of finite elements; the others have no accuracy."""
    return int(np.isfinite(a.astype(np.float64)).sum()) if dtype.kind == "f" else a.size


def _rounded(x: float) -> float:
    """Round to three digits; the others are not significant."""
    return float(f"{x:.3g}")


def _copies(graph: FusionGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs, with copies of those that the kernel overwrites."""
    written = {o.inout for o in graph.outputs}
    return {n: a.copy() if n in written else a for n, a in inputs.items()}


def _digest(arrays: Mapping[str, Array]) -> dict[str, str]:
    """Return the sha256 of the elements of each array, in C order."""
    return {
        n: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for n, a in arrays.items()
    }


class _Bits:
    """Inputs of one shape, and the resulting bits under every choice."""

    def __init__(
        self,
        graph: FusionGraph,
        fast: TwinKernel,
        hostile: TwinKernel,
        symbols: Mapping[str, int],
        seed: int,
    ) -> None:
        self.graph, self.fast, self.hostile, self.symbols = graph, fast, hostile, symbols
        self.inputs = random_inputs(graph, symbols, seed)
        self.traffic: dict[str, Any] = {}

    def found(self) -> dict[str, Any] | None:
        """Return the hashes and whether they repeat; None for sizes that no template supports."""
        labels = self.graph.symbol_labels()
        named = {labels[n]: v for n, v in self.symbols.items()}
        try:
            run = self.fast.run(_copies(self.graph, self.inputs), symbols=self.symbols)
        except AutofuseError:
            return None
        moved = core_bytes()
        first = _digest(run.outputs)
        self.traffic = {"symbols": named, **self._traffic(moved, run.workspace)}
        cores = sorted({1, max(1, run.block_dim // 2)} - {run.block_dim})
        return {
            "symbols": named,
            "key": run.key,
            "cores": run.block_dim,
            "inputs": _digest(self.inputs),
            "outputs": first,
            "again": self._same(first, [{}]),
            "in another order of the pipes": self._same(first, [{}], self.hostile),
            "on fewer cores": self._same(first, [{"cores": n} for n in cores]),
            "by other templates": self._same(
                first, [{"key": k} for k in range(self.fast.key_count) if k != run.key]
            ),
        }

    def _same(
        self,
        first: Mapping[str, str],
        ways: Sequence[Mapping[str, int]],
        kernel: TwinKernel | None = None,
    ) -> bool | None:
        """Return True if the other choices give the same bits; None if none of them accepts these sizes."""
        same: list[bool] = []
        for how in ways:
            try:
                run = (kernel or self.fast).run(
                    _copies(self.graph, self.inputs), symbols=self.symbols, **how
                )
            except AutofuseError:
                continue
            same.append(_digest(run.outputs) == dict(first))
        return all(same) if same else None

    def _traffic(self, moved: Sequence[tuple[int, int]], workspace: int) -> dict[str, Any]:
        """Return the bytes moved from and to GM, relative to moving every input and output once."""
        read, written = sum(r for r, _ in moved), sum(w for _, w in moved)

        def nbytes(name: str) -> int:
            tensor = self.graph.tensors[name]
            count = int(np.prod(shape_of(tensor.shape, self.symbols), dtype=np.int64))
            return count * tensor.dtype.itemsize

        compulsory = sum(nbytes(n) for n in self.graph.inputs)
        compulsory += sum(nbytes(o.tensor) for o in self.graph.outputs)
        return {
            "read": read,
            "written": written,
            "compulsory": compulsory,
            "ratio": _rounded((read + written) / compulsory) if compulsory else None,
            "workspace": workspace,
        }
