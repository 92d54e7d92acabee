"""A kernel written by hand, y = |x| for float32 x[s0], in the files and with the functions of a generated one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.implgraph.expr.expression import sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Symbol, Tensor

KERNEL = """
#include "kernel_operator.h"
#include "autofuse_tiling_data.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void absk(GM_ADDR in, GM_ADDR out, GM_ADDR workspace, AutofuseTilingData t)
{
    (void)workspace;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> qin;
    TQue<TPosition::VECOUT, 1> qout;
    pipe.InitBuffer(qin, 2, static_cast<uint32_t>(t.tile) * 4);
    pipe.InitBuffer(qout, 2, static_cast<uint32_t>(t.tile) * 4);
    const int64_t share = (t.s0 + GetBlockNum() - 1) / GetBlockNum();
    const int64_t begin = GetBlockIdx() * share;
    const int64_t end = begin + share < t.s0 ? begin + share : t.s0;
    GlobalTensor<float> x, y;
    x.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in));
    y.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(out));
    for (int64_t at = begin; at < end; at += t.tile) {
        const int64_t len = end - at < t.tile ? end - at : t.tile;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(len) * 4, 0, 0, 0};
        LocalTensor<float> a = qin.AllocTensor<float>();
        DataCopyPad(a, x[at], copy, DataCopyPadExtParams<float>{false, 0, 0, 0});
        qin.EnQue(a);
        a = qin.DeQue<float>();
        LocalTensor<float> b = qout.AllocTensor<float>();
        Abs(b, a, static_cast<int32_t>(len));
        qout.EnQue(b);
        qin.FreeTensor(a);
        b = qout.DeQue<float>();
        DataCopyPad(y[at], b, copy);
        qout.FreeTensor(b);
    }
}
"""

DATA = """
#ifndef ABSK_DATA
#define ABSK_DATA
#include <stdint.h>
struct AutofuseTilingData {
    uint32_t tiling_key = 0;
    uint32_t block_dim = 1;
    int64_t s0 = 0;
    int64_t tile = 64;
};
#endif
"""

# Key 0 takes any size, key 1 multiples of 8 only (return code 105: a condition of template 0).
TILING = """
#include "autofuse_tiling_data.h"
struct ResLimit { uint32_t valid_num, aiv_num, aic_num, ub_size, resv[10]; };
extern "C" int64_t AutofuseTilingForKey(uint32_t key, int64_t s0, AutofuseTilingData* t, uint32_t* workspace,
                                        uint32_t* block_dim, ResLimit* limit)
{
    if (key == 1 && s0 % 8 != 0) {
        return 105;
    }
    if (s0 > 1048576) {
        return 102;
    }
    AutofuseTilingData data;
    data.tiling_key = key;
    data.s0 = s0;
    data.tile = key == 1 ? 1024 : 64;
    *t = data;
    *workspace = 0;
    *block_dim = limit != nullptr && limit->aiv_num != 0 ? limit->aiv_num : 3;
    return 0;
}
extern "C" int64_t AutofuseTiling(int64_t s0, AutofuseTilingData* t, uint32_t* workspace, uint32_t* block_dim,
                                  ResLimit* limit)
{
    return AutofuseTilingForKey(s0 % 8 == 0 ? 1 : 0, s0, t, workspace, block_dim, limit);
}
extern "C" const char* AutofuseErrorText(int64_t rc)
{
    return rc == 105 ? "s0 is not a multiple of 8" : "s0 is too large";
}
extern "C" uint64_t GetTilingDataSize() { return sizeof(AutofuseTilingData); }
extern "C" uint32_t AutofuseAbiVersion() { return 1; }
extern "C" uint32_t GetTilingKeyCount() { return 2; }
"""

LAUNCH = """
#include "kernel_operator.h"
#include "autofuse_twin/launch.h"
#include "autofuse_tiling_data.h"
extern "C" __global__ __aicore__ void absk(GM_ADDR, GM_ADDR, GM_ADDR, AutofuseTilingData);
extern "C" int64_t AutofuseLaunchArray(uint32_t block_dim, void* stream, void** p, AutofuseTilingData* tiling)
{
    (void)stream;
    const AutofuseTilingData t = *tiling;
    return autofuse_twin::Launch(block_dim, [&] {
        absk(static_cast<GM_ADDR>(p[0]), static_cast<GM_ADDR>(p[1]), static_cast<GM_ADDR>(p[2]), t);
    });
}
"""

SHAPE = """
#include <stdint.h>
struct AutofuseShape { uint32_t rank; int64_t dims[16]; };
extern "C" int64_t InferShape(uint32_t n, const AutofuseShape* in, uint32_t m, AutofuseShape* out)
{
    if (n != 1 || m != 1 || in[0].rank != 1) {
        return 8;
    }
    out[0] = in[0];
    return 0;
}
"""


def kernel_files(*changes: tuple[str, str]) -> dict[str, str]:
    """The files, with texts of any of them replaced."""
    files = {
        "device/absk_kernel.cpp": KERNEL,
        "autofuse_tiling_data.h": DATA,
        "host/absk_tiling.cpp": TILING,
        "host/absk_infer_shape.cpp": SHAPE,
        "host/absk_launch.cpp": LAUNCH,
    }
    for old, new in changes:
        assert any(old in text for text in files.values()), old
        files = {name: text.replace(old, new) for name, text in files.items()}
    return files


@pytest.fixture(autouse=True)
def _optimised_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOFUSE_OPT")


@pytest.fixture
def abs_files() -> Callable[..., dict[str, str]]:
    return kernel_files


@pytest.fixture
def abs_graph() -> FusionGraph:
    f32, shape = dtype("float32"), (sym("s0"),)
    return FusionGraph(
        name="absk",
        symbols=(Symbol("s0", 0, 1 << 20, 200),),
        inputs=("x",),
        nodes=(FusionNode("abs_0", "Abs", ("x",), ("y",)),),
        outputs=(GraphOutput("y", "y"),),
        tensors={"x": Tensor("x", f32, shape), "y": Tensor("y", f32, shape)},
    )


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
