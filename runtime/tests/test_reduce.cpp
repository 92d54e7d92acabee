// Reductions of the vector unit: values, order, indices, strides, masks, documented limits, definedness and races.
#include <algorithm>

#include "checked_support.h"
#include "kernel_support.h"

namespace {

std::vector<float> Numbers(uint32_t n, uint64_t seed) {
    std::vector<float> out(n);
    for (float& v : out) {
        v = static_cast<float>(static_cast<int64_t>(Next(seed) % 1000) - 500) / 8.0f;
    }
    return out;
}

// Adjacent elements first, rounded to T after every addition.
template <typename T> float TreeSum(const std::vector<float>& v, size_t first, size_t n) {
    if (n == 1) {
        return v[first];
    }
    size_t left = 1;
    while (left * 2 < n) {
        left *= 2;
    }
    return static_cast<float>(T(TreeSum<T>(v, first, left) + TreeSum<T>(v, first + left, n - left)));
}

template <typename T> void WholeSums() {
    constexpr uint32_t lanes = 256 / sizeof(T);
    const auto numbers = Numbers(4 * lanes, 3);
    const std::vector<T> a(numbers.begin(), numbers.end());
    const std::vector<float> f(a.begin(), a.end());
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make<T>(64);
        Duplicate(y, T(9.0f), 64);
        for (const uint32_t mask : {1u, 2u, 5u, 33u, lanes}) {
            WholeReduceSum(y, x, static_cast<int32_t>(mask), 4, 1, 1, 8);
            for (uint32_t r = 0; r < 4; ++r) {
                CHECK_EQ(static_cast<float>(y.GetValue(r)), TreeSum<T>(f, r * lanes, mask));
            }
        }
        CHECK_EQ(static_cast<float>(y.GetValue(4)), 9.0f);
        // Disjoint results, disjoint blocks, overlapping sources.
        WholeReduceSum(y[1], x, static_cast<int32_t>(lanes / 4), 3, 5, 2, 1);
        for (uint32_t r = 0; r < 3; ++r) {
            constexpr uint32_t block = 32 / sizeof(T);
            float want = TreeSum<T>(f, r * block, block);
            want = static_cast<float>(T(want + TreeSum<T>(f, (r + 2) * block, block)));
            CHECK_EQ(static_cast<float>(y.GetValue(1 + 5 * r)), want);
        }
        // Lanes by their bits.
        const uint64_t mask[2] = {0x8000000000000011ull, 0};
        WholeReduceSum(y, x, mask, 1, 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(0)), static_cast<float>(T(f[63] + static_cast<float>(T(f[0] + f[4])))));
        WholeReduceSum(y, x, 0, 1, 1, 1, 8);
        WholeReduceSum(y, x, 1, 0, 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(0)), static_cast<float>(T(f[63] + static_cast<float>(T(f[0] + f[4])))));
        ReduceRepeat<ReduceType::SUM>(y, x, 2, 1, 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(0)), static_cast<float>(T(f[0] + f[1])));
    });
}

template <typename T, typename Index> void WholeExtremes() {
    constexpr uint32_t lanes = 256 / sizeof(T);
    const auto numbers = Numbers(3 * lanes, 8);
    const std::vector<T> a(numbers.begin(), numbers.end());
    const auto top = [&](uint32_t r, uint32_t n) {
        return static_cast<uint32_t>(std::max_element(numbers.begin() + r * lanes, numbers.begin() + r * lanes + n) -
                                     (numbers.begin() + r * lanes));
    };
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make<T>(64);
        const int32_t mask = lanes - 3;
        WholeReduceMax(y, x, mask, 3, 1, 1, 8);
        for (uint32_t r = 0; r < 3; ++r) {
            const uint32_t at = top(r, lanes - 3);
            CHECK_EQ(static_cast<float>(y.GetValue(2 * r)), static_cast<float>(a[r * lanes + at]));
            CHECK_EQ(static_cast<uint32_t>(y.template ReinterpretCast<Index>().GetValue(2 * r + 1)), at);
        }
        WholeReduceMax(y, x, mask, 3, 2, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);
        CHECK_EQ(static_cast<float>(y.GetValue(4 + 1)), static_cast<float>(a[lanes + top(1, lanes - 3)]));
        CHECK_EQ(static_cast<uint32_t>(y.template ReinterpretCast<Index>().GetValue(4)), top(1, lanes - 3));
        WholeReduceMax(y, x, mask, 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        CHECK_EQ(static_cast<float>(y.GetValue(2)), static_cast<float>(a[2 * lanes + top(2, lanes - 3)]));
        WholeReduceMax(y, x, mask, 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);
        CHECK_EQ(y.template ReinterpretCast<uint32_t>().GetValue(2), top(2, lanes - 3));
        WholeReduceMin(y, x, static_cast<int32_t>(lanes), 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        CHECK_EQ(static_cast<float>(y.GetValue(1)),
                 *std::min_element(numbers.begin() + lanes, numbers.begin() + 2 * lanes));
        ReduceRepeat<ReduceType::MIN>(y, x, static_cast<int32_t>(lanes), 1, 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(0)), *std::min_element(numbers.begin(), numbers.begin() + lanes));
        // Of equal values the first one wins; NaN wins over all.
        Duplicate(x, T(2.0f), static_cast<int32_t>(lanes));
        WholeReduceMin(y, x, static_cast<int32_t>(lanes), 1, 1, 1, 8);
        CHECK_EQ(static_cast<uint32_t>(y.template ReinterpretCast<Index>().GetValue(1)), 0u);
        x.SetValue(17, T(NAN));
        WholeReduceMin(y, x, static_cast<int32_t>(lanes), 1, 1, 1, 8);
        CHECK(std::isnan(static_cast<float>(y.GetValue(0))));
        CHECK_EQ(static_cast<uint32_t>(y.template ReinterpretCast<Index>().GetValue(1)), 17u);
    });
}

