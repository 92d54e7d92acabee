"""The flow for a GPU: PTX of each kernel from Triton's compiler, and the JSON to launch it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofuse.base.artifacts import digest
from autofuse.clients.akg.signature import Sizes, document_keys, signature
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.launches import Launch, for_every_size, launches, taking_all
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.codegen.nests.memory import Memory, Role
from autofuse.implgraph.expr.expression import Expr, Func, is_single_atom, product, sym
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.ahead import Entry, Ptx, compile_ahead
from autofuse.machines.gpu.loading import module_file
from autofuse.targets import GpuTarget

__all__ = ["GpuKernels", "gpu_kernels"]

#: Element types whose name in Triton is not the letter of their kind and their width in bits.
_TRITON = {"bfloat16": "bf16", "bool": "i1"}
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class GpuKernels:
    """The compiled kernels of a graph.

    Attributes:
        graph: the graph as read.
        target: the card.
        launches: the launches in order.
        compiled: the PTX of each launch.
        scratch: bytes of each scratch buffer that a call needs.
        module: source text of the compiled module.
    """

    graph: FusionGraph
    target: GpuTarget
    launches: tuple[Launch, ...]
    compiled: tuple[Ptx, ...]
    scratch: tuple[Expr, ...]
    module: str

    def files(self) -> dict[str, str]:
        """Return the module and the PTX of each kernel."""
        texts = {
            f"kernel_meta/{name}.ptx": ptx.text
            for name, ptx in zip(self._binaries(), self.compiled, strict=True)
        }
        return {module_file(self.graph): self.module, **texts}

    def keys(self, key_set: str) -> dict[str, Any]:
        """Return the JSON values for a key set, ``upstream`` or ``document``."""
        sizes = Sizes(self.graph)
        rows = self._rows(sizes)
        scratch = tuple({"bytes": sizes.size(e)} for e in self.scratch)
        own = {"compiler": self.compiled[0].compiler, "launches": rows, "scratch": scratch}
        found: dict[str, Any] = {"autofuse": signature(self.graph, self.target, sizes) | own}
        arch = self.compiled[0].arch
        if key_set == "document":
            capability = f"sm_{self.target.capability}"
            found |= document_keys(self.graph, sizes, capability, arch)
        else:
            found["is_dynamic"] = bool(self.graph.symbols)
            found |= self._dynamic(sizes, arch) if self.graph.symbols else {}
        if self.is_one_launch:
            one = self._document if key_set == "document" else self._upstream
            found |= {k: rows[0][k] for k in ("kernelName", "sha256")} | one(sizes)
        return found

    @property
    def is_one_launch(self) -> bool:
        """True if a call is a single launch without scratch or dynamic shared memory."""
        dynamic = any(ptx.dynamic_shared_bytes for ptx in self.compiled)
        return len(self.launches) == 1 and not self.scratch and not dynamic

    def _binaries(self) -> list[str]:
        """Return the file stems: the name of the graph, numbered if there are several kernels."""
        name = self.graph.name
        several = [f"{name}_{i}" for i in range(len(self.launches))]
        return [name] if len(several) == 1 else several

    def _rows(self, sizes: Sizes) -> tuple[dict[str, Any], ...]:
        """Return the signature's entry for each launch."""
        places = self._places()
        meeting = len([m for m in places if m.role is Role.SCRATCH])
        rows = []
        for name, launch, ptx in zip(self._binaries(), self.launches, self.compiled, strict=True):
            arguments = [places[m] for m in launch.memory]
            if launch.meeting is not None:
                arguments.append(("scratch", meeting))
                meeting += 1
            rows.append(
                {
                    "kernelName": launch.name,
                    "binFileName": name,
                    "binFileSuffix": ".ptx",
                    "sha256": digest(ptx.text),
                    "gridDim": sizes.shape(_blocks(launch)),
                    "blockDim": (launch.threads, 1, 1),
                    "clusterDim": (launch.parts, 1, 1),
                    "sharedBytes": ptx.shared_bytes,
                    "dynamicSharedBytes": ptx.dynamic_shared_bytes,
                    "registers": ptx.registers,
                    "spillBytes": ptx.spill_bytes,
                    "arguments": (
                        *(
                            {"kind": kind, "index": index, "type": "pointer"}
                            for kind, index in arguments
                        ),
                        *(self._size_argument(s) for s in launch.sizes),
                    ),
                }
            )
        return tuple(rows)

    def _places(self) -> dict[Memory, tuple[str, int]]:
        """Map each tensor in memory to the kind and index by which the run time knows it."""
        program_order = self.launches[0].memory
        counts = {Role.INPUT: 0, Role.OUTPUT: 0, Role.SCRATCH: 0}
        outputs = [i for i, o in enumerate(self.graph.outputs) if o.inout is None]
        found = {}
        for m in program_order:
            index = counts[m.role]
            counts[m.role] += 1
            found[m] = (m.role.value, outputs[index] if m.role is Role.OUTPUT else index)
        return found

    def _size_argument(self, symbol: str) -> dict[str, Any]:
        index, found = next((i, s) for i, s in enumerate(self.graph.symbols) if s.name == symbol)
        return {"kind": "size", "index": index, "type": _integer(found.max)}

    # key sets ---------------------------------------------------------------------------------
    def _upstream(self, sizes: Sizes) -> dict[str, Any]:
        (launch,) = self.launches
        grid = (_upstream_grid(e, sizes) for e in _blocks(launch))
        threads = (launch.threads, 1, 1)
        named = zip("xyz", grid, threads, strict=True)
        pairs = [((f"blockIdx.{d}", g), (f"threadIdx.{d}", t)) for d, g, t in named]
        return dict(pair for both in pairs for pair in both)

    def _dynamic(self, sizes: Sizes, arch: str) -> dict[str, Any]:
        graph = self.graph
        tensors = [*graph.inputs, *(o.tensor for o in graph.outputs if o.inout is None)]
        shapes = tuple(
            tuple(str(size).replace(" ", "") for size in sizes.shape(graph.tensors[t].shape))
            for t in tensors
        )
        return {
            "hostShapes": shapes,
            "deviceShapes": shapes,
            "runtimeVars": (),
            "SupportInfo": {
                "OperatorType": "Unknown",
                "DynAlgorithm": "",
                "ReduceSizeStatic": 1,
                "ParallelSizeStatic": 1,
                "EnableAtomic": False,
            },
            "targetInfo": arch,
        }

    def _document(self, sizes: Sizes) -> dict[str, Any]:
        (launch,) = self.launches
        blocks = _blocks(launch)
        return {
            "blockDim": (launch.threads, 1, 1),
            "gridDim": sizes.shape(blocks),
            "threadNumber": sizes.size(product(blocks) * launch.threads),
        }


