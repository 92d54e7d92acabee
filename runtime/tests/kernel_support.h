// Helpers to write one-core kernels in tests: UB tensors filled from and read into vectors.
#ifndef AUTOFUSE_TWIN_TESTS_KERNEL_SUPPORT_H
#define AUTOFUSE_TWIN_TESTS_KERNEL_SUPPORT_H

#include <cmath>
#include <limits>

#include "check.h"
#include "kernel_operator.h"

// A TPipe with a few named areas carved out of one TBuf.
class Ub {
public:
    explicit Ub(uint32_t bytes = 65536) { pipe.InitBuffer(buf_, bytes); }

    template <typename T> AscendC::LocalTensor<T> Make(uint32_t n) {
        const uint32_t bytes = (n * static_cast<uint32_t>(sizeof(T)) + 31) / 32 * 32;
        auto t = buf_.GetWithOffset<T>(n, used_);
        used_ += bytes;
        return t;
    }
    template <typename T> AscendC::LocalTensor<T> Make(const std::vector<T>& values) {
        auto t = Make<T>(static_cast<uint32_t>(values.size()));
        for (uint32_t i = 0; i < values.size(); ++i) {
            t.SetValue(i, values[i]);
        }
        return t;
    }

    AscendC::TPipe pipe;

private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> buf_;
    uint32_t used_ = 0;
};

template <typename T> std::vector<T> Read(const AscendC::LocalTensor<T>& t, uint32_t n) {
    std::vector<T> out(n);
    for (uint32_t i = 0; i < n; ++i) {
        out[i] = t.GetValue(i);
    }
    return out;
}

// Applies op(dst, src...) to vectors on one simulated core.
template <typename D, typename S, typename F>
std::vector<D> Apply(const std::vector<S>& a, F op) {
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make<D>(static_cast<uint32_t>(a.size()));
        op(y, x, static_cast<int32_t>(a.size()));
        out = Read(y, static_cast<uint32_t>(a.size()));
    });
    out.resize(a.size());
    return out;
}
template <typename D, typename S, typename F>
std::vector<D> Apply2(const std::vector<S>& a, const std::vector<S>& b, F op) {
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto z = ub.Make(b);
        auto y = ub.Make<D>(static_cast<uint32_t>(a.size()));
        op(y, x, z, static_cast<int32_t>(a.size()));
        out = Read(y, static_cast<uint32_t>(a.size()));
    });
    out.resize(a.size());
    return out;
}

inline std::vector<half> Halves(const std::vector<float>& v) { return std::vector<half>(v.begin(), v.end()); }

inline uint64_t Next(uint64_t& state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

#endif
