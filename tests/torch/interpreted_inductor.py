"""Kernels inside Inductor's pipeline, in Triton's interpreter: ``test_torch_triton.py`` starts these tests with
TRITON_INTERPRET=1, which has to be set before Triton is imported.

Inductor's passes make the graph as on a card; what they make is then run node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import triton
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

import autofuse.clients.torch
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import Options
from autofuse.clients.torch.inductor import choice, fusing, sources
from autofuse.clients.torch.inductor.choice import Region, Table, gain
from autofuse.clients.torch.inductor.fusing import FusionPass
from autofuse.machines.gpu.importing import imported

TARGET = {"target": "nvidia-h100"}


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def compiled(function: Callable[..., Any], dynamic: bool = False, **options: Any) -> Any:
    given = {**TARGET, "fallback": "error", **options}
    return torch.compile(function, backend="autofuse", dynamic=dynamic, options=given)


def reports() -> Sequence[Any]:
    return autofuse.clients.torch.report().graphs


def reasons() -> list[str]:
    return [why for g in reports() for _, why in g.not_fused]


def check(function: Callable[..., Any], *inputs: Any, **how: Any) -> None:
    """Equal to eager, with kernels, and nothing left over."""
    have, want = compiled(function, **how)(*inputs), function(*inputs)
    torch.testing.assert_close(have, want)
    assert [t.stride() for t in _tensors(have)] == [t.stride() for t in _tensors(want)]
    assert any(g.fused for g in reports())


def _tensors(found: Any) -> Sequence[torch.Tensor]:
    return (found,) if isinstance(found, torch.Tensor) else found


class Seen(CustomGraphPass):  # type: ignore[misc]
    """A pass of a user, which keeps the graphs that it saw."""

    def __init__(self, key: Any = "seen") -> None:
        self.graphs: list[str] = []
        self.key = key

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.graphs.append(str(graph))

    def uuid(self) -> Any:
        return self.key


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.Graph]:
    """The graphs behind Inductor's last pass."""
    found: list[torch.fx.Graph] = []
    own = fusing.post_grad_passes

    def passes(gm: torch.fx.GraphModule, is_inference: bool) -> None:
        own(gm, is_inference)
        found.append(gm.graph)

    monkeypatch.setattr(fusing, "post_grad_passes", passes)
    return found


def launches(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return list(graph.find_nodes(op="call_function", target=triton_kernel_wrapper_mutation))


# values and layouts ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_one_launch_without_copies(dtype: torch.dtype, graphs: list[torch.fx.Graph]) -> None:
    """Inductor's passes find that nothing has to be cloned."""
    a, b = torch.randn(3, 1009).to(dtype), torch.randn(3, 1009).to(dtype)
    check(lambda a, b: torch.relu(a + b) * 0.5, a, b)
    (graph,) = graphs
    (launch,) = launches(graph)
    assert [n.target for n in graph.nodes if n.op == "call_function" and n is not launch] == [
        torch.ops.aten.empty.memory_format
    ]
    warps = kernel_side_table.get_kernel(launch.kwargs["kernel_idx"]).configs[0].num_warps
    assert warps in (1, 2, 4, 8, 16, 32)


def test_one_graph_serves_all_sizes() -> None:
    """But for 0 and 1, for which PyTorch compiles graphs of their own."""
    f = compiled(softmax, dynamic=True)
    for shape in ((7, 33), (19, 127), (2, 64), (5, 1), (0, 3), (3, 5000)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), softmax(x))
    assert len([g for g in reports() if g.fused]) >= 1
    assert all(k.symbols for k in reports()[0].fused)


def test_sizes_of_other_tensors_and_sums_of_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat((x, y), 0) * x.shape[0]).sum(1)

    f = compiled(function, dynamic=True)
    for n, m, k in ((3, 4, 5), (7, 2, 65), (4, 9, 2)):
        x, y = torch.randn(n, k), torch.randn(m, k)
        torch.testing.assert_close(f(x, y), function(x, y))
    assert all(g.fused for g in reports())


