"""Functions on vector registers with one mistake each: the static verifier or the twin must see it."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import mutation_run as mutation
import pytest
from mutation_change import statements
from mutation_kernels import Candidate, candidates
from mutation_registers import REGISTERS, register_graphs, with_own_names
from mutation_rules import Mutation, equivalent

from autofuse import api
from autofuse.codegen.backends.ascendc.emit_cpp import emit_function
from autofuse.codegen.ir.calls import VectorFunction
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification import CHECKS
from autofuse.codegen.verification.registers import functions_on_registers_are_whole

#: Of one tree of partial results and of one loop over registers, those that the twin is asked about.
ON_TWIN = {
    "softmax": (
        *("lanes of store y_local 4: all for row", "lanes of fill n0_reducesum_local 1: all"),
        *("without call n0_sub_local 1", "without load x_local 2", "without store y_local 3"),
        *("instead of fill n0_reducesum_local", "instead of join n0_reducesum_local 0"),
        *("without spread n0_reducemax_local", "rows -1", "operands exchanged"),
    ),
    "streamed": (
        *("without loads_wait", "without start n0_reducesum_local 0"),
        *("without join n0_reducesum_local 1 in a loop", "times -1 of loop", "width +1 of loop"),
        *("without load n0_exp_local 0 in a loop", "without store n0_exp_local 2 in a loop"),
    ),
    "weighed": (
        *("load v_gamma_local 1 for load v_gamma_local 0", "without load beta_local 2"),
        "without load v_gamma_local 4",
    ),
    "in_place": (
        *("without stores_wait", "without loads_wait", "without load n0_local 0 in a loop"),
        "without store n0_local 2 in a loop",
    ),
}


@cache
def kernel(name: str) -> tuple[api.BuildResult, tuple[Candidate, ...]]:
    built = api.build(register_graphs()[name], target="ascend950pr")
    return built, tuple(c for c in candidates(built) if c.kind in REGISTERS)


def change(c: Candidate, built: api.BuildResult) -> Mutation:
    assert c.original is not None
    assert c.fn is not None
    assert c.impl is not None
    return Mutation(c.kind, c.original, c.fn, c.impl, built.target, None)


def refuted(m: Mutation, built: api.BuildResult) -> bool:
    kernel = Kernel(m.mutant, m.impl, built.graph, built.target)
    # The check of functions on registers comes first: one finding is enough.
    checks = (functions_on_registers_are_whole, *CHECKS)
    return any(f.refuted for check in checks for f in check(kernel))


@pytest.mark.parametrize("name", register_graphs())
def test_the_verifier_refutes_all_of_them(name: str) -> None:
    built, found = kernel(name)
    assert [c.text for c in found if not refuted(change(c, built), built)] == []


def test_what_the_rule_excuses() -> None:
    """Exchanged operands of a maximum or a sum, masks of a call, and loads of what the register holds: no more."""
    excused: Counter[str] = Counter()
    for name in ("chosen", "softmax", "streamed", "in_place"):
        built, found = kernel(name)
        for c in (c for c in found if equivalent(change(c, built))):
            excused[c.kind] += 1
            if c.kind == "register-operand":
                # "Add to n0_local: ..." of elements, "call n0_local 3: ..." of rows.
                (local,) = re.findall(r": (?:\w+ to|call) (\w+)[^:]*: operands exchanged$", c.text)
                assert c.original is not None
                made = [s for s in statements(c.original.body) if isinstance(s, VectorFunction)]
                (call,) = (s for f in made for s in f.calls if s.writes[0] == local)
                assert call.api in ("Add", "Max", "Mul"), c.text
            elif c.kind == "register-mask":
                assert "lanes of call" in c.text
            else:
                # The sum that is stored over an operand is in its register when it is read again.
                assert "load n0_local" in c.text
    assert excused.keys() == {"register-operand", "register-mask", "register-load"}
    assert min(excused.values()) >= 5


def test_every_class_has_mutants() -> None:
    assert {c.kind for name in ON_TWIN for c in kernel(name)[1]} == set(REGISTERS)


def test_a_mutant_is_one_changed_function() -> None:
    for name in ON_TWIN:
        for c in kernel(name)[1]:
            assert c.original is not None
            assert c.fn is not None
            pairs = zip(statements(c.original.body), statements(c.fn.body), strict=True)
            changed = [(a, b) for a, b in pairs if a != b and isinstance(a, VectorFunction)]
            assert len(changed) == 1


def test_functions_of_several_templates_have_names_of_their_own() -> None:
    c = kernel("streamed")[1][0]
    assert c.original is not None
    text, other = (emit_function(fn) for fn in (c.original, with_own_names(c.original, "_m7")))
    assert "_vf0_m7(" in other
    assert other.replace("_m7", "") == text


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_TWIN)
def test_the_twin_kills(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in mutation.environment(str(tmp_path)).items():
        monkeypatch.setenv(variable, value)
    built, found = kernel(name)
    rows = [c for c in found if c.impl is not None and c.impl.template == "reduce_all"]
    chosen = []
    for text in ON_TWIN[name]:
        named = [c for c in rows if text in c.text]
        assert named, text
        chosen.append(named[-1])
    with mutation.worker_pool() as pool:
        states = {r.text: r.state for r in mutation.rows_of(built, chosen, pool)}
    assert len(states) == len(chosen)
    assert set(states.values()) == {"killed"}, states
