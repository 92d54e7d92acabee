// Gather, GatherMask, transposition of blocks and progressions: values, documented limits, definedness and races.
#include <algorithm>

#include "checked_support.h"
#include "kernel_support.h"

namespace {

template <typename T> std::vector<T> Count(uint32_t n) {
    std::vector<T> out(n);
    for (uint32_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(static_cast<int>(i));
    }
    return out;
}

template <typename T> void Gathers() {
    constexpr uint32_t size = sizeof(T);
    constexpr uint32_t lanes = 256 / size;
    std::vector<uint32_t> by(2 * lanes);
    uint64_t state = 3;
    for (uint32_t& b : by) {
        b = static_cast<uint32_t>(Next(state) % 400) * size;
    }
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(Count<T>(420));
        auto o = ub.Make(by);
        auto y = ub.Make<T>(4 * lanes);
        Gather(y, x, o, 5 * size, 2 * lanes - 3);
        for (uint32_t i = 0; i < 2 * lanes - 3; ++i) {
            CHECK(y.GetValue(i) == static_cast<T>(static_cast<int>(by[i] / size + 5)));
        }
        Gather(y, x, o, 0u, 3u, 2, 16);
        CHECK(y.GetValue(2) == static_cast<T>(static_cast<int>(by[2] / size)));
        CHECK(y.GetValue(2 * lanes + 1) == static_cast<T>(static_cast<int>(by[lanes + 1] / size)));
        const uint64_t mask[2] = {0x12, 0};
        Gather(y, x, o, 0u, mask, 1, 8);
        CHECK(y.GetValue(4) == static_cast<T>(static_cast<int>(by[4] / size)));
    });
}

template <typename T, typename U> void GatherMasks() {
    constexpr uint32_t lanes = 256 / sizeof(T);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(Count<T>(4 * lanes));
        auto y = ub.Make<T>(4 * lanes);
        uint64_t n = 0;
        GatherMask(y, x, 2, false, 0, GatherMaskParams{1, 2, 8, 0}, n);
        CHECK_EQ(n, uint64_t{lanes});
        CHECK(y.GetValue(3) == static_cast<T>(7) && y.GetValue(lanes - 1) == static_cast<T>(static_cast<int>(2 * lanes - 1)));
        GatherMask(y, x, 5, true, 70, GatherMaskParams{1, 2, 16, 0}, n);
        CHECK_EQ(n, uint64_t{2 * 17});
        CHECK(y.GetValue(1) == static_cast<T>(6) && y.GetValue(17) == static_cast<T>(static_cast<int>(2 * lanes + 2)));
        // A custom pattern, equal for both repeats.
        auto p = ub.Make(std::vector<U>(8, static_cast<U>(0x8009)));
        GatherMask(y, x, p, true, 32, GatherMaskParams{1, 2, 8, 0}, n);
        const uint32_t per = sizeof(T) == 2 ? 3 * 2 : 3;
        CHECK_EQ(n, uint64_t{2 * per});
        CHECK(y.GetValue(0) == static_cast<T>(0) && y.GetValue(1) == static_cast<T>(3) && y.GetValue(2) == static_cast<T>(15));
        CHECK(y.GetValue(per + 1) == static_cast<T>(static_cast<int>(lanes + 3)));
    });
}

template <typename T> void Blocks() {
    constexpr uint32_t block = 32 / sizeof(T);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(Count<T>(16 * 3 * block));  // 16 rows of 3 blocks
        auto y = ub.Make<T>(16 * 3 * block);
        LocalTensor<T> from[16];
        LocalTensor<T> to[16];
        uint64_t from_at[16];
        uint64_t to_at[16];
        for (uint32_t i = 0; i < 16; ++i) {
            from[i] = x[i * 3 * block];
            to[i] = y[i * block];
            from_at[i] = reinterpret_cast<uint64_t>(from[i].GetPhyAddr());
            to_at[i] = reinterpret_cast<uint64_t>(to[i].GetPhyAddr());
        }
        const auto holds = [&](uint32_t blocks, uint32_t first) {
            for (uint32_t c = 0; c < blocks * block; ++c) {
                for (uint32_t r = 0; r < 16; ++r) {
                    CHECK(y.GetValue(c * 16 + r) == static_cast<T>(static_cast<int>(r * 3 * block + first + c)));
                }
            }
        };
        TransDataTo5HD<T>(to, from, TransDataTo5HDParams(false, false, 3, 16, 1));
        holds(3, 0);
        TransDataTo5HD<T>(to_at, from_at, TransDataTo5HDParams(false, false, 2, 16, 1));
        holds(2, 0);
        // A single repeat starts after its addresses.
        TransDataTo5HD<T>(to_at, from_at, TransDataTo5HDParams(false, false, 1, 0, 2));
        holds(1, 2 * block);
        TransDataTo5HD<T>(to_at, from_at, TransDataTo5HDParams(false, false, 0, 0, 0));
        holds(1, 2 * block);
    });
}

