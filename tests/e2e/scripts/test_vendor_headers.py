"""``tools/vendor_headers.py`` with headers that stand for the vendor's: the twin's, and a cast with assertions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autofuse.api import build
from autofuse.machines.twin.run.compile import twin_files
from autofuse.targets import load_target

pytestmark = [pytest.mark.twin, pytest.mark.slow]

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "vendor_headers.py"
TWIN = [p / "autofuse_twin" for p in twin_files().include if (p / "autofuse_twin").is_dir()]
TWIN += twin_files().include
LOG = """
#ifndef STAND_IN_LOG_H
#define STAND_IN_LOG_H
#include <csignal>
#define ASCENDC_ASSERT(cond, behavior) do { if (!(cond)) { behavior; raise(SIGABRT); } } while (0)
#define ASCENDC_REPORT_NOT_SUPPORT(cond, what) do { if (!(cond)) { raise(SIGABRT); } } while (0)
#endif
"""
#: A half becomes a float in one mode alone, which is known when the call is compiled.
OPERATOR = """
#ifndef STAND_IN_OPERATOR_H
#define STAND_IN_OPERATOR_H
#include "stand_in_log.h"
#define Cast TwinCast
#include_next "kernel_operator.h"
#undef Cast
namespace AscendC {
inline void Modes(const LocalTensor<float>&, const LocalTensor<half>&, const RoundMode& mode) {
  switch (mode) {
    case RoundMode::CAST_NONE:
      break;
    default:
      ASCENDC_ASSERT(false, { static_cast<void>(0); });
      break;
  }
}
template <typename T, typename U>
inline void Modes(const LocalTensor<T>&, const LocalTensor<U>&, const RoundMode&) {}
template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, uint32_t n) {
  Modes(dst, src, mode);
  TwinCast(dst, src, mode, n);
}
}
#endif
"""
#: Casts on registers keep their name.
ON_REGISTERS = """#undef Cast
namespace AscendC { namespace Reg {
template <typename T, typename U, const CastTrait& trait, typename S, typename V>
__simd_callee__ inline void Cast(S& dst, V& src, MaskReg& mask) {
  TwinCast<T, U, trait>(dst, src, mask);
}
} }
"""
#: No dtype but half.
EXP = """
namespace AscendC {
template <typename T> constexpr bool kHalf = false;
template <> constexpr bool kHalf<half> = true;
template <typename T>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& n) {
  ASCENDC_ASSERT((kHalf<T>), { static_cast<void>(0); });
  switch (n) {
    case 77:
      ASCENDC_ASSERT((false), { static_cast<void>(0); });
      break;
    default:
      break;
  }
  TwinExp(dst, src, n);
}
}
"""


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("vendor_headers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vendor_headers"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["vendor_headers"]


@pytest.fixture
def headers(tmp_path: Path) -> list[str]:
    own = tmp_path / "headers"
    own.mkdir()
    (own / "stand_in_log.h").write_text(LOG)
    (own / "kernel_operator.h").write_text(OPERATOR)
    return [w for p in (own, *TWIN) for w in ("--include", str(p))]


def replaced(headers: list[str], old: str, new: str) -> None:
    path = Path(headers[1]) / "kernel_operator.h"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_all_kernels_compile_and_all_faults_are_refused(
    script: ModuleType, headers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([*headers, "--sample", "6"]) == 0
    said = capsys.readouterr().out
    assert f"{len(script.FAULTS)} faults, 0 accepted" in said
    assert "compiles   kernel  demo" in said
    assert "ACCEPTED" not in said


def test_ascend_950(
    script: ModuleType, headers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Registers, what functions on them call, and casts that saturate: see ``ON_REGISTERS``."""
    replaced(headers, "#undef Cast\n", ON_REGISTERS)
    words = ["--target", "ascend950pr", "--define", "AUTOFUSE_TWIN_CALLS", "--sample", "1"]
    assert script.main([*headers, *words]) == 0
    said = capsys.readouterr().out
    faults = len(script.FAULTS) + len(script.FAULTS_ON_REGISTERS)
    assert f"{faults} faults, 0 accepted" in said
    assert "compiles   kernel  demo" in said


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("  SetCtrlSpr<48, 48>(1);\n", "", "saturates"),
        ("(autofuse_overflows);", "(1);", "not put back"),
        ("mask = Reg::UpdateMask<float>(count);", "GetBlockIdx();", "unsafe function call"),
    ],
)
def test_a_fault_in_a_kernel_for_950_is_found(
    script: ModuleType, headers: list[str], tmp_path: Path, old: str, new: str, why: str
) -> None:
    replaced(headers, "#undef Cast\n", ON_REGISTERS)
    chip = load_target("ascend950pr")
    include = [Path(w) for w in headers[1::2]]
    made = script.compiler("g++", include, ["AUTOFUSE_TWIN_CALLS"], chip, tmp_path)
    nodes = [
        {"name": "e", "op": "Exp", "inputs": ["x"], "outputs": ["e"]},
        {"name": "a", "op": "Add", "inputs": ["e", "x"], "outputs": ["a"]},
        {
            "name": "c",
            "op": "Cast",
            "inputs": ["a"],
            "outputs": ["y"],
            "attrs": {"dtype": "float16"},
        },
    ]
    inputs = [{"name": "x", "dtype": "float32", "shape": [1000]}]
    graph = {"schema": "autofuse.graph/1", "name": "g", "inputs": inputs, "nodes": nodes}
    built = build({**graph, "outputs": ["y"]}, target=chip)
    source = "device/g_kernel.cpp"
    text = built.files[source]
    assert old in text
    assert made.errors(built.files, source) == []
    found = made.errors({**built.files, source: text.replace(old, new)}, source)
    assert any(why in line for line in found), found


