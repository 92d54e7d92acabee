"""Regions as operators in graphs with tensors on ``npu``; ``test_torch_npu_inductor.py`` starts these tests in another
process, since the name of a device cannot be taken back.

The tensors are fake, and nothing is computed.  A stand-in takes the place of the Inductor that torch_npu registers.  It
writes no kernels; all else of Inductor runs to the end, and the code that it writes is called with fake tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._functorch import config as aot_config
from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.decomposition import decompositions, fast_random_decomps
from torch._inductor.fx_passes import joint_graph
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import BaseScheduling
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import autofuse.clients.torch
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.devices import kernels, npu
from autofuse.clients.torch.devices.programs import OperatorProgram
from autofuse.clients.torch.inductor import fusing, regions
from autofuse.clients.torch.inductor.operators import operator_for
from autofuse.clients.torch.selection import Made

aten = torch.ops.aten


# the stand-in ---------------------------------------------------------------------------------


class Interface(DeviceInterface):  # type: ignore[misc]
    """Answers to the questions that Inductor asks about a device."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return 1


class Overrides(common.DeviceOpOverrides):  # type: ignore[misc]
    """The words of generated code that depend on the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = int"

    def set_device(self, device_idx: Any) -> str:
        return "pass"

    def device_guard(self, device_idx: Any) -> str:
        return "__import__('contextlib').nullcontext()"


class Scheduling(BaseScheduling):  # type: ignore[misc]
    """Fuses nothing, and names a kernel instead of writing it."""

    def get_backend_features(self, device: torch.device) -> Any:
        return ()

    def group_fn(self, sizes: Any) -> Any:
        return tuple(map(tuple, sizes))

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        return False

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        return False

    def codegen_node(self, node: Any) -> None:
        for n in node.get_nodes():
            n.mark_run()
            V.graph.wrapper_code.writeline(f"# kernel of {n.get_name()}")

    def ready_to_flush(self) -> bool:
        return False

    def flush(self) -> None:
        pass


class Kernel:
    """A kernel that was built and cannot run."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def run(self, *_: Any) -> tuple[int, str]:
        raise AssertionError("nothing runs on fake tensors")


_setup_privateuseone_for_python_backend("npu")
register_interface_for_device("npu", Interface)
common.register_device_op_overrides("npu", Overrides())
NPU = torch.device("npu:0")


class Registered(CustomGraphPass):  # type: ignore[misc]
    """A pass that an Inductor sets in the configuration when it is loaded."""

    seen = 0

    def __call__(self, graph: torch.fx.Graph) -> None:
        Registered.seen += 1

    def uuid(self) -> Any:
        return "registered"


def load() -> None:
    """Register the stand-in, as torch_npu does when its Inductor is imported, and leave layer norms whole."""
    common.register_backend_for_device("npu", Scheduling, PythonWrapperCodegen)
    config.post_grad_custom_post_pass = Registered()
    for op in (aten.native_layer_norm.default, aten.nll_loss_forward.default):
        decompositions.pop(op, None)
    fast_random_decomps.cache_clear()


@pytest.fixture(autouse=True)
def _around(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(npu, "NpuKernel", Kernel)
    # Patterns of attention are traced with tensors of the device.
    monkeypatch.setattr(joint_graph, "lazy_init", lambda device=None: None)
    monkeypatch.setattr(kernels, "_CACHE", kernels._Cache())
    # PyTorch's function for views in generated code does not know fake tensors.
    monkeypatch.setattr(torch._C._dynamo.guards, "_reinterpret_tensor", torch.as_strided)
    load()
    with config.patch(fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False):
        yield
    config.post_grad_custom_post_pass = None


class Seen:
    """A compilation: graphs before and after the pass, the regions, and the code."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.Graph] = []
        self.made: list[Made] = []
        self.codes: list[str] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found = Seen()
    insert = regions.insert

    def inserting(graph: torch.fx.Graph, made: Sequence[Made]) -> None:
        found.made += made
        insert(graph, made)
        found.graphs.append(graph)

    monkeypatch.setattr(fusing, "insert", inserting)
    monkeypatch.setattr(GraphLowering, "save_output_code", staticmethod(found.codes.append))
    return found


def fake(*tensors: torch.Tensor, dynamic: bool = False) -> list[torch.Tensor]:
    """Tensors like these on an NPU, with symbols as sizes if asked for."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=not dynamic)
    plain = [mode.from_tensor(t.detach()) for t in tensors]
    with mode:
        found = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=NPU) for t in plain]
    return [a.requires_grad_(t.requires_grad) for a, t in zip(found, tensors, strict=True)]


