"""rms_norm_residual: Triton kernels."""

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
def rms_norm_residual_rows(x_ptr, residual_ptr, weight_ptr, out_ptr, hidden_ptr, tokens, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    row_live = row < tokens
    col = tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + row * 4096 + col, mask=row_live, other=0.0)
    residual = tl.load(residual_ptr + row * 4096 + col, mask=row_live, other=0.0)
    add_0 = x.to(tl.float32)
    add_1 = residual.to(tl.float32)
    add = add_0 + add_1
    square = add * add
    mean_reducesum = tl.sum(square, 1, keep_dims=True)
    mean = mean_reducesum / 4096.0
    guard = mean + 1e-06
    inverse = 1.0 / tl.sqrt_rn(guard)
    scale = add * inverse
    narrow = scale.to(tl.float16)
    weight = tl.load(weight_ptr + col)
    weigh_0 = narrow.to(tl.float32)
    weigh_1 = weight.to(tl.float32)
    weigh = weigh_0 * weigh_1
    store_0 = weigh.to(tl.float16)
    store_1_0 = add.to(tl.float16)
    tl.store(out_ptr + row * 4096 + col, store_0, mask=row_live)
    tl.store(hidden_ptr + row * 4096 + col, store_1_0, mask=row_live)


def rms_norm_residual(x, residual, weight):
    """Takes x float16[tokens, 4096], residual float16[tokens, 4096], weight float16[4096]."""
    tokens = x.shape[0]
    if x.shape != (tokens, 4096) or x.dtype != torch.float16:
        raise ValueError(f"x is {x.dtype}{tuple(x.shape)}, not float16{(tokens, 4096)}")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}")
    if residual.shape != (tokens, 4096) or residual.dtype != torch.float16 or residual.device != x.device:
        raise ValueError(f"residual is {residual.dtype}{tuple(residual.shape)} on {residual.device}, not float16{(tokens, 4096)} on {x.device}")
    if not residual.is_contiguous():
        raise ValueError(f"residual has strides {residual.stride()}")
    if weight.shape != (4096,) or weight.dtype != torch.float16 or weight.device != x.device:
        raise ValueError(f"weight is {weight.dtype}{tuple(weight.shape)} on {weight.device}, not float16{(4096,)} on {x.device}")
    if not weight.is_contiguous():
        raise ValueError(f"weight has strides {weight.stride()}")
    out = torch.empty((tokens, 4096), dtype=torch.float16, device=x.device)
    hidden = torch.empty((tokens, 4096), dtype=torch.float16, device=x.device)
    if tokens > 0:
        rms_norm_residual_rows((tokens, 1, 1), (x, residual, weight, out, hidden), tokens, ROWS=1, COLS=4096, num_warps=8)
    return out, hidden
