"""What the text of a vendor's kernel is counted as: loops, calls, masks, registers of an instruction."""

import pytest
from a5_counts import Accesses, TextError, a5_counts

#: Two tiles, of 100 and 28 rows, of 128 numbers: a function goes through the rows, another one through one register.
TEXT = """\
noise
func.func @rows(%arg0: memref<?x128xf32>, %arg1: index) attributes {hivm.vector_function, no_inline} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %0 = ave.hir.pge <ALL> : vector<64xi1>
  scf.for %arg2 = %c0 to %arg1 step %c1 {
    %1:2 = scf.for %arg3 = %c0 to %c128 step %c64 iter_args(%arg4 = %0, %arg5 = %0) -> (v, v) {
      %res = ave.hir.vload <NORM> %arg0[%arg3] : memref<?x128xf32> into vector<64xf32>
      %2 = ave.hir.vexp %res, %0 : vector<64xf32>, vector<64xi1>
      ave.hir.masked_store <NORM_B32> %arg0[%arg3], %0, %2 : memref<?x128xf32>, vector<64xi1>, vector<64xf32>
    }
    %a, %b = ave.hir.vload <DINTLV_B32> %arg0[%c0] : memref<?x128xf32> into vector<64xf32>, vector<64xf32>
    ave.hir.membar <VST_VLD>
  }
  return
}

func.func @one(%arg0: memref<64xf16>) attributes {hivm.vector_function} {
  %0 = ave.hir.pltm %arg0 : vector<64xi1>
  %1 = ave.hir.broadcast %arg0, %0 : f32, vector<64xi1> -> vector<64xf32>
  return
}

func.func @k_0(%arg0: memref<128x128xf32>) attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>} {
  %c0 = arith.constant 0 : index
  %c100 = arith.constant 100 : index
  %c128 = arith.constant 128 : index
  scf.for %arg1 = %c0 to %c128 step %c100 {
    %0 = affine.min affine_map<(d0) -> (-d0 + 128, 100)>(%arg1)
    %1 = affine.apply affine_map<(d0)[s0] -> (d0 * 2 + s0 - 128 floordiv 3 + 7 mod 4)>(%arg1)[%c128]
    func.call @rows(%arg0, %0) {hivm.vector_function} : (memref<128x128xf32>, index) -> ()
    call @one(%arg0) {hivm.vector_function} : (memref<128x128xf32>) -> ()
  }
  hivm.hir.vtranspose ins(%arg0) outs(%arg0)
  return
}

func.func @k(%arg0: memref<128x128xf32>) attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<HOST>} {
  call @k_0(%arg0) : (memref<128x128xf32>) -> ()
  return
}
"""


def test_everything_is_counted_as_often_as_it_runs() -> None:
    found = a5_counts(TEXT)
    assert found == Accesses(
        functions=2,
        loads=128 * 2 + 128 * 2,
        stores=128 * 2,
        operations=128 * 2 + 2,
        masks=2 + 2,
        others=("vtranspose",),
    )
    assert found.accesses == 3 * 256
    per = found.per(256)
    assert (per.functions, per.loads, per.stores) == (2, 2.0, 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no kernel"),
        (TEXT.replace("@one(%arg0) {", "@other(%arg0) {"), "no text of other"),
        (TEXT.replace("%c100 = arith.constant 100 : index", "%c100 = memref.dim %arg0"), "%c100"),
        (TEXT.replace("scf.for %arg1", "scf.while %arg1"), "no loop"),
        (TEXT.replace("(-d0 + 128, 100)", "(-d0 + import, 100)"), "no sum"),
    ],
)
def test_what_is_not_understood_is_said(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        a5_counts(text)
