// The shipped header autofuse_lace.h in checked mode, for several orders of execution: results, no finding with buffers
// of exactly the documented sizes, nothing written beside the results.
#include <tuple>

#include "autofuse_lace.h"
#include "check.h"

using namespace AscendC;

namespace {

constexpr uint32_t kTableBytes = autofuse::kPickOffsets * 4;
constexpr int64_t kUbBytes = 180 * 1024;  // somewhat less than the twin's
constexpr int64_t kMost = 64;  // elements of a row

int64_t AlignUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <typename T> constexpr int64_t kBlock = 32 / static_cast<int64_t>(sizeof(T));

template <typename T> T OfBits(uint32_t bits) {
    T out;
    std::memcpy(static_cast<void*>(&out), &bits, sizeof(T));
    return out;
}

template <typename T> bool Same(const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

// Mark that no tensor contains: all bits are set.
template <typename T> T Mark() { return OfBits<T>(0xffffffffu); }

template <typename T> void Fill(const LocalTensor<T>& x, int64_t bytes) {
    Duplicate(x.template ReinterpretCast<int32_t>(), static_cast<int32_t>(-1), static_cast<int32_t>(bytes / 4));
}

// Column layout in UB of outer * rows rows of k elements.
struct Shape {
    int64_t outer;
    int64_t rows;
    int64_t k;
    int64_t pitch;

    int64_t Size() const { return outer * rows * k; }
    int64_t Row(int64_t i) const { return i / k % rows; }
    // Position in the columns of element i of the rows.
    int64_t InColumns(int64_t i) const { return (i / k / rows * k + i % k) * pitch + Row(i); }
    std::string Name() const {
        return std::to_string(outer) + " times " + std::to_string(rows) + " rows of " + std::to_string(k) +
               ", columns " + std::to_string(pitch) + " apart";
    }
};

// Distinct values.
template <typename T> std::vector<T> Values(int64_t n) {
    std::vector<T> out(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        out[static_cast<size_t>(i)] = OfBits<T>(static_cast<uint32_t>(i) * (sizeof(T) == 2 ? 1 : 0x10001) + 5);
    }
    return out;
}

// One core with `runs` runs of `in` in UB, `pitch` apart (with undefined data between them), both tables and a marked
// result, which is returned with one block after it. False with a finding.
template <typename T, typename F>
bool Run(const std::string& name, uint64_t seed, std::vector<T>& in, int64_t runs, int64_t pitch,
         std::vector<T>& out, F body) {
    constexpr int64_t size = sizeof(T);
    const int64_t length = static_cast<int64_t>(in.size()) / runs * size;
    const int64_t src_bytes = runs == 1 ? AlignUp(length, 32) : runs * pitch * size;
    const int64_t dst_bytes = AlignUp(static_cast<int64_t>(out.size()) * size, 32) + 32;
    out.resize(static_cast<size_t>(dst_bytes / size));
    autofuse_twin_gm_clear();
    autofuse_twin_set_check(1, seed);
    autofuse_twin_set_threads(1);
    autofuse_twin::Launch(1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECIN> src_buf;
        TBuf<TPosition::VECOUT> dst_buf;
        TBuf<> table_buf;
        TBuf<> tmp_buf;
        pipe.InitBuffer(src_buf, static_cast<uint32_t>(src_bytes));
        pipe.InitBuffer(dst_buf, static_cast<uint32_t>(dst_bytes));
        pipe.InitBuffer(table_buf, kTableBytes);
        pipe.InitBuffer(tmp_buf, kTableBytes);
        const LocalTensor<T> src = src_buf.Get<T>();
        const LocalTensor<T> dst = dst_buf.Get<T>();
        GlobalTensor<T> gm;
        gm.SetGlobalBuffer(in.data());
        const int64_t gap = runs == 1 ? 0 : (pitch * size - AlignUp(length, 32)) / 32;
        DataCopyPad(src, gm,
                    DataCopyExtParams{static_cast<uint16_t>(runs), static_cast<uint32_t>(length), 0,
                                      static_cast<uint32_t>(gap), 0},
                    DataCopyPadExtParams<T>{});
        Fill(dst, dst_bytes);
        body(dst, src, table_buf.Get<int32_t>(), tmp_buf.Get<uint8_t>());
        PipeBarrier<PIPE_ALL>();
        gm.SetGlobalBuffer(out.data());
        DataCopyPad(gm, dst, DataCopyExtParams{1, static_cast<uint32_t>(dst_bytes), 0, 0, 0});
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    const std::string found = check::Findings();
    if (found != "[]") {
        check::Fail(__FILE__, __LINE__, name + ", seed " + std::to_string(seed) + ": " + found);
        return false;
    }
    return true;
}

// Every element of a result, including those that must keep the mark.
template <typename T>
void Compare(const std::string& name, const std::vector<T>& have, const std::vector<T>& want) {
    for (size_t i = 0; i < have.size(); ++i) {
        if (!Same(have[i], i < want.size() ? want[i] : Mark<T>())) {
            check::Fail(__FILE__, __LINE__, name + ": element " + std::to_string(i));
            return;
        }
    }
}

template <typename T> void ToRows(const Shape& s) {
    const std::string name = "to rows, " + s.Name();
    const std::vector<T> want = Values<T>(s.Size());
    std::vector<T> in(want.size());
    for (int64_t i = 0; i < s.Size(); ++i) {
        const int64_t column = s.InColumns(i) / s.pitch;
        in[static_cast<size_t>(column * s.rows + s.Row(i))] = want[static_cast<size_t>(i)];
    }
    for (const uint64_t seed : {0u, 3u}) {
        std::vector<T> out(want.size());
        if (Run(name, seed, in, s.outer * s.k, s.pitch, out, [&](auto& d, auto& x, auto table, auto tmp) {
                autofuse::LaceOffsets(table, tmp, s.k, s.pitch, sizeof(T));
                PipeBarrier<PIPE_ALL>();
                autofuse::Lace(d, x, table, s.outer, s.rows, s.k, s.pitch);
            })) {
            Compare(name, out, want);
        }
    }
}

template <typename T> void ToColumns(const Shape& s) {
    const std::string name = "to columns, " + s.Name();
    std::vector<T> in = Values<T>(s.Size());
    std::vector<T> want(static_cast<size_t>(s.outer * s.k * s.pitch), Mark<T>());
    for (int64_t i = 0; i < s.Size(); ++i) {
        want[static_cast<size_t>(s.InColumns(i))] = in[static_cast<size_t>(i)];
    }
    for (const uint64_t seed : {0u, 5u}) {
        std::vector<T> out(want.size());
        if (Run(name, seed, in, 1, 0, out, [&](auto& d, auto& x, auto table, auto) {
                autofuse::PickOffsets(table, s.k * static_cast<int64_t>(sizeof(T)));
                PipeBarrier<PIPE_ALL>();
                autofuse::Unlace(d, x, table, s.outer, s.rows, s.k, s.pitch);
            })) {
            Compare(name + " by offsets", out, want);
        }
        out.resize(want.size());
        if ((s.k == 2 || s.k == 4) && Run(name, seed, in, 1, 0, out, [&](auto& d, auto& x, auto, auto) {
                PipeBarrier<PIPE_ALL>();
                autofuse::UnlaceByMask(d, x, s.outer, s.rows, s.k, s.pitch);
            })) {
            Compare(name + " by mask", out, want);
        }
    }
}

// Some columns of rows that are `step` apart; the run ends with the last element taken.
template <typename T> void SomeColumns(int64_t rows, int64_t k, int64_t step, int64_t first) {
    const std::string name = "columns " + std::to_string(first) + " to " + std::to_string(first + k) + " of " +
                             std::to_string(rows) + " x " + std::to_string(step);
    std::vector<T> in = Values<T>((rows - 1) * step + first + k);
    const int64_t pitch = AlignUp(rows, kBlock<T>) + kBlock<T>;
    std::vector<T> want(static_cast<size_t>(k * pitch), Mark<T>());
    for (int64_t c = 0; c < k; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
            want[static_cast<size_t>(c * pitch + r)] = in[static_cast<size_t>(r * step + first + c)];
        }
    }
    std::vector<T> out(want.size());
    if (Run(name, 5, in, 1, 0, out, [&](auto& d, auto& x, auto table, auto) {
            autofuse::PickOffsets(table, step * static_cast<int64_t>(sizeof(T)));
            PipeBarrier<PIPE_ALL>();
            autofuse::Unlace(d, x, table, 1, rows, k, pitch, step, first);
        })) {
        Compare(name + " by offsets", out, want);
    }
    out.resize(want.size());
    if ((step == 2 || step == 4) && Run(name, 3, in, 1, 0, out, [&](auto& d, auto& x, auto, auto) {
            PipeBarrier<PIPE_ALL>();
            autofuse::UnlaceByMask(d, x, 1, rows, k, pitch, step, first);
        })) {
        Compare(name + " by mask", out, want);
    }
}

template <typename T> void Shapes() {
    for (const int64_t k : {1, 2, 3, 4, 5, 7, 9, 16, 49, 64}) {
        for (const int64_t rows : {1, 7, 8, 31, 64, 333}) {
            for (const int64_t outer : {1, 3}) {
                // As close as columns come, and with a block between them.
                const int64_t pitch = AlignUp(rows, kBlock<T>) + (k + rows) % 2 * kBlock<T>;
                const Shape s{outer, rows, k, pitch};
                const int64_t bytes = (s.Size() + outer * k * pitch + 2 * kBlock<T>) * static_cast<int64_t>(sizeof(T));
                if ((outer == 1 || rows * k % kBlock<T> == 0) && bytes + 2 * kTableBytes <= kUbBytes) {
                    ToRows<T>(s);
                    ToColumns<T>(s);
                }
            }
        }
    }
    for (const int64_t rows : {1, 9, 333, 1100}) {
        for (const int64_t step : {2, 4, 5, 16}) {
            for (const int64_t k : {int64_t{1}, int64_t{2}, step - 1}) {
                SomeColumns<T>(rows, k, step, 0);
                SomeColumns<T>(rows, k, step, step - k);
            }
        }
    }
    // Several tables of rows for Unlace.
    ToColumns<T>({1, 3000, 2, 3008});
    ToColumns<T>({2, 1040, 4, 1040});
}

template <typename T> void Nothing() {
    std::vector<T> in = Values<T>(64);
    for (const auto& [outer, rows, k] :
         {std::tuple<int64_t, int64_t, int64_t>{0, 8, 4}, {1, 0, 4}, {1, 8, 0}, {-1, 8, 4}, {1, -1, 4}, {1, 8, -1}}) {
        std::vector<T> out(64);
        const int64_t o = outer;
        const int64_t r = rows;
        const int64_t n = k;
        if (Run("nothing", 0, in, 1, 0, out, [&](auto& d, auto& x, auto table, auto) {
                autofuse::Lace(d, x, table, o, r, n, kBlock<T>);
                autofuse::Unlace(d, x, table, o, r, n, kBlock<T>);
                autofuse::UnlaceByMask(d, x, o, r, n, kBlock<T>);
                autofuse::StackRows(d, o, n < 4 ? n : r, 8 * kBlock<T>, x, x);
            })) {
            Compare("nothing", out, std::vector<T>());
        }
    }
}

// Places tensors of outer rows, `unit` apart, side by side. The rest of a row's last block moves with it.
template <typename T> void Stacked(int64_t k, int64_t outer, int64_t row, int64_t unit) {
    const std::string name = std::to_string(k) + " tensors of " + std::to_string(outer) + " rows of " +
                             std::to_string(row) + ", " + std::to_string(unit) + " apart";
    const int64_t whole = AlignUp(row, kBlock<T>);
    std::vector<T> in = Values<T>(k * outer * whole);
    const auto stack = [&](auto& d, auto& x, auto, auto) {
        PipeBarrier<PIPE_ALL>();
        const auto at = [&](int64_t c) { return x[static_cast<uint32_t>(c * outer * unit)]; };
        if (k == 2) {
            autofuse::StackRows(d, outer, row, unit, at(0), at(1));
        } else {
            autofuse::StackRows(d, outer, row, unit, at(0), at(1), at(2), at(3), at(4));
        }
    };
    for (const uint64_t seed : {0u, 7u}) {
        std::vector<T> out(static_cast<size_t>(outer * k * unit));
        if (!Run(name, seed, in, k * outer, unit, out, stack)) {
            continue;
        }
        std::vector<T> want(out.size(), Mark<T>());
        for (int64_t o = 0; o < outer; ++o) {
            for (int64_t c = 0; c < k; ++c) {
                const int64_t to = (o * k + c) * unit;
                for (int64_t r = 0; r < whole; ++r) {
                    want[static_cast<size_t>(to + r)] = in[static_cast<size_t>((c * outer + o) * whole + r)];
                }
            }
        }
        Compare(name, out, want);
    }
}

template <typename T> void Stacks() {
    constexpr int64_t block = kBlock<T>;
    for (const int64_t k : {2, 5}) {
        for (const auto& [outer, row, unit] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, block},
                                               {1, block, block},
                                               {1, 5 * block + 3, 6 * block},
                                               {1, 700, 90 * block},
                                               {7, 2 * block - 1, 2 * block},
                                               {9, 17, 4 * block}}) {
            if (AlignUp(row, block) <= unit && 2 * k * outer * unit * static_cast<int64_t>(sizeof(T)) <= kUbBytes) {
                Stacked<T>(k, outer, row, unit);
            }
        }
    }
}

