// The shipped header autofuse_scan.h in checked mode, for several orders of execution: running sums against double, or
// wrapped as integers are, source kept, no finding with scratch space of exactly the documented size, nothing written
// behind the results, and tiles that go on where the last one ended.
#include <algorithm>
#include <cmath>

#include "autofuse_scan.h"
#include "check.h"

using namespace AscendC;

namespace {

uint64_t Random(uint64_t& state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

int64_t AlignUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <typename T> constexpr bool kFloating = ::autofuse_twin::kOneOf<T, half, float>;
template <typename T> constexpr int64_t kBlock = 32 / static_cast<int64_t>(sizeof(T));

// The documented sizes of scratch space.
template <typename T> int64_t OuterTmp(int64_t outer, int64_t n, int64_t inner) {
    return n == 1 ? 0 : outer * n * inner * static_cast<int64_t>(sizeof(T));
}
template <typename T> int64_t InnerTmp(int64_t outer, int64_t n, bool together = false) {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    return outer < 16 && !together ? size * (32 * AlignUp((n + 15) / 16, kBlock<T>) + 560) + 512
                      : size * 2 * n * AlignUp(outer, 16) + 512;
}

// Operands of a call: `outer` matrices of `n` rows of `inner` elements, rows of the last axis `pitch` elements apart.
struct Extents {
    int64_t outer, n, inner;
    bool innermost;  // the sums run along rows, which are padded to 32 bytes

    int64_t lines() const { return innermost ? outer : outer * n; }
    int64_t length() const { return innermost ? n : inner; }
    template <typename T> int64_t pitch() const { return innermost ? AlignUp(n, kBlock<T>) : inner; }
    int64_t elements() const { return outer * n * inner; }
    std::string text() const {
        return std::to_string(outer) + " x " + std::to_string(n) + " x " + std::to_string(inner) +
               (innermost ? " along rows" : "");
    }
};

// Integers wrap on purpose; the sums of floating-point numbers stay small.
template <typename T> T Value(uint64_t& state) {
    if constexpr (kFloating<T>) {
        return T(static_cast<float>(Random(state) % 2048) / 1024.0f - 0.5f);
    } else {
        return static_cast<T>(Random(state) << 9 ^ Random(state));
    }
}
template <typename T> std::vector<T> Values(int64_t n, uint64_t seed) {
    std::vector<T> out(static_cast<size_t>(n));
    for (T& v : out) {
        v = Value<T>(seed);
    }
    return out;
}

// True if `out` has the running sums of `in` on top of `carry`, a number for every sum; else the first wrong place.
template <typename T>
std::string Wrong(const std::vector<T>& in, const std::vector<T>& out, const std::vector<T>& carry, const Extents& e,
                  bool exclusive, bool reverse) {
    for (int64_t o = 0; o < e.outer; ++o) {
        for (int64_t i = 0; i < e.inner; ++i) {
            const T first = carry.empty() ? T(0) : carry[static_cast<size_t>(o * e.inner + i)];
            double sum = static_cast<double>(first);
            double magnitude = std::fabs(sum);
            uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(sum));
            for (int64_t k = 0; k < e.n; ++k) {
                const int64_t j = reverse ? e.n - 1 - k : k;
                const size_t at = static_cast<size_t>((o * e.n + j) * e.inner + i);
                const double x = static_cast<double>(in[at]);
                const double before = sum;
                const uint64_t bits_before = bits;
                sum += x;
                magnitude += std::fabs(x);
                bits += static_cast<uint64_t>(static_cast<int64_t>(x));
                bool same = true;
                if constexpr (kFloating<T>) {
                    const double unit = sizeof(T) == 2 ? 1.0 / 1024 : 1.0 / (1 << 23);
                    const double off = std::fabs(static_cast<double>(out[at]) - (exclusive ? before : sum));
                    same = off <= unit * magnitude * 16;
                } else {
                    same = out[at] == static_cast<T>(exclusive ? bits_before : bits);
                }
                if (!same) {
                    return "element " + std::to_string(at) + " is " + std::to_string(static_cast<double>(out[at]));
                }
            }
        }
    }
    return "";
}

template <typename T>
void Move(const LocalTensor<T>& ub, std::vector<T>& memory, const Extents& e, bool load) {
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer(memory.data());
    const uint32_t bytes = static_cast<uint32_t>(e.length()) * static_cast<uint32_t>(sizeof(T));
    for (int64_t r = 0; r < e.lines(); ++r) {
        const uint32_t at = static_cast<uint32_t>(r * e.pitch<T>());
        const uint64_t from = static_cast<uint64_t>(r * e.length());
        if (load) {
            DataCopyPad(ub[at], gm[from], DataCopyExtParams{1, bytes, 0, 0, 0}, DataCopyPadExtParams<T>{});
        } else {
            DataCopyPad(gm[from], ub[at], DataCopyExtParams{1, bytes, 0, 0, 0});
        }
    }
}

// One core with a source, a result with a marked block after it, a carry and scratch space: body(dst, src, carry, tmp).
template <typename T, typename F>
bool Run(const std::string& name, uint64_t seed, std::vector<T>& in, std::vector<T>& out, std::vector<T>& carry,
         const Extents& e, int64_t tmp_bytes, F body) {
    const int64_t size = e.lines() * e.pitch<T>();
    const int64_t carried = static_cast<int64_t>(carry.size());
    std::vector<T> kept(in.size());
    std::vector<T> mark(static_cast<size_t>(kBlock<T>));
    out.assign(in.size(), T(0));
    autofuse_twin_gm_clear();
    autofuse_twin_set_check(1, seed);
    autofuse_twin_set_threads(1);
    autofuse_twin::Launch(1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECIN> src_buf;
        TBuf<TPosition::VECOUT> dst_buf;
        TBuf<TPosition::VECIN> carry_buf;
        TBuf<> tmp_buf;
        const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
        pipe.InitBuffer(src_buf, static_cast<uint32_t>(std::max<int64_t>(bytes, 32)));
        pipe.InitBuffer(dst_buf, static_cast<uint32_t>(bytes + 32));
        pipe.InitBuffer(carry_buf, static_cast<uint32_t>(std::max<int64_t>(
                                       AlignUp(carried, kBlock<T>) * static_cast<int64_t>(sizeof(T)), 32)));
        pipe.InitBuffer(tmp_buf, static_cast<uint32_t>(std::max<int64_t>(tmp_bytes, 32)));
        const LocalTensor<T> src = src_buf.Get<T>();
        const LocalTensor<T> dst = dst_buf.Get<T>();
        const LocalTensor<T> begin = carry_buf.Get<T>();
        const LocalTensor<uint8_t> tmp = tmp_buf.Get<uint8_t>();
        const Extents row{1, 1, carried, false};
        Move(src, in, e, true);
        if (carried > 0) {
            Move(begin, carry, row, true);
        }
        Duplicate(dst[static_cast<uint32_t>(size)], T(77), static_cast<int32_t>(kBlock<T>));
        PipeBarrier<PIPE_ALL>();
        body(dst, src, begin, tmp);
        PipeBarrier<PIPE_ALL>();
        Move(dst, out, e, false);
        Move(src, kept, e, false);
        Move(dst[static_cast<uint32_t>(size)], mark, Extents{1, 1, kBlock<T>, false}, false);
        if (carried > 0) {
            Move(begin, carry, row, false);
        }
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    const std::string found = check::Findings();
    std::string text = found == "[]" ? "" : found;
    if (text.empty() && !in.empty() && std::memcmp(kept.data(), in.data(), in.size() * sizeof(T)) != 0) {
        text = "the source was changed";
    }
    if (text.empty() && std::any_of(mark.begin(), mark.end(), [](T v) { return !(v == T(77)); })) {
        text = "written behind the results";
    }
    if (!text.empty()) {
        check::Fail(__FILE__, __LINE__, name + ", seed " + std::to_string(seed) + ": " + text);
    }
    return text.empty();
}

template <typename T> const char* TypeName() {
    return kFloating<T> ? (sizeof(T) == 2 ? "half" : "float") : (sizeof(T) == 2 ? "int16" : "int32");
}

template <bool kExclusive, bool kReverse, typename T> std::string Name(const char* call, const Extents& e) {
    return std::string(call) + (kExclusive ? " exclusive" : "") + (kReverse ? " reverse" : "") + " " + TypeName<T>() +
           " " + e.text();
}

// One call for everything.
template <bool kExclusive, bool kReverse, bool kTogether, typename T> void Whole(const Extents& e, uint64_t seed) {
    const char* call = !e.innermost ? "ScanOuter" : kTogether ? "ScanInner together" : "ScanInner";
    const std::string name = Name<kExclusive, kReverse, T>(call, e);
    std::vector<T> in = Values<T>(e.elements(), seed + 11);
    std::vector<T> out;
    std::vector<T> none;
    const int64_t tmp_bytes = e.innermost ? InnerTmp<T>(e.outer, e.n, kTogether) : OuterTmp<T>(e.outer, e.n, e.inner);
    const bool ran = Run<T>(
        name, seed, in, out, none, e, tmp_bytes,
        [&](const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>&,
            const LocalTensor<uint8_t>& tmp) {
            if (e.innermost) {
                autofuse::ScanInner<kExclusive, kReverse, kTogether>(dst, src, tmp, e.outer, e.n, e.pitch<T>());
            } else {
                autofuse::ScanOuter<kExclusive, kReverse>(dst, src, tmp, e.outer, e.n, e.inner);
            }
        });
    const std::string wrong = ran ? Wrong(in, out, none, e, kExclusive, kReverse) : "";
    if (!wrong.empty()) {
        check::Fail(__FILE__, __LINE__, name + ": " + wrong);
    }
}

// Two tiles; the second one continues from the carry of the first one.
template <bool kExclusive, bool kReverse, typename T>
void Tiles(const Extents& first, const Extents& second, uint64_t seed) {
    std::vector<T> carry = Values<T>(first.inner, seed + 23);
    for (const Extents& e : {first, second}) {
        const std::string name = Name<kExclusive, kReverse, T>("with a carry,", e);
        std::vector<T> in = Values<T>(e.elements(), seed + static_cast<uint64_t>(e.n));
        std::vector<T> out;
        const std::vector<T> before = carry;
        const int64_t tmp_bytes = e.innermost ? InnerTmp<T>(1, e.n) : OuterTmp<T>(1, e.n, e.inner);
        const bool ran = Run<T>(
            name, seed, in, out, carry, e, tmp_bytes,
            [&](const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& begin,
                const LocalTensor<uint8_t>& tmp) {
                if (e.innermost) {
                    autofuse::ScanInner<kExclusive, kReverse>(dst, src, begin, tmp, e.n);
                } else {
                    autofuse::ScanOuter<kExclusive, kReverse>(dst, src, begin, tmp, e.n, e.inner);
                }
            });
        if (!ran) {
            return;
        }
        std::string wrong = Wrong(in, out, before, e, kExclusive, kReverse);
        // The carry for the next tile is the sum of all elements.
        for (size_t i = 0; wrong.empty() && i < carry.size(); ++i) {
            double sum = static_cast<double>(before[i]);
            double magnitude = std::fabs(sum);
            uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(sum));
            for (size_t k = i; k < in.size(); k += static_cast<size_t>(e.inner)) {
                sum += static_cast<double>(in[k]);
                magnitude += std::fabs(static_cast<double>(in[k]));
                bits += static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(in[k])));
            }
            const double unit = sizeof(T) == 2 ? 1.0 / 1024 : 1.0 / (1 << 23);
            const bool same = kFloating<T> ? std::fabs(static_cast<double>(carry[i]) - sum) <= unit * magnitude * 16
                                           : static_cast<double>(carry[i]) == static_cast<double>(static_cast<T>(
                                                                                  static_cast<int64_t>(bits)));
            if (!same) {
                wrong = "the carry " + std::to_string(i) + " is " + std::to_string(static_cast<double>(carry[i]));
            }
        }
        if (!wrong.empty()) {
            check::Fail(__FILE__, __LINE__, name + ": " + wrong);
        }
    }
}

