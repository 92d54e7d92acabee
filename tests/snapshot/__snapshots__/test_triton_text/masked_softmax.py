"""masked_softmax: Triton kernels."""

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


@Launcher
@triton.jit
def masked_softmax_rows(keep_ptr, scores_ptr, out_ptr, batch, queries, keys, ROWS: tl.constexpr, COLS: tl.constexpr, UNIT: tl.constexpr):
    keys = keys // UNIT * UNIT
    row = tl.cast(tl.program_id(0), tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row_live = row < 16 * batch * queries
    i2 = row % queries
    i0 = row // (16 * queries)
    col = tl.arange(0, COLS)[None, :]
    col_live = col < keys
    keep = tl.load(keep_ptr + i0 * (keys * queries) + i2 * keys + col, mask=row_live & col_live, other=False)
    scores = tl.load(scores_ptr + row * keys + col, mask=row_live & col_live, other=0.0)
    widen = scores.to(tl.float32)
    scale = widen * 0.125
    mask = tl.where(keep, scale, -10000.0)
    softmax_reducemax = tl.reduce(tl.where(col_live, mask, float("-inf")), 1, _max, keep_dims=True)
    softmax_sub = mask - softmax_reducemax
    softmax_exp = tl.exp(softmax_sub)
    softmax_reducesum = tl.sum(tl.where(col_live, softmax_exp, 0.0), 1, keep_dims=True)
    inverse = 1.0 / softmax_reducesum
    softmax = softmax_exp * inverse
    narrow = softmax.to(tl.float16)
    tl.store(out_ptr + row * keys + col, narrow, mask=row_live & col_live)


@Launcher
@triton.jit
def masked_softmax_loop(keep_ptr, scores_ptr, out_ptr, batch, queries, keys, ROWS: tl.constexpr, COLS: tl.constexpr, UNIT: tl.constexpr):
    keys = keys // UNIT * UNIT
    row = tl.cast(tl.program_id(0), tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row_live = row < 16 * batch * queries
    i2 = row % queries
    i0 = row // (16 * queries)
    softmax_reducemax = tl.full([ROWS, 1], float("-inf"), tl.float32)
    softmax_reducesum = tl.zeros([ROWS, 1], tl.float32)
    for start in range(0, keys, COLS):
        col = start + tl.arange(0, COLS)[None, :]
        col_live = col < keys
        keep = tl.load(keep_ptr + i0 * (keys * queries) + i2 * keys + col, mask=row_live & col_live, other=False)
        scores = tl.load(scores_ptr + row * keys + col, mask=row_live & col_live, other=0.0)
        widen = scores.to(tl.float32)
        scale = widen * 0.125
        mask = tl.where(keep, scale, -10000.0)
        masked = tl.where(col_live, mask, float("-inf"))
        largest = _max(softmax_reducemax, tl.reduce(masked, 1, _max, keep_dims=True))
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        softmax_sub = masked - shift
        softmax_exp = tl.exp(softmax_sub)
        apart = softmax_reducemax - shift
        softmax_exp_1 = tl.exp(apart)
        softmax_reducesum = softmax_reducesum * softmax_exp_1 + tl.sum(softmax_exp, 1, keep_dims=True)
        softmax_reducemax = largest
    softmax_reducesum = tl.where(softmax_reducemax == float("-inf"), float("nan"), softmax_reducesum)
    for start in range(0, keys, COLS):
        col = start + tl.arange(0, COLS)[None, :]
        col_live = col < keys
        keep_1 = tl.load(keep_ptr + i0 * (keys * queries) + i2 * keys + col, mask=row_live & col_live, other=False)
        scores_1 = tl.load(scores_ptr + row * keys + col, mask=row_live & col_live, other=0.0)
        widen_1 = scores_1.to(tl.float32)
        scale_1 = widen_1 * 0.125
        mask_1 = tl.where(keep_1, scale_1, -10000.0)
        softmax_sub_1 = mask_1 - softmax_reducemax
        softmax_exp_2 = tl.exp(softmax_sub_1)
        inverse = 1.0 / softmax_reducesum
        softmax = softmax_exp_2 * inverse
        narrow = softmax.to(tl.float16)
        tl.store(out_ptr + row * keys + col, narrow, mask=row_live & col_live)


def row_blocks(rows: int, cols: int) -> tuple[int, int, int]:
    """Return the rows and columns of a program, and its warps, for whole rows in registers."""
    held = 1 << max(cols - 1, 0).bit_length()
    side = max(1, 2048 // held)
    while side > 1 and rows < 512 * side:
        side //= 2
    return side, held, max(1, min(16, held * side // 512))


def unit_of(size: int) -> int:
    """Return the largest power of 2, up to 16, that divides a size: the alignment of rows and the width of loads."""
    return (size | 16) & -(size | 16)


def masked_softmax(scores, keep):
    """Takes scores float16[batch, 16, queries, keys], keep bool[batch, 1, queries, keys]."""
    batch = scores.shape[0]
    queries = scores.shape[2]
    keys = scores.shape[3]
    if scores.shape != (batch, 16, queries, keys) or scores.dtype != torch.float16:
        raise ValueError(f"scores is {scores.dtype}{tuple(scores.shape)}, not float16{(batch, 16, queries, keys)}")
    if not scores.is_contiguous():
        raise ValueError(f"scores has strides {scores.stride()}")
    if keep.shape != (batch, 1, queries, keys) or keep.dtype != torch.bool or keep.device != scores.device:
        raise ValueError(f"keep is {keep.dtype}{tuple(keep.shape)} on {keep.device}, not bool{(batch, 1, queries, keys)} on {scores.device}")
    if not keep.is_contiguous():
        raise ValueError(f"keep has strides {keep.stride()}")
    out = torch.empty((batch, 16, queries, keys), dtype=torch.float16, device=scores.device)
    if 16 * batch * queries > 0 and keys <= 32768:
        ROWS, COLS, warps = row_blocks(16 * batch * queries, keys)
        masked_softmax_rows((triton.cdiv(16 * batch * queries, ROWS), 1, 1), (keep, scores, out), batch, queries, keys, ROWS=ROWS, COLS=COLS, UNIT=unit_of(keys), num_warps=warps)
    if 16 * batch * queries > 0 and keys > 32768:
        masked_softmax_loop((triton.cdiv(16 * batch * queries, 2), 1, 1), (keep, scores, out), batch, queries, keys, ROWS=2, COLS=1024, UNIT=unit_of(keys), num_warps=4)
    return out
