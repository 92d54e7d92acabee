// Looks for the best tile, tiles per core and cores of one template, by the costs of autofuse_tile_cost.h.  No float.
//
// It looks at a long tile and its halves first.  About the best choice so far it then looks at the lengths next to it, at those
// with which a number of cores have so many tiles each, and at equal pieces of an axis; with each length at all tiles per core
// that may be better.  schedule/tile_search.py does the same in the same order.
#ifndef AUTOFUSE_TILE_SEARCH_H
#define AUTOFUSE_TILE_SEARCH_H

#include <stdint.h>

#include "autofuse_length_costs.h"
#include "autofuse_math.h"
#include "autofuse_tile_arithmetic.h"
#include "autofuse_tile_form.h"

namespace autofuse {

// Looks for the choice of the least cost among lengths of at most `largest`, a legal one.
class Search {
public:
    // `costs` of the template; `tiled`: distances of tiles in GM per element of their length, or-ed.
    Search(LengthCosts& costs, uint64_t tiled, const TileAxis& axis, const Chip& chip, int64_t largest)
        : axis_(axis), chip_(chip), largest_(largest), costs_(costs),
          few_(largest <= (axis.looped ? kFewLooped : kFew) * axis.granule),
          element_wise_(axis.granule >= kLong && !axis.looped && axis.outer <= 1 && axis.reduce_outer <= 1)
    {
        const uint64_t line = static_cast<uint64_t>(chip.line);
        const uint64_t distances = tiled * static_cast<uint64_t>(axis.granule);
        line_ = distances == 0 ? axis.granule : axis.granule * (chip.line / LowBit(line | distances));
    }

    // The best of a few lengths that are far apart, or of the first ones where these cost far more than `least`.
    const Tile& Spread(int64_t least)
    {
        least_ = least;
        int most = few_ ? kWorseFew : axis_.looped || axis_.granule >= kLong ? 0 : kWorseHalves;
        if (axis_.looped && !few_ && largest_ < axis_.extent && axis_.extent <= kShortAxis) {
            most = kWorseShort;
        }
        int64_t t = largest_;
        if (!few_ && !axis_.looped && axis_.outer <= 1) {
            // Longer ones would leave the axis to fewer cores; halves of these keep as many busy.
            const int64_t pieces = Max(chip_.cores / kFirstCores, 1);
            const int64_t fewest = Max(Pieces(axis_.extent, largest_), 1);
            t = Pieces(axis_.extent, pieces << BitLength(Pieces(fewest, pieces) - 1));
            t = Round(axis_.granule < kLong ? Max(t, kFirst * axis_.granule) : t, line_);
        }
        if (axis_.looped) {
            // A core that goes through all tiles takes longer for longer ones, as long as they are as many.
            t = Round(Pieces(axis_.extent, Max(Pieces(axis_.extent, t), 1)), axis_.granule);
        }
        int worse = 0;
        for (int i = 0; i < kMost; ++i) {
            const int64_t before = best_.cost;
            // Where one core goes through all of an axis, all lengths make as many tiles.
            TryLength(t, axis_.looped ? best_.block_dim : 0);
            if (Hopeless(before)) {
                return best_;
            }
            worse = best_.cost == before ? worse + 1 : 0;
            if (worse > most) {
                break;
            }
            int64_t next = 0;
            if (few_) {
                next = Shorter(t, axis_.granule);
            } else {
                next = Round(t / 2, line_);
                next = next > t - t / 4 ? Round(t / 2, axis_.granule) : next;
            }
            if (next >= t) {
                break;
            }
            t = next;
        }
        if (axis_.granule == 1 && !axis_.looped) {
            TryLength(1, 0);  // one row by itself may be cheaper than a few short ones
        }
        if (axis_.looped) {
            TryLength(largest_, best_.block_dim);  // it may start at lines where equal pieces do not
        }
        if (axis_.looped || axis_.outer > 1) {
            const int64_t fewest = Max(Pieces(axis_.extent, largest_), 1);
            for (int64_t pieces = fewest; pieces < fewest + kEven; ++pieces) {
                TryLength(Round(Pieces(axis_.extent, pieces), axis_.granule), 0);
            }
        }
        return best_;
    }

