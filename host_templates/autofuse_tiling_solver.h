// Chooses a template and its tile sizes for given sizes of a graph.  The generated code holds the tables, this header
// the search.  No allocation, no exceptions, no state, no float.
//
// Per template, with t the length of a tile along the tiled axis and k the number of tiles of one core:
// - t is a multiple of `granule`, or the whole axis; ub(t), which grows with t, must not exceed the UB of the chip;
// - candidates are the largest such t, and those t with which every core gets k, k+1, k+2, k+3, 2k or 4k tiles;
//   tiles of less than 4 KiB (4 bytes per element) are not tried unless nothing larger is legal;
// - the candidate of the smallest cost is taken: cost = k * (head + bytes/rate) + bytes/rate, where the last term is
//   the tile at the start and at the end that has nothing to overlap with;
// - where the tiled axis is reduced, the tiles of the axis belong to one core: the largest of about equal length.
// A group takes the template of the smallest cost, the kernel the result whose groups and barriers cost least in sum; of
// equals the first is taken.  The cost knows the DMA commands and their bytes only: it compares templates of one group well
// enough, it is no prediction of time.
#ifndef AUTOFUSE_TILING_SOLVER_H
#define AUTOFUSE_TILING_SOLVER_H

#include <stdint.h>

#include <initializer_list>

#include "autofuse_math.h"
#include "autofuse_status.h"

// What the caller grants; a null pointer or a field of 0 means: all that the target has.
struct ResLimit {
    uint32_t valid_num;
    uint32_t aiv_num;
    uint32_t aic_num;
    uint32_t ub_size;
    uint32_t resv[10];
};

