// Search for the tile of a template: the largest that fits UB, then a few dozen pairs of a length and a number of
// cores.
//
// autofuse itself calls these functions too, to rank templates.
#ifndef AUTOFUSE_TILE_SEARCH_H
#define AUTOFUSE_TILE_SEARCH_H

#include <stdint.h>

#include <algorithm>

#include "autofuse_math.h"
#include "autofuse_status.h"
#include "autofuse_tile_model.h"

namespace autofuse {

constexpr double kForever = __builtin_inf();
constexpr int kSeries = 16;          // decreasing lengths, each shorter than the previous one ...
constexpr int64_t kShorter = 4;      // ... by one part in this many
constexpr int64_t kShares = 4;       // numbers of tiles per core to derive a length from, starting with the fewest
constexpr int kMostLengths = 1 + kSeries + static_cast<int>(kShares);
constexpr int64_t kFewerOf[] = {3, 4};  // the next number of cores to try, as a fraction of the previous one
constexpr int64_t kFarther = 256;    // probes stay within this multiple of a length that fits
constexpr int kGuesses = 4;          // linear interpolations before bisection

struct Tile {
    int64_t size = 1;       // t
    int64_t per_core = 1;   // tiles of one core
    int64_t block_dim = 1;  // cores
    double cycles = 0;
};

// Bytes of UB that a template needs with tiles of `size`.
struct UbOf {
    const void* sizes;
    int64_t (*ub)(const void* sizes, int64_t size);

