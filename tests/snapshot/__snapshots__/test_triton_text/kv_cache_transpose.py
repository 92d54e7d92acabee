"""kv_cache_transpose: Triton kernels."""

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


@Launcher
@triton.jit
def kv_cache_transpose_tiles(keys_ptr, out_ptr, seq, ROWS: tl.constexpr, COLS: tl.constexpr, WIDE: tl.constexpr, UNIT: tl.constexpr):
    seq = seq // UNIT * UNIT
    block = tl.cast(tl.program_id(0), tl.int64 if WIDE else tl.int32)
    col = (block % tl.cdiv(seq, COLS) * COLS + tl.arange(0, COLS))[None, :]
    block = block // tl.cdiv(seq, COLS)
    col_live = col < seq
    outer = block // tl.cdiv(1024, ROWS)
    row = block % tl.cdiv(1024, ROWS) * ROWS + tl.arange(0, ROWS)[:, None]
    keys = tl.load(keys_ptr + outer * (1024 * seq) + row + col * 1024, mask=col_live, other=0.0)
    scale_0 = keys.to(tl.float32)
    scale = scale_0 * 0.08838835
    store_0 = scale.to(tl.float16)
    tl.store(out_ptr + outer * (1024 * seq) + row * seq + col, store_0, mask=col_live)


def unit_of(size: int) -> int:
    """Return the largest power of 2, up to 16, that divides a size: the alignment of rows and the width of loads."""
    return (size | 16) & -(size | 16)


def kv_cache_transpose(keys):
    """Takes keys float16[batch, seq, 8, 128]."""
    batch = keys.shape[0]
    seq = keys.shape[1]
    if keys.shape != (batch, seq, 8, 128) or keys.dtype != torch.float16:
        raise ValueError(f"keys is {keys.dtype}{tuple(keys.shape)}, not float16{(batch, seq, 8, 128)}")
    if not keys.is_contiguous():
        raise ValueError(f"keys has strides {keys.stride()}")
    out = torch.empty((batch, 8, 128, seq), dtype=torch.float16, device=keys.device)
    if 1024 * batch * seq > 0:
        kv_cache_transpose_tiles((triton.cdiv(1024, 128) * triton.cdiv(seq, 128) * batch, 1, 1), (keys, out), seq, ROWS=128, COLS=128, WIDE=max(1024 * batch * seq, 1024 * batch * seq - 1) >= 2**31, UNIT=unit_of(seq), num_warps=8)
    return out
