"""Sizes of the blocks of a kernel: rules from measurements on an H100 (docs/measured_gpu.md)."""

from __future__ import annotations

from autofuse.codegen.backends.triton.kernels import Blocks

__all__ = [
    "LOST",
    "MOST_COLS",
    "MOST_PARTS",
    "MOST_REGISTERS",
    "MOST_WARPS",
    "WARP",
    "WINDOW",
    "beside_sums",
    "has_room_for_sums",
    "items",
    "looped",
    "power",
    "row_blocks",
    "rows_in_registers",
    "rows_of_core",
    "tiles",
    "unit_of",
]

#: Threads of a warp, and warps of a block at most.
WARP, MOST_WARPS = 32, 32
#: Blocks of a cluster, at most: what the card takes.
MOST_PARTS = 16
#: Rows of a block in a cluster of as many for which Triton 3.8 forgets to reserve shared memory, and stops: so it is
#: where a value per row of a second reduction is written.
LOST = (4, 8)
#: Registers of a thread, at most.
MOST_REGISTERS = 255
#: Elements of a row that one block holds at most; of more, several blocks of a cluster are faster.
MOST_COLS = 32768
#: Loads of an element from which on a kernel counts as one of windows.
WINDOW = 8
#: Elements of a block of a cluster: as few as possible, since every one waits for all others, but at least these.
_PART = 8192


def power(n: int) -> int:
    """The least power of 2 that is not below ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def items(count: int, width: int, computed: int, loads: int) -> Blocks:
    """Blocks of a run of elements.

    Args:
        count: elements.
        width: bytes of the widest.
        computed: operations on each; of many a thread holds fewer elements, so that their values stay in registers.
        loads: of each, as windows have; neighbours of a thread share no wide load there, and more threads are faster.
    """
    most = 256 if loads >= WINDOW else 1024 if width >= 4 or computed > 8 else 2048
    block = min(power(max(count, 1)), most)
    return Blocks(rows=block, warps=max(1, min(4, block // WARP)))


def tiles(rows: int, cols: int, width: int) -> Blocks:
    """Rectangles whose sides are both contiguous somewhere."""
    side = 64 if width >= 4 else 128
    return Blocks(rows=min(side, power(rows)), cols=min(side, power(cols)), warps=8)


def _warps(elements: int, each: int) -> int:
    """Warps of a block with ``elements``, of which a thread has ``each``."""
    return max(1, min(MOST_WARPS, power(elements // (WARP * each))))


def rows_in_registers(rows: int, cols: int, held: int, outer: bool, least: int) -> Blocks | None:
    """Whole rows in the registers of a block, or of a cluster; None where they do not fit.

    Args:
        rows: how many there are.
        cols: elements of each.
        held: values of each element that a reduction leaves in registers.
        outer: neighbours in memory lie along rows.
        least: programs that keep the card busy.
    """
    side = min(64 if cols <= 64 else 32, power(rows)) if outer else 1
    while side > 8 and power(cols) * side > MOST_COLS // held:
        side //= 2
    whole = power(cols) * side
    each = 128 // held
    # A block has 65,536 registers, of which half hold values; few warps are fastest where blocks wait for each other.
    most = MOST_COLS // held
    parts = 1
    if outer and whole > most and side < power(rows):
        # Blocks of a cluster have room for longer runs of neighbours in memory.
        side, whole = 2 * side, 2 * whole
    if whole > most:
        parts = min(MOST_PARTS, whole // (most if outer else _PART // power(held)))
        if whole > most * parts or power(cols) < parts:
            return None
    while parts < MOST_PARTS and -(-rows // side) * parts < least and whole > 4096 * parts:
        parts *= 2
    if parts == MOST_PARTS and side in LOST:
        return None
    if parts > 1:
        return Blocks(side, power(cols) // parts, parts, max(4, _warps(whole // parts, each)))
    if not outer:
        side = max(1, min(power(rows), 2048 // whole))
        while side > 1 and -(-rows // side) < 4 * least:
            side //= 2
        whole *= side
    return Blocks(side, power(cols), 1, _warps(whole, 16 if whole <= 8192 else 32))


def has_room_for_sums(cols: int, sums: int) -> bool:
    """Return True if a block can hold a row and, beside it, as many sums over rows of its elements."""
    return 0 < power(cols) * (2 + sums) <= 4 * 16384


def beside_sums(rows: int, cols: int, multiprocessors: int) -> Blocks:
    """Rows with sums across them: every program adds up over its rows."""
    whole = power(cols)
    if whole >= 4096:
        side, warps, each = max(1, 8192 // whole), 16, 1
    elif whole == cols:
        side, warps, each = max(1, 4096 // whole), 8, 2
    else:
        side, warps, each = max(1, 2048 // whole), 4, 4
    side = min(side, power(rows))
    while side > 1 and side * multiprocessors * each > 2 * rows:
        side //= 2
    return Blocks(side, whole, 1, warps, min(multiprocessors * each, -(-rows // side)), stages=3)


def looped(rows: int, cols: int, outer: bool, least: int) -> Blocks:
    """Blocks of columns, one after another; ``chunks`` of the columns where there are few rows."""
    if outer:
        side = min(128, power(rows))
        while side > 32 and -(-rows // side) < least:
            side //= 2
        across = min(power(cols), max(1, 4096 // side))
        block = Blocks(side, across, warps=max(4, side * across // 256))
    else:
        across = min(power(cols), 4096)
        side = max(1, min(power(rows), 2048 // across))
        block = Blocks(side, across, warps=max(1, min(4, across * side // 512)))
    programs = -(-rows // block.rows)
    chunks = 1
    while programs * chunks < least and chunks * block.cols * 2 <= cols:
        chunks *= 2
    if chunks > 1 and rows == 1:
        # Few programs, of which none waits for another row: more threads, so that more loads are under way.
        block = Blocks(1, min(block.cols, 2048), warps=2 * block.warps)
    return Blocks(block.rows, block.cols, 1, block.warps, 0, chunks)


# at run time: the text of these functions is part of the files that ask them ----------------------


def row_blocks(rows: int, cols: int) -> tuple[int, int, int]:
    """Rows of a program, columns that it holds, and its warps, for whole rows in registers."""
    held = 1 << max(cols - 1, 0).bit_length()
    side = max(1, 2048 // held)
    while side > 1 and rows < 512 * side:
        side //= 2
    return side, held, max(1, min(16, held * side // 512))


def unit_of(size: int) -> int:
    """The largest power of 2, up to 16, that divides a size: rows begin at multiples of it, and loads are as wide."""
    return (size | 16) & -(size | 16)


def rows_of_core(rows: int, cols: int, most: int, cores: int) -> tuple[int, int]:
    """Rows of a block, and columns that it holds, of at most so many elements; all cores get blocks."""
    held = 1 << max(cols - 1, 0).bit_length()
    side = 1
    while 2 * side * held <= most and rows > side * cores:
        side *= 2
    return side, held
