"""Competitors of a row: eager PyTorch, Inductor and autofuse in several variants, and kernel libraries."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import operator
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rows import Case, Function, Row, Tensors

_Options = dict[str, str | int | bool | Callable[..., Any]]

MAX_AUTOTUNE: _Options = {
    "max_autotune": True,
    "max_autotune_pointwise": True,
    "coordinate_descent_tuning": True,
}


class NotOfferedError(Exception):
    """The competitor lacks the operator, or is not installed."""


def eager(row: Row, case: Case, target: str) -> Function:
    """Return PyTorch's own kernels, one op after the other."""
    return case.function


def inductor(row: Row, case: Case, target: str) -> Function:
    """Return ``torch.compile`` with default options."""
    return torch.compile(case.function, dynamic=False)


def inductor_max(row: Row, case: Case, target: str) -> Function:
    """Return Inductor with all its tuning for vector work."""
    return torch.compile(case.function, dynamic=False, options=MAX_AUTOTUNE)


def autofuse(row: Row, case: Case, target: str, choose: str = "model") -> Function:
    """Return ``torch.compile`` with autofuse; single ops get kernels too, so that no row measures PyTorch's."""
    backend = importlib.import_module("autofuse.clients.torch").autofuse
    options: _Options = {"target": target, "min_ops": 1, "choose": choose}
    return torch.compile(case.function, dynamic=False, backend=backend, options=options)


def autofuse_all(row: Row, case: Case, target: str) -> Function:
    """Return ``torch.compile`` with autofuse and a kernel for every region that can have one."""
    return autofuse(row, case, target, "all")


def autofuse_measured(row: Row, case: Case, target: str) -> Function:
    """Return ``torch.compile`` with autofuse and kernels for the regions that are faster when both ways are timed."""
    return autofuse(row, case, target, "measure")


def autofuse_max(row: Row, case: Case, target: str) -> Function:
    """Return ``torch.compile`` with autofuse in Inductor's mode with all its tuning for vector work."""
    backend = importlib.import_module("autofuse.clients.torch").autofuse
    mode = "max-autotune-no-cudagraphs"
    how = functools.partial(backend, mode=mode, options={"target": target, "min_ops": 1})
    return torch.compile(case.function, dynamic=False, backend=how)


def generated(row: Row, case: Case, target: str) -> Function:
    """Return the generated module of the row's graph, called as by a user of this file alone."""
    if row.backward:
        raise NotOfferedError("the generated module is called for forward passes only")
    from autofuse.api import build

    graph, order = graph_of(case)
    built = build(graph, target=target)
    module = _module(f"{built.name}_triton", built.files[f"{built.name}_triton.py"])
    kernel = getattr(module, built.name)
    return lambda *given: kernel(*(given[k] for k in order))


def graph_of(case: Case) -> tuple[Any, list[int]]:
    """Return the whole function as one graph, and the case's input for each of its inputs.

    Raises:
        NotOfferedError: one of its ops has no kernel.
    """
    from torch.func import functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    from autofuse.clients.torch.backend import decompositions
    from autofuse.clients.torch.lower import lower
    from autofuse.clients.torch.ops.table import find
    from autofuse.clients.torch.refusal import RefusedError

    with torch.no_grad():
        opened = make_fx(case.function, decompositions(), tracing_mode="fake")(*case.inputs)
        # Some decompositions write in place.
        graph = make_fx(functionalize(opened), tracing_mode="fake")(*case.inputs).graph
    graph.eliminate_dead_code()
    nodes = list(graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    computed = [n for n in nodes if n.op == "call_function"]
    unknown = [n for n in computed if n.target is not operator.getitem and not find(n.target)]
    if unknown:
        raise NotOfferedError(f"{unknown[0].target} has no kernel")
    result = nodes[-1].args[0]
    try:
        lowered = lower(computed, [result] if isinstance(result, torch.fx.Node) else list(result))
    except RefusedError as e:
        raise NotOfferedError(str(e.args[0])) from None
    return lowered.graph, [inputs.index(i.node) for i in lowered.inputs]


def quack(row: Row, case: Case, target: str) -> Function:
    """Return QuACK, kernels in CuTe DSL that spread long rows over a cluster."""
    if row.peer == "layer_norm":
        return _quack_layer_norm()
    return _from_library("quack", row.peer, _QUACK)


def liger(row: Row, case: Case, target: str) -> Function:
    """Return Liger, kernels in Triton."""
    return _from_library("liger_kernel", row.peer, _LIGER)


#: Each takes a row, its case and the target of generated kernels, and returns a replacement for the function.
COMPETITORS: dict[str, Callable[[Row, Case, str], Function]] = {
    "eager": eager,
    "inductor": inductor,
    "max": inductor_max,
    "autofuse": autofuse,
    "measured": autofuse_measured,
    "tuned": autofuse_max,
    "all": autofuse_all,
    "generated": generated,
    "quack": quack,
    "liger": liger,
}

#: Entry of a library: module, name, and an adapter for the row's inputs.
_Passed = tuple[str, str, Callable[[Function], Function]]
_QUACK: dict[str, _Passed] = {
    "softmax": ("quack.softmax", "softmax", lambda f: f),
    "rms_norm": ("quack.rmsnorm", "rmsnorm", lambda f: lambda x, w: f(x, w, eps=1e-5)),
    "cross_entropy": ("quack.cross_entropy", "cross_entropy", lambda f: f),
}
_LIGER_FUNCTIONS = "liger_kernel.transformers.functional"
_LIGER: dict[str, _Passed] = {
    "softmax": (_LIGER_FUNCTIONS, "liger_softmax", lambda f: f),
    "layer_norm": (
        _LIGER_FUNCTIONS,
        "liger_layer_norm",
        lambda f: lambda x, w, b: f(x, w, b, 1e-5),
    ),
    # In place, it would overwrite the gradient of the output, which the next call needs.
    "rms_norm": (
        _LIGER_FUNCTIONS,
        "liger_rms_norm",
        lambda f: lambda x, w: f(x, w, 1e-5, in_place=False),
    ),
}


def _from_library(library: str, operator: str, known: dict[str, _Passed]) -> Function:
    if operator not in known:
        raise NotOfferedError(f"{library} has no such operator")
    module, name, passed = known[operator]
    return passed(getattr(_imported(module), name))


def _imported(name: str) -> Any:
    library = name.partition(".")[0]
    if importlib.util.find_spec(library) is None:
        raise NotOfferedError(f"{library} is not installed")
    return importlib.import_module(name)


def _quack_layer_norm() -> Function:
    """Return QuACK's layer norm, which has two functions, no autograd, and only float32 parameters."""
    norm = _imported("quack.rmsnorm")

    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
        ) -> torch.Tensor:
            wide = weight.float()
            out, rstd, mean = norm.layernorm_fwd(x, wide, bias.float(), 1e-5, True, True)
            ctx.save_for_backward(x, wide, rstd, mean)
            ctx.dtype = weight.dtype
            return out  # type: ignore[no-any-return]

        @staticmethod
        def backward(ctx: Any, *dy: torch.Tensor) -> Tensors:
            x, weight, rstd, mean = ctx.saved_tensors
            dx, dw, db = norm.layernorm_bwd(x, weight, dy[0], rstd, mean)
            return dx, dw.to(ctx.dtype), db.to(ctx.dtype)

    return LayerNorm.apply  # type: ignore[no-any-return]


def _module(name: str, text: str) -> Any:
    """Return a module from its text, written to a file because Triton reads the source of kernels from it."""
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
