"""Operators that kernelgen makes of a PyTorch function have its parameters and results."""

import functools
import importlib.util
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from extras import lack

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.defining.sources import describe
from autofuse.clients.kernelgen.files.generate import four_files
from autofuse.clients.kernelgen.files.interface import findings
from autofuse.clients.kernelgen.operator import Operator
from autofuse.clients.kernelgen.state_format import Accuracy
from autofuse.clients.kernelgen.testing.accuracy import workers
from autofuse.machines.twin.run.worker import WorkerPool

FILE = Path(__file__).parent.parent / "support" / "described_functions.py"
#: Sizes of what stays open.
SIZES = {"n": 5, "m": 6, "a": 3, "b": 7}
TENSOR = re.compile(r"(\w+)=(\w+)\[(.*)\]")

#: Function -> its example inputs.
FUNCTIONS: Mapping[str, Sequence[str]] = {
    "reads_the_second_first": ["x=float32[4,6]", "y=float32[4,6]"],
    "leaves_one_out": ["x=float32[n,6]", "y=float32[m,3]", "z=float32[n,6]"],
    "leaves_the_last_out": ["x=float32[4]", "y=int32[2,2]"],
    "scaled": ["x=float32[n]", "alpha=3"],
    "scaled_integers": ["x=int32[n]", "k=2"],
    "of_every_kind": [
        "x=float32[4,6]",
        "y=float32[4,6]",
        "alpha=0.5",
        "z=float32[4,6]",
        "flag=true",
    ],
    "a_number_between": ["x=float32[4]", "k=3", "y=float32[4]"],
    "number_unused": ["x=float32[4]", "p=0.5"],
    "by_name": ["a=float32[4]", "b=float32[4]"],
    "without_a_mask": ["x=float32[4]"],
    "with_a_dtype": ["x=float32[4]"],
    "reserved": [
        f"{n}=float32[n]"
        for n in ("input", "max", "torch", "tl", "device", "out", "x_ptr", "blocks")
    ],
    "triton": [f"{n}=float32[n]" for n in ("ValueError", "triton", "min", "tuple", "range")],
    "twice": ["x=float32[n]"],
    "selfish": ["self=float32[4]", "x=float32[4]"],
    "not_ascii": ["größe=float32[4]", "maß=float32[4]"],
    "with_underscores": ["_x=float32[4]", "__y=float32[4]"],
    "open_number": ["x=float32[n]", "alpha=float32[]"],
    "its_own_symbol": ["n=float32[n]", "x=float32[n]"],
    "on_its_own_copy": ["x=float32[4]", "y=float32[4]"],
    "transposed": ["x=float32[a,b]", "y=float32[b,a]"],
    "nhwc_to_nchw": ["x=float32[2,8,8,3]"],
    "channels_last": ["x=float32[2,3,4,5]"],
    "views": ["x=float32[a,b]", "y=float32[a,b]"],
    "a_view": ["x=float32[4,6]"],
    "expanded": ["x=float32[6]"],
    "flipped": ["x=float32[4,6]"],
    "itself": ["x=float32[4,6]"],
    "itself_and_another": ["x=float32[4,6]", "y=float32[4,6]"],
    "one_result_twice": ["x=float32[4]"],
    "a_list": ["x=float32[4]"],
    "sliced": ["x=float32[3,7]", "y=float32[9,7]"],
    "gathered": ["x=float32[8,4]", "i=int64[n]"],
    "halves": ["x=float16[n,64]"],
}


