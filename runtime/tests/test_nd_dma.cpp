// The multi-dimensional copy of Ascend 950: positions of elements, untouched bytes, findings and records.
#define __NPU_ARCH__ 3510
#include "checked_support.h"

#include <algorithm>

namespace {

constexpr NdDmaConfig kPlain{};
constexpr uint32_t kBytes = 32768;  // of UB

// A core with x in GM, and a buffer of UB filled with the poison.
template <typename T> struct Place {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    LocalTensor<T> ub;
    GlobalTensor<T> x;

    explicit Place(std::vector<T>& v) {
        pipe.InitBuffer(in, 1, kBytes);
        ub = in.AllocTensor<T>();
        x.SetGlobalBuffer(v.data(), v.size());
    }
    ~Place() { in.FreeTensor(ub); }
};

template <typename T> std::vector<T> Ramp(uint32_t n) {
    std::vector<T> out(n);
    for (uint32_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(i % 251);
    }
    return out;
}

template <typename T, uint8_t dim>
NdDmaParams<T, dim> Loops(const uint32_t (&size)[dim], const uint64_t (&src)[dim], const uint32_t (&dst)[dim]) {
    NdDmaParams<T, dim> p{};
    for (int i = 0; i < dim; ++i) {
        p.loopInfo.loopSize[i] = size[i];
        p.loopInfo.loopSrcStride[i] = src[i];
        p.loopInfo.loopDstStride[i] = dst[i];
    }
    return p;
}

// Copies in fast mode, in checked mode and in checked mode with seeds. Compares all elements of UB with the copy's
// description, including the poison between them.
template <typename T, uint8_t dim> void Copies(uint32_t first, const NdDmaParams<T, dim>& p, uint64_t distinct) {
    std::vector<T> x = Ramp<T>(8192);
    const uint32_t n = kBytes / sizeof(T);
    std::vector<T> want(n);
    std::memset(static_cast<void*>(want.data()), 0xff, kBytes);
    uint32_t at[dim] = {};
    for (bool more = true; more;) {
        uint64_t from = first;
        uint64_t to = 0;
        for (int i = 0; i < dim; ++i) {
            from += at[i] * p.loopInfo.loopSrcStride[i];
            to += uint64_t{at[i]} * p.loopInfo.loopDstStride[i];
        }
        want[to] = x[from];
        more = false;
        for (int i = 0; i < dim && !more; ++i) {
            at[i] = (at[i] + 1) % p.loopInfo.loopSize[i];
            more = at[i] != 0;
        }
    }
    for (int seed = -1; seed < 4; ++seed) {
        std::vector<T> got(n);
        autofuse_twin_set_check(seed >= 0 ? 1 : 0, seed > 0 ? static_cast<uint64_t>(seed) : 0);
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), x.size() * sizeof(T), "x", 0);
        EXPECT_CLEAN(1, [&] {
            Place<T> place(x);
            NdDmaDci();
            DataCopy<T, dim, kPlain>(place.ub, place.x[first], p);
            PipeBarrier<PIPE_ALL>();
            std::memcpy(static_cast<void*>(got.data()), place.ub.GetPhyAddr(), kBytes);
        });
        CHECK(std::memcmp(got.data(), want.data(), kBytes) == 0);
        uint64_t loaded = 0;
        uint64_t stored = 0;
        autofuse_twin_moved_bytes(&loaded, &stored);
        CHECK_EQ(loaded, distinct * sizeof(T));
        CHECK_EQ(stored, uint64_t{0});
    }
    autofuse_twin_set_check(0, 0);
    autofuse_twin_gm_clear();
}

