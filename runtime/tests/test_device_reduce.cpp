// The shipped headers autofuse_reduce.h and autofuse_rows.h in checked mode, for several orders of execution: results against double, source
// kept, no finding with buffers of exactly the documented sizes, nothing written behind the results.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "autofuse_reduce.h"
#include "autofuse_rows.h"
#include "check.h"

using namespace AscendC;

namespace {

uint64_t Random(uint64_t& state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

int64_t AlignUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <typename T> constexpr bool kFloating = ::autofuse_twin::kOneOf<T, half, float>;
template <typename Op, typename T> constexpr bool kWhole = Op::kWhole && kFloating<T>;

// The documented sizes of scratch space.
template <typename Op, typename T> int64_t InnerTmp(int64_t outer, int64_t n, int64_t pitch) {
    const int64_t p = pitch * static_cast<int64_t>(sizeof(T));
    if (kWhole<Op, T> && sizeof(T) == 4) {
        return outer * 32 * (n <= 64 ? 1 : (n + 63) / 64 + (n + 511) / 512);
    }
    if (kWhole<Op, T> && n * static_cast<int64_t>(sizeof(T)) <= 256) {
        return 0;
    }
    return outer * std::min(p, (p + 2047) / 2048 * 256) + (kWhole<Op, T> ? 0 : 32 * AlignUp(outer, 16));
}
template <typename T> int64_t OuterTmp(int64_t outer, int64_t n, int64_t inner) {
    return n <= 8 ? 0 : outer * ((n + 7) / 8) * inner * static_cast<int64_t>(sizeof(T));
}

// Loads rows of n elements at a pitch and leaves the rest of a row undefined.
template <typename T>
void LoadRows(const LocalTensor<T>& to, std::vector<T>& from, int64_t rows, int64_t n, int64_t pitch) {
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer(from.data());
    const uint32_t bytes = static_cast<uint32_t>(n) * static_cast<uint32_t>(sizeof(T));
    const uint32_t gap = static_cast<uint32_t>((pitch * static_cast<int64_t>(sizeof(T)) - AlignUp(bytes, 32)) / 32);
    for (int64_t first = 0; first < rows; first += 4095) {
        const uint16_t count = static_cast<uint16_t>(std::min<int64_t>(rows - first, 4095));
        DataCopyPad(to[static_cast<uint32_t>(first * pitch)], gm[static_cast<uint64_t>(first * n)],
                    DataCopyExtParams{count, bytes, 0, gap, 0}, DataCopyPadExtParams<T>{});
    }
}
template <typename T>
void StoreRows(std::vector<T>& to, const LocalTensor<T>& from, int64_t rows, int64_t n, int64_t pitch) {
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer(to.data());
    const uint32_t bytes = static_cast<uint32_t>(n) * static_cast<uint32_t>(sizeof(T));
    const uint32_t gap = static_cast<uint32_t>((pitch * static_cast<int64_t>(sizeof(T)) - AlignUp(bytes, 32)) / 32);
    for (int64_t first = 0; first < rows; first += 4095) {
        const uint16_t count = static_cast<uint16_t>(std::min<int64_t>(rows - first, 4095));
        DataCopyPad(gm[static_cast<uint64_t>(first * n)], from[static_cast<uint32_t>(first * pitch)],
                    DataCopyExtParams{count, bytes, gap, 0, 0});
    }
}

// One core with a source, a result filled with a mark, and scratch space. body(dst, src, tmp). False on a finding.
template <typename T, typename F>
bool Run(const std::string& name, uint64_t seed, std::vector<T>& in, int64_t rows, int64_t n, int64_t pitch,
         std::vector<T>& out, int64_t dst_bytes, int64_t tmp_bytes, F body) {
    std::vector<T> kept(in.size());
    out.assign(static_cast<size_t>(dst_bytes) / sizeof(T), T(0));
    autofuse_twin_gm_clear();
    autofuse_twin_set_check(1, seed);
    autofuse_twin_set_threads(1);
    autofuse_twin::Launch(1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECIN> src_buf;
        TBuf<TPosition::VECOUT> dst_buf;
        TBuf<> tmp_buf;
        const int64_t src_bytes = rows * pitch * static_cast<int64_t>(sizeof(T));
        pipe.InitBuffer(src_buf, static_cast<uint32_t>(std::max<int64_t>(src_bytes, 32)));  // at least one block
        pipe.InitBuffer(dst_buf, static_cast<uint32_t>(std::max<int64_t>(dst_bytes, 32)));
        pipe.InitBuffer(tmp_buf, static_cast<uint32_t>(std::max<int64_t>(tmp_bytes, 32)));
        const LocalTensor<T> src = src_buf.Get<T>();
        const LocalTensor<T> dst = dst_buf.Get<T>();
        const LocalTensor<uint8_t> tmp = tmp_buf.Get<uint8_t>();
        LoadRows(src, in, rows, n, pitch);
        Duplicate(dst, T(77), static_cast<int32_t>(dst_bytes / static_cast<int64_t>(sizeof(T))));
        PipeBarrier<PIPE_ALL>();
        body(dst, src, tmp);
        PipeBarrier<PIPE_ALL>();
        const int64_t all = dst_bytes / static_cast<int64_t>(sizeof(T));
        StoreRows(out, dst, all == 0 ? 0 : 1, all, all);
        StoreRows(kept, src, rows, n, pitch);
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    const std::string found = check::Findings();
    if (found != "[]") {
        check::Fail(__FILE__, __LINE__, name + ", seed " + std::to_string(seed) + ": " + found);
        return false;
    }
    if (!in.empty() && std::memcmp(kept.data(), in.data(), in.size() * sizeof(T)) != 0) {
        check::Fail(__FILE__, __LINE__, name + ": the source was changed");
        return false;
    }
    return true;
}

template <typename Op> struct Name;
template <> struct Name<autofuse::SumOf> { static constexpr const char* text = "Sum"; };
template <> struct Name<autofuse::MaxOf> { static constexpr const char* text = "Max"; };
template <> struct Name<autofuse::MinOf> { static constexpr const char* text = "Min"; };
template <> struct Name<autofuse::ProdOf> { static constexpr const char* text = "Prod"; };

// Values with products in range; integers overflow on purpose.
template <typename Op, typename T> T Value(uint64_t& state) {
    const double u = static_cast<double>(Random(state) % 2048) / 2048.0;
    if constexpr (!kFloating<T>) {
        return static_cast<T>(Random(state) << 9 ^ Random(state));
    } else if constexpr (::autofuse_twin::Same<Op, autofuse::ProdOf>::value) {
        return T(static_cast<float>(1.0 + (u - 0.5) / 64));
    } else {
        return T(static_cast<float>(u * 4 - 1.5));
    }
}

// The reduction of values in double, and the tolerance of a result.
template <typename Op, typename T> struct Reference {
    double value = 0;
    double magnitude = 0;
    uint64_t bits = 0;  // integers wrap
    int64_t n = 0;

    void Add(T v) {
        const double x = static_cast<double>(v);
        const uint64_t b = static_cast<uint64_t>(static_cast<int64_t>(x));
        if constexpr (::autofuse_twin::Same<Op, autofuse::SumOf>::value) {
            value += x;
            bits += b;
        } else if constexpr (::autofuse_twin::Same<Op, autofuse::ProdOf>::value) {
            value = n == 0 ? x : value * x;
            bits = n == 0 ? b : bits * b;
        } else {
            const bool max = ::autofuse_twin::Same<Op, autofuse::MaxOf>::value;
            value = n == 0 ? x : (max ? std::max(value, x) : std::min(value, x));
            bits = static_cast<uint64_t>(static_cast<int64_t>(value));
        }
        magnitude += std::fabs(x);
        n += 1;
    }
    bool Matches(T got) const {
        if constexpr (!kFloating<T>) {
            return got == static_cast<T>(bits);
        } else {
            const double eps = ::autofuse_twin::Same<T, half>::value ? 0x1p-11 : 0x1p-24;
            double slack = 0;
            if constexpr (::autofuse_twin::Same<Op, autofuse::SumOf>::value) {
                // Grows with the depth of the tree, not with n.
                slack = eps * (8 + std::log2(static_cast<double>(n))) * magnitude;
            } else if constexpr (::autofuse_twin::Same<Op, autofuse::ProdOf>::value) {
                slack = eps * static_cast<double>(n) * std::fabs(value);
            }
            return std::fabs(static_cast<double>(got) - value) <= slack;
        }
    }
};

template <typename Op, typename T> void Expect(const std::string& name, T got, const Reference<Op, T>& want, int64_t at) {
    if (!want.Matches(got)) {
        check::Fail(__FILE__, __LINE__, name + ", result " + std::to_string(at) + ": " +
                                            std::to_string(static_cast<double>(got)) + " instead of " +
                                            std::to_string(want.value));
    }
}

std::string Text(const char* what, const char* op, size_t size, int64_t a, int64_t b, int64_t c) {
    return std::string(what) + "<" + op + ", " + std::to_string(size) + " bytes>(" + std::to_string(a) + ", " +
           std::to_string(b) + ", " + std::to_string(c) + ")";
}

constexpr uint64_t kSeeds[] = {0, 1, 5};

template <typename Op, typename T> void Inner(int64_t outer, int64_t n, int64_t pitch) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    pitch = std::max(AlignUp(pitch, 32 / size), AlignUp(n, 32 / size));
    const int64_t dst_bytes = AlignUp(outer * size, 32);
    const int64_t tmp = InnerTmp<Op, T>(outer, n, pitch);
    if (outer * pitch * size + dst_bytes + AlignUp(tmp, 32) > 188000) {
        return;
    }
    const std::string name = Text("ReduceInner", Name<Op>::text, sizeof(T), outer, n, pitch);
    uint64_t state = static_cast<uint64_t>(outer * 7919 + n * 31 + pitch);
    std::vector<T> in(static_cast<size_t>(outer * n));
    std::generate(in.begin(), in.end(), [&] { return Value<Op, T>(state); });
    for (const uint64_t seed : kSeeds) {
        std::vector<T> out;
        const bool ran = Run(name, seed, in, outer, n, pitch, out, dst_bytes, tmp,
                             [&](const LocalTensor<T>& d, const LocalTensor<T>& s, const LocalTensor<uint8_t>& t) {
                                 autofuse::ReduceInner<Op>(d, s, t, outer, n, pitch);
                             });
        for (int64_t o = 0; ran && o < outer; ++o) {
            Reference<Op, T> want;
            std::for_each(in.begin() + o * n, in.begin() + (o + 1) * n, [&](T v) { want.Add(v); });
            Expect(name, out[static_cast<size_t>(o)], want, o);
        }
        for (size_t i = static_cast<size_t>(outer); ran && i < out.size(); ++i) {
            CHECK(out[i] == T(77));
        }
    }
}

template <typename Op, typename T> void Outer(int64_t outer, int64_t n, int64_t inner) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    inner = AlignUp(inner, 32 / size);
    const int64_t dst_bytes = outer * inner * size;
    const int64_t tmp = OuterTmp<T>(outer, n, inner);
    if (outer * n * inner * size + dst_bytes + tmp > 188000) {
        return;
    }
    const std::string name = Text("ReduceOuter", Name<Op>::text, sizeof(T), outer, n, inner);
    uint64_t state = static_cast<uint64_t>(outer * 7919 + n * 31 + inner);
    std::vector<T> in(static_cast<size_t>(outer * n * inner));
    std::generate(in.begin(), in.end(), [&] { return Value<Op, T>(state); });
    for (const uint64_t seed : kSeeds) {
        std::vector<T> out;
        const bool ran = Run(name, seed, in, outer * n, inner, inner, out, dst_bytes, tmp,
                             [&](const LocalTensor<T>& d, const LocalTensor<T>& s, const LocalTensor<uint8_t>& t) {
                                 autofuse::ReduceOuter<Op>(d, s, t, outer, n, inner);
                             });
        for (int64_t o = 0; ran && o < outer; ++o) {
            for (int64_t i = 0; i < inner; ++i) {
                Reference<Op, T> want;
                for (int64_t j = 0; j < n; ++j) {
                    want.Add(in[static_cast<size_t>((o * n + j) * inner + i)]);
                }
                Expect(name, out[static_cast<size_t>(o * inner + i)], want, o * inner + i);
            }
        }
    }
}

template <typename T> void Transposed(int64_t rows, int64_t cols, int64_t more) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    const int64_t block = 32 / size;
    const int64_t src_pitch = AlignUp(cols, block) + more * block;
    const int64_t dst_pitch = AlignUp(rows, block) + more * block;
    if ((rows * src_pitch + cols * dst_pitch) * size > 187000) {
        return;
    }
    const std::string name = Text("Transpose2D", "", sizeof(T), rows, cols, more);
    uint64_t state = static_cast<uint64_t>(rows * 7919 + cols);
    std::vector<T> in(static_cast<size_t>(rows * cols));
    std::generate(in.begin(), in.end(), [&] { return Value<autofuse::SumOf, T>(state); });
    for (const uint64_t seed : kSeeds) {
        std::vector<T> out;
        const bool ran = Run(name, seed, in, rows, cols, src_pitch, out, cols * dst_pitch * size, autofuse::kDumpBytes,
                             [&](const LocalTensor<T>& d, const LocalTensor<T>& s, const LocalTensor<uint8_t>& t) {
                                 autofuse::Transpose2D(d, s, t, rows, cols, src_pitch, dst_pitch);
                             });
        for (int64_t r = 0; ran && r < rows; ++r) {
            for (int64_t c = 0; c < cols; ++c) {
                if (out[static_cast<size_t>(c * dst_pitch + r)] != in[static_cast<size_t>(r * cols + c)]) {
                    check::Fail(__FILE__, __LINE__, name + ": element " + std::to_string(r) + ", " + std::to_string(c));
                    return;
                }
            }
        }
    }
}

