// Properties of autofuse_tiling_solver.h over many random problems.  Prints what breaks; exit status 1 if anything did.
#include <cstdio>
#include <initializer_list>
#include <random>

#include "autofuse_tiling_solver.h"

namespace {

using Form = autofuse::Form<3, 4, 4, 3>;
constexpr autofuse::Chip kChip = {48, 188160, 512, 201326592, 13312, 12288, 543, 203776, 512, 16271,
                                  480723, 152520, 580527, 20831, 5199, 48802, 31575, 4681, 26642};

// Two passes over rows that several iterations of a loop share, a row that all of them share, and a result; a running sum.
using autofuse::Number;
constexpr Form kTwoPasses = {
    3, 4, 4, 3,
    {{autofuse::kStep, 355768, 46080, 2, false, true, true},
     {autofuse::kTile, 306350, 46080, 1, true, false, false},
     {autofuse::kOnce, 63754, 46080, 2, false, true, false}},
    {{0, 3, 0, {1, 0}, {Number(0), 0}, {0, 4}, Number(1), 4},
     {0, 1, 1, {1, 0}, {0, 1}, {Number(2), 0}, 4, Number(3)},
     {1, 0, 1, {Number(4), 1}, {2, 1}, {Number(5), 0}, 0, 0},
     {2, 2, 0, {1, 0}, {1, 0}, {Number(6), 0}, 0, 0}},
    {{0, autofuse::kRead, 3, Number(7), 0, Number(8), {0, 0}, Number(9), false},
     {1, autofuse::kAgain, 1, 0, Number(10), Number(11), {Number(12), 4}, 0, true},
     {2, autofuse::kWrite, 1, Number(13), 0, Number(14), {0, 0}, 1, false},
     {3, autofuse::kStream, 2, 0, Number(15), Number(16), {0, 0}, 0, false}},
    {{0, {Number(17), 179020728}, {1, 0}}, {1, {4096, Number(18)}, {1, Number(19)}}, {2, {Number(20), 0}, {Number(21), 0}}},
};
constexpr int kNumbers = 22;
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
    const int64_t first = Pick({1, 2});
    f.row[0] = {0, first + 1, 0, {1, 0}, rows, length, aligned, row};
    f.row[1] = {a.looped ? 1 : 0, 0, 1, {1, 0}, rows, length, 0, row};
    f.rows = 2;
    f.copy[0] = {0, autofuse::kRead, first, bytes, 0, bytes, {0, 0}, 0, true};
    f.copy[1] = {0, Pick({0, 1}) != 0 ? autofuse::kAgain : autofuse::kRead, 1, 0, row, row, {0, row}, 0,
                 g_random() % 2 == 0};
    f.copy[2] = {1, autofuse::kWrite, 1, a.looped ? 0 : bytes, a.looped ? row : 0, bytes, {0, 0}, 0, true};
    f.copies = 3;
    if (once) {
        f.row[2] = {f.bodies - 1, 1, 0, {1, 0}, {1, 0}, {row, 0}, 0, 0};
        f.rows = 3;
        f.copy[3] = {2, autofuse::kRead, 1, 0, row, row, {0, 0}, 0, false};
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
    Check(asked <= 256 * autofuse::Max(largest, a.granule), "asked ub for an absurd size", a, tile);

    const Form form = RandomForm(a, bytes_per_step, g_random() % 2 == 0);
    autofuse::Costs<autofuse::Rolled<Form>> costs(form, nullptr, a, chip);
    autofuse::Search search(costs, costs.Distances(), a, chip, largest);
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

// A form with numbers in the places of those that stand for them.
Form WithNumbers(const Form& open, const int64_t (&numbers)[kNumbers])
{
    Form f = open;
    const auto fill = [&](std::initializer_list<int64_t*> members) {
        for (int64_t* m : members) {
            *m = *m < Number(kNumbers) ? numbers[*m - Number(0)] : *m;
        }
    };
    for (autofuse::Rows& r : f.row) {
        fill({&r.commands.base, &r.commands.step, &r.rows.base, &r.rows.step, &r.row_bytes.base, &r.row_bytes.step,
              &r.aligned, &r.tiled});
    }
    for (autofuse::Copies& c : f.copy) {
        fill({&c.whole, &c.each, &c.distinct, &c.footprint.base, &c.footprint.step, &c.varies});
    }
    for (autofuse::Calls& v : f.call) {
        fill({&v.cycles.base, &v.cycles.step, &v.along.base, &v.along.step});
    }
    return f;
}

// A form that the compiler knows, but for some numbers, costs what it costs when all is looked up as it runs.
void CheckUnrolled()
{
    for (int round = 0; round < 20000; ++round) {
        int64_t numbers[kNumbers];
        for (int64_t& n : numbers) {
            n = Pick({0, 1, 2, 4, 32, 96, 512, 4096});
        }
        const Form whole = WithNumbers(kTwoPasses, numbers);
        autofuse::TileAxis a = {};
        a.extent = Pick({1, 7, 64, 1000, 65537});
        a.longest = a.extent;
        a.outer = Pick({1, 2, 49, 1000});
        a.reduce_outer = Pick({1, 3});
        a.granule = 1;
        a.looped = g_random() % 2 == 0;
        autofuse::Chip chip = kChip;
        chip.cores = Pick({1, 20, 48});
        autofuse::Costs<autofuse::Rolled<Form>> rolled(whole, nullptr, a, chip);
        autofuse::Costs<autofuse::Rolled<Form>> open(kTwoPasses, numbers, a, chip);
        autofuse::Costs<autofuse::Unrolled<Form, kTwoPasses, kChip>> unrolled(kTwoPasses, numbers, a, chip);
        const autofuse::FormView elsewhere = autofuse::FormView::Of(kTwoPasses);
        autofuse::Costs<autofuse::Rolled<autofuse::FormView>> view(elsewhere, numbers, a, chip);
        const int64_t lengths[] = {a.extent, Pick({1, 2, 16}), Pick({8, 100, 4096})};
        for (const int64_t t : lengths) {
            const autofuse::Length x = rolled.Fill(t);
            const int64_t cores = autofuse::Min(autofuse::Max(x.tiles, 1), chip.cores);
            const int64_t k = autofuse::Pieces(x.tiles, cores);
            for (autofuse::LengthCosts* other : {static_cast<autofuse::LengthCosts*>(&open),
                                                 static_cast<autofuse::LengthCosts*>(&unrolled),
                                                 static_cast<autofuse::LengthCosts*>(&view)}) {
                const autofuse::Length y = other->Fill(t);
                const bool same = x.tiles == y.tiles && x.gm == y.gm && x.gm_core == y.gm_core && x.free == y.free &&
                                  x.once == y.once && x.period == y.period && x.tail == y.tail &&
                                  x.behind == y.behind && x.every == y.every &&
                                  rolled.Crowded(x, k, cores) == other->Crowded(y, k, cores);
                Check(same, "other code costs otherwise", a, {t, k, cores, 0});
            }
            Check(rolled.Distances() == unrolled.Distances() && rolled.Distances() == view.Distances(), "other distances", a,
                  {t, k, cores, 0});
        }
    }
}

// The same tables, with room for more than one copy of the code for all graphs has.
using LargeForm = autofuse::Form<3, autofuse::FormView::kRowsLimit + 1, 4, 3>;

constexpr LargeForm Enlarged(const Form& form)
{
    LargeForm large = {};
    large.bodies = form.bodies;
    large.rows = form.rows;
    large.copies = form.copies;
    large.calls = form.calls;
    for (int i = 0; i < form.bodies; ++i) {
        large.body[i] = form.body[i];
    }
    for (int i = 0; i < form.rows; ++i) {
        large.row[i] = form.row[i];
    }
    for (int i = 0; i < form.copies; ++i) {
        large.copy[i] = form.copy[i];
    }
    for (int i = 0; i < form.calls; ++i) {
        large.call[i] = form.call[i];
    }
    return large;
}

constexpr LargeForm kLarge = Enlarged(kTwoPasses);
static_assert(autofuse::FormView::Holds<Form>() && !autofuse::FormView::Holds<LargeForm>());

// Sizes of a graph: its axis, bytes of UB for each step and the numbers of the form.
struct Sizes {
    autofuse::TileAxis axis;
    int64_t bytes;
    int64_t numbers[kNumbers];
};

autofuse::TileAxis AxisOf(const Sizes& s)
{
    return s.axis;
}

int64_t UbOf(const Sizes& s, int64_t t)
{
    return s.bytes * t;
}

void NumbersOf(const Sizes& s, int64_t* n)
{
    for (int i = 0; i < kNumbers; ++i) {
        n[i] = s.numbers[i];
    }
}

// A template is solved the same way by code of its own and by that for all graphs.
void CheckShared()
{
    for (int round = 0; round < 20000; ++round) {
        Sizes s = {};
        for (int64_t& n : s.numbers) {
            n = Pick({0, 1, 2, 4, 32, 96, 512, 4096});
        }
        s.bytes = Pick({1, 4, 100, 2000, 200000});
        s.axis.extent = Pick({0, 1, 7, 64, 1000, 65537});
        s.axis.longest = autofuse::Max(s.axis.extent, 1);
        s.axis.outer = Pick({1, 2, 49, 1000});
        s.axis.reduce_outer = Pick({1, 3});
        s.axis.granule = Pick({1, 8});
        s.axis.tile_max = autofuse::kUnlimited;
        s.axis.ub_limit = kChip.ub;
        s.axis.looped = g_random() % 2 == 0;
        s.axis.conditions = g_random() % 16 != 0;
        const int64_t least = Pick({autofuse::kUnlimited, autofuse::kUnlimited, 1000000, 100000000});
        autofuse::Found found[3] = {};
        const autofuse::Status why[] = {
            autofuse::SolveForm<Sizes, autofuse::Rolled<Form>, kTwoPasses, &AxisOf, &UbOf, kNumbers, &NumbersOf>(
                s, kChip, least, &found[0]),
            autofuse::SolveForm<Sizes, autofuse::Rolled<LargeForm>, kLarge, &AxisOf, &UbOf, kNumbers, &NumbersOf>(
                s, kChip, least, &found[1]),
            autofuse::SolveForm<Sizes, autofuse::Unrolled<Form, kTwoPasses, kChip>, kTwoPasses, &AxisOf, &UbOf, kNumbers,
                                &NumbersOf>(s, kChip, least, &found[2])};
        for (int i = 1; i < 3; ++i) {
            const bool same = why[i] == why[0] && found[i].comparable == found[0].comparable &&
                              found[i].tile.size == found[0].tile.size &&
                              found[i].tile.per_core == found[0].tile.per_core &&
                              found[i].tile.block_dim == found[0].tile.block_dim && found[i].tile.cost == found[0].tile.cost;
            Check(same, "solved otherwise", s.axis, found[i].tile);
        }
    }
}

void CheckRoots()
{
    for (int64_t i = 0; i < 20000; ++i) {
        const int64_t x = i < 5000 ? i : static_cast<int64_t>(g_random() >> (1 + g_random() % 63));
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
        autofuse::Chip chip = kChip;
        chip.cores = Pick({1, 2, 40, 48, 48, 65535});
        chip.ub = Pick({188160, 64, 100000});
        chip.line = Pick({512, 128});
        chip.l2 = Pick({201326592, 65536});
        CheckProblem(a, chip, Pick({1, 2, 4, 16, 24, 200, 4096, 100000}), Pick({0, 0, 0, 8192}));
    }
    CheckRoots();
    CheckUnrolled();
    CheckShared();
    if (failures != 0) {
        std::printf("%d checks failed\n", failures);
    }
    return failures == 0 ? 0 : 1;
}
