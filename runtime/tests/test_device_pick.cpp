// The shipped header autofuse_pick.h in checked mode, for several orders of execution: results, no finding with buffers
// of exactly the documented sizes, nothing written after the results.
#include <algorithm>

#include "autofuse_pick.h"
#include "check.h"

using namespace AscendC;

namespace {

constexpr uint32_t kTableBytes = autofuse::kPickOffsets * 4;
constexpr int64_t kMark = 77;

template <typename T> int64_t Bytes(int64_t elements) { return elements * static_cast<int64_t>(sizeof(T)); }

int64_t AlignUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Values with distinct words.
template <typename T> std::vector<T> Values(int64_t n) {
    std::vector<T> out(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        if constexpr (sizeof(T) == 8) {
            out[static_cast<size_t>(i)] = static_cast<T>(i * 0x100000003 + 5);
        } else {
            out[static_cast<size_t>(i)] = static_cast<T>(static_cast<int>(i % 2000 - 1000));
        }
    }
    return out;
}

template <typename T> void Mark(const LocalTensor<T>& x, int64_t bytes) {
    Duplicate(x.template ReinterpretCast<int32_t>(), static_cast<int32_t>(kMark), static_cast<int32_t>(bytes / 4));
}

// One core with a run in UB that fills its buffer up to a block, a marked result and both tables.
template <typename T, typename F>
bool Run(const std::string& name, uint64_t seed, std::vector<T>& in, int64_t rows, int64_t pitch, std::vector<T>& out,
         int64_t step, F body) {
    const int64_t run = static_cast<int64_t>(in.size()) / rows;
    const int64_t src_bytes = AlignUp(rows == 1 ? Bytes<T>(run) : rows * Bytes<T>(pitch), 32);
    const int64_t dst_bytes = AlignUp(Bytes<T>(static_cast<int64_t>(out.size())), 32) + 32;
    std::vector<T> all(static_cast<size_t>(dst_bytes) / sizeof(T));
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
        const LocalTensor<int32_t> table = table_buf.Get<int32_t>();
        const LocalTensor<uint8_t> tmp = tmp_buf.Get<uint8_t>();
        GlobalTensor<T> gm;
        gm.SetGlobalBuffer(in.data());
        const uint32_t length = static_cast<uint32_t>(Bytes<T>(run));
        const uint32_t gap = rows == 1 ? 0 : static_cast<uint32_t>((Bytes<T>(pitch) - AlignUp(length, 32)) / 32);
        DataCopyPad(src, gm, DataCopyExtParams{static_cast<uint16_t>(rows), length, 0, gap, 0},
                    DataCopyPadExtParams<T>{});
        Mark(dst, dst_bytes);
        if constexpr (sizeof(T) == 8) {
            autofuse::PairOffsets(table, tmp, Bytes<T>(step));
        } else {
            autofuse::PickOffsets(table, Bytes<T>(step));
        }
        PipeBarrier<PIPE_ALL>();
        body(dst, src, table, tmp);
        PipeBarrier<PIPE_ALL>();
        gm.SetGlobalBuffer(all.data());
        DataCopyPad(gm, dst, DataCopyExtParams{1, static_cast<uint32_t>(dst_bytes), 0, 0, 0});
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    const std::string found = check::Findings();
    if (found != "[]") {
        check::Fail(__FILE__, __LINE__, name + ", seed " + std::to_string(seed) + ": " + found);
        return false;
    }
    std::copy(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(out.size()), out.begin());
    int32_t mark = 0;
    std::memcpy(&mark, reinterpret_cast<const uint8_t*>(all.data()) + dst_bytes - 4, 4);
    if (mark != kMark) {
        check::Fail(__FILE__, __LINE__, name + ": something behind the result was written");
        return false;
    }
    return true;
}

template <typename T> void Ahead(int64_t count, int64_t step, int64_t first) {
    std::vector<T> in = Values<T>((count - 1) * step + 1 + first);
    const std::string name = "every " + std::to_string(step) + " of " + std::to_string(in.size()) + " from " +
                             std::to_string(first) + " on";
    const auto compare = [&](const std::vector<T>& out, const char* what) {
        for (int64_t i = 0; i < count; ++i) {
            if (std::memcmp(&out[static_cast<size_t>(i)], &in[static_cast<size_t>(first + i * step)], sizeof(T)) != 0) {
                check::Fail(__FILE__, __LINE__, name + what + ": element " + std::to_string(i));
                return;
            }
        }
    };
    for (const uint64_t seed : {0u, 3u}) {
        std::vector<T> out(static_cast<size_t>(count));
        if (Run(name, seed, in, 1, 0, out, step, [&](auto& d, auto& s, auto& table, auto&) {
                autofuse::PickAhead(d, s, table, count, step, first);
            })) {
            compare(out, " by offsets");
        }
        if constexpr (sizeof(T) < 8) {
            if ((step == 2 || step == 4) && Run(name, seed, in, 1, 0, out, step, [&](auto& d, auto& s, auto&, auto&) {
                    autofuse::PickByMask(d, s, count, step, first);
                })) {
                compare(out, " by mask");
            }
        }
    }
}

template <typename T> void Back(int64_t rows, int64_t n, int64_t step) {
    const int64_t run = (n - 1) * step + 1;
    std::vector<T> in = Values<T>(rows * run);
    const int64_t pitch = rows == 1 ? n : AlignUp(n, 32 / static_cast<int64_t>(sizeof(T)));
    const std::string name = std::to_string(rows) + " rows of " + std::to_string(n) + ", every " + std::to_string(step);
    for (const uint64_t seed : {0u, 5u}) {
        std::vector<T> out(static_cast<size_t>((rows - 1) * pitch + n));
        if (!Run(name, seed, in, rows, pitch * step, out, -step, [&](auto& d, auto& s, auto& table, auto& tmp) {
                if (rows == 1) {
                    autofuse::PickBack(d, s, table, tmp, n, step);
                } else {
                    autofuse::PickBack(d, s, table, tmp, rows, n, pitch, step);
                }
            })) {
            return;
        }
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < n; ++i) {
                const T& have = out[static_cast<size_t>(r * pitch + i)];
                const T& want = in[static_cast<size_t>(r * run + (n - 1 - i) * step)];
                if (std::memcmp(&have, &want, sizeof(T)) != 0) {
                    check::Fail(__FILE__, __LINE__, name + ": element " + std::to_string(i));
                    return;
                }
            }
        }
    }
}

template <typename T> void Widths() {
    for (const int64_t step : {1, 2, 3, 4}) {
        for (const int64_t count : {1, 2, 7, 8, 63, 65, 511, 512, 513, 1023, 1024, 1025, 3000}) {
            Ahead<T>(count, step, 0);
            Ahead<T>(count, step, step - 1);
            Back<T>(1, count, step);
        }
        Back<T>(5, 13, step);
        Back<T>(3, 600, step);
        Back<T>(2, 1100, step);
    }
}

}  // namespace

int main() {
    Widths<float>();
    Widths<int32_t>();
    Widths<half>();
    Widths<bfloat16_t>();
    Widths<uint16_t>();
    Widths<int64_t>();
    Widths<uint64_t>();
    return check::Failures() != 0;
}