template <typename Op, typename T> void Shapes() {
    struct Shape {
        int64_t outer, n, more;  // more: the pitch minus n
    };
    // Lengths around 8, 16 (a block), 64, 128 (a repeat), 8 repeats, and the longest pitch of a repeated call.
    const Shape inner[] = {{1, 1, 0},    {3, 1, 0},     {300, 1, 0},   {16, 2, 0},    {17, 3, 40},  {600, 5, 0},   {33, 7, 0},
                           {7, 8, 0},    {260, 8, 8},   {9, 9, 0},     {31, 13, 0},   {5, 15, 0},   {40, 16, 0},   {300, 17, 0},
                           {2, 31, 0},   {1, 63, 0},    {256, 64, 0},  {19, 65, 0},   {270, 67, 0}, {4, 100, 0},   {3, 127, 0},
                           {5, 128, 64}, {11, 129, 0},  {2, 191, 0},   {13, 255, 0},  {3, 257, 0},  {1, 511, 0},   {6, 513, 0},
                           {1, 1023, 0}, {2, 1025, 16}, {3, 1031, 0},  {1, 2047, 0},  {2, 2049, 0}, {3, 4099, 0},  {9, 100, 2048},
                           {1, 9973, 0}, {1, 30000, 0}, {0, 7, 0},     {20, 500, 4000}, {9, 2600, 0},   {1, 64, 0},   {3, 64, 0},
                           {4, 64, 0},   {7, 768, 0},   {600, 64, 0},  {40, 512, 0},  {20, 1024, 0},  {5, 4096, 0},  {1, 4096, 0},
                           {90, 320, 0}, {2, 8192, 0},  {1, 36864, 0}, {260, 72, 0},  {4, 4104, 0},   {30, 704, 64}, {1, 40000, 0}};
    for (const Shape& s : inner) {
        Inner<Op, T>(s.outer, s.n, s.n + s.more);
    }
    const Shape outer[] = {{1, 1, 8},   {5, 1, 16},  {1, 2, 8},     {300, 2, 8}, {7, 3, 40},   {260, 4, 16},  {1, 8, 24},
                           {3, 9, 8},   {5, 13, 72}, {40, 16, 16},  {1, 17, 8},  {2, 31, 130}, {3, 64, 64},   {1, 65, 200},
                           {1, 997, 8}, {3, 255, 16}, {1, 1000, 16}, {11, 7, 256}, {2, 3, 3000}, {0, 3, 16},   {70, 33, 8},
                           {1, 10, 1500}, {4, 10, 777}, {9, 300, 8}};
    for (const Shape& s : outer) {
        Outer<Op, T>(s.outer, s.n, s.more);
    }
}

