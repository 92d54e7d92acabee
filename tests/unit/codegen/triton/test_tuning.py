"""Tuning files: what is read, what is refused and where; the present blocks in a file change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.codegen.backends.triton.blocks import LOST, MOST_PARTS, rows_in_registers
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.targets import load_gpu

GPU = load_gpu("nvidia-h100")
GALLERY = sorted((Path(__file__).parents[4] / "examples" / "gallery").glob("*.json"))


def softmax(cols: int | str = 1000, rows: int | str = 64, name: str = "soft") -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": {s: {"max": 1 << 16} for s in (rows, cols) if isinstance(s, str)},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [rows, cols]}],
        "nodes": [
            {"name": "n", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 1}}
        ],
        "outputs": ["y"],
    }


def total(cols: int = 1 << 20) -> dict[str, Any]:
    made = softmax(cols, 1, "total")
    made["nodes"][0] |= {"op": "ReduceSum", "attrs": {"axes": [1], "keepdims": True}}
    return made


def own(source: Any) -> Tuning:
    built = api.build(source, target=GPU)
    return Tuning.of(plan(built.graph, built.hint, GPU), GPU)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes the tuning file of a graph, with changes of the first kernel and of other fields."""

    def write(source: Any, changes: Mapping[str, Any] = {}, **fields: Any) -> Path:
        document = own(source).to_json()
        kernels: Any = document["kernels"]
        if kernels:
            kernels[0] |= changes
        path = tmp_path / "blocks.json"
        path.write_text(json.dumps(document | fields, indent=1), encoding="utf-8")
        return path

    return write


