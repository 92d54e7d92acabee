"""The accuracy test: compare a kernel with oracle and baseline, in a worker process.

The oracle is NumPy in higher precision, with an error bound for every element; it decides.  The baseline computes in
the dtypes of the graph, so its tolerance depends on the coarsest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import differing
from autofuse.clients.kernelgen.state_format import Accuracy, Data, Difference, Record
from autofuse.codegen.backends.triton.call import Call
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.gpu.loading import INTERPRETED_ELEMENTS, checked_device
from autofuse.machines.twin.oracle.data import POISON
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.oracle.sizes import MAX_ELEMENTS, shapes_for
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import pack, unpack, verify_with
from autofuse.machines.words import CPU, card_index, memory_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from autofuse.machines.gpu.module import TritonModule
    from autofuse.results import Run

__all__ = [
    "DOCUMENT_TOLERANCE",
    "Pair",
    "accuracy",
    "accuracy_job",
    "elements_of",
    "tolerance_of",
    "twin_facts",
    "workers",
]

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

JOB = "autofuse.clients.kernelgen.testing.accuracy:accuracy_job"
#: Relative and absolute tolerance of the source document.
DOCUMENT_TOLERANCE = 1e-3
#: Tolerance against the baseline, by the coarsest float dtype of the graph: a few consecutive roundings.
_TOLERANCE = {"float32": 1e-3, "float16": 8e-3, "bfloat16": 6.4e-2}
#: Fraction of elements that may differ if the graph rounds numbers to integers or compares them.
_FLIPPED = 0.01
#: Number of additional sets of sizes: empty, one element, tails.
_EXTENDED = 4


@dataclass(frozen=True, slots=True)
class Pair:
    """A kernel and its baseline: two modules with a function of the same name.

    Attributes:
        graph: what both compute.
        entry: name of the functions.
        kernel: text of the kernel module.
        baseline: text of the baseline module.
        call: parameters of both; None for the inputs of the graph.
        function: source function of the graph: its file, the folder from which it imports, its name; None without one.
    """

    graph: FusionGraph
    entry: str
    kernel: str
    baseline: str
    call: Call | None = None
    function: tuple[Path, Path, str] | None = None

    def packed(self, **options: Any) -> str:
        """Return the pair packed for a worker."""
        texts = {"kernel": self.kernel, "baseline": self.baseline}
        more = {"entry": self.entry, "call": self.call, "function": self.function}
        return pack((texts, self.graph, {**more, **options}))


def elements_of(device: str) -> int:
    """Return the maximum elements of a tensor in an accuracy test."""
    return INTERPRETED_ELEMENTS if card_index(device) is None else MAX_ELEMENTS


def tolerance_of(graph: FusionGraph) -> float:
    """Return the tolerance of kernel against baseline, relative to the largest element; 0 for integer graphs."""
    floats = {t.dtype.name for t in graph.tensors.values()}
    return max((_TOLERANCE[name] for name in floats & set(_TOLERANCE)), default=0.0)


def twin_facts() -> dict[str, str]:
    """Return the versions that determine the interpreter's results."""
    return {"interpreter": f"triton {version('triton')}", "torch": version("torch")}


def accuracy(
    pair: Pair,
    listed: Sequence[Mapping[str, int]],
    *,
    device: str = CPU,
    facts: Mapping[str, str] | None = None,
    seed: int = 0,
    few: bool = False,
    pool: WorkerPool | None = None,
) -> tuple[Accuracy, ...]:
    """Compare every element of every output at several sizes.

    Args:
        pair: what to compare.
        listed: sizes of the symbols.
        device: ``cpu``, Triton's interpreter, ``cuda`` or ``cuda:N``.
        facts: facts about the device, with ``when``; None for the interpreter.
        seed: seed of the data.
        few: run only the listed sizes, with random data.
        pool: result of :func:`workers`; None: a new one.

    Returns:
        A case per set of sizes and kind of data.  A kernel that is wrong, crashes or hangs gives a case with ``ok``
        False.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or the card is missing; AF5007, there is no such device.
    """
    checked_device(device)
    cases = list(_cases(pair.graph, listed, device, seed, few))
    recorded = _recorder(facts)
    out = []
    with ExitStack() as stack:
        pool = pool or stack.enter_context(workers(device))
        items = [
            {"pair": pair.packed(device=device, spread=data == "strided"), "sizes": sizes}
            | {"data": data, "seed": seed + k}
            for k, (sizes, data) in enumerate(cases)
        ]
        for outcome, (sizes, data) in zip(map(pool.run, items), cases, strict=True):
            labels = pair.graph.symbol_labels()
            called = {labels[n]: size for n, size in sizes.items()}
            if outcome.ok:
                found = outcome.value
                outputs = tuple(_difference(o, recorded) for o in found["outputs"])
                reason, ok = found["reason"], found["ok"]
            else:
                outputs, ok = (), False
                reason = outcome.diagnostics[0].message
            out.append(Accuracy(sizes=called, data=data, ok=ok, outputs=outputs, reason=reason))
    return tuple(out)