template <typename Op> void Types() {
    Shapes<Op, float>();
    Shapes<Op, half>();
    Shapes<Op, int32_t>();
    Shapes<Op, int16_t>();
}

float Sum(std::vector<float>& in) {
    const int64_t n = static_cast<int64_t>(in.size());
    std::vector<float> out;
    Run("a long sum", 0, in, 1, n, n, out, 32, InnerTmp<autofuse::SumOf, float>(1, n, n),
        [&](const LocalTensor<float>& d, const LocalTensor<float>& s, const LocalTensor<uint8_t>& t) {
            autofuse::ReduceInner<autofuse::SumOf>(d, s, t, 1, n, n);
        });
    return out[0];
}

// Sums of ones and noise, and of ones after a number that absorbs them one by one.
void LongSums() {
    std::vector<float> in(38000);
    uint64_t state = 5;
    double want = 0;
    for (float& v : in) {
        v = 1.0f + static_cast<float>(Random(state) % 1000) * 1e-5f;
        want += static_cast<double>(v);
    }
    CHECK(std::fabs(static_cast<double>(Sum(in)) - want) <= 4 * 0x1p-24 * want);
    std::fill(in.begin(), in.end(), 1.0f);
    in[0] = 0x1p24f;
    CHECK(std::fabs(static_cast<double>(Sum(in)) - (0x1p24 + 37999)) <= 16);
}