@pytest.fixture(scope="module")
def functions() -> Any:
    spec = importlib.util.spec_from_file_location("described_functions", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One process for all accuracy tests."""
    if reason := lack("triton"):
        pytest.skip(reason)
    with workers("cpu") as made:
        yield made


@functools.cache
def described(name: str, *inputs: str, file: Path = FILE) -> Definition:
    return describe(f"{file}:{name}", target="nvidia-h100", inputs=inputs)


def baseline_of(definition: Definition) -> Callable[..., Any]:
    return baseline_in(four_files(definition))


def baseline_in(files: Mapping[str, str]) -> Callable[..., Any]:
    text = next(t for n, t in files.items() if n.endswith("_baseline.py"))
    found: dict[str, Any] = {}
    exec(text, found)
    return next(v for v in found.values() if inspect.isfunction(v))


def given_by(inputs: Sequence[str]) -> dict[str, Any]:
    """Arguments by name, as the example inputs say."""
    generator = torch.Generator().manual_seed(7)
    out: dict[str, Any] = {}
    for text in inputs:
        m = TENSOR.match(text)
        if m is None:
            name, _, value = text.partition("=")
            out[name] = {"true": True}.get(value, json.loads(value))
            continue
        shape = [SIZES[s] if s in SIZES else int(s) for s in m[3].split(",") if s]
        dtype = getattr(torch, m[2])
        drawn = torch.randn(shape, generator=generator)
        whole = torch.randint(0, 8, shape, generator=generator)
        out[m[1]] = (drawn if dtype.is_floating_point else whole).to(dtype)
    return out


def called(function: Callable[..., Any], given: Mapping[str, Any]) -> list[torch.Tensor]:
    """The results of a call in the form in which the parameters allow it."""
    args, keywords = [], {}
    for p in inspect.signature(function).parameters.values():
        if p.name in given and p.kind is p.KEYWORD_ONLY:
            keywords[p.name] = given[p.name]
        elif p.name in given:
            args.append(given[p.name])
    made = function(*args, **keywords)
    return [made] if isinstance(made, torch.Tensor) else list(made)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_and_results_are_those_of_the_function(functions: Any, name: str) -> None:
    definition = described(name, *FUNCTIONS[name])
    assert Definition.from_json(definition.to_json()) == definition
    files = four_files(definition)
    assert not findings(files)
    function, made = getattr(functions, name), baseline_in(files)
    assert parameters(made) == parameters(function)
    given = given_by(FUNCTIONS[name])
    wanted, found = called(function, given), called(made, given)
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        assert (f.shape, f.dtype) == (w.shape, w.dtype)
        torch.testing.assert_close(f, w.contiguous(), rtol=1e-3, atol=1e-4)
        assert f.is_contiguous()
        assert all(
            f.data_ptr() != x.data_ptr() for x in given.values() if isinstance(x, torch.Tensor)
        )


@pytest.mark.triton
@pytest.mark.parametrize(
    "name", ["of_every_kind", "reserved", "triton", "views", "leaves_one_out", "itself"]
)
def test_kernels_are_compared_with_the_function(pool: WorkerPool, name: str) -> None:
    """The check runs the function itself, from the text that was described."""
    operator = Operator(described(name, *FUNCTIONS[name]), "kernelgen", pool)
    cases = operator.accuracy({}, "cpu", None, few=True)
    assert [c.reason for c in cases if not c.ok] == []
    assert all(d.function_diff is not None for c in cases for d in c.outputs)


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "instead"), [("reads_the_second_first", "swapped"), ("a_view", "not_a_view")]
)
def test_a_wrong_graph_is_found(pool: WorkerPool, name: str, instead: str) -> None:
    """Kernel and baseline share the mistake of a graph: the function does not."""
    right, wrong = described(name, *FUNCTIONS[name]), described(instead, *FUNCTIONS[name])
    assert wrong.function is not None
    assert right.function is not None
    mixed = replace(wrong, function=replace(wrong.function, name=name))
    cases: Sequence[Accuracy] = Operator(mixed, "kernelgen", pool).accuracy(
        {}, "cpu", None, few=True
    )
    assert not any(c.ok for c in cases)
    assert all("function" in c.reason for c in cases)


@pytest.mark.parametrize("names", ["kernelgen", "document"])
def test_tests_call_with_all_arguments(names: str) -> None:
    """Values stand between tensors, and what is given by name is named."""
    files = four_files(described("of_every_kind", *FUNCTIONS["of_every_kind"]), names=names)
    assert not findings(files)
    (text,) = (t for n, t in files.items() if n.endswith("_accuracy.py"))
    assert "inputs[:2]]" in text
    assert "], 0.5, z=inputs[2].clone(), flag=True" in text
    files = four_files(described("a_number_between", *FUNCTIONS["a_number_between"]), names=names)
    assert any("inputs[:1]], 3, *[" in t for t in files.values())


@pytest.mark.parametrize(
    ("name", "inputs", "wrong"),
    [
        ("scaled", ["x=float32[n]", "alpha=3"], {"alpha": 2.0}),
        ("scaled", ["x=float32[n]"], {"alpha": 3}),
        ("scaled_integers", ["x=int32[n]", "k=2"], {"k": 2.0}),
        ("without_a_mask", ["x=float32[4]"], {"mask": torch.ones(4)}),
        ("with_a_dtype", ["x=float32[4]"], {"dtype": torch.bfloat16}),
        ("number_unused", ["x=float32[4]", "p=0.5"], {"p": float("nan")}),
    ],
)
def test_another_value_than_that_of_the_graph_is_refused(
    name: str, inputs: list[str], wrong: dict[str, Any]
) -> None:
    definition = described(name, *inputs)
    made = baseline_of(definition)
    given = given_by(inputs)
    (key,) = wrong
    with pytest.raises(ValueError, match=f"{key}=.*describe the function again"):
        called(made, given | wrong)
    assert any(c.startswith(f"{key} == ") for c in definition.constraints)


def test_numbers_of_one_value_are_the_same_for_floats() -> None:
    made = baseline_of(described("scaled", "x=float32[n]", "alpha=3"))
    torch.testing.assert_close(made(torch.ones(4), 3.0), torch.full((4,), 3.0))


def test_weights_come_behind_the_parameters() -> None:
    made = baseline_of(described("Weighted", "x=float32[4,3]", "y=float32[4,3]"))
    words = [(p.name, p.kind) for p in inspect.signature(made).parameters.values()]
    either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    assert words == [
        ("x", either),
        ("y", either),
        ("scale", either),
        ("w", by_name),
        ("b", by_name),
    ]
    x, w, b = torch.randn(4, 3), torch.randn(4, 3), torch.randn(3)
    torch.testing.assert_close(made(x, x, w=w, b=b), (b - x * 0.5) * w)


@pytest.mark.triton
def test_a_module_is_compared_with_other_weights(pool: WorkerPool) -> None:
    operator = Operator(
        described("Weighted", "x=float32[4,3]", "y=float32[4,3]"), "kernelgen", pool
    )
    assert all(c.ok for c in operator.accuracy({}, "cpu", None, few=True))


@pytest.mark.parametrize(
    ("name", "inputs", "says", "hint"),
    [
        ("a_dict", ["x=float32[4]"], "neither a tensor nor a tuple", "a tuple of two or more"),
        ("nested", ["x=float32[4]"], "neither a tensor nor a tuple", "a tuple of two or more"),
        ("alone_in_a_tuple", ["x=float32[4]"], "neither a tensor nor a tuple", "return a tensor"),
        ("and_nothing", ["x=float32[4]"], "a result is not a tensor", "only tensors"),
        ("on_its_input", ["x=float32[4]"], "changes its inputs", "return the new values"),
        ("any_number", ["xs=float32[4]"], "'*xs'", "one parameter per argument"),
        ("any_names", ["x=float32[4]"], "'**more'", "one parameter per argument"),
        (
            "of_a_size",
            ["x=float32[n,4]"],
            "a symbolic size as a number",
            "as a tensor of one element",
        ),
        (
            "of_a_tensor_within",
            ["x=float32[4,2]"],
            "creates a tensor from numbers",
            "a parameter of the function",
        ),
        ("by_a_function", ["x=float32[4]"], "the default of 'how'", "a wrapper function"),
        ("of_a_default", ["x=float32[4]"], "the default of 'x'", "a wrapper function"),
        ("scaled", ["x=float32[4]", "beta=2"], "no parameter 'beta'", "x, alpha"),
        ("scaled", ["x=float32[4]", "alpha=2", "alpha=3"], "two example inputs for 'alpha'", "one"),
        ("scaled", ["x=2.0"], "no parameter of 'scaled' is a tensor", "--input"),
    ],
)
def test_what_has_no_such_signature(name: str, inputs: list[str], says: str, hint: str) -> None:
    with pytest.raises(AutofuseError) as caught:
        described(name, *inputs)
    (d,) = caught.value.diagnostics
    assert d.code == "AF1402"
    assert says in d.message
    assert hint in d.hint


def test_a_definition_runs_no_file_that_it_names() -> None:
    """A function is looked for by its digest among those that this user described."""
    definition = described("scaled", "x=float32[n]")
    data = definition.to_json()
    data["function"]["sha256"] = "0" * 64
    operator = Operator(Definition.from_json(data), "kernelgen")
    with pytest.raises(AutofuseError) as caught:
        operator.pair({})
    assert caught.value.diagnostics[0].code == "AF5010"
    assert "describe" in caught.value.diagnostics[0].hint


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("name", "x): import os #", "AF1104"),
        ("name", "lambda", "AF1104"),
        ("name", "x", "AF1104"),
        ("default", "__import__('os')", "AF1104"),
        ("default", "1.0\nimport os", "AF1104"),
        ("value", "torch.load", "AF1104"),
        ("value", "(1,", "AF1104"),
        ("value", "", "AF1207"),
        ("input", "x", "AF1207"),
        ("kind", "positional", "AF1104"),
    ],
)
def test_parameters_of_a_file_are_not_believed(field: str, value: str, code: str) -> None:
    data = described("scaled", "x=float32[n]").to_json()
    data["function"]["parameters"][1][field] = value
    with pytest.raises(AutofuseError) as caught:
        Definition.from_json(data)
    assert code in [d.code for d in caught.value.diagnostics]


@pytest.mark.triton
def test_another_text_of_the_file_does_not_matter(pool: WorkerPool, tmp_path: Path) -> None:
    """The check has the function as it was described, with what its folder has beside it."""
    (tmp_path / "neighbour.py").write_text("FACTOR = 3\n", encoding="utf-8")
    file = tmp_path / "ops.py"
    file.write_text(
        "from neighbour import FACTOR\ndef f(x):\n    return x * FACTOR\n", encoding="utf-8"
    )
    operator = Operator(described("f", "x=float32[4]", file=file), "kernelgen", pool)
    file.write_text("def f(x):\n    return x * 5\n", encoding="utf-8")
    assert all(c.ok for c in operator.accuracy({}, "cpu", None, few=True))
