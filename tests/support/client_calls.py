"""Graphs as a client of CANN's interface makes them: a text of calls, which is executed.

:class:`Calls` writes the text that a client would, one line per assignment, and runs it; :class:`Library` compiles
what comes out and calls it as a client's launcher would, through ctypes and with pointers only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofuse.clients.cann.compile_adapter import jit_compile
from autofuse.clients.cann.pyautofuse import Autofuser, AutofuserOptions, ascir

#: Bytes that outputs begin with; what a kernel does not write keeps them.
POISON = 0x5A

Sizes = Sequence[object]


def dense(sizes: Sizes) -> list[str]:
    """Row-major strides as a client writes them: 0 where a size is 1."""
    out: list[str] = []
    for i, n in enumerate(sizes):
        inner = [f"({m})" for m in sizes[i + 1 :] if str(m) != "1"]
        out.append("0" if str(n) == "1" else "*".join(inner) or "1")
    return out


class Calls:
    """The text of one HintGraph; axes are ``a0``, ``a1``, ... with the sizes given.

    Every method writes the lines of one node and returns its name.
    """

    def __init__(self, name: str, axes: Sizes, symbols: Sequence[str] = ()) -> None:
        self.name = name
        self.axes = [f"a{i}" for i in range(len(axes))]
        self.sizes = [str(n) for n in axes]
        self.inputs = 0
        self.outputs = 0
        self.count = 0
        self.lines = [f"{name} = ascir.HintGraph('{name}')"]
        self.lines += [f'{s} = {name}.create_size("{s}")' for s in sorted(symbols)]
        for axis, size in zip(self.axes, self.sizes, strict=True):
            self.lines.append(f'{axis} = {name}.create_axis("{axis}", {size})')

    def node(self, kind: str, *lines: str, loop: bool = True) -> str:
        """A node, with these assignments to it."""
        name = f"{kind.lower()}{self.count}_{self.name}"
        self.count += 1
        self.lines.append(f"{name} = ascir.ops.{kind}('{self.name}/{name}', {self.name})")
        if loop:
            self.lines.append(f"{name}.attr.sched.axis = [{', '.join(self.axes)}]")
        self.lines += [f"{name}.{line}" for line in lines]
        return name

    def layout(
        self, sizes: Sizes, strides: Sizes | None = None, axes: Sequence[str] | None = None
    ) -> list[str]:
        """The lines about ``y``."""
        steps = dense(sizes) if strides is None else strides
        return [
            f"y.axis = [{', '.join(axes or self.axes)}]",
            f"y.size = [{', '.join(map(str, sizes))}]",
            f"y.strides = [{', '.join(map(str, steps))}]",
        ]

    def data(self, dtype: str) -> str:
        """The next input of the graph."""
        self.inputs += 1
        return self.node(
            "Data",
            f"attr.ir_attr.index = {self.inputs - 1}",
            f"y.dtype = ascir.dtypes.{dtype}",
            loop=False,
        )

    def load(
        self,
        data: str,
        sizes: Sizes | None = None,
        strides: Sizes | None = None,
        *,
        offset: object = 0,
        axes: Sequence[str] | None = None,
    ) -> str:
        """A Load; without sizes, all of the loop."""
        y = self.layout(self.sizes if sizes is None else sizes, strides, axes)
        return self.node("Load", f"attr.ir_attr.offset = {offset}", f"x = {data}.y", *y)

    def node_with(self, name: str, *lines: str) -> str:
        """More assignments to a node."""
        self.lines += [f"{name}.{line}" for line in lines]
        return name

    def gather(self, data: str, index: str, axis: object, sizes: Sizes, axes: Sequence[str]) -> str:
        """A Gather of ``data``, which may be a Data with a layout, at the places ``index``."""
        return self.node(
            "Gather",
            f"attr.ir_attr.axis = {axis!r}",
            f"x1 = {data}.y",
            f"x2 = {index}.y",
            *self.layout(sizes, axes=axes),
        )

    def op(
        self, kind: str, *inputs: str, sizes: Sizes | None = None, dtype: str = "", **attrs: object
    ) -> str:
        """An op of one, two or three inputs."""
        slots = ["x"] if len(inputs) == 1 else [f"x{i + 1}" for i in range(len(inputs))]
        lines = [f"attr.ir_attr.{k} = {v!r}" for k, v in attrs.items()]
        lines += [f"{slot} = {x}.y" for slot, x in zip(slots, inputs, strict=True)]
        lines += [f"y.dtype = ascir.dtypes.{dtype}"] if dtype else []
        return self.node(kind, *lines, *self.layout(self.sizes if sizes is None else sizes))

    def transpose(self, x: str, sizes: Sizes) -> str:
        """A Transpose to the order of the loop."""
        return self.op("Transpose", x, sizes=sizes)

    def scalar(self, value: str, dtype: str = "float32") -> str:
        """A constant; its value is a text."""
        return self.node(
            "Scalar", f"attr.ir_attr.value = {value!r}", f"y.dtype = ascir.dtypes.{dtype}"
        )

    def store(
        self,
        x: str,
        dtype: str = "float32",
        sizes: Sizes | None = None,
        strides: Sizes | None = None,
        *,
        offset: object = None,
        axes: Sequence[str] | None = None,
    ) -> str:
        """A Store and the next output of the graph."""
        y = self.layout(self.sizes if sizes is None else sizes, strides, axes)
        y += [] if offset is None else [f"y.offset = {offset}"]
        store = self.node("Store", f"x = {x}.y", *y)
        self.outputs += 1
        return self.node(
            "Output",
            f"attr.ir_attr.index = {self.outputs - 1}",
            f"x = {store}.y",
            f"y.dtype = ascir.dtypes.{dtype}",
            loop=False,
        )


def fused(
    name: str,
    parts: Sequence[tuple[Calls, Sequence[str]]],
    outputs: Sequence[str] | None = None,
    inputs: int | None = None,
) -> str:
    """The text of a FusedGraph.

    Args:
        name: of the kernel.
        parts: the graphs with the buffers that they read: ``in0``, ... or ``<graph>_y0``, ...
        outputs: buffers that are outputs; None: those of the only graph.
        inputs: number of inputs; None: those of the only graph.
    """
    lines = ["def Mod(x, y):", "    return x % y"]
    for calls, _ in parts:
        lines += [*calls.lines, f"{calls.name}.infer_dtypes()"]
    lines.append(f"whole = ascir.FusedGraph('{name}')")
    count = parts[0][0].inputs if inputs is None else inputs
    for k in range(count):
        lines += [f"in{k} = ascir.ops.Data('in{k}', whole)", f"in{k}.attr.ir_attr.index = {k}"]
    for calls, reads in parts:
        node = f"{calls.name}_node"
        lines.append(f"{node} = ascir.ops.AscBackend('{calls.name}', {calls.name}, whole)")
        lines += [f"{calls.name}_y{k} = {node}.y[{k}]" for k in range(calls.outputs)]
        lines.append(f"{node}.x = [{', '.join(reads)}]")
    ends = outputs or [f"{parts[0][0].name}_y{k}" for k in range(parts[0][0].outputs)]
    for k, end in enumerate(ends):
        lines += [
            f"out{k} = ascir.ops.Output('output{k}', whole)",
            f"out{k}.attr.ir_attr.index = {k}",
            f"out{k}.x = [{end}]",
        ]
    return "\n".join(lines) + "\n"


def executed(text: str) -> ascir.FusedGraph:
    """The graph of a text."""
    scope: dict[str, Any] = {"ascir": ascir}
    exec(compile(text, "<client>", "exec"), scope)
    graph = scope["whole"]
    assert isinstance(graph, ascir.FusedGraph)
    return graph


def generated(text: str, target: str | None = None) -> tuple[str, str, str]:
    """The three C++ texts of a client's text."""
    fuser = Autofuser(AutofuserOptions(graph_type=1, target=target))
    return fuser.codegen(fuser.schedule(executed(text)))


