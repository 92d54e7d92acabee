"""The accuracy test finds what is planted: in kernels, in baselines, for strides, special numbers, sizes and dtypes."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.state_format import Accuracy
from autofuse.clients.kernelgen.testing.accuracy import Pair, accuracy, tolerance_of, workers
from autofuse.implgraph.ir.fusion import FusionGraph

pytestmark = pytest.mark.triton

RIGHT = "return (x * x + 1.0).contiguous()"


def graph_of(dtype: str = "float32") -> FusionGraph:
    return api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "op",
            "symbols": {"rows": {"min": 0, "max": 4096}},
            "inputs": [{"name": "x", "dtype": dtype, "shape": ["rows", 24]}],
            "nodes": [
                {"name": "square", "op": "Mul", "inputs": ["x", "x"], "outputs": ["s"]},
                {"name": "one", "op": "Add", "inputs": ["s", {"const": 1.0}], "outputs": ["y"]},
            ],
            "outputs": ["y"],
        }
    )


def module(body: str) -> str:
    return f"import os\n\nimport torch\n\n\ndef op(x):\n    {body}\n"


Outcomes: TypeAlias = Callable[..., dict[tuple[int, str], Accuracy]]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    """Cases of the accuracy test, by rows and kind of data; PyTorch is imported once for all of them."""
    with workers("cpu") as pool:

        def run(
            kernel: str, baseline: str = RIGHT, dtype: str = "float32", **options: object
        ) -> dict[tuple[int, str], Accuracy]:
            pair = Pair(graph_of(dtype), "op", module(kernel), module(baseline))
            sizes = [{"rows": 33}, {"rows": 512}]
            found = accuracy(pair, sizes, pool=pool, **options)  # type: ignore[arg-type]
            return {(c.sizes["rows"], c.data): c for c in found}

        yield run


def failed(cases: Mapping[tuple[int, str], Accuracy]) -> set[tuple[int, str]]:
    return {k for k, c in cases.items() if not c.ok}


def test_what_is_right_passes_at_every_size_and_with_all_data(outcomes: Outcomes) -> None:
    cases = outcomes(RIGHT)
    assert failed(cases) == set()
    assert {data for _, data in cases} == {"random", "special", "strided"}
    assert {0, 1, 33, 512} <= {rows for rows, _ in cases}
    for c in cases.values():
        (d,) = c.outputs
        assert d.error.status == "twin"
        assert d.error.by["interpreter"].startswith("triton ")
        assert d.max_diff is not None
        assert d.max_diff.value == 0.0
        assert d.document is True
    assert cases[33, "random"].outputs[0].elements == 33 * 24


def test_a_kernel_that_is_wrong_fails_against_the_oracle(outcomes: Outcomes) -> None:
    cases = outcomes("return x * x + 1.001")
    wrong = cases[33, "random"]
    assert not wrong.ok
    assert wrong.outputs[0].wrong == 33 * 24
    assert wrong.outputs[0].error.value == pytest.approx(0.001, rel=0.02)
    assert (0, "random") not in failed(cases)


def test_both_may_not_be_wrong_alike(outcomes: Outcomes) -> None:
    cases = outcomes("return x * x", "return x * x")
    assert (33, "random") in failed(cases)
    assert cases[33, "random"].outputs[0].apart == 0


def test_a_baseline_of_another_function_is_found(outcomes: Outcomes) -> None:
    cases = outcomes(RIGHT, "return x * x + 1.1")
    wrong = cases[33, "random"]
    assert not wrong.ok
    assert "differ from the baseline" in wrong.reason
    assert wrong.outputs[0].wrong == 0
    assert wrong.outputs[0].apart > 0
    assert wrong.outputs[0].max_diff is not None
    assert wrong.outputs[0].max_diff.value == pytest.approx(0.1, rel=0.01)
    assert wrong.outputs[0].document is False


@pytest.mark.parametrize(
    ("kernel", "where"),
    [
        ("return torch.nan_to_num(x * x + 1.0)", "special"),
        ("return x.as_strided(x.shape, (24, 1)) ** 2 + 1.0", "strided"),
    ],
)
def test_faults_of_some_data_alone_are_found(outcomes: Outcomes, kernel: str, where: str) -> None:
    assert {data for _, data in failed(outcomes(kernel))} == {where}


def test_a_fault_of_a_tail_is_found(outcomes: Outcomes) -> None:
    cases = outcomes("y = x * x + 1.0; y[:, 16:] = 0.0 if x.shape[0] % 2 else y[:, 16:]; return y")
    assert {rows % 2 for rows, _ in failed(cases)} == {1}


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("return torch.empty_like(x)", "not written"),
        ("return (x * x + 1.0).double()", "float64"),
        ("raise ValueError('no such blocks')", "no such blocks"),
        ("os._exit(3)", "did not return"),
        ("y = x * x + 1.0; x.zero_(); return y", "overwrites its input"),
    ],
)
def test_what_else_can_go_wrong_is_told(outcomes: Outcomes, kernel: str, said: str) -> None:
    cases = outcomes(kernel, few=True)
    assert not cases[33, "random"].ok
    assert said in cases[33, "random"].reason


def test_a_baseline_that_does_not_run_is_told(outcomes: Outcomes) -> None:
    cases = outcomes(RIGHT, "raise RuntimeError('not in this version')", few=True)
    assert set(cases) == {(33, "random"), (512, "random")}
    assert "the baseline does not run" in cases[33, "random"].reason
    assert cases[33, "random"].outputs[0].max_diff is None


def test_sixteen_bits_may_round_between_ops(outcomes: Outcomes) -> None:
    rounded = "return (x * x + 1.0).contiguous()"
    kernel = "return (x.float() * x.float() + 1.0).to(x.dtype)"
    cases = outcomes(kernel, rounded, "bfloat16")
    assert failed(cases) == set()
    assert {data for _, data in cases} == {"random", "strided"}
    assert tolerance_of(graph_of("bfloat16")) > tolerance_of(graph_of("float16"))
    far = outcomes(kernel, "return x * x + 3.0", "bfloat16", few=True)
    assert "differ from the baseline" in far[512, "random"].reason


def test_a_device_that_is_not_there_is_told(outcomes: Outcomes) -> None:
    with pytest.raises(AutofuseError) as error:
        outcomes(RIGHT, device="gpu")
    assert error.value.diagnostics[0].code == "AF5007"
