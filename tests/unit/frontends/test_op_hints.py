"""What to write for ops that graph files do not have."""

import re

import pytest

from autofuse.frontends.onnx.converters.refused import REFUSED
from autofuse.frontends.op_hints import _ADVICE, advice, unknown_op
from autofuse.implgraph.ops.registry import all_ops, find

#: Ops of other frameworks that look like ops of ours.
OTHERS = """
    MatMul BatchMatMul Gemm Conv ConvTranspose Squeeze Split Scatter GatherND Sort Einsum Linear Sum Mean Max Min
    Prod ReduceVar ReduceL2 ReduceL1 ReduceLogSumExp LogSumExp Loop Scan LSTM Resize Shape Size Constant Ones Arange
    Tril Triu Inverse Hardtanh Relu6 Addcmul Addcdiv Lerp And Or CumProd Col2Im Copy Assign Sqr Muls Maxs Rint Tile
    Flip
"""


def test_advice_names_ops_that_graph_files_have() -> None:
    for text in _ADVICE:
        for word in re.findall(r"(?<!\S)[A-Z][A-Za-z0-9]*", text):
            row = find(word)
            assert row is not None, (word, text)
            assert row.user, (word, text)


def test_no_op_of_ours_has_advice() -> None:
    """It would never be read, and another spelling of the op would be sent elsewhere."""
    names = [n for r in all_ops(user=True) for n in (r.name, *r.aliases)]
    assert [n for n in names if advice(n)] == []


def test_no_name_is_there_twice() -> None:
    names = [n for names in _ADVICE.values() for n in names.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", OTHERS.split())
def test_a_name_that_means_something_else_is_not_taken_for_a_slip(name: str) -> None:
    hint = unknown_op(name)
    assert "did you mean" not in hint
    assert len(hint) > len("'autofuse ops' lists the ops")


def test_no_op_that_onnx_has_and_no_kernel_is_taken_for_a_slip() -> None:
    assert [n for n in REFUSED if "did you mean" in unknown_op(n)] == []


@pytest.mark.parametrize(
    ("name", "want"), [("Sofmax", "Softmax"), ("reduce_sum", "ReduceSum"), ("TopKK", None)]
)
def test_a_slip(name: str, want: str | None) -> None:
    hint = unknown_op(name)
    assert hint.startswith(f"did you mean '{want}'?" if want else "'autofuse ops'")
    assert "did you mean" not in unknown_op(name, guess=False)
