"""The files of a torch library extension around a kernel and, if there is one, the kernel of its gradient.

The kernel keeps its own project, at the root of the folder; the gradient's project lies in ``parts/``.  Names of the
graph reach C++ and Python as identifiers or inside string literals only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse import __version__
from autofuse.base import artifacts
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.backends.ascendc.host.abi import c_string
from autofuse.codegen.backends.ascendc.host.driver import part_folder
from autofuse.codegen.backends.ascendc.provenance import banner, in_comment
from autofuse.codegen.backends.ascendc.torchext.formula import Formula, formula_of, formula_text
from autofuse.codegen.backends.ascendc.torchext.schema import (
    SCALAR_TYPES,
    Argument,
    Operator,
    operator_of,
)
from autofuse.codegen.render import read_text, render
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.targets import TargetSpec

__all__ = ["package_name", "torch_files"]

_HEADERS = ("autofuse_torch.h", "autofuse_torch_cpu.h", "autofuse_torch_npu.h")
#: Size in the generated test: small, not a multiple of a block, and within the range of the symbol.
_TESTED_SIZE = 5


@frozen
class _Member:
    member: str
    label: str


@frozen
class _Tensor:
    variable: str
    label: str
    dtype: str
    rank: int


@frozen
class _Solved:
    member: str
    variable: str
    dim: int
    factor: str
    plus: str


@frozen
class _Given:
    member: str
    variable: str


@frozen
class _Dim:
    """A dimension; ``size``: its extent in C++; ``text``: its extent in the graph's terms, as a C string."""

    variable: str
    label: str
    dim: int
    size: str
    text: str


@frozen
class _Made:
    shape: str
    dtype: str


@frozen
class _Buffer:
    tensor: str
    written: str
    offset: str


@frozen
class _Written:
    variable: str
    index: int


@frozen
class _OperatorView:
    banner: str
    space: str
    name: str
    schema: str
    kernel: str
    ub_bytes: int
    symbols: tuple[_Member, ...]
    parameters: str
    arguments: str
    first: str
    tensors: tuple[_Tensor, ...]
    others: tuple[_Tensor, ...]
    solved: tuple[_Solved, ...]
    given: tuple[_Given, ...]
    dims: tuple[_Dim, ...]
    unused: tuple[str, ...]
    results: tuple[_Made, ...]
    result_type: str
    returned: str
    plan_arguments: str
    buffers: tuple[_Buffer, ...]
    written: tuple[_Written, ...]
    apart: str


@frozen
class _Named:
    name: str
    space: str
    header: str


@frozen
class _OperatorsView:
    banner: str
    ops: tuple[_Named, ...]


@frozen
class _ProjectView:
    banner: str
    distribution: str
    version: str
    op_names: str


@frozen
class _KernelRow:
    library: str
    folder: str
    graph: str


@frozen
class _SetupView:
    banner: str
    package: str
    graph: str
    kernels: tuple[_KernelRow, ...]


@frozen
class _Function:
    function: str
    name: str


@frozen
class _PackageView:
    banner: str
    signatures: tuple[str, ...]
    ops: tuple[_Function, ...]
    formula: str
    without_gradient: tuple[str, ...]


@frozen
class _TestView:
    banner: str
    package: str
    function: str
    arguments: tuple[str, ...]
    written: str
    inputs: str
    symbols: str
    order: str
    first: int


def package_name(graph: FusionGraph) -> str:
    """Return the Python package of the extension."""
    return f"autofuse_{graph.name}"


