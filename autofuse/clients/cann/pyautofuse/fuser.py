"""Autofuser, and the two halves of it that older clients call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse.bundle import Bundle, pack
from autofuse.clients.cann.pyautofuse.errors import (
    ClientError,
    ClientTypeError,
    ClientValueError,
    as_client_errors,
)
from autofuse.clients.cann.pyautofuse.graphs import FusedGraph, HintGraph, ShapeInfo
from autofuse.clients.cann.pyautofuse.platform import chip
from autofuse.clients.cann.pyautofuse.reading.translate import Pointer, Translated, translate
from autofuse.clients.cann.pyautofuse.sharing import in_place, other_views, unsafe_pairs
from autofuse.codegen.backends.ascendc.host.client_launch import with_client_launch
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import TargetSpec, load_target

__all__ = ["Autofuser", "AutofuserOptions", "CodeGen", "FusedScheduledResult", "Schedule"]


@dataclass(frozen=True, slots=True)
class AutofuserOptions:
    """Options of an Autofuser.

    Attributes:
        graph_type: 1 for a FusedGraph of AscBackend nodes or a HintGraph, which is also the default.
        tiling_lib_path: a library of CANN's own tiling.  It is not loaded, which a warning says: the generated code
            brings its tiling.
        tiling_lib_codegen_symbol: a function in it.
        target: the chip, a target of autofuse; None for what ``ascir.utils.set_platform`` chose, or the default.
            Only autofuse has this option.
    """

    graph_type: int = 1
    tiling_lib_path: str | None = None
    tiling_lib_codegen_symbol: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        if self.graph_type not in (0, 1):
            text = f"graph_type {self.graph_type!r} is not supported"
            raise ClientValueError.of("AF5007", text, hint="0 or 1")
        _warn_of_library(self.tiling_lib_path or self.tiling_lib_codegen_symbol, 4)

    @property
    def spec(self) -> TargetSpec:
        """The chip."""
        return chip() if self.target is None else load_target(self.target)


@dataclass(frozen=True)
class FusedScheduledResult:
    """A graph that was scheduled: one kernel, or several and their driver.

    Attributes:
        translated: the graph, and how its parameters are those of the client.
        built: kernels and host functions.
        apart: (input of the graph, output) that must not be passed one buffer.
    """

    translated: Translated
    built: api.SplitResult
    apart: tuple[tuple[str, int], ...] = ()

    @property
    def graph(self) -> FusionGraph:
        """The computation as a graph of autofuse."""
        return self.translated.graph

    def get_name(self) -> str:
        """The name of the kernel, an identifier made of the name of the graph."""
        return self.graph.name

    def get_input_num(self) -> int:
        """Number of inputs that the client passes."""
        return self.translated.input_count

    def get_output_num(self) -> int:
        """Number of outputs."""
        return len(self.translated.outputs)

    def is_cube_type(self) -> bool:
        """False: there are no matrix products in the kernels."""
        return False

    def is_conv_type(self) -> bool:
        """False: there are no convolutions in the kernels."""
        return False

    def get_cube_attributes(self) -> dict[str, Any]:
        """Empty, as of every graph without matrix products."""
        return {}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """All generated files: path inside an output folder -> text."""
        wanted = [self._parameter(p) for p in (*self.translated.inputs, *self.translated.outputs)]
        parameters = [f"in{k}" for k in range(self.get_input_num())]
        parameters += [f"out{k}" for k in range(self.get_output_num())]
        if wanted == parameters and not self.apart:
            return self.built.files
        kind = "launch" if self.built.split is None else "driver"
        return with_client_launch(
            self.built.files,
            f"host/{self.get_name()}_{kind}.cpp",
            [*parameters, "workspace"],
            [*wanted, "workspace"],
            self._apart(wanted),
        )

    def _apart(self, wanted: list[str]) -> list[tuple[str, str]]:
        """Names of parameters that must not be one buffer."""
        views = dict(zip(self.graph.inputs, wanted, strict=False))
        return sorted({(views[name], f"out{k}") for name, k in self.apart})

    @cached_property
    def bundle(self) -> Bundle:
        """The files as three texts."""
        return pack(self.files, self.get_name())

    def _parameter(self, p: Pointer) -> str:
        return f"{'in' if p.kind == 'input' else 'out'}{p.index}"


def schedule_in_place(translated: Translated, spec: TargetSpec) -> FusedScheduledResult:
    """Build a graph whose outputs may be passed the buffers of inputs, without the caller saying which.

    Where an output would be written before all of such an input is read, the kernel is built such that one input per
    output may be overwritten; its launcher refuses the others.
    """
    never = tuple(
        p for p in translated.overlaps if p in translated.crossed or other_views(translated, p[0])
    )
    pairs = [p for p in translated.overlaps if p not in never]
    built = api.build_split(translated.graph, target=spec)
    unsafe = unsafe_pairs(built, translated, pairs)
    if not unsafe:
        return FusedScheduledResult(translated, built, never)
    shared, chosen = in_place(translated, unsafe)
    try:
        again = api.build_split(shared.graph, target=spec)
    except AutofuseError:
        return FusedScheduledResult(translated, built, never + unsafe)
    left = unsafe_pairs(again, shared, [p for p in pairs if p not in chosen])
    return FusedScheduledResult(shared, again, never + left)


class Autofuser:
    """Schedules graphs and generates their code.  Has no state but its options; threads may share one."""

    def __init__(self, options: AutofuserOptions | None = None) -> None:
        if not isinstance(options, AutofuserOptions | None):
            text = f"the options of an Autofuser are {options!r}"
            raise ClientTypeError.of("AF1103", text, hint="AutofuserOptions(...), or nothing")
        self.options = options or AutofuserOptions()

    def schedule(self, graph: FusedGraph | HintGraph) -> FusedScheduledResult:
        """Choose templates and tiles.

        Raises:
            ClientError: everything in the graph that is not supported or not complete, by the names of its nodes.
        """
        with as_client_errors():
            return schedule_in_place(translate(graph), self.options.spec)

    def codegen(self, result: FusedScheduledResult) -> tuple[str, str, str]:
        """``tiling_def``, ``host_impl`` and ``device_impl``: what ``compile_adapter.jit_compile`` takes.

        They depend on the graph, the chip and the version of autofuse only.

        Raises:
            ClientTypeError: AF1103, ``result`` is not what :meth:`schedule` gives.
        """
        b = _scheduled(result, "codegen").bundle
        return b.tiling_def, b.host_impl, b.device_impl

    def autofuse_backend(self, graph: FusedGraph | HintGraph) -> tuple[str, str, str]:
        """:meth:`schedule` and :meth:`codegen`."""
        return self.codegen(self.schedule(graph))


class Schedule:
    """The first half of an Autofuser."""

    def __init__(self, options: AutofuserOptions | None = None) -> None:
        self._fuser = Autofuser(options)

    def schedule(self, graph: HintGraph | FusedGraph) -> FusedScheduledResult:
        """As :meth:`Autofuser.schedule`."""
        return self._fuser.schedule(graph)

    def scheduleV2(self, graph: object) -> FusedScheduledResult:  # noqa: N802 - the client's name
        """Refuse CANN's HintComputeGraph, which autofuse does not read.

        Raises:
            ClientError: AF1301, always.
        """
        raise ClientError.of(
            "AF1301",
            f"Schedule.scheduleV2({graph!r}) is not supported",
            hint="Schedule.schedule takes a HintGraph or a FusedGraph",
        )


class CodeGen:
    """The second half of an Autofuser.

    Args:
        options: of an Autofuser.
        tiling_lib_path: as of :class:`AutofuserOptions`.
        tiling_lib_codegen_symbol: as there.
    """

    def __init__(
        self,
        options: AutofuserOptions | None = None,
        *,
        tiling_lib_path: str | None = None,
        tiling_lib_codegen_symbol: str | None = None,
    ) -> None:
        self.options = options or AutofuserOptions()
        _warn_of_library(tiling_lib_path or tiling_lib_codegen_symbol, 3)

    def device_code_generator(
        self, result: FusedScheduledResult
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Tiling data and kernel, each under the key ``default``.

        Raises:
            ClientTypeError: AF1103, ``result`` is not what ``schedule`` gives.
        """
        b = _scheduled(result, "device_code_generator").bundle
        return {"default": b.tiling_def}, {"default": b.device_impl}

    def host_code_generator(
        self,
        result: FusedScheduledResult,
        shape_info: ShapeInfo | None = None,
        output_shape: Sequence[Sequence[str]] = (),
        pgo_dir: str = "",
        vector_core_num: str = "",
    ) -> tuple[dict[str, dict[str, str]], str]:
        """The host code, as texts by name under the key ``default``; and that part of it that infers shapes.

        Args:
            result: what was scheduled.
            shape_info: not needed: sizes are arguments of ``AutofuseTiling``.
            output_shape: the sizes of every output, as texts; not needed: ``InferShape`` computes them from the graph.
            pgo_dir: must be empty.
            vector_core_num: must be empty: the chip says it, and ``ResLimit`` of a call.

        Raises:
            ClientTypeError: AF1103, ``result`` is not what ``schedule`` gives.
            ClientValueError: AF1103, another argument has the wrong form; AF1301, it asks for what is not supported.
        """
        scheduled = _scheduled(result, "host_code_generator")
        if not isinstance(shape_info, ShapeInfo | None):
            raise _wrong("shape_info", shape_info, "an ascir.ShapeInfo, or None")
        if not isinstance(output_shape, list | tuple) or not all(
            isinstance(sizes, list | tuple) and all(isinstance(s, str) for s in sizes)
            for sizes in output_shape
        ):
            raise _wrong("output_shape", output_shape, "a list of lists of texts")
        for name, value in (("pgo_dir", pgo_dir), ("vector_core_num", vector_core_num)):
            if value:
                raise _unsupported(f"host_code_generator({name}={value!r})")
        infer = scheduled.files[f"host/{scheduled.get_name()}_infer_shape.cpp"]
        return {"default": {"host_impl": scheduled.bundle.host_impl}}, infer

    def get_kernel_and_json_generator(self, kernel_path: str, json_path: str) -> str:
        """C++ that embeds a compiled kernel: refused.

        Raises:
            ClientValueError: AF1301, always.
        """
        raise _unsupported(f"get_kernel_and_json_generator({kernel_path!r}, {json_path!r})")

    def pgo_code_generator(self, result: FusedScheduledResult, pgo_dir: str) -> str:
        """Code that measures tilings on the chip: refused.

        Raises:
            ClientValueError: AF1301, always.
        """
        raise _unsupported("pgo_code_generator")


def _scheduled(result: object, what: str) -> FusedScheduledResult:
    if not isinstance(result, FusedScheduledResult):
        text = f"{what}: {result!r} is not what schedule gives"
        raise ClientTypeError.of("AF1103", text)
    return result


def _wrong(name: str, value: object, hint: str) -> ClientValueError:
    return ClientValueError.of("AF1103", f"host_code_generator: {name} is {value!r}", hint=hint)


def _unsupported(what: str) -> ClientValueError:
    return ClientValueError.of("AF1301", f"CodeGen.{what} is not supported")


def _warn_of_library(named: str | None, level: int) -> None:
    if named:
        text = (
            f"the tiling library {named!r} is not loaded: the generated code brings its own tiling"
        )
        warnings.warn(text, stacklevel=level)