template <typename T> void BlocksAndPairs() {
    constexpr uint32_t block = 32 / sizeof(T);
    const auto numbers = Numbers(16 * block, 4);
    const std::vector<T> a(numbers.begin(), numbers.end());
    const std::vector<float> f(a.begin(), a.end());
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make<T>(256);
        BlockReduceSum(y, x, 2, static_cast<int32_t>(8 * block), 1, 1, 8);
        for (uint32_t b = 0; b < 16; ++b) {
            CHECK_EQ(static_cast<float>(y.GetValue(b)), TreeSum<T>(f, b * block, block));
        }
        BlockReduceMax(y, x, 1, static_cast<int32_t>(8 * block), 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(3)), *std::max_element(f.begin() + 3 * block, f.begin() + 4 * block));
        // A block with no lane keeps its result, one with some lanes counts those.
        Duplicate(y, T(7.0f), 64);
        BlockReduceMin(y, x, 1, static_cast<int32_t>(block + 2), 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(0)), *std::min_element(f.begin(), f.begin() + block));
        CHECK_EQ(static_cast<float>(y.GetValue(1)), std::min(f[block], f[block + 1]));
        CHECK_EQ(static_cast<float>(y.GetValue(2)), 7.0f);
        ReduceDataBlock<ReduceType::SUM>(y, x, static_cast<int32_t>(8 * block), 1, 1, 1, 8);
        CHECK_EQ(static_cast<float>(y.GetValue(7)), TreeSum<T>(f, 7 * block, block));
        PairReduceSum(y, x, 2, static_cast<int32_t>(8 * block), 1, 1, 8);
        for (uint32_t i = 0; i < 8 * block; ++i) {
            CHECK_EQ(static_cast<float>(y.GetValue(i)), static_cast<float>(T(f[2 * i] + f[2 * i + 1])));
        }
    });
}

template <typename T, typename Index> void WholeTensors() {
    const auto numbers = Numbers(1000, 6);
    const std::vector<T> a(numbers.begin(), numbers.end());
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make<T>(16);
        auto tmp = ub.Make<T>(64);
        for (const int32_t n : {1, 63, 64, 65, 128, 129, 1000}) {
            ReduceMax(y, x, tmp, n, true);
            const auto top = std::max_element(numbers.begin(), numbers.begin() + n);
            CHECK_EQ(static_cast<float>(y.GetValue(0)), *top);
            CHECK_EQ(static_cast<int64_t>(y.template ReinterpretCast<Index>().GetValue(1)), top - numbers.begin());
            ReduceMin(y, x, tmp, n);
            CHECK_EQ(static_cast<float>(y.GetValue(0)), *std::min_element(numbers.begin(), numbers.begin() + n));
            ReduceSum(y, x, tmp, n);
            double sum = 0;
            for (int32_t i = 0; i < n; ++i) {
                sum += static_cast<double>(numbers[static_cast<size_t>(i)]);
            }
            CHECK(std::fabs(static_cast<double>(static_cast<float>(y.GetValue(0))) - sum) <= (sizeof(T) == 2 ? 4.0 : 0.0));
        }
    });
}

