// What a template costs with tiles of a given length: the cost model in integers.  No float.
//
// Costs are ticks; what no choice changes is left out.  A Length is what follows from one t alone: bytes and ticks of every
// body, with cache lines that rows touch and where loads come from.  Costs take the tiles of one core: with two buffers an
// iteration lasts as long as its busiest pipe, with what the first and the last one leave unhidden; all cores together take at
// least what GM takes.  schedule/tile_cost.py has the same formulas.
#ifndef AUTOFUSE_TILE_COST_H
#define AUTOFUSE_TILE_COST_H

#include <stdint.h>

#include "autofuse_length_costs.h"
#include "autofuse_math.h"
#include "autofuse_tile_arithmetic.h"
#include "autofuse_tile_form.h"

#if defined(__OPTIMIZE__)
#define AUTOFUSE_INLINED __attribute__((always_inline))
#else
#define AUTOFUSE_INLINED
#endif
#define AUTOFUSE_INLINE inline AUTOFUSE_INLINED
#if defined(__clang__)
#define AUTOFUSE_UNROLL _Pragma("unroll")
#else
#define AUTOFUSE_UNROLL _Pragma("GCC unroll 64")
#endif

namespace autofuse {

constexpr int64_t kMostTicks = kUnlimited / 4;  // that the parts of a cost are limited to, so that their sum is no overflow
constexpr int kCoreBits = 16;                   // of a number of cores
constexpr int64_t kDmaBlock = 32;
constexpr int kTickShift = 14;   // from rates to ticks
constexpr int kShareBits = 20;   // of the share of bytes that L2 holds
constexpr int kFewLoops = 2;     // bodies that run for a tile, of which one pipe mostly takes longest in all
constexpr int64_t kManyTiles = 4;  // per core, of which mostly other numbers are asked for too

// Bytes that one row counts for, if rows may start so many bytes behind the start of a line.
inline int64_t BilledRow(const Chip& chip, int64_t row, int64_t rows, int64_t off)
{
    int64_t billed = (row + kDmaBlock - 1) & -kDmaBlock;
    if (row < kDmaBlock && rows > 1) {
        billed = chip.short_row;
    }
    if (off > 0 && row + off > chip.line) {
        if (row < chip.line) {
            billed = billed * (row + off) / chip.line;
        } else {
            billed = row % kDmaBlock == 0 ? row + off : billed * (row + off) / row;
        }
    }
    return billed;
}

// The costs of one template.
template <typename Source>
class Costs final : public LengthCosts {
public:
    using Form = typename Source::Form;