def workers(device: str) -> WorkerPool:
    """Return a worker for accuracy tests on a device, reused between tests."""
    return WorkerPool(JOB, workers=1, memory_mb=memory_limit(device))


def _recorder(facts: Mapping[str, str] | None) -> Callable[[float], Record]:
    """Return the function that records numbers of the interpreter, or of a card."""
    if facts is None:
        made = twin_facts()
        return lambda value: Record(value=value, unit="", status="twin", by=made)
    by = {k: v for k, v in facts.items() if k != "when"}
    return lambda value: Record(value=value, unit="", status="measured", by=by, when=facts["when"])


def _difference(found: Mapping[str, Any], recorded: Callable[[float], Record]) -> Difference:
    numbers = {k: found.get(k) for k in ("error", "max_diff", "function_diff")}
    made = {k: None if v is None else recorded(v) for k, v in numbers.items()}
    return Difference(**{**found, **made})


def _cases(
    graph: FusionGraph, listed: Sequence[Mapping[str, int]], device: str, seed: int, few: bool
) -> Iterator[tuple[dict[str, int], Data]]:
    """Yield the combinations of sizes and kinds of data, each once."""
    most = elements_of(device)
    chosen = [dict(s) for s in listed]
    if not few:
        chosen += [
            s for s in shapes_for(graph, _EXTENDED, seed, max_elements=most) if s not in chosen
        ]
    for sizes in chosen:
        yield sizes, "random"
    if few or not chosen:
        return
    largest = max(chosen, key=lambda s: (sum(s.values()), sorted(s.items())))
    if not _computes_in_half(graph):
        yield largest, "special"
    if not any(o.inout for o in graph.outputs) and _may_be_spread(graph):
        yield largest, "strided"


def _computes_in_half(graph: FusionGraph) -> bool:
    """Return True if ops other than casts and moves have 16-bit float results, which kernels keep in float32.

    Intermediate overflow then does not produce infinity.
    """
    made = (
        graph.tensors[n.outputs[0]].dtype.name
        for n in graph.nodes
        if lookup(n.op).cost != "none" and n.op != "Cast"
    )
    return bool({"float16", "bfloat16"} & set(made))


def _may_be_spread(graph: FusionGraph) -> bool:
    """Return True if some contiguous input may be passed with gaps between its elements."""
    given = (graph.tensors[n] for n in graph.inputs)
    return any(t.shape and t.strides is None and t.offset is None for t in given)


# in a worker ----------------------------------------------------------------------------------


