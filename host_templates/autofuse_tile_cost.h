// What a template costs with tiles of a given length: the cost model in integers.  No float.
//
// Costs are ticks of 2^-10 cycles; rates are 2^-24 cycles per byte or element.  What no choice changes is left out.
// Everything that a template does is base + step * t, with t the length of a tile along the tiled axis:
// - a loop body has Copies (loads and stores), Calls of the vector unit and heads of calls; Parts are their bytes and
//   ticks for one t, with cache lines that rows touch and where loads come from;
// - Cost takes the tiles of one core: with two buffers an iteration lasts as long as its busiest pipe, with what the
//   first and the last one leave unhidden; all cores together take at least what GM takes.
// schedule/tile_cost.py has the same formulas in the same order.
#ifndef AUTOFUSE_TILE_COST_H
#define AUTOFUSE_TILE_COST_H

#include <stdint.h>

#include "autofuse_math.h"

namespace autofuse {

constexpr int64_t kUnlimited = INT64_MAX;
constexpr int64_t kDmaBlock = 32;
constexpr int kTickShift = 14;   // from rates to ticks
constexpr int kShareBits = 20;   // of the share of bytes that L2 holds
constexpr int kHiddenBits = 8;   // what is hidden, GM or the pipes, counts for a 256th

// The figures of a chip.
struct Chip {
    int64_t cores;
    int64_t ub;    // usable bytes
    int64_t line;  // bytes of a cache line
    int64_t l2;    // bytes
    int64_t load_issue;   // ticks of a command
    int64_t store_issue;
    int64_t row;          // ticks of a further row
    int64_t latency;      // ticks to the first byte of a load
    int64_t short_row;    // bytes that a row of less than a block counts for
    int64_t core_start;   // ticks that every core adds to the start
    int64_t load_rate;    // of one core: from memory, from L2, stores
    int64_t hot_rate;
    int64_t store_rate;
    int64_t read_share;   // of all cores: from memory, from L2, the same data for all, the same from different places,
    int64_t again_share;  // stores, from L2 on to memory
    int64_t same_share;
    int64_t shared_share;
    int64_t write_share;
    int64_t writeback_share;
};

// The tiled axis of a template, for given sizes.
struct TileAxis {
    int64_t extent;        // length
    int64_t longest;       // tile that holds the whole axis
    int64_t outer;         // iterations of the loops around it
    int64_t reduce_outer;  // iterations of the reduce loop per tile, or around the tiles
    int64_t granule;       // tiles are multiples of this, unless the tile is the whole axis
    int64_t tile_max;      // limit other than UB
    int64_t ub_limit;      // bytes
    bool looped;           // one core goes through all tiles of the axis
    bool conditions;       // the conditions of the template hold
};

enum Place : int64_t { kOnce = 0, kTile = 1, kStep = 2 };      // a body runs once per core, per tile, per step
// Again: read or written before, from L2. Stream: bypasses L2 where that cannot hold everything.
enum Route : int64_t { kRead = 0, kAgain = 1, kWrite = 2, kStream = 3 };

struct Line {
    int64_t base;
    int64_t step;

    constexpr int64_t At(int64_t t) const
    {
        return base + step * t;
    }
};

// One loop body: ticks of heads of calls and of the scalar unit, buffers of each queue.
struct Body {
    Place place;
    int64_t heads;
    int64_t scalar;
    int64_t buffers;
    bool chained;  // stored from the buffer that was loaded
    bool loads;
    bool staggered;  // every core starts at another step
};

// `count` equal loads or stores of a body.
struct Copies {
    int64_t body;
    Route route;
    int64_t count;
    Line commands;      // of a tile
    Line rows;
    Line row_bytes;
    int64_t aligned;    // distances in GM in bytes, or-ed
    int64_t tiled;      // distances of tiles per element of t, or-ed
    int64_t whole;      // bytes of all cores, if they vary along the tiled axis
    int64_t each;       // bytes of one run, if not
    int64_t distinct;   // bytes that differ
    Line footprint;     // bytes of one run that is read again
    bool varies;        // along a loop other than that over tiles
    bool varies_by_tile;
};

// Vector calls of a body: cycles in units of rates; a running sum goes over them once per bit of `along`.
struct Calls {
    int64_t body;
    Line cycles;
    Line along;
};

// A template for given sizes.
template <int kBodies, int kCopies, int kCalls>
struct Form {
    static constexpr int kBodyLimit = kBodies;
    int64_t bodies;
    int64_t copies;
    int64_t calls;
    Body body[kBodies];
    Copies copy[kCopies];
    Calls call[kCalls];
};

struct Tile {
    int64_t size = 1;        // t
    int64_t per_core = 1;    // tiles of one core
    int64_t block_dim = 1;   // cores
    int64_t cost = kUnlimited;
};

inline int64_t SaturatingMul(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kUnlimited : product;
}

inline int64_t SaturatingAdd(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? kUnlimited : sum;
}

// a / b rounded up, for a >= 0 and b > 0.
inline int64_t Pieces(int64_t a, int64_t b)
{
    return static_cast<int64_t>((static_cast<uint64_t>(a) + static_cast<uint64_t>(b) - 1) / static_cast<uint64_t>(b));
}

// a * b >> bits, exact where the result fits.
inline int64_t Scale(int64_t a, int64_t b, int bits)
{
    const int64_t low = a & ((INT64_C(1) << bits) - 1);
    return SaturatingAdd(SaturatingMul(a >> bits, b), (low * b) >> bits);
}

// The largest power of two that divides x, which is not 0.
inline int64_t LowBit(uint64_t x)
{
    return static_cast<int64_t>(x & (~x + 1));
}

// Bits of x >= 0.
inline int64_t BitLength(int64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(x));
}

