"""Addresses that a TPipe hands out, against those of the memory plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse import api
from autofuse.codegen.ir.kernel_ir import Comment, InitBuffer, KernelFn
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import Names, parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.codegen.verification import verify_kernel
from autofuse.codegen.verification.banks import buffers_start_in_their_banks
from autofuse.implgraph.ir.graph import BufferPlan, ImplGraph
from autofuse.targets import load_target

PERIOD = load_target("ascend910b1").arch.bank_period
HALF_BYTES = PERIOD // 2

ROOT = Path(__file__).resolve().parents[4]

Made = tuple[KernelFn, ImplGraph, api.BuildResult]


@pytest.fixture(scope="module")
def made() -> Made:
    built = api.build(ROOT / "examples/adam_like.json")
    impl = built.schedule[0].groups[0].impls[0]
    fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
    return fn, impl, built


def found(made: Made, change: Callable[[list[InitBuffer]], list[InitBuffer]]) -> list[Finding]:
    """Findings on a kernel whose InitBuffers were changed."""
    fn, impl, built = made
    at = [i for i, s in enumerate(fn.body) if isinstance(s, InitBuffer)]
    body = list(fn.body)
    inits = change([s for s in body if isinstance(s, InitBuffer)])
    body[at[0] : at[-1] + 1] = inits
    kernel = Kernel(replace(fn, body=tuple(body)), impl, built.graph, built.target)
    return list(buffers_start_in_their_banks(kernel))


def test_the_addresses_of_the_plan_are_proved_for_every_tile(made: Made) -> None:
    fn, impl, built = made
    assert verify_kernel(fn, impl, built.graph, built.target) == []
    assert {b.bank for b in impl.buffers} == {0, HALF_BYTES, None}
    assert found(made, lambda inits: inits) == []


def test_the_pad_is_explained_in_the_kernel(made: Made) -> None:
    fn, impl, _ = made
    (pad,) = (b for b in impl.buffers if b.pad)
    at = next(
        i for i, s in enumerate(fn.body) if isinstance(s, InitBuffer) and s.name == name(made, pad)
    )
    assert isinstance(fn.body[at - 1], Comment)


def name(made: Made, b: BufferPlan) -> str:
    _, impl, built = made
    return Names(impl, parameter_names(built.graph)).declared(b)


def test_another_order_is_found(made: Made) -> None:
    (finding,) = found(made, lambda inits: [inits[1], inits[0], *inits[2:]])
    assert finding.refuted
    assert "UB is handed out to" in finding.message


def test_a_buffer_without_memory_is_found(made: Made) -> None:
    assert found(made, lambda inits: inits[:-1])


@pytest.mark.parametrize("more", [32, HALF_BYTES, -HALF_BYTES])
def test_another_length_is_found_with_sizes_for_which_it_fails(made: Made, more: int) -> None:
    first = next(b for b in made[1].buffers if b.bank == 0)
    first_name = name(made, first)

    def longer(inits: list[InitBuffer]) -> list[InitBuffer]:
        return [replace(s, nbytes=s.nbytes + more) if s.name == first_name else s for s in inits]

    findings = found(made, longer)
    assert findings
    assert all(f.refuted and f.values is not None for f in findings)
    # Two blocks of it move what follows by a multiple of 512 bytes only if one of them moves by 256.
    assert any(f"bytes of each of the {first_name}" in f.message for f in findings)


def test_a_whole_period_more_changes_no_bank(made: Made) -> None:
    assert not found(made, lambda i: [replace(i[0], nbytes=i[0].nbytes + PERIOD), *i[1:]])


def test_a_claim_that_is_wrong_is_found(made: Made) -> None:
    fn, impl, built = made
    swapped = tuple(
        b if b.bank is None else replace(b, bank=HALF_BYTES - b.bank) for b in impl.buffers
    )
    wrong = replace(impl, buffers=swapped)
    assert any(
        "check buffers_start_in_their_banks" in d.notes and d.severity == "error"
        for d in verify_kernel(fn, wrong, built.graph, built.target)
    )
