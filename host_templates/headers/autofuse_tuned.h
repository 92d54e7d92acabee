// Tilings from a tuning file: a short table that takes precedence over the search.  A row covers one shape or a range
// of shapes; a row that is not legal for a call, or for the resources that the caller grants, is skipped.
//
// schedule/search/given.py does the same.
#ifndef AUTOFUSE_TUNED_H
#define AUTOFUSE_TUNED_H

#include <stdint.h>

#include "autofuse_tiling.h"

namespace autofuse {

// Functions that decide which tiles of a template are legal.
template <typename Data>
struct TileRules {
    Axis (*axis)(const Data&);
    int64_t (*ub)(const Data&, int64_t size);
};

// A choice for one group.
struct GivenTile {
    int64_t choice;  // index among its templates
    int64_t size;    // of a tile; a shorter axis is one tile
    int64_t cores;   // share the tiles as evenly as whole tiles allow
};

// A row: a range of sizes for every symbol, and a choice for each group of a result.
template <int kSizes, int kGroups>
struct TunedRow {
    int64_t least[kSizes];
    int64_t most[kSizes];
    int64_t result;
    GivenTile groups[kGroups];
};

template <typename Data, int kSizes, int kGroups>
struct Tuned {
    const TileRules<Data>* rules;  // one per template
    const TunedRow<kSizes, kGroups>* rows;
    int64_t count;
};

template <typename Data>
Status TakeTile(const Template<Data>& self, const TileRules<Data>& rules, const Data& sizes, const Chip& chip,
                const GivenTile& given, Tile* found)
{
    if (self.fits != nullptr && !self.fits(sizes)) {
        return kOverflow;
    }
    const Axis axis = rules.axis(sizes);
    if (!axis.conditions) {
        return kCondition;
    }
    const int64_t size = Min(given.size, axis.longest);
    const bool whole = size == axis.longest;
    if ((size % axis.granule != 0 && !whole) || size > axis.tile_max ||
        rules.ub(sizes, size) > Min(axis.ub_limit, chip.ub)) {
        return kNoTile;
    }
    const int64_t tiles = axis.looped ? axis.outer : axis.outer * Pieces(axis.extent, size);
    found->size = size;
    found->per_core = Max(Pieces(tiles, Min(given.cores, chip.cores)), 1);
    found->block_dim = Max(Pieces(tiles, found->per_core), 1);
    return kOk;
}

// Fills tile sizes, block_dim and tiling_key from a row; returns an error code if the row is not legal.
template <typename Data, int kSizes, int kGroups>
int64_t TakeRow(const Tuned<Data, kSizes, kGroups>& tuned, const TunedRow<kSizes, kGroups>& row,
                const Plan<Data>& plan, const Chip& chip, Data* data)
{
    const Result& result = plan.results[row.result];
    const Data sizes = *data;
    int64_t digit = 1;
    int64_t key = result.key;
    int64_t block_dim = 1;
    int64_t taken = 0;
    for (int64_t g = result.count - 1; g >= 0; --g) {
        const Group<Data>& group = plan.groups[result.first + g];
        const GivenTile& given = row.groups[g];
        const int64_t index = group.first + given.choice;
        const Template<Data>& self = plan.templates[index];
        Tile tile;
        if (const Status why = TakeTile(self, tuned.rules[index], sizes, chip, given, &tile); why != kOk) {
            return Fail(why, index);
        }
        key += digit * given.choice;
        digit *= group.count;
        const int64_t first_core = group.first_core == nullptr ? 0 : taken;
        taken = first_core + tile.block_dim;
        block_dim = Max(block_dim, Min(taken, chip.cores));
        data->*(self.tile_size) = tile.size;
        data->*(self.block_size) = tile.per_core;
        if (group.first_core != nullptr) {
            data->*(group.first_core) = first_core;
        }
    }
    data->tiling_key = static_cast<uint32_t>(key);
    data->block_dim = static_cast<uint32_t>(block_dim);
    return kOk;
}

// Takes the first legal row for these sizes, or the row that a key after those of the plan selects; sets block_dim to 0
// if there is none.  Returns an error code if a selected row is not legal.
template <typename Data, int kSizes, int kGroups>
int64_t TakeTuned(const Tuned<Data, kSizes, kGroups>& tuned, const Plan<Data>& plan, const int64_t (&sizes)[kSizes],
                  const ResLimit* limit, int64_t key, Data* data)
{
    Chip chip = plan.chip;
    if (Limits(limit, plan.chip)) {
        chip.cores = limit->aiv_num != 0 ? Min(limit->aiv_num, chip.cores) : chip.cores;
        chip.ub = limit->ub_size != 0 ? Min(limit->ub_size, chip.ub) : chip.ub;
    }
    for (int64_t i = 0; i < tuned.count; ++i) {
        const TunedRow<kSizes, kGroups>& row = tuned.rows[i];
        bool wanted = key < 0 || key == plan.key_count + i;
        for (int s = 0; s < kSizes && key < 0; ++s) {
            wanted = wanted && row.least[s] <= sizes[s] && sizes[s] <= row.most[s];
        }
        if (!wanted) {
            continue;
        }
        Data trial = *data;
        const int64_t rc = TakeRow(tuned, row, plan, chip, &trial);
        if (rc == kOk) {
            *data = trial;
            return kOk;
        }
        if (key >= 0) {
            return rc;
        }
    }
    data->block_dim = 0;
    return kOk;
}

}  // namespace autofuse

#endif
