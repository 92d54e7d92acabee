// Data movement: rounding of DataCopy, block strides, the padding rules of DataCopyPad, atomics.
#include "kernel_support.h"

using namespace AscendC;

namespace {

std::vector<float> Ramp(uint32_t n) {
    std::vector<float> out(n);
    for (uint32_t i = 0; i < n; ++i) out[i] = static_cast<float>(i + 1);
    return out;
}

template <typename T> GlobalTensor<T> Gm(std::vector<T>& v) {
    GlobalTensor<T> g;
    g.SetGlobalBuffer(v.data(), v.size());
    return g;
}

void CountForms() {
    auto x = Ramp(64);
    std::vector<float> y(64, 0.0f);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto gx = Gm(x);
        auto gy = Gm(y);
        CHECK_EQ(gx.GetSize(), uint64_t{64});
        auto t = ub.Make<float>(64);
        auto u = ub.Make<float>(64);
        Duplicate(t, 0.0f, 64);
        DataCopy(t, gx[1], 21);  // 84 bytes: only 64 move
        CHECK(t.GetValue(0) == 2.0f && t.GetValue(15) == 17.0f && t.GetValue(16) == 0.0f);
        DataCopy(u, t, 64);
        DataCopy(gy[8], u, 16);
        DataCopy(gy[32], u, DataCopyParams{2, 1, 0, 1});
        gy.SetValue(63, gx.GetValue(5));
    });
    uint64_t loaded = 0;
    uint64_t stored = 0;
    autofuse_twin_moved_bytes(&loaded, &stored);
    CHECK_EQ(loaded, uint64_t{64});
    CHECK_EQ(stored, uint64_t{128});
    CHECK(y[7] == 0.0f && y[8] == 2.0f && y[23] == 17.0f && y[24] == 0.0f && y[63] == 6.0f);
    CHECK(y[32] == 2.0f && y[39] == 9.0f && y[40] == 0.0f && y[48] == 10.0f && y[55] == 17.0f && y[56] == 0.0f);
}

void Blocks() {
    auto x = Ramp(128);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto gx = Gm(x);
        auto t = ub.Make<float>(128);
        Duplicate(t, 0.0f, 128);
        DataCopy(t, gx, DataCopyParams{3, 2, 1, 2});
        for (uint32_t r = 0; r < 3; ++r) {
            for (uint32_t i = 0; i < 16; ++i) CHECK(t.GetValue(r * 32 + i) == x[r * 24 + i]);
            CHECK(t.GetValue(r * 32 + 16) == 0.0f);
        }
        auto u = ub.Make<float>(128);
        DataCopy(u, t, DataCopyParams{2, 1, 3, 0});
        CHECK(u.GetValue(0) == x[0] && u.GetValue(8) == x[24]);
    });
}

void Padding() {
    auto x = Ramp(64);
    std::vector<float> y(64, 0.0f);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto gx = Gm(x);
        auto gy = Gm(y);
        auto t = ub.Make<float>(64);
        const auto reset = [&] { Duplicate(t, -1.0f, 64); };
        // No padding asked for: the filler up to 32 bytes repeats the first element of the block.
        reset();
        DataCopyPad(t, gx, DataCopyExtParams{2, 20, 8, 1, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
        for (uint32_t i = 0; i < 5; ++i) CHECK(t.GetValue(i) == x[i] && t.GetValue(16 + i) == x[7 + i]);
        for (uint32_t i = 5; i < 8; ++i) CHECK(t.GetValue(i) == x[0] && t.GetValue(16 + i) == x[7]);
        CHECK(t.GetValue(8) == -1.0f && t.GetValue(24) == -1.0f);
        // isPad: everything around the data is the value.
        reset();
        DataCopyPad(t, gx, DataCopyExtParams{2, 20, 0, 0, 0}, DataCopyPadExtParams<float>{true, 2, 1, 9.0f});
        const float want[] = {9, 9, 1, 2, 3, 4, 5, 9, 9, 9, 6, 7, 8, 9, 10, 9, -1};
        for (uint32_t i = 0; i < 17; ++i) CHECK(t.GetValue(i) == want[i]);
        // Paddings without a value: undefined, shown as the poison NaN.
        reset();
        DataCopyPad(t, gx, DataCopyExtParams{1, 24, 0, 0, 0}, DataCopyPadExtParams<float>{false, 1, 1, 9.0f});
        CHECK(std::isnan(t.GetValue(0)) && t.GetValue(1) == 1.0f && t.GetValue(6) == 6.0f && std::isnan(t.GetValue(7)));
        // An exact block needs no filler; more than 32 bytes of data and padding spill into another block.
        reset();
        DataCopyPad(t, gx, DataCopyExtParams{1, 32, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 3, 4.0f});
        CHECK(t.GetValue(7) == 8.0f && t.GetValue(8) == 4.0f && t.GetValue(15) == 4.0f && t.GetValue(16) == -1.0f);
        DataCopyPad(t, gx, DataCopyExtParams{0, 32, 0, 0, 0}, DataCopyPadExtParams<float>{});
        // Back to GM: rows at 32-byte pitch in UB, packed with a gap of 4 bytes in GM.
        CreateVecIndex(t, 0.0f, 64u);
        DataCopyPad(gy, t, DataCopyExtParams{3, 12, 1, 4, 0});
    });
    const float want[] = {0, 1, 2, 0, 16, 17, 18, 0, 32, 33, 34, 0};
    for (uint32_t i = 0; i < 12; ++i) CHECK(y[i] == want[i]);

    std::vector<uint8_t> bytes = {1, 2, 3, 4, 5, 6, 7};
    std::vector<uint8_t> back(8, 0);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto t = ub.Make<uint8_t>(32);
        DataCopyPad(t, Gm(bytes), DataCopyParams{1, 7, 0, 0}, DataCopyPadParams{true, 0, 0, 77});
        CHECK(t.GetValue(6) == 7 && t.GetValue(7) == 77 && t.GetValue(31) == 77);
        DataCopyPad(Gm(back), t, DataCopyParams{1, 7, 0, 0});
    });
    CHECK(back[6] == 7 && back[7] == 0);
}

