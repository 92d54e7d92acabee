"""A function or a module in a Python file as one graph, for tools that begin with a formula."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.visible import visible
from autofuse.frontends.json_positions import quote
from autofuse.frontends.pydantic_errors import did_you_mean
from autofuse.implgraph.ir.dtypes import BY_NAME, dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.names import identifier, tensor_name
from autofuse.torch.backend import decompositions
from autofuse.torch.lower import Lowered, TensorInput, lower, refusal
from autofuse.torch.refusal import RefusedError

__all__ = ["capture"]

#: Size of the first named dimension in an example, and what the next ones are larger by: none is special.
_FIRST_SIZE, _STEP = 24, 16
_INPUT = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.+)\Z", re.S)
_TENSOR = re.compile(r"([A-Za-z]\w*)\s*\[([^\[\]]*)\]\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FORM = "write NAME=DTYPE[SIZES], such as x=float16[b,4096], or NAME=NUMBER"
#: Characters of what the user's code, or PyTorch, says.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class _Example:
    """An example input.

    Attributes:
        value: a tensor, or a number.
        dims: names of its dimensions, by their place; others are fixed.
    """

    value: Any
    dims: Mapping[int, str]


def capture(path: Path, name: str, inputs: Sequence[str]) -> FusionGraph:
    """The graph of a function, a module, or a class of modules; the file is executed.

    A class is made without arguments, or with those of ``get_init_inputs`` of the file; without ``inputs`` the example
    inputs are those of ``get_inputs`` of the file.

    Args:
        path: of the file.
        name: of the function, of the module, or of the class in it.
        inputs: example inputs, in the form ``x=float16[b,4096]``; sizes that are names stay open.

    Raises:
        AutofuseError: AF1001 there is no such file, AF1402 no such name in it, its code raises, its inputs do not fit,
            or a part of it is no kernel; AF1005 an example input cannot be read.
    """
    given = [_example(text) for text in inputs]
    with _importing(path):
        found = _object(path, name)
        module, examples = _module(path, found, name), _examples(path, found, given)
        module.eval()
        try:
            program = _exported(module, examples)
        except Exception as e:
            text = f"PyTorch does not export {quote(name)}: {_words(e)}"
            hint = "sizes that are names must be possible for every size; others are numbers"
            raise AutofuseError.of("AF1402", text, where=Where(str(path)), hint=hint) from e
    return _graph(program, list(examples), examples, identifier(name), path)


# the file -------------------------------------------------------------------------------------


@contextmanager
def _importing(path: Path) -> Iterator[None]:
    """The folder of a script is where it looks for others."""
    before = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path[:] = before


def _object(path: Path, name: str) -> Any:
    where = Where(str(path))
    if not path.is_file():
        raise AutofuseError.of("AF1001", "there is no such file", where=where)
    spec = importlib.util.spec_from_file_location(
        f"_autofuse_described_{identifier(path.stem)}", path
    )
    if spec is None or spec.loader is None:
        hint = "give FILE.py:NAME"
        raise AutofuseError.of("AF1001", "this is no Python file", where=where, hint=hint)
    made = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except Exception as e:
        raise AutofuseError.of("AF1402", f"the file raises {_words(e)}", where=where) from e
    names = [n for n, v in vars(made).items() if callable(v) and not n.startswith("_")]
    if not callable(vars(made).get(name)):
        text = f"there is no function or module {quote(name)} in the file"
        raise AutofuseError.of("AF1402", text, where=where, hint=did_you_mean(name, names))
    return vars(made)[name]


class _Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """What the function returns."""
        return self.function(*args)


def _globals(found: Any) -> Mapping[str, Any]:
    """The names of the file that an object is from."""
    owner = found if hasattr(found, "__globals__") else getattr(found, "forward", None)
    return getattr(owner, "__globals__", {})


def _module(path: Path, found: Any, name: str) -> torch.nn.Module:
    if isinstance(found, torch.nn.Module):
        return found
    if not inspect.isclass(found):
        return _Function(found)
    if not issubclass(found, torch.nn.Module):
        text = f"{quote(name)} is a class, and none of torch.nn.Module"
        raise AutofuseError.of("AF1402", text, where=Where(str(path)))
    make = _globals(found).get("get_init_inputs")
    try:
        arguments = tuple(make()) if callable(make) else ()
        # The file may have other classes beside the one that these are for.
        fit = len(arguments) <= len(inspect.signature(found).parameters)
        made: torch.nn.Module = found(*(arguments if fit else ()))
    except Exception as e:
        text = f"{quote(name)} cannot be made: {_words(e)}"
        hint = "a class is made without arguments, or with those of get_init_inputs() of the file"
        raise AutofuseError.of("AF1402", text, where=Where(str(path)), hint=hint) from e
    return made


def _examples(path: Path, found: Any, given: Sequence[tuple[str, _Example]]) -> dict[str, _Example]:
    """The arguments in the order of the parameters, by name."""
    where = Where(str(path))
    call = (
        found
        if inspect.isfunction(found)
        else found.forward
        if hasattr(found, "forward")
        else found
    )
    names = [n for n in inspect.signature(call).parameters if n != "self"]
    if given:
        unknown = next((n for n, _ in given if n not in names), None)
        if unknown is not None:
            text = f"there is no parameter {quote(unknown)}"
            raise AutofuseError.of("AF1402", text, where=where, hint=did_you_mean(unknown, names))
        by_name = dict(given)
        lacking = [
            p.name
            for p in inspect.signature(call).parameters.values()
            if p.name in names and p.name not in by_name and p.default is p.empty
        ]
        if lacking:
            text = f"no example input for {', '.join(map(quote, lacking))}"
            raise AutofuseError.of("AF1402", text, where=where, hint=f"--input; {_FORM}")
        return {n: by_name[n] for n in names if n in by_name}
    make = _globals(found).get("get_inputs")
    if not callable(make):
        text = "there are no example inputs, and no get_inputs() in the file"
        hint = " ".join(f"--input {n}=float32[...]" for n in names)
        raise AutofuseError.of("AF1402", text, where=where, hint=f"{hint}; {_FORM}")
    return {n: _Example(v, {}) for n, v in zip(names, make(), strict=False)}


def _example(text: str) -> tuple[str, _Example]:
    """``x=float16[b,4096]``, or ``alpha=0.5``."""
    wrong = AutofuseError.of("AF1005", f"--input {quote(text)} is not understood", hint=_FORM)
    m = _INPUT.match(text.strip())
    if m is None:
        raise wrong
    name, value = m.groups()
    words: Mapping[str, Any] = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return name, _Example(words[value.lower()], {})
    tensor = _TENSOR.match(value)
    if tensor is None:
        try:
            return name, _Example(float(value) if set(value) & set(".eE") else int(value), {})
        except ValueError:
            raise wrong from None
    try:
        d = dtype(tensor[1])
    except KeyError:
        known = ", ".join(n for n in BY_NAME if n != "mask")
        text = f"--input {name}: the dtype {quote(tensor[1])} is not known"
        raise AutofuseError.of("AF1005", text, hint=f"known: {known}") from None
    dims, sizes = {}, []
    for k, size in enumerate(s.strip() for s in tensor[2].split(",") if s.strip()):
        if size.isdecimal():
            sizes.append(int(size))
        elif _NAME.match(size):
            dims[k] = size
            sizes.append(0)
        else:
            raise wrong
    return name, _Example((d.name, sizes), dims)


# PyTorch --------------------------------------------------------------------------------------


def _exported(module: torch.nn.Module, examples: Mapping[str, _Example]) -> Any:
    """The program of a module, with parameters as inputs, in ops that are opened as for a compiler."""
    names = list(dict.fromkeys(d for e in examples.values() for d in e.dims.values()))
    size_of = {n: _FIRST_SIZE + _STEP * k for k, n in enumerate(names)}
    dims = {n: torch.export.Dim(n) for n in names}
    args, shapes = [], []
    for e in examples.values():
        value = e.value
        if isinstance(value, tuple):
            name, sizes = value
            full = [size_of[e.dims[k]] if k in e.dims else s for k, s in enumerate(sizes)]
            value = torch.zeros(full, dtype=getattr(torch, name))
        args.append(value)
        shapes.append({k: dims[n] for k, n in e.dims.items()} or None)
    dynamic = {"args": tuple(shapes)} if isinstance(module, _Function) else tuple(shapes)
    with torch.no_grad():
        program = torch.export.export(
            module, tuple(args), dynamic_shapes=dynamic if names else None
        )
        return program.run_decompositions(decompositions())


def _graph(
    program: Any,
    names: Sequence[str],
    examples: Mapping[str, _Example],
    called: str,
    path: Path,
) -> FusionGraph:
    where = Where(str(path))
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        text = "it changes its inputs or its buffers in place"
        raise AutofuseError.of("AF1402", text, where=where, hint="return what is new instead")
    # Others are sizes, and assertions about what the example inputs said.
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and _holds_tensors(n)]
    refused = {
        str(n.target): why
        for n in nodes
        # One of several results is part of the op that makes them.
        if n.target is not operator.getitem and (why := refusal(n)) is not None
    }
    if refused:
        notes = [f"{op}: {why}" for op, why in refused.items()]
        text = f"it is not one graph of ops that kernels have: {len(refused)} op(s) are refused"
        hint = "describe what is before and behind them as functions of their own"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint, notes=notes)
    (results,) = next(n for n in program.graph.nodes if n.op == "output").args
    outputs = [n for n in results if n is not None]
    if (
        any(not isinstance(n, torch.fx.Node) or n.op == "placeholder" for n in outputs)
        or not outputs
    ):
        text = "a result is no tensor that is computed"
        raise AutofuseError.of("AF1402", text, where=where, hint="return computed tensors only")
    try:
        lowered = lower(nodes, outputs)
    except RefusedError as e:
        raise AutofuseError.of("AF1402", f"it is not one graph: {e.args[0]}", where=where) from None
    own = dict(zip(signature.user_inputs, names, strict=False))
    own |= signature.inputs_to_parameters | signature.inputs_to_buffers
    own |= getattr(signature, "inputs_to_lifted_tensor_constants", {})
    return _named(lowered, own, _symbols(program, own, examples), called)


def _holds_tensors(n: torch.fx.Node) -> bool:
    val = n.meta.get("val")
    return any(
        isinstance(v, torch.Tensor) for v in (val if isinstance(val, list | tuple) else [val])
    )


def _symbols(
    program: Any, own: Mapping[str, str], examples: Mapping[str, _Example]
) -> dict[str, str]:
    """PyTorch's name of a symbol -> that of the user."""
    out = {}
    for n in program.graph.nodes:
        example = examples.get(own.get(n.name, "")) if n.op == "placeholder" else None
        for k, name in (example.dims if example is not None else {}).items():
            size = n.meta["val"].shape[k]
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                out[size.node.expr.name] = name
    return out


