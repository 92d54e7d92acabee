"""norm_online: Triton kernels."""

import torch
import triton
import triton.language as tl


class Launcher:
    """Launches a kernel; caches compiled kernels by everything they depend on except types, which never change."""

    def __init__(self, kernel):
        self.kernel, self.ready = kernel, {}

    def __call__(self, grid, tensors, *sizes, num_warps, num_ctas=1, fusion=True, **constants):
        addresses, bits = [], 0
        for t in tensors:
            addresses.append(t.data_ptr())
            bits |= addresses[-1]
        device = tensors[0].device.index
        numbers = (*sizes, *constants.values())
        key = (device, grid, numbers, num_warps)
        # Triton compiles a variant without wide accesses for unaligned addresses.
        found = self.ready.get(key) if bits % 16 == 0 else None
        if found is not None:
            run, function, metadata, current_stream = found
            run(*grid, current_stream(device), function, metadata, None, None, None, *addresses, *numbers)
            return
        # Triton compiles for the current card, and the driver rejects kernels compiled for another one.
        if device is not None and device != (current := triton.runtime.driver.active.get_current_device()):
            raise ValueError(f"tensors are on cuda:{device}, but the current device is cuda:{current}")
        options = {"num_warps": num_warps, "num_ctas": num_ctas, "enable_fp_fusion": fusion}
        compiled = self.kernel[grid](*tensors, *sizes, **constants, **options)
        if compiled is not None and bits % 16 == 0:  # it is None in the interpreter
            if len(self.ready) >= 1024:
                self.ready.clear()
            current_stream = triton.runtime.driver.active.get_current_stream
            self.ready[key] = compiled.run, compiled.function, compiled.packed_metadata, current_stream


#: True if the blocks of a cluster run in parallel; in the interpreter one program stands in for all of them.
IN_CLUSTERS: tl.constexpr = tl.constexpr(not triton.knobs.runtime.interpret)


@triton.jit
def meet_cluster(PARTS: tl.constexpr):
    """Wait for all blocks of the cluster; their earlier stores are visible afterwards.

    The first warp of a block has stored its results, so only that warp has to make them visible.
    """
    if IN_CLUSTERS and PARTS > 1:
        tl.inline_asm_elementwise(
            """{
            .reg .pred first;
            .reg .u32 thread;
            mov.u32 thread, %tid.x;
            setp.lt.u32 first, thread, 32;
            @first fence.acq_rel.gpu;
            barrier.cluster.arrive.relaxed.aligned;
            barrier.cluster.wait.acquire.aligned;
            mov.u32 $0, 0;
            }""", "=r", [], dtype=tl.int32, is_pure=False, pack=1,
        )


@Launcher
@triton.jit
def norm_online_rows(x_ptr, y_ptr, meeting_ptr, PARTS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, PARTS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    col_live = col < 50000
    x = tl.load(x_ptr + row * 50000 + col, mask=col_live, other=0.0)
    mean_reducesum = tl.sum(tl.where(col_live, x, 0.0), 1, keep_dims=True)
    elements = tl.minimum(tl.maximum(50000 - tl.arange(0, PARTS)[:, None] * COLS, 1), COLS)
    centred = x - mean_reducesum / elements
    variance_reducesum = tl.sum(tl.where(col_live, centred * centred, 0.0), 1, keep_dims=True)
    line = row
    part = tl.arange(0, PARTS)[:, None]
    tl.store(meeting_ptr + line * PARTS + part, mean_reducesum)
    tl.store(meeting_ptr + (1 * 20 + line) * PARTS + part, variance_reducesum)
    meet_cluster(PARTS)
    mean_reducesum_1 = tl.full((), 0.0, tl.float32)
    for other in tl.static_range(PARTS):
        mean_reducesum_1 = mean_reducesum_1 + tl.load(meeting_ptr + line * PARTS + other, cache_modifier=".cg")
    variance_reducesum_1 = tl.full((), 0.0, tl.float32)
    for other in tl.static_range(PARTS):
        elements_1 = tl.minimum(tl.maximum(50000 - other * COLS, 0), COLS)
        apart = tl.load(meeting_ptr + line * PARTS + other, cache_modifier=".cg") / tl.maximum(elements_1, 1) - mean_reducesum_1 / 50000
        variance_reducesum_1 += tl.load(meeting_ptr + (1 * 20 + line) * PARTS + other, cache_modifier=".cg") + apart * apart * elements_1
    mean = mean_reducesum_1 / 50000.0
    centred_1 = x - mean
    variance = variance_reducesum_1 / 50000.0
    above_zero = variance + 1e-05
    root = 1.0 / tl.sqrt_rn(above_zero)
    normal = centred_1 * root
    tl.store(y_ptr + row * 50000 + col, normal, mask=col_live)


def norm_online(x):
    """Takes x float32[20, 50000]."""
    if x.shape != (20, 50000) or x.dtype != torch.float32:
        raise ValueError(f"x is {x.dtype}{tuple(x.shape)}, not float32{(20, 50000)}")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}")
    y = torch.empty((20, 50000), dtype=torch.float32, device=x.device)
    meeting = torch.empty(640, dtype=torch.float32, device=x.device)
    norm_online_rows((20, 1, 1), (x, y, meeting), PARTS=16, COLS=4096, num_warps=4, num_ctas=16)
    return y
