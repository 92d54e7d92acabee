"""swiglu: Triton kernels."""

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
def swiglu_items(gate_up_ptr, out_ptr, tokens, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    item = tl.cast(tl.program_id(0), tl.int64 if WIDE else tl.int32) * BLOCK + tl.arange(0, BLOCK)
    item_live = item < 11008 * tokens
    i1 = item % 11008
    i0 = item // 11008
    gate_up = tl.load(gate_up_ptr + i0 * 22016 + i1, mask=item_live, other=0.0)
    silu_0 = gate_up.to(tl.float32)
    silu_2 = tl.maximum(silu_0, -300.0, propagate_nan=tl.PropagateNan.ALL)
    silu_4 = tl.minimum(silu_0, 40.0, propagate_nan=tl.PropagateNan.ALL)
    silu_5 = tl.exp(silu_4)
    silu_7 = silu_5 + 1.0
    silu_8 = silu_5 / silu_7
    silu = silu_2 * silu_8
    gate_up_1 = tl.load(gate_up_ptr + i0 * 22016 + i1 + 11008, mask=item_live, other=0.0)
    multiply_0 = gate_up_1.to(tl.float32)
    multiply = silu * multiply_0
    store_0 = multiply.to(tl.float16)
    tl.store(out_ptr + item, store_0, mask=item_live)


def swiglu(gate_up):
    """Takes gate_up float16[tokens, 22016]."""
    tokens = gate_up.shape[0]
    if gate_up.shape != (tokens, 22016) or gate_up.dtype != torch.float16:
        raise ValueError(f"gate_up is {gate_up.dtype}{tuple(gate_up.shape)}, not float16{(tokens, 22016)}")
    if not gate_up.is_contiguous():
        raise ValueError(f"gate_up has strides {gate_up.stride()}")
    out = torch.empty((tokens, 11008), dtype=torch.float16, device=gate_up.device)
    if 11008 * tokens > 0:
        swiglu_items((triton.cdiv(11008 * tokens, 2048), 1, 1), (gate_up, out), tokens, BLOCK=2048, WIDE=max(22016 * tokens - 11009, 22016 * tokens - 1) >= 2**31, num_warps=4)
    return out
