"""Capture a function or a module of a Python file as one graph, for tools that start from a formula."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from autofuse.base import reading
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.visible import visible
from autofuse.base.wording import counted
from autofuse.clients.torch.backend import decompositions
from autofuse.clients.torch.lower import Lowered, lower, refusal
from autofuse.clients.torch.refusal import RefusedError
from autofuse.codegen.backends.triton.call import Argument, Call, Kind, literal
from autofuse.frontends.json_positions import quote
from autofuse.frontends.pydantic_errors import did_you_mean
from autofuse.implgraph.ir.dtypes import BY_NAME, dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.names import identifier, tensor_name

__all__ = ["Captured", "capture", "reference"]

#: Size of the first named dimension in an example, and the increment for the next ones, so that none is special.
_FIRST_SIZE, _STEP = 24, 16
_INPUT = re.compile(r"(\w+)\s*=\s*(.+)\Z", re.S)
_TENSOR = re.compile(r"([A-Za-z]\w*)\s*\[([^\[\]]*)\]\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FORM = "write NAME=DTYPE[SIZES], such as x=float16[b,4096], or NAME=NUMBER"
#: Kinds of parameters.
_KINDS: Mapping[Any, Kind] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}
#: Maximum characters of a message from the user's code or PyTorch.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class _Example:
    """An example input.

    Attributes:
        value: a tensor, or its dtype and sizes; or a number.
        dims: names of its dimensions, by position; others are fixed.
    """

    value: Any
    dims: Mapping[int, str]

    @property
    def is_tensor(self) -> bool:
        """True if the parameter becomes an input of the graph."""
        return isinstance(self.value, _Sizes | torch.Tensor)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Dtype and sizes of a tensor to create; named dimensions have size 0."""

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Captured:
    """A function captured as a graph.

    Attributes:
        graph: its formula; the inputs are its parameters in order, followed by the weights of a module.
        call: its parameters.
        sha256: digest of the file.
    """

    graph: FusionGraph
    call: Call
    sha256: str


def capture(path: Path, name: str, inputs: Sequence[str]) -> Captured:
    """Capture the graph of a function, a module, or a module class; this executes the file.

    A class is instantiated without arguments, or with those of the file's ``get_init_inputs``; without ``inputs``, the
    example inputs come from the file's ``get_inputs``.

    Args:
        path: path of the file.
        name: name of the function, module, or class in it.
        inputs: example inputs, in the form ``x=float16[b,4096]``; named sizes stay symbolic.

    Raises:
        AutofuseError: AF1001 there is no such file, AF1402 no such name in it, its code raises, its inputs do not
            match, or a part of it cannot be in a kernel; AF1005 an example input cannot be parsed.
    """
    given = [_example(text) for text in inputs]
    with _importing(path.resolve().parent):
        found = _object(path, name)
        called, arguments, examples = _called(path, found, name, given)
        try:
            program = _exported(called, examples)
        except Exception as e:
            text = f"PyTorch cannot export {quote(name)}: {_words(e)}"
            hint = "a named size must work for every value; write other sizes as numbers"
            raise AutofuseError.of("AF1402", text, where=Where(str(path)), hint=hint) from e
    graph, weights = _graph(program, examples, identifier(name), path)
    named = dict(zip(examples, graph.inputs, strict=False))
    by_name = any(a.default or a.kind == "keyword" for a in arguments)
    every = [replace(a, input=named[a.name]) if a.name in named else a for a in arguments]
    called_after = _free(weights, {a.name for a in arguments})
    every += [
        Argument(w, "keyword" if by_name else "either", input=t, weight=source)
        for w, (t, source) in zip(called_after, weights.items(), strict=True)
    ]
    return Captured(graph, Call.of(every, graph), reading.sha256(path))


def _free(names: Iterable[str], taken: set[str]) -> Iterator[str]:
    """Yield parameter names that are not taken."""
    for name in names:
        found = name
        while found in taken:
            found += "_"
        taken.add(found)
        yield found