def refused(path: Path, source: Any, target: str = "nvidia-h100") -> Diagnostic:
    """The one finding of a build."""
    with pytest.raises(AutofuseError) as e:
        api.build(source, target=target, tuning=path)
    (found,) = e.value.diagnostics
    return found


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_the_present_blocks_change_nothing(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(own(path).text(), encoding="utf-8")
    assert api.build(path, target=GPU, tuning=file).files == api.build(path, target=GPU).files


def test_what_is_given_is_launched(written: Callable[..., Path]) -> None:
    file = written(softmax(), {"rows": 4, "warps": 16})
    text = api.build(softmax(), target=GPU, tuning=file).files["soft_triton.py"]
    assert "soft_rows((triton.cdiv(64, 4), 1, 1), (x, y), ROWS=4, COLS=1024, num_warps=16)" in text


def test_parts_divide_a_row(tmp_path: Path) -> None:
    found = own(softmax()).to_json()
    found["kernels"] = [{"name": "soft_rows", "parts": 4}]
    file = tmp_path / "parts.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    text = api.build(softmax(), target=GPU, tuning=file).files["soft_triton.py"]
    assert "PARTS=4, COLS=256" in text
    assert "num_ctas=4" in text


def test_chunks_decide_the_scratch_and_the_next_kernel(written: Callable[..., Path]) -> None:
    file = written(total(), {"chunks": 132}, kernels=[{"name": "total_loop", "chunks": 132}])
    text = api.build(total(), target=GPU, tuning=file).files["total_triton.py"]
    assert "partial = torch.empty(132, " in text
    assert "(1, 132, 1)" in text


WRONG: dict[str, tuple[Mapping[str, Any], str]] = {
    "no power of 2": ({"warps": 3}, "warps is 3, but must be a power of 2"),
    "threads": ({"warps": 64}, "warps is 64; a block has at most 32"),
    "cluster": ({"parts": 32}, "parts is 32; a cluster has at most 16 blocks"),
    "a short row": ({"cols": 512}, "cols is 512: 1 x 512 is less than a row of 1000"),
    "a long row": ({"cols": 2048}, "cols is 2048, but the kernel has 1000 cols"),
    "no such size": ({"chunks": 2}, "of the form rows, has no chunks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_sizes_that_cannot_be(written: Callable[..., Path], case: str) -> None:
    changes, text = WRONG[case]
    found = refused(written(softmax(), changes), softmax())
    assert (found.code, found.message) == ("AF3007", f"kernel soft_rows: {text}")
    (key,) = changes
    assert found.where.pointer == f"/kernels/0/{key}"
    assert found.where.line > 1


def test_blocks_that_triton_does_not_compile(written: Callable[..., Path]) -> None:
    found = refused(written(softmax(), {"parts": 16, "rows": 8}), softmax())
    assert "rows is 8: Triton cannot compile it in a cluster of 16 blocks" in found.message


def test_they_are_never_chosen() -> None:
    found = [
        rows_in_registers(rows, cols, held, outer, least)
        for rows in (1, 3, 4, 8, 9, 1000)
        for cols in (1 << k for k in range(20))
        for held in (1, 2, 4)
        for outer in (False, True)
        for least in (1, 132)
    ]
    largest = {b.rows for b in found if b is not None and b.parts == MOST_PARTS}
    assert largest
    assert largest.isdisjoint(LOST)


def test_rows_that_do_not_fit(written: Callable[..., Path]) -> None:
    source = softmax(1000, 4096)
    found = refused(written(source, {"rows": 128}), source)
    assert "131072 values of a block do not fit 65536 registers" in found.message
    source = softmax(1000, 3)
    found = refused(written(source, {"rows": 8}), source)
    assert found.message == "kernel soft_rows: rows is 8, but the kernel has 3 rows"
    source = softmax(16384, 4096)
    found = refused(written(source, {"warps": 1}), source)
    assert "warps is 1: 16384 values of a block do not fit 255 registers" in found.message


def test_chunks_programs_and_stages() -> None:
    backward = next(p for p in GALLERY if p.stem == "layer_norm_backward")
    cases: tuple[tuple[Any, str, int, str], ...] = (
        (total(), "chunks", 1 << 16, ""),
        (backward, "programs", 2113, "programs is 2113; the card has room for 2112 at once"),
        (backward, "stages", 9, "stages is 9, but must be at most 8"),
        (total(), "stages", 0, "stages is 0, but must be at least 1"),
    )
    for source, key, value, text in cases:
        tuning = own(source)
        sizes = {**tuning.kernels[0].sizes, key: value}
        changed = _with(tuning, sizes)
        if not text:
            assert api.build(source, target=GPU, tuning=changed).files
            continue
        with pytest.raises(AutofuseError, match=f"AF3007: kernel .*: {text}"):
            api.build(source, target=GPU, tuning=changed)


def _with(tuning: Tuning, sizes: dict[str, int]) -> Tuning:
    return replace(tuning, kernels=(replace(tuning.kernels[0], sizes=sizes),))


STALE: dict[str, tuple[dict[str, Any], str, str]] = {
    "digest": ({"digest": "0" * 64}, "for a different version of the graph 'soft'", "/digest"),
    "graph": ({"graph": "x):\n"}, "for graph 'x):\\n', not for 'soft'", "/graph"),
    "target": ({"target": "nvidia-h200"}, "for target 'nvidia-h200'", "/target"),
    "kernel": ({"kernels": [{"name": "../x"}]}, "there is no kernel '../x'", "/kernels/0/name"),
}


@pytest.mark.parametrize("case", STALE)
def test_files_for_something_else(written: Callable[..., Path], case: str) -> None:
    fields, text, pointer = STALE[case]
    found = refused(written(softmax(), **fields), softmax())
    assert found.code == "AF3007"
    assert text in found.message
    assert found.where.pointer == pointer
    assert found.where.line > 1


def test_another_size_is_another_graph(written: Callable[..., Path]) -> None:
    assert refused(written(softmax()), softmax(999)).where.pointer == "/digest"


def test_blocks_that_are_chosen_at_the_call(written: Callable[..., Path]) -> None:
    source = softmax("cols", "rows")
    names = [k.name for k in own(source).kernels]
    assert names == ["soft_loop"]
    found = refused(written(source, kernels=[{"name": "soft_rows", "rows": 2}]), source)
    assert (
        found.message
        == "kernel soft_rows chooses its blocks at the call because the length of its rows is a symbol"
    )


FIELDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown key": ({"kernels": [{"name": "soft_rows", "row": 2}]}, "AF1102", "/kernels/0/row"),
    "no integer": ({"kernels": [{"name": "soft_rows", "rows": 2.5}]}, "AF1103", "/kernels/0/rows"),
    "zero": ({"kernels": [{"name": "soft_rows", "rows": 0}]}, "AF1104", "/kernels/0/rows"),
    "true": ({"kernels": [{"name": "soft_rows", "rows": True}]}, "AF1103", "/kernels/0/rows"),
    "twice": ({"kernels": [{"name": "soft_rows"}] * 2}, "AF1106", "/kernels/1/name"),
    "no name": ({"kernels": [{}]}, "AF1101", "/kernels/0"),
    "a short digest": ({"digest": "ab"}, "AF1104", "/digest"),
    "another schema": ({"schema": "autofuse.graph/1"}, "AF1004", "/schema"),
}


@pytest.mark.parametrize("case", FIELDS)
def test_fields(written: Callable[..., Path], case: str) -> None:
    fields, code, pointer = FIELDS[case]
    found = refused(written(softmax(), **fields), softmax())
    assert (found.code, found.where.pointer) == (code, pointer)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.json", softmax()).code == "AF1001"
    assert refused(tmp_path, softmax()).code == "AF1001"
    broken = tmp_path / "broken.json"
    broken.write_text("[1,", encoding="utf-8")
    assert refused(broken, softmax()).code == "AF1002"


@pytest.mark.parametrize(
    ("target", "code"), [("ascend910b1", "AF3007"), ("triton-ascend910b1", "AF3007")]
)
def test_other_targets(written: Callable[..., Path], target: str, code: str) -> None:
    assert refused(written(softmax()), softmax(), target).code == code
