"""C++ loops inside Inductor, for tensors on a CPU: values beside eager, layouts, sizes, caches and failures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch._functorch import config as aot_config
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

import autofuse.clients.torch
from autofuse.clients.torch.devices import programs
from autofuse.clients.torch.inductor import measured

pytestmark = pytest.mark.twin

OPTIONS = {"fallback": "error", "choose": "all", "min_ops": 1}


@pytest.fixture(autouse=True)
def _no_cache() -> Iterator[None]:
    """A graph from Inductor's cache has no report."""
    with config.patch(fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False):
        yield


def compiled(function: Callable[..., Any], dynamic: bool = False, **options: Any) -> Any:
    return torch.compile(
        function, backend="autofuse", dynamic=dynamic, options={**OPTIONS, **options}
    )


def reports() -> Sequence[Any]:
    return autofuse.clients.torch.report().graphs


def reasons() -> list[str]:
    return [why for g in reports() for _, why in g.not_fused]


def _tensors(found: Any) -> Sequence[torch.Tensor]:
    return (found,) if isinstance(found, torch.Tensor) else found


def check(function: Callable[..., Any], *inputs: Any, kernels: int = 1, **how: Any) -> str:
    """Equal to eager, with kernels and nothing left over; the code of Inductor's wrapper."""
    have, (code,) = run_and_get_code(compiled(function, **how), *inputs)
    want = function(*inputs)
    torch.testing.assert_close(have, want, equal_nan=True)
    assert [t.stride() for t in _tensors(have)] == [t.stride() for t in _tensors(want)]
    assert sum(len(g.fused) for g in reports()) == kernels
    assert code.count("compiled_loops(async_compile") >= kernels
    assert not any(g.not_fused for g in reports())
    return str(code)


