// Chooses template, tile, tiles per core and cores for given sizes of a graph, by the costs of autofuse_tile_cost.h.  The
// generated code holds the tables, the headers formulas and search.  No allocation, no exceptions, no state, no float.
//
// Per template the search looks at halves of the largest tile, each with the cores that a closed form gives, then at
// neighbours of the best choice as long as that gets better.  A group takes the template of the smallest cost, the kernel
// the result whose groups and barriers cost least in sum; of equals the first is taken.  schedule/solver.py does the same
// in the same order.
#ifndef AUTOFUSE_TILING_SOLVER_H
#define AUTOFUSE_TILING_SOLVER_H

#include <stdint.h>

#include "autofuse_math.h"
#include "autofuse_status.h"
#include "autofuse_tile_cost.h"

// What the caller grants; a null pointer or a field of 0 means: all that the target has.
struct ResLimit {
    uint32_t valid_num;
    uint32_t aiv_num;
    uint32_t aic_num;
    uint32_t ub_size;
    uint32_t resv[10];
};

namespace autofuse {

// The largest legal tile, 0 if there is none.
template <typename Ub>
int64_t LargestTile(const TileAxis& axis, int64_t limit, const Ub& ub)
{
    if (axis.longest <= axis.granule) {
        const int64_t whole = axis.longest;
        return whole <= axis.tile_max && ub(whole) <= limit ? whole : 0;
    }
    const int64_t most = Min(axis.longest, axis.tile_max) / axis.granule;
    if (most < 1 || ub(axis.granule) > limit) {
        return 0;
    }
    // In granules: `low` fits, `high` does not.  UB grows about linearly, so that a guess from the first two is close;
    // from there on steps that double, so that ub is not asked for absurd sizes.
    int64_t low = 1;
    int64_t high = most + 1;
    const int64_t first = ub(axis.granule);
    const int64_t second = most > 1 ? ub(2 * axis.granule) : first;
    if (second > first && second <= limit) {
        const int64_t guess = Min(Max(2 + (limit - second) / (second - first), 2), most);
        (ub(guess * axis.granule) <= limit ? low : high) = guess;
    } else if (second > limit) {
        high = Min(high, 2);
    }
    for (int64_t step = 1; high == most + 1 && low < most; step *= 2) {
        const int64_t next = Min(low + step, most);
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
    const bool nearly_all = axis.longest - tile < axis.granule && axis.longest <= axis.tile_max;
    return nearly_all && ub(axis.longest) <= limit ? axis.longest : tile;
}

// Looks for the choice of the least cost among lengths of at most `largest`, a legal one.
template <typename Form>
class Search {
public:
    Search(const Form& form, const TileAxis& axis, const Chip& chip, int64_t largest)
        : form_(form), axis_(axis), chip_(chip), largest_(largest)
    {
        uint64_t tiled = 0;
        for (int64_t i = 0; i < form.copies; ++i) {
            tiled |= static_cast<uint64_t>(form.copy[i].tiled);
        }
        const uint64_t distances = tiled * static_cast<uint64_t>(axis.granule);
        const int64_t short_of = chip.line / LowBit(static_cast<uint64_t>(chip.line) | distances);
        steps_[0] = axis.granule;
        steps_[1] = axis.granule * short_of;
        step_count_ = distances != 0 && short_of > 1 ? 2 : 1;
    }

    Tile Run()
    {
        Start();
        if (axis_.granule == 1 && !axis_.looped && largest_ > kFew) {
            TryBalanced();
        }
        for (int round = 0; round < kRounds; ++round) {
            const int64_t before = best_.cost;
            Neighbours();
            if (best_.cost == before) {
                break;
            }
        }
        if (axis_.looped || axis_.outer > 1 || axis_.granule == 1) {
            const Tile at = best_;
            for (int64_t k = Max(at.per_core - kFar, 1); k <= at.per_core + kFar; ++k) {
                Try(at.size, k);
            }
        }
        return best_;
    }

private:
    using PartsType = Parts<Form::kBodyLimit>;

    static constexpr int64_t kFew = 16;     // where there are at most so many lengths, all are tried
    static constexpr int kHalves = 8;       // else so many halves of the largest one
    static constexpr int kWorse = 2;        // halves in a row that are no better, before no further ones are tried
    static constexpr int64_t kLong = 64;    // granules from which on one more of them matters little
    static constexpr int64_t kEven = 3;     // numbers of equal pieces of an axis that are tried
    static constexpr int kRounds = 8;       // moves from the best choice so far
    static constexpr int kReach = 2;        // steps in length to both sides
    static constexpr int64_t kFar = 2;      // and in tiles per core at the end
    static constexpr int64_t kNear = 8;     // rows more or less in a tile, among which work is made even
    static constexpr int kMostTiles = 40;   // lengths that are looked at in all
    static constexpr int kSlotBits = 6;     // of a table that finds them
    static constexpr uint64_t kSlots = UINT64_C(1) << kSlotBits;

    void Start()
    {
        if (largest_ <= kFew * axis_.granule) {
            for (int64_t t = axis_.granule; t < largest_; t += axis_.granule) {
                TryLength(t);
            }
            TryLength(largest_);
        } else {
            Halves();
            // One row by itself may be cheaper than a few short ones.
            if (axis_.granule == 1) {
                TryLength(1);
            } else if (axis_.outer > 1 && !axis_.looped) {
                // The same axis again and again: lengths that divide it evenly.
                const int64_t fewest = Max(Pieces(axis_.extent, largest_), 1);
                for (int64_t pieces = fewest; pieces < fewest + kEven; ++pieces) {
                    TryLength(Round(Pieces(axis_.extent, pieces), axis_.granule));
                }
            }
        }
        if (axis_.looped) {
            const int64_t fewest = Max(Pieces(axis_.extent, largest_), 1);
            for (int i = 0; i < 3; ++i) {
                const int64_t steps = i < 2 ? fewest + i : 2 * fewest;
                Try(Round(Pieces(axis_.extent, steps), axis_.granule), best_.per_core);
            }
        }
    }

    void Halves()
    {
        int64_t t = largest_;
        int64_t least = kUnlimited;
        int worse = 0;
        for (int i = 0; i < kHalves; ++i) {
            TryLength(t);
            worse = best_.cost == least ? worse + 1 : 0;
            least = best_.cost;
            int64_t half = Round(t / 2, steps_[step_count_ - 1]);
            half = half >= t ? Round(t / 2, axis_.granule) : half;
            if (half >= t || worse == (axis_.granule >= kLong ? kWorse : kWorse + 1)) {
                break;
            }
            t = half;
        }
    }

    // The lengths near the best one with which the core with the most to do has the fewest rows, on all cores.
    void TryBalanced()
    {
        int64_t rows[2] = {kUnlimited, kUnlimited};
        int64_t lengths[2] = {0, 0};
        const int64_t last = Min(best_.size + kNear, largest_);
        for (int64_t t = Max(2 * best_.size / 3, 1); t <= last; ++t) {
            const int64_t tiles = SaturatingMul(axis_.outer, Pieces(axis_.extent, t));
            const int64_t most = SaturatingMul(t, Pieces(tiles, chip_.cores));
            if (most <= rows[0]) {  // of equals the longer one: fewer commands
                rows[1] = rows[0];
                lengths[1] = lengths[0];
                rows[0] = most;
                lengths[0] = t;
            } else if (most <= rows[1]) {
                rows[1] = most;
                lengths[1] = t;
            }
        }
        for (const int64_t t : lengths) {
            if (t > 0) {
                Try(t, 1);
            }
        }
    }

    void Neighbours()
    {
        const Tile at = best_;
        const int64_t k = at.per_core;
        if (axis_.looped) {
            const int64_t steps = Max(Pieces(axis_.extent, at.size), 1);
            TryPieces(steps + 1, k);
            if (steps > 1) {
                TryPieces(steps - 1, k);
            }
        } else {
            TryShares(k, at.block_dim);
            TryShares(k + 1, at.block_dim);
            TryShares(k - 1, at.block_dim);
            if (at.block_dim < chip_.cores) {
                TryShares(k, chip_.cores);
            }
            TryShares(k, at.block_dim + 1);
            TryShares(k, at.block_dim - 1);
        }
        const Tile near = best_;
        for (int s = 0; s < step_count_; ++s) {
            if (steps_[s] == 2 * axis_.granule) {
                continue;  // two granules are tried anyway
            }
            for (int d = 1; d <= kReach; ++d) {
                const int64_t apart = d * steps_[s];
                TryLike(near.size + apart, near);
                if (near.size > apart) {
                    TryLike(near.size - apart, near);
                }
            }
        }
        const Tile last = best_;
        Try(last.size, last.per_core + 1);
        Try(last.size, last.per_core - 1);
    }

    // Another length, with as many tiles per core; of short granules also with as many cores.
    void TryLike(int64_t t, const Tile& near)
    {
        const int64_t size = Round(t, axis_.granule);
        Try(size, near.per_core);
        if (axis_.granule < kLong) {
            const PartsType* parts = Find(size);
            if (parts != nullptr) {
                Try(parts, Pieces(parts->tiles, near.block_dim));
            }
        }
    }

    // The length for which every one of the cores gets so many tiles.
    void TryShares(int64_t per_core, int64_t cores)
    {
        if (per_core < 1 || cores < 1 || cores > chip_.cores) {
            return;
        }
        const int64_t tiles = SaturatingMul(per_core, cores);
        const int64_t pieces = axis_.outer > 1 ? Max(tiles / axis_.outer, 1) : tiles;
        Try(Round(Pieces(axis_.extent, pieces), axis_.granule), per_core);
    }

    void TryPieces(int64_t pieces, int64_t per_core)
    {
        for (int s = 0; s < step_count_; ++s) {
            Try(Round(Pieces(axis_.extent, pieces), steps_[s]), per_core);
        }
    }

    // A length, with the cores of a closed form and some about them.
    void TryLength(int64_t t)
    {
        const PartsType* parts = Find(t);
        if (parts == nullptr) {
            return;
        }
        const int64_t work = SaturatingMul(parts->tiles, Undisturbed(*parts));
        int64_t cores = Root(work / Max(chip_.core_start, 1), chip_.cores);
        if (parts->gm > 0) {
            cores = Min(cores, SaturatingAdd(work / parts->gm, 1));
        }
        const int64_t k = Pieces(parts->tiles, cores);
        Try(parts, k);
        Try(parts, k - 1);
        Try(parts, 1);
    }

    // A length with so many tiles per core, or as few more as the cores take.
    void Try(int64_t t, int64_t per_core)
    {
        const PartsType* parts = Find(t);
        if (parts != nullptr) {
            Try(parts, per_core);
        }
    }

    void Try(const PartsType* parts, int64_t per_core)
    {
        const int64_t k = Max(per_core, parts->least);
        const int64_t place = k - parts->least;
        uint64_t& tried = tried_[parts - parts_];
        if (place < 64) {
            const uint64_t bit = UINT64_C(1) << place;
            if ((tried & bit) != 0) {
                return;
            }
            tried |= bit;
        }
        const Tile found = Cost(form_, chip_, *parts, k);
        if (!any_ || found.cost < best_.cost) {
            best_ = found;
            any_ = true;
        }
    }

    // Ticks between two tiles of a core that no other one disturbs.
    int64_t Undisturbed(const Parts<Form::kBodyLimit>& parts) const
    {
        int64_t total = 0;
        for (int64_t i = 0; i < form_.bodies; ++i) {
            const BodyParts& p = parts.body[i];
            if (form_.body[i].place == kOnce) {
                continue;
            }
            const int64_t bytes = (p.bytes[0] + p.bytes[2]) * chip_.load_rate + p.bytes[1] * chip_.hot_rate;
            const int64_t mte2 = p.load + (bytes >> kTickShift);
            const int64_t mte3 = p.store + ((p.stored * chip_.store_rate) >> kTickShift);
            const int64_t busiest = Max(Max(mte2, p.vector), mte3);
            const int64_t steps = form_.body[i].place == kStep ? parts.steps : 1;
            total = SaturatingAdd(total, SaturatingMul(busiest, steps));
        }
        return total;
    }

    // Null once as many lengths as are kept have been looked at.
    const PartsType* Find(int64_t t)
    {
        uint64_t slot = (static_cast<uint64_t>(t) * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - kSlotBits);
        while (slots_[slot] != 0 && lengths_[slots_[slot] - 1] != t) {
            slot = (slot + 1) % kSlots;
        }
        if (slots_[slot] != 0) {
            return &parts_[slots_[slot] - 1];
        }
        if (known_ == kMostTiles) {
            return nullptr;
        }
        slots_[slot] = static_cast<uint8_t>(known_ + 1);
        lengths_[known_] = t;
        tried_[known_] = 0;
        FillParts(form_, axis_, chip_, t, &parts_[known_]);
        return &parts_[known_++];
    }

    // A legal length: the next multiple of a step, the whole axis, or the largest.
    int64_t Round(int64_t t, int64_t step) const
    {
        return Min((Max(t, 1) + step - 1) & -step, Min(axis_.longest, largest_));
    }

    const Form& form_;
    const TileAxis& axis_;
    const Chip& chip_;
    const int64_t largest_;
    int64_t steps_[2];
    int step_count_;
    int known_ = 0;
    bool any_ = false;
    Tile best_;
    uint8_t slots_[kSlots] = {};  // by hash of a length: its place in `lengths_`, from 1
    int64_t lengths_[kMostTiles];
    uint64_t tried_[kMostTiles];  // bit i: a length with i tiles per core more than the least
    PartsType parts_[kMostTiles];
};

// One template: functions of the sizes, and the members that take the result.
template <typename Data, typename Form>
struct Template {
    TileAxis (*axis)(const Data&);
    int64_t (*ub)(const Data&, int64_t);  // bytes of UB with tiles of this size
    void (*form)(const Data&, Form&);
    bool (*fits)(const Data&);            // null, or false if the others would overflow
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

template <typename Data, typename FormOf>
struct Plan {
    using Form = FormOf;
    const Template<Data, Form>* templates;
    const Group<Data>* groups;
    const Result* results;
    int64_t result_count;
    int64_t key_count;
    Chip chip;
};

// What a cost counts for beside those of other templates: one that loads data again, which L2 may no longer have, has to
// be better by this part of it than one that keeps them in UB.
constexpr int64_t kLeeway = 4;

template <typename Form>
int64_t Comparable(const Form& form, int64_t cost)
{
    for (int64_t i = 0; i < form.copies; ++i) {
        if (form.copy[i].route == kAgain) {
            return SaturatingAdd(cost, cost / kLeeway);
        }
    }
    return cost;
}

template <typename Data, typename PlanOf>
int64_t SolveTemplate(const PlanOf& plan, const Chip& chip, const Data& sizes, int64_t index, Tile* tile,
                      int64_t* comparable)
{
    const auto& self = plan.templates[index];
    if (self.fits != nullptr && !self.fits(sizes)) {
        return Fail(kOverflow, index);
    }
    const TileAxis axis = self.axis(sizes);
    if (!axis.conditions) {
        return Fail(kCondition, index);
    }
    const auto ub = [&](int64_t size) { return self.ub(sizes, size); };
    const int64_t largest = LargestTile(axis, Min(axis.ub_limit, chip.ub), ub);
    if (largest == 0) {
        return Fail(kNoTile, index);
    }
    // A tile that is legal bounds what the form says of one.
    typename PlanOf::Form form;
    self.form(sizes, form);
    *tile = Search<typename PlanOf::Form>(form, axis, chip, largest).Run();
    *comparable = Comparable(form, tile->cost);
    return kOk;
}

// Solves every group of a result; `forced` is an offset into the keys of the result, or -1 to choose.
// Writes tile sizes, block_dim and tiling_key.  Returns the code of what failed last.
template <typename Data, typename PlanOf>
int64_t SolveResult(const PlanOf& plan, const Chip& chip, const Data& sizes, const Result& result,
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
        int64_t least = kUnlimited;
        Tile best;
        for (int64_t i = 0; i < group.count; ++i) {
            if (only >= 0 && i != only) {
                continue;
            }
            Tile tile;
            int64_t cost_beside = 0;
            const int64_t why = SolveTemplate(plan, chip, sizes, group.first + i, &tile, &cost_beside);
            if (why != kOk) {
                rc = why;
            } else if (chosen < 0 || cost_beside < least) {
                best = tile;
                least = cost_beside;
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
template <typename Data, typename PlanOf>
int64_t SolvePlan(const PlanOf& plan, const ResLimit* limit, int64_t key, Data* data)
{
    Chip chip = plan.chip;
    if (limit != nullptr && limit->aiv_num != 0) {
        chip.cores = Min(limit->aiv_num, chip.cores);
    }
    if (limit != nullptr && limit->ub_size != 0) {
        chip.ub = Min(limit->ub_size, chip.ub);
    }
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
        const int64_t why = SolveResult(plan, chip, sizes, plan.results[r], forced, &trial, &cost);
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