template <typename T, bool kTogether = false> void AllFlags(const Extents& e, uint64_t seed) {
    Whole<false, false, kTogether, T>(e, seed);
    Whole<false, true, kTogether, T>(e, seed);
    Whole<true, false, kTogether, T>(e, seed);
    Whole<true, true, kTogether, T>(e, seed);
}
template <typename T> void AllTiles(const Extents& a, const Extents& b, uint64_t seed) {
    Tiles<false, false, T>(a, b, seed);
    Tiles<false, true, T>(a, b, seed);
    Tiles<true, false, T>(a, b, seed);
    Tiles<true, true, T>(a, b, seed);
}

template <typename T> void OfType(uint64_t seed) {
    // Rows: one element, less than a block, a prime number, less and more than 16 of them, long ones.
    for (const int64_t outer : {1, 3, 15, 16, 17, 40}) {
        for (const int64_t n : {1, 2, 7, 16, 31, 257}) {
            AllFlags<T>(Extents{outer, n, 1, true}, seed);
            AllFlags<T, true>(Extents{outer, n, 1, true}, seed);
        }
    }
    AllFlags<T>(Extents{1, 4099, 1, true}, seed);
    // Columns: `inner` is a whole number of blocks where there are several rows.
    for (const int64_t outer : {1, 4}) {
        for (const int64_t n : {1, 2, 3, 8, 29}) {
            AllFlags<T>(Extents{outer, n, kBlock<T>, false}, seed);
            AllFlags<T>(Extents{outer, n, 5 * kBlock<T>, false}, seed);
        }
    }
    // One matrix or row after another.
    for (const int64_t n : {1, 2, 17, 300}) {
        AllTiles<T>(Extents{1, n, 1, true}, Extents{1, 2 * n + 1, 1, true}, seed);
        AllTiles<T>(Extents{1, n, 3 * kBlock<T>, false}, Extents{1, 5, 3 * kBlock<T>, false}, seed);
    }
}

