"""Kernels with one small mistake each: the static verifier must see all of those that change what a kernel does."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutation import CLASSES, Mutant, mutants
from mutation_rules import Mutation, equivalent

from autofuse import api
from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.model import legal_tiles
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.targets import load_target

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = (
    *(f"tests/snapshot/graphs/{n}.json" for n in ("bias_unaligned", "broadcast_middle", "in_out")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("compare_select", "runtime_scalar", "copy")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("symbolic_rows", "tmp_buffer", "two_groups")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("in_out_read_by_all", "broadcast_trailing")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("softmax", "reduce_columns", "reduce_twice")),
    *(f"tests/snapshot/graphs/{n}.json" for n in ("norm_online", "log_sum_exp", "softmax_shared")),
    "tests/snapshot/graphs/column_sums.json",
    *(
        f"tests/snapshot/graphs/{n}.json"
        for n in ("gather_rows", "running_sum", "running_sum_rows", "staggered", "long_rows")
    ),
    *(f"examples/{n}.json" for n in ("demo", "add_bias_dynamic", "where_mask")),
)
#: With loads of several dimensions, which not every chip has.
DIMS = "tests/snapshot/graphs/transpose_64_bits.json"
CHIP, WITH_DIMS = load_target("ascend910b1"), load_target("ascend950pr")


def without_tails(impl: ImplGraph) -> bool:
    """Every legal tile divides the tiled axis, which is short."""
    extent = impl.tiling.opened.extent.as_int()
    if extent is None or impl.symbols:
        return extent is not None and extent <= impl.tiling.opened.granule
    return all(extent % t == 0 for t in legal_tiles(impl, {}, most=1 << 20)) and extent < 1000


def harmless(m: Mutant, fn: KernelFn, impl: ImplGraph) -> bool:
    """A tail that there is not; what the rules excuse: elements behind the end, barriers that a queue replaces."""
    if m.kind == "drop-tail":
        return without_tails(impl)
    asked = m.kind in ("call-count", "reduce-shape", "delete-barrier")
    return asked and bool(equivalent(Mutation(m.kind, fn, m.fn, impl, CHIP, None)))


def outcomes(name: str) -> Iterator[tuple[Mutant, str]]:
    chip = WITH_DIMS if name == DIMS else CHIP
    built = api.build(ROOT / name, target=chip)
    tensors = parameter_names(built.graph)
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        fn = run_passes(lower_kernel(impl, tensors, chip))
        for m in mutants(fn):
            found = verify_kernel(m.fn, impl, built.graph, chip)
            severity = {d.severity for d in found}
            state = "killed" if "error" in severity else "noted" if found else "survived"
            yield m, "equivalent" if state != "killed" and harmless(m, fn, impl) else state


@pytest.mark.parametrize("name", [*GRAPHS, DIMS], ids=lambda n: Path(n).stem)
def test_mutants_are_killed(name: str, record_property: pytest.FixtureRequest) -> None:
    count: Counter[tuple[str, str]] = Counter()
    alive = []
    for m, state in outcomes(name):
        count[m.kind, state] += 1
        if state not in ("killed", "equivalent"):
            alive.append(f"{m.fn.name}: {m.kind}: {m.text} ({state})")
    assert not alive, "\n".join(alive)
    record_property("mutants", {f"{k} {s}": n for (k, s), n in sorted(count.items())})  # type: ignore[operator]


def test_every_class_has_mutants() -> None:
    seen = {
        m.kind
        for n in (
            *("examples/demo.json", *GRAPHS[:1], "tests/snapshot/graphs/softmax.json"),
            "tests/snapshot/graphs/gather_rows.json",
            DIMS,
        )
        for m, _ in outcomes(n)
    }
    assert seen == set(CLASSES)
