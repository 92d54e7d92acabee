// Chooses tile, tiles per core and cores of one template: what autofuse_tile_search.h finds with a tile that fits UB.  No float.
//
// Where AUTOFUSE_SOLVER_APART is defined, another translation unit has the code for all graphs: the search takes a compiler as
// long as the rest of a small kernel.
#ifndef AUTOFUSE_FORM_SOLVER_H
#define AUTOFUSE_FORM_SOLVER_H

#include <stdint.h>

#include "autofuse_length_costs.h"
#include "autofuse_math.h"
#include "autofuse_status.h"
#include "autofuse_tile_cost.h"
#include "autofuse_tile_form.h"
#include "autofuse_tile_limit.h"
#include "autofuse_tile_search.h"

namespace autofuse {

// The best tile of a template, and what its cost counts for beside those of others.
struct Found {
    Tile tile;
    int64_t comparable;
};

// What a cost counts for beside those of other templates: one that loads data again, which L2 may no longer have, has to
// be better by this part of it than one that keeps them in UB.
constexpr int64_t kLeeway = 4;

// A template whose first choices are worse than the best of another one by more than this part is not looked at any further.
constexpr int64_t kHopeless = 8;

inline int64_t Comparable(int64_t cost, bool again)
{
    return again ? SaturatingAdd(cost, cost / kLeeway) : cost;
}

// Looks for the best tile beside what another template counts for; 0 or what is in the way.  `limit`: bytes of UB, of which
// `ub` tells those of tiles of a size; `numbers` of the form that depend on sizes; `again`: the form loads data again.
template <typename Source, typename Ub>
AUTOFUSE_INLINE Status SolveTables(const typename Source::Form& form, bool again, const int64_t* numbers, const TileAxis& axis,
                                   const Chip& chip, int64_t limit, const Ub& ub, int64_t least, Found* found)
{
    Costs<Source> costs(form, numbers, axis, chip);
    if (least < kUnlimited && Comparable(costs.Floor(), again) > least) {
        *found = {{}, kUnlimited};
        return kOk;
    }
    const int64_t largest = LargestTile(axis, limit, ub);
    if (largest == 0) {
        return kNoTile;
    }
    Search search(costs, costs.Distances(), axis, chip, largest);
    Tile tile = search.Spread(least);
    // A tile is not looked for to the end where that is hopeless.
    const int64_t enough = SaturatingAdd(least, least / kHopeless);
    if (Comparable(tile.cost, again) > enough) {
        tile = search.Longest();
    }
    if (Comparable(tile.cost, again) <= enough) {
        tile = search.Refine();
    }
    *found = {tile, Comparable(tile.cost, again)};
    return kOk;
}

// Bytes of UB of any template.
struct UbOf {
    const void* sizes;
    int64_t (*ub)(const void* sizes, int64_t size);

    int64_t operator()(int64_t size) const
    {
        return ub(sizes, size);
    }
};

// SolveTables of any form that a view holds.  A template, so that a file that does not call it has no copy of the search.
template <typename View>
struct ViewSolver {
    static Status Solve(const View& form, bool again, const int64_t* numbers, const TileAxis& axis, const Chip& chip,
                        int64_t limit, const UbOf& ub, int64_t least, Found* found);
};

template <typename View>
Status ViewSolver<View>::Solve(const View& form, bool again, const int64_t* numbers, const TileAxis& axis, const Chip& chip,
                               int64_t limit, const UbOf& ub, int64_t least, Found* found)
{
    return SolveTables<Rolled<View>>(form, again, numbers, axis, chip, limit, ub, least, found);
}

#if defined(AUTOFUSE_SOLVER_APART)
extern template struct ViewSolver<FormView>;
#endif

}  // namespace autofuse

#endif