def test_a_kernel_that_the_headers_refuse_is_a_finding(
    script: ModuleType, headers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The headers lack a call that the examples make."""
    replaced(headers, "#define Cast TwinCast", "#define Cast TwinCast\n#define Exp TwinExp")
    replaced(headers, "#undef Cast", "#undef Cast\n#undef Exp")
    assert script.main([*headers, "--sample", "1"]) == 1
    said = capsys.readouterr().out
    assert "REFUSED    kernel  demo" in said
    assert "Exp" in said


def test_a_round_mode_that_the_headers_refuse_is_a_finding(
    script: ModuleType, headers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    replaced(headers, "case RoundMode::CAST_NONE:", "case RoundMode::CAST_ODD:")
    assert script.main([*headers, "--sample", "1"]) == 1
    assert "Cast is not supported in this way" in capsys.readouterr().out


@pytest.mark.parametrize("half_alone", [True, False])
def test_a_dtype_that_an_assertion_refuses_is_a_finding(
    script: ModuleType, headers: list[str], half_alone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The condition of the assertion is known by the dtype of the call; what is chosen at run time is no finding."""
    other = Path(headers[1]) / "stand_in_vec_exp.h"
    other.write_text(EXP if half_alone else EXP.replace("kHalf = false", "kHalf = true"))
    renamed = "#define Cast TwinCast\n#define Exp TwinExp"
    replaced(headers, "#define Cast TwinCast", renamed)
    replaced(headers, "#undef Cast", '#undef Cast\n#undef Exp\n#include "stand_in_vec_exp.h"')
    assert script.main([*headers, "--sample", "1"]) == half_alone
    said = capsys.readouterr().out
    assert f"{'REFUSED ' if half_alone else 'compiles'}   kernel  demo" in said
    assert ("a call does not take a dtype" in said) == half_alone
    assert "compiles   kernel  abs_test" in said


def test_a_check_that_cannot_fail_says_so(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twin knows round modes when a kernel runs."""
    words: list[Any] = [w for p in TWIN for w in ("--include", str(p))]
    assert script.main([*words, "--sample", "1"]) == 2
    said = capsys.readouterr()
    assert "ACCEPTED   fault   a round mode that a cast lacks" in said.out
    assert "the check cannot fail" in said.err


def test_headers_that_are_not_there_or_do_not_compile(
    script: ModuleType, headers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--include", str(tmp_path / "none")]) == 2
    assert script.main(["--include", str(tmp_path)]) == 2
    replaced(headers, "#undef Cast", "#undef Cast\nnot a declaration;")
    assert script.main(headers) == 2
    said = capsys.readouterr().err
    assert "there is no folder" in said
    assert "no folder of --include has kernel_operator.h" in said
    assert "the headers do not compile" in said


def test_faults_are_those_of_the_chip(script: ModuleType) -> None:
    chips = ("ascend910b1", "ascend310p", "ascend950pr")
    own, other, registers = (script.faults_for(load_target(n)) for n in chips)
    assert own == script.FAULTS
    lacking = {f"{call}, which the architecture lacks" for call in ("Copy", "ShiftRight")}
    lacking |= {"SyncAll without arguments, which the documents exclude"}
    assert other.keys() - own.keys() == lacking
    assert registers == {**own, **script.FAULTS_ON_REGISTERS}
