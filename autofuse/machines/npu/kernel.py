"""A kernel on an Ascend chip as a Python function on NumPy arrays, and its times by events of the runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofuse.base.arguments import integer
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.npu.acl import Device, open_acl
from autofuse.machines.npu.building import compile_for_chip
from autofuse.machines.npu.cann import Cann, find_cann, needs_release
from autofuse.machines.npu.device import Chip, chip_at, parse_devices
from autofuse.machines.twin.oracle.data import POISON
from autofuse.machines.twin.run.arguments import named_inputs
from autofuse.machines.twin.run.kernel import Frame, TwinKernel, frame_of, hand_back, needs_launcher
from autofuse.machines.twin.verify.split import read_parts
from autofuse.results import BuildResult, Run, SplitResult, read_folder
from autofuse.targets import TargetSpec, load_chip

__all__ = ["L2_STATES", "NpuKernel"]

#: State of L2 before a timed launch: as the previous launch left it, or cleared.
L2_STATES = ("warm", "clear")
#: Timed launches queued at once, and memory fills before them, during which the host runs ahead.
_BATCH, _AHEAD = 16, 3
#: Bytes to fill to clear L2 if the runtime does not report its size: twice the size of the largest known chip's.
_USUAL_L2 = 192 << 20
_MAX_LAUNCHES = 1_000_000


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Facts of ``<name>.json`` about the devices of a kernel."""

    target: TargetSpec
    release: str | None
    calls: tuple[str, ...]
    parts: tuple[str, ...]