class Library:
    """A compiled ``kernel.so``, called with pointers as a client's launcher does."""

    def __init__(self, texts: tuple[str, str, str], folder: Path) -> None:
        self.path = folder / "kernel.so"
        jit_compile(
            *texts,
            [
                f"--output_file={self.path}",
                "--graph_name=kernel",
                "--force_unknown=False",
                "--soc_version=cpu",
                "--config_file=None",
            ],
        )
        self.library = ctypes.CDLL(str(self.path))
        self.library.AutofuseTiling.restype = ctypes.c_int64
        self.library.AutofuseLaunch.restype = ctypes.c_int64
        self.library.GetTilingDataSize.restype = ctypes.c_uint64

    def tiling(self, *symbols: int) -> tuple[int, ctypes.Array[ctypes.c_char], int, int]:
        """Return code, tiling data, bytes of workspace, number of cores."""
        data = ctypes.create_string_buffer(self.library.GetTilingDataSize())
        size, cores = ctypes.c_uint32(), ctypes.c_uint32()
        rc = self.library.AutofuseTiling(
            *(ctypes.c_int64(s) for s in symbols),
            data,
            ctypes.byref(size),
            ctypes.byref(cores),
            None,
        )
        return rc, data, size.value, cores.value

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        symbols: Sequence[int] = (),
    ) -> None:
        """Run once; outputs are written in place, poisoned before unless they are inputs too."""
        shared = {x.ctypes.data for x in inputs}
        for y in outputs:
            if y.size and y.ctypes.data not in shared:
                y.view(np.uint8)[...] = POISON
        rc, data, size, cores = self.tiling(*symbols)
        assert rc == 0, rc
        workspace = np.full(size, POISON, np.uint8)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs)]
        # Without a workspace a client passes none.
        pointers.append(ctypes.c_void_p(workspace.ctypes.data if size else None))
        rc = self.library.AutofuseLaunch(ctypes.c_uint32(cores), None, *pointers, data)
        assert rc == 0, rc