def reference(
    path: Path, folder: Path, name: str, call: Call
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return the function of a file as a function of the inputs of its graph; this executes the file.

    Args:
        path: path of the file.
        folder: folder from which the file imports.
        name: name of the function, module, or class in it.
        call: parameters found by :func:`capture`.

    Raises:
        AutofuseError: as :func:`capture`.
    """
    with _importing(folder):
        found = _object(path, name)
        module = _module(path, found, name)
    weights = {a.input: a.weight for a in call.arguments if a.weight}
    own = Call(tuple(a for a in call.arguments if not a.weight))
    order = [a.input for a in call.arguments if a.input]

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(order, tensors, strict=True))
        args, keywords = own.bound(given, torch)
        with _importing(folder), torch.no_grad():
            if weights:
                state = {source: given[t] for t, source in weights.items()}
                made = torch.func.functional_call(module, state, tuple(args), keywords)
            else:
                made = module(*args, **keywords)
        return (made,) if isinstance(made, torch.Tensor) else tuple(made)

    return function


# the file -------------------------------------------------------------------------------------


@contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Allow a script to import from its folder."""
    before, compiled = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    # Python takes a compiled file for current if time in seconds and size agree; and the folder is the user's.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = before, compiled


def _object(path: Path, name: str) -> Any:
    where = Where(str(path))
    if not path.is_file():
        raise AutofuseError.of("AF1001", "there is no such file", where=where)
    spec = importlib.util.spec_from_file_location(
        f"_autofuse_described_{identifier(path.stem)}", path
    )
    if spec is None or spec.loader is None:
        hint = "give FILE.py:NAME"
        raise AutofuseError.of("AF1001", "this is not a Python file", where=where, hint=hint)
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


class _Called(torch.nn.Module):
    """A function or a module as a function of its tensor parameters.

    Args:
        called: the function or module.
        arguments: its parameters; those without an example have their default, or their value.
        examples: parameter -> its example.
    """

    def __init__(
        self, called: Any, arguments: Sequence[Argument], examples: Mapping[str, _Example]
    ) -> None:
        super().__init__()
        self.called = called
        self.arguments = arguments
        self.examples = dict(examples)

    def forward(self, *tensors: Any) -> Any:
        """Call the function and return its result."""
        left = iter(tensors)
        values = {n: next(left) if e.is_tensor else e.value for n, e in self.examples.items()}
        by_place = [values[a.name] for a in self.arguments if a.kind != "keyword"]
        return self.called(
            *by_place, **{a.name: values[a.name] for a in self.arguments if a.kind == "keyword"}
        )


def _globals(found: Any) -> Mapping[str, Any]:
    """Return the global names of the file that defines an object."""
    owner = found if hasattr(found, "__globals__") else getattr(found, "forward", None)
    return getattr(owner, "__globals__", {})


def _module(path: Path, found: Any, name: str) -> Any:
    """Return the callable: a module ready to run, or a function."""
    if isinstance(found, torch.nn.Module):
        return found.eval()
    if not inspect.isclass(found):
        return found
    if not issubclass(found, torch.nn.Module):
        text = f"{quote(name)} is a class, but not a subclass of torch.nn.Module"
        raise AutofuseError.of("AF1402", text, where=Where(str(path)))
    make = _globals(found).get("get_init_inputs")
    try:
        arguments = tuple(make()) if callable(make) else ()
        # The file may contain other classes than the one these arguments are for.
        fit = len(arguments) <= len(inspect.signature(found).parameters)
        made: torch.nn.Module = found(*(arguments if fit else ()))
    except Exception as e:
        text = f"{quote(name)} cannot be instantiated: {_words(e)}"
        hint = "a class is instantiated without arguments, or with those of get_init_inputs() in the file"
        raise AutofuseError.of("AF1402", text, where=Where(str(path)), hint=hint) from e
    return made.eval()


def _called(
    path: Path, found: Any, name: str, given: Sequence[tuple[str, _Example]]
) -> tuple[_Called, list[Argument], dict[str, _Example]]:
    """Return the callable to record, its parameters, and an example of each tensor parameter."""
    where = Where(str(path))
    ready = _module(path, found, name)
    call = ready.forward if isinstance(ready, torch.nn.Module) else ready
    parameters = list(inspect.signature(call).parameters.values())
    several = [str(p) for p in parameters if p.kind not in _KINDS]
    if several:
        text = (
            f"{', '.join(map(quote, several))}: a kernel cannot take a variable number of arguments"
        )
        hint = f"describe a wrapper of {quote(name)} with one parameter per argument"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint)
    examples = _examples(found, parameters, given, where)
    arguments = [_argument(p, examples[p.name], where) for p in parameters]
    if not any(e.is_tensor for e in examples.values()):
        text = f"no parameter of {quote(name)} is a tensor"
        raise AutofuseError.of("AF1402", text, where=where, hint=f"--input; {_FORM}")
    return (
        _Called(ready, arguments, examples),
        arguments,
        {n: e for n, e in examples.items() if e.is_tensor},
    )