// Documented limits, one by one.
void Limits() {
    using F32 = LocalTensor<float>;
    const auto run = [](const char* code, auto body) {
        EXPECT_FINDING(code, 1, [&] {
            TPipe pipe;
            TBuf<> a;
            TBuf<> b;
            TBuf<> c;
            pipe.InitBuffer(a, 1024);
            pipe.InitBuffer(b, 1024);
            pipe.InitBuffer(c, 32);
            F32 d = a.Get<float>();
            F32 s = b.Get<float>();
            F32 t = c.Get<float>();
            Duplicate(s, 1.0f, 256);
            body(d, s, t);
        });
    };
    run("", [](F32& d, F32& s, F32&) { WholeReduceSum(d[3], s, 64, 4, 1, 1, 8); });
    run("ub-align", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s[4], 8, 1, 1, 1, 8); });
    run("ub-align", [](F32& d, F32& s, F32&) { WholeReduceMax(d[1], s, 8, 1, 1, 1, 8); });
    run("", [](F32& d, F32& s, F32&) { WholeReduceMax(d[1], s, 8, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE); });
    run("ub-align", [](F32& d, F32& s, F32&) { BlockReduceSum(d[4], s, 1, 64, 1, 1, 8); });
    run("ub-align", [](F32& d, F32& s, F32&) { PairReduceSum(d[4], s, 1, 64, 1, 1, 8); });
    run("ub-oob", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 64, 5, 1, 1, 8); });
    run("ub-oob", [](F32& d, F32& s, F32&) { WholeReduceSum(d[253], s, 64, 4, 1, 1, 8); });
    run("ub-oob", [](F32& d, F32& s, F32&) { BlockReduceSum(d, s, 2, 64, 32, 1, 8); });
    run("ub-overlap", [](F32& d, F32&, F32&) { WholeReduceSum(d, d, 64, 1, 1, 1, 8); });
    run("mask-range", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 65, 1, 1, 1, 8); });
    run("mask-range", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, -1, 1, 1, 1, 8); });
    run("repeat-params", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 8, 256, 0, 1, 0); });
    run("", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 8, 255, 0, 1, 0); });
    run("repeat-params", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 8, 1, 65536, 1, 8); });
    run("repeat-params", [](F32& d, F32& s, F32&) { WholeReduceSum(d, s, 8, 1, 1, 1, -1); });
    run("tmp-size", [](F32& d, F32& s, F32& t) { ReduceMax(d, s, t, 256, true); });
    run("", [](F32& d, F32& s, F32& t) { ReduceMax(d, s, t, 256); });
    run("", [](F32& d, F32& s, F32&) { ReduceMax(d, s, s, 256, true); });
    run("", [](F32& d, F32& s, F32& t) { ReduceSum(d[5], s, t, 256); });
    run("ub-align", [](F32& d, F32& s, F32& t) { ReduceMax(d[1], s, t, 8, true); });
    run("count-range", [](F32& d, F32& s, F32& t) { ReduceSum(d, s, t, -1); });
}

// A reduction needs barriers on both sides; for some order of execution a missing one changes the sum.
void Barriers() {
    for (const int which : {0, 1}) {
        PAIR("WholeReduceSum", "race", true, 1, [which](Arrays& a, bool fault) {
            TPipe pipe;
            TBuf<TPosition::VECIN> in;
            TBuf<TPosition::VECOUT> out;
            TBuf<> mid;
            pipe.InitBuffer(in, kTile * kTiles * 4);
            pipe.InitBuffer(out, kTile * kTiles * 4);
            pipe.InitBuffer(mid, kTile * kTiles * 4);
            auto x = in.Get<float>();
            auto y = out.Get<float>();
            auto t = mid.Get<float>();
            DataCopy(x, a.X(), kTile * kTiles);
            Duplicate(y, 0.0f, kTile * kTiles);
            Duplicate(t, 0.0f, kTile * kTiles);
            PipeBarrier<PIPE_ALL>();
            Adds(t, x, 1.0f, kTile * kTiles);
            if (!fault || which != 0) {
                PipeBarrier<PIPE_V>();
            }
            WholeReduceSum(y, t, 64, kTiles, 1, 1, 8);
            if (!fault || which != 1) {
                PipeBarrier<PIPE_V>();
            }
            Muls(y, y, 3.0f, 8);
            PipeBarrier<PIPE_ALL>();
            DataCopy(a.Y(), y, kTile * kTiles);
        });
    }
}

// An unwritten lane makes the result undefined, if it is enabled.
void Undefined() {
    PAIR("a lane without a value", "uninit-store", false, 1, [](Arrays& a, bool fault) {
        TPipe pipe;
        TBuf<> mid;
        TBuf<TPosition::VECOUT> out;
        pipe.InitBuffer(mid, 256);
        pipe.InitBuffer(out, kTile * kTiles * 4);
        auto t = mid.Get<float>();
        auto y = out.Get<float>();
        Duplicate(y, 0.0f, kTile * kTiles);
        Duplicate(t, 1.0f, 63);
        PipeBarrier<PIPE_V>();
        WholeReduceSum(y, t, fault ? 64 : 63, 1, 1, 1, 8);
        PipeBarrier<PIPE_V>();
        BlockReduceMax(y[8], t, 1, fault ? 64 : 56, 1, 1, 8);
        PipeBarrier<PIPE_ALL>();
        DataCopy(a.Y(), y, kTile * kTiles);
    });
}

}  // namespace

int main() {
    WholeSums<float>();
    WholeSums<half>();
    WholeExtremes<float, uint32_t>();
    WholeExtremes<half, uint16_t>();
    BlocksAndPairs<float>();
    BlocksAndPairs<half>();
    WholeTensors<float, uint32_t>();
    WholeTensors<half, uint16_t>();
    Limits();
    Barriers();
    Undefined();
    return check::Failures() != 0;
}
