// The shipped header autofuse_take.h in checked mode: results, no finding with buffers of exactly the documented sizes,
// nothing written beside the results.
#include "autofuse_take.h"
#include "check.h"

using namespace AscendC;

namespace {

int64_t AlignUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

struct Shape {
    int64_t outer;
    int64_t rows;
    int64_t cols;
    int64_t row;   // elements of a row of the source
    bool shared;   // one set of offsets for all rows of the source
};

template <typename T> void Taken(const Shape& s) {
    constexpr int64_t block = 32 / static_cast<int64_t>(sizeof(T));
    const int64_t pitch = s.rows == 1 && s.outer == 1 ? s.cols : AlignUp(s.cols, block);
    const int64_t to = s.rows * pitch;
    const int64_t from = AlignUp(s.row, block);
    const int64_t at = s.shared ? 0 : to;
    const int64_t last = (s.rows - 1) * pitch + s.cols;
    const int64_t results = (s.outer - 1) * to + last;
    const int64_t places = (s.outer - 1) * at + last;
    const int64_t values = (s.outer - 1) * from + s.row;
    std::vector<T> x(static_cast<size_t>(values));
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<T>(static_cast<int>(i % 30000 + 1));
    }
    std::vector<int32_t> index(static_cast<size_t>(places));
    for (size_t i = 0; i < index.size(); ++i) {
        index[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(s.row)) * static_cast<int32_t>(sizeof(T));
    }
    const T mark = static_cast<T>(-7);
    std::vector<T> out(static_cast<size_t>(AlignUp(results, block) + block), mark);
    const std::string name = std::to_string(s.outer) + " x " + std::to_string(s.rows) + " x " + std::to_string(s.cols) +
                             " of " + std::to_string(s.row);
    autofuse_twin_gm_clear();
    autofuse_twin_set_check(1, 3);
    autofuse_twin_set_threads(1);
    autofuse_twin::Launch(1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECIN> src_buf;
        TBuf<TPosition::VECIN> index_buf;
        TBuf<TPosition::VECOUT> dst_buf;
        const auto bytes = [](int64_t n, size_t size) {
            return static_cast<uint32_t>(AlignUp(n * static_cast<int64_t>(size), 32));
        };
        pipe.InitBuffer(src_buf, bytes(values, sizeof(T)));
        pipe.InitBuffer(index_buf, bytes(places, 4));
        pipe.InitBuffer(dst_buf, bytes(static_cast<int64_t>(out.size()), sizeof(T)));
        const LocalTensor<T> src = src_buf.Get<T>();
        const LocalTensor<int32_t> offsets = index_buf.Get<int32_t>();
        const LocalTensor<T> dst = dst_buf.Get<T>();
        GlobalTensor<T> gm;
        GlobalTensor<int32_t> index_gm;
        gm.SetGlobalBuffer(x.data());
        index_gm.SetGlobalBuffer(index.data());
        DataCopyPad(src, gm, DataCopyExtParams{1, static_cast<uint32_t>(x.size() * sizeof(T)), 0, 0, 0},
                    DataCopyPadExtParams<T>{});
        DataCopyPad(offsets, index_gm, DataCopyExtParams{1, static_cast<uint32_t>(index.size() * 4), 0, 0, 0},
                    DataCopyPadExtParams<int32_t>{});
        Duplicate(dst, mark, static_cast<int32_t>(out.size()));
        PipeBarrier<PIPE_ALL>();
        autofuse::TakeRows(dst, src, offsets, s.outer, s.rows, s.cols, pitch, to, from, at);
        PipeBarrier<PIPE_ALL>();
        gm.SetGlobalBuffer(out.data());
        DataCopyPad(gm, dst, DataCopyExtParams{1, static_cast<uint32_t>(out.size() * sizeof(T)), 0, 0, 0});
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    const std::string found = check::Findings();
    if (found != "[]") {
        check::Fail(__FILE__, __LINE__, name + ": " + found);
        return;
    }
    std::vector<T> want(out.size(), mark);
    for (int64_t o = 0; o < s.outer; ++o) {
        for (int64_t r = 0; r < s.rows; ++r) {
            for (int64_t c = 0; c < s.cols; ++c) {
                const size_t place = static_cast<size_t>(o * at + r * pitch + c);
                const size_t element = static_cast<size_t>(index[place]) / sizeof(T);
                want[static_cast<size_t>(o * to + r * pitch + c)] = x[static_cast<size_t>(o * from) + element];
            }
        }
    }
    for (size_t i = 0; i < out.size(); ++i) {
        if (out[i] != want[i]) {
            check::Fail(__FILE__, __LINE__, name + ": element " + std::to_string(i));
            return;
        }
    }
}

}  // namespace

int main() {
    for (const bool shared : {true, false}) {
        for (const Shape& s : {Shape{1, 1, 1, 1, shared}, Shape{1, 1, 100, 16, shared}, Shape{3, 1, 5, 40, shared},
                               Shape{2, 4, 33, 7, shared}, Shape{1, 3, 64, 257, shared}, 
                               Shape{1, 1, 9000, 300, shared}}) {
            Taken<int16_t>(s);
            Taken<int32_t>(s);
            Taken<float>(s);
        }
    }
    return check::Failures() != 0;
}
