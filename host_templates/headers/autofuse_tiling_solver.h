// Chooses template, tile, tiles per core and cores for given sizes of a graph, by the costs of autofuse_tile_cost.h.  The
// generated code holds the tables, the headers formulas and search.  No allocation, no exceptions, no state, no float.
//
// A group takes the template of the smallest cost, which autofuse_form_solver.h looks for, the kernel the result whose groups
// and barriers cost least in sum; of equals the first is taken.  schedule/solver.py does the same in the same order.
#ifndef AUTOFUSE_TILING_SOLVER_H
#define AUTOFUSE_TILING_SOLVER_H

#include <stdint.h>

#include "autofuse_form_solver.h"
#include "autofuse_math.h"
#include "autofuse_status.h"
#include "autofuse_tile_form.h"

// What the caller grants; a null pointer or a field of 0 means: all that the target has.
struct ResLimit {
    uint32_t valid_num;
    uint32_t aiv_num;
    uint32_t aic_num;
    uint32_t ub_size;
    uint32_t resv[10];
};

namespace autofuse {

// One template: functions of the sizes, and the members that take the result.
template <typename Data>
struct Template {
    // Looks for the best tile beside what another template counts for; 0 or what is in the way.
    Status (*solve)(const Data&, const Chip&, int64_t least, Found*);
    bool (*fits)(const Data&);            // null, or false if the other would overflow
    int64_t turn;                         // the template of the group that is searched in its place
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
    int64_t head = 0;  // ticks of the barriers between groups
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

// Template::solve of a template with this form: functions give its axis, bytes of UB with tiles of a size, and the numbers of
// the form that depend on sizes.
template <typename Data, typename Source, const typename Source::Form& kForm, TileAxis (*kAxis)(const Data&),
          int64_t (*kUb)(const Data&, int64_t), int kNumbers, void (*kFill)(const Data&, int64_t*)>
Status SolveForm(const Data& sizes, const Chip& chip, int64_t least, Found* found)
{
    static_assert(kNumbers <= kMostNumbers, "a number of the form would be taken for itself");
    using Form = typename Source::Form;
    constexpr bool again = LoadsAgain(kForm);
    const TileAxis axis = kAxis(sizes);
    if (!axis.conditions) {
        return kCondition;
    }
    const int64_t limit = Min(axis.ub_limit, chip.ub);
    // A tile that is legal bounds what the form says of one.
    if (kUb(sizes, Min(axis.granule, axis.longest)) > limit) {
        return kNoTile;
    }
    int64_t numbers[Max(kNumbers, 1)];
    if constexpr (kNumbers > 0) {
        kFill(sizes, numbers);
    } else {
        numbers[0] = 0;
    }
    if constexpr (!Source::kUnrolled && FormView::Holds<Form>()) {
        const UbOf ub = {&sizes, [](const void* of, int64_t size) { return kUb(*static_cast<const Data*>(of), size); }};
        return ViewSolver<FormView>::Solve(FormView::Of(kForm), again, numbers, axis, chip, limit, ub, least, found);
    } else {
        const auto ub = [&](int64_t size) { return kUb(sizes, size); };
        return SolveTables<Source>(kForm, again, numbers, axis, chip, limit, ub, least, found);
    }
}

// The best tile of a template beside `least`, what another one counts for.
template <typename Data>
int64_t SolveTemplate(const Plan<Data>& plan, const Chip& chip, const Data& sizes, int64_t index, int64_t least, Found* found)
{
    const auto& self = plan.templates[index];
    if (self.fits != nullptr && !self.fits(sizes)) {
        return Fail(kOverflow, index);
    }
    const Status why = self.solve(sizes, chip, least, found);
    return why == kOk ? kOk : Fail(why, index);
}

// Solves every group of a result; `forced` is an offset into the keys of the result, or -1 to choose.
// Writes tile sizes, block_dim and tiling_key, unless the cost is at least `limit`.  Returns the code of what failed last.
template <typename Data>
int64_t SolveResult(const Plan<Data>& plan, const Chip& chip, const Data& sizes, const Result& result,
                    int64_t forced, int64_t limit, Data* data, int64_t* cost)
{
    int64_t digit = 1;  // keys per choice of the group at hand; the choice of the last group varies fastest
    int64_t key = result.key;
    int64_t block_dim = 1;
    int64_t taken = 0;  // cores of the groups that run beside the one at hand, as far as they are known
    *cost = result.head;
    for (int64_t g = result.count - 1; g >= 0; --g) {
        if (*cost >= limit) {
            return kOk;
        }
        const Group<Data>& group = plan.groups[result.first + g];
        const int64_t only = forced < 0 ? -1 : forced / digit % group.count;
        int64_t rc = kNoTemplate;
        int64_t chosen = -1;
        // A group that costs more than is left to the limit cannot win either, however its template is counted.
        const int64_t left = Max(limit - *cost, 0);
        const int64_t bound = SaturatingAdd(left, left / kLeeway);
        int64_t least = kUnlimited;
        Tile best;
        // After the most promising templates the others are mostly hopeless.
        for (int64_t turn = 0; turn < group.count; ++turn) {
            const int64_t i = plan.templates[group.first + turn].turn;
            if (only >= 0 && i != only) {
                continue;
            }
            Found found;
            const int64_t why = SolveTemplate(plan, chip, sizes, group.first + i, Min(least, bound), &found);
            if (why != kOk) {
                rc = why;
            } else if (chosen < 0 || found.comparable < least || (found.comparable == least && i < chosen)) {
                best = found.tile;
                least = found.comparable;
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
        *cost = SaturatingAdd(*cost, best.cost);
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

// Whether less is granted than the chip has.
inline bool Limits(const ResLimit* limit, const Chip& chip)
{
    return limit != nullptr && ((limit->aiv_num != 0 && limit->aiv_num < chip.cores) ||
                                (limit->ub_size != 0 && limit->ub_size < chip.ub));
}

// `data` holds the sizes of the symbols and gets the rest; `key` -1 to choose.
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
    int64_t least = kUnlimited;
    bool any = false;
    for (int64_t r = 0; r < plan.result_count; ++r) {
        const int64_t end = r + 1 < plan.result_count ? plan.results[r + 1].key : plan.key_count;
        if (key >= end || (key >= 0 && key < plan.results[r].key)) {
            continue;
        }
        const int64_t forced = key < 0 ? -1 : key - plan.results[r].key;
        Data trial = sizes;
        int64_t cost = 0;
        const int64_t why = SolveResult(plan, chip, sizes, plan.results[r], forced, least, &trial, &cost);
        if (why != kOk) {
            rc = why;
        } else if (!any || cost < least) {
            any = true;
            least = cost;
            *data = trial;
        }
    }
    return any ? kOk : key >= 0 || plan.result_count == 1 ? rc : kNoTemplate;
}

}  // namespace autofuse

#endif