# values and layouts ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_only_the_loops_are_called(dtype: torch.dtype) -> None:
    """No copy, and one allocation: the result."""
    a, b = torch.randn(3, 1009).to(dtype), torch.randn(3, 1009).to(dtype)
    code = check(lambda a, b: (torch.relu(a + b) * 0.5, (a * b).amax(-1)), a, b)
    called = code[code.index("def call(") :]
    assert called.count("empty_strided_cpu(") == 2
    assert called.count("cpp_autofuse_") == 1
    assert called.count("cpp_fused") == 0


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: torch.softmax(x * 0.5, -1), (torch.randn(5, 67),)),
    "norm": (lambda x: F.layer_norm(x, (67,)), (torch.randn(5, 67),)),
    "columns": (lambda x: torch.exp(x).sum(0), (torch.randn(70, 33),)),
    "roots": (lambda x: x.abs().sqrt() + x.floor() * x.trunc(), (torch.randn(5, 67) * 9,)),
    "remainders": (lambda x, y: torch.fmod(x, y), (torch.randn(99) * 9, torch.rand(99) + 0.1)),
    "comparisons": (lambda x: (x > 0, torch.where(x > 0, x, -x)), (torch.randn(5, 67),)),
    "integers": (lambda x: (x * 3 - 7) // 5, (torch.randint(-99, 99, (4, 5)),)),
    "places": (lambda x: torch.argmax(x * 2, -1), (torch.randn(5, 67),)),
    "transposed": (lambda x: (x.t() * 2).contiguous(), (torch.randn(70, 33),)),
    "halves": (lambda x: F.silu(x[:, :32]) * x[:, 32:], (torch.randn(5, 64),)),
    "running": (lambda x: torch.cumsum(x * 2, -1), (torch.randn(5, 67),)),
    "rows": (lambda x, i: x[i] * 2, (torch.randn(9, 7), torch.randint(-9, 9, (20,)))),
    "scalar": (lambda x: x.sum() * 2, (torch.randn(3, 5, 7),)),
    "specials": (
        lambda x: (torch.exp(x), torch.tanh(x), x.sigmoid()),
        (torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 89.0]),),
    ),
    "no elements": (lambda x: torch.relu(x) + 1, (torch.randn(0, 5),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    if name == "no elements":
        torch.testing.assert_close(compiled(function)(*inputs), function(*inputs))
        assert "it has no elements" in reasons()
    else:
        check(function, *inputs)


def test_signs_of_zeros() -> None:
    """Inductor's flags allow compilers to ignore them, and then to take that back."""

    def function(x: torch.Tensor, zeros: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + zeros, zeros - x, -x

    given = torch.tensor([-0.0, 0.0, 1.0]), torch.zeros(3)
    have, want = compiled(function)(*given), function(*given)
    for a, b in zip(have, want, strict=True):
        assert torch.equal(torch.signbit(a), torch.signbit(b))


def test_inputs_with_gaps_and_offsets_are_read_in_place() -> None:
    x = torch.randn(8, 40)
    code = check(lambda x: torch.relu(x[2:, 4:36]) * 2 + 1, x)
    assert "clone" not in code


def test_one_graph_serves_all_sizes() -> None:
    f = compiled(lambda x: torch.softmax(x, -1), dynamic=True)
    for shape in ((7, 33), (19, 127), (2, 64), (5, 1), (0, 3), (3, 5000)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), torch.softmax(x, -1))
    assert all(k.symbols for k in reports()[0].fused)


def test_sums_of_sizes_and_numbers_of_a_call() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, k: int, a: float) -> torch.Tensor:
        return torch.relu(torch.cat((x, y), 0) * x.shape[0] * k + a).sum(1)

    f = compiled(function, dynamic=True)
    for n, m, size, k, a in ((3, 4, 5, 2, 0.5), (7, 2, 65, 9, -1.25), (4, 9, 2, 5, 3.0)):
        x, y = torch.randn(n, size), torch.randn(m, size)
        torch.testing.assert_close(f(x, y, k, a), function(x, y, k, a))
    assert all(g.fused for g in reports())


def test_beside_products_and_backwards() -> None:
    """A region reads results of Inductor's kernels, and they read its results."""
    net = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.LayerNorm(65), torch.nn.GELU())
    x = torch.randn(7, 33, requires_grad=True)
    f = compiled(net)
    have, want = f(x), net(x)
    torch.testing.assert_close(have, want)
    leaves = [x, *net.parameters()]
    for a, b in zip(
        torch.autograd.grad(have.square().sum(), leaves),
        torch.autograd.grad(want.square().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert [len(g.fused) for g in reports()] == [1, 1]


def test_an_input_that_is_written_in_place() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(1)
        return torch.relu(x).sum(-1)

    one = torch.randn(4, 65)
    other = one.clone()
    torch.testing.assert_close(compiled(function)(one), function(other))
    torch.testing.assert_close(one, other)
    assert any(g.fused for g in reports())


def test_modes_are_those_of_inductor() -> None:
    x = torch.randn(4, 65)
    f = torch.compile(
        lambda x: torch.relu(x) * 2,
        backend=autofuse.clients.torch.autofuse,
        mode="max-autotune-no-cudagraphs",
    )
    torch.testing.assert_close(f(x), torch.relu(x) * 2)


def test_without_threads_for_compilers() -> None:
    """On a machine with one core, Inductor waits for nothing."""
    with config.patch(compile_threads=1):
        check(lambda x: torch.relu(x) * 3, torch.randn(4, 67))


# what is taken, and failures ------------------------------------------------------------------


def test_without_a_measured_gain_a_region_is_inductors() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.sin(x), 0).flip(0)

    x = torch.randn(9, 3)
    torch.testing.assert_close(compiled(function, choose="model")(x), function(x))
    assert not any(g.fused for g in reports())
    assert any("expected gain" in why for why in reasons())


def test_a_wrapper_in_cpp() -> None:
    x = torch.randn(4, 65)
    with config.patch(cpp_wrapper=True):
        torch.testing.assert_close(compiled(lambda x: torch.relu(x) * 2)(x), torch.relu(x) * 2)
    assert any("cpp_wrapper" in why for why in reasons())


def test_loops_that_do_not_compile_are_left_to_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "kernel_text", lambda program: "this is no C++")
    monkeypatch.setenv("AUTOFUSE_STRICT", "1")
    x = torch.randn(4, 65)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="a kernel is rejected"):
        compiled(lambda x: torch.relu(x) * 2)(x)
    monkeypatch.delenv("AUTOFUSE_STRICT")
    torch._dynamo.reset()
    # The warning is said once per process, by whichever test is the first.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        have = compiled(lambda x: torch.relu(x) * 2)(x)
    torch.testing.assert_close(have, torch.relu(x) * 2)


def test_the_text_of_a_kernel_is_compiled_once() -> None:
    """Two layers with equal regions call one kernel."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = F.gelu(x @ w)
        return x

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    have, (code,) = run_and_get_code(compiled(function), x, w)
    torch.testing.assert_close(have, function(x, w))
    assert code.count("compiled_loops(async_compile") == 1
    assert code[code.index("def call(") :].count("cpp_autofuse_") == 2


# measured choice ------------------------------------------------------------------------------


def times(monkeypatch: pytest.MonkeyPatch, inductor: float, ours: float) -> list[Any]:
    """Take these times as measured; the regions that are asked for."""
    asked: list[Any] = []

    def found(made: Any, nodes: Any, device: Any) -> dict[str, float]:
        asked.append(made)
        return {"inductor_us": inductor, "autofuse_us": ours}

    monkeypatch.setattr(measured, "_times", found)
    return asked


@pytest.fixture
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No answer is known yet."""
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))