    // The best with the longest tile too, of cores that share one axis: the halves begin below it, and heads of calls make it
    // the best where the vector unit limits.
    const Tile& Longest()
    {
        if (element_wise_ && !few_) {
            TryLength(largest_, 0);
        }
        return best_;
    }

    // From there on to what is better nearby.
    const Tile& Refine()
    {
        if (few_) {
            return best_;  // nothing is left to try
        }
        for (int round = 0; round < kRounds; ++round) {
            const int64_t before = best_.cost;
            const bool is_long = best_.size > (axis_.granule >= kLong ? kManyLong : kManyShort) * axis_.granule;
            if (axis_.looped) {
                NearPieces(kPiecesLooped);
                NearLengths(line_ > axis_.granule ? kReachLooped : kReachShort, kWorse);
            } else {
                if (best_.per_core == 1) {
                    NearLengths(kReachOne, axis_.granule >= kLong ? kWorseOne : kWorse);
                } else {
                    NearLengths(kReach, kWorse);
                }
                if (!SparesCores()) {
                    if (is_long) {
                        NearRoot();
                        NearShares();
                    }
                    FewerTiles();
                }
                if (axis_.outer > 1) {
                    NearPieces(kPieces);
                }
            }
            if (before - best_.cost <= before >> kLittle) {
                break;
            }
        }
        return best_;
    }

private:
    static constexpr int64_t kFew = 12;        // where there are at most so many lengths, all are tried, ...
    static constexpr int64_t kFewLooped = 10;
    static constexpr int kMost = 16;           // ... else halves of a long one, but no more than this
    static constexpr int64_t kLong = 64;       // granules from which on one more of them matters little
    static constexpr int kWorseHalves = 3;     // halves in a row that are no better, before no further ones are tried, ...
    static constexpr int kWorseFew = 5;        // ... and where all lengths are
    static constexpr int64_t kShortAxis = 64;  // an axis that a core goes through in several tiles, whose number makes more
    static constexpr int kWorseShort = 1;      // of a difference than that of a longer one: halves no better that are passed
    static constexpr int64_t kFirstCores = 4;  // they start with a tile for one of so many cores, where cores share an axis
    static constexpr int64_t kFirst = 8;       // or with so many short granules, if that is longer
    static constexpr int64_t kEven = 2;        // numbers of equal pieces of an axis that are tried, the fewest first
    static constexpr int kRounds = 2;          // searches about the best choice so far, ...
    static constexpr int kLittle = 10;         // the next one only if the last has gained more than 2^-10
    static constexpr int kReach = 8;           // lengths to both sides ...
    static constexpr int kReachOne = 2;        // with one tile per core
    static constexpr int kReachLooped = 2;
    static constexpr int kReachShort = 4;      // ... and of those that do not start at lines, for short granules, ...
    static constexpr int kReachLong = 1;       // ... and for long ones with several tiles per core
    static constexpr int kWorse = 6;           // in a row that are no better, before no further ones are tried, ...
    static constexpr int kWorseOne = 1;        // ... with one tile per core and long granules
    static constexpr int64_t kManyLong = 24;   // granules of a tile, short and long ones, from which on the lengths next to
    static constexpr int64_t kManyShort = 8;   // it are too close to it
    static constexpr int64_t kRootTiles = 4;   // tiles per core up to which a root tells the number of cores ...
    static constexpr int64_t kRootCores = 1;   // ... but for so many
    static constexpr int64_t kShareCores = 1;  // cores more and less, ...
    static constexpr int64_t kShareTiles = 2;  // ... and tiles per core
    static constexpr int64_t kPieces = 4;      // pieces more and less
    static constexpr int64_t kPiecesLooped = 8;
    static constexpr int kWorsePieces = 4;     // numbers of pieces in a row that are no better
    static constexpr int64_t kAround = 40;     // tiles per core, or cores, more and less with one length
    static constexpr int64_t kVain = 7;        // numbers of fewer cores in a row that are no better, before no further ones, ...
    static constexpr int64_t kVainMore = 4;    // ... and of more cores that cannot be, ...
    static constexpr int64_t kVainCrowded = 6; // ... or are not, of element-wise kernels
    static constexpr int64_t kSpared = 8;      // a part of the cores that are idle because no more of them would help
    static constexpr int kSlotBits = 8;        // of a table that remembers lengths, with a bit of slots_ for each slot

