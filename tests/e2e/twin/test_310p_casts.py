"""Kernels for architecture 2002, whose Cast has fewer round modes, beside NumPy."""

import pytest

from autofuse import api
from autofuse.twin.verify.verify import verify_kernel

pytestmark = [pytest.mark.twin, pytest.mark.slow]


def test_casts_and_whole_numbers_are_those_of_numpy() -> None:
    casts = {"f": "float16", "i": "float32", "h": "int32"}
    nodes = [
        {
            "name": f"c{x}",
            "op": "Cast",
            "inputs": [x],
            "outputs": [f"{x}_to"],
            "attrs": {"dtype": to},
        }
        for x, to in casts.items()
    ]
    whole = ("Floor", "Ceil", "Round", "Trunc")
    nodes += [
        {"name": f"{op}_{x}", "op": op, "inputs": [x], "outputs": [f"{x}_{op}"]}
        for op in whole
        for x in "fh"
    ]
    g = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "rounded",
            "inputs": [
                {"name": x, "shape": [1024], "dtype": d}
                for x, d in (("f", "float32"), ("h", "float16"), ("i", "int32"))
            ],
            "nodes": nodes,
            "outputs": [n["outputs"][0] for n in nodes],
        }
    )
    built = api.build(g, target="ascend310p", verify_ir=True)
    report = verify_kernel(built.files, g, special=True)
    assert report.ok, "\n".join(map(str, report.diagnostics))