void InPlace() {
    EXPECT_CLEAN(1, [] {
        Ub ub;
        auto x = ub.Make(Count<int16_t>(256));
        Transpose(x, x);
        for (uint32_t i = 0; i < 256; ++i) {
            CHECK_EQ(x.GetValue(i), static_cast<int16_t>(i % 16 * 16 + i / 16));
        }
    });
}

void Progressions() {
    EXPECT_CLEAN(1, [] {
        Ub ub;
        auto i = ub.Make<int32_t>(100);
        auto f = ub.Make<float>(100);
        auto h = ub.Make<half>(100);
        auto s = ub.Make<int16_t>(100);
        Arange(i, 5, -3, 100);
        Arange(f, 0.5f, 0.25f, 100);
        ArithProgression(h, half(1.0f), half(2.0f), 100);
        Arange(s, static_cast<int16_t>(32000), static_cast<int16_t>(100), 100);
        CHECK_EQ(i.GetValue(99), 5 - 3 * 99);
        CHECK_EQ(f.GetValue(99), 0.5f + 0.25f * 99);
        CHECK_EQ(static_cast<float>(h.GetValue(99)), 199.0f);
        CHECK_EQ(s.GetValue(99), static_cast<int16_t>(32000 + 9900));
    });
}

void Limits() {
    const auto run = [](const char* code, auto body) {
        EXPECT_FINDING(code, 1, [&] {
            TPipe pipe;
            TBuf<> a;
            TBuf<> b;
            TBuf<> c;
            pipe.InitBuffer(a, 1024);
            pipe.InitBuffer(b, 1024);
            pipe.InitBuffer(c, 1024);
            auto d = a.Get<float>();
            auto s = b.Get<float>();
            auto o = c.Get<uint32_t>();
            Duplicate(s, 1.0f, 256);
            Duplicate(o, uint32_t{0}, 256);
            body(d, s, o);
        });
    };
    run("", [](auto& d, auto& s, auto& o) { Gather(d, s, o, 0, 256); });
    run("ub-oob", [](auto& d, auto& s, auto& o) { Gather(d, s, o, 1024, 8); });
    run("ub-oob", [](auto& d, auto& s, auto& o) {
        o.SetValue(7, 1021u * 4);
        Gather(d, s, o, 0, 8);
    });
    run("ub-align", [](auto& d, auto& s, auto& o) {
        o.SetValue(7, 2u);
        Gather(d, s, o, 0, 8);
    });
    run("ub-align", [](auto& d, auto& s, auto& o) { Gather(d, s, o, 2, 8); });
    run("ub-align", [](auto& d, auto& s, auto& o) { Gather(d[1], s, o, 0, 8); });
    run("ub-oob", [](auto& d, auto& s, auto& o) { Gather(d, s, o[8], 0, 256); });
    run("ub-overlap", [](auto& d, auto&, auto& o) { Gather(d, d, o, 0, 8); });
    run("mask-range", [](auto& d, auto& s, auto&) {
        uint64_t n = 0;
        GatherMask(d, s, 8, false, 0, GatherMaskParams{1, 1, 8, 0}, n);
    });
    run("ub-oob", [](auto& d, auto& s, auto&) {
        uint64_t n = 0;
        GatherMask(d, s, 7, false, 0, GatherMaskParams{1, 5, 8, 0}, n);
    });
    const auto list = [](auto& t, uint32_t step, uint64_t (&out)[16]) {
        for (uint32_t i = 0; i < 16; ++i) {
            out[i] = reinterpret_cast<uint64_t>(t[i * step].GetPhyAddr());
        }
    };
    const auto blocks = [&](const char* code, auto change, TransDataTo5HDParams params) {
        run(code, [&](auto& d, auto& s, auto&) {
            uint64_t to[16];
            uint64_t from[16];
            list(d, 8, to);
            list(s, 8, from);
            change(to, from);
            TransDataTo5HD<float>(to, from, params);
        });
    };
    const auto nothing = [](auto&, auto&) {};
    blocks("", nothing, TransDataTo5HDParams(false, false, 1, 16, 16));
    blocks("ub-oob", nothing, TransDataTo5HDParams(false, false, 1, 17, 0));
    blocks("ub-oob", nothing, TransDataTo5HDParams(false, false, 3, 16, 0));
    blocks("ub-oob", [](auto& to, auto&) { to[3] = 12345; }, TransDataTo5HDParams());
    blocks("ub-align", [](auto& to, auto&) { to[3] += 4; }, TransDataTo5HDParams());
    blocks("ub-overlap", [](auto& to, auto& from) { std::copy(from, from + 16, to); },
           TransDataTo5HDParams(false, false, 2, 1, 1));
}