class NpuKernel:
    """A kernel that runs on an Ascend chip.

    Args:
        files: path inside the output folder -> text.
        graph: the graph that they were generated from.
        device: ``npu:INDEX``.
        cann: the installation; None: the installed one.
        timeout: seconds that one launch, or one batch of timed launches, may take.

    Raises:
        AutofuseError: AF5011 CANN is missing or too old; AF5012 the runtime fails; AF5013 the kernel does not compile;
            AF5007 there is no such chip, or the kernel is for another architecture, not in Ascend C, or from an
            operator package.

    The driver of a graph runs its kernels one after another on one stream.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        graph: FusionGraph,
        device: str = "npu:0",
        *,
        cann: Cann | None = None,
        timeout: float = 60.0,
    ) -> None:
        about = _metadata(files, graph)
        needs_launcher(graph, files)
        indices = parse_devices(device)
        if len(indices) != 1:
            raise AutofuseError.of("AF5007", f"a kernel runs on a single chip, not on {device}")
        self.cann = cann or find_cann(about.release, about.calls)
        needs_release(self.cann, about.release, about.calls)
        self.files, self.graph, self.timeout = dict(files), graph, timeout
        #: The chip that it runs on.
        self.chip: Chip = chip_at(self.cann, indices[0])
        _check_architecture(about, self.chip, graph)
        self._acl = open_acl(self.cann.library)
        #: The compiled library.
        self.path: Path = compile_for_chip(
            files, graph.name, about.target.npu_arch, self.cann, about.parts
        )
        self._host = TwinKernel(self.path, graph)
        self._usual_cores = about.target.aiv_cores
        #: Names of the launched kernels, in order.
        self.launched: tuple[str, ...] = about.parts or (graph.name,)

    @classmethod
    def load(
        cls,
        built: BuildResult | SplitResult | str | Path,
        device: str = "npu:0",
        *,
        cann: Cann | None = None,
        timeout: float = 60.0,
    ) -> NpuKernel:
        """Load the kernel of a build, or of a folder that ``autofuse build`` wrote.

        Args:
            built: the build, or the folder.
            device: as for the class.
            cann: as there.
            timeout: as there.

        Raises:
            AutofuseError: as the class; AF1001, the folder does not hold a kernel.
        """
        if isinstance(built, BuildResult | SplitResult):
            return cls(built.files, built.graph, device, cann=cann, timeout=timeout)
        graph, files = read_folder(Path(built))
        return cls(files, graph, device, cann=cann, timeout=timeout)

    flushes = False

    @property
    def runs_on(self) -> str:
        """Description of the chip."""
        return self.chip.label

    @property
    def key_count(self) -> int:
        """Number of tiling keys, i.e. of templates."""
        return self._host.key_count

    def choose(self, sizes: Mapping[str, int]) -> None:
        """Let the tiling function choose a template for sizes by symbol.

        Raises:
            StatusError: it finds none that is legal.
        """
        self._host.choose(sizes)

    def __call__(
        self,
        *arrays: Any,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        **named: Any,
    ) -> Any:
        """Run the kernel on inputs in the order of the graph, or by name.

        Args:
            *arrays: an array per input, with exactly its dtype and a shape that fits the graph; a number for a
                scalar.  Inputs that an output overwrites are changed in place.
            symbols: sizes that the shapes do not determine, in elements.
            key: the tiling key to take; None: the tiling function chooses.
            **named: inputs by name.

        Returns:
            The output array, or a tuple of them if there are several, in the order of the graph.

        Raises:
            AutofuseError: as :meth:`run`.
        """
        return self.run(named_inputs(self.graph, arrays, named), symbols=symbols, key=key).result

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
        poison: int = POISON[0],
    ) -> Run:
        """Run the kernel once.

        Args:
            inputs: an array per input, a number for a scalar.  Arrays of in-out parameters are overwritten.
            symbols: sizes that the shapes do not determine, in elements.
            key: the tiling key to take; None: the tiling function chooses.
            cores: limit on the number of cores; 0 for those of the target.
            poison: byte that fills outputs and workspace before the run.

        Returns:
            The outputs by name, the inferred sizes, and the tiling function's choice.

        Raises:
            AutofuseError: AF5007 the arguments do not fit, AF5003 a host function refused, AF5012 the chip failed: an
                :class:`~autofuse.machines.npu.codes.AclError` with its code and kind.
        """
        frame = self._frame(inputs, symbols, key, cores, poison)
        with self._on_chip(frame) as (device, pointers):
            self._host.library.launch_on(device.stream, frame.tiling, list(pointers))
            device.wait(self.timeout)
            for region, at in zip(frame.regions, pointers, strict=True):
                if region.writable and not region.scratch:
                    device.to_host(region.address, at, region.bytes)
        hand_back(self.graph, frame.outputs, inputs)
        return frame.run(self.graph)

    def time(
        self,
        inputs: Mapping[str, Any],
        warmup: int = 5,
        repeats: int = 30,
        l2: str = "warm",
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        cores: int = 0,
    ) -> list[float]:
        """Time launches by events of the stream.

        Launches are queued while the chip is busy with other work, which excludes host time. In-out parameters are
        overwritten repeatedly; the given arrays are not modified.

        Args:
            inputs: as for :meth:`run`.
            warmup: launches before the first timed one.
            repeats: timed launches.
            l2: contents of L2 before a timed launch: ``warm``, as the previous launch left them; ``clear``, other data,
                as if the inputs had not been used for long.
            symbols: as for :meth:`run`.
            key: as there.
            cores: as there.

        Returns:
            Microseconds of each timed launch, in order.

        Raises:
            AutofuseError: as :meth:`run`.
            ValueError: a number is out of range, or ``l2`` is neither of these.
        """
        warmup = integer("warmup", warmup, 0, _MAX_LAUNCHES)
        repeats = integer("repeats", repeats, 1, _MAX_LAUNCHES)
        if l2 not in L2_STATES:
            raise ValueError(f"l2 is one of {', '.join(L2_STATES)}, not {l2!r}")
        frame = self._frame(inputs, symbols, key, cores, POISON[0])
        times: list[float] = []
        with self._on_chip(frame) as (device, pointers):
            size = 2 * (self.chip.l2_bytes or _USUAL_L2)
            other = device.malloc(size)
            events = [(device.event(), device.event()) for _ in range(min(_BATCH, repeats))]

            def launch() -> None:
                self._host.library.launch_on(device.stream, frame.tiling, list(pointers))

            for _ in range(warmup):
                launch()
            device.wait(self.timeout)
            while len(times) < repeats:
                batch = events[: repeats - len(times)]
                for _ in range(_AHEAD):
                    device.fill(other, size, 0)
                if l2 == "warm":
                    launch()
                for start, end in batch:
                    if l2 == "clear":
                        device.fill(other, size, 0)
                    device.record(start)
                    launch()
                    device.record(end)
                device.wait(self.timeout)
                times += [device.elapsed_us(start, end) for start, end in batch]
        return times

    def _frame(
        self,
        inputs: Mapping[str, Any],
        symbols: Mapping[str, int] | None,
        key: int | None,
        cores: int,
        poison: int,
    ) -> Frame:
        limit = self._cores(cores)
        return frame_of(
            self._host, inputs, symbols=symbols or {}, key=key, cores=limit, poison=poison
        )

    @contextmanager
    def _on_chip(self, frame: Frame) -> Iterator[tuple[Device, tuple[int, ...]]]:
        """Yield the chip with the memory of a launch, and addresses in the order of the launcher."""
        with self._acl.device(self.chip.index) as device:
            needed: dict[int, int] = {}
            for r in frame.regions:
                needed[r.address] = max(r.bytes, needed.get(r.address, 0))
            there = {address: device.malloc(size) for address, size in needed.items()}
            for address, size in needed.items():
                device.to_chip(there[address], address, size)
            yield device, tuple(there[r.address] for r in frame.regions)

    def _cores(self, asked: int) -> int:
        """Return the limit on cores: a kernel with a barrier of all cores hangs if the chip has too few of them."""
        here = self.chip.cores
        if asked or here is None:
            return asked
        return here if here < self._usual_cores else 0


def _metadata(files: Mapping[str, str], graph: FusionGraph) -> _Metadata:
    """Return the metadata; raise AF5007 for a kernel that is not in Ascend C."""
    parts = tuple(p.graph.name for p in read_parts(files, graph.name))
    try:
        found = json.loads(files[f"{graph.name}.{'split.' if parts else ''}json"])
        cann = found["cann"]
        release, calls = cann["release"], tuple(map(str, cann["calls"]))
        # For a user's target file it is the base chip.
        target = load_chip(str(found.get("targetBase", found["target"])))
        if release is not None and not isinstance(release, str):
            raise TypeError(f"the release {release!r}")
    except (AutofuseError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise AutofuseError.of(
            "AF5007",
            f"{graph.label} is not an Ascend C kernel",
            hint="autofuse build -t ascend910b2 writes one; `autofuse targets` lists the chips",
        ) from e
    return _Metadata(target, release, calls, parts)


def _check_architecture(about: _Metadata, chip: Chip, graph: FusionGraph) -> None:
    """Raise AF5007 if the chip is known to have another architecture than the kernel."""
    if chip.npu_arch and chip.npu_arch != about.target.npu_arch:
        raise AutofuseError.of(
            "AF5007",
            f"{graph.label} is for {about.target.name} ({about.target.npu_arch}), {chip.label} has {chip.npu_arch}",
            hint=f"autofuse build -t {chip.target} writes it for this chip",
        )