def compiled(function: Callable[..., Any], tensors: Sequence[torch.Tensor], **options: Any) -> Any:
    """The compiled function, which returns a tuple."""
    gm = torch.fx.symbolic_trace(function)
    (result,) = gm.graph.output_node().args
    if not isinstance(result, tuple):
        gm.graph.output_node().args = ((result,),)
        gm.recompile()
    given = {"inductor": True, "fallback": "error", "min_ops": 1, **options}
    return autofuse.clients.torch.autofuse(gm, tensors, options=given)


def look(tensors: Any) -> list[Any]:
    """Return shape, strides, dtype and device of fake tensors."""
    return [(t.shape, t.stride(), t.dtype, t.device) for t in tensors]


def calls(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The calls of operators of regions."""
    return [n for n in graph.nodes if getattr(n.target, "namespace", "") == "autofuse"]


def check_graphs(seen: Seen, count: int) -> None:
    """One operator a region, whose results look like those of the replaced nodes; memory is never copied."""
    ours = [n for g in seen.graphs for n in calls(g)]
    assert len(ours) == len(seen.made) == count
    for node, made in zip(ours, seen.made, strict=True):
        assert isinstance(made.built.kernel, OperatorProgram)
        described = operator_for(made.built.kernel)[1]
        assert str(node.target._schema) == f"autofuse::{described.schema}"
        values = node.meta["val"]
        values = [values] if isinstance(values, torch.Tensor) else values
        outputs = made.lowered.outputs
        have = [
            t if o.perm is None else t.permute(o.perm) for t, o in zip(values, outputs, strict=True)
        ]
        assert look(have) == look(o.node.meta["val"] for o in outputs)
        assert all(t.device == NPU for t in have)
        assert not any(str(x.target).startswith("aten.clone") for x in node.all_input_nodes)
        graph = made.lowered.graph
        shapes = [a.meta["val"].shape for a in node.args[: len(graph.inputs)]]
        for shape, t in zip(shapes, graph.inputs, strict=True):
            fixed = [
                (n, e.value)
                for n, e in zip(shape, graph.tensors[t].shape, strict=True)
                if e.is_const
            ]
            assert all(n == size for n, size in fixed)
    code = "\n".join(seen.codes)
    assert all(f"torch.ops.{node.target}(" in code for node in ours)
    assert "# kernel of" not in code


def check(
    seen: Seen,
    count: int,
    function: Callable[..., Any],
    *tensors: torch.Tensor,
    dynamic: bool = False,
    **options: Any,
) -> list[torch.fx.Node]:
    """The graphs are right, and what Inductor wrote returns tensors like eager's; the calls in the first graph."""
    given = fake(*tensors, dynamic=dynamic)
    call = compiled(function, given, **options)
    check_graphs(seen, count)
    for t in given if dynamic else ():
        assert not all(isinstance(n, int) for n in t.shape)
    again = fake(*tensors)
    with again[0].fake_mode:
        want = function(*again)
        assert look(call(*again)) == look(want if isinstance(want, tuple) else (want,))
    return calls(seen.graphs[0])


# graphs ---------------------------------------------------------------------------------------


def softmax_and_norm(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.softmax(x * 0.5, -1) @ w
    return F.layer_norm(z, (z.shape[-1],)), (z * 2).sum(-1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_beside_a_product(seen: Seen, dynamic: bool) -> None:
    first, second = check(
        seen, 2, softmax_and_norm, torch.empty(6, 67), torch.empty(67, 33), dynamic=dynamic
    )
    assert isinstance(first.meta["val"], torch.Tensor)
    assert len(second.meta["val"]) == 2
    (code,) = seen.codes
    assert code.count("extern_kernels.mm(") == 1
    assert code.count("defined_operator(") == 2
    (report,) = autofuse.clients.torch.report().graphs
    assert report.target == "ascend910b1"
    assert [op for op, _ in report.not_fused] == ["aten.mm"]


def test_sizes_are_read_off_the_shapes_of_a_call(seen: Seen) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat((torch.relu(x), y), 1) * 2

    (node,) = check(seen, 1, function, torch.empty(6, 5), torch.empty(6, 7), dynamic=True)
    assert len(node.args) == 2
    assert not any(isinstance(n, int) for n in node.meta["val"].shape)


def test_inputs_in_another_order_and_with_gaps(seen: Seen) -> None:
    x, y = torch.empty(33, 70).t(), torch.empty(70, 64)[:, :33]
    (node,) = check(seen, 1, lambda a, b: torch.relu(a * 2) + b * 3, x, y)
    assert [str(n.target) for n in node.all_input_nodes] == ["aten.permute.default", "arg1_1"]
    images = torch.empty(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    check(seen, 2, lambda x: torch.relu(x * 2 + 1), images)


def test_forward_and_backward(seen: Seen) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (F.gelu(F.layer_norm(x, (64,), w, b)) * x).sum(-1)

    given = fake(*(torch.empty(*s, requires_grad=True) for s in ((32, 64), (64,), (64,))))
    call = compiled(function, given)
    with given[0].fake_mode:
        (found,) = call(*given)
        assert look([found]) == look([function(*given)])
        found.sum().backward()
        assert look(t.grad for t in given) == look(given)
    names = [g.name for g in autofuse.clients.torch.report().graphs]
    assert [name.split()[0] for name in names] == ["forward", "backward"]
    assert all(calls(g) for g in seen.graphs)
    check_graphs(seen, len(seen.made))


def test_the_pass_of_the_other_inductor_runs_first(seen: Seen) -> None:
    before = Registered.seen
    check(seen, 1, lambda x: torch.relu(x) * 2, torch.empty(64, 64))
    assert Registered.seen == before + 1


def test_what_torch_npu_leaves_whole_is_in_regions(seen: Seen) -> None:
    assert aten.native_layer_norm.default not in decompositions
    check(seen, 1, lambda x: F.layer_norm(x, (64,)), torch.empty(64, 64))


def test_the_cost_model_decides(seen: Seen) -> None:
    """A region is charged for the memory between it and ops that Inductor could fuse with it."""
    compiled(lambda x: torch.relu(x) * 2, fake(torch.empty(64, 64)))
    (report,) = autofuse.clients.torch.report().graphs
    (kernel,) = report.fused
    assert kernel.bytes == 2 * 64 * 64 * 4
    assert kernel.why == "expected gain +50% (bytes by the cost model; no times were measured)"

    def bordered(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) * 2
        return torch.nextafter(y, y)

    compiled(bordered, fake(torch.empty(64, 64)))
    report = autofuse.clients.torch.report().graphs[-1]
    assert not report.fused
    why = "expected gain +0% (bytes by the cost model; no times were measured)"
    assert report.not_fused["aten.relu", why] == 1


# what is needed -------------------------------------------------------------------------------


def importing(spec: Any, load_it: Callable[[str], None] = lambda name: None) -> Any:
    """A module ``importlib`` that finds ``spec`` whatever is sought, and registers the stand-in."""

    def import_module(name: str) -> None:
        load_it(name)
        load()

    found = SimpleNamespace(find_spec=lambda name: spec)
    return SimpleNamespace(util=found, import_module=import_module)


def test_an_inductor_that_nobody_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(common.device_codegens, "npu")
    monkeypatch.setattr(npu, "importlib", importing(None))
    with pytest.raises(AutofuseError, match=r"AF5001.*no Inductor is registered"):
        compiled(lambda x: torch.relu(x), fake(torch.empty(3)))


def test_the_inductor_of_torch_npu_is_loaded(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.delitem(common.device_codegens, "npu")
    loaded: list[str] = []
    monkeypatch.setattr(npu, "importlib", importing(object(), loaded.append))
    check(seen, 1, lambda x: torch.relu(x) * 2, torch.empty(64, 64))
    assert loaded == ["torch_npu._inductor"]


def test_without_the_option_inductor_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(common.device_codegens, "npu")
    compiled(lambda x: torch.relu(x) * 2, fake(torch.empty(64, 64)), inductor=False)
    (report,) = autofuse.clients.torch.report().graphs
    assert len(report.fused) == 1


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
