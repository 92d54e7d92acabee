// C interface of the solver, for a comparison with schedule/search/tile_search.py: everything as 64-bit integers in one array.
#include <stddef.h>

#include "autofuse_tiling_solver.h"

namespace {

using Form = autofuse::Form<8, 64, 64, 16>;

class Reader {
public:
    explicit Reader(const int64_t* numbers) : next_(numbers)
    {
    }

    int64_t Take()
    {
        return *next_++;
    }

    autofuse::Line TakeLine()
    {
        const int64_t base = Take();
        return {base, Take()};
    }

private:
    const int64_t* next_;
};

autofuse::Chip TakeChip(Reader& in)
{
    autofuse::Chip chip = {};
    int64_t* const members = &chip.cores;
    for (size_t i = 0; i < sizeof(chip) / sizeof(int64_t); ++i) {
        members[i] = in.Take();
    }
    return chip;
}

void TakeForm(Reader& in, Form* form)
{
    form->bodies = static_cast<int>(in.Take());
    form->copies = form->rows = static_cast<int>(in.Take());
    form->calls = static_cast<int>(in.Take());
    for (int64_t i = 0; i < form->bodies; ++i) {
        autofuse::Body& b = form->body[i];
        b.place = static_cast<autofuse::Place>(in.Take());
        b.heads = in.Take();
        b.scalar = in.Take();
        b.buffers = in.Take();
        b.chained = in.Take() != 0;
        b.loads = in.Take() != 0;
        b.staggered = in.Take() != 0;
    }
    for (int64_t i = 0; i < form->copies; ++i) {
        autofuse::Rows& r = form->row[i];
        autofuse::Copies& c = form->copy[i];
        r.body = in.Take();
        c.rows = i;
        c.route = static_cast<autofuse::Route>(in.Take());
        c.count = in.Take();
        r.loads = c.route == autofuse::kWrite ? 0 : c.count;
        r.stores = c.route == autofuse::kWrite ? c.count : 0;
        r.commands = in.TakeLine();
        r.rows = in.TakeLine();
        r.row_bytes = in.TakeLine();
        r.aligned = in.Take();
        r.tiled = in.Take();
        c.whole = in.Take();
        c.each = in.Take();
        c.distinct = in.Take();
        c.footprint = in.TakeLine();
        c.varies = in.Take();
        c.varies_by_tile = in.Take() != 0;
    }
    for (int64_t i = 0; i < form->calls; ++i) {
        form->call[i].body = in.Take();
        form->call[i].cycles = in.TakeLine();
        form->call[i].along = in.TakeLine();
    }
}

}  // namespace

// `numbers`: chip, axis (extent, longest, outer, reduce_outer, granule, looped), largest tile, form.
// `tile`, `per_core`: what to give the cost of, after that of length `before`.  `out`: that cost, then tile, tiles per core,
// cores and cost of the choice, what the first cost is at least, what every choice costs at least, and what the first cost is
// at least by the bound of those who share GM, 0 where that is not known.
extern "C" void Solve(const int64_t* numbers, int64_t before, int64_t tile, int64_t per_core, int64_t* out)
{
    Reader in(numbers);
    const autofuse::Chip chip = TakeChip(in);
    autofuse::TileAxis axis = {};
    axis.extent = in.Take();
    axis.longest = in.Take();
    axis.outer = in.Take();
    axis.reduce_outer = in.Take();
    axis.granule = in.Take();
    axis.looped = in.Take() != 0;
    const int64_t largest = in.Take();
    static Form form;
    TakeForm(in, &form);
    autofuse::Costs<autofuse::Rolled<Form>> costs(form, nullptr, axis, chip);
    // Of another length first: what both have in common is not computed again.
    costs.Fill(largest);
    costs.Fill(before);
    const autofuse::Length at = costs.Fill(tile);
    const int64_t cores = autofuse::Pieces(at.tiles, per_core);
    out[5] = at.tiles == 0 ? chip.core_start : costs.AtLeast(at, per_core, cores);
    out[0] = cores > at.free ? costs.Crowded(at, per_core, cores) : out[5];
    if (cores > at.free) {
        costs.Crowded(at, per_core, cores);
    }
    out[7] = costs.AtLeastCrowded(at, per_core, cores);
    out[6] = costs.Floor();
    autofuse::Search search(costs, costs.Distances(), axis, chip, largest);
    search.Spread(autofuse::kUnlimited);
    const autofuse::Tile found = search.Refine();
    out[1] = found.size;
    out[2] = found.per_core;
    out[3] = found.block_dim;
    out[4] = found.cost;
}