template <typename T> void Atomic(T one, T total) {
    std::vector<T> y(5, T(0));
    EXPECT_CLEAN(32, [&] {
        Ub ub(1024);
        auto gy = Gm(y);
        auto t = ub.Make<T>(32);
        for (uint32_t i = 0; i < 5; ++i) t.SetValue(i, one);
        SetAtomicAdd<T>();
        DataCopyPad(gy, t, DataCopyExtParams{1, 5 * static_cast<uint32_t>(sizeof(T)), 0, 0, 0});
        SetAtomicNone();
    });
    for (T v : y) CHECK(v == total);
}

void AtomicMaxMin() {
    std::vector<int32_t> hi(8, -100);
    std::vector<int32_t> lo(8, 100);
    EXPECT_CLEAN(16, [&] {
        Ub ub(1024);
        auto t = ub.Make<int32_t>(8);
        Duplicate(t, static_cast<int32_t>(GetBlockIdx()) - 5, 8);
        SetAtomicMax<int32_t>();
        DataCopy(Gm(hi), t, 8);
        SetAtomicMin<int32_t>();
        DataCopy(Gm(lo), t, 8);
        SetAtomicNone();
    });
    CHECK(hi[7] == 10 && lo[0] == -5);
}

// Atomic modes do not nest: the last one counts, with its type, and one SetAtomicNone ends it.
void AtomicAgain() {
    std::vector<float> y(8, 1.0f);
    EXPECT_CLEAN(1, [&] {
        Ub ub(1024);
        auto t = ub.Make<float>(8);
        Duplicate(t, 5.0f, 8);
        SetAtomicAdd<half>();
        SetAtomicAdd<float>();
        DataCopy(Gm(y), t, 8);  // 6
        SetAtomicMin<float>();
        DataCopy(Gm(y), t, 8);  // 5
        SetAtomicNone();
        Duplicate(t, 9.0f, 8);
        DataCopy(Gm(y), t, 8);
    });
    CHECK(y[0] == 9.0f && y[7] == 9.0f);
    EXPECT_FINDING("atomic-type", 1, [&] {
        Ub ub(1024);
        auto t = ub.Make<float>(8);
        SetAtomicAdd<float>();
        SetAtomicMax<half>();
        DataCopy(Gm(y), t, 8);
    });
    EXPECT_FINDING("atomic-mode", 1, [] {
        SetAtomicAdd<float>();
        SetAtomicNone();
        SetAtomicMax<float>();
    });
    // A core that ends with the mode on does not affect the others, or the next launch.
    EXPECT_FINDING("atomic-mode", 2, [] {
        if (GetBlockIdx() == 0) SetAtomicAdd<float>();
    });
    EXPECT_CLEAN(1, [&] {
        Ub ub(1024);
        auto t = ub.Make<float>(8);
        Duplicate(t, 2.0f, 8);
        DataCopy(Gm(y), t, 8);
    });
    CHECK(y[0] == 2.0f);
}

// Long rows of a large tensor bypass the caches: any alignment in GM, any length, and not a byte more.
void LargeTensor() {
    const uint32_t elements = (5u << 20) / 4;
    std::vector<float> y(elements + 64, -1.0f);
    const auto x = Ramp(4096);
    autofuse_twin_gm_add(y.data(), elements * 4, "y", 1);
    for (const uint32_t offset : {0u, 1u, 4u, 15u, 1000u}) {
        for (const uint32_t n : {512u, 513u, 600u, 1023u, 1024u, 1500u, 2047u, 3000u}) {
            std::fill(y.begin(), y.end(), -1.0f);
            EXPECT_CLEAN(1, [&] {
                TPipe pipe;
                TQue<TPosition::VECOUT, 1> que;
                pipe.InitBuffer(que, 1, 32768);
                auto t = que.AllocTensor<float>();
                for (uint32_t i = 0; i < 2 * n + 64; ++i) t.SetValue(i, x[i % 4096]);
                que.EnQue<float>(t);
                t = que.DeQue<float>();
                GlobalTensor<float> g;
                g.SetGlobalBuffer(y.data(), elements);
                // Two rows with 5 elements between them; in UB each starts at 32 bytes.
                DataCopyPad(g[offset], t, DataCopyExtParams{2, n * 4, 0, 20, 0});
                que.FreeTensor(t);
            });
            const uint32_t pitch = (n + 7) / 8 * 8;
            for (uint32_t i = 0; i < offset + 2 * n + 200; ++i) {
                const bool first = i >= offset && i < offset + n;
                const bool second = i >= offset + n + 5 && i < offset + 2 * n + 5;
                const float want = first ? x[i - offset] : (second ? x[(pitch + i - offset - n - 5) % 4096] : -1.0f);
                CHECK(y[i] == want);
            }
        }
    }
    autofuse_twin_gm_clear();
}

}  // namespace

int main() {
    LargeTensor();
    CountForms();
    Blocks();
    Padding();
    Atomic<float>(0.5f, 16.0f);
    Atomic<half>(half(0.5f), half(16.0f));
    Atomic<bfloat16_t>(bfloat16_t(0.5f), bfloat16_t(16.0f));
    Atomic<int32_t>(3, 96);
    Atomic<int16_t>(-3, -96);
    Atomic<int8_t>(3, 96);
    AtomicMaxMin();
    AtomicAgain();
    return check::Failures() != 0;
}
