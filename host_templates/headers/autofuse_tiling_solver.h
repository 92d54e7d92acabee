// Chooses template, tile, tiles per core and cores for given sizes of a graph.  The generated code describes the work
// of each template; the headers have the formulas and the loop over tiles.  No allocation, no exceptions, no state.
//
// A group takes its fastest template, the kernel the result with the least total time of groups and barriers; ties go
// to the first.  schedule/search/solver.py does the same in the same order.
#ifndef AUTOFUSE_TILING_SOLVER_H
#define AUTOFUSE_TILING_SOLVER_H

#include <stdint.h>

#include <cstddef>

#include "autofuse_math.h"
#include "autofuse_status.h"
#include "autofuse_tile_model.h"
#include "autofuse_tile_search.h"

// Resources that the caller grants; a null pointer or a field of 0 grants all that the target has.
struct ResLimit {
    uint32_t valid_num;
    uint32_t aiv_num;
    uint32_t aic_num;
    uint32_t ub_size;
    uint32_t resv[10];
};

namespace autofuse {

// A template that loads data again, which L2 may have evicted, must beat one that keeps the data in UB by this fraction
// of its own time.
constexpr double kLeeway = 1.0 / 4;

// Values of Template::fits and Template::again.
constexpr std::nullptr_t kAlwaysFits = nullptr;
constexpr bool kLoadsOnce = false;
constexpr bool kLoadsAgain = true;

// One template: functions of the sizes, and the members that receive the result.
template <typename Data>
struct Template {
    // Finds the best tile that beats `least` cycles, or returns why the template is not legal.
    Status (*solve)(const Data&, const Chip&, double least, Tile*);
    bool (*fits)(const Data&);  // null, or returns false if `solve` would overflow
    bool again;                 // loads data again
    int64_t Data::*tile_size;
    int64_t Data::*block_size;
};

// Templates [first, first + count) of the table, one of which is chosen.
template <typename Data>
struct Group {
    int64_t first;
    int64_t count;
    int64_t Data::*first_core = nullptr;  // if the next group runs beside it: the first core after those of that group
};

// Groups [first, first + count) of the table, which run in sequence; keys start at `key`.
struct Result {
    int64_t first;
    int64_t count;
    int64_t key;
    double barriers = 0;  // cycles of the barriers between groups
};

template <typename Data>
struct Plan {
    const Template<Data>* templates;
    const Group<Data>* groups;
    const Result* results;
    int64_t result_count;
    int64_t key_count;
    Chip chip;
};

// Template::solve of one template: the functions give its axis, its bytes of UB for a tile size, and its work.
template <typename Data, int kBodies, int kCopies, int kScans, Axis (*kAxis)(const Data&),
          int64_t (*kUb)(const Data&, int64_t), void (*kFill)(const Data&, Work&)>
Status SolveTemplate(const Data& sizes, const Chip& chip, double least, Tile* found)
{
    WorkOf<kBodies, kCopies, kScans> work;
    work.axis = kAxis(sizes);
    if (!work.axis.conditions) {
        return kCondition;
    }
    const int64_t limit = Min(work.axis.ub_limit, chip.ub);
    // The smallest tile has to fit before kFill runs: that bounds the numbers that kFill computes.
    if (kUb(sizes, Min(work.axis.granule, work.axis.longest)) > limit) {
        return kNoTile;
    }
    kFill(sizes, work);
    const UbOf ub = {&sizes, [](const void* of, int64_t size) { return kUb(*static_cast<const Data*>(of), size); }};
    return SolveWork(work, chip, limit, ub, least, found);
}

// Solves every group of a result; `forced` is an offset into the keys of the result, or -1 to choose.
// Writes tile sizes, block_dim and tiling_key, unless it takes `limit` cycles, those of another result, or more.
// Returns the code of the last failure.
template <typename Data>
int64_t SolveResult(const Plan<Data>& plan, const Chip& chip, const Data& sizes, const Result& result, int64_t forced,
                    double limit, Data* data, double* cycles)
{
    int64_t digit = 1;  // keys per choice of the current group; the choice of the last group varies fastest
    int64_t key = result.key;
    int64_t block_dim = 1;
    int64_t taken = 0;  // cores taken so far by the groups that run beside the current one
    *cycles = result.barriers;
    for (int64_t g = result.count - 1; g >= 0 && *cycles < limit; --g) {
        const Group<Data>& group = plan.groups[result.first + g];
        const int64_t only = forced < 0 ? -1 : forced / digit % group.count;
        int64_t rc = kNoTemplate;
        int64_t chosen = -1;
        double least = kForever;
        Tile best;
        for (int64_t i = Max(only, 0); i < (only < 0 ? group.count : only + 1); ++i) {
            const Template<Data>& self = plan.templates[group.first + i];
            Tile found;
            const Status why = self.fits != nullptr && !self.fits(sizes) ? kOverflow : self.solve(sizes, chip, least, &found);
            if (why != kOk) {
                rc = Fail(why, group.first + i);
                continue;
            }
            const double counted = self.again ? found.cycles + found.cycles * kLeeway : found.cycles;
            if (counted < least) {
                best = found;
                least = counted;
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
        block_dim = Max(block_dim, Min(taken, chip.cores));
        *cycles += best.cycles;
        data->*(plan.templates[group.first + chosen].tile_size) = best.size;
        data->*(plan.templates[group.first + chosen].block_size) = best.per_core;
        if (group.first_core != nullptr) {
            data->*(group.first_core) = first_core;
        }
    }
    data->tiling_key = static_cast<uint32_t>(key);
    data->block_dim = static_cast<uint32_t>(block_dim);
    return kOk;
}

// True if the caller grants less than the chip has.
inline bool Limits(const ResLimit* limit, const Chip& chip)
{
    return limit != nullptr && ((limit->aiv_num != 0 && limit->aiv_num < chip.cores) ||
                                (limit->ub_size != 0 && limit->ub_size < chip.ub));
}

// `data` holds the sizes of the symbols and receives the rest; a `key` of -1 lets the solver choose.
template <typename Data>
int64_t SolvePlan(const Plan<Data>& plan, const ResLimit* limit, int64_t key, Data* data)
{
    Chip granted;
    const bool limited = Limits(limit, plan.chip);
    if (limited) {
        granted = plan.chip;
        granted.cores = limit->aiv_num != 0 ? Min(limit->aiv_num, granted.cores) : granted.cores;
        granted.ub = limit->ub_size != 0 ? Min(limit->ub_size, granted.ub) : granted.ub;
    }
    const Chip& chip = limited ? granted : plan.chip;
    if (key >= plan.key_count) {
        return kUnknownKey;
    }
    const Data sizes = *data;
    int64_t rc = kNoTemplate;
    double least = kForever;
    bool any = false;
    for (int64_t r = 0; r < plan.result_count; ++r) {
        const int64_t end = r + 1 < plan.result_count ? plan.results[r + 1].key : plan.key_count;
        if (key >= end || (key >= 0 && key < plan.results[r].key)) {
            continue;
        }
        const int64_t forced = key < 0 ? -1 : key - plan.results[r].key;
        Data trial = sizes;
        double cycles = 0;
        const int64_t why = SolveResult(plan, chip, sizes, plan.results[r], forced, least, &trial, &cycles);
        if (why != kOk) {
            rc = why;
        } else if (!any || cycles < least) {
            any = true;
            least = cycles;
            *data = trial;
        }
    }
    return any ? kOk : key >= 0 || plan.result_count == 1 ? rc : kNoTemplate;
}

}  // namespace autofuse

#endif