def torch_files(
    graph: FusionGraph,
    target: TargetSpec,
    backward: tuple[FusionGraph, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Return the files besides those of the kernel, by path.

    Args:
        graph: graph of the operator.
        target: chip.
        backward: graph of the gradient, and the files of its kernel; None if there is no gradient formula.

    Raises:
        AutofuseError: AF5007, PyTorch cannot express the operator; AF1404, the graph of the gradient does not fit.
    """
    name = check_identifier(graph.name)
    whole = operator_of(graph)
    formula: Formula | None = None
    operators, kernels, files = [whole], [_KernelRow(name, ".", name)], dict[str, str]()
    if backward is not None:
        formula = formula_of(whole, backward[0])
        operators.append(formula.operator)
        own = backward[0].name
        kernels.append(_KernelRow(f"{name}_backward", part_folder(own), own))
        made = {**backward[1], artifacts.MANIFEST: artifacts.manifest_text(backward[1])}
        files |= {f"{part_folder(own)}/{path}": text for path, text in made.items()}
    head, python = banner(graph, target.name), banner(graph, target.name, "#")
    files |= {f"csrc/{h}": read_text(h) for h in _HEADERS}
    rows = [_Named(c_string(o.name), _space(o), f"{o.name}_op.h") for o in operators]
    for operator, kernel, row in zip(operators, kernels, rows, strict=True):
        view = _operator_view(operator, kernel.library, target)
        files[f"csrc/{row.header}"] = render("torch_op.h.jinja", view)
    ops = _OperatorsView(head, tuple(rows))
    package = package_name(graph)
    return files | {
        f"csrc/{name}_ops.cpp": render("torch_ops.cpp.jinja", ops),
        f"csrc/{name}_npu.cpp": render("torch_npu.cpp.jinja", ops),
        f"{package}/__init__.py": render(
            "torch_init.py.jinja",
            _PackageView(
                python,
                tuple(o.schema for o in operators),
                tuple(_Function(o.name, o.name) for o in operators),
                "" if formula is None else formula_text(formula),
                tuple(o.name for o in operators if _lacks_gradient(o, formula)),
            ),
        ),
        "setup.py": render(
            "torch_setup.py.jinja", _SetupView(python, package, name, tuple(kernels))
        ),
        "pyproject.toml": render(
            "torch_pyproject.toml.jinja",
            _ProjectView(
                python,
                package.replace("_", "-"),
                __version__,
                ", ".join(f"autofuse::{o.name}" for o in operators),
            ),
        ),
        f"tests/test_{name}.py": render("torch_test.py.jinja", _test_view(whole, python, package)),
    }


def _lacks_gradient(operator: Operator, formula: Formula | None) -> bool:
    """Return True if an error replaces the formula; PyTorch allows none for operators that overwrite an input."""
    known = formula is not None and operator is formula.forward
    return not known and not any(a.written for a in operator.arguments)


def _space(operator: Operator) -> str:
    """Return the C++ namespace of an operator."""
    return f"autofuse_op_{operator.name}"


def _operator_view(operator: Operator, kernel: str, target: TargetSpec) -> _OperatorView:
    graph = operator.graph
    members = {s.name: f"n{i}" for i, s in enumerate(graph.symbols)}
    sizes = {name: f"s.{member}" for name, member in members.items()}
    tensors = [_tensor(operator, a) for a in operator.tensors]
    first = tensors[0].variable
    used = {t.variable for t in tensors} | {a.variable for a in operator.arguments if a.symbol}
    plan = ["kernel", "kName", *(f"{sizes[s.name]}.expect_int()" for s in graph.symbols)]
    count = len(operator.results)
    types = ", ".join(["at::Tensor"] * count)
    made = [f"std::move(out[{i}])" for i in range(count)]
    buffers, written = _buffers(operator, sizes, first)
    return _OperatorView(
        banner=banner(graph, target.name),
        space=_space(operator),
        name=c_string(f"autofuse::{operator.name}"),
        schema=c_string(operator.schema),
        kernel=c_string(kernel),
        ub_bytes=target.ub_usable,
        symbols=tuple(_Member(members[s.name], in_comment(s.label)) for s in graph.symbols),
        parameters=", ".join(_parameter(a) for a in operator.arguments),
        arguments=", ".join(a.variable for a in operator.arguments),
        first=first,
        tensors=tuple(tensors),
        others=tuple(tensors[1:]),
        solved=tuple(
            _Solved(members[s.symbol], f"input_{s.input}", s.dim, s.factor, s.plus)
            for s in operator.solved
        ),
        given=tuple(_Given(members[a.symbol], a.variable) for a in operator.arguments if a.symbol),
        dims=tuple(_dims(operator, sizes)),
        unused=tuple(a.variable for a in operator.arguments if a.variable not in used),
        results=tuple(
            _Made(
                ", ".join(f"c10::SymInt({to_cpp(d, sizes)})" for d in r.shape),
                SCALAR_TYPES[r.dtype.name],
            )
            for r in operator.results
        ),
        result_type="void" if not count else "at::Tensor" if count == 1 else f"std::tuple<{types}>",
        returned="" if not count else made[0] if count == 1 else f"{{{', '.join(made)}}}",
        plan_arguments=", ".join(plan),
        buffers=tuple(buffers),
        written=tuple(written),
        apart=_apart(operator) if written else "",
    )


def _apart(operator: Operator) -> str:
    """Return the tensors of a call, marking those that the kernel overwrites."""
    return ", ".join(
        f"{{{c_string(a.name)}, {a.variable}, {'true' if a.written else 'false'}}}"
        for a in operator.tensors
    )


def _parameter(a: Argument) -> str:
    kinds = {"Scalar": "const at::Scalar&", "SymInt": "c10::SymInt"}
    tensor = "at::Tensor&" if a.written else "const at::Tensor&"
    return f"{kinds.get(a.kind, tensor)} {a.variable}"


def _tensor(operator: Operator, a: Argument) -> _Tensor:
    t = operator.graph.tensors[a.tensor]
    return _Tensor(a.variable, c_string(a.name), SCALAR_TYPES[t.dtype.name], len(t.shape))


def _dims(operator: Operator, sizes: Mapping[str, str]) -> Iterator[_Dim]:
    """Yield the dimensions to compare; those that define a symbol directly need no check."""
    graph = operator.graph
    plain = {
        (f"input_{s.input}", s.dim)
        for s in operator.solved
        if (s.factor, s.plus) == (int_literal(1), int_literal(0))
    }
    for a in operator.tensors:
        for d, size in enumerate(graph.tensors[a.tensor].shape):
            if (a.variable, d) not in plain:
                text = c_string(graph.in_words(size))
                yield _Dim(a.variable, c_string(a.name), d, to_cpp(size, sizes), text)


def _buffers(
    operator: Operator, sizes: Mapping[str, str], first: str
) -> tuple[list[_Buffer], list[_Written]]:
    """Return the parameters of the kernel in order, and those that are copied back to an argument."""
    graph = operator.graph
    buffers: list[_Buffer] = []
    place: dict[str, int] = {}
    for a in operator.arguments:
        if not a.tensor:
            continue
        t = graph.tensors[a.tensor]
        place[a.tensor] = len(buffers)
        if a.kind == "Scalar":
            dtype = SCALAR_TYPES[t.dtype.name]
            made = f"autofuse_torch::Number({a.variable}, at::{dtype}, {first})"
            buffers.append(_Buffer(made, "false", "0"))
        else:
            laid = f"{a.variable}.contiguous()"
            if t.strides is not None:
                fixed = ", ".join(_integer(s, sizes) for s in t.strides)
                laid = f"autofuse_torch::Laid({a.variable}, {{{fixed}}})"
            offset = "0" if t.offset is None else _integer(t.offset, sizes)
            buffers.append(_Buffer(laid, "false", offset))
    written = []
    returned = 0
    variables = {a.tensor: a.variable for a in operator.tensors}
    for o in graph.outputs:
        if o.inout is None:
            buffers.append(_Buffer(f"out[{returned}]", "true", "0"))
            returned += 1
            continue
        at = place[o.inout]
        written.append(_Written(variables[o.inout], at))
        buffers.append(_Buffer(f"buffers[{at}].tensor", "true", f"buffers[{at}].offset"))
    return buffers, written


def _integer(e: Expr, sizes: Mapping[str, str]) -> str:
    """Return a size of a call without symbolic sizes of PyTorch."""
    number = e.as_int()
    return (
        f"c10::SymInt({to_cpp(e, sizes)}).expect_int()" if number is None else int_literal(number)
    )


# the generated test ---------------------------------------------------------------------------


def _test_view(operator: Operator, head: str, package: str) -> _TestView:
    graph = operator.graph
    env = {s.name: _tested_size(s) for s in graph.symbols}
    arguments = [_test_argument(operator, a, env) for a in operator.arguments]
    place = {a.tensor: i for i, a in enumerate(operator.arguments) if a.written}
    written = list(place.values())
    first = next(i for i, a in enumerate(operator.arguments) if a.kind == "Tensor")
    # Outputs of the graph in the order of ``results``: returned values, then overwritten arguments.
    returned = [k for k, o in enumerate(graph.outputs) if o.inout is None]
    overwriting = {place[o.inout]: k for k, o in enumerate(graph.outputs) if o.inout is not None}
    return _TestView(
        banner=head,
        package=package,
        function=operator.name,
        arguments=tuple(arguments),
        written=_members(written),
        inputs=_members([i for i, a in enumerate(operator.arguments) if a.tensor]),
        symbols=", ".join(f'"{a.symbol}": {env[a.symbol]}' for a in operator.arguments if a.symbol),
        order=str([*returned, *(overwriting[i] for i in written)]),
        first=first,
    )


def _members(numbers: Sequence[int]) -> str:
    """Return the elements of a tuple, without parentheses."""
    return "".join(f"{n}, " for n in numbers).strip()


def _tested_size(symbol: Symbol) -> int:
    return min(max(symbol.min, _TESTED_SIZE), symbol.max)


def _test_argument(operator: Operator, a: Argument, env: Mapping[str, int]) -> str:
    """Return an argument of the test as a Python expression."""
    if a.symbol:
        return str(env[a.symbol])
    t = operator.graph.tensors[a.tensor]
    if a.kind == "Scalar":
        return "1.5" if t.dtype.kind == "f" else "1"
    shape = [e.evaluate(env) for e in t.shape]
    if t.dtype.kind == "f":
        made = f"torch.randn({shape}, generator=made).to(torch.{t.dtype.name})"
    else:
        made = f"torch.randint(0, 2, {shape}, generator=made).to(torch.{t.dtype.name})"
    if t.strides is None:
        return made
    strides = [e.evaluate(env) for e in t.strides]
    return f"torch.empty_strided({shape}, {strides}, dtype=torch.{t.dtype.name}).copy_({made})"
