"""What users' models do that single modules do not show; several were found by writing such models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import autofuse.clients.torch
from autofuse.base.diagnostics import AutofuseError

pytestmark = pytest.mark.twin

OPTIONS = {"target": "ascend910b1", "opt": "-O0", "min_ops": 1, "fallback": "error"}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="autofuse", options=OPTIONS, **how)


# views with gaps --------------------------------------------------------------------------------


def heads(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of an attention out of one tensor with queries and keys, through a product."""
    qkv = (x * 2.0 + 1.0).view(2, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
    v = qkv[2]
    return v.permute(0, 2, 1, 3).reshape(14, 16) @ w, v


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_view_of_a_piece_of_a_result(dynamic: bool) -> None:
    """The kernel writes the piece alone, in an order in which PyTorch's views of it are views still."""
    x, w = torch.randn(2, 7, 48), torch.randn(16, 5)
    for a, b in zip(compiled(heads, dynamic=dynamic)(x, w), heads(x, w), strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    assert autofuse.clients.torch.report().graphs[0].fused


def test_a_piece_that_is_returned_lies_as_in_eager() -> None:
    function = lambda x: (x + 1.0).transpose(0, 1)[1:4]  # noqa: E731
    x = torch.randn(4, 5)
    have, want = compiled(function)(x), function(x)
    torch.testing.assert_close(have, want, **CLOSE)
    assert have.stride() == want.stride() == (1, 5)
    assert have.storage_offset() == want.storage_offset() == 1


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "columns": lambda x: torch.as_strided((x * 2.0 + 1.0)[:, 1:3], (2, 2), (5, 1), 1) + 1.0,
    "a row, and what is behind it": lambda x: torch.as_strided((x * 2.0)[1], (2, 2), (5, 1)) + 1.0,
    "a row, and what is before it": lambda x: torch.as_strided((x * 2.0)[1], (5, 1), (1, 1), 0) + 1,
    "a row of an input": lambda x: torch.as_strided(x[1], (5, 1), (1, 1), 0) + 1.0,
    "a row as it is": lambda x: torch.as_strided((x * 2.0)[1], (5, 1), (1, 1)) + 1.0,
    "of a transposed tensor": lambda x: torch.as_strided((x * 2.0).t(), (2, 2), (5, 1), 1) + 1.0,
}


@pytest.mark.parametrize("name", STRIDED)
def test_strides_count_from_the_storage_of_eager(name: str) -> None:
    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(STRIDED[name])(x), STRIDED[name](x), **CLOSE)
    assert autofuse.clients.torch.report().graphs[0].fused


def test_an_operator_of_others_gets_the_strides_of_eager() -> None:
    @torch.library.custom_op("autofuse_tests::strides", mutates_args=())
    def strides(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x.stride())

    @strides.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(x.dim(), dtype=torch.int64)

    function = lambda x: strides((x * 2.0 + 1.0)[:, 1:3]) + 1  # noqa: E731
    x = torch.randn(4, 5)
    assert torch.equal(compiled(function)(x), function(x))


# numbers ----------------------------------------------------------------------------------------


def test_a_number_that_is_too_large_wraps() -> None:
    function = lambda x, n: (x * n + n // 2, x.to(torch.uint8) + n)  # noqa: E731
    options = {
        "target": "ascend910b1",
        "opt": "-O0",
        "min_ops": 1,
    }  # sizes are up to 2^31: PyTorch computes with larger numbers
    f = torch.compile(function, backend="autofuse", dynamic=True, options=options)
    x = torch.tensor([1, 2, -3], dtype=torch.int32)
    for n in (5, 9, 2**31, 2**40 + 3, -(2**31) - 5):
        for a, b in zip(f(x, n), function(x, n), strict=True):
            assert torch.equal(a, b)
            assert a.dtype == b.dtype
    assert any(g.fused for g in autofuse.clients.torch.report().graphs)


def test_roots_of_infinity_and_of_minus_zero() -> None:
    function = lambda x: (x**0.5, x**-0.5, x**2.5)  # noqa: E731
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 2.5, -1.5])
    for a, b in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(a, b, **CLOSE, equal_nan=True)
        assert torch.equal(torch.signbit(a[3:6]), torch.signbit(b[3:6]))


def test_quotients_of_indices() -> None:
    """Beams: a place among all words of all beams, taken apart."""

    def function(at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return at // 7, at % 7, torch.div(at, -7, rounding_mode="floor"), at // 8

    at = torch.tensor([0, 6, 7, 20, -1, -7, -8, 2**62, -(2**63)])
    for a, b in zip(compiled(function)(at), function(at), strict=True):
        assert torch.equal(a, b)


def test_token_types_of_zero_and_a_single_position() -> None:
    table, types, places = torch.randn(31, 8), torch.randn(2, 8), torch.randn(16, 8)

    def function(ids: torch.Tensor) -> torch.Tensor:
        kind = torch.zeros(ids.shape, dtype=torch.long)
        at = torch.arange(4, 4 + ids.shape[1])
        embed = torch.nn.functional.embedding
        return embed(ids, table) + embed(kind, types) + embed(at, places)

    for n in (7, 1):
        torch._dynamo.reset()
        ids = torch.randint(0, 31, (2, n))
        torch.testing.assert_close(compiled(function)(ids), function(ids), **CLOSE)


# what is wrong with the machine -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("AUTOFUSE_CXX", "/nowhere/g++", "AF5001"),
        ("AUTOFUSE_OPT", "-O0", "AF5008"),
        ("AUTOFUSE_CACHE_DIR", "/proc/nowhere", "AF5009"),
    ],
)
def test_a_machine_that_can_make_no_kernel_is_an_error(
    variable: str, value: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a model would run without one kernel, and only the report would say why."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=code) as failed:
        torch.compile(lambda x: x.sin() * 2.0 + 1.5, backend="autofuse", options=OPTIONS)(
            torch.randn(3)
        )
    assert isinstance(failed.value.inner_exception, AutofuseError)


# the report -------------------------------------------------------------------------------------


def test_ops_of_one_reason_share_a_line() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sort(x).values, *torch.topk(x, 2), x @ x, x.double() * 2.0, x.sin() + 1.0

    compiled(function)(torch.randn(3, 3))
    left = [s for s in str(autofuse.clients.torch.report()).splitlines() if "not fused" in s]
    assert "  not fused: aten.sort, aten.topk: sorting" in left
    assert not any("getitem" in s for s in left)
    assert len({s.rsplit(": ", 1)[1] for s in left}) == len(left)