def accuracy_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case.

    Args:
        job: ``pair`` (packed), ``sizes`` by symbol, ``data``, ``seed``.

    Returns:
        ``ok``, ``reason``, and ``outputs``: the fields of a :class:`Difference`, with plain numbers.
    """
    kernel, baseline, function = _loaded(job["pair"])
    special = job["data"] == "special"
    both = _Both(kernel, baseline, function, job["sizes"])
    report = verify_with(both, bindings=[job["sizes"]], seed=job["seed"], special=special, keys=())
    compared = [c for case in report.cases for c in case.outputs]
    outputs: list[dict[str, Any]] = [
        {"output": c.output, "elements": c.elements, "wrong": c.wrong + c.unwritten}
        | {"error": c.max_abs, **both.found.get(c.output, {"max_diff": None})}
        for c in compared
    ]
    errors = [d.message for d in report.diagnostics if d.severity == "error"]
    errors += [both.failure] if both.failure else []
    errors += [
        differing(o[apart], o["elements"], o["output"], f"the {whose}")
        for o in outputs
        for apart, whose in (("function_apart", "function"), ("apart", "baseline"))
        if o.get(apart)
    ]
    return {"ok": not errors and report.passed > 0, "reason": _first(errors), "outputs": outputs}


def _first(errors: Sequence[str]) -> str:
    return errors[0] if errors else ""


@lru_cache(maxsize=4)
def _loaded(payload: str) -> tuple[TritonModule, TritonModule, TritonModule | None]:
    from autofuse.machines.gpu.loading import function_here

    texts, graph, options = unpack(payload)
    entry, device, call = options["entry"], options["device"], options["call"]
    kernel = function_here(
        texts["kernel"], graph, entry, device, spread=options["spread"], call=call
    )
    baseline = function_here(texts["baseline"], graph, entry, device, call=call)
    if options["function"] is None:
        return kernel, baseline, None
    from autofuse.clients.torch.capture import reference

    file, folder, name = options["function"]
    return kernel, baseline, baseline.with_function(reference(file, folder, name, call))


@dataclass(slots=True)
class _Both:
    """A verifiable kernel whose first results are also compared with those of the baseline.

    If the graph has a source function, they are compared with its results as well.
    """

    kernel: TritonModule
    baseline: TritonModule
    function: TritonModule | None
    sizes: Mapping[str, int]
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: str = ""
    key_count: int = 0
    _seen: bool = False

    @property
    def graph(self) -> FusionGraph:
        return self.kernel.graph

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Choose sizes, as the kernel does."""
        self.kernel.choose(sizes)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        symbols: Mapping[str, int],
        key: int | None,
        poison: int,
    ) -> Run:
        """Call the kernel; the first time, also call the functions it is compared with."""
        first, self._seen = not self._seen, True
        copies = {n: a.copy() for n, a in inputs.items()} if first else {}
        run = self.kernel.run(inputs, symbols=symbols, key=key, poison=poison)
        for whose, other in (("baseline", self.baseline), ("function", self.function)):
            if not first or other is None:
                continue
            given = {n: a.copy() for n, a in copies.items()}
            fill = POISON[0] if other is self.baseline else None
            try:
                base = other.run(given, symbols=symbols, poison=fill)
            except AutofuseError as e:
                self.failure = f"the {whose} does not run: {e.diagnostics[0].message}"
            else:
                self._compare(run.outputs, base.outputs, copies, whose)
        return run

    def _compare(
        self,
        made: Mapping[str, Array],
        base: Mapping[str, Array],
        inputs: Mapping[str, Array],
        whose: str,
    ) -> None:
        tolerance = tolerance_of(self.graph)
        references = None
        for name, got in made.items():
            fields, apart, inside = _between(got, base[name], tolerance)
            if apart.any() or not inside.all():
                # Ignore elements that the oracle cannot judge.
                references = references or evaluate(self.graph, inputs, self.sizes)
                bound = references[name].tolerance
                if bound is not None:
                    apart &= ~(_distance(got, base[name]) <= bound)
                    inside |= np.isinf(bound)
            count = int(np.count_nonzero(apart))
            if tolerance and got.dtype.kind in "biu" and count <= max(1, _FLIPPED * apart.size):
                count = 0
            if whose == "function":
                found = {"function_diff": fields["max_diff"], "function_apart": count}
            else:
                found = {**fields, "document": bool(inside.all()), "apart": count}
            self.found[name] = self.found.get(name, {"max_diff": None}) | found


def _between(got: Array, base: Array, tolerance: float) -> tuple[dict[str, Any], Mask, Mask]:
    """Return the fields of a comparison with the baseline, the mask of differing elements, and that within 1e-3."""
    distance = _distance(got, base)
    # With cancellation, the result inherits the errors of the terms: those of a typical element.
    finite = base[np.isfinite(base)].astype(np.float64)
    typical = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    atol = tolerance * max(1.0, typical) if got.dtype.kind not in "biu" else 0.0
    rtol = tolerance if atol else 0.0
    with np.errstate(all="ignore"):
        size = np.abs(base.astype(np.float64))
        apart = np.array(~((distance == 0) | (distance <= atol + rtol * size)))
        inside = np.array((distance == 0) | (distance <= DOCUMENT_TOLERANCE * (1 + size)))
    counted = distance[np.isfinite(distance)]
    return {"max_diff": float(counted.max(initial=0.0)), "rtol": rtol, "atol": atol}, apart, inside


def _distance(a: Array, b: Array) -> npt.NDArray[np.float64]:
    """Return absolute differences: 0 if both are NaN or the same infinity, infinite if just one is not finite."""
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        out = np.array(np.abs(x - y))
        out[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
        out[np.isnan(out)] = np.inf
    return np.asarray(out)
