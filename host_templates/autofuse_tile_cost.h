// What a template costs with tiles of a given length: the cost model in integers.  No float.
//
// Costs are ticks of 2^-10 cycles; rates are 2^-24 cycles per byte or element.  What no choice changes is left out.
// Everything that a template does is base + step * t, with t the length of a tile along the tiled axis:
// - a loop body has Copies (loads and stores), Calls of the vector unit and heads of calls; Parts are their bytes and
//   ticks for one t, with cache lines that rows touch and where loads come from;
// - Costs take the tiles of one core: with two buffers an iteration lasts as long as its busiest pipe, with what the
//   first and the last one leave unhidden; all cores together take at least what GM takes.
// schedule/tile_cost.py has the same formulas in the same order.
#ifndef AUTOFUSE_TILE_COST_H
#define AUTOFUSE_TILE_COST_H

#include <stdint.h>

#include "autofuse_math.h"

namespace autofuse {

constexpr int64_t kUnlimited = INT64_MAX;
constexpr int64_t kMostTicks = kUnlimited / 4;  // that the parts of a cost are limited to, so that their sum is no overflow
constexpr int kCoreBits = 16;                   // of a number of cores
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
    int64_t buffers;  // 1 or 2
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
    static constexpr int kCopyLimit = kCopies;
    static constexpr int kCallLimit = Max(kCalls, 1);

    // Of which there is at least one.
    int64_t Bodies() const
    {
        return kBodies == 1 ? 1 : bodies;
    }

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
    int64_t vector;
    int64_t store;
    int64_t stored;  // bytes
    int64_t bytes[4];  // that are loaded from memory, from L2, by all cores at the same time, by all of them from
                       // different places; only once a choice is to be priced whose cores disturb each other
};

// What follows from t alone.
template <int kBodies>
struct Parts {
    int64_t tile;
    int64_t tiles;    // that the cores share
    int64_t steps;    // of the reduce loop
    int64_t gm;       // ticks of GM for all cores, ...
    int64_t gm_core;  // ... and more for every core
    int64_t rest;     // ticks that GM leaves to the pipes at least
    int64_t free;     // so many cores do not disturb each other: their pipes take ...
    int64_t once;     // ... so many ticks ...
    int64_t period;   // ... and so many for each tile of a core
    BodyParts body[kBodies];
};

// Bytes that one row counts for, if rows may start so many bytes behind the start of a line.
inline int64_t BilledRow(const Chip& chip, int64_t row, int64_t rows, int64_t off)
{
    int64_t billed = (row + kDmaBlock - 1) & -kDmaBlock;
    if (row < kDmaBlock && rows > 1) {
        billed = chip.short_row;
    }
    if (off > 0 && row + off > chip.line) {
        billed = row % kDmaBlock == 0 && row >= chip.line ? row + off : billed * (row + off) / Max(row, chip.line);
    }
    return billed;
}

// Costs of a template for given sizes: the parts of a length, and what tiles per core make of them.
template <typename Form>
class Costs {
public:
    using PartsType = Parts<Form::kBodyLimit>;

