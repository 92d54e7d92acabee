"""Which flags keep the time of g++ within bounds."""

from __future__ import annotations

import pytest

from autofuse.twin import compile as compiling
from autofuse.twin.compile import Toolchain

GCC = Toolchain("/usr/bin/g++", "g++ (Debian 12.2.0) 12.2.0")
CLANG = Toolchain("/usr/bin/clang++", "Debian clang version 14.0.6")
CALL = ["g++", "-O2", "-o", "k.so", "unit.cpp"]
SHORT = {"device/k_kernel.cpp": "int a;\n" * 400, "host/k_tiling.cpp": "int b;\n" * 4000}
LONG = {"device/k_kernel.cpp": "int a;\n" * 4000}


@pytest.mark.parametrize(
    ("texts", "opt", "cxx", "added"),
    [
        (SHORT, "-O2", GCC, ["-fno-tree-pta"]),
        (SHORT, "-O1", GCC, ["-fno-tree-pta"]),
        (LONG, "-O2", GCC, ["-fno-tree-pta", *compiling._ONLY_CALLS]),
        (LONG, "-O0", GCC, []),  # precompiled headers want the flags that they were made with
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
