"""Cases of shape storms: a graph with the sizes to run it at, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whole_blocks import refusals_of

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.codegen.verification import verify_schedule
from autofuse.compiler import Stages, schedule
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.requirements import requirements
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess
from autofuse.targets import TargetSpec, load_target

#: Elements that a tensor has at most.
BUDGET = 20_000

#: Why a legal graph of these families may be refused; ``docs/verification.md`` says more about each.
REFUSALS: tuple[tuple[str, str, str], ...] = (
    # (name in the documentation, code, text that the diagnostic or one of its notes has)
    (
        "products of many 64-bit numbers",
        "AF3001",
        r"there is no way for a product of .* numbers of u?int64",
    ),
    (
        "sums of many 64-bit numbers",
        "AF3001",
        r"there is no way for a sum of u?int64 over up to \d+ elements",
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, how to build it and with which sizes to run it."""

    family: str
    document: dict[str, Any]
    ub_bytes: int | None = None
    bindings: tuple[Mapping[str, int], ...] = ({},)
    check_seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """What :meth:`from_json` reads."""
        return {
            "family": self.family,
            "document": self.document,
            "ub_bytes": self.ub_bytes,
            "bindings": [dict(b) for b in self.bindings],
            "check_seed": self.check_seed,
        }

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Case:
        """The inverse of :meth:`to_json`."""
        return cls(**{**d, "bindings": tuple(d["bindings"])})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: ``passed``, ``refused`` with reason, ``unjustified`` refusal, ``wrong``, ``finding``,
    ``crash`` or ``illegal`` (the storm made a graph that is none)."""

    status: str
    reason: str = ""
    text: str = ""
    runs: int = 0

    @property
    def ok(self) -> bool:
        """True if nothing is to be done about it."""
        return self.status in ("passed", "refused")


def _refusal(found: Sequence[Diagnostic]) -> str:
    """Name of the documented reason; empty if there is none."""
    for name, code, pattern in REFUSALS:
        for d in found:
            if d.code == code and re.search(pattern, "\n".join((d.message, *d.notes))):
                return name
    return ""


def run_case(
    case: Case,
    pool: WorkerPool | None = None,
    seed: int = 1,
    target: str = api.DEFAULT_TARGET,
    special: bool = False,
) -> Verdict:
    """Build, prove, compile and verify a case in checked mode; ``special`` as of ``verify_kernel``."""
    try:
        built = api.build(case.document, target=target, ub_bytes=case.ub_bytes, verify_ir=True)
        bindings = fitted(built.graph, case.bindings) or None
        report = verify_in_subprocess(
            built.files,
            built.graph,
            pool=pool,
            bindings=bindings,
            seed=seed,
            special=special,
            check="all",
            check_seed=case.check_seed,
        )
    except AutofuseError as e:
        return _failed(e, case, target)
    if report.ok:
        return Verdict("passed", runs=report.passed)
    codes = {d.code for d in report.diagnostics if d.severity == "error"}
    text = "\n".join(map(str, report.diagnostics))
    if codes == {"AF5003"}:
        name = refusals_of(built.graph, chip_of(case, target)).get("AF5003", "")
        if name:
            return Verdict("refused", name, text, report.passed)
    kind = "wrong" if codes & {"AF6001", "AF6002"} else "finding" if "AF5004" in codes else "crash"
    return Verdict(kind, min(codes, default="nothing ran"), text)


def chip_of(case: Case, target: str) -> TargetSpec:
    """The chip with the UB that a case has."""
    chip = load_target(target)
    return chip if case.ub_bytes is None else chip.with_ub(case.ub_bytes)


def _failed(e: AutofuseError, case: Case, target: str) -> Verdict:
    """A build that ended in diagnostics."""
    codes = {d.code for d in e.diagnostics}
    text = str(e)
    if codes <= {
        "AF2101",
        "AF2102",
        "AF2103",
        "AF2104",
        "AF3001",
        "AF3002",
        "AF3003",
        "AF3004",
    }:
        name = _refusal(e.diagnostics)
        if not name and len(codes) == 1:
            name = refusals_of(api.read(case.document), chip_of(case, target)).get(min(codes), "")
        return Verdict("refused" if name else "unjustified", name or min(codes), text)
    if all(c.startswith("AF1") for c in codes):
        return Verdict("illegal", min(codes), text)
    return Verdict("crash", min(codes), text)


def prove_case(case: Case, target: str = api.DEFAULT_TARGET) -> Verdict:
    """Schedule a case and prove its kernels, for which no compiler is needed.

    Returns:
        ``passed`` with the number of functions, the notes of what was neither proved nor refuted in ``text``, and in
        ``reason`` which of the template *narrow*, Stack and Lace it has; or as for :func:`run_case`.
    """
    chip = chip_of(case, target)
    try:
        # What is proved is KernelIR: the text that a build writes of it, a third of its time, nobody reads.
        with api.reporting_bugs(case.document, {"target": chip.name, "ub_bytes": case.ub_bytes}):
            graph = api.read(case.document)
            results = schedule(graph, chip, Stages())
            found = verify_schedule(graph, results, chip)
    except AutofuseError as e:
        return _failed(e, case, target)
    impls = [i for r in results for g in r.groups for i in g.impls]
    text = "\n".join(map(str, found))
    if any(d.severity == "error" for d in found):
        return Verdict("finding", "AF4001", text)
    ops = {n.op for i in impls for n in i.nodes}
    has = {"narrow": any("_narrow_" in i.name for i in impls), "Stack": "Stack" in ops}
    has["Lace"] = not ops.isdisjoint(("Lace", "Unlace", "UnlaceByMask"))
    return Verdict("passed", " ".join(k for k, v in has.items() if v), text, len(impls))


def fitted(graph: FusionGraph, bindings: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Those of the sizes for which the graph has a meaning, made smaller until no tensor has many elements."""
    needed = requirements(graph)
    found = [_fitted(graph, b) for b in bindings]
    return [b for b in found if all(r.holds(b) for r in needed)]


def _fitted(graph: FusionGraph, binding: Mapping[str, int]) -> dict[str, int]:
    """The sizes, the largest made smaller until no tensor has many elements."""
    sizes = dict(binding)
    least = {s.name: s.min for s in graph.symbols}
    while True:
        try:
            if largest_tensor(graph, sizes) <= 3 * BUDGET:
                return sizes
        except ExprError:
            return dict(binding)
        name = max(sizes, key=lambda n: sizes[n] - least[n], default="")
        if not name or sizes[name] == least[name]:
            return sizes
        sizes[name] = max(least[name], sizes[name] * 2 // 3)
