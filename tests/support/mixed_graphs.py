"""Random graphs of ops of all families, of 2 to 2,000 nodes: graph files, ONNX models and functions of PyTorch.

Each is drawn from a ``random.Random`` alone, and goes from its frontend to the text of all files.  Nothing is compiled
unless the graph is to be verified as well: then its kernels run on the twin, beside what they stand for.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from types import FrameType
from typing import Any

from op_steps import OPS, add_op
from storm_cases import BUDGET
from storm_maker import DTYPES, FLOATS, Maker

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess

__all__ = ["KINDS", "Made", "Tried", "document", "onnx_model", "size_of", "torch_function", "tried"]

#: Seconds of processor time that a graph may take: so many, and so many more per node.
SECONDS, PER_NODE = 2.0, 0.020
#: A search that takes so many times as long is ended.
_ENDED = 5
#: Tensors behind the last one that the next node takes, mostly.
_NEAR = 8


@dataclass(frozen=True)
class Tried:
    """What became of a graph: ``built``, ``refused`` with a code, ``failed`` or ``slow``.

    One that was verified is ``verified`` or ``wrong``.
    """

    status: str
    nodes: int
    seconds: float
    reason: str = ""

    @property
    def ok(self) -> bool:
        """True if nothing is to be done about it."""
        return self.status in ("built", "refused", "verified")


@dataclass(frozen=True)
class Made:
    """A graph: the call that generates its kernels, and one that runs what it gave and says what is wrong with it."""

    build: Callable[[], Any]
    verify: Callable[[Any, WorkerPool], str]


class _EndedError(Exception):
    """A graph takes far too long."""


def size_of(rng: Random, most: int = 2000) -> int:
    """A number of nodes from 2 on; each power of two as often as the next."""
    return int(2 * (most / 2) ** rng.random())


def document(rng: Random, nodes: int) -> dict[str, Any]:
    """A graph file."""
    m = Maker(rng, symbolic=rng.random() < 0.3)
    m.input(rng.choice((*FLOATS, *DTYPES)), m.shape(budget=BUDGET // 8))
    names = sorted(OPS)
    for _ in range(20 * nodes):
        if len(m.nodes) >= nodes:
            break
        known = list(m.tensors)
        x = rng.choice(known[-_NEAR:] if rng.random() < 0.9 else known)
        if m.count(m.tensors[x][1]) > BUDGET:
            continue
        alike = [t for t in known[-40:] if m.tensors[t] == m.tensors[x]]
        add_op(m, rng.choice(names), x, rng.choice(alike or [x]))
    used = {x for n in m.nodes for x in n["inputs"] if isinstance(x, str)}
    m.outputs = [n["outputs"][0] for n in m.nodes if n["outputs"][0] not in used][-64:]
    return m.case("mixed").document


_UNARY = ("Abs", "Exp", "Relu", "Tanh", "Sigmoid", "Neg", "Erf", "Floor", "Softplus", "Identity")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu")


def onnx_model(rng: Random, nodes: int) -> Any:
    """An ONNX model of float32, most of whose tensors are 8 x 12."""
    from onnx import TensorProto, helper, numpy_helper

    shape = (8, 12)
    made: list[Any] = []
    known, held = ["x"], []

    def node(op: str, inputs: list[str], **attrs: Any) -> str:
        name = f"t{len(made)}"
        made.append(helper.make_node(op, inputs, [name], name=f"n{len(made)}", **attrs))
        return name

    def constant(value: Any) -> str:
        import numpy as np

        held.append(numpy_helper.from_array(np.asarray(value), f"c{len(held)}"))
        return str(held[-1].name)

    while len(made) < nodes:
        x = rng.choice(known[-_NEAR:] if rng.random() < 0.9 else known)
        other = rng.choice(known[-40:])
        kind = rng.randrange(9)
        if kind < 3:
            y = node(rng.choice(_UNARY), [x])
        elif kind < 5:
            y = node(rng.choice(_BINARY), [x, other])
        elif kind == 5:
            op = rng.choice(("Softmax", "LogSoftmax", "CumSum"))
            axis = rng.randrange(2)
            y = node(op, [x, constant(axis)]) if op == "CumSum" else node(op, [x], axis=axis)
        elif kind == 6:
            op = rng.choice(("ReduceMax", "ReduceMean", "ReduceSum"))
            y = node(op, [x, constant([rng.randrange(2)])], keepdims=1)
            y = node("Add", [x, y])
        elif kind == 7:
            parts = node("Slice", [x, constant([2]), constant([7]), constant([0])])
            rest = node("Slice", [other, constant([3]), constant([6]), constant([0])])
            y = node("Concat", [parts, rest], axis=0)
        else:
            turned = node("Transpose", [x], perm=[1, 0])
            y = node("Transpose", [node(rng.choice(_UNARY), [turned])], perm=[1, 0])
        known.append(y)
    used = {i for n in made for i in n.input}
    ends = [n.output[0] for n in made if n.output[0] not in used]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ends]
    graph = helper.make_graph(made, "mixed", inputs, results, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def torch_function(rng: Random, nodes: int) -> Callable[[Any], Any]:
    """A function of a tensor of 8 x 12, of as many calls of PyTorch."""
    import torch

    unary = (torch.abs, torch.exp, torch.relu, torch.tanh, torch.sigmoid, torch.neg, torch.erf)
    binary = (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.atan2)
    rows = (
        lambda x: torch.softmax(x, 1),
        lambda x: x - x.mean(0, keepdim=True),
        lambda x: x + x.amax(1, keepdim=True),
        lambda x: x.cumsum(0),
        lambda x: torch.cat([x[2:], x[:2]], 0),
        lambda x: torch.where(x > 0, x, -x),
        lambda x: torch.nn.functional.gelu(x.t()).t(),
        lambda x: x.flip(1),
    )
    plan = []
    for k in range(nodes):
        x = max(0, k - rng.randrange(_NEAR))
        kind = rng.randrange(3)
        how: Any = rng.choice((unary, binary, rows)[kind])
        plan.append((how, (x, rng.randint(0, k)) if kind == 1 else (x,)))

    def function(x: Any) -> Any:
        known = [x]
        for how, places in plan:
            known.append(how(*(known[p] for p in places)))
        return known[-1], known[-2]

    return function


# trying ---------------------------------------------------------------------------------------


def tried(kind: str, rng: Random, nodes: int, pool: WorkerPool | None = None) -> Tried:
    """Generate a graph of a kind of :data:`KINDS`, and say what became of it; with ``pool`` it is verified as well."""
    made = KINDS[kind](rng, nodes)
    most = SECONDS + PER_NODE * nodes
    start = time.process_time()
    status, reason, built = "built", "", None
    try:
        with _ended_after(_ENDED * most):
            built = made.build()
    except AutofuseError as e:
        codes = {d.code for d in e.diagnostics}
        status, reason = ("failed", str(e)) if "AF9001" in codes else ("refused", min(codes))
    except _EndedError:
        status, reason = "slow", f"ended after {_ENDED * most:.0f} s"
    except Exception:
        status, reason = "failed", traceback.format_exc()
    seconds = time.process_time() - start
    if seconds > most and status != "failed":
        status, reason = "slow", f"{reason} {seconds:.1f} s instead of {most:.1f}"
    found = Tried(status, nodes, seconds, reason)
    if pool is None or status != "built":
        return found
    try:
        reason = made.verify(built, pool)
    except Exception:
        return replace(found, status="failed", reason=traceback.format_exc())
    return replace(found, status="wrong" if reason else "verified", reason=reason)


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Raises _EndedError after so many seconds of processor time."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise _EndedError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _graph(rng: Random, nodes: int) -> Made:
    made = document(rng, nodes)

    def verify(built: api.BuildResult, pool: WorkerPool) -> str:
        report = verify_in_subprocess(built.files, built.graph, pool=pool, count=3, seed=1)
        return "" if report.ok else "\n".join(map(str, report.diagnostics)) or "nothing ran"

    return Made(lambda: api.build(made), verify)


def _onnx(rng: Random, nodes: int) -> Made:
    made = onnx_model(rng, nodes)

    def verify(built: models.ModelResult, pool: WorkerPool) -> str:
        ran = models.run(built, check="all")
        bad = [str(r) for r in ran.regions if r["state"] not in ("ok", "by reference")]
        return "" if ran.ok else "\n".join([*map(str, ran.diagnostics), *bad]) or str(ran.compared)

    return Made(lambda: models.build(made), verify)


def _torch(rng: Random, nodes: int) -> Made:
    """Kernels are generated and not compiled: PyTorch runs what they are for; what they fail with is raised behind."""
    import torch

    from autofuse.clients.torch.devices import kernels

    function = torch_function(rng, min(nodes, 200))
    failed: list[Exception] = []

    def generated(graph: Any, target: Any, options: Any, device: Any) -> Any:
        try:
            api.build_split(graph, target=target)
        except AutofuseError as e:
            if any(d.code == "AF9001" for d in e.diagnostics):
                failed.append(e)
        except Exception as e:
            failed.append(e)
        raise AutofuseError.of("AF5003", "kernels are not compiled here")

    def run() -> None:
        before = kernels._built
        kernels._built = generated
        try:
            with _strict():
                torch._dynamo.reset()
                torch.compile(function, backend="autofuse", options=_TWIN)(torch.ones(8, 12))
        finally:
            kernels._built = before
        for e in failed:
            raise e

    return Made(run, lambda _, pool: _differs_from_eager(function))


@contextmanager
def _strict() -> Iterator[None]:
    """Internal errors are raised, where PyTorch would else do the work."""
    before = os.environ.get(knobs.STRICT.name)
    os.environ[knobs.STRICT.name] = "1"
    try:
        yield
    finally:
        os.environ.pop(knobs.STRICT.name)
        if before is not None:
            os.environ[knobs.STRICT.name] = before


_TWIN = {"target": "ascend910b1"}
#: A result may be so many times as far from that in float64 as eager's is, and so much of the largest element.
_TIMES, _PART = 16.0, 1e-5


def _differs_from_eager(function: Callable[[Any], Any]) -> str:
    """What the kernels of a function make otherwise than eager, as far as float32 decides it; an error is raised."""
    import torch

    x = torch.randn(8, 12, generator=torch.Generator().manual_seed(1))
    with _strict():
        torch._dynamo.reset()
        ours = torch.compile(function, backend="autofuse", options=_TWIN)(x)
    found = []
    for k, (got, eager, exact) in enumerate(
        zip(ours, function(x), function(x.double()), strict=True)
    ):
        said = torch.isfinite(eager) & torch.isfinite(exact)
        far = (eager - exact).abs()[said].max().item() if said.any() else 0.0
        size = exact[said].abs().max().item() if said.any() else 0.0
        wrong = said & ~((got - exact).abs() <= _TIMES * far + _PART * size)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            found.append(
                f"result {k}: {int(wrong.sum())} elements differ, at {at} {got[at].item()} instead of "
                f"{eager[at].item()} (float64: {exact[at].item()})"
            )
    return "\n".join(found)


#: Kind of graph -> what makes one.
KINDS: dict[str, Callable[[Random, int], Made]] = {
    "graph": _graph,
    "onnx": _onnx,
    "torch": _torch,
}
