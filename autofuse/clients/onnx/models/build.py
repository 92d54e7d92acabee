"""Build a model into the kernels of its regions.

A region that the scheduler refuses is cut at the splitter's cuts, else around the nodes that cannot be built alone,
else in the middle; so is one that would move more bytes than its nodes one by one.  Regions that differ only in tensor
names share a kernel.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autofuse import api
from autofuse.base import artifacts, knobs
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.reading import TooLargeError, named, unreadable
from autofuse.base.wording import counted
from autofuse.clients.onnx.models.manifest import manifest_of
from autofuse.clients.onnx.models.result import (
    Fallback,
    ModelRegion,
    ModelResult,
    Step,
    kernel_folder,
)
from autofuse.clients.onnx.models.traffic import modelled_bytes
from autofuse.failures import cut_around, is_internal
from autofuse.frontends.json_positions import MAX_FINDINGS
from autofuse.frontends.onnx.loading import MAX_BYTES, MAX_MODEL_BYTES, model_of
from autofuse.frontends.onnx.pieces import FALLBACK, KERNEL, ModelPieces, read_pieces
from autofuse.frontends.onnx.regions import Region, Regions, execution_order
from autofuse.implgraph.ir.serialise import to_json
from autofuse.targets import Target, ascend_only, find_target

if TYPE_CHECKING:
    import onnx

__all__ = ["ModelLike", "Progress", "build", "is_partitioned"]

#: A model, the path of its file, or the bytes of one.
ModelLike: TypeAlias = "onnx.ModelProto | Path | str | bytes"
#: Called with the numbers of finished and of all items.
Progress: TypeAlias = Callable[[int, int], object]

#: Errors that prevent a single kernel for a model, though the model itself is valid.
_NO_KERNEL = frozenset({"AF1101", "AF1109", "AF1201", "AF1202", "AF1203", "AF1204", "AF1205"})


def is_partitioned(model: ModelLike, wanted: bool | None = None) -> bool:
    """Return True if a model is built as several regions: on request, or if it cannot be read as one kernel.

    Args:
        model: the model.
        wanted: the caller's decision; None: decide from the model.

    Raises:
        AutofuseError: the model cannot be read, or no part of it can become a kernel.
    """
    if wanted is not None:
        return wanted
    from autofuse.frontends.onnx.reader import convert

    proto, path, data = _loaded(model)
    if len(data) + sum(len(t.raw_data) for t in proto.graph.initializer) > MAX_BYTES:
        return True
    try:
        convert(proto, path=path)
    except AutofuseError as e:
        if any(d.code not in _NO_KERNEL for d in e.diagnostics):
            raise
        pieces = read_pieces(proto, path=path)
        if any(p.kind == KERNEL for p in pieces.pieces):
            return True
        raise AutofuseError(_reasons(e, pieces)) from None
    return False


def _reasons(whole: AutofuseError, pieces: ModelPieces) -> list[Diagnostic]:
    """Return why no part of a model can be fused: the errors of the whole and of each node, without duplicates."""
    every = list(whole.diagnostics)
    places = {d.where.pointer for d in every}
    for p in pieces.pieces:
        where = Where(pieces.path, f"/graph/node/{p.index}", node=p.name)
        # An unknown shape is a consequence of another node.
        if p.kind == FALLBACK and p.code != "AF1101" and where.pointer not in places:
            every.append(Diagnostic(p.code, f"{p.op}: {p.reason}", where))
    every.sort(key=lambda d: int(re.sub(r"\D", "", d.where.pointer) or 0))
    alike = Counter((d.code, d.message) for d in every)
    first = {(d.code, d.message): d for d in reversed(every)}
    found = []
    for key in alike:
        more = alike[key] - 1
        notes = (f"so {counted(more, 'more node')}",) if more else ()
        found.append(replace(first[key], notes=(*first[key].notes, *notes)))
    return found[:MAX_FINDINGS]


def build(
    model: ModelLike,
    *,
    target: str | Target = api.DEFAULT_TARGET,
    entry: str = "launch",
    ub_bytes: int | None = None,
    progress: Progress | None = None,
) -> ModelResult:
    """Partition a model, and generate a kernel for every region.

    Args:
        model: an ``onnx.ModelProto``, the path of a file, or its bytes.
        target: the chip, the GPU or the CPU.
        entry: as for :func:`autofuse.build`.
        ub_bytes: as for :func:`autofuse.build`, for every kernel.
        progress: called after every region with the number of finished nodes, and of all nodes.

    Returns:
        The kernels and the manifest, as texts; a model without fusible parts has no kernel.

    Raises:
        AutofuseError: AF1001, AF1003, AF1004 the file cannot be read as a model; AF1104 nor can its data in other
            files; AF1106, AF1107 the model is not a legal graph; AF5006 the target is unknown, AF5007 an option is out
            of range.
    """
    spec: Target = find_target(target) if isinstance(target, str) else target
    if ub_bytes is not None:
        spec = ascend_only("bytes of UB are", spec).with_ub(ub_bytes)
    start = time.perf_counter()
    proto, path, data = _loaded(model)
    pieces = read_pieces(proto, path=path)
    read = time.perf_counter()
    made = _Builder(pieces, spec, entry, progress or _silent).run(hashlib.sha256(data).hexdigest())
    timings = {"read": read - start, "build": time.perf_counter() - read}
    return replace(made, timings=timings)


def _silent(done: int, of: int) -> None:
    """Ignore progress."""


def _loaded(model: ModelLike) -> tuple[onnx.ModelProto, str, bytes]:
    """Return the model, the name of its file, and its bytes.

    Raises:
        AutofuseError: AF1001, AF1003, AF1004; AF1104, data in other files that cannot be read.
    """
    if isinstance(model, bytes):
        return model_of(model, limit=MAX_MODEL_BYTES), "", model
    if not isinstance(model, str | Path):
        if not hasattr(model, "SerializeToString"):
            kind = type(model).__name__
            raise TypeError(f"a model is an onnx.ModelProto, a path, or bytes, not {kind}")
        data = model.SerializeToString(deterministic=True)
        return model, "", data
    path = Path(model)
    try:
        data = named(path, MAX_MODEL_BYTES)
    except TooLargeError as e:
        raise AutofuseError.of("AF1003", str(e), where=Where(str(path))) from None
    except (OSError, ValueError) as e:
        raise unreadable(path, "a model", e) from None
    proto = model_of(data, str(path), limit=MAX_MODEL_BYTES, folder=path.parent)
    return proto, str(path), data


class _Builder:
    """One build."""

    def __init__(self, pieces: ModelPieces, target: Target, entry: str, progress: Progress) -> None:
        self.pieces = pieces
        self.target = target
        self.entry = entry
        self.progress = progress
        self.regions = Regions(pieces)
        self.kernels: dict[str, api.BuildResult | api.SplitResult] = {}
        #: Text of a graph -> name of its kernel, or the error.
        self.known: dict[str, str | AutofuseError] = {}
        self.modelled: dict[str, int | None] = {}
        self.refused: dict[int, AutofuseError] = {}

    def run(self, sha256: str) -> ModelResult:
        eligible = [p.index for p in self.pieces.pieces if p.kind == KERNEL]
        todo = self.regions.grown(eligible)[::-1]
        settled: list[ModelRegion] = []
        done = 0
        while todo:
            nodes = todo.pop()
            found = self.settle(nodes)
            if isinstance(found, ModelRegion):
                settled.append(found)
                done += len(nodes)
            else:
                todo += found[::-1]
                done += len(nodes) - sum(map(len, found))
            self.progress(done, len(eligible))
        settled.sort(key=lambda r: r.nodes)
        fallbacks = self.fallbacks()
        units = [*(r.nodes for r in settled), *((f.node,) for f in fallbacks)]
        order = execution_order(units, self.regions.needs)
        kinds = ["kernel" if r.kernel else "view" for r in settled]
        steps = tuple(
            Step(kinds[k], k) if k < len(settled) else Step("fallback", k - len(settled))
            for k in order
        )
        used = {r.kernel for r in settled}
        kernels = {n: k for n, k in sorted(self.kernels.items()) if n in used}
        files: dict[str, str] = {}
        for name, kernel in kernels.items():
            own = {**kernel.files, artifacts.MANIFEST: artifacts.manifest_text(kernel.files)}
            files |= {f"{kernel_folder(name)}/{n}": text for n, text in own.items()}
        result = ModelResult(
            self.pieces,
            self.target,
            sha256,
            kernels,
            tuple(settled),
            fallbacks,
            steps,
            files,
            {},
        )
        files[f"{result.name}.model.json"] = manifest_of(result)
        return replace(result, files=dict(sorted(files.items())))

    def fallbacks(self) -> tuple[Fallback, ...]:
        out = []
        for p in self.pieces.pieces:
            if p.index in self.refused:
                first = self.refused[p.index].diagnostics[0]
                out.append(Fallback(p.index, first.code, first.message))
            elif p.index in self.regions.needs and p.code:
                out.append(Fallback(p.index, p.code, p.reason))
        return tuple(out)

    def settle(self, nodes: tuple[int, ...]) -> ModelRegion | list[tuple[int, ...]]:
        """Return the region with its kernel, or the smaller regions (possibly none) to try instead."""
        region = self.regions.region(nodes)
        if region.view:
            return self.settled(region, "")
        try:
            name = self.kernel(region)
        except AutofuseError as e:
            return self.cut(region, e)
        moved = self.modelled[name]
        if len(nodes) > 1 and moved is not None and moved > self.regions.unfused_bytes(nodes):
            return self.halves(nodes)
        return self.settled(region, name)

    def settled(self, region: Region, kernel: str) -> ModelRegion:
        g = region.graph
        return ModelRegion(
            region.nodes,
            kernel,
            dict(zip(g.inputs, region.inputs, strict=True)),
            {o.name: key for o, key in zip(g.outputs, region.outputs, strict=True)},
            0 if region.view else self.regions.fused_bytes(region),
            self.modelled[kernel] if kernel else 0,
            self.regions.unfused_bytes(region.nodes),
        )

    # kernels ----------------------------------------------------------------------------------

    def kernel(self, region: Region) -> str:
        """Return the name of a region's kernel.

        Raises:
            AutofuseError: the kernel cannot be built.
        """
        text = json.dumps(to_json(region.graph), sort_keys=True)
        if text not in self.known:
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            name = f"{self.slug(region.nodes)}_{digest}"
            try:
                self.kernels[name] = self.made(replace(region.graph, name=name), len(region.nodes))
                self.known[text] = name
                self.modelled[name] = modelled_bytes(self.kernels[name], self.regions.typical())
            except AutofuseError as e:
                if _is_final(e):
                    raise
                if is_internal(e):
                    cut_around(e, "onnx.reference")
                self.known[text] = e
        found = self.known[text]
        if isinstance(found, AutofuseError):
            raise found
        return found

    def made(self, graph: Any, nodes: int) -> api.BuildResult | api.SplitResult:
        if nodes > 1:
            return api.build(graph, target=self.target, entry=self.entry)
        # The only possible cuts are inside the node.
        found = api.build_split(graph, target=self.target, entry=self.entry)
        return found if found.split is not None else found.parts[0]

    def slug(self, nodes: Sequence[int]) -> str:
        """Return a short name from the ops of a region."""
        ops = list(dict.fromkeys(self.pieces.pieces[i].op for i in nodes))
        words = [re.sub(r"[^a-z0-9]", "", op.lower())[:16] or "op" for op in ops[:3]]
        return "_".join(["fused", *words])

    # cuts -------------------------------------------------------------------------------------

    def cut(self, region: Region, error: AutofuseError) -> list[tuple[int, ...]]:
        """Return smaller regions for a refused one; a single refused node becomes a fallback."""
        nodes = region.nodes
        if _is_final(error):
            raise error
        if len(nodes) == 1:
            self.refused[nodes[0]] = error
            return []
        names = next((d.cut_after for d in error.diagnostics if d.cut_after), ())
        if names:
            return self.runs(nodes, self.after(region, names))
        alone = {i for i in nodes if not self.is_kernel(i)}
        if alone:
            rest = [i for i in nodes if i not in alone]
            return [*((i,) for i in sorted(alone)), *self.regions.grown(rest)]
        return self.halves(nodes)

    def is_kernel(self, node: int) -> bool:
        region = self.regions.region((node,))
        if region.view:
            return True
        try:
            self.kernel(region)
        except AutofuseError as e:
            if _is_final(e):
                raise
            return False
        return True

    def after(self, region: Region, names: Iterable[str]) -> set[int]:
        """Return the model's nodes after which the splitter would cut, or the nearest ones before."""
        place = {n.label: k for k, n in enumerate(region.graph.nodes)}
        ops = self.regions.owners(region)
        out = set()
        for name in names:
            k = place[name]
            owner = next((o for o in reversed(ops[: k + 1]) if o is not None), region.nodes[0])
            whole = all(o != owner for o in ops[k + 1 :])
            at = region.nodes.index(owner) - (not whole)
            out.add(region.nodes[max(at, 0)])
        out.discard(region.nodes[-1])
        return out or {region.nodes[0]}

    def runs(self, nodes: Sequence[int], after: set[int]) -> list[tuple[int, ...]]:
        """Return the nodes as runs, cut after some of them."""
        out: list[list[int]] = [[]]
        for i in nodes:
            out[-1].append(i)
            if i in after:
                out.append([])
        return [tuple(r) for r in out if r]

    def halves(self, nodes: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Cut where the fewest bytes cross; among equals, nearest the middle."""

        def cost(k: int) -> tuple[int, int]:
            both = (self.regions.region(nodes[:k]), self.regions.region(nodes[k:]))
            return sum(map(self.regions.fused_bytes, both)), abs(2 * k - len(nodes))

        at = min(range(1, len(nodes)), key=cost)
        return [nodes[:at], nodes[at:]]


def _is_final(error: AutofuseError) -> bool:
    """Return True if smaller regions would not help or are not wanted."""
    return any(d.code == "AF5007" for d in error.diagnostics) or (
        is_internal(error) and knobs.STRICT.get()
    )