def test_numbers_that_are_known_at_run_time() -> None:
    def function(x: torch.Tensor, k: int, a: float) -> torch.Tensor:
        return torch.relu(x * k + a)

    f = compiled(function, dynamic=True)
    x = torch.randn(4, 6)
    for k, a in ((2, 0.5), (5, -1.25), (7, 3.0)):
        torch.testing.assert_close(f(x, k, a), function(x, k, a))
    assert any(g.fused for g in reports())


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "in order": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "channels last": lambda x: x.permute(2, 0, 1),
    "half": lambda x: x[:, :, ::2],
    "a piece": lambda x: x[1:, 2:5],
    "expanded": lambda x: x[:, :1].expand(-1, 7, -1),
    "overlapping": lambda x: x.unfold(2, 4, 2),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("how", LAYOUTS)
def test_strides_of_an_input(how: str, dynamic: bool) -> None:
    x = LAYOUTS[how](torch.randn(6, 7, 10))
    y = torch.randn(x.shape)
    f = compiled(lambda x, y: torch.sigmoid(x) * y + 1.0, dynamic=dynamic)
    torch.testing.assert_close(f(x, y), torch.sigmoid(x) * y + 1.0)
    assert any(g.fused for g in reports())


def test_a_region_reads_what_another_one_wrote() -> None:
    """Between the two is a product, and both read the result of the first."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.softmax(x * 0.5, -1)
        y = torch.tanh(h @ w) + h
        return y, torch.relu(y @ w) * h

    check(function, torch.randn(8, 16), torch.randn(16, 16))
    assert [len(g.fused) for g in reports()] == [3]


def test_several_kernels_and_several_results() -> None:
    """The gradient of a norm: sums over rows are joined by a second kernel, through scratch."""
    x, w = torch.randn(300, 64, requires_grad=True), torch.randn(64, requires_grad=True)
    grad = torch.randn(300, 64)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (64,), w, None) * 2.0

    have = torch.autograd.grad(compiled(function)(x, w), (x, w), grad)
    want = torch.autograd.grad(function(x, w), (x, w), grad)
    torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)
    backward = reports()[-1]
    assert backward.name.startswith("backward")
    assert max(k.kernels for k in backward.fused) > 1


@pytest.mark.parametrize("shape", [(300, 700, 1), (3, 70_000, 2)])
def test_few_long_rows_whose_reductions_wait_for_each_other(shape: tuple[int, ...]) -> None:
    """Each is cut into parts for all multiprocessors, pass by pass; also with results along the rows."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        m = x.abs().amax((0, 1), keepdim=True)
        d = x - m
        s = (d * d).sum((0, 1), keepdim=True).sqrt()
        z = (d * s).amin((0, 1), keepdim=True)
        return s + m, d * s, z + m, m

    x = torch.randn(shape)
    for a, b in zip(compiled(function)(x), function(x.double()), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)
    ((kernel,),) = [g.fused for g in reports()]
    assert kernel.kernels > 3
    assert "in parts" in kernel.why


def test_views_of_results() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(x) * 2
        return y, y.t(), y[1:3], y.reshape(-1), (y + 1).permute(1, 0).contiguous()

    check(function, torch.randn(6, 4))


def test_inductors_own_op_for_softmax() -> None:
    """Its row: the largest elements, and the sums of the exponentials; also of rows of only minus infinity."""
    from torch._inductor.inductor_prims import prepare_softmax_online

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return prepare_softmax_online(x * 2, 1)  # type: ignore[no-any-return]

    x = torch.randn(5, 300)
    x[2, :7], x[3] = torch.inf, -torch.inf
    have, want = compiled(function)(x[:2]), function(x[:2])
    torch.testing.assert_close(have, want)
    torch._dynamo.reset()
    for h, w in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(h, w, equal_nan=True)


# what stays with Inductor ---------------------------------------------------------------------


