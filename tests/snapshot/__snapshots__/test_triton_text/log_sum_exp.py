"""log_sum_exp: Triton kernels."""

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


@triton.jit
def _max(a, b):
    """The larger value; propagates NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _exp(x):
    """e**x of float32, within 2 units of the last place for every x; tl.exp loses up to 7 bits for large x."""
    shifted = tl.minimum(tl.maximum(x * 1.4426950408889634, -126.0), 127.0) + 12583039.0
    turns = shifted - 12583039.0
    rest = (x - turns * 0.693359375) + turns * 2.1219444005469058e-4
    power = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return tl.exp2(rest * 1.4426950408889634) * power


@Launcher
@triton.jit
def log_sum_exp_loop(x_ptr, partial_ptr, partial_1_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    v_max = tl.full([ROWS, 1], float("-inf"), tl.float32)
    sum_1 = tl.zeros([ROWS, 1], tl.float32)
    span = tl.cdiv(tl.cdiv(50000, tl.num_programs(1)), COLS) * COLS
    first = tl.program_id(1) * span
    for start in range(first, min(first + span, 50000), COLS):
        col = start + tl.arange(0, COLS)[None, :]
        col_live = col < 50000
        x = tl.load(x_ptr + row * 50000 + col, mask=col_live, other=0.0)
        masked = tl.where(col_live, x, float("-inf"))
        largest = _max(v_max, tl.reduce(masked, 1, _max, keep_dims=True))
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        below = masked - shift
        power = tl.exp(below)
        apart = v_max - shift
        power_1 = tl.exp(apart)
        sum_1 = sum_1 * power_1 + tl.sum(power, 1, keep_dims=True)
        v_max = largest
    tl.store(partial_ptr + tl.program_id(1) * 20 + row, v_max)
    tl.store(partial_1_ptr + tl.program_id(1) * 20 + row, sum_1)


@Launcher
@triton.jit
def log_sum_exp_rows(partial_ptr, partial_1_ptr, y_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    row_live = row < 20
    col = tl.arange(0, COLS)[None, :]
    partial = tl.load(partial_ptr + col * 20 + row, mask=row_live, other=0.0)
    v_max = tl.reduce(partial, 1, _max, keep_dims=True)
    partial_1 = tl.load(partial_1_ptr + col * 20 + row, mask=row_live, other=0.0)
    sum_apart = partial - v_max
    sum_scale_power = _exp(sum_apart)
    sum_part = partial_1 * sum_scale_power
    sum_1 = tl.sum(sum_part, 1, keep_dims=True)
    v_log = tl.log(sum_1)
    back = v_log + v_max
    tl.store(y_ptr + row, back, mask=row_live)


def log_sum_exp(x):
    """Takes x float32[20, 50000]."""
    if x.shape != (20, 50000) or x.dtype != torch.float32:
        raise ValueError(f"x is {x.dtype}{tuple(x.shape)}, not float32{(20, 50000)}")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}")
    y = torch.empty((20, 1), dtype=torch.float32, device=x.device)
    partial = torch.empty(160, dtype=torch.float32, device=x.device)
    partial_1 = torch.empty(160, dtype=torch.float32, device=x.device)
    log_sum_exp_loop((20, 8, 1), (x, partial, partial_1), ROWS=1, COLS=4096, num_warps=16)
    log_sum_exp_rows((triton.cdiv(20, 32), 1, 1), (partial, partial_1, y), ROWS=32, COLS=8, num_warps=1)
    return y