namespace autofuse {

constexpr int64_t kUnlimited = INT64_MAX;

struct Machine {
    int64_t cores;
    int64_t ub;    // usable bytes
    int64_t rate;  // bytes per cycle and core, all cores at work
};

// The tiled axis of a template, for given sizes.
struct TileAxis {
    int64_t extent;        // length
    int64_t outer;         // iterations of the loops around it
    int64_t granule;       // tiles are multiples of this, unless the tile is the whole axis
    int64_t tile_max;      // limit other than UB
    int64_t row_elements;  // elements per step of the axis
    int64_t ub_limit;      // bytes
    int64_t head;          // cycles per tile that do not depend on t
    bool looped;           // one core goes through all tiles of the axis, in a loop that the bytes count in
    bool conditions;       // the conditions of the template hold
};

struct Tile {
    int64_t size = 1;             // t
    int64_t per_core = 1;         // tiles of one core
    int64_t block_dim = 1;        // cores
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

// The largest legal tile, 0 if there is none.
template <typename Ub>
int64_t LargestTile(const TileAxis& axis, int64_t limit, const Ub& ub)
{
    if (axis.extent <= axis.granule) {
        const int64_t whole = Max(axis.extent, 1);
        return whole <= axis.tile_max && ub(whole) <= limit ? whole : 0;
    }
    const int64_t most = Min(axis.extent, axis.tile_max) / axis.granule;
    if (most < 1 || ub(axis.granule) > limit) {
        return 0;
    }
    // In granules: `low` fits, `high` does not.  Doubling first, so that ub is not asked for absurd sizes.
    int64_t low = 1;
    int64_t high = most + 1;
    while (low < most) {
        const int64_t next = Min(2 * low, most);
        if (ub(next * axis.granule) > limit) {
            high = next;
            break;
        }
        low = next;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (ub(middle * axis.granule) <= limit ? low : high) = middle;
    }
    const int64_t tile = low * axis.granule;
    const bool nearly_all = axis.extent - tile < axis.granule && axis.extent <= axis.tile_max;
    return nearly_all && ub(axis.extent) <= limit ? axis.extent : tile;
}

// Rounds up to whole granules; where the tiled axis is contiguous and the tile long, to whole lines of 128 elements.
inline int64_t RoundTile(const TileAxis& axis, int64_t tile)
{
    const int64_t line = axis.granule * CeilDiv(128, axis.granule);
    const int64_t step = axis.row_elements == 1 && tile >= 4 * line ? line : axis.granule;
    return Min(AlignUp(tile, step), Max(axis.extent, 1));
}

// How tiles of this size spread over the cores.
template <typename Bytes>
Tile Spread(const TileAxis& axis, const Machine& machine, int64_t size, const Bytes& bytes)
{
    Tile tile;
    const int64_t tiles = axis.looped ? axis.outer : axis.outer * CeilDiv(axis.extent, size);
    const int64_t work = bytes(size) / machine.rate;
    tile.size = size;
    tile.per_core = Max(CeilDiv(tiles, machine.cores), 1);
    tile.block_dim = Max(CeilDiv(tiles, tile.per_core), 1);
    tile.cost = SaturatingAdd(SaturatingMul(tile.per_core, axis.head + work), work);
    return tile;
}

// False if there is no legal tile.
template <typename Ub, typename Bytes>
bool SolveTile(const TileAxis& axis, const Machine& machine, const Ub& ub, const Bytes& bytes, Tile* best)
{
    const int64_t largest = LargestTile(axis, Min(axis.ub_limit, machine.ub), ub);
    if (largest == 0) {
        return false;
    }
    *best = Spread(axis, machine, largest, bytes);
    if (axis.extent <= axis.granule || axis.outer <= 0) {
        return true;
    }
    if (axis.looped) {
        // As many iterations as the largest tile takes, of about one length.
        const int64_t even = RoundTile(axis, CeilDiv(axis.extent, CeilDiv(axis.extent, largest)));
        *best = Spread(axis, machine, Min(even, largest), bytes);
        return true;
    }
    const int64_t rows_of_4k = CeilDiv(1024, Max(axis.row_elements, 1));
    const int64_t smallest = Min(AlignUp(rows_of_4k, axis.granule), largest);
    const int64_t k = best->per_core;
    for (const int64_t per_core : {k, k + 1, k + 2, k + 3, SaturatingMul(2, k), SaturatingMul(4, k)}) {
        const int64_t wanted = SaturatingMul(per_core, machine.cores);
        for (const int64_t pieces : {wanted / axis.outer, CeilDiv(wanted, axis.outer)}) {
            const int64_t size = RoundTile(axis, CeilDiv(axis.extent, Max(pieces, 1)));
            const Tile tile = Spread(axis, machine, Min(Max(size, smallest), largest), bytes);
            *best = tile.cost < best->cost ? tile : *best;
        }
    }
    return true;
}

// One template: functions of the sizes, and the members that take the result.
template <typename Data>
struct Template {
    TileAxis (*axis)(const Data&);
    int64_t (*ub)(const Data&, int64_t);     // bytes of UB with tiles of this size
    int64_t (*bytes)(const Data&, int64_t);  // bytes that the DMA moves per tile
    bool (*fits)(const Data&);               // null, or false if `axis` would overflow
    int64_t Data::*tile_size;
    int64_t Data::*block_size;
};

// Templates [first, first + count) of the table, to choose one from.
template <typename Data>
struct Group {
    int64_t first;
    int64_t count;
    int64_t Data::*first_core = nullptr;  // for a group that the next one runs beside: behind the cores of that one
};

// Groups [first, first + count) of the table, which run one after another; keys start at `key`.
struct Result {
    int64_t first;
    int64_t count;
    int64_t key;
    int64_t head = 0;  // cycles of the barriers between groups
};

template <typename Data>
struct Plan {
    const Template<Data>* templates;
    const Group<Data>* groups;
    const Result* results;
    int64_t result_count;
    int64_t key_count;
    Machine machine;
};

template <typename Data>
int64_t SolveTemplate(const Plan<Data>& plan, const Machine& machine, const Data& sizes, int64_t index, Tile* tile)
{
    const Template<Data>& self = plan.templates[index];
    if (self.fits != nullptr && !self.fits(sizes)) {
        return Fail(kOverflow, index);
    }
    const TileAxis axis = self.axis(sizes);
    if (!axis.conditions) {
        return Fail(kCondition, index);
    }
    const auto ub = [&](int64_t size) { return self.ub(sizes, size); };
    const auto bytes = [&](int64_t size) { return self.bytes(sizes, size); };
    return SolveTile(axis, machine, ub, bytes, tile) ? kOk : Fail(kNoTile, index);
}

// Solves every group of a result; `forced` is an offset into the keys of the result, or -1 to choose.
// Writes tile sizes, block_dim and tiling_key where `data` is not null.  Returns the code of what failed last.
template <typename Data>
int64_t SolveResult(const Plan<Data>& plan, const Machine& machine, const Data& sizes, const Result& result,
                    int64_t forced, Data* data, int64_t* cost)
{
    int64_t digit = 1;  // keys per choice of the group at hand; the choice of the last group varies fastest
    int64_t key = result.key;
    int64_t block_dim = 1;
    int64_t taken = 0;  // cores of the groups that run beside the one at hand, as far as they are known
    *cost = result.head;
    for (int64_t g = result.count - 1; g >= 0; --g) {
        const Group<Data>& group = plan.groups[result.first + g];
        const int64_t only = forced < 0 ? -1 : forced / digit % group.count;
        int64_t rc = kNoTemplate;
        int64_t chosen = -1;
        Tile best;
        for (int64_t i = 0; i < group.count; ++i) {
            if (only >= 0 && i != only) {
                continue;
            }
            Tile tile;
            const int64_t why = SolveTemplate(plan, machine, sizes, group.first + i, &tile);
            if (why != kOk) {
                rc = why;
            } else if (chosen < 0 || tile.cost < best.cost) {
                best = tile;
                chosen = i;
            }
        }
        if (chosen < 0) {
            return only >= 0 || group.count == 1 ? rc : kNoTemplate;
        }
        key += digit * chosen;
        digit *= group.count;
        const int64_t first_core = group.first_core == nullptr ? 0 : taken;
        taken = first_core + best.block_dim;
        block_dim = Max(block_dim, Min(taken, machine.cores));
        *cost = SaturatingAdd(*cost, best.cost);
        if (data != nullptr) {
            data->*(plan.templates[group.first + chosen].tile_size) = best.size;
            data->*(plan.templates[group.first + chosen].block_size) = best.per_core;
            if (group.first_core != nullptr) {
                data->*(group.first_core) = first_core;
            }
        }
    }
    if (data != nullptr) {
        data->tiling_key = static_cast<uint32_t>(key);
        data->block_dim = static_cast<uint32_t>(block_dim);
    }
    return kOk;
}

// `data` holds the sizes of the symbols and gets the rest; `key` -1 to choose.
template <typename Data>
int64_t SolvePlan(const Plan<Data>& plan, const ResLimit* limit, int64_t key, Data* data)
{
    Machine machine = plan.machine;
    if (limit != nullptr && limit->aiv_num != 0) {
        machine.cores = Min(limit->aiv_num, 65535);
    }
    if (limit != nullptr && limit->ub_size != 0) {
        machine.ub = Min(limit->ub_size, machine.ub);
    }
    if (key >= plan.key_count) {
        return kUnknownKey;
    }
    const Data sizes = *data;
    int64_t cost = 0;
    if (plan.result_count == 1) {
        return SolveResult<Data>(plan, machine, sizes, plan.results[0], key, data, &cost);
    }
    int64_t rc = kNoTemplate;
    int64_t best = -1;
    int64_t least = kUnlimited;
    for (int64_t r = 0; r < plan.result_count; ++r) {
        const int64_t end = r + 1 < plan.result_count ? plan.results[r + 1].key : plan.key_count;
        if (key >= end || (key >= 0 && key < plan.results[r].key)) {
            continue;
        }
        const int64_t forced = key < 0 ? -1 : key - plan.results[r].key;
        const int64_t why = SolveResult<Data>(plan, machine, sizes, plan.results[r], forced, nullptr, &cost);
        if (why != kOk) {
            rc = why;
        } else if (best < 0 || cost < least) {
            best = r;
            least = cost;
        }
    }
    if (best < 0) {
        return key >= 0 ? rc : kNoTemplate;
    }
    const int64_t forced = key < 0 ? -1 : key - plan.results[best].key;
    return SolveResult<Data>(plan, machine, sizes, plan.results[best], forced, data, &cost);
}

}  // namespace autofuse

#endif
