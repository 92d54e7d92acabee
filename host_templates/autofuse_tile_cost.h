// What a template costs with tiles of a given length: the cost model in integers.  No float.
//
// Costs are ticks; what no choice changes is left out.  A Length is what follows from one t alone: bytes and ticks of every
// body, with cache lines that rows touch and where loads come from.  Costs take the tiles of one core: with two buffers an
// iteration lasts as long as its busiest pipe, with what the first and the last one leave unhidden; all cores together take at
// least what GM takes.  schedule/tile_cost.py has the same formulas.
#ifndef AUTOFUSE_TILE_COST_H
#define AUTOFUSE_TILE_COST_H

#include <stdint.h>

#include "autofuse_math.h"
#include "autofuse_tile_form.h"

namespace autofuse {

constexpr int64_t kMostTicks = kUnlimited / 4;  // that the parts of a cost are limited to, so that their sum is no overflow
constexpr int kCoreBits = 16;                   // of a number of cores
constexpr int64_t kDmaBlock = 32;
constexpr int kTickShift = 14;   // from rates to ticks
constexpr int kShareBits = 20;   // of the share of bytes that L2 holds
constexpr int kHiddenBits = 8;   // what is hidden, GM or the pipes, counts for a 256th

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

// What follows from the length of a tile alone.
struct Length {
    int64_t tile;
    int64_t tiles;    // that the cores share
    int64_t gm;       // ticks of GM for all cores, with those that it leaves to the pipes at least, ...
    int64_t gm_core;  // ... and more for every core
    int64_t free;     // so many cores do not disturb each other: their pipes take ...
    int64_t once;     // ... so many ticks ...
    int64_t period;   // ... and so many for each tile of a core
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

// Costs of a template for given sizes: what follows from a length, and what tiles per core make of it.
template <typename Form>
class Costs {
public:
    Costs(const Form& form, const TileAxis& axis, const Chip& chip) : form_(form), axis_(axis), chip_(chip)
    {
        int64_t next = 0;
        for (int64_t i = 0; i < form.Bodies(); ++i) {
            const Body& body = form.body[i];
            const int64_t first = flows_;
            for (; next < form.copies && form.copy[next].body == i; ++next) {
                const Copies& c = form.copy[next];
                const bool by_tiles = c.each != 0 && body.place != kOnce && !(axis.looped && body.place == kTile);
                constant_ = constant_ && !by_tiles && !body.staggered;
                if (c.route == kAgain) {
                    again_[agains_++] = &c;
                }
                whole_alike_ = whole_alike_ && (c.route == kWrite || body.place == kOnce || c.varies ||
                                                (axis.outer <= 1 && (axis.looped || c.varies_by_tile)));
                int64_t g = body.staggered ? flows_ : first;
                while (g < flows_ && !Alike(*flow_[g].shape, c)) {
                    ++g;
                }
                if (g == flows_) {
                    Set(&flow_[flows_++], c);
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

    // What follows from a length, which is the one at hand until the next call.
    Length Fill(int64_t t)
    {
        const int64_t pieces = Pieces(axis_.extent, t);
        const At at = {Min(t, Max(axis_.extent, 1)), pieces > 1 ? static_cast<uint64_t>(t) : 0,
                       axis_.looped ? SaturatingMul(axis_.reduce_outer, pieces) : axis_.reduce_outer};
        const int64_t tiles = axis_.looped ? axis_.outer : SaturatingMul(axis_.outer, pieces);
        at_ = at;
        divided_ = false;
        // Most lengths ask the same of GM, if what is moved does not depend on them.
        const bool held = Held(tiles);
        if (!known_ || !constant_ || !held || !held_ || (!whole_alike_ && (pieces > 1) != several_)) {
            Move(tiles, pieces > 1);
            held_ = held;
        }
        Pipes pipes;
        int64_t g = 0;
        int64_t call = 0;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            BodyTicks ticks = {0, Vector(i, at, &call), 0};
            int64_t loaded = 0;  // bytes times rate
            int64_t stored = 0;
            for (; g < flows_end_[i]; ++g) {
                Flow& flow = flow_[g];
                const Rows rows = flow.even ? flow.rows : RowsAt(flow, at.length);
                const int64_t billed = Billed(flow, rows.count, at);
                flow.billed = billed;
                ticks.load += flow.loads * rows.load;
                ticks.store += flow.count[kStores] * rows.store;
                loaded += flow.rate * billed;
                stored += flow.count[kStores] * billed;
            }
            ticks_[i] = ticks;
            ticks.load += loaded >> kTickShift;
            ticks.store += stored * chip_.store_rate >> kTickShift;
            Pass(form_.body[i], ticks, at.steps, &pipes);
        }
        const int64_t rest = gm_ > 0 || gm_core_ > 0 ? Min(pipes.rest, kMostTicks) : 0;
        const bool many = SaturatingMul(tiles, pipes.period) > kMostTicks;
        return {t,       tiles, gm_ + rest, gm_core_, free_, Min(pipes.once + pipes.exposed, kMostTicks),
                many ? kMostTicks / tiles : pipes.period};
    }

    // What a choice costs, with `per_core` tiles on each of `cores` > 0 cores; less where these disturb each other.
    int64_t AtLeast(const Length& at, int64_t per_core, int64_t cores) const
    {
        return Total(at, cores, at.once + per_core * at.period);
    }

    // What it costs with the length at hand where more cores than are free share GM, so that each gets less of it.
    int64_t Crowded(const Length& at, int64_t per_core, int64_t cores)
    {
        Divide();
        const int64_t memory = Max(chip_.load_rate, cores * chip_.read_share);
        const int64_t again = Max(chip_.hot_rate, cores * chip_.again_share);
        const int64_t same = Max(chip_.load_rate, cores * chip_.same_share);
        const int64_t shared = Max(chip_.load_rate, cores * chip_.shared_share);
        const int64_t store = Max(chip_.store_rate, cores * chip_.write_share);
        Pipes pipes;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            const int64_t(&bytes)[5] = bytes_[i];
            BodyTicks ticks = ticks_[i];
            ticks.load += (bytes[kMemory] * memory + bytes[kL2] * again + bytes[kTogether] * same +
                           bytes[kShared] * shared) >> kTickShift;
            ticks.store += bytes[kStores] * store >> kTickShift;
            Pass(form_.body[i], ticks, at_.steps, &pipes);
        }
        const int64_t pipeline = SaturatingAdd(pipes.once + pipes.exposed, SaturatingMul(per_core, pipes.period));
        return Total(at, cores, Min(pipeline, kMostTicks));
    }

private:
    // Where bytes come from: memory, L2, of all cores at the same time, of all of them from different places; and stores.
    enum : int64_t { kMemory = 0, kL2 = 1, kTogether = 2, kShared = 3, kStores = 4 };

    // A length: of the tile but at most the axis, of the tile or 0 where there is one, steps of the reduce loop.
    struct At {
        int64_t length;
        uint64_t apart;
        int64_t steps;
    };

    // Ticks of the pipes of one run of a body.
    struct BodyTicks {
        int64_t load;
        int64_t vector;
        int64_t store;
    };

    // Ticks of the pipes of one core: `once` and `exposed`, and `period` for each of its tiles.
    struct Pipes {
        int64_t once = 0;
        int64_t exposed = 0;  // what the first and the last tile leave unhidden
        int64_t period = 0;
        int64_t rest = 0;     // that are left once the last bytes have come
    };

    // Rows of a copy, ticks of its commands and rows.
    struct Rows {
        int64_t count;
        int64_t load;
        int64_t store;
    };

    // Copies of a body with the same rows.
    struct Flow {
        const Copies* shape;
        uint64_t aligned;    // distances in GM and the length of a line, or-ed
        bool even;           // rows are those of every length
        Rows rows;
        int64_t billed_row;  // what each row of every length counts for, or 0 if that depends on it
        int64_t count[5];
        int64_t loads;
        int64_t rate;        // of all loads together, of a core that no other one disturbs
        int64_t places;      // at which cores that load it together start
        int64_t billed;      // bytes that one copy counts for with the length at hand
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

    void Set(Flow* flow, const Copies& copy) const
    {
        flow->shape = &copy;
        flow->aligned = static_cast<uint64_t>(copy.aligned | chip_.line);
        flow->even = copy.commands.step == 0 && copy.rows.step == 0;
        flow->rows = RowsAt(*flow, 0);
        const int64_t row = copy.row_bytes.base;
        const uint64_t unit = static_cast<uint64_t>(LowBit(flow->aligned));
        const bool steady = copy.row_bytes.step == 0 && row >= kDmaBlock && (static_cast<uint64_t>(copy.tiled) & (unit - 1)) == 0;
        flow->billed_row = steady ? BilledRow(chip_, row, 1, chip_.line - static_cast<int64_t>(unit)) : 0;
    }

    Rows RowsAt(const Flow& flow, int64_t length) const
    {
        const int64_t commands = flow.shape->commands.At(length);
        const int64_t rows = Max(flow.shape->rows.At(length), 1);
        const int64_t further = chip_.row * Max(rows - commands, 0);
        return {rows, further + chip_.load_issue * commands, further + chip_.store_issue * commands};
    }

    // Bytes that a copy counts for.
    int64_t Billed(const Flow& flow, int64_t rows, const At& at) const
    {
        if (flow.billed_row != 0) {
            return rows * flow.billed_row;
        }
        const int64_t off = chip_.line - LowBit(flow.aligned | static_cast<uint64_t>(flow.shape->tiled) * at.apart);
        return rows * BilledRow(chip_, flow.shape->row_bytes.At(at.length), rows, off);
    }

    // Ticks of the vector calls of a body; `call` is the first of those that vary and are not of a body before.
    int64_t Vector(int64_t body, const At& at, int64_t* call) const
    {
        int64_t cycles = vector_[body].At(at.length);
        for (; *call < varyings_ && varying_[*call]->body == body; ++*call) {
            const Calls& v = *varying_[*call];
            cycles += v.cycles.At(at.length) * Times(v.along.At(at.length));
        }
        return form_.body[body].heads + (cycles >> kTickShift);
    }

    // The bytes of the length at hand by where they come from.
    void Divide()
    {
        if (divided_) {
            return;
        }
        divided_ = true;
        int64_t g = 0;
        for (int64_t i = 0; i < form_.Bodies(); ++i) {
            int64_t(&bytes)[5] = bytes_[i];
            bytes[kMemory] = bytes[kL2] = bytes[kTogether] = bytes[kShared] = bytes[kStores] = 0;
            for (; g < flows_end_[i]; ++g) {
                const Flow& flow = flow_[g];
                const int64_t together = flow.count[kTogether] * flow.billed;
                const int64_t in_order = flow.places == 1 ? together : together / flow.places;
                bytes[kMemory] += flow.count[kMemory] * flow.billed;
                bytes[kL2] += flow.count[kL2] * flow.billed;
                bytes[kTogether] += in_order;
                bytes[kShared] += together - in_order;
                bytes[kStores] += flow.count[kStores] * flow.billed;
            }
        }
    }

    // Adds a body to the pipes.
    void Pass(const Body& b, const BodyTicks& ticks, int64_t steps, Pipes* pipes) const
    {
        const int64_t loaded = (b.loads ? chip_.latency : 0) + ticks.load;
        const int64_t all = loaded + ticks.vector + ticks.store;
        const int64_t alone = Max(all, b.scalar);
        if (b.place == kOnce) {
            pipes->once += alone;
            return;
        }
        const int64_t times = b.place == kStep ? steps : 1;
        if (times > 0) {
            const int64_t wait = b.chained ? all : Max(loaded, ticks.store) + ticks.vector;
            const int64_t busiest = Max(Max(ticks.load, ticks.vector), Max(ticks.store, b.scalar));
            const int64_t period = Max(busiest, wait >> (b.buffers - 1));
            pipes->period = SaturatingAdd(pipes->period, times == 1 ? period : SaturatingMul(times, period));
            pipes->exposed = Max(pipes->exposed, alone - period);
            pipes->rest = Max(pipes->rest, loaded - ticks.load + ticks.vector);
        }
    }

    int64_t Total(const Length& at, int64_t cores, int64_t pipeline) const
    {
        const int64_t gm = at.gm + cores * at.gm_core;
        return chip_.core_start * cores + (Min(gm, pipeline) >> kHiddenBits) + Max(gm, pipeline);
    }

    // Bytes of one run of what is read again, for all cores.
    int64_t Footprint(const Copies& copy, int64_t tiles) const
    {
        const int64_t most = Max(Min(tiles, chip_.cores), 1);
        return SaturatingMul(copy.footprint.At(at_.length) * most, Max(at_.steps, 1));
    }

    // Whether L2 still has all that is read again.
    bool Held(int64_t tiles) const
    {
        bool held = true;
        for (int64_t i = 0; i < agains_; ++i) {
            held = held && Footprint(*again_[i], tiles) <= chip_.l2;
        }
        return held;
    }

    // What all copies together ask of GM.
    void Move(int64_t tiles, bool several)
    {
        known_ = true;
        several_ = several;
        const int64_t most = Max(Min(tiles, chip_.cores), 1);
        const int64_t runs[3] = {0, tiles, SaturatingMul(tiles, at_.steps)};
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
            } else if (place == kOnce || (most > 1 && !c.varies && !(c.varies_by_tile && several))) {
                // All cores read one tensor: those that start at the same place do so in the same order.
                flow.places = form_.body[c.body].staggered ? Max(Min(at_.steps, most), 1) : 1;
                way = kTogether;
                const int64_t in_order = flow.places == 1 ? moved : moved / flow.places;
                same = SaturatingAdd(same, in_order);
                shared = SaturatingAdd(shared, moved - in_order);
                ways |= flow.places == 1 ? 0 : 1 << kShared;
                same_core += place == kOnce ? c.count * c.each : 0;
            } else {
                int64_t hit = moved - distinct;
                if (hit > 0) {
                    const int64_t held = c.route == kAgain ? Footprint(c, tiles) : distinct;
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
            flow.loads = cold + flow.count[kL2];
            flow.rate = cold * chip_.load_rate + flow.count[kL2] * chip_.hot_rate;
        }
        // Cores that do not disturb each other.
        free_ = kUnlimited;
        LimitFree(ways, kMemory, chip_.load_rate, chip_.read_share);
        LimitFree(ways, kL2, chip_.hot_rate, chip_.again_share);
        LimitFree(ways, kTogether, chip_.load_rate, chip_.same_share);
        LimitFree(ways, kShared, chip_.load_rate, chip_.shared_share);
        LimitFree(ways, kStores, chip_.store_rate, chip_.write_share);
        int64_t gm = SaturatingAdd(Ticks(read, chip_.read_share), Ticks(again, chip_.again_share));
        gm = SaturatingAdd(gm, SaturatingAdd(Ticks(same, chip_.same_share), Ticks(shared, chip_.shared_share)));
        gm = SaturatingAdd(gm, Ticks(written, chip_.write_share));
        if (cached > chip_.l2) {
            cached -= streamed;
        }
        if (cached > chip_.l2) {
            const int64_t spilled = written - Scale(written, (chip_.l2 << kShareBits) / cached, kShareBits);
            gm = SaturatingAdd(gm, Ticks(spilled, chip_.writeback_share));
        }
        gm_ = Min(gm, kMostTicks);
        gm_core_ = Min(Ticks(same_core, chip_.same_share), kMostTicks >> kCoreBits);
    }

    static int64_t Ticks(int64_t bytes, int64_t share)
    {
        return bytes == 0 ? 0 : Scale(bytes, share, kTickShift);
    }

    void LimitFree(uint32_t ways, int64_t way, int64_t rate, int64_t share)
    {
        if ((ways >> way & 1) != 0) {
            free_ = Min(free_, rate / share);
        }
    }

    const Form& form_;
    const TileAxis& axis_;
    const Chip& chip_;
    At at_ = {};                 // the length at hand
    bool constant_ = true;       // what is moved does not depend on the length, as long as there are several tiles, ...
    bool whole_alike_ = true;    // ... or at all
    bool known_ = false;         // ticks of GM are known, ...
    bool held_ = false;          // ... with L2 that has what is read again, ...
    bool several_ = false;       // ... with several tiles
    bool divided_ = false;       // bytes of the length at hand are
    int64_t gm_ = 0;             // as of Length, but for the rest
    int64_t gm_core_ = 0;
    int64_t free_ = 0;
    BodyTicks ticks_[Form::kBodyLimit];  // of the length at hand, without those of bytes
    int64_t bytes_[Form::kBodyLimit][5];
    int64_t flows_ = 0;
    int64_t agains_ = 0;
    int64_t varyings_ = 0;
    Flow flow_[Form::kCopyLimit];               // in the order of the bodies
    int64_t flow_of_[Form::kCopyLimit];
    int64_t flows_end_[Form::kBodyLimit];       // behind the last one of a body
    Line vector_[Form::kBodyLimit];             // cycles of all calls but those that ...
    const Copies* again_[Form::kCopyLimit];     // of what was read before
    const Calls* varying_[Form::kCallLimit];    // ... go over their elements more often in longer tiles
};

}  // namespace autofuse

#endif
