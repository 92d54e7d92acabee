"""Definitions that several tests look at."""

from collections.abc import Callable
from typing import Any

import pytest

from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.defining.sources import describe

LINE = "softmax over the last axis of x float16 [b, 4096], then multiply by mask"


@pytest.fixture(scope="session")
def softmax() -> Definition:
    """A softmax with a mask, for an H100."""
    return describe(LINE, target="nvidia-h100")


@pytest.fixture
def graph_of() -> Callable[..., dict[str, Any]]:
    """A graph file of one Add; keywords replace members."""

    def made(**changes: Any) -> dict[str, Any]:
        return {
            "schema": "autofuse.graph/1",
            "name": "add",
            "symbols": {"n": {"max": 1 << 20}},
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": ["n", 8]},
                {"name": "y", "dtype": "float32", "shape": [8]},
            ],
            "nodes": [{"name": "add", "op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}],
            "outputs": ["z"],
        } | changes

    return made