template <typename T> void Kinds() {
    // [a, k, b] becomes [a, b, k]: 5 x 3 x 7, with odd tails everywhere.
    Copies<T>(0, Loops<T, 3>({3, 7, 5}, {7, 1, 21}, {1, 3, 21}), 105);
    // [k, b] becomes [b, k], rows of UB at a pitch of 16.
    Copies<T>(9, Loops<T, 2>({9, 40}, {40, 1}, {1, 16}), 360);
    // One loop, contiguous and with strides.
    Copies<T>(3, Loops<T, 1>({77}, {1}, {1}), 77);
    Copies<T>(3, Loops<T, 1>({77}, {5}, {1}), 77);
    Copies<T>(3, Loops<T, 1>({77}, {1}, {3}), 77);
    Copies<T>(3, Loops<T, 1>({1}, {0}, {0}), 1);
    // A row for every column, a column for every row, one element for all.
    Copies<T>(1, Loops<T, 2>({33, 6}, {1, 0}, {1, 40}), 33);
    Copies<T>(1, Loops<T, 2>({33, 6}, {0, 100}, {1, 33}), 6);
    Copies<T>(1, Loops<T, 2>({33, 6}, {0, 0}, {1, 33}), 1);
    // A slice of [9, 20, 30], rows of 32 elements in UB.
    Copies<T>(1234, Loops<T, 3>({11, 4, 3}, {1, 30, 600}, {1, 32, 128}), 132);
    // Every other element of every other row.
    Copies<T>(0, Loops<T, 2>({10, 8}, {2, 60}, {1, 10}), 80);
    // Five loops, reversed; then with gaps in UB between all of them, and with one that repeats.
    Copies<T>(0, Loops<T, 5>({2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {1, 2, 6, 24, 120}), 720);
    Copies<T>(0, Loops<T, 5>({2, 3, 2, 3, 2}, {1, 3, 12, 40, 200}, {2, 5, 17, 40, 130}), 72);
    Copies<T>(0, Loops<T, 5>({4, 3, 1, 5, 2}, {1, 0, 9, 100, 4}, {1, 4, 0, 12, 60}), 40);
    // Windows that overlap in GM; interleaved loops in UB.
    Copies<T>(0, Loops<T, 2>({5, 20}, {1, 1}, {1, 5}), 100);
    Copies<T>(0, Loops<T, 2>({3, 2}, {1, 10}, {2, 3}), 6);
}

// body(place) of one core in checked mode.
template <typename F> void Found(const char* file, int line, const char* code, const char* text, F body) {
    std::vector<float> x = Ramp<float>(4096);
    autofuse_twin_gm_clear();
    autofuse_twin_gm_add(x.data(), x.size() * sizeof(float), "x", 0);
    autofuse_twin_set_check(1, 0);
    check::ExpectFinding(file, line, code, 1, [&] {
        Place<float> place(x);
        body(place);
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_gm_clear();
    if (check::Findings().find(text) == std::string::npos) {
        check::Fail(file, line, std::string("no '") + text + "' in " + check::Findings());
    }
}
#define FOUND(code, text, ...) Found(__FILE__, __LINE__, code, text, [](Place<float>& p) { __VA_ARGS__; })
#define CLEAN(...) Found(__FILE__, __LINE__, "", "", [](Place<float>& p) { __VA_ARGS__; })

template <uint8_t dim>
void Go(const LocalTensor<float>& dst, const GlobalTensor<float>& src, const NdDmaParams<float, dim>& params) {
    NdDmaDci();
    DataCopy<float, dim, kPlain>(dst, src, params);
}

void Parameters() {
    constexpr uint64_t far = uint64_t{1} << 40;
    constexpr uint32_t most = 1u << 20;
    CLEAN(Go<1>(p.ub, p.x, Loops<float, 1>({4096}, {1}, {1})));
    CLEAN(Go<2>(p.ub, p.x, Loops<float, 2>({8, 1}, {1, far - 1}, {1, most - 1})));
    FOUND("dma-params", "loopSize[1] is 0", Go<2>(p.ub, p.x, Loops<float, 2>({8, 0}, {1, 8}, {1, 8})));
    FOUND("dma-params", "loopSize[0] is 1048576", Go<1>(p.ub, p.x, Loops<float, 1>({most}, {0}, {1})));
    FOUND("dma-params", "loopSrcStride[1]", Go<2>(p.ub, p.x, Loops<float, 2>({8, 1}, {1, far}, {1, 8})));
    FOUND("dma-params", "loopDstStride[1]", Go<2>(p.ub, p.x, Loops<float, 2>({8, 1}, {1, 8}, {1, most})));
    FOUND("dma-params", "no multi-dimensional copy with paddings", auto l = Loops<float, 1>({8}, {1}, {1});
          l.loopInfo.loopLpSize[0] = 1; Go<1>(p.ub, p.x, l));
    FOUND("dma-params", "loopRpSize[1] is 2", auto l = Loops<float, 2>({8, 2}, {1, 8}, {1, 8});
          l.loopInfo.loopRpSize[1] = 2; Go<2>(p.ub, p.x, l));
    FOUND("ub-align", "", Go<1>(p.ub[4], p.x, Loops<float, 1>({8}, {1}, {1})));
    // The last element counts, not the last stride.
    CLEAN(Go<2>(p.ub, p.x, Loops<float, 2>({2, 8}, {1, 512}, {1, 1170})));
    FOUND("ub-oob", "", Go<2>(p.ub, p.x, Loops<float, 2>({3, 8}, {1, 512}, {1, 1170})));
    CLEAN(Go<2>(p.ub, p.x[3], Loops<float, 2>({5, 4}, {1, 1362}, {1, 8})));
    FOUND("gm-oob", "", Go<2>(p.ub, p.x[3], Loops<float, 2>({6, 4}, {1, 1363}, {1, 8})));
    FOUND("gm-oob", "", Go<2>(p.ub, p.x, Loops<float, 2>({8, 2}, {1, far - 1}, {1, 8})));
    FOUND("gm-oob", "", Go<2>(p.ub, p.x, Loops<float, 2>({8, 8}, {1, far - 1}, {1, 8})));
    Found(__FILE__, __LINE__, "dma-position", "VECCALC", [](Place<float>& p) {
        TBuf<TPosition::VECCALC> buf;
        p.pipe.InitBuffer(buf, 256);
        Go<1>(buf.Get<float>(), p.x, Loops<float, 1>({8}, {1}, {1}));
    });
}

void Overlaps() {
    FOUND("dma-overlap", "same element of dst", Go<2>(p.ub, p.x, Loops<float, 2>({8, 4}, {1, 8}, {1, 7})));
    CLEAN(Go<2>(p.ub, p.x, Loops<float, 2>({8, 4}, {1, 8}, {4, 1})));
    FOUND("dma-overlap", "", Go<2>(p.ub, p.x, Loops<float, 2>({8, 5}, {1, 8}, {4, 1})));
    FOUND("dma-overlap", "", Go<1>(p.ub, p.x, Loops<float, 1>({2}, {1}, {0})));
    FOUND("dma-overlap", "element 6", Go<2>(p.ub, p.x, Loops<float, 2>({4, 3}, {1, 8}, {2, 3})));
    constexpr uint32_t most = (1u << 20) - 1;
    FOUND("dma-overlap", "", Go<5>(p.ub, p.x, Loops<float, 5>({most, most, most, most, most}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0})));
}

// The private cache: every such copy needs its own NdDmaDci().
void Cache() {
    const char* text = "no NdDmaDci() before it";
    CLEAN(for (int i = 0; i < 3; ++i) {
        PipeBarrier<PIPE_ALL>();
        Go<1>(p.ub, p.x, Loops<float, 1>({8}, {1}, {1}));
    });
    CLEAN(NdDmaDci(); DataCopyPad(p.ub[64], p.x, Row(8), NoPad());
          DataCopy<float, 1, kPlain>(p.ub, p.x, Loops<float, 1>({8}, {1}, {1})));
    FOUND("dma-cache", text, DataCopy<float, 1, kPlain>(p.ub, p.x, Loops<float, 1>({8}, {1}, {1})));
    FOUND("dma-cache", text, Go<1>(p.ub, p.x, Loops<float, 1>({8}, {1}, {1}));
          DataCopy<float, 1, kPlain>(p.ub[8], p.x, Loops<float, 1>({8}, {1}, {1})));
    // Fast mode does not check, and a launch begins without one.
    std::vector<float> x = Ramp<float>(64);
    for (const bool checked : {false, true, false}) {
        autofuse_twin_set_check(checked ? 1 : 0, 0);
        check::ExpectFinding(__FILE__, __LINE__, checked ? "dma-cache" : "", 2, [&] {
            Place<float> p(x);
            DataCopy<float, 1, kPlain>(p.ub, p.x, Loops<float, 1>({8}, {1}, {1}));
            NdDmaDci();
        });
    }
    autofuse_twin_set_check(0, 0);
}

// y = 2 x, transposed tile by tile.
void MissingQueue(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = in.AllocTensor<float>();
        NdDmaDci();
        DataCopy<float, 2, kPlain>(x, a.X()[i * kTile], Loops<float, 2>({8, 8}, {8, 1}, {1, 8}));
        if (!fault) {
            in.EnQue(x);
            x = in.DeQue<float>();
        }
        LocalTensor<float> y = out.AllocTensor<float>();
        Muls(y, x, 2.0f, static_cast<int32_t>(kTile));
        in.FreeTensor(x);
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// Only written elements are defined: a gap of the loops must not be stored.
void StoredGap(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 1, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        NdDmaDci();
        // Seven of eight columns.
        DataCopy<float, 2, kPlain>(x, a.X()[i * kTile], Loops<float, 2>({8, fault ? 7u : 8u}, {8, 1}, {8, 1}));
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// The reads of GM are the elements, not the data between them.
void ReadsWhatIsStored(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    TQue<TPosition::VECIN, 1> in;
    pipe.InitBuffer(que, 1, kTile * 4);
    pipe.InitBuffer(in, 1, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        // Of w, every other 16 floats are written.
        DataCopyPad(a.W()[i * kTile], x, Row(16));
        DataCopyPad(a.W()[i * kTile + 32], x, Row(16));
        que.FreeTensor(x);
    }
    PipeBarrier<PIPE_ALL>();
    LocalTensor<float> t = in.AllocTensor<float>();
    NdDmaDci();
    // Two runs of 16, or of 17 floats, 32 apart: the 17th was never written.
    DataCopy<float, 2, kPlain>(t, a.W(), Loops<float, 2>({fault ? 17u : 16u, 2}, {1, 32}, {1, 24}));
    in.EnQue(t);
    t = in.DeQue<float>();
    in.FreeTensor(t);
}

std::vector<autofuse_twin_event> Recorded(std::vector<float>& x, const NdDmaParams<float, 3>& p, const char** api) {
    const uint32_t core = 0;
    autofuse_twin_gm_clear();
    autofuse_twin_gm_add(x.data(), x.size() * sizeof(float), "x", 0);
    autofuse_twin_set_record(&core, 1, 100);
    EXPECT_CLEAN(1, [&] {
        Place<float> place(x);
        NdDmaDci();
        DataCopy<float, 3, kPlain>(place.ub[8], place.x[16], p);
        DataCopyPad(place.ub[4096], place.x, Row(8), NoPad());
    });
    autofuse_twin_set_record(nullptr, 0, 0);
    autofuse_twin_gm_clear();
    autofuse_twin_record r;
    CHECK(autofuse_twin_get_record(0, &r) == 1);
    std::vector<autofuse_twin_event> out;
    std::copy_if(r.events, r.events + r.events_count, std::back_inserter(out),
                 [](const autofuse_twin_event& e) { return e.kind == AUTOFUSE_TWIN_EVENT_ISSUE && e.pipe == 2; });
    CHECK(out.size() == 3);
    *api = r.apis[out[0].api];
    return out;
}

void Records() {
    std::vector<float> x = Ramp<float>(4096);
    const char* api = "";
    // [4, 6, 5] becomes [4, 5, 6] with columns at a pitch of 8: all of it is one run of GM.
    auto e = Recorded(x, Loops<float, 3>({6, 5, 4}, {5, 1, 30}, {1, 8, 40}), &api);
    CHECK(std::string(api) == "NdDmaDci" && e[0].gm_rows == 0 && e[0].count == 0);
    CHECK(e[1].gm_use == AUTOFUSE_TWIN_EVENT_DIMS && e[1].count == 120 && e[1].bytes == 4);
    CHECK(e[1].region == 1 && e[1].gm_at == 64 && e[1].gm_rows == 1 && e[1].gm_bytes == 480 && e[1].gm_pitch == 480);
    CHECK(e[1].spans == 1 && e[1].writes == 1 && e[1].lo[0] % 32 == 0 && e[1].hi[0] - e[1].lo[0] == 4 * (19 * 8 + 6));
    CHECK(e[2].gm_use == 0 && e[2].count == 0 && e[2].bytes == 0);
    // A column of every row, for four places: eight elements of GM, 32 of UB.
    e = Recorded(x, Loops<float, 3>({8, 4, 1}, {100, 0, 0}, {1, 8, 0}), &api);
    CHECK(e[1].count == 32 && e[1].gm_rows == 8 && e[1].gm_bytes == 4 && e[1].gm_pitch == 400);
    // Rows of two pitches, 40 and 1000 floats: 12 rows over 2080 + 5 floats, in steps of 40.
    e = Recorded(x, Loops<float, 3>({5, 4, 3}, {1, 40, 1000}, {1, 8, 32}), &api);
    CHECK(e[1].count == 60 && e[1].gm_rows == 12 && e[1].gm_bytes == 20 && e[1].gm_pitch == 160 * 4);
    // More spans than an event has: record their bounds.
    e = Recorded(x, Loops<float, 3>({3, 3, 7}, {1, 3, 9}, {2, 8, 32}), &api);
    CHECK(e[1].count == 63 && e[1].spans == 1 && e[1].hi[0] - e[1].lo[0] == 4 * (4 + 16 + 192 + 1));
}

}  // namespace

int main() {
    Kinds<uint8_t>();
    Kinds<half>();
    Kinds<float>();
    Kinds<int64_t>();
    Parameters();
    Overlaps();
    Cache();
    PAIR("multi-dimensional copy without a queue", "race", true, 1, MissingQueue);
    PAIR("a gap of a multi-dimensional copy is stored", "uninit-store", false, 1, StoredGap);
    PAIR("a multi-dimensional copy of what nobody wrote", "gm-uninit", false, 1, ReadsWhatIsStored);
    Records();
    return check::Failures() != 0;
}
