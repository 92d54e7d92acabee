"""A compiled kernel as a Python function on NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.arguments import integer
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Tensor
from autofuse.machines.twin.oracle.data import POISON, buffer_extent, poisoned, strided_copy
from autofuse.machines.twin.oracle.indices import outside
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.run.arguments import checked_inputs, named_inputs
from autofuse.machines.twin.run.compile import no_operator_package
from autofuse.machines.twin.run.findings import KernelText, diagnostics_of
from autofuse.machines.twin.run.native import CHECKS, KernelLibrary, Region, Tiling
from autofuse.machines.twin.run.record import Recording, core_bytes, read_records
from autofuse.machines.twin.run.values import misfit
from autofuse.results import Run
from autofuse.targets import TargetSpec, known_target

__all__ = [
    "ALIGN",
    "MAX_SEED",
    "Frame",
    "TwinKernel",
    "chip_named",
    "chip_of",
    "frame_of",
    "hand_back",
    "needs_launcher",
]

Array: TypeAlias = npt.NDArray[Any]

#: The largest ``check_seed``.
MAX_SEED = (1 << 64) - 1

#: Alignment of workspaces in bytes.
ALIGN = 64
_MAX_CORES = (1 << 32) - 1


def chip_of(files: Mapping[str, str], name: str) -> TargetSpec | None:
    """Return :func:`chip_named`; None if the files do not name a chip of autofuse."""
    try:
        return chip_named(files, name)
    except (AttributeError, AutofuseError, KeyError, TypeError, ValueError):
        return None


def chip_named(files: Mapping[str, str], name: str) -> TargetSpec:
    """Return the chip that the files of a kernel were generated for; for a user's target file, its base.

    Args:
        files: path inside the output folder -> text.
        name: name of the graph.

    Raises:
        AutofuseError: AF5006, autofuse has no such chip.
        KeyError, TypeError, ValueError: the metadata do not name it.
    """
    said = json.loads(files[f"{name}.json"])
    return known_target(str(said.get("targetBase", said["target"])))


def needs_launcher(graph: FusionGraph, files: Mapping[str, str]) -> None:
    """Raise AF5007 for an Ascend C kernel without a launch function, as in an operator package."""
    no_operator_package(files, graph.label)
    launcher = f"host/{graph.name}_launch.cpp"
    if f"device/{graph.name}_kernel.cpp" in files and launcher not in files:
        text = f"{graph.label} has no launcher: {launcher} is not among its files"
        raise AutofuseError.of("AF5007", text, hint="build --entry launch writes it")


class TwinKernel:
    """A kernel that runs on the CPU twin.

    Args:
        path: the library from ``compile_kernel``.
        graph: the graph that it was generated from.
        check: ``all`` checks for races, uninitialised data and elements written twice; the library must have been
            compiled with ``checked=True``. ``fast`` does not.
        check_seed: with ``all``, 0 executes in program order, any other number seeds an order that a chip may choose.
        chip: determines the UB and the calls that the kernel may use; None for Atlas A2.
        library: the library, if already loaded.

    Raises:
        AutofuseError: AF5003, the library cannot be loaded.
        ValueError: ``check`` is neither of these, or ``check_seed`` is negative or has more than 64 bits.
        TypeError: ``check_seed`` is not an integer.

    Several threads may use the object at once. Arrays of in-out parameters belong to the caller: concurrent calls must
    not share one.
    """

    #: Each step rounds to its own dtype; Triton keeps values between 16-bit steps in float32.
    rounds_each_step = True

    def __init__(
        self,
        path: Path,
        graph: FusionGraph,
        *,
        check: str = "fast",
        check_seed: int = 0,
        chip: TargetSpec | None = None,
        library: KernelLibrary | None = None,
    ) -> None:
        if check not in CHECKS:
            raise ValueError(f"check is one of {', '.join(CHECKS)}, not {check!r}")
        self.check = check
        self.check_seed = integer("check_seed", check_seed, 0, MAX_SEED)
        self.chip = chip
        self.path = path
        self.graph = graph
        self.library = KernelLibrary(path) if library is None else library

    @property
    def runs_on(self) -> str:
        """Description of the machine."""
        return "the CPU twin"

    @property
    def flushes(self) -> bool:
        """True if some calls of the chip flush subnormal numbers to zero."""
        return self.chip is not None and bool(self.chip.arch.flushes)

    @property
    def key_count(self) -> int:
        """Number of tiling keys, i.e. of templates."""
        return self.library.key_count + self.library.row_count

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Let the tiling function choose a template for sizes by symbol.

        Raises:
            StatusError: it finds none that is legal.
        """
        self.library.tiling([sizes[s.name] for s in self.graph.symbols])

    def __call__(
        self,
        *arrays: Any,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        **named: Any,
    ) -> Any:
        """Run the kernel on inputs in the order of the graph, or by name.

        Args:
            *arrays: an array per input, with exactly its dtype and a shape that fits the graph; sizes may be 0. An
                array with another memory layout than in the graph is copied. A number for a scalar. Inputs that an
                output overwrites are changed in place.
            symbols: sizes that the shapes do not determine, in elements.
            key: the tiling key to take; None: the tiling function chooses.
            **named: inputs by name; an input called ``symbols`` or ``key`` can only be passed to :meth:`run`.

        Returns:
            The output array, or a tuple of them if there are several, in the order of the graph.

        Raises:
            AutofuseError: AF5007 the arguments do not fit; AF5003 a host function refused; AF5004 the twin found a
                broken rule.
            TypeError: a size or the key is not an integer.
        """
        given = named_inputs(self.graph, arrays, named)
        return self.run(given, symbols=symbols, key=key).result

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
        poison: int = POISON[0],
    ) -> Run:
        """Run the kernel.

        Args:
            inputs: an array per input, a number for a scalar.  Arrays of in-out parameters are
                overwritten.
            symbols: sizes that the shapes do not determine.
            key: the tiling key to take; None: the tiling function chooses.
            cores: limit on the number of cores; 0 for those of the target.
            poison: byte that fills outputs and workspace before the run.

        Returns:
            The outputs by name, the inferred sizes, and the tiling function's choice.

        Raises:
            AutofuseError: as for a call.
            TypeError: as there; ``cores`` is not an integer, or ``inputs`` is not by name.
            ValueError: ``cores`` is negative, or more than 32 bits.
        """
        frame = self._frame(inputs, symbols or {}, key, cores, poison)
        self._launch(frame, key)
        hand_back(self.graph, frame.outputs, inputs)
        return frame.run(self.graph)

    def record(
        self,
        inputs: Mapping[str, Any],
        choose: Callable[[Sequence[tuple[int, int]]], Sequence[int]],
        limit: int,
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
    ) -> tuple[Run, Recording]:
        """Run the kernel, then run some of its cores again and record them.

        The library must have been compiled with ``checked=True``, so that calls record their line.

        Args:
            inputs: as for :meth:`run`.
            choose: maps the bytes that each core moved from and to GM to the cores to record.
            limit: most events recorded per core.
            symbols: as for :meth:`run`.
            key: as there.
            cores: as there.

        Raises:
            AutofuseError: as for :meth:`run`.
        """
        frame = self._frame(inputs, symbols or {}, key, cores, POISON[0])
        self._launch(frame, key)
        moved = core_bytes()
        # The recorded cores need the results of the others, and write their own once more.
        kept = {n: a.copy() for n, a in frame.outputs.items()}
        self._launch(frame, key, record=choose(moved), limit=limit)
        records = read_records()
        for name, array in kept.items():
            frame.outputs[name][...] = array
        hand_back(self.graph, frame.outputs, inputs)
        run = frame.run(self.graph)
        return run, Recording(run.block_dim, records, moved, tuple(frame.regions))

    def _frame(
        self,
        inputs: Mapping[str, Any],
        symbols: Mapping[str, int],
        key: int | None,
        cores: int,
        poison: int,
    ) -> Frame:
        """See :func:`frame_of`."""
        arrays, sizes = self._arguments(inputs, symbols)
        if self.check == "all" and (found := outside(self.graph, arrays, sizes)):
            raise AutofuseError(found)
        key, cores = self._choice(key, cores)
        self._check_shapes(sizes)
        tiling = self.library.tiling([sizes[s.name] for s in self.graph.symbols], key, cores)
        outputs = {o.name: self._output(o, arrays, sizes, poison) for o in self.graph.outputs}
        frame = Frame(sizes, tiling, outputs)
        for name in self.graph.inputs:
            frame.add(self.graph.tensors[name], name, arrays[name], sizes, writable=False)
        for o in self.graph.outputs:
            tensor = self.graph.tensors[o.inout or o.tensor]
            contiguous = o.inout is None
            frame.add(tensor, o.name, outputs[o.name], sizes, writable=True, contiguous=contiguous)
        workspace = poisoned((tiling.workspace + ALIGN,), np.dtype(np.uint8), poison)
        frame.add_memory("workspace", workspace, tiling.workspace)
        return frame

    def _launch(
        self, frame: Frame, key: int | None, record: Sequence[int] = (), limit: int = 0
    ) -> None:
        """Launch the kernel; raise AF5004 for findings of the twin."""
        recorded: dict[str, Any] = {"record": record, "record_limit": limit} if record else {}
        found = self.library.launch(
            frame.tiling,
            frame.pointers,
            frame.regions,
            check=self.check,
            seed=self.check_seed,
            ub_bytes=0 if self.chip is None else self.chip.ub_usable,
            arch=None if self.chip is None else self.chip.arch,
            **recorded,
        )
        if found:
            text = KernelText.of(self.path)
            raise AutofuseError(diagnostics_of(self.graph, text, found, frame.sizes, key))

    # arguments --------------------------------------------------------------------------------

    def _choice(self, key: int | None, cores: int) -> tuple[int | None, int]:
        """Return the key and the limit on cores, if there is such a key."""
        cores = integer("cores", cores, 0, _MAX_CORES)
        if key is None:
            return None, cores
        try:
            return integer("key", key, 0, self.key_count - 1), cores
        except ValueError:
            text = f"there is no tiling key {key}: {self.graph.label} has {self.key_count}"
            raise misfit(text, hint=f"keys: 0 to {self.key_count - 1}") from None

    def _arguments(
        self, inputs: Mapping[str, Any], symbols: Mapping[str, int]
    ) -> tuple[dict[str, Array], dict[str, int]]:
        """Return arrays with the right dtype, shape and layout, and the sizes."""
        arrays, sizes = checked_inputs(self.graph, inputs, symbols)
        written = {o.inout for o in self.graph.outputs if o.inout is not None}
        for name, array in arrays.items():
            arrays[name] = self._laid_out(name, array, sizes)
        for name in written:
            for other, array in arrays.items():
                # No element is shared, but an access must identify its region.
                if other != name and np.may_share_memory(array, arrays[name]):
                    arrays[other] = self._copied(other, array, sizes)
        return arrays, sizes

    def _laid_out(self, name: str, array: Array, sizes: Mapping[str, int]) -> Array:
        """Return the array itself if it has the layout that the kernel expects, else a copy with it."""
        tensor = self.graph.tensors[name]
        if tensor.strides is None and tensor.offset is None:
            plain = array.flags.c_contiguous and array.flags.aligned
            return array if plain else self._copied(name, array, sizes)
        offset, strides, _ = buffer_extent(tensor, sizes)
        have = tuple(s // array.itemsize for s in array.strides)
        fits = all(n <= 1 or h == s for n, h, s in zip(array.shape, have, strides, strict=True))
        whole = fits and array.size and _memory_before(array) >= offset * array.itemsize
        return array if whole else self._copied(name, array, sizes)

    def _copied(self, name: str, array: Array, sizes: Mapping[str, int]) -> Array:
        """Return a copy with the layout that the kernel expects."""
        tensor = self.graph.tensors[name]
        plain = tensor.strides is None and tensor.offset is None
        return array.copy(order="C") if plain else strided_copy(array, tensor, sizes)

    def _output(
        self, o: GraphOutput, arrays: Mapping[str, Array], sizes: Mapping[str, int], poison: int
    ) -> Array:
        if o.inout is not None:
            return arrays[o.inout]
        tensor = self.graph.tensors[o.tensor]
        return poisoned(shape_of(tensor.shape, sizes), numpy_dtype(tensor.dtype), poison)

    def _check_shapes(self, sizes: Mapping[str, int]) -> None:
        """Check that the generated InferShape gives the shapes that the graph declares."""
        shapes = [shape_of(self.graph.tensors[n].shape, sizes) for n in self.graph.inputs]
        want = [shape_of(self.graph.tensors[o.tensor].shape, sizes) for o in self.graph.outputs]
        if self._unsolvable():
            return
        have = self.library.infer_shape(shapes, len(want))
        if have is not None and have != want:
            raise AutofuseError.of("AF5003", f"InferShape gives {have}, the graph declares {want}")

    def _unsolvable(self) -> bool:
        """Return True if a symbol occurs in no input shape: InferShape refuses such graphs by design."""
        shapes = [e for n in self.graph.inputs for e in self.graph.tensors[n].shape]
        seen = {s for e in shapes if _linear(e) for s in e.symbols()}
        return any(s.name not in seen for s in self.graph.symbols)


def frame_of(
    kernel: TwinKernel,
    inputs: Mapping[str, Any],
    *,
    symbols: Mapping[str, int],
    key: int | None,
    cores: int,
    poison: int,
) -> Frame:
    """Prepare a launch of the kernel on another machine.

    Args:
        kernel: the kernel with the tiling function.
        inputs: as for :meth:`TwinKernel.run`; so are the other arguments.
        symbols: as there.
        key: as there.
        cores: as there.
        poison: as there.

    Raises:
        AutofuseError: AF5007 the arguments do not fit, AF5003 a host function refused.
    """
    return kernel._frame(inputs, symbols, key, cores, poison)


def hand_back(graph: FusionGraph, outputs: dict[str, Array], inputs: Mapping[str, Any]) -> None:
    """Copy in-out results into the caller's arrays.

    Args:
        graph: the graph of the kernel.
        outputs: by name, as in a :class:`Frame`; in-out ones are replaced by the caller's arrays.
        inputs: the caller's inputs.
    """
    for o in graph.outputs:
        if o.inout is not None and outputs[o.name] is not inputs[o.inout]:
            _write_back(inputs[o.inout], outputs[o.name])
            outputs[o.name] = inputs[o.inout]


class Frame:
    """One launch: its sizes, tiling, outputs and memory.

    Attributes:
        sizes: by symbol.
        tiling: the tiling function's choice.
        outputs: name -> array that the launch fills.
        pointers: addresses of inputs, outputs and workspace, in the order of the launcher.
        regions: the memory of each pointer, in the same order.
    """

    def __init__(self, sizes: Mapping[str, int], tiling: Tiling, outputs: dict[str, Array]) -> None:
        self.sizes, self.tiling, self.outputs = sizes, tiling, outputs
        self.pointers: list[int] = []
        self.regions: list[Region] = []
        self._keep: list[Array] = []

    def run(self, graph: FusionGraph) -> Run:
        """Return the result after the launch."""
        t = self.tiling
        sizes = {s.label: self.sizes[s.name] for s in graph.symbols}
        return Run(self.outputs, sizes, t.key, t.block_dim, t.workspace)

    def add(
        self,
        tensor: Tensor,
        name: str,
        array: Array,
        sizes: Mapping[str, int],
        *,
        writable: bool,
        contiguous: bool = False,
    ) -> None:
        """Add a tensor; its region starts ``offset`` elements before its first element."""
        offset, _, extent = (0, (), array.size) if contiguous else buffer_extent(tensor, sizes)
        start = array.ctypes.data - offset * array.itemsize
        self.pointers.append(start)
        self.regions.append(
            Region(
                start, extent * array.itemsize, name, writable, once=writable, complete=contiguous
            )
        )
        self._keep.append(array)

    def add_memory(self, name: str, array: Array, size: int) -> None:
        """Add plain memory: the first ``size`` bytes after rounding the address up."""
        start = -(-array.ctypes.data // ALIGN) * ALIGN
        self.pointers.append(start)
        self.regions.append(Region(start, size, name, True, scratch=True))
        self._keep.append(array)


def _memory_before(array: Array) -> int:
    """Return the bytes before the array's first element that belong to its underlying buffer."""
    owner: Any = array
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    if not isinstance(owner, np.ndarray):
        return 0
    return array.ctypes.data - owner.ctypes.data


def _write_back(target: Array, value: Array) -> None:
    if not np.may_share_memory(target, value):
        target[...] = value


def _linear(e: Expr) -> bool:
    """Return True for factor * symbol + constant."""
    return (
        all(len(m) <= 1 and all(p == 1 for _, p in m) for m, _ in e.terms) and len(e.symbols()) <= 1
    )