// A tensor and an element per row of it, stored after the rows of the source; `inplace`: the result is the tensor.
template <typename Op, typename T, typename F>
void WithRows(const char* op, int64_t rows, int64_t cols, bool inplace, F want) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    const int64_t n = rows > 1 ? AlignUp(cols, 32 / size) : cols;
    const int64_t pitch = AlignUp(n, 32 / size);
    const int64_t more = (AlignUp(rows, 32 / size) + pitch - 1) / pitch;
    const bool repeats = rows > 1 && n * size > 256 && n * size % 256 == 0;
    const int64_t tmp = 32 * (AlignUp(rows, 8) + (repeats ? rows * n * size / 256 : 0));
    const int64_t dst_bytes = rows * pitch * size;
    if ((rows + more) * pitch * size + dst_bytes + tmp > 187000) {
        return;
    }
    const std::string name = Text("WithRows", op, sizeof(T), rows, cols, inplace);
    uint64_t state = static_cast<uint64_t>(rows * 7919 + cols);
    std::vector<T> in(static_cast<size_t>((rows + more) * pitch));
    std::generate(in.begin(), in.end(), [&] { return Value<autofuse::ProdOf, T>(state); });
    for (const uint64_t seed : kSeeds) {
        std::vector<T> out;
        const bool ran = Run(name, seed, in, rows + more, pitch, pitch, out, dst_bytes, tmp,
                             [&](const LocalTensor<T>& d, const LocalTensor<T>& s, const LocalTensor<uint8_t>& t) {
                                 const LocalTensor<T> each = s[static_cast<uint32_t>(rows * pitch)];
                                 if (inplace) {
                                     DataCopy(d, s, static_cast<uint32_t>(rows * pitch));
                                     PipeBarrier<PIPE_ALL>();
                                 }
                                 autofuse::WithRows<Op>(d, inplace ? d : s, each, t, rows, n);
                             });
        for (int64_t i = 0; ran && i < rows * pitch; ++i) {
            if (i % pitch >= n) {
                continue;  // after the only row
            }
            const T x = in[static_cast<size_t>(i)];
            const T each = in[static_cast<size_t>(rows * pitch + i / pitch)];
            if (out[static_cast<size_t>(i)] != want(x, each)) {
                check::Fail(__FILE__, __LINE__, name + ": element " + std::to_string(i));
                return;
            }
        }
    }
}

