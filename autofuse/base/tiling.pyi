"""The cost model and the search of the generated host code, compiled from the headers that every kernel comes with.

Times are cycles, sizes are integers of 64 bits (``OverflowError`` for larger ones).
"""

from collections.abc import Callable, Sequence

class Chip:
    """The figures of a chip: cycles, bytes, and bytes per cycle, in the order of the attributes."""

    def __init__(self, figures: tuple[float, ...]) -> None: ...
    cores: int
    ub: int
    l2: int
    line: int
    short_row: int
    core_start: float
    load_issue: float
    store_issue: float
    row: float
    load_latency: float
    load_core: float
    l2_core: float
    store_core: float
    read: float
    l2_read: float
    same_order: float
    shared: float
    write: float
    writeback: float
    def granted(self, cores: int) -> Chip:
        """Return the same chip with so many cores, if it has more."""

class Busy:
    """Cycles of the pipes."""

    load: float
    vector: float
    store: float
    scalar: float

class Shares:
    """Where the cycles of a choice go.

    Attributes:
        tiles: that the cores share.
        cores: that take part.
        once: of a core, before its tiles.
        tile: of one tile, all of its loops.
        before: of a core before its tiles, one pipe after the other.
        period: from one tile to the next.
        exposed: what the first and the last tile leave unhidden.
        last: what last tiles add to the core that takes longest.
        gm: of GM for all cores.
        rest: what is left once the last bytes have come, and while loads wait for an index; 0 without traffic.
        held: of one tile, while loads wait for an index.
        bytes: between GM and all cores, both ways.
        common: of these, what all cores load of one tensor, from L2.
        cycles: of the choice.
    """

    tiles: int
    cores: int
    once: Busy
    tile: Busy
    before: float
    period: float
    exposed: float
    last: float
    gm: float
    rest: float
    held: float
    bytes: float
    common: float
    cycles: float

class Form:
    """What a template does, for given sizes.

    Args:
        axis: extent, longest, outer, reduce_outer, granule, looped; as of a ``TilingSpec``.
        largest: the largest legal tile, or 0.
        bodies: place, buffers, heads, scalar, held, chained, staggered, places (base and step).
        copies: body, route, count, commands, rows and row_bytes (each base and step), apart, tiles_apart, distinct,
            table, names, varies, varies_by_tile, own cycles (base and step).
        scans: body, along (base and step), cycles (base and step).
    """

    def __init__(
        self,
        axis: tuple[int, int, int, int, int, bool],
        largest: int,
        bodies: Sequence[tuple[float, ...]],
        copies: Sequence[tuple[float, ...]],
        scans: Sequence[tuple[float, ...]],
    ) -> None: ...
    largest: int
    extent: int
    longest: int
    outer: int
    reduce_outer: int
    granule: int
    looped: bool
    def tiles(self, tile: int) -> int:
        """Return the number of tiles of this length that the cores share."""

    def lengths(self, chip: Chip) -> list[int]:
        """Return the lengths that the search tries, each once."""

    def search(self, chip: Chip) -> tuple[int, int, int, float] | None:
        """Return tile, tiles per core, cores and cycles of the best choice; None where no tile is legal."""

    def search_length(self, chip: Chip, tile: int) -> tuple[int, int, int, float]:
        """Return the best choice with tiles of a length."""

    def times(self, chip: Chip, tile: int, per_core: Sequence[int]) -> list[float]:
        """Return the cycles with so many tiles on each core."""

    def shares(self, chip: Chip, tile: int, per_core: int) -> Shares:
        """Return where the cycles of a choice go."""

def largest_tile(
    longest: int, granule: int, tile_max: int, limit: int, ub: Callable[[int], int]
) -> int:
    """Return the largest legal tile, or 0: a multiple of the granule or all of ``longest``.

    Args:
        longest: tile that holds the whole axis.
        granule: of tiles.
        tile_max: limit other than UB.
        limit: bytes of UB.
        ub: bytes that a tile needs; it grows with the tile.
    """
