"""Regions, the report, options, the cache and threads."""

from __future__ import annotations

import functools
import importlib.metadata
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx

import autofuse.clients.torch
from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import Options
from autofuse.clients.torch.calls import compile_graph
from autofuse.clients.torch.devices import kernels, npu
from autofuse.clients.torch.partition import bytes_of, candidates, view_of
from autofuse.clients.torch.region import Region
from autofuse.clients.torch.selection import _returned
from autofuse.frontends.regions import merged

CLOSE = {"rtol": 2e-5, "atol": 2e-5}
QUICK = {"target": "ascend910b1", "opt": "-O0"}
#: What torch_npu calls its device.
NPU: Any = SimpleNamespace(type="npu", index=0)


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def regions(gm: torch.fx.GraphModule) -> list[Region]:
    return [m for m in gm.modules() if isinstance(m, Region)]


# which nodes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "known", "returned"),
    [("forward", True, 1), ("forward", False, 2), ("backward", True, 2), ("inference", True, 2)],
)
def test_what_the_caller_gets_of_a_graph(
    monkeypatch: pytest.MonkeyPatch, kind: str, known: bool, returned: int
) -> None:
    """The first results of a forward graph, as far as PyTorch has counted them; the others are kept for backward."""
    gm = traced(lambda x: (x + 1, x * 2), torch.randn(4))
    about = SimpleNamespace(num_forward_returns=1) if known else None
    for context in (SimpleNamespace(fw_metadata=about), None):
        monkeypatch.setattr(torch._guards.TracingContext, "try_get", lambda c=context: c)
        assert len(_returned(gm, kind)) == (returned if context else 2)


@pytest.mark.twin
def test_what_is_before_and_behind_a_product_are_two_kernels() -> None:
    """The product needs the first and the second needs both: one kernel would be a cycle."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x + 1.0)
        return torch.sigmoid(y + y @ w) * y

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    gm = compile_graph(traced(function, x, w), Options.of(QUICK))
    assert len(regions(gm)) == 2
    torch.testing.assert_close(gm(x, w), function(x, w), **CLOSE)


def fusible(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [n for n in gm.graph.nodes if n.op == "call_function"]


def test_pieces_without_a_common_tensor_are_kernels_of_their_own() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(x) * 2.0, torch.sin(y) + 1.0

    gm = traced(function, torch.randn(8), torch.randn(9))
    found = candidates(gm, fusible(gm), Options())
    assert sorted(len(c.nodes) for c in found) == [2, 2]


def test_pieces_that_read_the_same_tensor_stay_together() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(x) * 2.0, torch.sin(x) + 1.0

    gm = traced(function, torch.randn(8))
    (found,) = candidates(gm, fusible(gm), Options())
    assert len(found.nodes) == 4


def test_a_long_region_is_cut_where_the_least_passes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.exp(torch.sin(x))
        return (x.sum(1) * 2.0 + 1.0).exp().sin().cos().abs().neg()

    gm = traced(function, torch.randn(16, 64))
    found = candidates(gm, fusible(gm), Options.of({"max_ops": 14}))
    # Behind the sum, where 16 numbers pass, not 1024.
    assert [len(c.nodes) for c in found] == [14, 6]
    assert [bytes_of(o) for c in found for o in c.outputs] == [64, 64]


def test_a_view_that_only_others_need_is_made_outside() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.exp(x).sum(0)
        return y.expand(32, 8), torch.exp(x)[:2]

    gm = traced(function, torch.randn(32, 8))
    for c in candidates(gm, fusible(gm), Options.of({"min_ops": 1})):
        assert all("expand" not in str(n.target) for n in c.outputs)


def test_views_of_a_product_keep_no_regions_apart() -> None:
    """The partitioner puts the views behind the product and the sum together, which must not stay so."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.exp(x) * 2.0
        z = (y.t() @ w).t()
        return z.unsqueeze(0), (y * x).sum(0), x.sum(0) + 1.0

    gm = traced(function, torch.randn(8, 8), torch.randn(8, 8))
    wanted = [n for n in fusible(gm) if "mm" not in str(n.target)]
    (found,) = candidates(gm, wanted, Options())
    assert len([n for n in found.nodes if "sum" in str(n.target)]) == 2