// No rows, or empty rows: nothing is written, and a carry stays unchanged.
void Nothing() {
    for (const Extents& e : {Extents{0, 5, 8, false}, Extents{3, 0, 8, false}, Extents{0, 5, 1, true}, Extents{3, 0, 1, true}}) {
        AllFlags<float>(e, 1);
    }
    AllTiles<float>(Extents{1, 0, 8, false}, Extents{1, 3, 8, false}, 1);
    AllTiles<float>(Extents{1, 0, 1, true}, Extents{1, 3, 1, true}, 1);
}

// Sums of steps that double adds up with few roundings: those of a long row of equal numbers are nearly exact.
void ErrorsDoNotGrow() {
    const Extents e{1, 4096, 1, true};
    std::vector<float> in(static_cast<size_t>(e.n), 0.1f);
    std::vector<float> out;
    std::vector<float> none;
    Run<float>("long row", 1, in, out, none, e, InnerTmp<float>(1, e.n),
               [&](const LocalTensor<float>& dst, const LocalTensor<float>& src, const LocalTensor<float>&,
                   const LocalTensor<uint8_t>& tmp) {
                   autofuse::ScanInner<false, false>(dst, src, tmp, e.outer, e.n, e.pitch<float>());
               });
    float plain = 0;
    double worst = 0;
    double naive = 0;
    for (int64_t k = 0; k < e.n; ++k) {
        plain += 0.1f;
        const double want = static_cast<double>(0.1f) * static_cast<double>(k + 1);
        worst = std::max(worst, std::fabs(static_cast<double>(out[static_cast<size_t>(k)]) - want) / want);
        naive = std::max(naive, std::fabs(static_cast<double>(plain) - want) / want);
    }
    CHECK(worst < naive);
    CHECK(worst < 16.0 / (1 << 24));
}

}  // namespace

int main() {
    for (const uint64_t seed : {0ull, 1ull, 2ull}) {
        OfType<float>(seed);
    }
    OfType<int32_t>(1);
    OfType<int16_t>(2);
    OfType<half>(3);
    Nothing();
    ErrorsDoNotGrow();
    return check::Failures() == 0 ? 0 : 1;
}
