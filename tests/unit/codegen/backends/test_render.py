"""Templates are shells: variables are the fields of a view; nothing is computed or decided."""

import re
from dataclasses import dataclass, fields, is_dataclass

import pytest

from autofuse.codegen import render
from autofuse.codegen.backends.ascendc import device, project, releases
from autofuse.codegen.backends.ascendc.host import client_launch, driver, host
from autofuse.codegen.backends.ascendc.host import tiling as host_tiling
from autofuse.codegen.backends.ascendc.op_package import files as op_package
from autofuse.codegen.backends.ascendc.torchext import files as torch_files
from autofuse.measure.calibration import folder

VIEWS = {
    "CMakeLists.txt.jinja": project._CMakeView,
    "cann_check.cmake.jinja": releases._CheckView,
    "client_launch.cpp.jinja": client_launch._View,
    "driver.cpp.jinja": driver._DriverView,
    "driver_CMakeLists.txt.jinja": driver._CMakeView,
    "driver_data.h.jinja": driver._DataView,
    "get_kernel.cpp.jinja": host._KernelView,
    "infer_shape.cpp.jinja": host._InferView,
    "launch.cpp.jinja": host._LaunchView,
    "op_build.sh.jinja": op_package._BuildView,
    "op_example.cmake.jinja": op_package._NamesView,
    "op_example.cpp.jinja": op_package._ExampleView,
    "op_host.cmake.jinja": op_package._FunctionView,
    "op_host.cpp.jinja": op_package._HostView,
    "op_install.sh.jinja": op_package._NamesView,
    "op_kernel.cmake.jinja": op_package._NamesView,
    "op_project.cmake.jinja": op_package._ProjectView,
    "op_test.py.jinja": op_package._TestView,
    "tiling.cpp.jinja": host_tiling._TilingView,
    "tiling_data.h.jinja": host._DataView,
    "calibration_copy.cpp.jinja": folder._PlainView,
    "calibration_load.cpp.jinja": folder._LoadView,
    "calibration_scalar.cpp.jinja": folder._ScalarView,
    "calibration_start.cpp.jinja": folder._StartView,
    "calibration_store.cpp.jinja": folder._StoreView,
    "calibration_tensors.cpp.jinja": folder._TensorsView,
    "calibration_tiling.cpp.jinja": folder._TilingView,
    "calibration_vector.cpp.jinja": folder._VectorView,
    "torch_init.py.jinja": torch_files._PackageView,
    "torch_npu.cpp.jinja": torch_files._OperatorsView,
    "torch_op.h.jinja": torch_files._OperatorView,
    "torch_ops.cpp.jinja": torch_files._OperatorsView,
    "torch_pyproject.toml.jinja": torch_files._ProjectView,
    "torch_setup.py.jinja": torch_files._SetupView,
    "torch_test.py.jinja": torch_files._TestView,
}


@dataclass(frozen=True)
class Empty:
    pass


@dataclass
class Loose:
    banner: str
    graph: str


@dataclass(frozen=True)
class TooMuch:
    banner: str
    graph: str
    colour: str


@pytest.mark.parametrize("template", VIEWS)
def test_variables_are_the_fields_of_the_view(template: str) -> None:
    view = VIEWS[template]
    assert is_dataclass(view)
    assert render.template_variables(template) == {f.name for f in fields(view)}


def test_every_template_has_a_view_somewhere() -> None:
    known = set(VIEWS) | {"kernel.cpp.jinja"}
    assert set(render.template_names()) == known
    assert device.__name__  # kernel.cpp.jinja is rendered, and so checked, there


@pytest.mark.parametrize("template", render.template_names())
def test_template_holds_no_arithmetic_and_no_decision_about_ops(template: str) -> None:
    text = render.read_text(template)
    depth = deepest = 0
    for tag in re.findall(r"\{[{%].*?[%}]\}", text, re.DOTALL):
        assert not re.search(r"//|%(?!\})|\*|[^{]\+|op ?==", tag[2:-2]), tag
        if tag.startswith("{%"):
            word = tag.strip("{%- }").split()[0]
            depth += {"for": 1, "if": 1, "endfor": -1, "endif": -1}.get(word, 0)
            deepest = max(deepest, depth)
    assert depth == 0
    assert deepest <= 2


@pytest.mark.parametrize("view", [Empty(), TooMuch("", "", "")])
def test_a_view_with_other_fields_is_refused(view: object) -> None:
    with pytest.raises(TypeError, match=r"get_kernel.cpp.jinja and view"):
        render.render("get_kernel.cpp.jinja", view)


@pytest.mark.parametrize("view", [Loose("", ""), {"banner": "", "graph": ""}])
def test_a_view_must_be_frozen(view: object) -> None:
    with pytest.raises(TypeError, match="frozen dataclass"):
        render.render("get_kernel.cpp.jinja", view)


def test_text_is_not_escaped() -> None:
    text = render.render("get_kernel.cpp.jinja", host._KernelView("// <&>", "g"))
    assert text.startswith("// <&>\n")
    assert text.endswith("#endif\n")


def test_headers_are_guarded() -> None:
    assert {"autofuse_math.h", "autofuse_launch.h"} <= set(render.header_names())
    for name in render.header_names():
        text = render.read_text(name)
        guard = name.upper().replace(".", "_")
        assert f"#ifndef {guard}\n#define {guard}\n" in text, name
        assert text.rstrip().splitlines()[-1].startswith("#endif"), name