// The largest integer of at most `most`, below 2^16, whose square is at most x >= 0; 1 for less.  Without branches, since
// what they would depend on is never the same.
inline int64_t Root(int64_t x, int64_t most)
{
    const uint64_t limited = static_cast<uint64_t>(Min(x, most * most));
    uint64_t root = 0;
    for (uint64_t bit = most < 64 ? 32 : 32768; bit != 0; bit >>= 1) {
        const uint64_t next = root | bit;
        root = next * next <= limited ? next : root;
    }
    return Max(static_cast<int64_t>(root), 1);
}

// One run of a loop body: ticks, and bytes by where they come from and go to.
struct BodyParts {
    int64_t load;    // ticks of commands and rows
    int64_t bytes[4];  // from memory, from L2, by all cores at the same time, by all of them from different places
    int64_t vector;
    int64_t store;
    int64_t stored;
};

// What follows from t alone.
template <int kBodies>
struct Parts {
    int64_t tile;
    int64_t tiles;    // that the cores share
    int64_t least;    // tiles of one core with all cores at work
    int64_t steps;    // of the reduce loop
    int64_t gm;       // ticks of GM for all cores, ...
    int64_t gm_core;  // ... and more for every core
    BodyParts body[kBodies];
};

// Bytes that one row counts for.
inline int64_t BilledRow(const Chip& chip, const Copies& copy, int64_t row, int64_t rows, uint64_t distances)
{
    int64_t billed = (row + kDmaBlock - 1) / kDmaBlock * kDmaBlock;
    if (row < kDmaBlock && rows > 1) {
        billed = chip.short_row;
    }
    const uint64_t line = static_cast<uint64_t>(chip.line);
    const int64_t off = chip.line - LowBit(line | static_cast<uint64_t>(copy.aligned) | distances);
    if (off > 0 && row + off > chip.line) {
        billed = row % kDmaBlock == 0 && row >= chip.line ? row + off : billed * (row + off) / Max(row, chip.line);
    }
    return billed;
}

template <typename Form>
void FillParts(const Form& form, const TileAxis& axis, const Chip& chip, int64_t t, Parts<Form::kBodyLimit>* parts)
{

    const int64_t pieces = Pieces(axis.extent, t);
    const int64_t tiles = axis.looped ? axis.outer : SaturatingMul(axis.outer, pieces);
    const int64_t steps = axis.looped ? SaturatingMul(pieces, axis.reduce_outer) : axis.reduce_outer;
    const int64_t most = Max(Min(tiles, chip.cores), 1);
    const int64_t length = Min(t, Max(axis.extent, 1));
    const int64_t runs[3] = {0, tiles, SaturatingMul(tiles, steps)};
    parts->tile = t;
    parts->tiles = tiles;
    parts->least = Max(Pieces(tiles, chip.cores), 1);
    parts->steps = steps;
    for (int64_t i = 0; i < form.bodies; ++i) {
        parts->body[i] = {0, {0, 0, 0, 0}, form.body[i].heads, 0, 0};
    }
    int64_t read = 0;
    int64_t again = 0;
    int64_t same = 0;
    int64_t shared = 0;
    int64_t same_core = 0;
    int64_t written = 0;
    int64_t cached = 0;
    int64_t streamed = 0;
    for (int64_t i = 0; i < form.copies; ++i) {
        const Copies& c = form.copy[i];
        BodyParts& body = parts->body[c.body];
        const Place place = form.body[c.body].place;
        const int64_t commands = c.commands.At(length);
        const int64_t rows = Max(c.rows.At(length), 1);
        const uint64_t distances = pieces > 1 ? static_cast<uint64_t>(c.tiled) * static_cast<uint64_t>(t) : 0;
        const int64_t billed = c.count * rows * BilledRow(chip, c, c.row_bytes.At(length), rows, distances);
        const int64_t issue = chip.row * Max(rows - commands, 0);
        const int64_t moved = c.count * Min(SaturatingAdd(c.whole, SaturatingMul(c.each, runs[place])), kUnlimited / 64);
        const int64_t distinct = Min(c.count * c.distinct, moved);
        cached = SaturatingAdd(cached, distinct);
        if (c.route == kWrite) {
            body.store += c.count * (issue + chip.store_issue * commands);
            body.stored += billed;
            written = SaturatingAdd(written, moved);
            continue;
        }
        body.load += c.count * (issue + chip.load_issue * commands);
        if (place == kOnce || (most > 1 && !c.varies && !(c.varies_by_tile && pieces > 1))) {
            // All cores read one tensor: those that start at the same place do so in the same order.
            const int64_t places = form.body[c.body].staggered ? Max(Min(steps, most), 1) : 1;
            const int64_t part = places == 1 ? billed : billed / places;
            same_core += place == kOnce ? c.count * c.each : 0;
            same = SaturatingAdd(same, places == 1 ? moved : moved / places);
            shared = SaturatingAdd(shared, places == 1 ? 0 : moved - moved / places);
            body.bytes[2] += part;
            body.bytes[3] += billed - part;
        } else {
            int64_t hit = moved - distinct;
            int64_t route = 0;
            if (hit > 0) {
                int64_t held = distinct;
                if (c.route == kAgain) {
                    held = SaturatingMul(c.footprint.At(length) * most, Max(steps, 1));
                }
                if (held > chip.l2) {
                    hit = Scale(hit, (chip.l2 << kShareBits) / held, kShareBits);
                }
                route = 2 * hit >= moved ? 1 : 0;
            }
            read = SaturatingAdd(read, moved - hit);
            again = SaturatingAdd(again, hit);
            streamed = SaturatingAdd(streamed, c.route == kStream ? distinct : 0);
            body.bytes[route] += billed;
        }
    }
    for (int64_t i = 0; i < form.calls; ++i) {
        const Calls& v = form.call[i];
        const int64_t times = 1 + BitLength(Max(v.along.At(length) - 1, 0));
        parts->body[v.body].vector += (v.cycles.At(length) * times) >> kTickShift;
    }
    int64_t gm = SaturatingAdd(Scale(read, chip.read_share, kTickShift), Scale(again, chip.again_share, kTickShift));
    gm = SaturatingAdd(gm, SaturatingAdd(Scale(same, chip.same_share, kTickShift),
                                         Scale(shared, chip.shared_share, kTickShift)));
    gm = SaturatingAdd(gm, Scale(written, chip.write_share, kTickShift));
    if (cached > chip.l2) {
        cached -= streamed;
    }
    if (cached > chip.l2) {
        const int64_t spilled = written - Scale(written, (chip.l2 << kShareBits) / cached, kShareBits);
        gm = SaturatingAdd(gm, Scale(spilled, chip.writeback_share, kTickShift));
    }
    parts->gm = gm;
    parts->gm_core = Scale(same_core, chip.same_share, kTickShift);
}