    int64_t operator()(int64_t size) const
    {
        return ub(sizes, size);
    }
};

// The largest legal tile, or 0 if there is none: it fits UB and exceeds neither the axis nor the template's limit.
inline int64_t LargestTile(const Axis& axis, int64_t limit, const UbOf& ub)
{
    const int64_t whole = axis.longest;
    const int64_t top = Min(whole, axis.tile_max);
    if (whole <= Min(top, kFarther * axis.granule) && ub(whole) <= limit) {
        return whole;
    }
    const int64_t most = top / axis.granule;
    int64_t low_bytes = ub(Min(axis.granule, whole));
    if (most < 1 || whole <= axis.granule || low_bytes > limit) {
        return 0;
    }
    // In granules: `low` fits, `high` does not.  UB grows about linearly, so linear interpolation gets close.  A probe
    // is at most kFarther times a length that fits, so that ub is not called with absurd sizes.
    int64_t low = 1;
    int64_t high = most + 1;
    int64_t next = kFarther;
    for (int guesses = 0; high - low > 1; ++guesses) {
        next = Min(Max(next, low + 1), Min(high - 1, kFarther * low));
        const int64_t bytes = ub(next * axis.granule);
        const int64_t rise = bytes - low_bytes;
        int64_t left = 0;
        const bool guess = guesses < kGuesses && rise > 0 && !__builtin_mul_overflow(limit - low_bytes, next - low, &left);
        const int64_t guessed = guess ? low + left / rise : 0;
        low_bytes = bytes <= limit ? bytes : low_bytes;
        (bytes <= limit ? low : high) = next;
        next = guess ? guessed : high > most ? kFarther * low : low + (high - low) / 2;
    }
    const int64_t tile = low * axis.granule;
    return whole <= top && whole - tile < axis.granule && ub(whole) <= limit ? whole : tile;
}

// The shortest length whose multiples make tiles start at cache lines, as far as the length decides that.
inline int64_t LineStep(const Work& work, const Chip& chip)
{
    int64_t apart = 0;
    for (int i = 0; i < work.copies; ++i) {
        const Copy& c = work.copy[i];
        const int64_t distance = c.tiles_apart * work.axis.granule;
        if (distance != 0 && LowBit(chip.line | c.apart) > LowBit(chip.line | distance)) {
            apart |= distance;
        }
    }
    return apart == 0 ? work.axis.granule : work.axis.granule * (chip.line / LowBit(chip.line | apart));
}

// Collects the lengths to try, without duplicates; returns their number.
inline int FindLengths(const Work& work, const Chip& chip, int64_t largest, int64_t (&found)[kMostLengths])
{
    const Axis& axis = work.axis;
    int count = 0;
    // Adds the next legal length: a multiple of the step, the whole axis, or the largest.
    const auto add = [&](int64_t t, int64_t step) {
        t = Min(Pieces(Max(t, 1), step) * step, Min(axis.longest, largest));
        if (std::find(found, found + count, t) == found + count) {
            found[count++] = t;
        }
    };
    const int64_t line = LineStep(work, chip);
    int64_t t = largest;
    add(t, axis.granule);
    for (int i = 0; i < kSeries && t >= 1; ++i) {
        // The shortest that cuts the axis into as many pieces, or the next one that starts tiles at cache lines.
        const int64_t even = Pieces(axis.extent, Max(Pieces(axis.extent, t), 1));
        add(even, line <= even ? line : axis.granule);
        t -= Max(t / kShorter, axis.granule);
    }
    if (!axis.looped && axis.outer > 0) {
        // Lengths that give every core the same number of tiles.
        const int64_t fewest = Max(Pieces(axis.extent, largest), 1);
        const int64_t share = Max(Pieces(fewest * axis.outer, chip.cores), 1);
        for (int64_t tiles = share; tiles < share + kShares; ++tiles) {
            add(Pieces(axis.extent, Max(tiles * chip.cores / axis.outer, 1)), axis.granule);
        }
    }
    return count;
}

// Replaces `best` if tiles of length `t` take fewer cycles on some number of cores.
inline void TryLength(Model& model, const Chip& chip, int64_t t, Tile& best)
{
    model.SetTile(t);
    const int64_t tiles = model.Tiles();
    // From all cores down, until fewer cores take longer.  If the last tile takes longer than others, also try numbers
    // of cores that leave its core time for it.
    const int64_t fewest = Max(Pieces(tiles, chip.cores), 1);
    const int64_t last = fewest + model.Late();
    double shortest = kForever;
    for (int64_t per_core = fewest; per_core == fewest || per_core <= tiles;) {
        const int64_t cores = Max(Pieces(tiles, per_core), 1);
        const double least = model.LeastTime(per_core, cores);
        const double cycles = least < best.cycles ? model.Time(per_core, cores) : kForever;
        if (cycles < best.cycles) {
            best = {t, per_core, cores, cycles};
        }
        if (per_core > last && least >= shortest) {
            break;
        }
        shortest = std::min(shortest, least);
        ++per_core;
        if (per_core > last) {
            per_core = Max(per_core, Pieces(tiles, Max(cores * kFewerOf[0] / kFewerOf[1], 1)));
        }
    }
}

// The pair with the fewest cycles, the first of equals, with tiles of at most `largest`, a legal length.  If no pair
// takes fewer than `limit` cycles, the result has cycles == limit.
inline Tile BestTile(Work& work, const Chip& chip, int64_t largest, double limit)
{
    Model model(work, chip);
    Tile best;
    best.cycles = limit;
    int64_t lengths[kMostLengths];
    const int count = FindLengths(work, chip, largest, lengths);
    for (int i = 0; i < count; ++i) {
        TryLength(model, chip, lengths[i], best);
    }
    return best;
}

// Finds the best tile of a template, or returns why there is none.  `limit`: bytes of UB; `least`: cycles of another
// template, which this one has to beat.
#if defined(AUTOFUSE_SOLVER_APART)
// A separate translation unit, which defines AUTOFUSE_SOLVER_HERE, has the code: it is the same for all graphs.
Status SolveWork(Work& work, const Chip& chip, int64_t limit, const UbOf& ub, double least, Tile* found);
#else
#if !defined(AUTOFUSE_SOLVER_HERE)
inline
#endif
Status SolveWork(Work& work, const Chip& chip, int64_t limit, const UbOf& ub, double least, Tile* found)
{
    const int64_t largest = LargestTile(work.axis, limit, ub);
    if (largest == 0) {
        return kNoTile;
    }
    *found = BestTile(work, chip, largest, least);
    return kOk;
}
#endif

}  // namespace autofuse

#endif