// Integers with room for sums and products, which wrap afterwards.
template <typename T> auto Wide(T x) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<int64_t>(x);
    } else {
        return x;
    }
}

template <typename T> void AllWithRows() {
    struct Shape {
        int64_t rows, cols;
    };
    // Lengths around a block, a repeat and eight, with few and many rows; more than 255 repeats, rows and blocks of
    // one.
    const Shape shapes[] = {{1, 1},    {1, 7},    {1, 64},   {1, 65},    {1, 128},  {1, 300},  {1, 16400}, {2, 8},
                            {9, 16},   {300, 24}, {3, 64},   {7, 64},    {30, 128}, {300, 64}, {7, 192},   {7, 768},
                            {2, 1024}, {17, 512}, {40, 384}, {3, 100},   {2, 200},  {20, 200}, {256, 72},  {2, 2100},
                            {5, 2048}, {1, 2048}, {2, 8192}, {33, 256},  {1, 33},   {8, 40},   {70, 264},  {600, 8}};
    for (const Shape& s : shapes) {
        for (const bool inplace : {false, true}) {
            WithRows<autofuse::AddRow, T>("Add", s.rows, s.cols, inplace, [](T x, T e) { return static_cast<T>(Wide(x) + Wide(e)); });
            WithRows<autofuse::MulRow, T>("Mul", s.rows, s.cols, inplace, [](T x, T e) { return static_cast<T>(Wide(x) * Wide(e)); });
            WithRows<autofuse::SubRow, T>("Sub", s.rows, s.cols, inplace, [](T x, T e) { return static_cast<T>(Wide(x) - Wide(e)); });
            WithRows<autofuse::RowSub, T>("from", s.rows, s.cols, inplace, [](T x, T e) { return static_cast<T>(Wide(e) - Wide(x)); });
            WithRows<autofuse::MaxRow, T>("Max", s.rows, s.cols, inplace, [](T x, T e) { return x < e ? e : x; });
            WithRows<autofuse::MinRow, T>("Min", s.rows, s.cols, inplace, [](T x, T e) { return e < x ? e : x; });
            if constexpr (kFloating<T>) {
                WithRows<autofuse::DivRow, T>("Div", s.rows, s.cols, inplace, [](T x, T e) { return T(x / e); });
                WithRows<autofuse::RowDiv, T>("of", s.rows, s.cols, inplace, [](T x, T e) { return T(e / x); });
            }
        }
    }
}

