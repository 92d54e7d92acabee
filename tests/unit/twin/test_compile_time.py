"""Which flags keep the time of g++ within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run import compile as compiling
from autofuse.machines.twin.run.compile import Toolchain, compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel

GCC = Toolchain("/usr/bin/g++", "g++ (Debian 12.2.0) 12.2.0")
CLANG = Toolchain("/usr/bin/clang++", "Debian clang version 14.0.6")
CALL = ["g++", "-O2", "-o", "k.so", "unit.cpp"]
SHORT = {"device/k_kernel.cpp": "int a;\n" * 400, "host/k_tiling.cpp": "int b;\n" * 4000}
LONG = {"device/k_kernel.cpp": "int a;\n" * 4000}


@pytest.mark.parametrize(
    ("texts", "opt", "cxx", "added"),
    [
        (SHORT, "-O2", GCC, [*compiling._ONLY_PASSES, "-fno-tree-pta"]),
        (SHORT, "-O1", GCC, [*compiling._ONLY_PASSES, "-fno-tree-pta"]),
        (LONG, "-O2", GCC, [*compiling._ONLY_PASSES, "-fno-tree-pta", *compiling._ONLY_CALLS]),
        # Precompiled headers want the flags that they were made with, whatever the length.
        (LONG, "-O0", GCC, [*compiling._ONLY_PASSES]),
        (LONG, "-O2", CLANG, []),  # which does not know them
    ],
)
def test_flags_by_length_level_and_compiler(
    texts: dict[str, str], opt: str, cxx: Toolchain, added: list[str]
) -> None:
    assert compiling._in_time(CALL, texts, opt, cxx) == ["g++", *added, *CALL[1:]]


def test_a_user_s_flags_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", "-finline")
    flags = compiling._flags("-O2", checked=False)
    call = compiling._in_time(["g++", *flags], LONG, "-O2", GCC)
    assert call.index("-finline") > call.index("-fno-inline")


@pytest.mark.twin
@pytest.mark.parametrize("lines", [0, compiling._LONG_KERNEL])
@pytest.mark.parametrize("opt", ["-O0", "-O1", "-O2"])
def test_a_core_that_fails_leaves_the_kernel_and_nothing_behind(
    opt: str, lines: int, abs_files: Any, abs_graph: Any, cache_dir: Path
) -> None:
    """Without destructors in the kernel: the pipe that was alive must not be in the way of the next launch."""
    files = abs_files(
        ("qin.EnQue(a);", "if (t.s0 != 100) { qin.EnQue(a); }"), ("extern", "\n" * lines + "extern")
    )
    kernel = TwinKernel(compile_kernel(files, "absk", opt=opt), abs_graph)
    rng = draws.rng()
    for n in (99, 100, 101, 100, 640):
        x = rng.standard_normal(n, np.float32)
        if n == 100:
            with pytest.raises(AutofuseError, match="DeQue"):
                kernel(x)
        else:
            np.testing.assert_array_equal(kernel(x), np.abs(x))