    Costs(const Form& form, const TileAxis& axis, const Chip& chip) : form_(form), axis_(axis), chip_(chip)
    {
        int64_t next = 0;
        for (int64_t i = 0; i < form.Bodies(); ++i) {
            const Body& body = form.body[i];
            const int64_t first = flows_;
            for (; next < form.copies && form.copy[next].body == i; ++next) {
                const Copies& c = form.copy[next];
                const bool by_tiles = c.each != 0 && body.place != kOnce && !(axis.looped && body.place == kTile);
                constant_ = constant_ && !by_tiles && c.route != kAgain && !body.staggered;
                int64_t g = body.staggered ? flows_ : first;
                while (g < flows_ && !Alike(*flow_[g].shape, c)) {
                    ++g;
                }
                if (g == flows_) {
                    ++flows_;
                    flow_[g].shape = &c;
                    flow_[g].row_bytes = c.row_bytes;
                    flow_[g].aligned = static_cast<uint64_t>(c.aligned | chip.line);
                    flow_[g].tiled = static_cast<uint64_t>(c.tiled);
                    flow_[g].even = c.commands.step == 0 && c.rows.step == 0;
                    flow_[g].row = -1;
                    SetRows(&flow_[g], 0);
                }
                flow_of_[next] = g;
            }
            flows_end_[i] = flows_;
            vector_[i] = {0, 0};
        }
        for (int64_t i = 0; i < form.calls; ++i) {
            const Calls& v = form.call[i];
            if (v.along.step != 0) {
                varying_[varyings_++] = &v;
                continue;
            }
            const int64_t times = Times(v.along.base);
            vector_[v.body].base += v.cycles.base * times;
            vector_[v.body].step += v.cycles.step * times;
        }
    }

    // The parts of a length, which stay until the next call.
    const PartsType& Fill(int64_t t)
    {
        const int64_t pieces = Pieces(axis_.extent, t);
        const int64_t length = Min(t, Max(axis_.extent, 1));
        parts_.tile = t;
        parts_.tiles = axis_.outer;
        parts_.steps = axis_.reduce_outer;
        int64_t& several = axis_.looped ? parts_.steps : parts_.tiles;
        several = SaturatingMul(several, pieces);
        // All lengths but that of the whole axis ask the same of GM, if what is moved does not depend on them.
        if (!known_ || !constant_ || pieces <= 1) {
            Move(pieces, length);
            known_ = pieces > 1;
        }
        divided_ = false;
        const uint64_t apart = pieces > 1 ? static_cast<uint64_t>(t) : 0;
        Pipes pipes;
        int64_t g = 0;
        int64_t call = 0;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            BodyParts& body = parts_.body[i];
            int64_t load = 0;
            int64_t loaded = 0;  // bytes times rate
            int64_t store = 0;
            int64_t stored = 0;
            for (; g < flows_end_[i]; ++g) {
                Flow& flow = flow_[g];
                if (!flow.even) {
                    SetRows(&flow, length);
                    SetIssue(&flow);
                }
                SetBilled(&flow, flow.row_bytes.At(length), flow.aligned | flow.tiled * apart);
                load += flow.load;
                loaded += flow.rate * flow.billed;
                store += flow.store;
                stored += flow.count[kStores] * flow.billed;
            }
            int64_t cycles = vector_[i].At(length);
            for (; call < varyings_ && varying_[call]->body == i; ++call) {
                cycles += varying_[call]->cycles.At(length) * Times(varying_[call]->along.At(length));
            }
            body.load = load;
            body.vector = form_.body[i].heads + (cycles >> kTickShift);
            body.store = store;
            body.stored = stored;
            Pass(form_.body[i], body, loaded, stored * chip_.store_rate, &pipes);
        }
        parts_.once = Min(pipes.once + pipes.exposed, kMostTicks);
        parts_.period = pipes.period;
        if (SaturatingMul(parts_.tiles, pipes.period) > kMostTicks) {
            parts_.period = kMostTicks / parts_.tiles;
        }
        parts_.rest = parts_.gm > 0 || parts_.gm_core > 0 ? Min(pipes.rest, kMostTicks) : 0;
        return parts_;
    }

    // What a choice of the length at hand costs, with `per_core` tiles on each of `cores` > 0 cores; less where these disturb
    // each other.
    int64_t AtLeast(int64_t per_core, int64_t cores) const
    {
        return Total(cores, parts_.once + per_core * parts_.period);
    }

    // What it costs where more cores than `free` share GM, so that each gets less of it.
    int64_t Crowded(int64_t per_core, int64_t cores)
    {
        Divide();
        const int64_t memory = Max(chip_.load_rate, cores * chip_.read_share);
        const int64_t again = Max(chip_.hot_rate, cores * chip_.again_share);
        const int64_t same = Max(chip_.load_rate, cores * chip_.same_share);
        const int64_t shared = Max(chip_.load_rate, cores * chip_.shared_share);
        const int64_t stored = Max(chip_.store_rate, cores * chip_.write_share);
        Pipes pipes;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            const BodyParts& p = parts_.body[i];
            const int64_t loaded = p.bytes[kMemory] * memory + p.bytes[kL2] * again + p.bytes[kTogether] * same +
                                   p.bytes[kShared] * shared;
            Pass(form_.body[i], p, loaded, p.stored * stored, &pipes);
        }
        const int64_t pipeline = SaturatingAdd(pipes.once + pipes.exposed, SaturatingMul(per_core, pipes.period));
        return Total(cores, Min(pipeline, kMostTicks));
    }

