"""Cost memo of one build.

A template is ranked, its tiling is folded, and its numbers go into the host code: each step needs the same costs.  The
caller that starts a build, or explains one, makes a :class:`Costs`, passes it along, and drops it after the build.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph, TilingSpec
from autofuse.schedule.search.bound import BoundForm, Tiled, bind, chip_figures
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.form import CostForm
from autofuse.targets import TargetSpec

__all__ = ["Costs"]


class _Known:
    """The costs of a template; without symbols also the bound costs, and the search results for them, by cores."""

    def __init__(self, form: CostForm) -> None:
        self.form = form
        #: By bytes of UB.
        self.bound: dict[int | None, tuple[BoundForm, dict[int, Tiled | None]]] = {}


class Costs:
    """The costs of the templates of a graph on a chip, each computed once.

    Templates that differ only in name, conditions or first core share nodes and cost the same.

    Attributes:
        target: the chip.
        chip: its figures.
    """

    def __init__(self, target: TargetSpec) -> None:
        self.target, self.chip = target, chip_figures(target)
        #: By the ids of the objects that costs are computed from; the stored template keeps them alive.
        self._known: dict[tuple[int, ...], tuple[ImplGraph, _Known]] = {}

    def form(self, impl: ImplGraph) -> CostForm:
        """Return the costs of a template.

        Whether operands of a call collide in the banks of UB depends on the tile; it is taken from the largest one at
        typical sizes.
        """
        return self._of(impl).form

    def bound(
        self, impl: ImplGraph, sizes: Mapping[str, int], ub: int | None
    ) -> tuple[BoundForm, dict[int, Tiled | None]]:
        """Return the costs of a template for given sizes, and the search results for them; cached without symbols.

        Raises:
            ExprError: a size that the template divides by is 0.
            OverflowError: a number beyond 64 bits.
        """
        known = self._of(impl)
        if sizes:
            return bind(known.form, impl.tiling, sizes, ub), {}
        if ub not in known.bound:
            known.bound[ub] = bind(known.form, impl.tiling, sizes, ub), {}
        return known.bound[ub]

    def _of(self, impl: ImplGraph) -> _Known:
        key = _parts(impl)
        like, known = self._known.get(key, (None, None))
        if like is not None and known is not None:
            if like.tiling is impl.tiling:
                return known
            if _plain(like.tiling) != _plain(impl.tiling):
                known = None
        known = known or _Known(cost_form(impl, self.target))
        self._known[key] = impl, known
        return known


def _parts(impl: ImplGraph) -> tuple[int, ...]:
    return id(impl.nodes), id(impl.axes), id(impl.buffers), id(impl.symbols)


def _plain(spec: TilingSpec) -> TilingSpec:
    return replace(spec, conditions=(), first_core=None)