def test_ops_that_round_step_by_step_are_left() -> None:
    x, y = torch.randn(64), torch.rand(64) + 0.5
    f = compiled(lambda x, y: torch.relu(torch.fmod(x * 3, y)) + 1, fallback="eager")
    torch.testing.assert_close(f(x, y), torch.relu(torch.fmod(x * 3, y)) + 1)
    assert any("round one by one" in why for why in reasons())


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_no_elements(shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(compiled(lambda x: torch.relu(x) * 2)(x), torch.relu(x) * 2)
    assert "it has no elements" in reasons()


def test_pools_are_left() -> None:
    x = torch.randn(1, 2, 8, 8)
    f = compiled(lambda x: F.max_pool2d(x, 2) * 2 + F.avg_pool2d(x, 2), fallback="eager")
    torch.testing.assert_close(f(x), F.max_pool2d(x, 2) * 2 + F.avg_pool2d(x, 2))
    assert any("pooling" in why for why in reasons())


def test_images_of_a_net_that_becomes_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.GraphLowering, "decide_layout_opt", lambda gm, is_inference: True)
    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(compiled(lambda x: torch.relu(x) * 2)(x), torch.relu(x) * 2)
    assert "Inductor lays out images channels-last" in reasons()


def region(form: tuple[str, ...], size: int, kept: int, **more: int) -> Region:
    return Region("triton", form, size, kept, **more)


def test_the_gain_of_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a measured ratio, less a write and a read of what Inductor could keep in registers."""
    ratios = {(("rows",), "large"): 1.25, (("rows",), ""): 0.5}
    known = Table(1 << 22, 1 << 25, 1 << 24, ratios)
    monkeypatch.setattr(choice, "table", lambda backend: known)
    assert gain(region(("rows",), 1 << 30, 0)) == pytest.approx(0.2)
    assert gain(region(("rows",), 1 << 30, 1 << 27)) == pytest.approx(-0.05)
    assert gain(region(("rows",), 1 << 10, 0)) == pytest.approx(-1.0)
    assert gain(region(("rows", "short", "few"), 1 << 30, 0)) == pytest.approx(0.2)
    assert gain(region(("rows", "across"), 1 << 30, 0)) == 0.0
    assert gain(region(("items",), 1 << 30, 0)) == 0.0
    assert gain(region(("rows",), 1 << 30, 0, launches=2)) == pytest.approx(0.2)
    assert gain(region(("rows",), 1 << 30, 1 << 26, shared=1 << 27)) == pytest.approx(-0.05)
    assert gain(region(("rows",), 1 << 30, 0, launches=6)) == pytest.approx(0.2 - 1 / 16)
    assert [known.size_class(1 << b) for b in (21, 22, 24, 25)] == [
        "small",
        "cached",
        "cached",
        "large",
    ]


def described(monkeypatch: pytest.MonkeyPatch) -> list[Region]:
    """The regions that are judged from now on."""
    found: list[Region] = []
    own = choice.described

    def noted(made: Any) -> Region:
        found.append(own(made))
        return found[-1]

    monkeypatch.setattr(choice, "described", noted)
    return found


def test_neighbours_that_inductor_could_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor fuses nothing into a product or a sort; it fuses random numbers."""
    found = described(monkeypatch)
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    compiled(lambda x, w: torch.relu((x @ w) * 2) @ w)(x, w)
    assert found[-1].kept == 0
    torch._dynamo.reset()
    compiled(lambda x: torch.relu(F.dropout(x, 0.5) * 2), fallback="eager")(x)
    assert found[-1].kept > 0
    torch._dynamo.reset()
    compiled(lambda x, w: torch.sort(torch.relu(x @ w) * 2)[0])(x, w)
    assert found[-1].kept == 0
    assert found[-1].bytes == 2 * 8 * 16 * 4


