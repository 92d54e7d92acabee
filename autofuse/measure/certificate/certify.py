"""Makes the certificate of a kernel: builds it, proves it, runs it on the twin, and collects the results as JSON.

It does not depend on time or place: equal kernel, options and version give equal bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofuse import __version__, api
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.edits import blamed, edited_files
from autofuse.base.manifest import digest
from autofuse.base.wording import counted
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for
from autofuse.machines.twin.run.kernel import needs_launcher
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.split import read_parts
from autofuse.machines.twin.verify.verify import pack
from autofuse.measure.certificate.order import may_change, orders
from autofuse.measure.certificate.proofs import proofs
from autofuse.measure.certificate.runs import JOB
from autofuse.measure.certificate.schema import SCHEMA
from autofuse.report.text.chip.certificate import same_bits
from autofuse.results import read_folder
from autofuse.targets import Target, ascend_only, find_target

__all__ = ["MAX_ELEMENTS", "certify"]

#: Most elements of a tensor of fixed sizes: the twin runs them all, several times.
MAX_ELEMENTS = 1 << 23
_CHIP = "none of this was measured on a chip"


def certify(
    source: Path | FusionGraph,
    *,
    target: str = api.DEFAULT_TARGET,
    invariant: bool = False,
    shapes: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the certificate of the kernel of a graph, or of a folder's kernel.

    Args:
        source: a graph file or a graph; or a folder that a build wrote, whose files are used as they are.
        target: the chip; a folder names its own.
        invariant: build the kernel so that only sizes of reduced axes may change bits; a folder records its own
            setting.
        shapes: number of symbol sizes to run.
        seed: of sizes and data.

    Returns:
        The certificate as in :func:`autofuse.measure.certificate.certificate_schema`, ready for JSON.

    Raises:
        AutofuseError: as :func:`autofuse.build` and :func:`autofuse.load`; AF5007, the kernel is not for an Ascend
            chip, is several kernels, or is too large for the twin; AF5015, an edited file does not compile.
    """
    folder = source if isinstance(source, Path) and source.is_dir() else None
    files: dict[str, str] | None = None
    edited: list[str] = []
    remade: api.BuildResult | api.SplitResult | None = None
    graph: FusionGraph
    spec: Target
    if folder is not None:
        graph, files = read_folder(folder)
        edited = [f.name for f in edited_files(folder)]
        _check_one(graph, files)
        remade = api.built_again(graph, files)
        spec = remade.target
    else:
        graph = api.read(source)
        spec = find_target(target)
    hint = "use autofuse verify for other targets"
    chip = ascend_only("a certificate is", spec, hint)
    elements = largest_tensor(graph, shapes_for(graph, 1, seed)[0])
    if elements > MAX_ELEMENTS:
        text = f"{graph.label} has a tensor of {counted(elements, 'element')}, the twin runs {MAX_ELEMENTS} at most"
        hint = "turn sizes that may be smaller into symbols: the proofs hold for all their values"
        raise AutofuseError.of("AF5007", text, hint=hint)
    built = api.build(graph, target=chip, invariant=invariant) if remade is None else remade
    assert isinstance(built, api.BuildResult)
    invariant = chip.invariant or invariant
    taken = dict(built.files) if files is None else files
    kernel = f"device/{graph.name}_kernel.cpp"
    same = all(taken.get(n) == t for n, t in built.files.items() if n.endswith((".cpp", ".h")))
    payload = pack((taken, graph, {"shapes": shapes, "seed": seed}))
    with WorkerPool(JOB, workers=1) as pool:
        outcome = pool.run(payload)
    if not outcome.ok:
        with blamed(folder):
            raise AutofuseError(outcome.diagnostics)
    ran = outcome.value
    found = {
        "schema": SCHEMA,
        "generator": f"autofuse {__version__}",
        "name": graph.label,
        "kernel": {
            "name": graph.name,
            "target": chip.name,
            "architecture": chip.npu_arch,
            "invariant": invariant,
            "sha256": digest(taken.get(kernel, "")),
            "graph_sha256": digest(taken[f"{graph.name}.graph.json"]),
            "files": {n: digest(t) for n, t in sorted(taken.items())},
            "edited": edited,
            "as_generated": same,
        },
        "seed": seed,
        "proved": _proved(proofs(built), same),
        "checked": {
            **ran["checked"],
            "status": "checked on the CPU twin against NumPy with error bounds",
        },
        "accuracy": {
            "grids": ran["accuracy"],
            "status": "computed on the CPU twin, which rounds as the chip's documentation specifies",
        },
        "bits": {
            "may_change": _changes(may_change(graph, built.schedule, invariant), same),
            "order": orders(built.schedule) if same else [],
            "shapes": ran["bits"],
            "status": "compared on the CPU twin",
        },
        "traffic": {"shapes": ran["traffic"], "status": "counted on the CPU twin"},
        "on_chip": _CHIP,
    }
    return {**found, "ok": _is_ok(found)}


def _check_one(graph: FusionGraph, files: dict[str, str]) -> None:
    if read_parts(files, graph.name):
        text = f"{graph.label} has several kernels, each with its own certificate"
        raise AutofuseError.of("AF5007", text, hint="name one of the folders under parts/")
    needs_launcher(graph, files)
    if f"device/{graph.name}_kernel.cpp" not in files:
        text = f"a certificate needs an Ascend C kernel, which {graph.label} is not"
        raise AutofuseError.of("AF5007", text, hint="use autofuse verify for other targets")


def _proved(found: dict[str, Any], same: bool) -> dict[str, Any]:
    """Return the proofs; nothing is proved of edited code."""
    if same:
        return found
    rows = [{**row, "proved": False, "open": row["open"] or 1} for row in found["checks"]]
    status = "not proved: the code differs from the code generated for this graph"
    return {**found, "checks": rows, "status": status}


def _changes(found: dict[str, Any], same: bool) -> dict[str, Any]:
    """Return the sizes and choices that may change bits; unknown for edited code."""
    if same:
        return found
    return {
        "sizes": None,
        "choices": None,
        "why": "the code differs from the code generated for this graph: its order is unknown",
        "status": "not known",
    }


def _is_ok(found: dict[str, Any]) -> bool:
    """Return True if nothing was refuted or wrong, and the bits repeat as the certificate states."""
    proved, bits = found["proved"], found["bits"]
    right = all(r.get("wrong", 0) == 0 for r in found["accuracy"]["grids"])
    always = same_bits(found["kernel"])
    repeated = all(row[how] is not False for row in bits["shapes"] for how in always)
    sound = not (proved["refuted"] or proved["graphs"]["broken"])
    return bool(sound and found["checked"]["ok"] and right and repeated)