private:
    // Where bytes come from, as BodyParts::bytes, and where they go to.
    enum : int64_t { kMemory = 0, kL2 = 1, kTogether = 2, kShared = 3, kStores = 4 };

    // Ticks of the pipes of one core: `once` and `exposed`, and `period` for each of its tiles.
    struct Pipes {
        int64_t once = 0;
        int64_t exposed = 0;  // what the first and the last tile leave unhidden
        int64_t period = 0;
        int64_t rest = 0;     // that are left once the last bytes have come
    };

    // Copies of a body with the same rows.
    struct Flow {
        const Copies* shape;
        Line row_bytes;
        uint64_t aligned;
        uint64_t tiled;
        int64_t count[5];
        int64_t rate;         // of all loads together, of a core that no other one disturbs
        int64_t places;       // at which cores that load it together start
        bool even;            // rows and commands are those of every length
        int64_t rows;
        int64_t load_issue;   // ticks of commands and rows: of one copy ...
        int64_t store_issue;
        int64_t load;         // ... and of all
        int64_t store;
        int64_t row;          // bytes of a row, bytes between lines and its starts, and what it is billed for then
        int64_t off;
        int64_t billed_row;
        int64_t billed;       // bytes of one copy
    };

    static bool Alike(const Copies& a, const Copies& b)
    {
        return Same(a.commands, b.commands) && Same(a.rows, b.rows) && Same(a.row_bytes, b.row_bytes) &&
               a.aligned == b.aligned && a.tiled == b.tiled;
    }

    static bool Same(const Line& a, const Line& b)
    {
        return a.base == b.base && a.step == b.step;
    }

    // Times that a running sum goes over its elements.
    static int64_t Times(int64_t along)
    {
        return 1 + BitLength(Max(along - 1, 0));
    }

    void SetRows(Flow* flow, int64_t length) const
    {
        const int64_t commands = flow->shape->commands.At(length);
        flow->rows = Max(flow->shape->rows.At(length), 1);
        const int64_t further = chip_.row * Max(flow->rows - commands, 0);
        flow->load_issue = further + chip_.load_issue * commands;
        flow->store_issue = further + chip_.store_issue * commands;
    }

    static void SetIssue(Flow* flow)
    {
        flow->load = (flow->count[kMemory] + flow->count[kL2] + flow->count[kTogether]) * flow->load_issue;
        flow->store = flow->count[kStores] * flow->store_issue;
    }

    // The bytes that rows of a flow count for; mostly one counts for what that of the last length did.
    void SetBilled(Flow* flow, int64_t row, uint64_t distances) const
    {
        const int64_t off = chip_.line - LowBit(distances);
        if (row < kDmaBlock || row != flow->row || off != flow->off) {
            flow->row = row;
            flow->off = off;
            flow->billed_row = BilledRow(chip_, row, flow->rows, off);
        }
        flow->billed = flow->rows * flow->billed_row;
    }

    // Bytes by where they come from.
    void Divide()
    {
        if (divided_) {
            return;
        }
        divided_ = true;
        int64_t g = 0;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            int64_t bytes[4] = {};
            for (; g < flows_end_[i]; ++g) {
                const Flow& flow = flow_[g];
                const int64_t together = flow.count[kTogether] * flow.billed;
                const int64_t in_order = flow.places == 1 ? together : together / flow.places;
                bytes[kMemory] += flow.count[kMemory] * flow.billed;
                bytes[kL2] += flow.count[kL2] * flow.billed;
                bytes[kTogether] += in_order;
                bytes[kShared] += together - in_order;
            }
            for (int64_t way = 0; way < 4; ++way) {
                parts_.body[i].bytes[way] = bytes[way];
            }
        }
    }

    // Adds a body to the pipes, with what its bytes take at some rates.
    void Pass(const Body& b, const BodyParts& p, int64_t loaded, int64_t stored, Pipes* pipes) const
    {
        const int64_t mte2 = p.load + (loaded >> kTickShift);
        const int64_t mte3 = p.store + (stored >> kTickShift);
        const int64_t latency = b.loads ? chip_.latency : 0;
        const int64_t all = latency + mte2 + p.vector + mte3;
        const int64_t alone = Max(all, b.scalar);
        if (b.place == kOnce) {
            pipes->once += alone;
            return;
        }
        const int64_t times = b.place == kStep ? parts_.steps : 1;
        if (times > 0) {
            const int64_t wait = b.chained ? all : Max(latency + mte2, mte3) + p.vector;
            const int64_t busiest = Max(Max(mte2, p.vector), Max(mte3, b.scalar));
            const int64_t period = Max(busiest, wait >> (b.buffers - 1));
            pipes->period = SaturatingAdd(pipes->period, times == 1 ? period : SaturatingMul(times, period));
            pipes->exposed = Max(pipes->exposed, alone - period);
            pipes->rest = Max(pipes->rest, latency + p.vector);
        }
    }

    int64_t Total(int64_t cores, int64_t pipeline) const
    {
        const int64_t gm = parts_.gm + cores * parts_.gm_core + parts_.rest;
        return chip_.core_start * cores + (Min(gm, pipeline) >> kHiddenBits) + Max(gm, pipeline);
    }

    // What all copies together ask of GM.
    void Move(int64_t pieces, int64_t length)
    {
        const int64_t tiles = parts_.tiles;
        const int64_t most = Max(Min(tiles, chip_.cores), 1);
        const int64_t runs[3] = {0, tiles, SaturatingMul(tiles, parts_.steps)};
        int64_t read = 0;
        int64_t again = 0;
        int64_t same = 0;
        int64_t shared = 0;
        int64_t same_core = 0;
        int64_t written = 0;
        int64_t cached = 0;
        int64_t streamed = 0;
        uint32_t ways = 0;
        for (int64_t g = 0; g < flows_; ++g) {
            for (int64_t& count : flow_[g].count) {
                count = 0;
            }
            flow_[g].places = 1;
        }
        for (int64_t i = 0; i < form_.copies; ++i) {
            const Copies& c = form_.copy[i];
            const Place place = form_.body[c.body].place;
            const int64_t all = Min(SaturatingAdd(c.whole, SaturatingMul(c.each, runs[place])), kUnlimited / 64);
            const int64_t moved = c.count * all;
            const int64_t distinct = Min(c.count * c.distinct, moved);
            cached = SaturatingAdd(cached, distinct);
            Flow& flow = flow_[flow_of_[i]];
            int64_t way = kStores;
            if (c.route == kWrite) {
                written = SaturatingAdd(written, moved);
            } else if (place == kOnce || (most > 1 && !c.varies && !(c.varies_by_tile && pieces > 1))) {
                // All cores read one tensor: those that start at the same place do so in the same order.
                flow.places = form_.body[c.body].staggered ? Max(Min(parts_.steps, most), 1) : 1;
                way = kTogether;
                const int64_t in_order = flow.places == 1 ? moved : moved / flow.places;
                same = SaturatingAdd(same, in_order);
                shared = SaturatingAdd(shared, moved - in_order);
                ways |= flow.places == 1 ? 0 : 1 << kShared;
                same_core += place == kOnce ? c.count * c.each : 0;
            } else {
                int64_t hit = moved - distinct;
                if (hit > 0) {
                    int64_t held = distinct;
                    if (c.route == kAgain) {
                        held = SaturatingMul(c.footprint.At(length) * most, Max(parts_.steps, 1));
                    }
                    if (held > chip_.l2) {
                        hit = Scale(hit, (chip_.l2 << kShareBits) / held, kShareBits);
                    }
                }
                way = moved > distinct && 2 * hit >= moved ? kL2 : kMemory;
                read = SaturatingAdd(read, moved - hit);
                again = SaturatingAdd(again, hit);
                streamed = SaturatingAdd(streamed, c.route == kStream ? distinct : 0);
            }
            flow.count[way] += c.count;
            ways |= 1 << way;
        }
        for (int64_t g = 0; g < flows_; ++g) {
            Flow& flow = flow_[g];
            const int64_t cold = flow.count[kMemory] + flow.count[kTogether];
            SetIssue(&flow);
            flow.rate = cold * chip_.load_rate + flow.count[kL2] * chip_.hot_rate;
        }
        // Cores that do not disturb each other.
        parts_.free = kUnlimited;
        LimitFree(ways, kMemory, chip_.load_rate, chip_.read_share);
        LimitFree(ways, kL2, chip_.hot_rate, chip_.again_share);
        LimitFree(ways, kTogether, chip_.load_rate, chip_.same_share);
        LimitFree(ways, kShared, chip_.load_rate, chip_.shared_share);
        LimitFree(ways, kStores, chip_.store_rate, chip_.write_share);
        int64_t gm = SaturatingAdd(Scale(read, chip_.read_share, kTickShift), Scale(again, chip_.again_share, kTickShift));
        gm = SaturatingAdd(gm, SaturatingAdd(Scale(same, chip_.same_share, kTickShift),
                                             Scale(shared, chip_.shared_share, kTickShift)));
        gm = SaturatingAdd(gm, Scale(written, chip_.write_share, kTickShift));
        if (cached > chip_.l2) {
            cached -= streamed;
        }
        if (cached > chip_.l2) {
            const int64_t spilled = written - Scale(written, (chip_.l2 << kShareBits) / cached, kShareBits);
            gm = SaturatingAdd(gm, Scale(spilled, chip_.writeback_share, kTickShift));
        }
        parts_.gm = Min(gm, kMostTicks);
        parts_.gm_core = Min(Scale(same_core, chip_.same_share, kTickShift), kMostTicks >> kCoreBits);
    }

    void LimitFree(uint32_t ways, int64_t way, int64_t rate, int64_t share)
    {
        if ((ways >> way & 1) != 0) {
            parts_.free = Min(parts_.free, rate / share);
        }
    }

    const Form& form_;
    const TileAxis& axis_;
    const Chip& chip_;
    PartsType parts_;
    bool constant_ = true;    // what is moved does not depend on the length, as long as there are several tiles
    bool known_ = false;      // that is in `parts_`
    bool divided_ = false;    // the bytes of the length at hand by where they come from are known
    int64_t flows_ = 0;
    int64_t varyings_ = 0;
    Flow flow_[Form::kCopyLimit];               // in the order of the bodies
    int64_t flow_of_[Form::kCopyLimit];
    int64_t flows_end_[Form::kBodyLimit];       // behind the last one of a body
    Line vector_[Form::kBodyLimit];             // cycles of all calls but those that ...
    const Calls* varying_[Form::kCallLimit];    // ... go over their elements more often in longer tiles
};

}  // namespace autofuse

#endif