def test_operands_that_inductor_could_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an op that no kernel has, unless a product or a sort lies between it and the region."""
    found = described(monkeypatch)
    x, w = torch.randn(8, 16), torch.randn(16, 16)

    def beside(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ w
        return torch.relu(y * 2) @ w, y.view(4, 32).double() + 1

    def behind(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        return y[torch.sort((torch.relu(y * 2) @ w)[:, 0]).indices] * 3

    compiled(beside, fallback="eager")(x, w)
    assert [(r.kept, r.shared) for r in found] == [(0, 8 * 16 * 4)]
    found.clear()
    torch._dynamo.reset()
    compiled(behind, fallback="eager")(x, w)
    assert [r.shared for r in found] == [0, 0]


# the pass in Inductor's configuration -----------------------------------------------------------


def test_a_pass_of_the_user_stays() -> None:
    """It runs first, and the configuration of the process does not change."""
    own = Seen()
    with config.patch(post_grad_custom_post_pass=own):
        check(lambda x: torch.relu(x) * 2, torch.randn(8))
        assert config.post_grad_custom_post_pass is own
    (graph,) = own.graphs
    assert "relu" in graph
    assert "triton" not in graph


def test_what_the_key_of_inductors_cache_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Options(target="nvidia-h100")
    key = FusionPass(plain).uuid()
    assert key == FusionPass(Options(target="nvidia-h100")).uuid()
    others = [
        FusionPass(Options(target="nvidia-h200")),
        FusionPass(Options(target="nvidia-h100", choose="all")),
        FusionPass(plain, [Seen()]),
        FusionPass(plain, [Seen("another")]),
    ]
    assert len({key, *(p.uuid() for p in others)}) == 5
    assert FusionPass(plain, [Seen(None)]).uuid() is None
    assert FusionPass(plain, [lambda graph: None]).uuid() is None
    names = {"/".join(p.parts[-2:]) for p in sources.files()}
    assert names >= {"ratios/triton.json", "triton/plan.py", "gpu/nvidia-h100.toml"}
    monkeypatch.setattr(fusing, "digest_of_sources", lambda: "another text")
    assert FusionPass(plain).uuid() != key


def test_modes_are_those_of_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def compile_fx(gm: Any, inputs: Any, **how: Any) -> Any:
        given.append(how["config_patches"])
        return gm.forward

    monkeypatch.setattr(fusing, "compile_fx", compile_fx)
    for mode in (None, "default", "max-autotune-no-cudagraphs"):
        autofuse.clients.torch.autofuse(
            torch.fx.symbolic_trace(lambda x: torch.relu(x)),
            [torch.randn(3)],
            options=TARGET,
            mode=mode,
        )
    assert [bool(p.get("max_autotune")) for p in given] == [False, False, True]
    assert all(isinstance(p["post_grad_custom_post_pass"], FusionPass) for p in given)


def test_a_kernel_that_a_compiler_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is compiled again without kernels, and the first time in a process is a warning, or an error."""
    tried: list[str | None] = []

    def compile_fx_inner(gm: torch.fx.GraphModule, inputs: Any, **how: Any) -> Any:
        tried.append(fusing._KIND.get())
        if tried[-1] is not None:
            gm.graph.erase_node(gm.graph.output_node())
            raise RuntimeError("PassManager::run failed")
        return gm.forward

    monkeypatch.setattr(fusing, "compile_fx_inner", compile_fx_inner)
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) * 2)
    with pytest.warns(RuntimeWarning, match=r"is rejected: RuntimeError: PassManager"):
        call = fusing._inner(Options(), gm, [], is_inference=True)
    assert tried == ["inference", None]
    assert call(torch.tensor(2.0)) == 4.0
    monkeypatch.setenv("AUTOFUSE_STRICT", "1")
    with pytest.raises(AutofuseError, match="AF5002"):
        fusing._inner(Options(), torch.fx.symbolic_trace(lambda x: -x), [], is_backward=True)


def test_an_error_that_is_not_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_fx_inner(gm: torch.fx.GraphModule, inputs: Any, **how: Any) -> Any:
        raise ValueError("Inductor fails")

    monkeypatch.setattr(fusing, "compile_fx_inner", compile_fx_inner)
    with pytest.raises(ValueError, match="Inductor fails"):
        fusing._inner(Options(), torch.fx.symbolic_trace(lambda x: -x), [])


def test_equal_texts_are_one_module_in_a_file() -> None:
    # Of this process: nobody has imported it before.
    text = f"NUMBER = {torch.seed()}\n"
    first = imported(text, "name.py")
    assert imported(text, "name.py") is first
    assert imported(text + "# another one\n", "name.py") is not first
    with open(first.__file__ or "", encoding="utf-8") as file:  # noqa: PTH123
        assert file.read() == text


def test_it_is_the_interpreter() -> None:
    assert triton.knobs.runtime.interpret


def test_launches_into_one_result_without_copies(graphs: list[torch.fx.Graph]) -> None:
    """Two kernels write parts of one tensor, and a third one joins what two have left: memory is never copied."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat((x * x, y), 1), x.sum()

    check(function, torch.randn(64, 32), torch.randn(64, 32), choose="all", min_ops=1)
    (graph,) = graphs
    assert len(launches(graph)) > 2
    assert not graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
