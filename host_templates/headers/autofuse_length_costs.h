// Costs of a template as the search for a tiling asks for them: what a length of a tile tells, and bounds and costs of the
// choices with it.  No float.  autofuse_tile_cost.h computes them.
#ifndef AUTOFUSE_LENGTH_COSTS_H
#define AUTOFUSE_LENGTH_COSTS_H

#include <stdint.h>

#include "autofuse_math.h"
#include "autofuse_tile_arithmetic.h"

namespace autofuse {

constexpr int kHiddenBits = 8;  // what is hidden, GM or the pipes, counts for a 256th

// What follows from the length of a tile alone.
struct Length {
    int64_t tile;
    int64_t tiles;    // that the cores share
    int64_t gm;       // ticks of GM for all cores, with those that it leaves to the pipes at least, ...
    int64_t gm_core;  // ... and more for every core
    int64_t free;     // so many cores do not disturb each other: their pipes take ...
    int64_t once;     // ... so many ticks ...
    int64_t period;   // ... and so many for each tile of a core
    int64_t tail;     // more of them for the last tile of the axis, if its rows are shorter than a block, ...
    int64_t behind;   // ... and those that it leaves unhidden where it is the last one of a core; ...
    int64_t every;    // ... one of so many tiles is such
};

// Costs of a template for given sizes: what follows from a length, and what tiles per core make of it.
class LengthCosts {
public:
    // What follows from a length, which is the one at hand until the next call.
    virtual Length Fill(int64_t t) = 0;

    // What it costs with the length at hand where more cores than are free share GM, so that each gets less of it.
    virtual int64_t Crowded(const Length& at, int64_t per_core, int64_t cores) = 0;

    // What a choice costs, with `per_core` tiles on each of `cores` > 0 cores; less where these disturb each other.
    int64_t AtLeast(const Length& at, int64_t per_core, int64_t cores) const
    {
        return Total(at, cores, at.once + per_core * at.period + Tails(at, per_core, cores));
    }

    // What it costs at least where more cores than are free share GM, by what loads take then; 0 if that is not known.
    int64_t AtLeastCrowded(const Length& at, int64_t per_core, int64_t cores) const
    {
        if (loads_.tile != at.tile) {
            return 0;
        }
        const int64_t before = at.once + Max(cores * loads_.once_share - loads_.once, 0);
        const int64_t load = loads_.issue + cores * loads_.share;
        return Total(at, cores, before + per_core * Max(load, (load + loads_.wait) >> 1));
    }

protected:
    // Ticks of loads with tiles of a length.
    struct Loads {
        int64_t tile;
        int64_t once;        // for bytes of those before all tiles, of a core that no other one disturbs, ...
        int64_t once_share;  // ... and for each of the cores that share GM
        int64_t issue;       // for commands and rows of those of a tile, ...
        int64_t share;       // ... for bytes, for each of the cores that share GM, ...
        int64_t wait;        // ... and until its buffer is free besides
    };

    explicit LengthCosts(int64_t core_start) : core_start_(core_start)
    {
    }

    ~LengthCosts() = default;

    // What last tiles add to the core that takes longest; of one axis the last core has it, with fewer others.
    static int64_t Tails(const Length& at, int64_t per_core, int64_t cores)
    {
        if ((at.tail | at.behind) == 0) {
            return 0;
        }
        if (at.tiles == at.every) {
            return Max(at.tail + at.behind - (per_core * cores - at.tiles) * at.period, 0);
        }
        return Pieces(per_core, at.every) * at.tail + at.behind;
    }

    int64_t Total(const Length& at, int64_t cores, int64_t pipeline) const
    {
        const int64_t gm = at.gm + cores * at.gm_core;
        return core_start_ * cores + (Min(gm, pipeline) >> kHiddenBits) + Max(gm, pipeline);
    }

    Loads loads_ = {};

private:
    const int64_t core_start_;
};

}  // namespace autofuse

#endif
