// Properties of autofuse_tiling_solver.h over many random problems.  Prints what breaks; exit status 1 if anything did.
#include <cstdio>
#include <initializer_list>
#include <random>

#include "autofuse_tiling_solver.h"

namespace {

using Form = autofuse::Form<3, 4, 3>;
std::mt19937_64 g_random(20250101);
int failures = 0;

int64_t Pick(std::initializer_list<int64_t> values)
{
    return *(values.begin() + g_random() % values.size());
}

void Check(bool ok, const char* what, const autofuse::TileAxis& a, const autofuse::Tile& t)
{
    if (!ok && ++failures <= 20) {
        std::printf("%s: extent %lld outer %lld granule %lld -> t %lld Tb %lld cores %lld\n", what, (long long)a.extent,
                    (long long)a.outer, (long long)a.granule, (long long)t.size, (long long)t.per_core,
                    (long long)t.block_dim);
    }
}

// Loads, a call and a store of rows of `row` bytes; what is looped has a body of its own for the result.
Form RandomForm(const autofuse::TileAxis& a, int64_t row, bool by_rows)
{
    Form f = {};
    const bool once = g_random() % 4 == 0;
    f.bodies = 1 + (a.looped ? 1 : 0) + (once ? 1 : 0);
    const autofuse::Place inner = a.looped ? autofuse::kStep : autofuse::kTile;
    const bool staggered = a.looped && g_random() % 2 == 0;
    f.body[0] = {inner, Pick({0, 31877, 500000}), 46080, Pick({1, 2, 2}), g_random() % 8 == 0, true, staggered};
    f.body[1] = {a.looped ? autofuse::kTile : autofuse::kOnce, 31877, 46080, 2, false, false, false};
    f.body[2] = {autofuse::kOnce, 0, 46080, 2, false, true, false};
    const int64_t whole = autofuse::SaturatingMul(autofuse::SaturatingMul(a.extent, a.outer), row);
    const int64_t bytes = whole < (INT64_C(1) << 58) ? whole : INT64_C(1) << 58;
    const autofuse::Line rows = by_rows ? autofuse::Line{0, 1} : autofuse::Line{1, 0};
    const autofuse::Line length = by_rows ? autofuse::Line{row, 0} : autofuse::Line{0, row};
    const int64_t aligned = Pick({0, 4, 32, 4096});
    f.copy[0] = {0, autofuse::kRead, Pick({1, 2}), {1, 0}, rows, length, aligned, row, bytes, 0, bytes, {0, 0}, false, true};
    f.copy[1] = {0, Pick({0, 1}) != 0 ? autofuse::kAgain : autofuse::kRead, 1, {1, 0}, rows, length, aligned, row, 0,
                 row, row, {0, row}, false, g_random() % 2 == 0};
    f.copy[2] = {a.looped ? 1 : 0, autofuse::kWrite, 1, {1, 0}, rows, length, 0, row, a.looped ? 0 : bytes,
                 a.looped ? row : 0, bytes, {0, 0}, false, true};
    f.copies = 3;
    if (once) {
        f.copy[3] = {f.bodies - 1, autofuse::kRead, 1, {1, 0}, {1, 0}, {row, 0}, 0, 0, 0, row, row, {0, 0}, false, false};
        f.copies = 4;
    }
    f.call[0] = {0, {0, Pick({262144, 2000000}) * row}, {1, 0}};
    f.call[1] = {0, {0, 262144 * row}, {0, Pick({0, 1})}};
    f.calls = 2;
    return f;
}

void CheckProblem(const autofuse::TileAxis& a, const autofuse::Chip& chip, int64_t bytes_per_step, int64_t fixed)
{
    const int64_t limit = autofuse::Min(a.ub_limit, chip.ub);
    int64_t asked = 0;
    const auto ub = [&](int64_t t) {
        asked = autofuse::Max(asked, t);
        return fixed + 32 * autofuse::CeilDiv(autofuse::SaturatingMul(bytes_per_step, t), 32);
    };
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
    Check(asked <= 2 * largest + 2 * a.granule, "asked ub for an absurd size", a, tile);

    const Form form = RandomForm(a, bytes_per_step, g_random() % 2 == 0);
    autofuse::Search<Form> search(form, a, chip, largest);
    const int64_t spread = search.Spread(autofuse::kUnlimited).cost;
    tile = search.Refine();
    Check(tile.cost <= spread, "worse than what it started from", a, tile);
    Check(tile.size >= 1 && tile.size <= largest, "tile of nothing, or too long", a, tile);
    Check(tile.size % a.granule == 0 || tile.size == a.longest, "not on the granule", a, tile);
    const int64_t tiles = a.looped ? a.outer : a.outer * autofuse::CeilDiv(a.extent, tile.size);
    Check(tile.per_core >= 1 && tile.block_dim >= 1, "no work for the first core", a, tile);
    Check(tile.block_dim <= chip.cores, "more cores than there are", a, tile);
    Check(autofuse::SaturatingMul(tile.per_core, tile.block_dim) >= tiles, "tiles left over", a, tile);
    Check(tiles == 0 || (tile.block_dim - 1) * tile.per_core < tiles, "a core without work", a, tile);
    // Never worse than the largest tile on all cores, or on one.
    autofuse::Costs<Form> costs(form, a, chip);
    const auto cost = [&](int64_t t, int64_t per_core) {
        const autofuse::Length at = costs.Fill(t);
        const int64_t cores = autofuse::Pieces(at.tiles, per_core);
        return at.tiles == 0 ? chip.core_start
               : cores > at.free ? costs.Crowded(at, per_core, cores)
                                 : costs.AtLeast(at, per_core, cores);
    };
    const int64_t all = costs.Fill(largest).tiles;
    const int64_t on_all = cost(largest, autofuse::Max(autofuse::Pieces(all, chip.cores), 1));
    Check(tile.cost <= on_all, "worse than the largest tile", a, tile);
    Check(tile.cost == cost(tile.size, tile.per_core), "not the cost of the choice", a, tile);
}

void CheckRoots()
{
    for (int64_t x = 0; x < 5000; ++x) {
        const int64_t most = Pick({1, 2, 40, 48, 63, 64, 65535});
        const int64_t root = autofuse::Root(x, most);
        const bool ok = root >= 1 && root <= most && (root == 1 || root * root <= x) &&
                        (root == most || (root + 1) * (root + 1) > x);
        failures += ok ? 0 : 1;
    }
}

}  // namespace

int main()
{
    for (int round = 0; round < 100000; ++round) {
        autofuse::TileAxis a = {};
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
        a.conditions = true;
        const autofuse::Chip chip = {Pick({1, 2, 40, 48, 48, 65535}), Pick({188160, 64, 100000}), Pick({512, 128}),
                                     Pick({201326592, 65536}), 13312, 12288, 543, 203776, 512, 16271,
                                     480723, 152520, 580527, 20831, 5199, 48802, 31575, 4681, 26642};
        CheckProblem(a, chip, Pick({1, 2, 4, 16, 24, 200, 4096, 100000}), Pick({0, 0, 0, 8192}));
    }
    CheckRoots();
    if (failures != 0) {
        std::printf("%d checks failed\n", failures);
    }
    return failures == 0 ? 0 : 1;
}