def _argument(p: inspect.Parameter, example: _Example, where: Where) -> Argument:
    """Return a parameter with its default and value as text."""
    default = "" if p.default is p.empty else literal(p.default)
    value = "" if example.is_tensor else literal(example.value)
    if default is None or value is None:
        what, it = ("default", p.default) if default is None else ("example", example.value)
        text = f"the {what} of {quote(p.name)} cannot be written in generated code: {type(it).__name__}"
        hint = "use a number, string, dtype, None, or tuple of these; otherwise describe a wrapper function"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint)
    return Argument(p.name, _KINDS[p.kind], value=value, default=default)


def _examples(
    found: Any,
    parameters: Sequence[inspect.Parameter],
    given: Sequence[tuple[str, _Example]],
    where: Where,
) -> dict[str, _Example]:
    """Return an example for every parameter, in order: the given one, else its default."""
    names = [p.name for p in parameters]
    defaults = {p.name: _Example(p.default, {}) for p in parameters if p.default is not p.empty}
    by_name = dict(given)
    make = _globals(found).get("get_inputs")
    if given or not callable(make):
        unknown = next((n for n in by_name if n not in names), None)
        if unknown is not None:
            text = f"there is no parameter {quote(unknown)}"
            raise AutofuseError.of("AF1402", text, where=where, hint=did_you_mean(unknown, names))
        twice = next((n for k, (n, _) in enumerate(given) if n in dict(given[:k])), None)
        if twice is not None:
            text = f"there are two example inputs for {quote(twice)}"
            raise AutofuseError.of("AF1402", text, where=where, hint="give one")
    else:
        made = list(make())
        if len(made) > len(names):
            text = (
                f"get_inputs() in the file returns {len(made)} inputs for {len(names)} parameters"
            )
            raise AutofuseError.of("AF1402", text, where=where, hint="give an --input for each")
        by_name = {n: _Example(v, {}) for n, v in zip(names, made, strict=False)}
    lacking = [n for n in names if n not in by_name and n not in defaults]
    if lacking and not given:
        text = "there are no example inputs, and the file has no get_inputs() that returns them all"
        hint = " ".join(f"--input {n}=float32[...]" for n in lacking)
        raise AutofuseError.of("AF1402", text, where=where, hint=f"{hint}; {_FORM}")
    if lacking:
        text = f"no example input for {', '.join(map(quote, lacking))}"
        raise AutofuseError.of("AF1402", text, where=where, hint=f"--input; {_FORM}")
    return {n: by_name.get(n, defaults.get(n, _Example(None, {}))) for n in names}


def _example(text: str) -> tuple[str, _Example]:
    """Parse an example such as ``x=float16[b,4096]`` or ``alpha=0.5``."""
    wrong = AutofuseError.of("AF1005", f"--input {quote(text)} is invalid", hint=_FORM)
    m = _INPUT.match(text.strip())
    if m is None or not m[1].isidentifier():
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
    return name, _Example(_Sizes(d.name, tuple(sizes)), dims)


# PyTorch --------------------------------------------------------------------------------------


def _exported(called: _Called, examples: Mapping[str, _Example]) -> Any:
    """Export a function with weights as inputs, decomposed as for a compiler."""
    names = list(dict.fromkeys(d for e in examples.values() for d in e.dims.values()))
    size_of = {n: _FIRST_SIZE + _STEP * k for k, n in enumerate(names)}
    dims = {n: torch.export.Dim(n) for n in names}
    args, shapes = [], []
    for e in examples.values():
        value = e.value
        if isinstance(value, _Sizes):
            full = [size_of[e.dims[k]] if k in e.dims else s for k, s in enumerate(value.sizes)]
            value = torch.zeros(full, dtype=getattr(torch, value.dtype))
        args.append(value)
        shapes.append({k: dims[n] for k, n in e.dims.items()} or None)
    dynamic = {"tensors": tuple(shapes)} if names else None
    with torch.no_grad():
        program = torch.export.export(called, tuple(args), dynamic_shapes=dynamic)
        return program.run_decompositions(decompositions())