    // `numbers` of the form that depend on sizes.
    Costs(const Form& of, const int64_t* numbers, const TileAxis& axis, const Chip& chip)
        : LengthCosts(chip.core_start), form_(of), numbers_(numbers), axis_(axis), granted_(chip)
    {
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            SetBilledRow(i);
            const Line rows = Value(form().row[i].rows);
            const int64_t step = Value(form().row[i].row_bytes.step);
            row_step_ = step > 0 && rows.base + rows.step > 1 ? Min(row_step_, step) : row_step_;
        });
        Repeat(form().copies, [&](int i) AUTOFUSE_INLINED {
            const Copies& c = form().copy[i];
            const Body& body = BodyOf(i);
            const bool by_tiles = body.place != kOnce && !(axis_.looped && body.place == kTile) &&
                                  Value(c.each) != 0;
            constant_ = constant_ && !by_tiles;
            whole_alike_ = whole_alike_ && (c.route == kWrite || body.place == kOnce || Varies(i) ||
                                            (axis_.outer <= 1 && (axis_.looped || c.varies_by_tile)));
        });
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED { vector_[b] = {0, 0}; });
        Repeat(form().calls, [&](int i) AUTOFUSE_INLINED {
            const Calls& v = form().call[i];
            if (!Goes(i)) {
                const Line cycles = Value(v.cycles);
                const int64_t times = Times(Value(v.along.base));
                vector_[v.body].base += cycles.base * times;
                vector_[v.body].step += cycles.step * times;
            }
        });
    }

    // Distances of tiles in GM per element of their length, or-ed, of rows that a longer step aligns better than a granule.
    uint64_t Distances() const
    {
        uint64_t tiled = 0;
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            const uint64_t distance = Tiled(i) * static_cast<uint64_t>(axis_.granule);
            tiled |= distance != 0 && LowBit(Aligned(i)) > LowBit(distance) ? Tiled(i) : 0;
        });
        return tiled;
    }

    // No choice costs less: what no length changes, and loads of rows that are the same for all lengths.  Takes far less time
    // than a search.
    int64_t Floor() const
    {
        if (axis_.extent < 1 || axis_.outer < 1 || axis_.reduce_outer < 1) {
            return 0;
        }
        const int64_t shortest = Min(axis_.granule, axis_.extent);
        int64_t period = 0;
        int64_t exposed = 0;
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED {
            const Body& body = form().body[b];
            if (body.place != kOnce) {
                const int64_t latency = body.loads ? chip().latency : 0;
                const int64_t least = body.heads + (vector_[b].At(shortest) >> kTickShift);
                int64_t vector = least;
                int64_t load = 0;
                if (axis_.looped && body.place == kStep) {
                    // A core goes through all of the axis, in at least one step.
                    if (vector_[b].base >= 0) {
                        const int64_t whole = SaturatingMul(axis_.extent, vector_[b].step);
                        vector = body.heads + (SaturatingAdd(vector_[b].base, whole) >> kTickShift);
                    }
                    load = SaturatingMul(axis_.extent, LoadOfRow(b));
                }
                const int64_t wait = SaturatingAdd(latency + vector, load) >> (body.buffers - 1);
                const int64_t run = Max(Max(vector, load), Max(body.scalar, wait));
                period = SaturatingAdd(period, body.place == kStep ? SaturatingMul(run, axis_.reduce_outer) : run);
                if (body.buffers > 1) {
                    const int64_t alone = latency + least;
                    exposed = Max(exposed, Min(Min(latency, alone >> 1), alone - body.scalar));
                }
            }
        });
        // So many tiles on a core, or twice as many on half the cores.
        const int64_t per_core = axis_.outer <= granted_.cores ? 1 : Pieces(axis_.outer, granted_.cores);
        const int64_t busy = SaturatingMul(per_core, period);
        const int64_t starts = SaturatingMul(Pieces(axis_.outer, 2 * per_core), chip().core_start);
        const int64_t rest = Min(starts, SaturatingAdd(busy, chip().core_start)) + exposed;
        return Min(SaturatingAdd(busy, rest), kMostTicks >> kCoreBits);
    }

    Length Fill(int64_t t) override
    {
        const int64_t pieces = Pieces(axis_.extent, t);
        const At at = {Min(t, Max(axis_.extent, 1)), pieces > 1 ? static_cast<uint64_t>(t) : 0,
                       axis_.looped ? SaturatingMul(axis_.reduce_outer, pieces) : axis_.reduce_outer};
        const int64_t tiles = axis_.looped ? axis_.outer : SaturatingMul(axis_.outer, pieces);
        at_ = at;
        // Most lengths ask the same of GM, if what is moved does not depend on them.
        const bool held = Held(tiles);
        if (!known_ || !constant_ || !held || !held_ || (!whole_alike_ && (pieces > 1) != several_)) {
            Move(tiles, pieces > 1);
            held_ = held;
        }
        const Moved moved = Stagger(tiles, pieces);
        const int64_t last = axis_.extent - (pieces - 1) * t;
        const bool is_short = Cuts() && pieces > 1 && last * row_step_ < kDmaBlock;
        Pipes shorter;
        if (is_short) {
            shorter = OfLast(last);
            at_.length = at.length;
        }
        const Pipes pipes = Undisturbed();
        int64_t tail = 0;
        int64_t behind = 0;
        if (is_short) {
            // Where a core goes through all of the axis, every step of a tile was taken for a last one.
            tail = Max(shorter.period - pipes.period, 0) / (axis_.looped ? pieces : 1);
            behind = Min(Max(shorter.exposed - pipes.exposed, 0), kMostTicks);
        }
        const int64_t rest = moved.gm > 0 || gm_core_ > 0 ? Min(pipes.rest, kMostTicks) : 0;
        return {t,
                tiles,
                moved.gm + rest,
                gm_core_,
                moved.free,
                Min(pipes.once + pipes.exposed, kMostTicks),
                AtMost(pipes.period, tiles),
                AtMost(tail, tiles),
                behind,
                axis_.looped ? 1 : pieces};
    }

    int64_t Crowded(const Length& at, int64_t per_core, int64_t cores) override
    {
        if (HasFewLoops()) {
            // Asked for a length once more, or for one of many tiles, it is mostly asked for other numbers of cores too.
            if (loads_.tile != at.tile && (crowded_ == at.tile || at.tiles > kManyTiles * granted_.cores)) {
                SetLoads(at);
            }
            crowded_ = at.tile;
        }
        const Pipes pipes = WithRates({Max(chip().load_rate, cores * chip().read_share),
                                       Max(chip().hot_rate, cores * chip().again_share),
                                       Max(chip().load_rate, cores * chip().same_share),
                                       Max(chip().load_rate, cores * chip().shared_share),
                                       Max(chip().store_rate, cores * chip().write_share)});
        const int64_t pipeline = SaturatingAdd(pipes.once + pipes.exposed, SaturatingMul(per_core, pipes.period));
        return Total(at, cores, Min(pipeline, kMostTicks) + Tails(at, per_core, cores));
    }

