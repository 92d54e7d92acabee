"""Test data of an operator as Python source: shapes of the cases, and inputs in the domain of its ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autofuse.clients.kernelgen.files.naming import operator_name
from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import Signature, torch_dtype
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.expr.expression import ONE, product
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import reduced_axes
from autofuse.machines.twin.oracle.data import divisors, positive_inputs, random_inputs
from autofuse.machines.twin.oracle.indices import place_extents
from autofuse.machines.twin.oracle.oracle import evaluate, shape_of
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for

__all__ = ["Cases", "Recipe"]

#: Elements of the tensors used to try recipes.
_TRIED = 4096
#: If a tensor cannot be shrunk below this many elements, no recipe is tried.
_MOST_TRIED = 1 << 18
#: Names that the tests use otherwise.
_TAKEN = (
    *("bench", "bench_v2", "label", "parametrize", "assert_close", "to_reference", "device"),
    *("shape", "dtype", "scale", "inputs", "input", "references", "reduce_dim", "quantiles"),
    *("res_out", "ref_out", "res", "ref", "ms_torch", "ms_triton", "speedup", "result"),
    *("argparse", "os", "time", "make_inputs", "shapes_of", "prepare", "options", "parser"),
    *("reference_of", "largest_difference", "milliseconds", "test_accuracy", "test_performance"),
    *("SHAPES", "LARGE", "TOLERANCE", "ROUNDED", "WARMUPS", "ITERATIONS", "given", "made"),
    *("expected", "found", "max_diff", "speedups", "baseline_time", "triton_time", "verbose"),
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe for random floats: ``scale * (spread * random + shift)``, random numbers normal or between 0 and 1.

    Attributes:
        normal: True for normal numbers.
        spread: factor.
        shift: summand.
        scales: factors of the whole expression, the usual one first.
    """

    normal: bool
    spread: float = 1.0
    shift: float = 0.0
    scales: tuple[float, ...] = (1.0, 0.05, 8.0)

    def text(self, shape: str, dtype: str) -> str:
        """Return Python source that draws a tensor on ``device``, without the scale."""
        drawn = f"torch.{'randn' if self.normal else 'rand'}({shape}, dtype={dtype}, device=device)"
        if self.spread != 1.0:
            drawn = f"{self.spread} * {drawn}"
        return f"{drawn} + {self.shift}" if self.shift else drawn

    def drawn(self, rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
        """Draw an array with NumPy, in float64."""
        found = rng.standard_normal(shape) if self.normal else rng.random(shape)
        return np.asarray(scale * (self.spread * found + self.shift))


_NORMAL = Recipe(True)
_POSITIVE = Recipe(False, shift=0.5)
#: Recipes for all floats of a graph: if one gives non-finite results, try the next.
_DOMAINS = (
    _NORMAL,
    _POSITIVE,
    Recipe(False, spread=0.8, shift=0.1, scales=(1.0, 0.5, 0.1)),
    Recipe(False, shift=1.5, scales=(1.0, 4.0)),
)


class Cases:
    """Test data of one graph.

    Attributes:
        graph: graph of the operator.
        names: identifiers of the test functions.
        signature: signature of the function.
        local: names of its symbols and inputs in the tests.
        local_operator: name of the function in scripts.
    """

    def __init__(self, graph: FusionGraph, call: Call | None = None) -> None:
        self.graph = graph
        self.signature = Signature.of(graph, Names(), call)
        self.names = Names(_TAKEN)
        self.local = Signature.of(graph, self.names)
        self.local_operator = self.names.take(operator_name(graph))

    # cases ------------------------------------------------------------------------------------
    @cached_property
    def lead(self) -> Tensor | None:
        """Input whose shape determines all sizes; without symbols, the first one with dimensions."""
        symbols = {s.name for s in self.graph.symbols}
        for _, t in self.signature.tensors():
            if t.shape and not t.scalar and symbols <= {str(e) for e in t.shape}:
                return t
        return None

    def shapes(self, sizes: Iterable[Mapping[str, int]]) -> list[tuple[int, ...]]:
        """Return ``shape`` of every case: the shape of :attr:`lead`, or else the sizes of all symbols."""
        if self.lead is not None:
            return [shape_of(self.lead.shape, s) for s in sizes]
        return [tuple(s[x.name] for x in self.graph.symbols) for s in sizes]

    def unpacked(self) -> list[str]:
        """Return the lines that assign the sizes of a case to the symbols."""
        symbols = [s.name for s in self.graph.symbols]
        if not symbols:
            return []
        places = symbols if self.lead is None else [str(e) for e in self.lead.shape]
        first = [places.index(s) for s in symbols]
        parts = [self.local.symbols[p] if i in first else "_" for i, p in enumerate(places)]
        return [f"({parts[0]},) = shape" if len(parts) == 1 else f"{', '.join(parts)} = shape"]

    # inputs -----------------------------------------------------------------------------------
    @property
    def dtype(self) -> str:
        """``dtype`` of the tests: the dtype of the first float input, or else of the first output."""
        floats = [t.dtype for _, t in self.signature.tensors() if t.dtype.kind == "f"]
        return torch_dtype((*floats, self.graph.tensors[self.graph.outputs[0].tensor].dtype)[0])

    @cached_property
    def recipes(self) -> tuple[Mapping[str, Recipe], tuple[float, ...]]:
        """Recipe for each float input that gives finite results, and the scales for which it does."""
        graph = shrink(self.graph, _TRIED)
        sizes = shapes_for(graph, 1, max_elements=_TRIED)[0]
        floats = [x for x in graph.inputs if graph.tensors[x].dtype.kind == "f"]
        near = (positive_inputs(graph) | divisors(graph)) & set(floats)
        plans = [dict.fromkeys(floats, d) for d in _DOMAINS]
        if near:
            plans.insert(0, {x: _POSITIVE if x in near else _NORMAL for x in floats})
        if largest_tensor(graph, sizes) > _MOST_TRIED:
            return plans[0], _NORMAL.scales[:2]
        for plan in plans if floats else ():
            wanted = next(iter(plan.values())).scales
            scales = tuple(s for s in wanted if self._is_finite(graph, sizes, plan, s))
            if len(scales) > 1 and scales[0] == wanted[0]:
                return plan, scales
        return plans[0], _NORMAL.scales[:2]

    @staticmethod
    def _is_finite(
        graph: FusionGraph, sizes: Mapping[str, int], plan: Mapping[str, Recipe], scale: float
    ) -> bool:
        given = random_inputs(graph, sizes, 0)
        rng = np.random.default_rng(0)
        for x, recipe in plan.items():
            data = recipe.drawn(rng, given[x].shape, scale)
            given[x] = data.astype(numpy_dtype(graph.tensors[x].dtype))
        found = evaluate(graph, given, sizes)
        return all(bool(np.isfinite(r.value.astype(np.float64)).all()) for r in found.values())

    def inputs(self, *, scale: str = "") -> list[str]:
        """Return an expression per input.

        Args:
            scale: name of a factor of all floats; empty for none.
        """
        places = place_extents(self.graph)
        out = []
        for x in self.graph.inputs:
            t = self.graph.tensors[x]
            shape = "shape" if t is self.lead and t.strides is None else self.local.shape(t.shape)
            drawn = self._drawn(x, t, shape, scale, places)
            out.append(drawn if t.strides is None else self._strided(t, drawn))
        return out

    def _drawn(
        self, x: str, t: Tensor, shape: str, scale: str, places: Mapping[str, object]
    ) -> str:
        if t.strides is not None:
            shape = f"({self._extent(t)},)"
        kind = torch_dtype(t.dtype)
        if t.dtype.kind == "f":
            recipe = self.recipes[0][x]
            text = recipe.text(shape, "dtype" if kind == self.dtype else kind)
            if not scale:
                return text
            return f"{scale} * ({text})" if recipe.shift else f"{scale} * {text}"
        low, high = "0", "2"
        if x in places:
            high = self.local.python(place_extents(self.graph)[x])
        elif t.dtype.kind != "b":
            low, high = ("-100", "101") if t.dtype.kind == "i" else ("0", "101")
        return f"torch.randint({low}, {high}, {shape}, device=device).to({kind})"

    def _extent(self, t: Tensor) -> str:
        """Return the number of elements from the first to the last one of a strided tensor."""
        assert t.strides is not None
        span = ONE
        for n, s in zip(t.shape, t.strides, strict=True):
            span = span + (n - ONE) * s
        return self.local.python(span) if span.is_const else f"max(1, {self.local.python(span)})"

    def _strided(self, t: Tensor, drawn: str) -> str:
        assert t.strides is not None
        whole = drawn if t.dtype.kind != "f" else f"({drawn})"
        return f"{whole}.as_strided({self.local.shape(t.shape)}, {self.local.shape(t.strides)})"

    def keywords(self) -> list[str]:
        """Return the function's keyword arguments."""
        out = [
            f"{self.signature.symbols[s]}={self.local.symbols[s]}" for s in self.signature.free()
        ]
        return out if self.signature.inputs else [*out, "device=device"]

    def call(self, inputs: str, copied: str = "") -> str:
        """Return the arguments of a call.

        Args:
            inputs: name of the list with a tensor for each input of the graph.
            copied: loop variable for the copies of inputs; empty to make no copies.
        """

        def some(part: str) -> str:
            return f"*[{copied}.clone() for {copied} in {part}]" if copied else f"*{part}"

        if self.signature.call is None:
            given = some(inputs) if self.signature.inputs else ""
        else:
            clone = ".clone()" if copied else ""
            given = self.signature.call.text(
                some(inputs),
                lambda part: some(f"{inputs}[{part}]"),
                lambda k: f"{inputs}[{k}]{clone}",
            )
        return ", ".join(([given] if given else []) + self.keywords())

    # results ----------------------------------------------------------------------------------
    def results(self) -> list[str]:
        """Return the dtypes of the results."""
        return [torch_dtype(self.graph.tensors[o.tensor].dtype) for o in self.graph.outputs]

    def reduced(self) -> str:
        """Return the length of the longest reduction in the graph, as Python source."""
        found: list[str] = []
        for n in self.graph.nodes:
            row = lookup(n.op)
            if row.compute_type not in ("reduce", "composite", "scan"):
                continue
            x = n.inputs[0]
            if not isinstance(x, str):
                continue
            shape = self.graph.tensors[x].shape
            given: Any = n.attrs.get("axes", ()) if "axis" not in n.attrs else (n.attrs["axis"],)
            count = product(shape[a] for a in reduced_axes(given, len(shape)))
            found.append(self.local.python(count))
        texts = list(dict.fromkeys(t for t in found if t != "1"))
        if not texts:
            return "1"
        if all(t.isdigit() for t in texts):
            return str(max(map(int, texts)))
        return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
