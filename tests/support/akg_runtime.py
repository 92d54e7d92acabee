"""A run time for what ``build --flow akg`` writes: it knows the JSON and the binaries, and nothing of autofuse.

Where there is a card, the driver of it loads and launches.  Elsewhere a stand-in takes the same calls: host memory, and
for a launch the kernel of that name in Triton's interpreter.  Both are compared with the oracle of the project.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofuse import api
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.machines.twin.oracle.data import strided_buffer
from autofuse.machines.twin.run.arguments import checked_inputs
from autofuse.machines.twin.verify.verify import verify_with
from autofuse.results import Run

__all__ = ["Card", "Library", "Runtime", "card", "plan_of", "verify_job", "verify_library_job"]

#: What memory holds before a call.
POISON = 0xA5
#: Attributes of a function in the driver's interface.
_MAX_DYNAMIC_SHARED, _ANY_CLUSTER = 8, 14


class Runtime:
    """The kernels of a folder as a function; ``top``: by the keys outside of ``autofuse``, as AKG's own run time."""

    key_count = 0

    def __init__(self, folder: Path, device: Any, *, top: bool = False) -> None:
        self.graph = api.graph_of(folder)
        self.device, self.meta = device, folder / "kernel_meta"
        self.json = json.loads((self.meta / f"{self.graph.name}.json").read_text())
        self.own = self.json["autofuse"]
        self._load(top)

    def _load(self, top: bool) -> None:
        self.launches = [self._from_top()] if top else self.own["launches"]
        for launch in self.launches:
            self._check(launch)

    def _from_top(self) -> dict[str, Any]:
        """A launch as the two sets of keys say it: inputs and outputs are its arguments."""
        doc = self.json
        pointers = [("input", i) for i in range(len(self.own["inputs"]))]
        pointers += [("output", i) for i, o in enumerate(self.own["outputs"]) if "input" not in o]
        upstream = "is_dynamic" in doc
        assert not doc["is_dynamic" if upstream else "dynamic"]
        grid, block = (
            [doc[f"{k}.{d}"] for d in "xyz"] for k in ("blockIdx", "threadIdx")
        ) if upstream else (doc["gridDim"], doc["blockDim"])  # fmt: skip
        if not upstream:
            assert doc["threadNumber"] == np.prod(grid) * np.prod(block)
        return {
            "kernelName": doc["kernelName"],
            "sha256": doc["sha256"],
            "binFileName": self.graph.name,
            "binFileSuffix": ".ptx",
            "gridDim": grid,
            "blockDim": block,
            "clusterDim": None,
            "dynamicSharedBytes": 0,
            "arguments": [{"kind": k, "index": i, "type": "pointer"} for k, i in pointers],
        }

    def _ptx(self, launch: Mapping[str, Any]) -> bytes:
        return (self.meta / (launch["binFileName"] + launch["binFileSuffix"])).read_bytes()

    def _check(self, launch: Mapping[str, Any]) -> None:
        """The binary is the one that is meant, and its entry takes what is passed."""
        ptx = self._ptx(launch)
        assert hashlib.sha256(ptx).hexdigest() == launch["sha256"]
        text = ptx.decode("ascii")
        (entry,) = re.findall(r"\.visible \.entry (\w+)\(", text)
        assert entry == launch["kernelName"]
        types = re.findall(r"\.param \.(u\d+) [^\n]*_param_\d+", text)
        bits = {"pointer": "u64", "int32": "u32", "int64": "u64"}
        assert types == [bits[a["type"]] for a in launch["arguments"]]
        threads = re.search(r"\.reqntid (\d+)", text)
        assert threads is not None
        assert int(threads[1]) == np.prod(launch["blockDim"])
        cluster = re.search(r"\.reqnctapercluster (\d+)", text)
        if launch["clusterDim"] is not None:
            assert int(cluster[1] if cluster else 1) == np.prod(launch["clusterDim"])

    def launched(
        self, launch: Mapping[str, Any], planned: Any, sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """A launch in the words of a module: name, grid, number of tensors, sizes, constants and options."""
        own = self.own["symbols"]
        labels = {s.label: sizes[s.name] for s in self.graph.symbols}
        values = {s["name"]: labels[s["called"]] for s in own}
        x, *others = (_size(e, values) for e in launch["gridDim"])
        kinds = [a["kind"] for a in launch["arguments"]]
        told = tuple(
            values[own[a["index"]]["name"]] for a in launch["arguments"] if a["kind"] == "size"
        )
        parts = launch["clusterDim"][0]
        options = {
            "num_warps": launch["blockDim"][0] // 32,
            "num_ctas": parts,
            "fusion": planned.fusion,
        }
        constants = {k: v for k, v in planned.constants.items() if k not in ("WIDE", "UNIT")}
        grid = (x // parts, *others)
        return (
            launch["kernelName"], grid, len(kinds) - kinds.count("size"), told, constants, options,
        )  # fmt: skip

    # what a verifier asks of a kernel ----------------------------------------------------------
    def choose(self, sizes: Mapping[str, int]) -> None:
        """Nothing is chosen before a call."""

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        symbols: Mapping[str, int] | None = None,
        key: int | None = None,
        poison: int | None = None,
    ) -> Run:
        """Call the kernels once."""
        assert key is None
        arrays, sizes = checked_inputs(self.graph, inputs, symbols or {})
        values = self._symbol_values([a.shape for a in arrays.values()], sizes)
        fill = POISON if poison is None else poison
        given = [self._put(n, a, sizes) for n, a in arrays.items()]
        made = [self._output(i, given, values, fill) for i in range(len(self.own["outputs"]))]
        self._launch({"input": given, "output": made}, values, fill)
        outputs = {}
        for o, place in zip(self.graph.outputs, made, strict=True):
            tensor = self.graph.tensors[o.tensor]
            shape = tuple(e.evaluate(sizes) for e in tensor.shape)
            dtype = numpy_dtype(tensor.dtype)
            raw = self.device.read(place, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            outputs[o.name] = np.frombuffer(raw, dtype).reshape(shape)
            if o.inout is not None:
                inputs[o.inout][...] = outputs[o.name]
                outputs[o.name] = inputs[o.inout]
        self.device.free()
        called = {s.label: sizes[s.name] for s in self.graph.symbols}
        return Run(outputs, called, key=-1, block_dim=0, workspace=0)

    def _launch(
        self, places: dict[str, Sequence[int]], values: Mapping[str, int], fill: int
    ) -> None:
        sizes = [_size(m["bytes"], values) for m in self.own["scratch"]]
        places["scratch"] = [self.device.memory(count, fill) for count in sizes]
        for launch in self.launches:
            grid = [_size(e, values) for e in launch["gridDim"]]
            arguments = [
                (a["type"], values[self.own["symbols"][a["index"]]["name"]])
                if a["kind"] == "size"
                else ("pointer", places[a["kind"]][a["index"]])
                for a in launch["arguments"]
            ]
            if all(grid):
                self.device.launch(launch, self._ptx(launch), grid, arguments)

    def _symbol_values(
        self, shapes: Sequence[Sequence[int]], sizes: Mapping[str, int]
    ) -> dict[str, int]:
        """What the JSON says of each symbol: a dimension of an input, or what the caller names."""
        labels = {s.label: sizes[s.name] for s in self.graph.symbols}
        return {
            s["name"]: labels[s["called"]] if s["input"] is None else shapes[s["input"]][s["dim"]]
            for s in self.own["symbols"]
        }

    def _put(self, name: str, array: Any, sizes: Mapping[str, int]) -> int:
        tensor = self.graph.tensors[name]
        if tensor.strides is None and tensor.offset is None:
            return self.device.put(np.ascontiguousarray(array).tobytes())
        buffer, view = strided_buffer(array, tensor, sizes)[:2]
        first = view.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
        return self.device.put(buffer.tobytes()) + first

    def _output(
        self, index: int, given: Sequence[int], values: Mapping[str, int], fill: int
    ) -> int:
        row = self.own["outputs"][index]
        if "input" in row:
            return given[row["input"]]
        tensor = self.graph.tensors[self.graph.outputs[index].tensor]
        count = int(np.prod([_size(e, values) for e in row["shape"]], dtype=np.int64))
        return self.device.memory(count * numpy_dtype(tensor.dtype).itemsize, fill)


def _size(e: int | str | list, values: Mapping[str, int]) -> int:
    """A size of the JSON: a number, a pair of AKG, or arithmetic of Python."""
    if isinstance(e, list):
        return (values[e[0]] - 1) // e[1] + 1
    if isinstance(e, int):
        return e
    return eval(e, {"__builtins__": {}, "min": min, "max": max}, dict(values))


class Card:
    """The first card, by the interface of its driver."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        self.cuda = cuda
        self.held: list[ctypes.c_uint64] = []
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.cuda, name)(*arguments)
        assert status == 0, f"{name} returns {status}"

    def memory(self, count: int, fill: int) -> int:
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(count, 1)))
        self.held.append(place)
        self._call("cuMemsetD8_v2", place, ctypes.c_ubyte(fill), ctypes.c_size_t(max(count, 1)))
        return place.value

    def put(self, data: bytes) -> int:
        place = self.memory(len(data), POISON)
        if data:
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(place), data, ctypes.c_size_t(len(data)))
        return place

    def read(self, place: int, count: int) -> bytes:
        data = ctypes.create_string_buffer(count)
        if count:
            self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(place), ctypes.c_size_t(count))
        return data.raw

    def launch(
        self,
        launch: Mapping[str, Any],
        ptx: bytes,
        grid: Sequence[int],
        arguments: Sequence[tuple[str, int]],
    ) -> None:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ptx + b"\0")
        name = launch["kernelName"].encode()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name)
        shared = launch["dynamicSharedBytes"]
        if shared:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        if launch["clusterDim"] is not None and launch["clusterDim"][0] > 8:
            self._call("cuFuncSetAttribute", function, _ANY_CLUSTER, 1)
        kinds = {"pointer": ctypes.c_uint64, "int32": ctypes.c_int32, "int64": ctypes.c_int64}
        values = [kinds[kind](value) for kind, value in arguments]
        places = [ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values]
        pointers = (ctypes.c_void_p * len(places))(*places)
        sizes = [ctypes.c_uint(n) for n in (*grid, *launch["blockDim"], shared)]
        self._call("cuLaunchKernel", function, *sizes, None, pointers, None)
        self._call("cuCtxSynchronize")
        self._call("cuModuleUnload", module)

    def free(self) -> None:
        for place in self.held:
            self._call("cuMemFree_v2", place)
        self.held.clear()


def card() -> Card | None:
    """The first card of this machine; None where there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    return Card(cuda)


class Host:
    """Memory of this process."""

    def __init__(self) -> None:
        self.buffers: dict[int, Any] = {}

    def memory(self, count: int, fill: int) -> int:
        whole = np.full(count + 16, fill, np.uint8)
        first = whole.__array_interface__["data"][0]
        place = -(-first // 16) * 16
        self.buffers[place] = whole[place - first :][:count]
        return place

    def put(self, data: bytes) -> int:
        place = self.memory(len(data), POISON)
        self.buffers[place][...] = np.frombuffer(data, np.uint8)
        return place

    def read(self, place: int, count: int) -> bytes:
        return bytes(self.behind(place)[:count])

    def behind(self, place: int) -> Any:
        """The bytes from a pointer on."""
        start = max(p for p in self.buffers if p <= place)
        return self.buffers[start][place - start :]

    def free(self) -> None:
        self.buffers.clear()


class _Interpreter(Host):
    """Kernels in Triton's interpreter; only in a worker."""

    def __init__(self, module: Any, plan: Mapping[str, Any]) -> None:
        super().__init__()
        self.module, self.plan = module, plan

    def _tensor(self, place: int, dtype: Any) -> Any:
        """Memory from a pointer on, as elements of a type."""
        import torch

        tail = torch.from_numpy(self.behind(place))
        return tail[: len(tail) // dtype.itemsize * dtype.itemsize].view(dtype)

    def launch(
        self,
        launch: Mapping[str, Any],
        ptx: bytes,
        grid: Sequence[int],
        arguments: Sequence[tuple[str, int]],
    ) -> None:
        import torch

        planned = self.plan[launch["kernelName"]]
        types = [getattr(torch, m.dtype.name) for m in planned.memory]
        types += [] if planned.meeting is None else [torch.float32]
        numbers = [value for kind, value in arguments if kind != "pointer"]
        places = [value for kind, value in arguments if kind == "pointer"]
        tensors = [self._tensor(p, t) for p, t in zip(places, types, strict=True)]
        assert np.prod(launch["blockDim"]) == 32 * planned.warps
        assert launch["clusterDim"] in (None, [planned.parts, 1, 1])
        assert grid[0] % planned.parts == 0
        kernel = getattr(self.module, launch["kernelName"]).kernel
        programs = (grid[0] // planned.parts, *grid[1:])
        kernel[programs](*tensors, *numbers, **planned.constants)


class Library(Runtime):
    """A shared library that is called as AKG's own run time does: with arrays of pointers."""

    def _load(self, top: bool) -> None:
        path = self.meta / f"{self.graph.name}.so"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == self.json["sha256"]
        self.entry = getattr(ctypes.CDLL(str(path)), self.json["kernelName"])
        self.entry.restype = None

    def _launch(
        self, places: dict[str, Sequence[int]], values: Mapping[str, int], fill: int
    ) -> None:
        outputs = [(p, o) for p, o in zip(places["output"], self.own["outputs"], strict=True)]
        pairs = [*zip(places["input"], self.own["inputs"], strict=True)]
        pairs += [(p, o) for p, o in outputs if "input" not in o]
        data = (ctypes.c_void_p * len(pairs))(*(p for p, _ in pairs))
        if not self.own["symbols"]:
            self.entry(data)
            return
        rows = [_row(t, values) for _, t in pairs]
        given = [values[name] for name in self.own["given"]]
        rows += [(ctypes.c_int64 * len(given))(*given)] if given else []
        table = (ctypes.c_void_p * len(rows))(*(ctypes.addressof(r) for r in rows))
        self.entry(data, table)


def _row(tensor: Mapping[str, Any], values: Mapping[str, int]) -> Any:
    """What a dynamic entry is told of a tensor: 0, its shape, its strides in elements."""
    shape = [_size(e, values) for e in tensor["shape"]]
    strides = [int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape))]
    if tensor["strides"] is not None:
        strides = [_size(e, values) for e in tensor["strides"]]
    found = [0, *shape, *strides]
    return (ctypes.c_int64 * len(found))(*found)


def plan_of(graph: Any, target: str) -> tuple[Any, dict[str, Any]]:
    """The program that a flow compiles, and its launches by name."""
    from autofuse.codegen.backends.triton.launches import for_every_size, launches, taking_all

    made: dict[str, Any] = {}

    def note(stage: str, name: str, before: Any, after: Any) -> None:
        if not name:
            made[stage] = after

    api.observed(graph, note, target=target)
    program = taking_all(for_every_size(made["plan"]))
    return program, {launch.name: launch for launch in launches(program)}


def verify_job(job: Mapping[str, Any]) -> list[str]:
    """What is wrong with the kernels of a folder, launched by the JSON in the interpreter.

    Args:
        job: ``folder``, ``target``, ``bindings``, ``seed``, ``top``.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    from autofuse.machines.gpu.importing import imported
    from autofuse.machines.gpu.interpreter import mend_interpreter

    mend_interpreter()
    folder = Path(job["folder"])
    graph = api.graph_of(folder)
    file = f"{graph.name}_triton.py"
    module = imported((folder / file).read_text(), file)
    device = _Interpreter(module, plan_of(graph, job["target"])[1])
    kernel = Runtime(folder, device, top=job["top"])
    report = verify_with(kernel, bindings=job["bindings"], seed=job["seed"], keys=())
    return [str(d) for d in report.diagnostics] + ([] if report.cases else ["nothing ran"])


def verify_library_job(job: Mapping[str, Any]) -> list[str]:
    """What is wrong with the library of a folder, called by its JSON.

    Args:
        job: ``folder``, ``bindings``, ``seed``.
    """
    kernel = Library(Path(job["folder"]), Host())
    report = verify_with(kernel, bindings=job["bindings"], seed=job["seed"], keys=())
    return [str(d) for d in report.diagnostics] + ([] if report.cases else ["nothing ran"])


def launches_job(job: Mapping[str, Any]) -> list[str]:
    """Where the JSON of a folder and the function of its module launch otherwise.

    Args:
        job: ``folder``, ``target``, ``bindings``.
    """
    from autofuse.machines.gpu.importing import imported
    from autofuse.machines.gpu.loading import load_here
    from autofuse.machines.twin.oracle.data import random_inputs

    folder = Path(job["folder"])
    graph = api.graph_of(folder)
    file = f"{graph.name}_triton.py"
    files = {file: (folder / file).read_text()}
    module = load_here(files, graph)
    noted: list[tuple[Any, ...]] = []

    def note(launcher: Any, grid: Any, tensors: Any, *sizes: int, **keywords: Any) -> None:
        options = {k: keywords.pop(k, v) for k, v in OPTIONS.items()}
        for name in ("WIDE", "UNIT"):  # known when it is compiled, or at the call
            keywords.pop(name, None)
        noted.append((launcher.kernel.__name__, grid, len(tensors), sizes, keywords, options))

    # The text was imported already: this is the module that is called.
    imported(files[file], file).Launcher.__call__ = note
    plan = plan_of(graph, job["target"])[1]
    wrong = []
    for sizes in job["bindings"]:
        noted.clear()
        module.run(random_inputs(graph, sizes, 0), symbols=sizes)
        runtime = Runtime(folder, None)
        found = [
            row
            for launch in runtime.launches
            for row in (runtime.launched(launch, plan[launch["kernelName"]], sizes),)
            if all(row[1])
        ]
        if found != noted:
            wrong.append(f"{sizes}: the JSON {found}, the module {noted}")
    return wrong


#: What a launch has beside grid, tensors, sizes and constants.
OPTIONS: Mapping[str, Any] = {"num_warps": 4, "num_ctas": 1, "fusion": True}
