// The whole flow on one small kernel: y = |x| over n elements, split over cores, double-buffered, with tails.
#include <cmath>

#include "check.h"
#include "kernel_operator.h"

using namespace AscendC;

class KernelAbs {
public:
    __aicore__ inline KernelAbs() {}
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t n, uint32_t tile, TPipe* pipe) {
        const uint32_t cores = static_cast<uint32_t>(GetBlockNum());
        const uint32_t share = (n + cores - 1) / cores;
        const uint32_t begin = static_cast<uint32_t>(GetBlockIdx()) * share;
        count_ = begin >= n ? 0 : (n - begin < share ? n - begin : share);
        tile_ = tile;
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x) + begin, count_);
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y) + begin, count_);
        pipe->InitBuffer(in_, 2, tile * static_cast<uint32_t>(sizeof(float)));
        pipe->InitBuffer(out_, 2, tile * static_cast<uint32_t>(sizeof(float)));
    }
    __aicore__ inline void Process() {
        for (uint32_t at = 0; at < count_; at += tile_) {
            const uint32_t len = count_ - at < tile_ ? count_ - at : tile_;
            CopyIn(at, len);
            Compute(len);
            CopyOut(at, len);
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t at, uint32_t len) {
        LocalTensor<float> x = in_.AllocTensor<float>();
        DataCopyExtParams params{1, len * static_cast<uint32_t>(sizeof(float)), 0, 0, 0};
        DataCopyPadExtParams<float> pad{false, 0, 0, 0};
        DataCopyPad(x, x_[at], params, pad);
        in_.EnQue(x);
    }
    __aicore__ inline void Compute(uint32_t len) {
        LocalTensor<float> x = in_.DeQue<float>();
        LocalTensor<float> y = out_.AllocTensor<float>();
        Abs(y, x, static_cast<int32_t>(len));
        out_.EnQue<float>(y);
        in_.FreeTensor(x);
    }
    __aicore__ inline void CopyOut(uint32_t at, uint32_t len) {
        LocalTensor<float> y = out_.DeQue<float>();
        DataCopyExtParams params{1, len * static_cast<uint32_t>(sizeof(float)), 0, 0, 0};
        DataCopyPad(y_[at], y, params);
        out_.FreeTensor(y);
    }

    GlobalTensor<float> x_, y_;
    TQue<TPosition::VECIN, 1> in_;
    TQue<TPosition::VECOUT, 1> out_;
    uint32_t count_ = 0;
    uint32_t tile_ = 0;
};

extern "C" __global__ __aicore__ void abs_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, uint32_t n, uint32_t tile) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    (void)workspace;
    TPipe pipe;
    KernelAbs op;
    op.Init(x, y, n, tile, &pipe);
    op.Process();
}

int main() {
    for (uint32_t n : {1u, 7u, 1000u, 4096u, 100003u}) {
        for (uint32_t cores : {1u, 2u, 8u, 48u}) {
            std::vector<float> x(n);
            std::vector<float> y(n + 8, 7.0f);
            for (uint32_t i = 0; i < n; ++i) {
                x[i] = (i % 2 != 0 ? -1.0f : 1.0f) * static_cast<float>(i);
            }
            autofuse_twin_gm_clear();
            autofuse_twin_gm_add(x.data(), n * sizeof(float), "x", 0);
            autofuse_twin_gm_add(y.data(), n * sizeof(float), "y", 1);
            EXPECT_CLEAN(cores, [&] {
                abs_custom(reinterpret_cast<uint8_t*>(x.data()), reinterpret_cast<uint8_t*>(y.data()), nullptr, n, 1000);
            });
            for (uint32_t i = 0; i < n; ++i) {
                CHECK(y[i] == std::fabs(x[i]));
            }
            CHECK(y[n] == 7.0f);
        }
    }
    return check::Failures() != 0;
}
