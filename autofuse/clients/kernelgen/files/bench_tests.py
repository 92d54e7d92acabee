"""The tests in KernelGen's format: functions for its module ``bench``, and for its converter.

The converter turns them into FlagGems tests by text patterns.  It takes the first function of the baseline, the whole
accuracy test, and the performance test after its imports.  It renames every function and replaces
``bench.X(``, ``to_reference(x, True)``, ``= device`` and ``assert_close(a, b, dtype...)`` if on one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.files.naming import operator_name

__all__ = ["accuracy_test", "performance_test"]

_IMPORTS = """\
import bench
from bench.sandbox.test.test_parametrize import parametrize, label
from bench.sandbox.config import DEVICE as device
"""


def accuracy_test(cases: Cases, sizes: Sequence[Mapping[str, int]]) -> str:
    """Return the accuracy test: each output within the tolerance of its dtype, for several scales of the data.

    Args:
        cases: test data of the operator.
        sizes: sizes of the symbols, one entry per case.
    """
    name = operator_name(cases.graph)
    floats = all(t.dtype.kind == "f" for _, t in cases.signature.tensors())
    # The converter reduces the first call to a copy on the CPU, and converts indices to floats.
    kind = "torch.float64"
    if not floats:
        kind = "torch.float64 if input.is_floating_point() else input.dtype"
    body = [
        *cases.unpacked(),
        *_list("inputs", cases.inputs(scale="scale")),
        f"res_out = bench.triton.{name}({cases.call('inputs', 'input')})",
        f"references = [to_reference(input, True).to({kind}) for input in inputs]",
        f"ref_out = bench.{name}({cases.call('references')})",
        *_compared(cases),
    ]
    head = [
        f"# Accuracy of {name}: the kernel against the baseline.",
        *_IMPORTS.splitlines(),
        "from bench.sandbox.utils.accuracy_utils import gems_assert_close as assert_close",
        "from bench.sandbox.utils.accuracy_utils import to_reference",
        "import torch",
        "",
        "",
        f'@label("{name}")',
        *_parameters(cases, sizes),
    ]
    scales = cases.recipes[1]
    head.append(f'@parametrize("scale", {list(scales)})')
    return _text(head, f"def test_{name}(shape, dtype, scale):", body)


def performance_test(cases: Cases, sizes: Sequence[Mapping[str, int]]) -> str:
    """Return the performance test: both functions on the same tensors, dtype and device.

    Args:
        cases: test data of the operator.
        sizes: sizes of the symbols, one entry per case.
    """
    name = operator_name(cases.graph)
    call = cases.call("inputs")
    timed = "triton.testing.do_bench(lambda: {}, rep=100, quantiles=quantiles)"
    body = [
        "from bench_v2.sandbox.test.perfermance.attri_util import CustomBenchmarkResult",
        "import triton",
        "",
        "quantiles = [0.5, 0.2, 0.8]",
        *cases.unpacked(),
        *_list("inputs", cases.inputs()),
        f"ms_torch, _, _ = {timed.format(f'bench.{name}({call})')}",
        f"ms_triton, _, _ = {timed.format(f'bench.triton.{name}({call})')}",
        "speedup = ms_torch / ms_triton",
        "return CustomBenchmarkResult(ref_time=ms_torch, res_time=ms_triton, speedup=speedup)",
    ]
    head = [
        f"# Performance of {name}: milliseconds of the baseline and of the kernel.",
        *_IMPORTS.splitlines(),
        "import torch",
        "",
        "",
        f'@label("{name}_benchmark")',
        *_parameters(cases, sizes),
    ]
    return _text(head, f"def {name}_benchmark(shape, dtype):", body)


def _text(head: Sequence[str], line: str, body: Sequence[str]) -> str:
    lines = (f"    {x}" if x else "" for x in body)
    return "\n".join((*head, line, *lines, ""))


def _parameters(cases: Cases, sizes: Sequence[Mapping[str, int]]) -> list[str]:
    shapes = ", ".join(map(str, dict.fromkeys(cases.shapes(sizes))))
    return [f'@parametrize("shape", [{shapes}])', f'@parametrize("dtype", [{cases.dtype}])']


def _list(name: str, items: Sequence[str]) -> list[str]:
    if len(items) == 1:
        return [f"{name} = [{items[0]}]"]
    return [f"{name} = [", *(f"    {x}," for x in items), "]"] if items else [f"{name} = []"]


def _compared(cases: Cases) -> list[str]:
    kinds, reduced = cases.results(), cases.reduced()
    lines = []
    if not reduced.isdigit():
        # No parenthesis may follow the dtype.
        lines, reduced = [f"reduce_dim = {reduced}"], "reduce_dim"
    if len(kinds) > 1:
        pairs = f"zip(res_out, ref_out, [{', '.join(kinds)}])"
        lines.append(f"for res, ref, dtype in {pairs}:")
        lines.append("    ref = ref.to(dtype)")
        return [*lines, f"    assert_close(res, ref, dtype, reduce_dim={reduced})"]
    if kinds[0] != cases.dtype:
        lines.append(f"dtype = {kinds[0]}")
    lines.append("ref_out = ref_out.to(dtype)")
    return [*lines, f"assert_close(res_out, ref_out, dtype, reduce_dim={reduced})"]