// NaN propagates through Max and Min at any position.
void NotANumber() {
    for (const int64_t at : {0, 1, 63, 64, 500, 999}) {
        std::vector<float> in(2000, 1.0f);
        in[static_cast<size_t>(1000 + at)] = NAN;
        std::vector<float> out;
        Run("NaN", 0, in, 2, 1000, 1000, out, 32, InnerTmp<autofuse::MaxOf, float>(2, 1000, 1000),
            [&](const LocalTensor<float>& d, const LocalTensor<float>& s, const LocalTensor<uint8_t>& t) {
                autofuse::ReduceInner<autofuse::MaxOf>(d, s, t, 2, 1000, 1000);
            });
        CHECK(out[0] == 1.0f && std::isnan(out[1]));
    }
}

}  // namespace

int main() {
    Types<autofuse::SumOf>();
    Types<autofuse::MaxOf>();
    Types<autofuse::MinOf>();
    Types<autofuse::ProdOf>();
    for (const int64_t more : {0, 1, 3}) {
        for (const int64_t rows : {1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 100, 272, 4200}) {
            for (const int64_t cols : {1, 3, 8, 9, 16, 17, 40, 129, 2100, 4100}) {
                Transposed<float>(rows, cols, more);
                Transposed<int16_t>(rows, cols, more);
            }
        }
    }
    AllWithRows<float>();
    AllWithRows<half>();
    AllWithRows<int32_t>();
    LongSums();
    NotANumber();
    return check::Failures() != 0;
}
