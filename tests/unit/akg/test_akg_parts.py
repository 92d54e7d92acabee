"""Parts of the flows of AKG: names and grids of launches, sizes in JSON, the parameters of PTX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import akg_graphs
import pytest
from akg_runtime import plan_of
from extras import needs

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.akg import flow
from autofuse.clients.akg.gpu import _upstream_grid
from autofuse.clients.akg.models import json_text
from autofuse.clients.akg.signature import Sizes
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.implgraph.expr.expression import CeilDiv, FloorDiv, Max, const, sym
from autofuse.machines.gpu.ahead import _PROBE, Entry, _compiled, _own_parameters
from autofuse.machines.gpu.importing import imported

TARGET = "nvidia-h100"


def test_a_kernel_is_called_after_its_graph() -> None:
    program, launches = plan_of(akg_graphs.FIXED["mul_tanh"], TARGET)
    assert list(launches) == ["Fused_Mul_Tanh_kernel"]
    assert "def Fused_Mul_Tanh_kernel(x_ptr, w_ptr, t_ptr, BLOCK" in file_text(program)
    (launch,) = launches.values()
    assert [m.name for m in launch.memory] == ["x", "w", "t"]


def test_a_tensor_may_have_the_name_of_the_kernel() -> None:
    program, launches = plan_of(akg_graphs.FIXED["names"], TARGET)
    (name,) = launches
    assert name not in {m.name for m in (*program.inputs, *program.outputs)}
    compile(file_text(program), "module", "exec")


def test_pointers_come_in_the_order_of_the_graph_whether_or_not_they_are_used() -> None:
    _, launches = plan_of(akg_graphs.FIXED["in place"], TARGET)
    (launch,) = launches.values()
    assert [m.name for m in launch.memory] == ["unused", "p", "g"]


def test_rows_of_unknown_length_have_one_kernel_for_all() -> None:
    made: dict[str, Any] = {}

    def note(stage: str, name: str, before: Any, after: Any) -> None:
        if not name:
            made[stage] = after

    api.observed(akg_graphs.SYMBOLIC["columns"], note, target=TARGET)
    assert len(made["plan"].kernels) == 2
    assert made["plan"].kernels[0].blocks is None
    _, launches = plan_of(akg_graphs.SYMBOLIC["columns"], TARGET)
    assert len(launches) == 1


def test_several_launches_are_numbered_and_share_all_pointers() -> None:
    _, launches = plan_of(akg_graphs.long_sum(40, 4096), TARGET)
    assert list(launches) == ["long_sum_0_kernel", "long_sum_1_kernel"]
    first, second = launches.values()
    assert first.memory == second.memory
    assert [m.role.value for m in first.memory] == ["input", "output", "scratch"]


def test_sizes_are_numbers_or_python() -> None:
    graph = api.read(akg_graphs.SYMBOLIC["names"])
    sizes = Sizes(graph)
    a, b = (sym(s.name) for s in graph.symbols)
    names = list(sizes.names.values())
    assert not {"min", "lambda"} & set(names)
    text = sizes.size(CeilDiv(a * 3, 7) * b)
    assert isinstance(text, str)
    assert eval(text, {"__builtins__": {}}, {names[0]: 5, names[1]: 2}) == 6
    assert sizes.size(const(12)) == 12


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda s: CeilDiv(s, 128), ("s0", 128)),
        (lambda s: s, ("s0", 1)),
        (lambda s: const(3), 3),
        (lambda s: CeilDiv(s, 128) * 2, "2 * ((s0 + 128 - 1) // 128)"),
        (lambda s: FloorDiv(s, 128), "(s0 // 128)"),
        (lambda s: Max(s, 4), "max(4, s0)"),
    ],
)
def test_a_grid_is_a_pair_where_akg_has_one(made: Any, want: Any) -> None:
    graph = api.read(akg_graphs.SYMBOLIC["mul_tanh"])
    assert _upstream_grid(made(sym("s0")), Sizes(graph)) == want


PTX = """.visible .entry k(
\t.param .u64 k_param_0,
\t.param .u64 k_param_1,
\t.param .u64 k_param_2
)
{ ld.param.b64 %rd1, [k_param_0]; }
"""


def test_the_two_parameters_of_triton_go() -> None:
    entry = Entry("k", ("*fp32",), {}, 4, 1, True)
    assert _own_parameters(PTX, entry).count(".param ") == 1
    assert "k_param_0\n)" in _own_parameters(PTX, entry)
    read = PTX.replace("[k_param_0]", "[k_param_2]")
    with pytest.raises(AutofuseError, match="needs Triton's own scratch") as caught:
        _own_parameters(read, entry)
    assert caught.value.diagnostics[0].code == "AF5002"


def test_what_does_not_fit_the_schema_is_not_written() -> None:
    with pytest.raises(ValueError, match="magic"):
        json_text({"kernelName": "k", "magic": "none"}, "upstream", "ascend")


def test_targets_by_the_words_of_akg() -> None:
    assert flow.find("gpu")[1].name == "nvidia-h100"
    assert flow.find("nvidia-h200")[0] == "gpu"
    assert flow.find("ascend")[1].name == api.DEFAULT_TARGET
    assert flow.find("ascend310p")[0] == "ascend"
    with pytest.raises(AutofuseError, match="did you mean 'gpu'"):
        flow.find("gpuu")


@needs("torch", "triton")
@pytest.mark.parametrize("status", [0, 1])
def test_the_assembler_is_the_one_that_triton_takes(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several in a wheel: the one for the card is called for the cubin of Triton and for that of the PTX."""
    from triton.backends.nvidia import compiler
    from triton.knobs import NvidiaTool

    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Triton interprets here")
    usual, calls = compiler.get_ptxas(90), tmp_path / "calls"
    # Triton's own call passes; what is tested is the second one.
    fail = f"[ {status} = 0 ] || [ $(wc -l < {calls}) -lt 2 ] || {{ echo no such version >&2; exit 1; }}"
    text = f'#!/bin/sh\ncase "$*" in *gpu-name*) echo "$@" >> {calls}; {fail};; esac\n'
    text += f'exec {usual.path} "$@"\n'
    tool = tmp_path / "ptxas"
    tool.write_text(text)
    tool.chmod(0o755)
    asked = []

    def get_ptxas(arch: int) -> NvidiaTool:
        asked.append(arch)
        return NvidiaTool(str(tool), usual.version) if arch == 90 else usual

    monkeypatch.setattr(compiler, "get_ptxas", get_ptxas)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    kernel = imported(_PROBE, "probe.py").probe
    entry = Entry("probe", ("*fp32",), {}, 1, 1, True)
    if status:
        with pytest.raises(
            AutofuseError, match=r"AF5002.*ptxas rejects probe(.|\n)*no such version"
        ):
            _compiled(kernel, entry, 90, tmp_path)
        return
    made = _compiled(kernel, entry, 90, tmp_path)
    assert made.assembler == f"ptxas {usual.version}"
    assert made.registers > 0
    assert [line.count("--gpu-name=sm_90") for line in calls.read_text().splitlines()] == [1, 1]
    assert set(asked) == {90}