    // Whether lengths cost far more than another template and do not get better soon.
    bool Hopeless(int64_t before) const
    {
        if (axis_.looped) {
            return FarFrom(best_.cost);
        }
        if (few_) {  // no length is so many times as short
            return before == kUnlimited && best_.cost / Pieces(largest_, axis_.granule) > least_;
        }
        return best_.cost / 2 > least_ && before - best_.cost < before / 4;
    }

    // Whether one length tells as much: where one core goes through all of an axis, others are hardly better.
    bool FarFrom(int64_t cost) const
    {
        return axis_.looped && cost - cost / 7 * 2 > least_;
    }

    // Whether the best choice of an element-wise kernel leaves cores idle, since GM is busy or starting them takes too long, with
    // the others in reach: then as many tiles on each gain nothing.
    bool SparesCores() const
    {
        const int64_t idle = chip_.cores - best_.block_dim;
        return element_wise_ && idle > chip_.cores / kSpared && idle <= kAround;
    }

    void NearLengths(int reach, int most)
    {
        const bool is_short = axis_.granule < kLong;
        const bool has_lines = line_ > axis_.granule;
        if (has_lines || (is_short && axis_.granule > 1)) {
            const int64_t near = best_.size;
            if (is_short || best_.per_core > 1) {
                Walk(near, axis_.granule, is_short ? kReachShort : kReachLong, kWorse);
                Walk(near, -axis_.granule, is_short ? kReachShort : kReachLong, kWorse);
            }
            for (int64_t part = 2 * axis_.granule; part < Min(line_, near + 1); part *= 2) {
                TryLength(Round(near, part), best_.block_dim);
            }
            if (!has_lines) {
                return;
            }
        }
        const int64_t near = best_.size;
        if (line_ <= near) {
            Walk(near, line_, reach, most);
            Walk(near, -line_, reach, most);
        }
    }

    // So many lengths in one direction, until the most in a row are no better.
    void Walk(int64_t t, int64_t step, int reach, int most)
    {
        int worse = 0;
        for (int i = 0; i < reach && worse < most && (step < 0 ? t > -step : t < largest_); ++i) {
            const int64_t before = best_.cost;
            t = step < 0 ? Shorter(t, -step) : Longer(t, step);
            TryLength(t, best_.block_dim);
            worse = best_.cost < before ? 0 : worse + 1;
        }
    }

    // The next length by at least a step that makes other pieces of the axis, the shortest that makes as many: a longer one
    // takes longer for each of them.
    int64_t Shorter(int64_t t, int64_t step) const
    {
        const int64_t pieces = Pieces(axis_.extent, Max(t - step, 1));
        return pieces == 0 ? 1 : Round(Pieces(axis_.extent, pieces), step);
    }

    int64_t Longer(int64_t t, int64_t step) const
    {
        const int64_t pieces = Min(Pieces(axis_.extent, t + step), Pieces(axis_.extent, t) - 1);
        return pieces < 1 ? largest_ : Round(Pieces(axis_.extent, pieces), step);
    }