// The choice of a length and of tiles per core >= 1, with its cost.
template <typename Form>
Tile Cost(const Form& form, const Chip& chip, const Parts<Form::kBodyLimit>& parts, int64_t per_core)
{
    Tile tile;

    tile.size = parts.tile;
    tile.per_core = per_core;
    const int64_t cores = Pieces(parts.tiles, per_core);
    if (cores == 0) {
        tile.cost = chip.core_start;
        return tile;
    }
    const int64_t memory = Max(chip.load_rate, cores * chip.read_share);
    const int64_t again = Max(chip.hot_rate, cores * chip.again_share);
    const int64_t same = Max(chip.load_rate, cores * chip.same_share);
    const int64_t shared = Max(chip.load_rate, cores * chip.shared_share);
    const int64_t stored = Max(chip.store_rate, cores * chip.write_share);
    int64_t before = 0;
    int64_t steady = 0;
    int64_t exposed = 0;
    int64_t rest = 0;
    for (int64_t i = 0; i < form.bodies; ++i) {
        const Body& b = form.body[i];
        const BodyParts& p = parts.body[i];
        const int64_t loaded = p.bytes[0] * memory + p.bytes[1] * again + p.bytes[2] * same + p.bytes[3] * shared;
        const int64_t mte2 = p.load + (loaded >> kTickShift);
        const int64_t mte3 = p.store + ((p.stored * stored) >> kTickShift);
        const int64_t latency = b.loads ? chip.latency : 0;
        const int64_t all = latency + mte2 + p.vector + mte3;
        const int64_t wait = b.chained ? all : Max(latency + mte2, mte3) + p.vector;
        const int64_t busiest = Max(Max(mte2, p.vector), Max(mte3, b.scalar));
        const int64_t period = Max(busiest, b.buffers == 2 ? wait / 2 : wait / b.buffers);
        const int64_t alone = Max(all, b.scalar);
        const int64_t times = b.place == kStep ? SaturatingMul(per_core, parts.steps) : per_core;
        if (b.place == kOnce) {
            before += alone;
        } else if (times > 0) {
            steady = SaturatingAdd(steady, SaturatingMul(times, period));
            exposed = Max(exposed, alone - period);
            rest = Max(rest, latency + p.vector);
        }
    }
    const int64_t pipeline = SaturatingAdd(before + exposed, steady);
    int64_t gm = SaturatingAdd(parts.gm, cores * parts.gm_core);
    gm = gm > 0 ? SaturatingAdd(gm, rest) : 0;
    tile.block_dim = cores;
    tile.cost = SaturatingAdd(chip.core_start * cores + (Min(gm, pipeline) >> kHiddenBits), Max(gm, pipeline));
    return tile;
}

}  // namespace autofuse

#endif
