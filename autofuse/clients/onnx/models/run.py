"""Run a partitioned model and compare it with ``onnx.reference``.

Kernels and nodes run one after another; tensors are freed after their last use.  Every tensor is computed twice: by the
model, and by ``onnx.reference`` alone.  While both are bitwise equal, one computation suffices.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autofuse import api
from autofuse.base.arguments import integer
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted, differing
from autofuse.clients.onnx.models.build import ModelLike, Progress, build
from autofuse.clients.onnx.models.calls import KernelCall, kernel_calls
from autofuse.clients.onnx.models.choices import choose_sizes
from autofuse.clients.onnx.models.inputs import given_sizes, random_array
from autofuse.clients.onnx.models.manifest import public_names
from autofuse.clients.onnx.models.reference import (
    INSTALL,
    MAX_BYTES,
    Reference,
    Runtime,
    about,
    coarseness,
    differences,
    identical,
    is_random,
)
from autofuse.clients.onnx.models.result import ModelRegion, ModelResult, ModelRun
from autofuse.frontends.onnx.pieces import Piece
from autofuse.frontends.onnx.regions import Regions, evaluated
from autofuse.frontends.onnx.values import Known, Traced
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.run.kernel import MAX_SEED
from autofuse.machines.twin.run.values import plain_array
from autofuse.targets import Target

__all__ = ["ATOL", "RTOL", "run"]

#: Tolerances of :func:`run`: relative to the element, and to the largest element of the tensor.
RTOL, ATOL = 1e-3, 1e-5


def run(
    model: ModelLike | ModelResult,
    inputs: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    target: str | Target = api.DEFAULT_TARGET,
    check: str = "fast",
    rtol: float = RTOL,
    atol: float = ATOL,
    call: KernelCall | None = None,
    progress: Progress | None = None,
) -> ModelRun:
    """Run a model, with kernels for its regions and ``onnx.reference`` for the rest, and compare.

    Ascend C kernels run on the CPU twin, Triton kernels in Triton's interpreter, C++ loops on this machine.

    Args:
        model: as for :func:`autofuse.models.build`, or its result.
        inputs: arrays by name; the others are random: normally distributed floats, integers 0 or 1, or indices into
            the table that they select from.
        sizes: sizes of named dimensions of the inputs; sizes that neither this nor ``inputs`` determines are chosen
            such that ONNX's shape inference accepts them.
        seed: seed of random inputs.
        target: the chip, the GPU or the CPU, if the model is not built yet.
        check: as for :func:`autofuse.load`.
        rtol: tolerance relative to the element.
        atol: tolerance relative to the largest element of a tensor.
        call: calls kernels, by name, with arrays by parameter and sizes by symbol; None: through
            :func:`autofuse.load`.
        progress: called after every step with the number of finished steps, and of all steps.

    Returns:
        The outputs, and the differences of outputs and regions from the reference; a difference is reported in the
        result, not as an exception.

    Raises:
        AutofuseError: as for ``build``; AF5007 the inputs do not match the model; AF5003 ``onnx.reference`` cannot run
            a node; AF5001, AF5002 a kernel cannot be compiled.
        TypeError: inputs or sizes are not by name, a size or the seed is not an integer.
        ValueError: the seed or a tolerance is negative, or ``check`` has another value than the two.
    """
    for what, given in (("inputs", inputs), ("sizes", sizes)):
        if not isinstance(given, Mapping | None):
            raise TypeError(f"{what} are given by name, in a dict, not {type(given).__name__}")
    seed = integer("seed", seed, 0, MAX_SEED)
    if not (rtol >= 0 and atol >= 0):
        raise ValueError(f"tolerances must be at least 0, not {rtol} and {atol}")
    built = model if isinstance(model, ModelResult) else build(model, target=target)
    calls = call if call is not None else kernel_calls(built, check=check)
    return _Runner(built, calls, rtol, atol).run(inputs or {}, sizes or {}, seed, progress)


@dataclass(slots=True)
class _Both:
    """A tensor computed by the model, and by ``onnx.reference`` alone; the same object if they are equal.

    ``doubtful``: the two may differ by any amount, because rounding errors determined an intermediate result.
    ``unknown``: no reference was available for an intermediate step, so the reference tensor is the model's own.
    ``coarse``: spacing at 1 of the coarsest intermediate type; 0 if it is float32.
    """

    ours: Any
    alone: Any
    doubtful: bool = False
    coarse: float = 0.0
    unknown: bool = False


class _Runner:
    """One run."""

    def __init__(self, built: ModelResult, call: KernelCall, rtol: float, atol: float) -> None:
        self.built = built
        self.pieces = built.pieces
        self.regions = Regions(built.pieces)
        self.call = call
        self.tolerance = {"rtol": rtol, "atol": atol}
        self.references = [Reference(built.pieces)]
        if Runtime.is_there():
            self.references.append(Runtime(built.pieces))
        self.sizes: dict[str, int] = {}
        self.chosen: Mapping[str, int] = {}
        self.held: dict[str, _Both] = {}
        self.names = public_names(built.pieces)
        self.rows: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.diagnostics: list[Diagnostic] = []
        self.made_up: list[str] = []

    def run(
        self,
        inputs: Mapping[str, Any],
        sizes: Mapping[str, int],
        seed: int,
        progress: Progress | None,
    ) -> ModelRun:
        self.hold_inputs(inputs, sizes, seed)
        for name, array in self.pieces.parameters.items():
            self.held[name] = _Both(array, array)
        steps = self.built.steps
        readers = Counter(k for n in range(len(steps)) for k in self.reads(n))
        readers.update(self.pieces.keys[o] for o in self.pieces.outputs)
        for n, step in enumerate(steps):
            if step.kind == "fallback":
                self.fallback(step.index)
            else:
                self.region(step.index)
            for k in self.reads(n):
                readers[k] -= 1
            for k in [k for k in self.held if readers[k] <= 0]:
                del self.held[k]
            if progress is not None:
                progress(n + 1, len(steps))
        outputs, compared = {}, []
        for o in self.pieces.outputs:
            found = self.value(o)
            outputs[o] = found.ours
            row = differences(found.ours, found.alone, **self.tolerance, coarse=found.coarse)
            doubtful = found.doubtful and not row["ok"]
            row_of = {"output": o, **about(found.ours), "ill_conditioned": doubtful}
            compared.append({**row_of, "compared": not found.unknown, **row})
            self.note(row, f"output {o}", doubtful=doubtful)
        return ModelRun(
            outputs,
            {self.pieces.symbols[s].label: n for s, n in self.sizes.items()},
            tuple(self.rows),
            tuple(self.others),
            tuple(compared),
            tuple(self.diagnostics),
            dict(self.chosen),
        )

    def reads(self, step: int) -> set[str]:
        """Return the keys of the tensors that a step reads."""
        s = self.built.steps[step]
        if s.kind == "fallback":
            nodes: tuple[int, ...] = (self.built.fallbacks[s.index].node,)
            keys: set[str] = set()
        else:
            nodes = self.built.regions[s.index].nodes
            keys = set(self.built.regions[s.index].inputs.values())
        return keys | {self.pieces.keys[x] for i in nodes for x in self.pieces.pieces[i].inputs}

    # tensors ----------------------------------------------------------------------------------

    def hold_inputs(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], seed: int) -> None:
        """Store the given arrays, random ones for the other inputs, and the sizes."""
        for name in inputs:
            if name not in self.pieces.inputs:
                known = ", ".join(self.pieces.inputs) or "none"
                text = f"{name} is not an input of {self.pieces.label}"
                raise AutofuseError.of("AF5007", text, hint=f"its inputs are: {known}")
        self.sizes |= given_sizes(self.pieces, sizes)
        for name, array in inputs.items():
            plain = plain_array(name, array) if isinstance(array, np.ndarray) else array
            self.hold(name, plain, plain)
        chosen = choose_sizes(self.pieces, self.sizes)
        self.sizes |= chosen
        self.chosen = {self.pieces.dims[s]: n for s, n in chosen.items()}
        for k, name in enumerate(self.pieces.inputs):
            if name not in inputs:
                self.made_up.append(name)
                rng = np.random.default_rng([seed, k])
                array = random_array(self.pieces, name, self.sizes, rng)
                self.hold(name, array, array)

    def value(self, name: str) -> _Both:
        """Return a tensor of the model."""
        v = self.pieces.values[name]
        key = self.pieces.keys[name]
        if not isinstance(v, Known):
            if key not in self.held:
                array = self.text(name)
                return _Both(array, array)
            return self.held[key]
        if v.array.size * v.array.itemsize > MAX_BYTES:
            text = f"the constant {name} has more than {MAX_BYTES >> 30} GiB"
            raise AutofuseError.of("AF1109", text, where=Where(self.pieces.path))
        array = v.array
        if array.dtype == object:
            numbers = [Expr.of(e).evaluate(self.sizes) for e in array.flat]
            kind = np.int64 if v.dtype is None else numpy_dtype(v.dtype)
            array = np.asarray(numbers, kind).reshape(array.shape)
        return _Both(array, array)

    def text(self, name: str) -> Any:
        """Return an initialiser that kernels do not support: texts."""
        from onnx import numpy_helper

        for t in self.pieces.model.graph.initializer:
            if t.name == name:
                return numpy_helper.to_array(t)
        raise AssertionError(f"{name} is used before it is computed")

    def hold(
        self,
        name: str,
        ours: Any,
        alone: Any,
        doubtful: bool = False,
        coarse: float = 0.0,
        unknown: bool = False,
    ) -> None:
        """Store a tensor; its shape determines symbols.

        Raises:
            AutofuseError: AF5007, it does not match the model's declaration.
        """
        v = self.pieces.values[name]
        if name not in self.pieces.shapeless:
            self.solve(name, v, ours)
            if isinstance(v, Traced):
                dtype = numpy_dtype(v.tensor.dtype)
                if name in self.pieces.inputs and not isinstance(ours, np.ndarray | np.generic):
                    text = f"input {name} must be a NumPy array, not {type(ours).__name__}"
                    raise AutofuseError.of("AF5007", text)
                if name in self.pieces.inputs and ours.dtype != dtype:
                    text = f"input {name} is {ours.dtype}, the model takes {v.tensor.dtype}"
                    raise AutofuseError.of("AF5007", text)
                same = ours is alone
                ours = np.asarray(ours).astype(dtype, copy=False)
                alone = ours if same else np.asarray(alone).astype(dtype, copy=False)
        if ours is not alone and identical(ours, alone):
            alone = ours
        if isinstance(v, Traced):
            coarse = max(coarse, coarseness(numpy_dtype(v.tensor.dtype)))
        doubtful = doubtful and ours is not alone
        self.held[self.pieces.keys[name]] = _Both(ours, alone, doubtful, coarse, unknown)

    def solve(self, name: str, v: Any, array: Any) -> None:
        shape = np.shape(array)
        if len(shape) != len(v.shape):
            self.misfit(name, v, shape)
        for e, n in zip(v.shape, shape, strict=True):
            (only,) = e.symbols() if len(e.symbols()) == 1 else (None,)
            if only is not None and only not in self.sizes and str(e) == only:
                self.sizes[only] = n
        for e, n in zip(v.shape, shape, strict=True):
            if e.symbols() <= self.sizes.keys() and e.evaluate(self.sizes) != n:
                self.misfit(name, v, shape)

    def misfit(self, name: str, v: Any, shape: Any) -> None:
        sizes = ", ".join(f"{k}={n}" for k, n in self.sizes.items())
        text = f"{name} has the shape {list(shape)}, expected [{', '.join(map(str, v.shape))}]"
        raise AutofuseError.of("AF5007", text + (f" with {sizes}" if sizes else ""))

    # steps ------------------------------------------------------------------------------------

    def fallback(self, index: int) -> None:
        f = self.built.fallbacks[index]
        p = self.pieces.pieces[f.node]
        start = time.perf_counter()
        operands = {x: self.value(x) for x in p.inputs}
        by = self.made_by_reference((f.node,))
        row = {"node": p.name, "index": p.index, "op": p.op, "code": f.code, "reason": f.reason}
        row |= {"reference": by, "state": self.checked(p, operands, by)}
        self.others.append({**row, "seconds": time.perf_counter() - start})

    def checked(self, p: Piece, operands: Mapping[str, _Both], by: str) -> str:
        """Compare the results of a node with those of onnxruntime: return ``ok`` or ``differs``.

        Return ``not compared`` without onnxruntime, if it cannot run the node, and for random numbers.
        """
        state = "not compared"
        if is_random(self.pieces.model.graph.node[p.index]):
            return state
        coarse = max((b.coarse for b in operands.values()), default=0.0)
        arrays = {x: b.ours for x, b in operands.items()}
        for other in (r for r in self.references if r.name == Runtime.name != by):
            with suppress(AutofuseError):
                want = other.run(p, arrays)
                state = "ok"
                for o in (o for o in p.outputs if not isinstance(self.pieces.values[o], Known)):
                    ours = self.held[self.pieces.keys[o]].ours
                    row = differences(ours, want[o], **self.tolerance, coarse=coarse)
                    self.note(row, f"output {o} of {p.op} {p.name}, run by {by},", other.name)
                    state = state if row["ok"] else "differs"
        return state

    def made_by_reference(self, nodes: Iterable[int], reference: Reference | None = None) -> str:
        """Run nodes with the given reference, or with the first that can, and store all their results.

        Returns:
            The name of the reference that ran the last of them.
        """
        by = ""
        for i in nodes:
            p = self.pieces.pieces[i]
            self.check_size(p)
            operands = {x: self.value(x) for x in p.inputs}
            ours, by = self.by_reference(p, {x: b.ours for x, b in operands.items()}, reference)
            alone = ours
            if any(b.ours is not b.alone for b in operands.values()):
                given = {x: b.alone for x, b in operands.items()}
                alone, _ = self.by_reference(p, given, reference)
            doubtful = any(b.doubtful for b in operands.values())
            unknown = any(b.unknown for b in operands.values())
            coarse = max((b.coarse for b in operands.values()), default=0.0)
            for o in p.outputs:
                if not isinstance(self.pieces.values[o], Known):
                    self.hold(o, ours[o], alone[o], doubtful, coarse, unknown)
        return by

    def by_reference(
        self, p: Piece, operands: Mapping[str, Any], reference: Reference | None
    ) -> tuple[dict[str, Any], str]:
        """Return the results of a node and the name of the reference; errors list inputs and sizes chosen by default.

        Raises:
            AutofuseError: AF5003.
        """
        *others, last = self.references if reference is None else [reference]
        for r in others:
            with suppress(AutofuseError):
                return self.fitting(r, p, operands), r.name
        try:
            return self.fitting(last, p, operands), last.name
        except AutofuseError as e:
            raise self.with_choices(e) from e

    def with_choices(self, error: AutofuseError) -> AutofuseError:
        """Return the error with a list of the inputs and sizes chosen by default."""
        hints = [INSTALL] if len(self.references) == 1 else []
        if self.chosen:
            sizes = " ".join(f"--shape {s}={n}" for s, n in self.chosen.items())
            hints.insert(0, f"the sizes were chosen; override with: {sizes}")
        if self.made_up:
            names = ", ".join(self.made_up)
            text = f"random inputs: {names}; give valid elements with --input NAME=FILE"
            hints.insert(0, text)
        hint = "; ".join(hints)
        return AutofuseError(replace(d, hint=d.hint or hint) for d in error.diagnostics)

    def fitting(
        self, reference: Reference, p: Piece, operands: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the results of a node from one reference; their shapes must match the model.

        Raises:
            AutofuseError: AF5003.
        """
        found = reference.run(p, operands)
        # Discard sizes derived from rejected results.
        before = dict(self.sizes)
        for o in p.outputs:
            v = self.pieces.values[o]
            if isinstance(v, Known) or o in self.pieces.shapeless:
                continue
            try:
                self.solve(o, v, found[o])
            except AutofuseError as e:
                self.sizes = before
                text = f"{p.op}: by {reference.name} {e.diagnostics[0].message}"
                where = Where(self.pieces.path, f"/graph/node/{p.index}", node=p.name)
                raise AutofuseError.of("AF5003", text, where=where) from e
        return found

    def check_size(self, p: Piece) -> None:
        """Refuse a node whose results would be too large, as far as known in advance.

        Raises:
            AutofuseError: AF1109.
        """
        for o in p.outputs:
            v = self.pieces.values[o]
            if o in self.pieces.shapeless or any(e.symbols() - self.sizes.keys() for e in v.shape):
                continue
            count = 8
            for n in evaluated(v.shape, self.sizes):
                count *= n
            if count > 2 * MAX_BYTES:
                text = f"{p.op}: its result {o} would have {counted(count // 8, 'element')}"
                where = Where(self.pieces.path, f"/graph/node/{p.index}", node=p.name)
                raise AutofuseError.of("AF1109", text, where=where)

    def region(self, index: int) -> None:
        r = self.built.regions[index]
        start = time.perf_counter()
        row: dict[str, Any] = {
            "region": index,
            "ops": [self.pieces.pieces[i].op for i in r.nodes],
            "kernel": r.kernel or None,
            "state": "ok",
            "bytes_moved": None,
            "bytes_unfused": self.regions.unfused_bytes(r.nodes, self.sizes),
            "outputs": [],
            "seconds": 0.0,
        }
        self.rows.append(row)
        missing = [k for k in r.inputs.values() if k not in self.held]
        self.held |= {k: self.value(self.names[k]) for k in missing}
        problem = self.out_of_range(r)
        if problem:
            row |= {"state": "by reference", "why": problem}
            self.made_by_reference(r.nodes)
            self.forget_inside(r)
            return
        made = self.computed(r, row)
        # The nodes one by one, from the region's operands and from the reference's.
        want, alone = self.judged(r, made, row)
        doubtful = any(self.held[k].doubtful for k in r.inputs.values()) or "rounding" in row
        unknown = any(self.held[k].unknown for k in r.inputs.values()) or not want
        coarse = max((self.held[k].coarse for k in r.inputs.values()), default=0.0)
        for i in r.nodes:
            for o in self.pieces.pieces[i].outputs:
                if isinstance(v := self.pieces.values[o], Traced):
                    coarse = max(coarse, coarseness(numpy_dtype(v.tensor.dtype)))
        for key in r.outputs.values():
            ours = want[key] if made is None else made[key]
            other = alone[key] if alone else ours
            self.hold(self.names[key], ours, other, doubtful, coarse, unknown)
        row["seconds"] = time.perf_counter() - start

    def judged(
        self, r: ModelRegion, made: Mapping[str, Any] | None, row: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Compare a region with the references, until one agrees.

        Returns:
            Results of the decisive reference from the region's operands, and from its own; empty if none can run the
            nodes.
        """
        chosen: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None = None
        for reference in self.references:
            tried = {**row, "reference": reference.name}
            want, alone = self.expected(r, tried, reference)
            if want and made is not None:
                for key in r.outputs.values():
                    found = self.compared(r, key, made[key], want[key], tried)
                    line = {"output": self.names[key], **about(made[key]), **found}
                    tried["outputs"] = [*tried["outputs"], line]
                if not all(o["ok"] for o in tried["outputs"]):
                    tried["state"] = "differs"
            # A reference that agrees, else the first with results.
            agrees = bool(want) and tried["state"] != "differs"
            if chosen is None or agrees or not chosen[1]:
                chosen = (tried, want, alone)
            if agrees:
                break
        assert chosen is not None
        found_row, want, alone = chosen
        row |= found_row
        self.diagnostics += row.pop("problems", ())
        for o in row["outputs"]:
            what = f"output {o['output']} of region {row['region']} ({r.kernel})"
            self.note(o, what, row["reference"])
        return want, alone

    def compared(
        self, r: ModelRegion, key: str, ours: Any, want: Any, row: dict[str, Any]
    ) -> dict[str, Any]:
        """Compare an output of a region with ``onnx.reference``.

        If they differ, recompute the ops in higher precision with a bound on rounding errors, which may explain the
        whole difference: the softmax of large numbers depends on their last bits.
        """
        found = differences(ours, want, **self.tolerance)
        if found["ok"] or not r.kernel or ours.dtype.kind in "biu":
            return found
        graph = self.built.kernels[r.kernel].graph
        (name,) = (p for p, k in r.outputs.items() if k == key)
        arrays = {p: self.held[k].ours for p, k in r.inputs.items()}
        reference = evaluate(graph, arrays, self.sizes)[name]
        if reference.tolerance is None:
            return found
        bound = reference.allowed(ours).reshape(ours.shape)
        bounded = differences(ours, want, **self.tolerance, also=2 * bound)
        if bounded["ok"]:
            row["rounding"] = True
        return bounded

    def out_of_range(self, r: ModelRegion) -> str:
        """Return why the kernel does not accept the sizes of this run; empty if it does."""
        graph = self.built.kernels[r.kernel].graph if r.kernel else None
        for s in graph.symbols if graph is not None else ():
            size = self.sizes[s.name]
            if not s.min <= size <= s.max:
                return f"{self.pieces.dims[s.name]} is {size}, the kernel takes {s.min} to {s.max}"
        return ""

    def computed(self, r: ModelRegion, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return the results of the kernel, or of a view; None if the kernel fails."""
        arrays = {p: self.held[k].ours for p, k in r.inputs.items()}
        if not r.kernel:
            row["bytes_moved"] = 0
            return self.viewed(r, arrays)
        graph = self.built.kernels[r.kernel].graph
        symbols = {s.name: self.sizes[s.name] for s in graph.symbols}
        try:
            done = self.call(r.kernel, arrays, symbols)
        except AutofuseError as e:
            if any(d.code in ("AF5001", "AF5002", "AF9001") for d in e.diagnostics):
                raise
            row["state"] = "failed"
            self.diagnostics += e.diagnostics
            return None
        row["bytes_moved"] = done.bytes_moved
        row["kernel_seconds"] = done.seconds
        return {k: done.outputs[p] for p, k in r.outputs.items()}

    def viewed(self, r: ModelRegion, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return the operands reshaped."""
        graph = self.regions.region(r.nodes).graph
        found = dict(arrays)
        for n in graph.nodes:
            shape = evaluated(graph.tensors[n.outputs[0]].shape, self.sizes)
            found[n.outputs[0]] = np.reshape(found[str(n.inputs[0])], shape)
        return {k: found[p] for p, k in r.outputs.items()}

    def expected(
        self, r: ModelRegion, row: dict[str, Any], reference: Reference
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a reference's results from the model's operands and from its own; empty if it cannot run a node."""
        before = dict(self.held)
        try:
            self.made_by_reference(r.nodes, reference)
            both = {k: self.held[k] for k in r.outputs.values()}
        except AutofuseError as e:
            if row["state"] == "failed" and reference is self.references[-1]:
                raise
            row |= {"why": e.diagnostics[0].message, "problems": e.diagnostics}
            if row["state"] != "failed":
                row["state"] = "not compared"
            return {}, {}
        finally:
            self.held = before
        return {k: b.ours for k, b in both.items()}, {k: b.alone for k, b in both.items()}

    def forget_inside(self, r: ModelRegion) -> None:
        """Drop results that are not read outside the region."""
        made = {self.pieces.keys[o] for i in r.nodes for o in self.pieces.pieces[i].outputs}
        for k in made - set(r.outputs.values()):
            self.held.pop(k, None)

    def note(
        self,
        row: Mapping[str, Any],
        what: str,
        reference: str = Reference.name,
        *,
        doubtful: bool = False,
    ) -> None:
        """Add a diagnostic for a comparison that failed or is inconclusive."""
        if row["ok"]:
            return
        if doubtful:
            text = f"{what} differs from {reference}, but depends on rounding errors"
            self.diagnostics.append(Diagnostic("AF6003", text, severity="warning"))
            return
        text = differing(row["wrong"], row["elements"], what, reference)
        first = f"first at {row['first']}: {row['got']}, expected {row['want']}"
        self.diagnostics.append(Diagnostic("AF6001", text, notes=(first,)))