def gpu_kernels(graph: FusionGraph, program: Program, target: GpuTarget) -> GpuKernels:
    """Compile the kernels of a graph for every size of its symbols.

    Args:
        graph: the graph as read.
        program: its plan.
        target: a CUDA card.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or its assembler is missing; AF5002, a kernel does not compile; AF5003,
            the compiler crashed or took too long.
    """
    program = taking_all(for_every_size(program))
    found = tuple(launches(program))
    module = file_text(program)
    compiled = compile_ahead(
        module,
        module_file(graph),
        [_entry(launch, graph) for launch in found],
        capability=target.capability,
    )
    scratch = [m.size * m.dtype.itemsize for m in program.scratch if m.size is not None]
    scratch += [launch.meeting for launch in found if launch.meeting is not None]
    return GpuKernels(graph, target, found, compiled, tuple(scratch), module)


def _entry(launch: Launch, graph: FusionGraph) -> Entry:
    most = {s.name: s.max for s in graph.symbols}
    types = [f"*{_short(m.dtype)}" for m in launch.memory]
    types += [] if launch.meeting is None else ["*fp32"]
    types += [_integer(most[s]).replace("int", "i") for s in launch.sizes]
    return Entry(
        launch.name,
        tuple(types),
        launch.constants,
        launch.warps,
        launch.parts,
        launch.fusion,
    )


def _short(dtype: DType) -> str:
    """Return the name of an element type in a Triton signature."""
    kind = "fp" if dtype.kind == "f" else dtype.kind
    return _TRITON.get(dtype.name) or f"{kind}{8 * dtype.itemsize}"


def _integer(most: int) -> str:
    return "int32" if most <= _INT32_MAX else "int64"


def _blocks(launch: Launch) -> Sequence[Expr]:
    """Return the number of thread blocks along each dimension of the grid."""
    x, y, z = launch.grid
    return x * launch.parts, y, z


def _upstream_grid(e: Expr, sizes: Sizes) -> int | str | tuple[str, int]:
    """Return a number of blocks as AKG writes it: a pair (symbol, divisor) for a divided symbol."""
    named: Mapping[Expr, str] = {sym(s): name for s, name in sizes.names.items()}
    if e in named:
        return named[e], 1
    if is_single_atom(e):
        (atom,) = e.atoms()
        if isinstance(atom, Func) and atom.name == "CeilDiv":
            divided, by = atom.args
            if divided in named and by.is_const:
                return named[divided], by.value
    return sizes.size(e)