// The tables for every k, and columns as long as UB holds.
void Offsets(int64_t size) {
    constexpr int64_t entries = autofuse::kPickOffsets;
    constexpr int64_t ub = 256 * 1024;
    for (const bool longest : {false, true}) {
        const auto pitch = [&](int64_t k) { return (longest ? ub / k / 32 : 3) * 32 / size; };
        std::vector<int32_t> in(8);
        std::vector<int32_t> want(static_cast<size_t>(entries));
        for (int64_t k = 1; k <= kMost; ++k) {
            for (int64_t i = 0; i < entries; ++i) {
                want[static_cast<size_t>(i)] = static_cast<int32_t>((i % k * pitch(k) + i / k) * size);
            }
            const std::string name = "offsets of " + std::to_string(k) + " columns, " + std::to_string(pitch(k)) +
                                     " apart, of " + std::to_string(size) + " bytes";
            for (const uint64_t seed : {0u, 7u}) {
                std::vector<int32_t> out(static_cast<size_t>(entries));
                if (Run(name, seed, in, 1, 0, out, [&](auto& d, auto&, auto, auto tmp) {
                        PipeBarrier<PIPE_ALL>();
                        autofuse::LaceOffsets(d, tmp, k, pitch(k), size);
                    })) {
                    Compare(name, out, want);
                }
            }
        }
    }
}

template <typename T> void All() {
    Shapes<T>();
    Nothing<T>();
    Stacks<T>();
}

}  // namespace

int main() {
    Offsets(2);
    Offsets(4);
    All<half>();
    All<bfloat16_t>();
    All<int16_t>();
    All<uint16_t>();
    All<float>();
    All<int32_t>();
    All<uint32_t>();
    return check::Failures() != 0;
}
