// Properties of autofuse_tiling_solver.h over many random problems.  Prints what breaks; exit status 1 if anything did.
#include <cstdio>
#include <random>

#include "autofuse_tiling_solver.h"

namespace {

int failures = 0;

void Check(bool ok, const char* what, const autofuse::TileAxis& a, const autofuse::Tile& t)
{
    if (!ok && ++failures <= 20) {
        std::printf("%s: extent %lld outer %lld granule %lld row %lld -> t %lld Tb %lld cores %lld\n", what,
                    (long long)a.extent, (long long)a.outer, (long long)a.granule, (long long)a.row_elements,
                    (long long)t.size, (long long)t.per_core, (long long)t.block_dim);
    }
}

void CheckProblem(const autofuse::TileAxis& a, const autofuse::Machine& m, int64_t bytes_per_step, int64_t fixed)
{
    const int64_t limit = autofuse::Min(a.ub_limit, m.ub);
    int64_t asked = 0;
    const auto ub = [&](int64_t t) {
        asked = autofuse::Max(asked, t);
        return fixed + 32 * autofuse::CeilDiv(autofuse::SaturatingMul(bytes_per_step, t), 32);
    };
    const auto bytes = [&](int64_t t) { return t * bytes_per_step; };
    autofuse::Tile tile;
    const bool found = autofuse::SolveTile(a, m, ub, bytes, &tile);
    const int64_t least = autofuse::Max(autofuse::Min(a.granule, a.extent), 1);
    if (!found) {
        Check(ub(least) > limit || least > a.tile_max, "a legal tile was missed", a, tile);
        return;
    }
    Check(tile.size >= 1, "tile of nothing", a, tile);
    Check(ub(tile.size) <= limit, "UB exceeded", a, tile);
    Check(tile.size <= a.tile_max, "tile_max exceeded", a, tile);
    Check(tile.size % a.granule == 0 || tile.size == autofuse::Max(a.extent, 1), "not on the granule", a, tile);
    Check(tile.size <= autofuse::Max(a.extent, 1), "tile longer than the axis", a, tile);
    const int64_t tiles = a.looped ? a.outer : a.outer * autofuse::CeilDiv(a.extent, tile.size);
    Check(tile.per_core >= 1 && tile.block_dim >= 1, "no work for the first core", a, tile);
    Check(tile.block_dim <= m.cores, "more cores than there are", a, tile);
    Check(autofuse::SaturatingMul(tile.per_core, tile.block_dim) >= tiles, "tiles left over", a, tile);
    Check(tiles == 0 || (tile.block_dim - 1) * tile.per_core < tiles, "a core without work", a, tile);
    // Doubling stops at the first tile that does not fit.
    Check(asked <= a.granule || ub(asked / 2 / a.granule * a.granule) <= limit || asked == a.extent,
          "asked ub for an absurd size", a, tile);
    // The whole axis in one tile per core is found where one core is all there is.
    if (m.cores == 1 && a.extent >= 1 && a.extent <= a.tile_max && ub(a.extent) <= limit && a.head > (1 << 20)) {
        Check(tile.size == a.extent, "the axis was cut for nothing", a, tile);
    }
}

}  // namespace

int main()
{
    std::mt19937_64 random(20250101);
    const auto pick = [&](std::initializer_list<int64_t> values) {
        return *(values.begin() + random() % values.size());
    };
    for (int round = 0; round < 200000; ++round) {
        autofuse::TileAxis a = {};
        a.extent = random() % 4 == 0 ? pick({0, 1, 2, 7, 8, 31, 32, 97, 8191, 65537, INT64_C(1) << 40})
                                     : static_cast<int64_t>(random() % (INT64_C(1) << (1 + random() % 40)));
        a.outer = pick({0, 1, 1, 1, 2, 3, 5, 48, 49, 1000, 524287});
        a.granule = pick({1, 4, 8, 16, 32, 64, 48});
        a.tile_max = pick({autofuse::kUnlimited, 4095, 4095, 100, 1});
        a.row_elements = pick({1, 1, 1, 7, 200, 4096, 100000});
        a.ub_limit = pick({188160, 188160, 253696, 8192});
        a.head = pick({0, 39, 400, 1 << 21});
        a.looped = random() % 4 == 0;
        a.conditions = true;
        const autofuse::Machine m = {pick({1, 2, 40, 48, 48, 65535}), pick({188160, 64, 100000}), pick({1, 17, 20})};
        CheckProblem(a, m, a.row_elements * pick({1, 2, 4, 16, 24}), pick({0, 0, 0, 8192}));
    }
    if (failures != 0) {
        std::printf("%d checks failed\n", failures);
    }
    return failures == 0 ? 0 : 1;
}