def test_regions_are_joined_up_to_the_limit() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.exp(x)
        return y.sum(0), (y * 2.0).sum(1)

    gm = traced(function, torch.randn(8, 8))
    exp, first, double, second = fusible(gm)
    parts = [{exp}, {first}, {double, second}]
    assert sorted(map(len, merged(view_of(gm), parts, bytes_of, lambda ns: len(ns) <= 4))) == [4]
    assert sorted(map(len, merged(view_of(gm), parts, bytes_of, lambda ns: len(ns) <= 3))) == [2, 2]
    assert sorted(map(len, merged(view_of(gm), parts, bytes_of, lambda ns: len(ns) <= 1))) == [
        1,
        1,
        2,
    ]


@pytest.mark.twin
def test_a_kernel_moves_no_more_than_its_ops_would() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.softmax(x * 2.0, -1)
        return y, (y * w).sum(0), (y + w).amax(1), torch.cat((y, w), 1)

    x, w = torch.randn(40, 24), torch.randn(40, 24)
    gm = compile_graph(traced(function, x, w), Options.of(QUICK))
    for a, b in zip(gm(x, w), function(x, w), strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    for k in autofuse.clients.torch.report().graphs[-1].fused:
        assert k.bytes is not None
        assert k.bytes <= k.bytes_apart


# the report -----------------------------------------------------------------------------------


@pytest.mark.twin
def test_report_says_what_was_not_fused_and_why(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x: torch.Tensor, at: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        picked = (x + 1.0).exp()[at, at]
        return torch.sort(x @ w).values.sum() + picked.sum() + x.double().sum()

    monkeypatch.setenv("AUTOFUSE_REPORT", "1")
    x, at = torch.randn(4, 4), torch.tensor([0, 2])
    f = torch.compile(function, backend="autofuse", options=QUICK)
    torch.testing.assert_close(f(x, at, x), function(x, at, x), **CLOSE)
    text = capfd.readouterr().err
    assert text.strip() == str(autofuse.clients.torch.report())
    for line in (
        "inference 1 for ascend910b1: ",
        "fused: fused_add_exp: aten.add.Tensor, aten.exp",
        "not fused: aten.mm: matrix multiplication or convolution: work of the cube unit",
        "not fused: aten.index.Tensor: data-dependent index in several dimensions",
        "not fused: aten.sort: sorting",
        "kernels do not hold float64",
    ):
        assert line in text
    (graph,) = autofuse.clients.torch.report().as_dict()["graphs"]
    assert graph["fused"][0]["ops"] == ["aten.add.Tensor", "aten.exp"]
    assert {r["op"] for r in graph["notFused"]} >= {"aten.mm", "aten.sort"}


def test_empty_report() -> None:
    assert "has compiled no graph in this process" in str(autofuse.clients.torch.report())


# refusals -------------------------------------------------------------------------------------


class _Refuses:
    def run(self, *_: Any) -> tuple[int, str]:
        return 105, "no template for these sizes"


@pytest.mark.twin
@pytest.mark.parametrize("fallback", ["eager", "error"])
def test_a_kernel_that_refuses_a_call(fallback: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = kernels._built

    def refusing(*args: Any) -> kernels.Built:
        built(*args)
        return kernels.Built(_Refuses())

    monkeypatch.setattr(kernels, "_built", refusing)
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.exp(x) * 2.0
        return y, y.sum(0, keepdim=True)

    x = torch.randn(3, 5)
    gm = compile_graph(traced(function, x), Options.of({**QUICK, "fallback": fallback}))
    if fallback == "error":
        with pytest.raises(AutofuseError, match="no template for these sizes"):
            gm(x)
        return
    for _ in range(2):
        for a, b in zip(gm(x), function(x), strict=True):
            torch.testing.assert_close(a, b)
    (why,) = autofuse.clients.torch.report().graphs[-1].at_run_time
    assert "no template for these sizes" in why


@pytest.mark.twin
def test_what_the_library_refuses_stays_with_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that the library names leaves the region; the others are fused without it."""
    real = api.build_split

    def refusing(graph: Any, **how: Any) -> api.SplitResult:
        bad = [n.name for n in graph.nodes if n.op == "Sin"]
        if bad:
            from autofuse.base.diagnostics import Where

            raise AutofuseError.of("AF3001", "no sine today", where=Where(node=bad[0]))
        return real(graph, **how)

    monkeypatch.setattr(api, "build_split", refusing)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.sin(torch.exp(x * 2.0) + 1.0) * 3.0)

    x = torch.randn(5)
    gm = compile_graph(traced(function, x), Options.of(QUICK))
    torch.testing.assert_close(gm(x), function(x), **CLOSE)
    (graph,) = autofuse.clients.torch.report().graphs
    assert dict(graph.not_fused) == {("aten.sin", "no sine today (AF3001)"): 1}
    assert [k.ops for k in graph.fused] == [
        ("aten.mul.Tensor", "aten.exp", "aten.add.Tensor"),
        ("aten.mul.Tensor", "aten.exp"),
    ]
    with pytest.raises(AutofuseError, match="no sine today"):
        compile_graph(traced(function, x), Options.of({**QUICK, "fallback": "error"}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"targt": "ascend910b1"}, "has no option 'targt'"),
        ({"target": "nothing"}, "nothing"),
        ({"fallback": "maybe"}, "fallback"),
        ({"min_ops": 0}, "at least 1"),
        ({"min_ops": True}, "type int"),
        ({"opt": "-O9"}, "opt"),
    ],
)
def test_options_are_checked(given: dict[str, Any], words: str) -> None:
    with pytest.raises(AutofuseError, match=words):
        Options.of(given)


def test_a_mode_is_refused() -> None:
    f = torch.compile(
        lambda x: x + 1,
        backend=functools.partial(autofuse.clients.torch.autofuse, options=QUICK),
        mode="reduce-overhead",
    )
    with pytest.raises(Exception, match="has no mode"):
        f(torch.randn(3))


def test_npu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    gm = traced(lambda x: torch.exp(x) + 1.0, torch.randn(3))
    (c,) = candidates(gm, fusible(gm), Options())
    from autofuse.clients.torch.lower import lower

    with pytest.raises(AutofuseError, match="torch_npu and CANN"):
        kernels.built_for(lower(c.nodes, c.outputs).graph, Options(), NPU)
    assert len(npu.requirements()) >= 2


# the process ----------------------------------------------------------------------------------


@pytest.mark.twin
def test_equal_regions_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = []
    real = api.build_split

    def counting(*args: Any, **how: Any) -> api.SplitResult:
        count.append(1)
        return real(*args, **how)

    monkeypatch.setattr(api, "build_split", counting)
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(x @ w) + 0.5
        return x

    x, w = torch.randn(6, 6), torch.randn(6, 6)
    gm = compile_graph(traced(function, x, w), Options.of(QUICK))
    assert len(regions(gm)) == 4
    assert len(count) == 1
    torch.testing.assert_close(gm(x, w), function(x, w), **CLOSE)


@pytest.mark.twin
def test_threads_compile_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads, two graphs: no error, right numbers, each kernel made once."""
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())
    functions = (
        lambda x: torch.tanh(x * 2.0),
        lambda x: torch.exp(x).sum(0) + 1.0,
    )
    x = torch.randn(7, 9)
    graphs = [[traced(f, x) for f in functions] for _ in range(8)]
    wanted = [f(x) for f in functions]
    wrong: list[str] = []

    def work(i: int) -> None:
        try:
            for gm, want in zip(graphs[i], wanted, strict=True):
                made = compile_graph(gm, Options.of(QUICK))
                for _ in range(20):
                    torch.testing.assert_close(made(x), want, **CLOSE)
        except Exception as e:
            wrong.append(repr(e))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert len(kernels._CACHE._made) == 2


def test_the_backend_is_found_by_its_name() -> None:
    """Without an import of autofuse.clients.torch, by the entry point."""
    (found,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="autofuse")
    assert found.load() is autofuse.clients.torch.autofuse
    assert "autofuse" in torch._dynamo.list_backends()


def test_the_core_does_not_need_pytorch() -> None:
    code = "import sys, autofuse.api, autofuse.cli; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.twin
def test_a_graph_without_kernels() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    made = aot_autograd(
        fw_compiler=lambda gm, _: compile_graph(gm, Options()).forward,
        inference_compiler=lambda gm, _: compile_graph(gm, Options()).forward,
    )
    x = torch.randn(3, 3)
    torch.testing.assert_close(torch.compile(function, backend=made)(x), x @ x)
