"""The comparison with the vendor's compiler for 950, with a program that stands in for it."""

import json
import sys
from pathlib import Path

import compare_a5
import pytest

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: It prints a kernel whose function loads two registers of 64 elements and stores one, for 1,024 rows of 256.
PROGRAM = """\
#!{python}
import sys
if "--version" in sys.argv:
    print("bishengir-compile 0.0")
    sys.exit()
if "--vf-fusion-mode=all-op" in sys.argv:
    sys.exit("graph.mlir: error: too large")
print('''func.func @f(%arg0: memref<?xf32>, %arg1: index) attributes {{hivm.vector_function}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %arg2 = %c0 to %arg1 step %c1 {{
    %a, %b = ave.hir.vload <DINTLV_B32> %arg0[%c0] : memref<?xf32> into vector<64xf32>, vector<64xf32>
    %0 = ave.hir.pge <ALL> : vector<64xi1>
    %1 = ave.hir.vadd %a, %b, %0 : vector<64xf32>, vector<64xi1>
    ave.hir.masked_store <NORM_B32> %arg0[%c0], %0, %1 : memref<?xf32>, vector<64xi1>, vector<64xf32>
  }}
}}
func.func @k_0(%arg0: memref<?xf32>) attributes {{hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}} {{
  %c = arith.constant {steps} : index
  call @f(%arg0, %c) {{hivm.vector_function}} : (memref<?xf32>, index) -> ()
}}''')
sys.exit(1)
"""


def program(folder: Path, steps: int) -> Path:
    path = folder / "bishengir-compile-a5"
    path.write_text(PROGRAM.format(python=sys.executable, steps=steps))
    path.chmod(0o755)
    return path


def graph(name: str) -> compare_a5.Graph:
    (found,) = [g for g in compare_a5.graphs() if g.name == name]
    return found


def test_counts_of_both_are_beside_each_other(tmp_path: Path) -> None:
    (row,) = compare_a5.rows([graph("exp(x + y) x")], program(tmp_path, 2 * 4096), tmp_path)
    assert (row.ours.functions, row.ours.loads, row.ours.stores) == (1, 2.0, 1.0)
    assert (row.ours.operations, row.ours.masks, row.ours.others) == (3.0, 1.0, ())
    assert row.theirs is not None
    assert (row.theirs.functions, row.theirs.loads, row.theirs.stores) == (1, 4.0, 2.0)
    text = compare_a5.table([row])
    assert "| exp(x + y) x | 2.00 | 1.00 | 3.0 | 1 | 4.00 | 2.00 | 2.0 | 1 | 2.00 |" in text
    (columns,) = {line.count("|") for line in text.splitlines()}
    assert columns == 11
    assert "1 graphs: the vendor's kernels have more accesses to UB in 1, fewer in 0" in (
        compare_a5.summary([row])
    )


def test_calls_on_ub_are_counted_by_their_tensors() -> None:
    one = graph("x + y")
    found = compare_a5.ours(one).per(one.elements / 64)
    assert (found.functions, found.loads, found.stores, found.others) == (0, 2.0, 1.0, ("Add",))


def test_a_graph_with_fewer_accesses_of_the_vendor_is_an_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    less = program(tmp_path, 4096 // 2)
    called = ["compare_a5.py", "--bishengir", str(less), "--only", "x + y"]
    monkeypatch.setattr(sys, "argv", called)
    one = graph("x + y")
    monkeypatch.setattr(compare_a5, "graphs", lambda: [one])
    assert compare_a5.main() == 1
    out = capsys.readouterr().out
    assert "fewer in 1: x + y (0.50)" in out
    assert out.splitlines()[-1] == "bishengir-compile 0.0"
    monkeypatch.setattr(sys, "argv", [*called, "--json"])
    assert compare_a5.main() == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["theirs"]["loads"] == 1.0


def test_a_program_that_fails_is_a_row_with_the_reason(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\necho 'graph.mlir: error: too large' >&2\nexit 1\n")
    bad.chmod(0o755)
    found, _, why = compare_a5.theirs(graph("x + y"), bad, tmp_path)
    assert (found, why) == (None, "too large")