def _graph(
    program: Any, examples: Mapping[str, _Example], called: str, path: Path
) -> tuple[FusionGraph, dict[str, str]]:
    """Return the graph, and its weight inputs -> their names in the module."""
    where = Where(str(path))
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        text = "it changes its inputs or its buffers in place"
        raise AutofuseError.of("AF1402", text, where=where, hint="return the new values instead")
    if getattr(signature, "inputs_to_lifted_tensor_constants", {}):
        text = "it creates a tensor from numbers, which is not a parameter"
        hint = "make it a parameter of the function, or use plain numbers"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint)
    # The others are sizes, and assertions about the example inputs.
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and _holds_tensors(n)]
    refused = {
        str(n.target): why
        for n in nodes
        # An item of several results belongs to the op that returns them.
        if n.target is not operator.getitem and (why := refusal(n)) is not None
    }
    if refused:
        notes = [f"{op}: {why}" for op, why in refused.items()]
        text = f"it is not a graph of ops that kernels support: {counted(len(refused), 'op is', 'ops are')} refused"
        hint = "describe the code before and after them as separate functions"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint, notes=notes)
    by_name = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    own = dict(zip(signature.user_inputs, examples, strict=True))
    weights = signature.inputs_to_parameters | signature.inputs_to_buffers
    read = {n for n in by_name.values() if n.users}
    parameters = [by_name[n] for n in own]
    parameters += [by_name[n] for n in weights if by_name[n] in read]
    outputs = _results(program, where)
    try:
        lowered = lower(nodes, outputs, parameters)
    except RefusedError as e:
        raise AutofuseError.of(
            "AF1402", f"it is not a single graph: {e.args[0]}", where=where
        ) from None
    if len(lowered.inputs) > len(parameters):
        text = "it uses a symbolic size as a number"
        hint = "fix this size, or pass the number as a tensor of one element, NAME=float32[]"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint)
    told = {n: _own_name(weights[n]).replace(".", "_") for n in weights}
    graph = _named(lowered, own | told, _symbols(program, own, examples), called)
    behind = zip(parameters[len(own) :], graph.inputs[len(own) :], strict=True)
    return graph, {t: _own_name(weights[n.name]) for n, t in behind}


def _own_name(weight: str) -> str:
    """Return the name of a weight in its module, the one that :class:`_Called` wraps."""
    return weight.removeprefix("called.")


def _results(program: Any, where: Where) -> list[torch.fx.Node]:
    """Return the nodes of the results: a tensor, or a tuple or list of several."""
    (results,) = next(n for n in program.graph.nodes if n.op == "output").args
    spec = program.call_spec.out_spec
    if not all(isinstance(n, torch.fx.Node) and _holds_tensors(n) for n in results):
        text = "a result is not a tensor"
        raise AutofuseError.of("AF1402", text, where=where, hint="return only tensors")
    flat = spec.is_leaf() or (spec.type in (tuple, list) and spec.num_children == spec.num_leaves)
    if not flat or (len(results) == 1 and not spec.is_leaf()) or not results:
        text = "its result is neither a tensor nor a tuple of tensors"
        hint = "return a tensor, or a tuple of two or more"
        raise AutofuseError.of("AF1402", text, where=where, hint=hint)
    return list(results)


def _holds_tensors(n: torch.fx.Node) -> bool:
    val = n.meta.get("val")
    return any(
        isinstance(v, torch.Tensor) for v in (val if isinstance(val, list | tuple) else [val])
    )


def _symbols(
    program: Any, own: Mapping[str, str], examples: Mapping[str, _Example]
) -> dict[str, str]:
    """Return PyTorch's name of a symbol -> the user's name."""
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
    """Return the graph with the user's names."""
    g = lowered.graph
    taken = set(g.tensors) - set(g.inputs)
    new = {t: t for t in g.tensors}
    for t, source in zip(g.inputs, lowered.inputs, strict=True):
        node = source.node
        told = own.get(node.name, node.name) if node else t
        new[t] = tensor_name(told, taken)
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
    """Return the type and message of an exception on one line."""
    text = " ".join(visible(str(e), keep="\n").split())
    return f"{type(e).__name__}: {text[:_LONGEST]}"
