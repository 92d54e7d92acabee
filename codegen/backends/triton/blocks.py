"""Block sizes of a kernel: rules from measurements on an H100 (docs/measured_gpu.md)."""

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
    "wastes",
]

#: Threads of a warp, and most warps of a block.
WARP, MOST_WARPS = 32, 32
#: Most blocks of a cluster, a limit of the card.
MOST_PARTS = 16
#: Rows per block for which Triton 3.8 fails in a cluster of the most blocks: it does not reserve shared memory if a
#: per-row value of a second reduction is stored.
LOST = (4, 8)
#: Most registers of a thread.
MOST_REGISTERS = 255
#: Most row elements of one block; for longer rows several blocks of a cluster are faster.
MOST_COLS = 32768
#: Loads per element from which a kernel counts as a window kernel.
WINDOW = 8
#: Warps per program of a loop, of two programs per multiprocessor, from which more are no faster.
_BUSY = 24
#: Elements of a block of short rows.
_SHORT = 2048
#: Fewest elements of a block in a cluster: few, since every block waits for all others.
_PART = 8192


def power(n: int) -> int:
    """Return the smallest power of 2 that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def wastes(size: int, block: int) -> bool:
    """Return True if more than a fifth of the elements of blocks lie beyond a size."""
    return -(-size // block) * block * 4 > size * 5


def items(count: int, width: int, computed: int, loads: int) -> Blocks:
    """Return the blocks of a run of elements.

    Args:
        count: number of elements.
        width: bytes of the widest element.
        computed: operations per element; with many, a thread holds fewer elements, so that values stay in registers.
        loads: loads per element, many for windows; neighbouring windows share no wide load, and more threads are
            faster.
    """
    most = 256 if loads >= WINDOW else 1024 if width >= 4 or computed > 8 else 2048
    block = min(power(max(count, 1)), most)
    return Blocks(rows=block, warps=max(1, min(4, block // WARP)))


def tiles(rows: int, cols: int, width: int) -> Blocks:
    """Return rectangular blocks, for tensors contiguous along different sides."""
    side = 64 if width >= 4 else 128
    return Blocks(rows=min(side, power(rows)), cols=min(side, power(cols)), warps=8)


def _warps(elements: int, each: int) -> int:
    """Return the warps of a block with ``elements``, ``each`` per thread."""
    return max(1, min(MOST_WARPS, power(elements // (WARP * each))))


def rows_in_registers(rows: int, cols: int, held: int, outer: bool, least: int) -> Blocks | None:
    """Return blocks that hold whole rows in the registers of a block or cluster; None if they do not fit.

    Args:
        rows: number of rows.
        cols: elements of a row.
        held: values per element that a reduction leaves in registers.
        outer: elements are contiguous along the rows axis.
        least: programs needed to keep the card busy.
    """
    side = min(64 if cols <= 64 else 32, power(rows)) if outer else 1
    while side > 8 and (
        power(cols) * side > MOST_COLS // held or (side > 32 and wastes(rows, side))
    ):
        side //= 2
    whole = power(cols) * side
    each = 128 // held
    # A block has 65,536 registers, half of them for values; few warps are fastest if blocks wait for each other.
    most = MOST_COLS // held
    parts = 1
    if outer and whole > most and side < power(rows):
        # The blocks of a cluster have room for longer contiguous runs.
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
    if outer:
        while 2 * whole <= _SHORT and rows // (2 * side) >= 4 * least:
            side, whole = 2 * side, 2 * whole
        return Blocks(side, power(cols), 1, _warps(whole, 32))
    side = max(1, min(power(rows), _SHORT // whole))
    while side > 1 and -(-rows // side) < 4 * least:
        side //= 2
    whole *= side
    return Blocks(side, power(cols), 1, _warps(whole, 16 if whole <= 8192 else 32))


def has_room_for_sums(cols: int, sums: int) -> bool:
    """Return True if a block can hold a row together with ``sums`` sums over rows of its elements."""
    return 0 < power(cols) * (2 + sums) <= 4 * 16384


def beside_sums(rows: int, cols: int, multiprocessors: int) -> Blocks:
    """Return blocks of rows with sums across them; every program adds up over its rows."""
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
    """Return blocks for a loop over columns, split into ``chunks`` if there are few rows."""
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
    warps = block.warps
    # A multiprocessor with few programs needs their threads to keep enough loads in flight.
    while 4 <= warps < 16 and programs * chunks * warps < _BUSY * least:
        warps *= 2
    return Blocks(block.rows, block.cols, 1, warps, 0, chunks)


# at run time: generated files include the source of these functions -------------------------------


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


def rows_of_core(rows: int, cols: int, most: int, cores: int) -> tuple[int, int]:
    """Return the rows and columns of a block with at most ``most`` elements, such that all cores get blocks."""
    held = 1 << max(cols - 1, 0).bit_length()
    side = 1
    while 2 * side * held <= most and rows > side * cores:
        side *= 2
    return side, held
