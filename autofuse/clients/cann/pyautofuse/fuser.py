"""Autofuser, and its two halves for older clients."""

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
        graph_type: 1 (default) for a FusedGraph of AscBackend nodes or a HintGraph.
        tiling_lib_path: a library with CANN's own tiling.  It is not loaded, and a warning says so: the generated code
            contains its tiling.
        tiling_lib_codegen_symbol: a function in that library.
        target: the chip, a target of autofuse; None for the chip chosen by ``ascir.utils.set_platform``, or the
            default.  An extension of autofuse.
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
    """A scheduled graph: one kernel, or several and their driver.

    Attributes:
        translated: the graph, and the mapping of its parameters to the client's.
        built: kernels and host functions.
        apart: pairs (input of the graph, output) that must not share a buffer.
    """

    translated: Translated
    built: api.SplitResult
    apart: tuple[tuple[str, int], ...] = ()

    @property
    def graph(self) -> FusionGraph:
        """The computation as a graph of autofuse."""
        return self.translated.graph

    def get_name(self) -> str:
        """Return the name of the kernel, an identifier derived from the graph's name."""
        return self.graph.name

    def get_input_num(self) -> int:
        """Return the number of inputs that the client passes."""
        return self.translated.input_count

    def get_output_num(self) -> int:
        """Return the number of outputs."""
        return len(self.translated.outputs)

    def is_cube_type(self) -> bool:
        """Return False: the kernels contain no matrix products."""
        return False

    def is_conv_type(self) -> bool:
        """Return False: the kernels contain no convolutions."""
        return False

    def get_cube_attributes(self) -> dict[str, Any]:
        """Return an empty dict, as for every graph without matrix products."""
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
        """Return pairs of parameters that must not share a buffer, by name."""
        views = dict(zip(self.graph.inputs, wanted, strict=False))
        return sorted({(views[name], f"out{k}") for name, k in self.apart})

    @cached_property
    def bundle(self) -> Bundle:
        """Return the files as three texts."""
        return pack(self.files, self.get_name())

    def _parameter(self, p: Pointer) -> str:
        return f"{'in' if p.kind == 'input' else 'out'}{p.index}"


def schedule_in_place(translated: Translated, spec: TargetSpec) -> FusedScheduledResult:
    """Build a graph for a caller that may pass any output the buffer of an input.

    If some output would be written before such an input is fully read, build the kernel so that one input per output
    may be overwritten; its launcher refuses the others.
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
    """Schedules graphs and generates their code.  Its only state is its options; threads may share one."""

    def __init__(self, options: AutofuserOptions | None = None) -> None:
        if not isinstance(options, AutofuserOptions | None):
            text = f"the options of an Autofuser are {options!r}"
            raise ClientTypeError.of("AF1103", text, hint="AutofuserOptions(...), or nothing")
        self.options = options or AutofuserOptions()

    def schedule(self, graph: FusedGraph | HintGraph) -> FusedScheduledResult:
        """Choose templates and tiles.

        Raises:
            ClientError: lists everything in the graph that is unsupported or incomplete, by node name.
        """
        with as_client_errors():
            return schedule_in_place(translate(graph), self.options.spec)

    def codegen(self, result: FusedScheduledResult) -> tuple[str, str, str]:
        """Return ``tiling_def``, ``host_impl`` and ``device_impl``, the inputs of ``compile_adapter.jit_compile``.

        They depend only on the graph, the chip and the version of autofuse.

        Raises:
            ClientTypeError: AF1103, ``result`` was not returned by :meth:`schedule`.
        """
        b = _scheduled(result, "codegen").bundle
        return b.tiling_def, b.host_impl, b.device_impl

    def autofuse_backend(self, graph: FusedGraph | HintGraph) -> tuple[str, str, str]:
        """Run :meth:`schedule`, then :meth:`codegen`."""
        return self.codegen(self.schedule(graph))


class Schedule:
    """The first half of an Autofuser."""

    def __init__(self, options: AutofuserOptions | None = None) -> None:
        self._fuser = Autofuser(options)

    def schedule(self, graph: HintGraph | FusedGraph) -> FusedScheduledResult:
        """Schedule a graph as :meth:`Autofuser.schedule` does."""
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
        options: options of an Autofuser.
        tiling_lib_path: as in :class:`AutofuserOptions`.
        tiling_lib_codegen_symbol: as in :class:`AutofuserOptions`.
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
        """Return the tiling data and the kernel, each under the key ``default``.

        Raises:
            ClientTypeError: AF1103, ``result`` was not returned by ``schedule``.
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
        """Return the host code, as texts by name under the key ``default``, and its shape inference.

        Args:
            result: result of ``schedule``.
            shape_info: unused: sizes are arguments of ``AutofuseTiling``.
            output_shape: the sizes of every output, as texts; unused: ``InferShape`` computes them from the graph.
            pgo_dir: must be empty.
            vector_core_num: must be empty: the chip and ``ResLimit`` of a call determine it.

        Raises:
            ClientTypeError: AF1103, ``result`` was not returned by ``schedule``.
            ClientValueError: AF1103, another argument is malformed; AF1301, it requests an unsupported feature.
        """
        scheduled = _scheduled(result, "host_code_generator")
        if not isinstance(shape_info, ShapeInfo | None):
            raise _wrong("shape_info", shape_info, "an ascir.ShapeInfo, or None")
        if not isinstance(output_shape, list | tuple) or not all(
            isinstance(sizes, list | tuple) and all(isinstance(s, str) for s in sizes)
            for sizes in output_shape
        ):
            raise _wrong("output_shape", output_shape, "a list of lists of strings")
        for name, value in (("pgo_dir", pgo_dir), ("vector_core_num", vector_core_num)):
            if value:
                raise _unsupported(f"host_code_generator({name}={value!r})")
        infer = scheduled.files[f"host/{scheduled.get_name()}_infer_shape.cpp"]
        return {"default": {"host_impl": scheduled.bundle.host_impl}}, infer

    def get_kernel_and_json_generator(self, kernel_path: str, json_path: str) -> str:
        """Refuse to generate C++ that embeds a compiled kernel.

        Raises:
            ClientValueError: AF1301, always.
        """
        raise _unsupported(f"get_kernel_and_json_generator({kernel_path!r}, {json_path!r})")

    def pgo_code_generator(self, result: FusedScheduledResult, pgo_dir: str) -> str:
        """Refuse to generate code that measures tilings on the chip.

        Raises:
            ClientValueError: AF1301, always.
        """
        raise _unsupported("pgo_code_generator")


def _scheduled(result: object, what: str) -> FusedScheduledResult:
    if not isinstance(result, FusedScheduledResult):
        text = f"{what}: {result!r} is not a result of schedule"
        raise ClientTypeError.of("AF1103", text)
    return result


def _wrong(name: str, value: object, hint: str) -> ClientValueError:
    return ClientValueError.of("AF1103", f"host_code_generator: {name} is {value!r}", hint=hint)


def _unsupported(what: str) -> ClientValueError:
    return ClientValueError.of("AF1301", f"CodeGen.{what} is not supported")


def _warn_of_library(named: str | None, level: int) -> None:
    if named:
        text = f"the tiling library {named!r} is not loaded: the generated code contains its own tiling"
        warnings.warn(text, stacklevel=level)
