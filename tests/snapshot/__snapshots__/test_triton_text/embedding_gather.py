"""embedding_gather: Triton kernels."""

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
def embedding_gather_items(ids_ptr, table_ptr, positions_ptr, out_ptr, batch, seq, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    item = tl.cast(tl.program_id(0), tl.int64 if WIDE else tl.int32) * BLOCK + tl.arange(0, BLOCK)
    item_live = item < 768 * batch * seq
    i2 = item % 768
    i1 = item // 768 % seq
    i0 = item // (768 * seq)
    ids = tl.load(ids_ptr + i0 * seq + i1, mask=item_live, other=0)
    place = tl.where(ids < 0, ids + 32000, ids)
    place = tl.minimum(tl.maximum(place, 0), 32000 - 1).to(tl.int64)
    table = tl.load(table_ptr + i2 + place * 768, mask=item_live, other=0.0)
    scale_0 = table.to(tl.float32)
    scale = scale_0 * 27.712812
    positions = tl.load(positions_ptr + i1 * 768 + i2, mask=item_live, other=0.0)
    place_0 = positions.to(tl.float32)
    place_1 = scale + place_0
    store_0 = place_1.to(tl.float16)
    tl.store(out_ptr + item, store_0, mask=item_live)


def embedding_gather(table, ids, positions):
    """Takes table float16[32000, 768], ids int32[batch, seq], positions float16[seq, 768]."""
    batch = ids.shape[0]
    seq = ids.shape[1]
    if table.shape != (32000, 768) or table.dtype != torch.float16:
        raise ValueError(f"table is {table.dtype}{tuple(table.shape)}, not float16{(32000, 768)}")
    if not table.is_contiguous():
        raise ValueError(f"table has strides {table.stride()}")
    if ids.shape != (batch, seq) or ids.dtype != torch.int32 or ids.device != table.device:
        raise ValueError(f"ids is {ids.dtype}{tuple(ids.shape)} on {ids.device}, not int32{(batch, seq)} on {table.device}")
    if not ids.is_contiguous():
        raise ValueError(f"ids has strides {ids.stride()}")
    if positions.shape != (seq, 768) or positions.dtype != torch.float16 or positions.device != table.device:
        raise ValueError(f"positions is {positions.dtype}{tuple(positions.shape)} on {positions.device}, not float16{(seq, 768)} on {table.device}")
    if not positions.is_contiguous():
        raise ValueError(f"positions has strides {positions.stride()}")
    out = torch.empty((batch, seq, 768), dtype=torch.float16, device=table.device)
    if 768 * batch * seq > 0:
        embedding_gather_items((triton.cdiv(768 * batch * seq, 1024), 1, 1), (ids, table, positions, out), batch, seq, BLOCK=1024, WIDE=max(768 * batch * seq, 768 * batch * seq - 1) >= 2**31, num_warps=4)
    return out
