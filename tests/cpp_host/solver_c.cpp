// C interface of the model and the search, for a comparison with schedule/search, and for an exhaustive search: everything as
// numbers in arrays.
#include <stdint.h>

#include <initializer_list>

#include "autofuse_tile_search.h"

namespace {

using autofuse::Body;
using autofuse::Copy;
using Work = autofuse::WorkOf<8, 64, 64>;

// Takes the numbers of an array of doubles, which holds integers below 2^53 exactly, one after the other.
class Reader {
public:
    explicit Reader(const double* numbers) : next_(numbers)
    {
    }

    double Take()
    {
        return *next_++;
    }

    int64_t TakeInt()
    {
        return static_cast<int64_t>(Take());
    }

    autofuse::Line TakeLine()
    {
        const int64_t base = TakeInt();
        return {base, TakeInt()};
    }

private:
    const double* next_;
};

autofuse::Chip TakeChip(Reader& in)
{
    autofuse::Chip chip;
    for (int64_t* member : {&chip.cores, &chip.ub, &chip.l2, &chip.line, &chip.short_row}) {
        *member = in.TakeInt();
    }
    for (double* member : {&chip.core_start, &chip.load_issue, &chip.store_issue, &chip.row, &chip.load_latency,
                           &chip.load_core, &chip.l2_core, &chip.store_core, &chip.read, &chip.l2_read, &chip.same_order,
                           &chip.shared, &chip.write, &chip.writeback}) {
        *member = in.Take();
    }
    return chip;
}

// Axis (extent, longest, outer, reduce_outer, granule, looped) and tables; the largest tile.
int64_t TakeWork(Reader& in, Work* work)
{
    autofuse::Axis& axis = work->axis;
    for (int64_t* member : {&axis.extent, &axis.longest, &axis.outer, &axis.reduce_outer, &axis.granule}) {
        *member = in.TakeInt();
    }
    axis.looped = in.TakeInt() != 0;
    const int64_t largest = in.TakeInt();
    const int64_t bodies = in.TakeInt();
    const int64_t copies = in.TakeInt();
    const int64_t calls = in.TakeInt();
    for (int64_t i = 0; i < bodies; ++i) {
        const auto place = static_cast<autofuse::Place>(in.TakeInt());
        Body& b = work->Loop(place, in.TakeInt());
        b.heads = in.Take();
        b.scalar = in.Take();
        b.chained = in.TakeInt() != 0;
        b.staggered = in.TakeInt() != 0;
    }
    for (int64_t i = 0; i < copies; ++i) {
        Body& body = work->body[in.TakeInt()];
        constexpr autofuse::Route kRoutes[] = {autofuse::kRead, autofuse::kAgain, autofuse::kWrite, autofuse::kStream};
        const autofuse::Route route = kRoutes[in.TakeInt()];
        const int64_t count = in.TakeInt();
        Copy& c = route == autofuse::kWrite ? work->Store(body, count) : work->Load(body, count, route);
        c.commands = in.TakeLine();
        c.rows = in.TakeLine();
        c.row_bytes = in.TakeLine();
        c.apart = in.TakeInt();
        c.tiles_apart = in.TakeInt();
        c.distinct = in.TakeInt();
        c.varies = in.TakeInt() != 0;
        c.varies_by_tile = in.TakeInt() != 0;
        c.own.base = in.Take();
        c.own.step = in.Take();
    }
    for (int64_t i = 0; i < calls; ++i) {
        Body& body = work->body[in.TakeInt()];
        const double base = in.Take();
        const double step = in.Take();
        const autofuse::Line along = in.TakeLine();
        autofuse::Cycles& cycles = work->Sum(body, along).vector;
        cycles.base = base;
        cycles.step = step;
    }
    return largest;
}

}  // namespace

// The cycles of a choice, and what they are at least; then tile, tiles per core, cores and cycles of the search's choice.
extern "C" void Solve(const double* numbers, int64_t tile, int64_t per_core, double* out)
{
    Reader in(numbers);
    const autofuse::Chip chip = TakeChip(in);
    Work work;
    const int64_t largest = TakeWork(in, &work);
    autofuse::Model model(work, chip);
    model.SetTile(tile);
    const int64_t cores = autofuse::Max(autofuse::Pieces(model.Tiles(), per_core), 1);
    out[0] = model.Time(per_core, cores);
    out[1] = model.LeastTime(per_core, cores);
    const autofuse::Tile found = autofuse::BestTile(work, chip, largest, autofuse::kForever);
    out[2] = static_cast<double>(found.size);
    out[3] = static_cast<double>(found.per_core);
    out[4] = static_cast<double>(found.block_dim);
    out[5] = found.cycles;
}

// The best of all choices: every legal tile, and of each as few tiles per core as make every number of cores occur, and more
// where the last tile takes its core longer.  Tile, tiles per core, cores, cycles.
extern "C" void Exhaust(const double* numbers, double* out)
{
    Reader in(numbers);
    const autofuse::Chip chip = TakeChip(in);
    Work work;
    const int64_t largest = TakeWork(in, &work);
    const int64_t granule = work.axis.granule;
    autofuse::Model model(work, chip);
    out[3] = autofuse::kForever;
    for (int64_t tile = autofuse::Min(granule, largest);; tile = autofuse::Min(tile + granule, largest)) {
        model.SetTile(tile);
        const int64_t tiles = model.Tiles();
        const int64_t fewest = autofuse::Max(autofuse::Pieces(tiles, chip.cores), 1);
        int64_t before = 0;
        for (int64_t per_core = fewest; per_core == fewest || per_core <= tiles; ++per_core) {
            const int64_t cores = autofuse::Max(autofuse::Pieces(tiles, per_core), 1);
            if (cores == before && model.Late() == 0) {
                per_core = cores > 1 ? autofuse::Pieces(tiles, cores - 1) - 1 : tiles;
                continue;
            }
            before = cores;
            if (model.LeastTime(per_core, cores) < out[3]) {
                const double cycles = model.Time(per_core, cores);
                if (cycles < out[3]) {
                    out[0] = static_cast<double>(tile);
                    out[1] = static_cast<double>(per_core);
                    out[2] = static_cast<double>(cores);
                    out[3] = cycles;
                }
            }
        }
        if (tile == largest) {
            return;
        }
    }
}