    // With few tiles per core the pipes take `a + b t` ticks: with c cores the cost is least at the root of what follows.
    void NearRoot()
    {
        const Tile near = best_;
        const int64_t other = 2 * near.size <= largest_ ? 2 * near.size : near.size / 2;
        if (near.per_core > kRootTiles || other == 0) {
            return;
        }
        const Length here = costs_.Fill(near.size);
        const Length there = costs_.Fill(other);
        const int64_t once_more = there.once - here.once;
        const int64_t period_more = there.period - here.period;
        const int64_t all = SaturatingMul(axis_.extent, axis_.outer);
        for (int64_t k = Max(near.per_core - 1, 1); k <= near.per_core + 1; ++k) {
            const int64_t rise = FloorDiv(once_more + k * period_more, other - near.size);
            if (rise > 0) {
                const int64_t cores = Root(SaturatingMul(rise, all) / (k * chip_.core_start), chip_.cores);
                for (int64_t c = cores - kRootCores; c <= cores + kRootCores; ++c) {
                    TryShare(c, k);
                }
            }
        }
    }

    void NearShares()
    {
        const Tile near = best_;
        for (int64_t c = near.block_dim - kShareCores; c <= near.block_dim + kShareCores; ++c) {
            TryShares(c, near.per_core);
        }
        if (chip_.cores > near.block_dim + kShareCores) {
            TryShares(chip_.cores, near.per_core);
        }
    }

    // The same cores with one tile each, and with half as many; one tile for each core that GM can keep busy.
    void FewerTiles()
    {
        const Tile near = best_;
        if (near.per_core > 1) {
            TryShare(near.block_dim, 1);
            TryShare(near.block_dim, near.per_core / 2);
        }
        const int64_t busy = (chip_.load_rate + chip_.read_share / 2) / chip_.read_share;
        TryShare(Min(busy, near.block_dim), 1);
    }

    void TryShares(int64_t cores, int64_t near)
    {
        for (int64_t k = near - kShareTiles; k <= near + kShareTiles; ++k) {
            TryShare(cores, k);
        }
    }

    // The length for which every one of the cores gets so many tiles.
    void TryShare(int64_t cores, int64_t per_core)
    {
        if (per_core < 1 || cores < 1 || cores > chip_.cores) {
            return;
        }
        const int64_t tiles = SaturatingMul(per_core, cores);
        const int64_t pieces = axis_.outer > 1 ? Max(tiles / axis_.outer, 1) : tiles;
        TryLength(Round(Pieces(axis_.extent, pieces), axis_.granule), best_.block_dim);
    }

    void NearPieces(int64_t reach)
    {
        const int64_t pieces = Max(Pieces(axis_.extent, best_.size), 1);
        const int most = axis_.looped && axis_.granule > 1 ? kWorseOne : kWorsePieces;
        TryPieces(pieces);
        for (int64_t step = 1; step >= -1; step -= 2) {
            int worse = 0;
            for (int64_t d = 1; d <= reach && worse < most && pieces + step * d >= 1; ++d) {
                const int64_t before = best_.cost;
                TryPieces(pieces + step * d);
                worse = best_.cost == before ? worse + 1 : 0;
            }
        }
        TryPieces(2 * pieces);
    }

    void TryPieces(int64_t pieces)
    {
        const int64_t t = Pieces(axis_.extent, pieces);
        TryLength(Round(t, axis_.granule), best_.block_dim);
        if (line_ > axis_.granule) {
            TryLength(Round(t, line_), best_.block_dim);
        }
    }