def _named(
    lowered: Lowered, own: Mapping[str, str], symbols: Mapping[str, str], called: str
) -> FusionGraph:
    """The graph with the names of the user."""
    g = lowered.graph
    taken = set(g.tensors) - set(g.inputs)
    new = {t: t for t in g.tensors}
    for t, source in zip(g.inputs, lowered.inputs, strict=True):
        node = source.node
        told = own.get(node.name, node.name) if isinstance(source, TensorInput) and node else t
        new[t] = tensor_name(told.replace(".", "_"), taken)
    several = len(g.outputs) > 1
    results = [tensor_name(f"out_{k}" if several else "out", taken) for k in range(len(g.outputs))]
    labels = {
        ours.name: symbols[theirs]
        for theirs, ours in zip(lowered.symbols, g.symbols, strict=True)
        if theirs in symbols and theirs not in lowered.negative
    }
    return replace(
        g,
        name=called,
        called="",
        symbols=tuple(replace(s, called=labels.get(s.name, s.called)) for s in g.symbols),
        inputs=tuple(new[t] for t in g.inputs),
        nodes=tuple(
            replace(
                n,
                inputs=tuple(new[x] if isinstance(x, str) else x for x in n.inputs),
                outputs=tuple(new[x] for x in n.outputs),
            )
            for n in g.nodes
        ),
        outputs=tuple(
            replace(o, name=name, tensor=new[o.tensor])
            for name, o in zip(results, g.outputs, strict=True)
        ),
        tensors={new[t]: replace(x, name=new[t]) for t, x in g.tensors.items()},
    )


def _words(e: Exception) -> str:
    """What an exception says, on one line."""
    text = " ".join(visible(str(e), keep="\n").split())
    return f"{type(e).__name__}: {text[:_LONGEST]}"
