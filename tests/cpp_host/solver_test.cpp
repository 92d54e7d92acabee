// Properties of autofuse_tile_search.h over many random problems.  Prints what breaks; exit status 1 if anything did.
#include <cstdio>
#include <initializer_list>
#include <random>

#include "autofuse_tile_search.h"

namespace {

using Work = autofuse::WorkOf<3, 4, 1>;
std::mt19937_64 g_random(20250101);
int failures = 0;

autofuse::Chip RandomChip()
{
    autofuse::Chip chip;
    chip.line = 512;
    chip.short_row = 512;
    chip.core_start = 15.89;
    chip.load_issue = 13;
    chip.store_issue = 12;
    chip.row = 0.53;
    chip.load_latency = 199;
    chip.load_core = 34.9;
    chip.l2_core = 110;
    chip.store_core = 28.9;
    chip.read = 805;
    chip.l2_read = 3227;
    chip.same_order = 344;
    chip.shared = 531;
    chip.write = 3584;
    chip.writeback = 630;
    return chip;
}

int64_t Pick(std::initializer_list<int64_t> values)
{
    return *(values.begin() + g_random() % values.size());
}

void Check(bool ok, const char* what, const autofuse::Axis& a, const autofuse::Tile& t)
{
    if (!ok && ++failures <= 20) {
        std::printf("%s: extent %lld outer %lld granule %lld -> t %lld Tb %lld cores %lld\n", what, (long long)a.extent,
                    (long long)a.outer, (long long)a.granule, (long long)t.size, (long long)t.per_core,
                    (long long)t.block_dim);
    }
}

// Loads, a call and a store of rows of `row` bytes; what is looped has a body of its own for the result.
void RandomWork(int64_t row, bool by_rows, Work* work)
{
    const autofuse::Line t = autofuse::kTileLength;
    const bool looped = work->axis.looped;
    autofuse::Body& inner = work->Loop(looped ? autofuse::kStep : autofuse::kTile, Pick({1, 2, 2}));
    autofuse::Body& outer = looped ? work->Loop(autofuse::kTile, 2) : inner;
    inner.heads = static_cast<double>(Pick({0, 31, 488}));
    inner.scalar = 45;
    inner.chained = g_random() % 8 == 0;
    inner.staggered = looped && g_random() % 2 == 0;
    inner.vector.Add(static_cast<double>(Pick({1, 8})) / 64, row * t);
    work->Sum(inner, 1 + Pick({0, 1}) * t).vector.Add(1.0 / 64, row * t);
    const auto add = [&](autofuse::Copy& c) {
        c.rows = by_rows ? t : autofuse::Line(1);
        c.row_bytes = by_rows ? autofuse::Line(row) : row * t;
        c.apart = Pick({0, 4, 32, 4096});
        c.tiles_apart = row;
        c.distinct = Pick({0, 4096, 1 << 30});
        c.varies = g_random() % 4 == 0;
        c.varies_by_tile = g_random() % 4 != 0;
    };
    add(work->Load(inner, Pick({1, 2}), autofuse::kRead));
    add(work->Load(inner, 1, g_random() % 2 == 0 ? autofuse::kAgain : autofuse::kStream));
    add(work->Store(outer, 1));
    if (g_random() % 4 == 0) {
        work->Load(work->Loop(autofuse::kOnce, 2), 1, autofuse::kRead).row_bytes = row;
    }
}

// UB of a template: so many bytes, and so many per element of a tile.
struct Needs {
    int64_t fixed;
    int64_t per_element;
    int64_t* asked;
};

void CheckProblem(const autofuse::Axis& a, const autofuse::Chip& chip, int64_t per_element, int64_t fixed)
{
    const int64_t limit = autofuse::Min(a.ub_limit, chip.ub);
    int64_t asked = 0;
    const Needs needs = {fixed, per_element, &asked};
    const autofuse::UbOf ub = {&needs, [](const void* of, int64_t t) {
        const Needs& n = *static_cast<const Needs*>(of);
        *n.asked = autofuse::Max(*n.asked, t);
        int64_t bytes = 0;
        const bool over = __builtin_mul_overflow(n.per_element, t, &bytes);
        return over || bytes > INT64_MAX / 2 ? INT64_MAX / 2 : n.fixed + 32 * autofuse::CeilDiv(bytes, 32);
    }};
    autofuse::Tile tile;
    const int64_t largest = autofuse::LargestTile(a, limit, ub);
    tile.size = largest;
    const int64_t least = autofuse::Min(a.granule, a.longest);
    if (largest == 0) {
        Check(ub(least) > limit || least > a.tile_max, "a legal tile was missed", a, tile);
        return;
    }
    Check(ub(largest) <= limit, "UB exceeded", a, tile);
    Check(largest <= a.tile_max, "tile_max exceeded", a, tile);
    Check(largest % a.granule == 0 || largest == a.longest, "not on the granule", a, tile);
    Check(largest <= a.longest, "tile longer than the axis", a, tile);
    const int64_t next = autofuse::Min((largest / a.granule + 1) * a.granule, a.longest);
    Check(next == largest || next > a.tile_max || ub(next) > limit, "a longer tile is legal", a, tile);
    Check(asked <= 256 * autofuse::Max(largest, a.granule), "asked ub for an absurd size", a, tile);

    Work work;
    work.axis = a;
    RandomWork(per_element, g_random() % 2 == 0, &work);
    tile = autofuse::BestTile(work, chip, largest, autofuse::kForever);
    Check(tile.size >= 1 && tile.size <= largest, "tile of nothing, or too long", a, tile);
    Check(tile.size % a.granule == 0 || tile.size == a.longest, "not on the granule", a, tile);
    const int64_t tiles = a.looped ? a.outer : a.outer * autofuse::CeilDiv(a.extent, tile.size);
    Check(tile.per_core >= 1 && tile.block_dim >= 1, "no work for the first core", a, tile);
    Check(tile.block_dim <= chip.cores, "more cores than there are", a, tile);
    Check(tiles == 0 || tile.per_core >= autofuse::Pieces(tiles, tile.block_dim), "tiles left over", a, tile);
    Check(tiles == 0 || (tile.block_dim - 1) * tile.per_core < tiles, "a core without work", a, tile);
    // Never worse than the largest tile on all cores, and no better than the least time of the choice.
    autofuse::Model model(work, chip);
    model.SetTile(largest);
    const int64_t on_all = autofuse::Max(autofuse::Pieces(model.Tiles(), chip.cores), 1);
    const int64_t cores = autofuse::Max(autofuse::Pieces(model.Tiles(), on_all), 1);
    Check(tile.cycles <= model.Time(on_all, cores), "worse than the largest tile", a, tile);
    model.SetTile(tile.size);
    Check(tile.cycles == model.Time(tile.per_core, tile.block_dim), "not the time of the choice", a, tile);
    Check(tiles == 0 || tile.cycles >= model.LeastTime(tile.per_core, tile.block_dim), "less than the least", a, tile);
    // Beside another template: the same where it is better, else nothing better.
    for (const double limit_of : {tile.cycles * 1.5, tile.cycles, tile.cycles * 0.5}) {
        const autofuse::Tile again = autofuse::BestTile(work, chip, largest, limit_of);
        const bool better = tile.cycles < limit_of;
        Check(better ? again.size == tile.size && again.per_core == tile.per_core && again.cycles == tile.cycles
                     : again.cycles >= limit_of,
              "another choice beside another template", a, again);
    }
}

}  // namespace