    // A length, with about so many cores, or if that is 0 with those of a closed form, and with others from there on in
    // both directions as long as they may be better than the best so far.
    void TryLength(int64_t t, int64_t about)
    {
        const uint64_t slot = (static_cast<uint64_t>(t) * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - kSlotBits);
        uint64_t& slots = slots_[slot / 64];
        if ((slots >> slot % 64 & 1) != 0 && seen_[slot] == t) {
            return;
        }
        seen_[slot] = t;
        slots |= UINT64_C(1) << slot % 64;
        const Length at = costs_.Fill(t);
        const int64_t tiles = at.tiles;
        if (tiles == 0) {
            Keep({t, 1, 1, chip_.core_start});
            return;
        }
        const int64_t most = about > 0 ? about : Closed(at);
        const int64_t k = tiles <= most ? 1 : Pieces(tiles, most);
        const int64_t cores = k == 1 ? tiles : Pieces(tiles, k);
        const int64_t fewest = tiles <= chip_.cores ? 1 : Pieces(tiles, chip_.cores);
        if (best_.block_dim == 0) {
            best_ = {t, k, cores, kUnlimited};  // legal, whatever it costs
            Try(at, fewest, Pieces(tiles, fewest));
        }
        Try(at, k, cores);
        int64_t vain = 0;
        for (int64_t d = 1; d <= kAround; ++d) {  // fewer cores, until the pipes take too long
            const int64_t more = k <= cores ? k + d : cores > d ? Pieces(tiles, cores - d) : tiles + 1;
            if (more > tiles || at.once + more * at.period >= best_.cost || vain == kVain) {
                break;
            }
            const int64_t before = best_.cost;
            Try(at, more, Pieces(tiles, more));
            vain = best_.cost == before ? vain + 1 : 0;
        }
        const int64_t always = Max(at.gm, at.once + fewest * at.period);
        vain = 0;
        int64_t worse = 0;
        for (int64_t d = 1; d <= kAround; ++d) {  // more cores, until they take too long to start
            const int64_t fewer = k <= cores ? k - d : Pieces(tiles, cores + d);
            if (fewer < 1 || vain == kVainMore || (worse == kVainCrowded && element_wise_)) {
                break;
            }
            const int64_t used = Pieces(tiles, fewer);
            if (used > chip_.cores || always + chip_.core_start * used >= best_.cost) {
                break;
            }
            const int64_t before = best_.cost;
            vain = Try(at, fewer, used) ? 0 : vain + 1;
            worse = best_.cost == before ? worse + 1 : 0;
        }
    }

    // Cores: the root of work over the start of a core, or as few as GM keeps busy.
    int64_t Closed(const Length& at) const
    {
        const int64_t work = at.tiles * at.period;
        const int64_t cores = Root(work / Max(chip_.core_start, 1), chip_.cores);
        const int64_t hidden = at.gm - at.once;
        if (hidden < at.period || at.period == 0) {
            return cores;
        }
        return Min(cores, Pieces(at.tiles, Min(hidden / at.period, at.tiles)));
    }

    // Whether the choice would be better than the best so far if cores did not disturb each other.
    bool Try(const Length& at, int64_t per_core, int64_t cores)
    {
        int64_t cost = costs_.AtLeast(at, per_core, cores);
        if (cost >= best_.cost) {
            return false;
        }
        if (cores > at.free && !FarFrom(cost)) {
            cost = Crowded(at, per_core, cores);
        }
        Keep({at.tile, per_core, cores, cost});
        return true;
    }

    // What a choice costs with cores that disturb each other, or less if that is no better than the best so far.
    __attribute__((noinline)) int64_t Crowded(const Length& at, int64_t per_core, int64_t cores) const
    {
        const int64_t least = costs_.AtLeastCrowded(at, per_core, cores);
        return least < best_.cost ? costs_.Crowded(at, per_core, cores) : least;
    }

    void Keep(const Tile& found)
    {
        if (found.cost < best_.cost) {
            best_ = found;
        }
    }

    // A legal length: the next multiple of a step, the whole axis, or the largest.
    int64_t Round(int64_t t, int64_t step) const
    {
        return Min((Max(t, 1) + step - 1) & -step, Min(axis_.longest, largest_));
    }

    const TileAxis& axis_;
    const Chip& chip_;
    const int64_t largest_;
    LengthCosts& costs_;
    const bool few_;  // all lengths are tried
    const bool element_wise_;  // cores share one axis with long granules, and that is all
    int64_t line_;    // the shortest step of lengths with which tiles start at lines, as far as that depends on them
    Tile best_ = {1, 1, 0, kUnlimited};
    int64_t least_ = kUnlimited;  // what the best of other templates counts for
    uint64_t slots_[(1 << kSlotBits) / 64] = {};  // bits of the slots that hold a length; to fill all of these takes long
    int64_t seen_[1 << kSlotBits];
};

}  // namespace autofuse

#endif
