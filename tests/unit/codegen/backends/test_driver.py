"""The driver of several kernels: keys, pieces of the workspace, names in its text."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.host.driver import (
    RENAMED,
    _radixes,
    part_unit,
)

LIMIT = (1 << 32) - 1


def key_of(choices: Sequence[int], radixes: Sequence[int]) -> int:
    return sum(c * r for c, r in zip(choices, radixes, strict=True))


def test_keys_are_dense_and_the_last_part_varies_fastest() -> None:
    counts = [2, 1, 3, 2]
    radixes, total = _radixes(counts)
    assert (radixes, total) == ([6, 6, 2, 1], 12)
    every = [key_of((a, 0, c, d), radixes) for a in range(2) for c in range(3) for d in range(2)]
    assert every == list(range(12))


def test_parts_whose_digits_do_not_fit_a_key_have_none() -> None:
    radixes, total = _radixes([5] * 20)
    assert total == 5**13 <= LIMIT < 5**14
    assert radixes == [0] * 7 + [5**k for k in range(12, -1, -1)]
    assert key_of([4] * 20, radixes) == total - 1
    assert _radixes([LIMIT, 1, 1]) == ([1, 1, 1], LIMIT)
    assert _radixes([2, LIMIT, 1]) == ([0, 1, 1], LIMIT)


def chain_with_skips(length: int, seed: int) -> dict[str, Any]:
    """Every node takes the one before and some older one; shapes of several sizes pass on."""
    rng = Random(seed)
    names = ["x"]
    nodes = []
    for k in range(length):
        nodes.append(
            {
                "name": f"n{k}",
                "op": "Maximum",
                "inputs": [names[-1], rng.choice(names)],
                "outputs": [f"y{k}"],
            }
        )
        names.append(f"y{k}")
    return {
        "schema": "autofuse.graph/1",
        "name": "skips",
        "symbols": {"n": {"min": 1, "max": 1000}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}],
        "nodes": nodes,
        "outputs": [names[-1]],
    }


@pytest.mark.parametrize("seed", range(6))
def test_tensors_that_are_needed_at_the_same_time_share_no_piece(seed: int) -> None:
    graph = chain_with_skips(12, seed)
    built = api.build_split(graph, cut_after=[f"n{k}" for k in range(1, 11, 2)])
    manifest = json.loads(built.files["skips.split.json"])
    held = [(p["piece"], p["maker"], max(p["users"])) for p in manifest["passed"]]
    held += [
        (p["workspace"]["piece"], k, k)
        for k, p in enumerate(manifest["parts"])
        if p["workspace"]["bytes"] != 0
    ]
    for i, (piece, first, last) in enumerate(held):
        assert piece < manifest["pieces"]
        for other, begin, end in held[i + 1 :]:
            assert piece != other or last < begin or end < first
    # As few pieces as tensors are alive at once: intervals need no more.
    alive = max(sum(a <= k <= b for _, a, b in held) for k in range(len(manifest["parts"])))
    assert manifest["pieces"] == max(alive, 1)


def test_a_part_is_renamed_throughout() -> None:
    unit = part_unit("g_part0", ["device/g_part0_kernel.cpp", "host/g_part0_tiling.cpp"])
    for name in RENAMED:
        assert f"#define {name} g_part0_{name}\n" in unit
    assert "#define AutofuseTilingData g_part0_TilingData\n" in unit
    assert unit.endswith(
        '#include "device/g_part0_kernel.cpp"\n#include "host/g_part0_tiling.cpp"\n'
    )


def test_every_function_that_all_kernels_have_is_renamed() -> None:
    """What a part defines under a name without its own in it would clash with the driver and the other parts."""
    built = api.build(chain_with_skips(3, 0))
    found: set[str] = set()
    for path, text in built.files.items():
        if path.endswith(".cpp"):
            found |= set(re.findall(r'extern "C" (?!__global__)[\w* ]+?\*? ?(\w+)\(', text))
    assert found == set(RENAMED)


def test_an_entry_without_a_launcher_has_no_driver() -> None:
    cut = [n.name for n in api.read(chain_with_skips(3, 0)).nodes][:1]
    with pytest.raises(AutofuseError) as e:
        api.build_split(chain_with_skips(3, 0), entry="op-package", cut_after=cut)
    assert e.value.diagnostics[0].code == "AF5007"


def test_names_in_comments_stay_in_their_line() -> None:
    graph = api.read(chain_with_skips(4, 0))
    odd = {"y0": "y\n;int z", "y1": "y\\", "x": "x\t"}

    def named(x: Any) -> Any:
        return odd.get(x, x) if isinstance(x, str) else x

    graph = replace(
        graph,
        inputs=tuple(named(x) for x in graph.inputs),
        nodes=tuple(
            replace(
                n,
                inputs=tuple(named(x) for x in n.inputs),
                outputs=tuple(named(x) for x in n.outputs),
            )
            for n in graph.nodes
        ),
        tensors={named(x): replace(t, name=named(x)) for x, t in graph.tensors.items()},
    )
    text = api.build_split(graph, cut_after=["n1"]).files["host/skips_driver.cpp"]
    assert "\\\n" not in text
    assert not re.search(r"^;int z", text, re.M)