def layers(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Two layers of a product, a norm of a transposed view, and a product of the gathered rows."""
    for _ in range(2):
        x = F.layer_norm((x @ w).t() + bias, (9,)).t() @ w
    return x


@pytest.mark.usefixtures("_own_folder")
@pytest.mark.parametrize(("ours", "taken"), [(5.0, True), (9.8, False), (20.0, False)])
def test_measured_times_decide(monkeypatch: pytest.MonkeyPatch, ours: float, taken: bool) -> None:
    asked = times(monkeypatch, 10.0, ours)
    given = torch.randn(9, 8), torch.randn(8, 8), torch.randn(9)
    f = compiled(layers, choose="measure")
    torch.testing.assert_close(f(*given), layers(*given), rtol=1e-4, atol=1e-4)
    assert sum(len(g.fused) for g in reports()) == (2 if taken else 0)
    # Equal regions are measured once, and never again.
    assert len(asked) == 1
    torch._dynamo.reset()
    compiled(layers, choose="measure")(*given)
    assert len(asked) == 1
    gains = {why for g in reports() for _, why in g.not_fused} if not taken else set()
    assert not gains or any("(measured)" in why for why in gains)


@pytest.mark.usefixtures("_own_folder")
def test_other_pieces_have_other_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other types and sizes, or with one operand twice; not beside an op that Inductor calls as it is."""
    asked = times(monkeypatch, 10.0, 5.0)
    x, y = torch.randn(5, 8), torch.randn(5, 8)
    functions: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x, y: (x * y).exp().sum(-1), (x, y)),
        (lambda x, y: (x * x).exp().sum(-1), (x, y)),
        (lambda x, y: (x * y).exp().sum(-1), (x.half(), y.half())),
        (lambda x, y: (x * y).exp().sum(-1), (x[:4], y[:4])),
        (lambda x, y: torch.sort((x * y).exp().sum(-1)).values, (x, y)),
        (lambda x, y: (x * y).exp().sum(-1), (x.clone(), y.clone())),
    ]
    for function, given in functions:
        torch._dynamo.reset()
        compiled(function, choose="measure")(*given)
    assert len(asked) == 4


@pytest.mark.usefixtures("_own_folder")
def test_where_inductor_tunes_regions_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = times(monkeypatch, 10.0, 5.0)
    x = torch.randn(5, 8)
    for mode, count in (("default", 0), ("max-autotune-no-cudagraphs", 1)):
        torch._dynamo.reset()
        torch.compile(softmax_of, backend="autofuse", mode=mode, dynamic=False)(x)
        assert len(asked) == count


def softmax_of(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, -1)


@pytest.mark.usefixtures("_own_folder")
def test_without_memory_for_both_ways_the_ratios_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(measured, "_data", full)
    x = torch.randn(5, 8)
    torch.testing.assert_close(compiled(softmax_of, choose="measure")(x), softmax_of(x))
    found = [k.why for g in reports() for k in g.fused] + reasons()
    assert any("model" in why for why in found)


def rows(x: torch.Tensor, at: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gathered rows, between an op that is left and one with a result of its own."""
    y = torch.cumsum(torch.sin(x), 0)[at]
    z = torch.softmax(y, -1)
    return z.t() @ w, torch.sort(z).values, (z * 2).sum()


PIECES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layers": (layers, (torch.randn(9, 8), torch.randn(8, 8), torch.randn(9))),
    "rows": (rows, (torch.randn(5, 6), torch.randint(0, 5, (9,)), torch.randn(9, 4))),
    "quotients": (
        lambda x, y, w: (torch.where(x // y > 1, w @ w, 0.0) * 2).sum(-1),
        (torch.randint(1, 9, (6, 6)), torch.randint(1, 4, (6, 6)), torch.randn(6, 6)),
    ),
    "siblings": (
        lambda x, w: (torch.softmax(x @ w, -1) @ w, (x @ w).t().double() + 1, (x @ w).argsort(0)),
        (torch.randn(5, 6), torch.randn(6, 6)),
    ),
    "masks": (
        lambda x, m, w: torch.where(m, x @ w, 0.0).exp().amax(-1),
        (torch.randn(5, 6), torch.rand(5, 7) > 0.5, torch.randn(6, 7)),
    ),
}


@pytest.mark.usefixtures("_own_folder")
@pytest.mark.parametrize("name", PIECES)
def test_both_ways_are_timed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each piece compiles and runs both ways, with equal results, whichever is faster."""
    function, inputs = PIECES[name]
    piece, found = measured._times, []

    def called(call: Callable[[], Any], device: torch.device) -> float:
        found.append(call())
        return 1.0

    def timed(*given: Any) -> dict[str, float]:
        torch.manual_seed(1)
        assert piece(*given) == {"inductor_us": 1.0, "autofuse_us": 1.0}
        return {"inductor_us": 2.0, "autofuse_us": 1.0}

    monkeypatch.setattr(measured, "_us", called)
    monkeypatch.setattr(measured, "_times", timed)
    f = compiled(function, choose="measure")
    torch.testing.assert_close(f(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
    assert any(g.fused for g in reports())
    assert found
    for alone, ours in zip(found[::2], found[1::2], strict=True):
        torch.testing.assert_close(ours, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("_own_folder")
def test_sizes_of_a_call_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = times(monkeypatch, 10.0, 1.0)
    x = torch.randn(5, 67)
    f = compiled(lambda x: torch.softmax(x, -1), dynamic=True, choose="measure")
    torch.testing.assert_close(f(x), torch.softmax(x, -1))
    assert not asked
    assert all("model" in k.why for g in reports() for k in g.fused)