private:
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

    // What is copied in rows of one kind.
    struct Flow {
        int64_t billed_row;  // what each row of every length counts for, or 0 if that depends on it
        int64_t billed;      // bytes that one copy counts for with the length at hand
        int64_t cold;        // loads from memory, ...
        int64_t hot;         // ... from L2, ...
        int64_t together;    // ... and of all cores, ...
        int64_t places;      // ... which start at so many places
    };

    // What all copies together ask of GM, and cores that do not disturb each other.
    struct Moved {
        int64_t gm;
        int64_t free;
    };

    // Rates of loads, from memory, from L2, of all cores at the same time and from different places, and of stores.
    struct Rates {
        int64_t memory;
        int64_t again;
        int64_t same;
        int64_t shared;
        int64_t store;
    };

    AUTOFUSE_INLINE const Form& form() const
    {
        return Source::Shape(form_);
    }

    AUTOFUSE_INLINE const Chip& chip() const
    {
        return Source::Figures(granted_);
    }

    // `each` of the indices below `count`, a member of the form.
    template <typename Each>
    AUTOFUSE_INLINE static void Repeat(int count, const Each& each)
    {
        if constexpr (Source::kUnrolled) {
            AUTOFUSE_UNROLL
            for (int i = 0; i < count; ++i) {
                each(i);
            }
        } else {
            for (int i = 0; i < count; ++i) {
                each(i);
            }
        }
    }

    // A number of the form.
    AUTOFUSE_INLINE int64_t Value(int64_t number) const
    {
        return number < Number(kMostNumbers) ? numbers_[number - Number(0)] : number;
    }

    AUTOFUSE_INLINE Line Value(const Line& line) const
    {
        return {Value(line.base), Value(line.step)};
    }

    AUTOFUSE_INLINE const Body& BodyOf(int copy) const
    {
        return form().body[form().row[form().copy[copy].rows].body];
    }

    AUTOFUSE_INLINE bool Varies(int i) const
    {
        return Value(form().copy[i].varies) != 0;
    }

    AUTOFUSE_INLINE uint64_t Tiled(int i) const
    {
        return static_cast<uint64_t>(Value(form().row[i].tiled));
    }

    AUTOFUSE_INLINE uint64_t Aligned(int i) const
    {
        return static_cast<uint64_t>(Value(form().row[i].aligned) | chip().line);
    }

    AUTOFUSE_INLINE bool HasFewLoops() const
    {
        int loops = 0;
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED { loops += form().body[b].place == kOnce ? 0 : 1; });
        return loops <= kFewLoops;
    }

    // Whether calls go over their elements more often in longer tiles.
    AUTOFUSE_INLINE bool Goes(int i) const
    {
        return form().call[i].along.step != 0;
    }

    // Times that a running sum goes over its elements.
    static int64_t Times(int64_t along)
    {
        return 1 + BitLength(Max(along - 1, 0));
    }

    // Ticks of the loads of a body for one row, where its length is the same for all tiles; no more than they take.
    AUTOFUSE_INLINE int64_t LoadOfRow(int body) const
    {
        int64_t ticks = 0;
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            const Rows& r = form().row[i];
            if (r.body == body && r.loads != 0 && r.rows.step != 0 && r.row_bytes.step == 0) {
                const int64_t off = chip().line - LowBit(Aligned(i));
                const int64_t billed = BilledRow(chip(), Value(r.row_bytes.base), 1, off);
                const int64_t rate = Hot(i) ? Min(chip().load_rate, chip().hot_rate) : chip().load_rate;
                ticks += r.loads * Value(r.rows.step) * (billed * rate >> kTickShift);
            }
        });
        return ticks;
    }

    // Whether rows may come from L2: some of what is loaded was loaded before.
    AUTOFUSE_INLINE bool Hot(int rows) const
    {
        bool hot = false;
        Repeat(form().copies, [&](int i) AUTOFUSE_INLINED {
            const Copies& c = form().copy[i];
            const bool once = c.each == 0 && c.whole == c.distinct;
            hot = hot || (c.rows == rows && c.route != kWrite && (c.route == kAgain || !once));
        });
        return hot;
    }

    AUTOFUSE_INLINE void SetBilledRow(int i)
    {
        flow_[i].billed_row = 0;
        if (form().row[i].row_bytes.step == 0) {
            const int64_t row = Value(form().row[i].row_bytes.base);
            const uint64_t unit = static_cast<uint64_t>(LowBit(Aligned(i)));
            if (row >= kDmaBlock && (Tiled(i) & (unit - 1)) == 0) {
                flow_[i].billed_row = BilledRow(chip(), row, 1, chip().line - static_cast<int64_t>(unit));
            }
        }
    }

    // Bytes that a copy counts for.
    AUTOFUSE_INLINE int64_t Billed(int i, int64_t rows) const
    {
        const Rows& r = form().row[i];
        if (r.row_bytes.step == 0 && flow_[i].billed_row != 0) {
            return rows * flow_[i].billed_row;
        }
        const int64_t off = chip().line - LowBit(Aligned(i) | Tiled(i) * at_.apart);
        return rows * BilledRow(chip(), Value(r.row_bytes).At(at_.length), rows, off);
    }

    // Ticks of a tile, all of which together are no overflow.
    static int64_t AtMost(int64_t period, int64_t tiles)
    {
        return SaturatingMul(tiles, period) > kMostTicks ? kMostTicks / tiles : period;
    }

    // The pipes of a core that no other one disturbs, for the length at hand.
    AUTOFUSE_INLINE Pipes Undisturbed()
    {
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED { ticks_[b] = {0, vector_[b].At(at_.length), 0}; });
        Repeat(form().calls, [&](int i) AUTOFUSE_INLINED {
            const Calls& v = form().call[i];
            if (Goes(i)) {
                const int64_t times = Times(Value(v.along).At(at_.length));
                ticks_[v.body].vector += Value(v.cycles).At(at_.length) * times;
            }
        });
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED {
            ticks_[b].vector = form().body[b].heads + (ticks_[b].vector >> kTickShift);
        });
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            const Rows& r = form().row[i];
            const int64_t rows = Max(Value(r.rows).At(at_.length), 1);
            const int64_t commands = Value(r.commands).At(at_.length);
            const int64_t further = chip().row * Max(rows - commands, 0);
            ticks_[r.body].load += r.loads * (further + chip().load_issue * commands);
            ticks_[r.body].store += r.stores * (further + chip().store_issue * commands);
            flow_[i].billed = Billed(i, rows);
        });
        return WithRates(
            {chip().load_rate, chip().hot_rate, chip().load_rate, chip().load_rate, chip().store_rate});
    }

    // What the loads of the length at hand take, no more than its tiles do.
    AUTOFUSE_INLINE void SetLoads(const Length& at)
    {
        const Rates shares = {chip().read_share, chip().again_share, chip().same_share, chip().shared_share, 0};
        int64_t loaded[Form::kBodyLimit] = {};
        AddLoads(shares, loaded);
        loads_ = {};
        loads_.tile = at.tile;
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED {
            const int64_t share = loaded[b] >> kTickShift;
            if (form().body[b].place == kOnce) {
                loads_.once_share += share;
                loads_.once += (share + 1) * chip().load_rate / chip().same_share + 1;
            } else {
                const int64_t times = form().body[b].place == kStep ? at_.steps : 1;
                const int64_t wait = (form().body[b].loads ? chip().latency : 0) + ticks_[b].vector;
                loads_.issue = SaturatingAdd(loads_.issue, SaturatingMul(times, ticks_[b].load));
                loads_.share = SaturatingAdd(loads_.share, SaturatingMul(times, share));
                loads_.wait = SaturatingAdd(loads_.wait, SaturatingMul(times, wait - 1));
            }
        });
        loads_.issue = Min(loads_.issue, at.period);
        loads_.share = Min(loads_.share, at.period);
        loads_.wait = Min(loads_.wait, 2 * at.period);
    }

    // The same for the last tile of the axis, which is seldom asked for.
    __attribute__((noinline)) Pipes OfLast(int64_t length)
    {
        at_.length = length;
        return Undisturbed();
    }

    // Whether something is cut into rows the length of which is that of a tile.
    AUTOFUSE_INLINE bool Cuts() const
    {
        bool cuts = false;
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            const Rows& r = form().row[i];
            cuts = cuts || (r.row_bytes.step != 0 && (r.rows.base != 1 || r.rows.step != 0));
        });
        return cuts;
    }

    // Adds what the loads of a run of every body take with these rates, in 2^-14 ticks.
    AUTOFUSE_INLINE void AddLoads(const Rates& rates, int64_t* loaded) const
    {
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            const Rows& r = form().row[i];
            const Flow& flow = flow_[i];
            if (r.loads != 0 && form().body[r.body].place == kOnce) {
                loaded[r.body] += r.loads * flow.billed * rates.same;
            } else if (r.loads != 0) {
                const int64_t together = flow.billed * flow.together;
                const int64_t in_order = !apart_ || flow.places == 1 ? together : together / flow.places;
                loaded[r.body] += flow.billed * (flow.cold * rates.memory + flow.hot * rates.again) +
                                  in_order * rates.same + (together - in_order) * rates.shared;
            }
        });
    }

    // The pipes of one core with these rates.
    AUTOFUSE_INLINE Pipes WithRates(const Rates& rates) const
    {
        int64_t loaded[Form::kBodyLimit] = {};
        int64_t stored[Form::kBodyLimit] = {};
        AddLoads(rates, loaded);
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            stored[form().row[i].body] += form().row[i].stores * flow_[i].billed;
        });
        Pipes pipes;
        Repeat(form().bodies, [&](int b) AUTOFUSE_INLINED {
            BodyTicks ticks = ticks_[b];
            ticks.load += loaded[b] >> kTickShift;
            ticks.store += stored[b] * rates.store >> kTickShift;
            Pass(form().body[b], ticks, &pipes);
        });
        return pipes;
    }

    // Adds a body to the pipes.
    AUTOFUSE_INLINE void Pass(const Body& body, const BodyTicks& ticks, Pipes* pipes) const
    {
        const int64_t loaded = (body.loads ? chip().latency : 0) + ticks.load;
        const int64_t all = loaded + ticks.vector + ticks.store;
        const int64_t alone = Max(all, body.scalar);
        if (body.place == kOnce) {
            pipes->once += alone;
            return;
        }
        const int64_t times = body.place == kStep ? at_.steps : 1;
        if (times > 0) {
            const int64_t wait = body.chained ? all : Max(loaded, ticks.store) + ticks.vector;
            const int64_t busiest = Max(Max(ticks.load, ticks.vector), Max(ticks.store, body.scalar));
            const int64_t period = Max(busiest, wait >> (body.buffers - 1));
            pipes->period = SaturatingAdd(pipes->period, times == 1 ? period : SaturatingMul(times, period));
            pipes->exposed = Max(pipes->exposed, alone - period);
            pipes->rest = Max(pipes->rest, loaded - ticks.load + ticks.vector);
        }
    }

    // Bytes of one run of what is read again, for all cores.
    AUTOFUSE_INLINE int64_t Footprint(int i, int64_t tiles) const
    {
        const int64_t most = Max(Min(tiles, granted_.cores), 1);
        const Line footprint = Value(form().copy[i].footprint);
        return SaturatingMul(footprint.At(at_.length) * most, Max(at_.steps, 1));
    }

    // Whether L2 still has all that is read again.
    AUTOFUSE_INLINE bool Held(int64_t tiles) const
    {
        bool held = true;
        Repeat(form().copies, [&](int i) AUTOFUSE_INLINED {
            if (form().copy[i].route == kAgain) {
                held = held && Footprint(i, tiles) <= chip().l2;
            }
        });
        return held;
    }

    // What all copies together ask of GM, but for what cores load together from several places.
    void Move(int64_t tiles, bool several)
    {
        known_ = true;
        apart_ = false;
        several_ = several;
        const int64_t most = Max(Min(tiles, granted_.cores), 1);
        const int64_t steps = SaturatingMul(tiles, at_.steps);
        // Every core goes through all tiles of the axis, again and again.
        const bool rounds = !axis_.looped && axis_.outer >= granted_.cores;
        int64_t read = 0;
        int64_t again = 0;
        int64_t same = 0;
        int64_t same_core = 0;
        int64_t written = 0;
        int64_t cached = 0;
        int64_t streamed = 0;
        int64_t free = kUnlimited;
        Repeat(form().rows, [&](int i) AUTOFUSE_INLINED {
            flow_[i].cold = flow_[i].hot = flow_[i].together = 0;
            flow_[i].places = 1;
        });
        Repeat(form().copies, [&](int i) AUTOFUSE_INLINED {
            const Copies& c = form().copy[i];
            const Body& body = BodyOf(i);
            Flow& flow = flow_[c.rows];
            staggered_[i] = 0;
            const int64_t each = Value(c.each);
            const int64_t runs = body.place == kOnce ? 0 : body.place == kTile ? tiles : steps;
            const int64_t whole = SaturatingAdd(Value(c.whole), SaturatingMul(each, runs));
            const int64_t moved = c.count * Min(whole, kUnlimited / 64);
            const int64_t distinct = Min(c.count * Value(c.distinct), moved);
            cached = SaturatingAdd(cached, distinct);
            if (c.route == kWrite) {
                written = SaturatingAdd(written, moved);
                free = Min(free, chip().store_rate / chip().write_share);
            } else if (body.place == kOnce || (most > 1 && !Varies(i) && (rounds || !(c.varies_by_tile && several)))) {
                // All cores read one tensor.
                flow.together += c.count;
                if (HasPlaces(i)) {
                    apart_ = true;
                    staggered_[i] = moved;
                } else {
                    same = SaturatingAdd(same, moved);
                }
                free = Min(free, chip().load_rate / chip().same_share);
                same_core += body.place == kOnce ? c.count * each : 0;
            } else {
                int64_t hit = moved - distinct;
                if (hit > 0) {
                    const int64_t held = c.route == kAgain ? Footprint(i, tiles) : distinct;
                    if (held > chip().l2) {
                        hit = Scale(hit, (chip().l2 << kShareBits) / held, kShareBits);
                    }
                }
                const bool hot = moved > distinct && 2 * hit >= moved;
                (hot ? flow.hot : flow.cold) += c.count;
                free = Min(free, hot ? chip().hot_rate / chip().again_share : chip().load_rate / chip().read_share);
                read = SaturatingAdd(read, moved - hit);
                again = SaturatingAdd(again, hit);
                streamed = SaturatingAdd(streamed, c.route == kStream ? distinct : 0);
            }
        });
        same_ = same;
        int64_t gm = SaturatingAdd(Ticks(read, chip().read_share), Ticks(again, chip().again_share));
        gm = SaturatingAdd(gm, Ticks(written, chip().write_share));
        if (cached > chip().l2) {
            cached -= streamed;
        }
        if (cached > chip().l2) {
            const int64_t spilled = written - Scale(written, (chip().l2 << kShareBits) / cached, kShareBits);
            gm = SaturatingAdd(gm, Ticks(spilled, chip().writeback_share));
        }
        gm_ = gm;
        alike_ = {Min(SaturatingAdd(gm, Ticks(same, chip().same_share)), kMostTicks), free};
        gm_core_ = Min(Ticks(same_core, chip().same_share), kMostTicks >> kCoreBits);
    }

    // Whether cores may start at several places of what all of them load.
    AUTOFUSE_INLINE bool HasPlaces(int i) const
    {
        return BodyOf(i).staggered || (form().copy[i].varies_by_tile && BodyOf(i).place != kOnce);
    }

    // With what all cores load from several places: those that start at the same place do so in the same order.
    AUTOFUSE_INLINE Moved Stagger(int64_t tiles, int64_t pieces)
    {
        if (!apart_) {
            return alike_;
        }
        const int64_t most = Max(Min(tiles, granted_.cores), 1);
        int64_t same = same_;
        int64_t shared = 0;
        int64_t free = alike_.free;
        Repeat(form().copies, [&](int i) AUTOFUSE_INLINED {
            if (HasPlaces(i) && staggered_[i] != 0) {
                const int64_t places = Max(Min(BodyOf(i).staggered ? at_.steps : pieces, most), 1);
                flow_[form().copy[i].rows].places = places;
                const int64_t in_order = staggered_[i] / places;
                same = SaturatingAdd(same, in_order);
                shared = SaturatingAdd(shared, staggered_[i] - in_order);
                free = places == 1 ? free : Min(free, chip().load_rate / chip().shared_share);
            }
        });
        const int64_t together = SaturatingAdd(Ticks(same, chip().same_share), Ticks(shared, chip().shared_share));
        return {Min(SaturatingAdd(gm_, together), kMostTicks), free};
    }

    static int64_t Ticks(int64_t bytes, int64_t share)
    {
        return bytes == 0 ? 0 : Scale(bytes, share, kTickShift);
    }

    const Form& form_;
    const int64_t* const numbers_;
    const TileAxis& axis_;
    const Chip& granted_;
    At at_ = {};                 // the length at hand
    int64_t row_step_ = kDmaBlock;  // bytes of a row per element of t, the fewest of what is cut into several; no more
    bool constant_ = true;       // what is moved does not depend on the length, as long as there are several tiles, ...
    bool whole_alike_ = true;    // ... or at all
    bool known_ = false;         // ticks of GM are known, ...
    bool held_ = false;          // ... with L2 that has what is read again, ...
    bool several_ = false;       // ... with several tiles
    bool apart_ = false;         // cores may start at several places of what all of them load
    Moved alike_ = {};           // without what is loaded from several places
    int64_t gm_ = 0;             // ticks of GM, but for what all cores read
    int64_t same_ = 0;           // bytes that all cores read in the same order
    int64_t gm_core_ = 0;
    int64_t crowded_ = 0;        // the length of the last choice with cores that disturb each other
    BodyTicks ticks_[Form::kBodyLimit];  // of the length at hand, without those of bytes
    Flow flow_[Form::kRowsLimit];
    int64_t staggered_[Form::kCopyLimit];  // bytes of a copy that all cores load, from several places
    Line vector_[Form::kBodyLimit];      // cycles of all calls but those that go over their elements more often
};

}  // namespace autofuse

#endif