int main()
{
    for (int round = 0; round < 100000; ++round) {
        autofuse::Axis a;
        a.extent = g_random() % 4 == 0 ? Pick({0, 1, 2, 7, 8, 31, 32, 97, 8191, 65537, INT64_C(1) << 48})
                                       : static_cast<int64_t>(g_random() % (INT64_C(1) << (1 + g_random() % 48)));
        a.outer = Pick({0, 1, 1, 1, 2, 3, 5, 48, 49, 1000, 524287});
        if (a.extent > (INT64_C(1) << 59) / autofuse::Max(a.outer, 1)) {
            a.outer = 1;  // generated code refuses sizes beyond 2^60
        }
        a.reduce_outer = Pick({1, 1, 1, 3, 0});
        a.granule = Pick({1, 4, 8, 16, 32, 64, 256});
        const bool rounded = g_random() % 8 == 0;
        a.longest = autofuse::Max(rounded ? autofuse::AlignUp(a.extent, a.granule) : a.extent, 1);
        a.tile_max = Pick({autofuse::kUnlimited, 4095, 4095, 100, 1});
        a.ub_limit = Pick({188160, 188160, 253696, 8192});
        a.looped = g_random() % 4 == 0;
        autofuse::Chip chip = RandomChip();
        chip.cores = Pick({1, 2, 40, 48, 48, 65535});
        chip.ub = Pick({188160, 64, 100000});
        chip.line = Pick({512, 128});
        chip.l2 = Pick({201326592, 65536});
        CheckProblem(a, chip, Pick({1, 2, 4, 16, 24, 200, 4096, 100000}), Pick({0, 0, 0, 8192}));
    }
    if (failures != 0) {
        std::printf("%d checks failed\n", failures);
    }
    return failures == 0 ? 0 : 1;
}