// Orders of execution: offsets before Gather, blocks before and after a transposition.
void Barriers() {
    for (const int which : {0, 1, 2}) {
        PAIR("layout", "race", true, 1, [which](Arrays& a, bool fault) {
            constexpr uint32_t n = kTile * kTiles;
            TPipe pipe;
            TBuf<TPosition::VECIN> in;
            TBuf<TPosition::VECOUT> out;
            TBuf<> by;
            TBuf<> mid;
            pipe.InitBuffer(in, n * 4);
            pipe.InitBuffer(out, n * 4);
            pipe.InitBuffer(by, n * 4);
            pipe.InitBuffer(mid, n * 4);
            auto x = in.Get<float>();
            auto y = out.Get<float>();
            auto i = by.Get<int32_t>();
            auto t = mid.Get<float>();
            DataCopy(x, a.X(), n);
            Duplicate(y, 0.0f, n);
            Duplicate(t, 0.0f, n);
            Duplicate(i, 0, n);
            PipeBarrier<PIPE_ALL>();
            Arange(i, static_cast<int32_t>(4 * (n - 1)), -4, n);
            if (!fault || which != 0) {
                PipeBarrier<PIPE_V>();
            }
            Gather(t, x, i.ReinterpretCast<uint32_t>(), 0, n);
            if (!fault || which != 1) {
                PipeBarrier<PIPE_V>();
            }
            uint64_t from[16];
            uint64_t to[16];
            for (uint32_t k = 0; k < 16; ++k) {
                from[k] = reinterpret_cast<uint64_t>(t[k * 24].GetPhyAddr());
                to[k] = reinterpret_cast<uint64_t>(y[k * 8].GetPhyAddr());
            }
            TransDataTo5HD<float>(to, from, TransDataTo5HDParams(false, false, 3, 16, 1));
            if (!fault || which != 2) {
                PipeBarrier<PIPE_V>();
            }
            Adds(y, y, 1.0f, n);
            PipeBarrier<PIPE_ALL>();
            DataCopy(a.Y(), y, n);
        });
    }
}

// Elements that were never written stay undefined, one by one.
void Undefined() {
    PAIR("a block without values", "uninit-store", false, 1, [](Arrays& a, bool fault) {
        constexpr uint32_t n = kTile * kTiles;
        TPipe pipe;
        TBuf<> mid;
        TBuf<TPosition::VECOUT> out;
        pipe.InitBuffer(mid, n * 4);
        pipe.InitBuffer(out, n * 4);
        auto t = mid.Get<float>();
        auto y = out.Get<float>();
        Duplicate(y, 0.0f, n);
        Duplicate(t, 1.0f, fault ? 127 : 128);
        PipeBarrier<PIPE_V>();
        uint64_t from[16];
        uint64_t to[16];
        for (uint32_t k = 0; k < 16; ++k) {
            from[k] = reinterpret_cast<uint64_t>(t[k * 8].GetPhyAddr());
            to[k] = reinterpret_cast<uint64_t>(y[k * 8].GetPhyAddr());
        }
        TransDataTo5HD<float>(to, from, TransDataTo5HDParams());
        PipeBarrier<PIPE_ALL>();
        DataCopy(a.Y(), y, n);
    });
}

}  // namespace

int main() {
    Gathers<float>();
    Gathers<int16_t>();
    Gathers<half>();
    GatherMasks<float, uint32_t>();
    GatherMasks<int16_t, uint16_t>();
    Blocks<float>();
    Blocks<int32_t>();
    Blocks<half>();
    Blocks<uint16_t>();
    InPlace();
    Progressions();
    Limits();
    Barriers();
    Undefined();
    return check::Failures() != 0;
}
