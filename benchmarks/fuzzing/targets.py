"""Fuzz targets: functions of bytes, their seed inputs, and the properties that must hold for any input.

A target may return or raise AutofuseError.  Anything else is a finding: another exception, AF9001, a
diagnostic that cannot be shown, an expression that reads back as a different one.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.codegen.backends.ascendc.expr_cpp import to_cpp
from autofuse.frontends import parse_graph
from autofuse.implgraph.check.verify import check
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.expr.parser import parse
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.ir.serialise import from_json, to_json
from autofuse.report.text.diagnostics import to_text

__all__ = ["TARGETS", "FindingError", "seeds"]

REPO = Path(__file__).resolve().parents[2]
EXAMPLES = REPO / "examples"
SNAPSHOTS = REPO / "tests" / "snapshot" / "graphs"
MALFORMED = REPO / "tests" / "support" / "malformed_cases.py"
CORPUS = REPO.parent / "shared" / "corpus" / "akg"

#: Number of evenly spaced files taken from a corpus of thousands.
_CORPUS_SEEDS = 120
#: Values of symbols for which an expression is evaluated.
_VALUES = (0, 1, 7, 2**31)
_RANGE = (1, 2**31)


class FindingError(Exception):
    """A property does not hold."""


def readers(data: bytes) -> None:
    """Read graph files of any format, and the JSON form of the IRs."""
    with _Reported():
        if b'"autofuse.ir.' in data:
            _read_ir(data)
        else:
            parse_graph(data, path="graph.json")


def expr(data: bytes) -> None:
    """Read an expression, print it, read it again, evaluate it, translate it."""
    source = data.decode("utf-8", errors="surrogateescape")
    try:
        e = parse(source, allow_ratio=True)
    except ExprError:
        return
    try:
        again = parse(str(e), allow_ratio=True, max_length=1 << 20)
    except ExprError as problem:
        # Sums of valid expressions may exceed the limits.
        if any(w in str(problem) for w in ("nests deeper", "63 bits")):
            return
        raise FindingError(f"{e} cannot be read: {problem}") from None
    if again != e:
        raise FindingError(f"{e} reads as {again}")
    names = e.symbols()
    for v in _VALUES:
        _unless_expr_error(lambda v=v: e.evaluate(dict.fromkeys(names, v)))
    _unless_expr_error(lambda: bounds(e, dict.fromkeys(names, _RANGE)))
    _unless_expr_error(lambda: to_cpp(e))


def pipeline(data: bytes) -> None:
    """Build a graph file into the text of all generated files, with the checks of the IR."""
    with _Reported():
        graph = parse_graph(data, path="graph.json")
        if len(graph.nodes) > 60:  # slow; the tests of large graphs measure their time
            return
        try:
            build(graph, verify_ir=True)
        except AutofuseError as e:
            if any(d.code in ("AF9001", "AF2002", "AF4001") for d in e.diagnostics):
                cause = e.__cause__
                if isinstance(cause, Exception):
                    raise cause from None
                raise FindingError(f"{e.diagnostics[0].code}: {e.diagnostics[0].message}") from None
            raise


TARGETS: dict[str, Callable[[bytes], None]] = {
    "readers": readers,
    "expr": expr,
    "pipeline": pipeline,
}


def _read_ir(data: bytes) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # reading JSON is the caller's responsibility here
        return
    graph = from_json(value)
    if isinstance(graph, HintGraph | ImplGraph):
        check(graph)


def _unless_expr_error(action: Callable[[], object]) -> None:
    with suppress(ExprError, AutofuseError):
        action()


class _Reported:
    """Context that accepts an AutofuseError if all its diagnostics can be shown."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, AutofuseError):
            return False
        if not error.diagnostics:
            raise FindingError("an AutofuseError without diagnostics")
        for d in error.diagnostics:
            _check_diagnostic(d)
        return True


def _check_diagnostic(d: Diagnostic) -> None:
    if d.code == "AF9001":
        raise FindingError(f"AF9001: {d.message}")
    json.dumps(d.to_json(), allow_nan=False).encode()
    shown = to_text(d).plain
    shown.encode()
    bad = [c for c in shown if not c.isprintable() and c != "\n"]
    if bad:
        raise FindingError(f"{d.code} shows control characters: {bad!r}")
    if d.where.line < 0 or d.where.column < 0:
        raise FindingError(f"{d.code} is at {d.where.line}:{d.where.column}")


# seed inputs ----------------------------------------------------------------------------------


def seeds(target: str, max_length: int) -> Iterator[bytes]:
    """Yield seed inputs: examples, snapshots, malformed cases, the AKG corpus if present."""
    if target == "expr":
        yield from (s.encode() for s in _EXPRESSIONS)
        return
    files = [*sorted(EXAMPLES.glob("*.json")), *sorted(SNAPSHOTS.glob("*.json"))]
    for path in files:
        yield path.read_bytes()
    if CORPUS.is_dir():
        found = sorted(CORPUS.rglob("*.json"))
        small = [p for p in found if p.stat().st_size <= max_length]
        for path in small[:: max(1, len(small) // _CORPUS_SEEDS)]:
            yield path.read_bytes()
    if target == "readers":
        for _, case, _ in runpy.run_path(str(MALFORMED))["CASES"]:
            raw = case if isinstance(case, bytes) else case.encode("utf-8", "surrogatepass")
            if len(raw) <= max_length:
                yield raw
        for path in files:
            built = build(path)
            graphs: list[FusionGraph | HintGraph | ImplGraph] = [built.graph, built.hint]
            graphs += [built.schedule[0].groups[0].impls[0]]
            for g in graphs:
                raw = json.dumps(to_json(g)).encode()
                if len(raw) <= max_length:
                    yield raw


_EXPRESSIONS = (
    "0",
    "s0",
    "s0*4 + 1",
    "ceil(s0/2)",
    "floor((s0 + s1) / (2*s2))",
    "min(s0, 7, max(s1, 3))",
    "mod(s0, 16)",
    "s0 % 8 // 3 - -2",
    "CeilDiv(s0, s1) * s1",
    "FloorDiv(s0*s0 - 1, s0 + 1)",
    "Ceiling((40000 / (z0t_size)))",
    "((s0 / s1) / s2)",
    "9223372036854775807",
    "(a + b) * (c + d) * (e + f)",
)
