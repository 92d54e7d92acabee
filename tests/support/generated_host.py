"""The host functions of a kernel, compiled as they are, and called through their C interface."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable
from pathlib import Path

from autofuse.codegen.backends.ascendc.host.abi import Field

__all__ = ["FLAGS", "Host", "ResLimit", "Shape"]

FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC"]


class ResLimit(ctypes.Structure):
    _fields_ = [
        ("valid_num", ctypes.c_uint32),
        ("aiv_num", ctypes.c_uint32),
        ("aic_num", ctypes.c_uint32),
        ("ub_size", ctypes.c_uint32),
        ("resv", ctypes.c_uint32 * 10),
    ]


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * 16)]


class Host:
    """The host functions in a folder, compiled without kernel and launcher.

    Args:
        fields: of the tiling data.
        folder: of the kernel.
        workspace: it may have one.
    """

    def __init__(self, fields: Iterable[Field], folder: Path, *, workspace: bool = False) -> None:
        self.fields, self.workspace = tuple(fields), workspace
        sources = sorted(p for p in (folder / "host").glob("*.cpp") if "launch" not in p.name)
        library = folder / "host.so"
        flags = [
            *FLAGS,
            "-O1",
            "-shared",
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
        ]
        includes = [f"-I{folder}", f"-I{folder / 'include'}"]
        subprocess.run(["g++", *flags, *includes, "-o", library, *sources], check=True, timeout=300)
        self.lib = ctypes.CDLL(str(library))
        self.lib.AutofuseErrorText.restype = ctypes.c_char_p
        self.lib.AutofuseErrorText.argtypes = [ctypes.c_int64]
        for name in ("AutofuseTiling", "AutofuseTilingForKey", "InferShape"):
            getattr(self.lib, name).restype = ctypes.c_int64
        self.lib.InferShapeFromSymbols.restype = ctypes.c_int64
        self.lib.GetTilingDataSize.restype = ctypes.c_uint64

    def tiling(self, *sizes: int, key: int | None = None, cores: int = 0, ub: int = 0):
        members = [
            (f.name, ctypes.c_uint32 if f.ctype == "uint32_t" else ctypes.c_int64)
            for f in self.fields
        ]
        data = type("Data", (ctypes.Structure,), {"_fields_": members})()
        assert self.lib.GetTilingDataSize() == ctypes.sizeof(data)
        workspace, block_dim = ctypes.c_uint32(77), ctypes.c_uint32(77)
        limit = ResLimit(aiv_num=cores, ub_size=ub)
        rest = [ctypes.byref(x) for x in (data, workspace, block_dim, limit)]
        given = [ctypes.c_int64(s) for s in sizes]
        if key is None:
            rc = self.lib.AutofuseTiling(*given, *rest)
        else:
            rc = self.lib.AutofuseTilingForKey(ctypes.c_uint32(key), *given, *rest)
        if rc:
            return self.lib.AutofuseErrorText(rc).decode()
        assert workspace.value == 0 or self.workspace
        assert block_dim.value == data.block_dim
        return data

    def infer(self, *shapes: tuple[int, ...], outputs: int = 1) -> list[tuple[int, ...]] | str:
        given = (Shape * max(len(shapes), 1))()
        for s, dims in zip(given, shapes, strict=False):
            s.rank = len(dims)
            s.dims[: len(dims)] = list(dims)
        made = (Shape * max(outputs, 1))()
        rc = self.lib.InferShape(len(shapes), given, outputs, made)
        if rc:
            return self.lib.AutofuseErrorText(rc).decode()
        return [tuple(s.dims[: s.rank]) for s in made]
