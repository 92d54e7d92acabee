// The largest tile that a template may have: it fits UB and is no longer than the axis and what the template bears.  No float.
// schedule/tile_limits.py finds the same.
#ifndef AUTOFUSE_TILE_LIMIT_H
#define AUTOFUSE_TILE_LIMIT_H

#include <stdint.h>

#include "autofuse_math.h"
#include "autofuse_tile_cost.h"

namespace autofuse {

constexpr int64_t kFarther = 256;  // times a length that fits, up to which UB is asked for
constexpr int kGuesses = 4;        // lengths of a tile along lines, before intervals are halved

// The largest legal tile, 0 if there is none.
template <typename Ub>
int64_t LargestTile(const TileAxis& axis, int64_t limit, const Ub& ub)
{
    const int64_t whole = axis.longest;
    const bool near = whole <= Min(axis.tile_max, kFarther * axis.granule);
    const int64_t whole_bytes = near ? ub(whole) : 0;
    if (near && whole_bytes <= limit) {
        return whole;
    }
    const int64_t most = Min(whole, axis.tile_max) / axis.granule;
    if (most < 1 || whole <= axis.granule) {
        return 0;
    }
    // In granules: `low` fits, `high` does not.  UB grows about linearly, so that a guess along a line through two points is
    // close; it goes no further than to so many times what fits, so that ub is not asked for absurd sizes.
    int64_t low = 1;
    int64_t low_bytes = ub(axis.granule);
    if (low_bytes > limit) {
        return 0;
    }
    int64_t high = near && most * axis.granule == whole ? most : most + 1;
    int64_t from = low;
    int64_t bytes = low_bytes;
    int64_t next = near && whole_bytes > bytes ? low + (limit - bytes) * most / (whole_bytes - bytes) : kFarther;
    for (int guesses = 0; high - low > 1; ++guesses) {
        next = Min(Max(next, low + 1), Min(high - 1, kFarther * low));
        const int64_t at = ub(next * axis.granule);
        const int64_t rise = at - bytes;
        const int64_t run = next - from;
        if (at <= limit) {
            low = next;
            low_bytes = at;
        } else {
            high = next;
        }
        next = high > most ? kFarther * low : low + (high - low) / 2;
        if (guesses < kGuesses && rise > 0) {
            next = low + SaturatingMul(limit - low_bytes, run) / rise;
            from = low;
            bytes = low_bytes;
        }
    }
    const int64_t tile = low * axis.granule;
    const bool nearly_all = !near && whole - tile < axis.granule && whole <= axis.tile_max;
    return nearly_all && ub(whole) <= limit ? whole : tile;
}

}  // namespace autofuse

#endif
