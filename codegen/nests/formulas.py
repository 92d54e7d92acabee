"""Formulas of ops that are shorter with the functions of such a language than in the registry, which has fewer."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.ops.definition import Expansion
from autofuse.implgraph.ops.formulas.vector_math import Vec, formula
from autofuse.implgraph.ops.rows.activations import SELU_ALPHA, SELU_GAMMA

__all__ = ["EXPANSIONS"]


def _elu(x: Vec, alpha: float = 1.0) -> Vec:
    below = x.call("Expm1")
    return (x > 0.0).choose(x, below if alpha == 1.0 else below * alpha)


def _selu(x: Vec, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Vec:
    return (x > 0.0).choose(x * gamma, x.call("Expm1") * (alpha * gamma))


def _celu(x: Vec, alpha: float = 1.0) -> Vec:
    return (x > 0.0).choose(x, (x * (1.0 / alpha)).call("Expm1") * alpha)


#: Name of an op -> what it becomes in the place of the expansion of its row.
EXPANSIONS: Mapping[str, Expansion] = {
    "Elu": formula(_elu),
    "Selu": formula(_selu),
    "Celu": formula(_celu),
}
