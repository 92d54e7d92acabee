// Two kernels of Ascend 950 whose rows stay in registers from one load to one store per element: a softmax in float, and an
// RMS norm in half that widens on load and narrows on store. Against a reference in double, with checks and seeds.
#define __NPU_ARCH__ 3510
#include "check.h"
#include "kernel_operator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

using namespace AscendC;

namespace {

constexpr uint32_t kRows = 6;   // of a tile
constexpr uint32_t kTilesOfCore = 3;
constexpr uint32_t kCores = 2;
constexpr uint32_t kLanes = 64;  // floats of a register

// A row of up to 256 numbers in four registers. Lanes past its end hold the smallest number.
__simd_callee__ inline void Keep(Reg::RegTensor<float>& r, Reg::RegTensor<float>& lowest, Reg::MaskReg& mask) {
    Reg::Select(r, r, lowest, mask);
}

__simd_vf__ __no_simd_vf_fusion__ inline void SoftmaxRows(__ubuf__ float* x, __ubuf__ float* y, uint16_t rows, uint32_t length,
                                                          uint32_t pitch) {
    Reg::RegTensor<float> a, b, c, d, lowest, top, sum, part;
    Reg::MaskReg ma, mb, mc, md;
    Reg::MaskReg all = Reg::CreateMask<float>();
    Reg::Duplicate(lowest, -std::numeric_limits<float>::infinity());
    uint32_t left = length;
    ma = Reg::UpdateMask<float>(left);
    mb = Reg::UpdateMask<float>(left);
    mc = Reg::UpdateMask<float>(left);
    md = Reg::UpdateMask<float>(left);
    for (uint16_t i = 0; i < rows; ++i) {
        Reg::LoadAlign(a, x + i * pitch);
        Reg::LoadAlign(b, x + i * pitch + kLanes);
        Reg::LoadAlign(c, x + i * pitch + 2 * kLanes);
        Reg::LoadAlign(d, x + i * pitch + 3 * kLanes);
        Keep(a, lowest, ma);
        Keep(b, lowest, mb);
        Keep(c, lowest, mc);
        Keep(d, lowest, md);
        Reg::Max(top, a, b, all);
        Reg::Max(part, c, d, all);
        Reg::Max(top, top, part, all);
        Reg::Reduce<Reg::ReduceType::MAX>(top, top, all);
        Reg::Duplicate(top, top, all);
        Reg::ExpSub(a, a, top, ma);
        Reg::ExpSub(b, b, top, mb);
        Reg::ExpSub(c, c, top, mc);
        Reg::ExpSub(d, d, top, md);
        Reg::Add(sum, a, b, all);
        Reg::Add(part, c, d, all);
        Reg::Add(sum, sum, part, all);
        Reg::Reduce<Reg::ReduceType::SUM>(sum, sum, all);
        Reg::Duplicate(sum, sum, all);
        Reg::Div(a, a, sum, ma);
        Reg::Div(b, b, sum, mb);
        Reg::Div(c, c, sum, mc);
        Reg::Div(d, d, sum, md);
        Reg::StoreAlign(y + i * pitch, a, ma);
        Reg::StoreAlign(y + i * pitch + kLanes, b, mb);
        Reg::StoreAlign(y + i * pitch + 2 * kLanes, c, mc);
        Reg::StoreAlign(y + i * pitch + 3 * kLanes, d, md);
    }
}

constexpr Reg::CastTrait kWiden{Reg::RegLayout::ZERO, Reg::SatMode::UNKNOWN, Reg::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr Reg::CastTrait kNarrow{Reg::RegLayout::ZERO, Reg::SatMode::NO_SAT, Reg::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};

__simd_callee__ inline void LoadWide(Reg::RegTensor<float>& r, __ubuf__ half* at, Reg::MaskReg& mask) {
    Reg::RegTensor<half> raw;
    Reg::LoadAlign<half, Reg::LoadDist::DIST_UNPACK_B16>(raw, at);
    Reg::Cast<float, half, kWiden>(r, raw, mask);
}
__simd_callee__ inline void StoreNarrow(__ubuf__ half* at, Reg::RegTensor<float>& r, Reg::MaskReg& mask) {
    Reg::RegTensor<half> raw;
    Reg::Cast<half, float, kNarrow>(raw, r, mask);
    Reg::StoreAlign<half, Reg::StoreDist::DIST_PACK_B32>(at, raw, mask);
}

// y = x / sqrt(mean(x^2) + epsilon) * w for rows of up to 192 numbers; the weights stay in registers, too.
__simd_vf__ __no_simd_vf_fusion__ inline void RmsRows(__ubuf__ half* x, __ubuf__ half* w, __ubuf__ half* y, uint16_t rows,
                                                      uint32_t length, uint32_t pitch, float inverse) {
    Reg::RegTensor<float> a, b, c, wa, wb, wc, sum;
    Reg::MaskReg ma, mb, mc;
    Reg::MaskReg all = Reg::CreateMask<float>();
    uint32_t left = length;
    ma = Reg::UpdateMask<float>(left);
    mb = Reg::UpdateMask<float>(left);
    mc = Reg::UpdateMask<float>(left);
    LoadWide(wa, w, ma);
    LoadWide(wb, w + kLanes, mb);
    LoadWide(wc, w + 2 * kLanes, mc);
    for (uint16_t i = 0; i < rows; ++i) {
        LoadWide(a, x + i * pitch, ma);
        LoadWide(b, x + i * pitch + kLanes, mb);
        LoadWide(c, x + i * pitch + 2 * kLanes, mc);
        Reg::Mul(sum, a, a, all);
        Reg::MulAddDst(sum, b, b, all);
        Reg::MulAddDst(sum, c, c, all);
        Reg::Reduce<Reg::ReduceType::SUM>(sum, sum, all);
        Reg::Duplicate(sum, sum, all);
        Reg::Muls(sum, sum, inverse, all);
        Reg::Adds(sum, sum, 1e-6f, all);
        Reg::Sqrt(sum, sum, all);
        Reg::Div(a, a, sum, ma);
        Reg::Div(b, b, sum, mb);
        Reg::Div(c, c, sum, mc);
        Reg::Mul(a, a, wa, ma);
        Reg::Mul(b, b, wb, mb);
        Reg::Mul(c, c, wc, mc);
        StoreNarrow(y + i * pitch, a, ma);
        StoreNarrow(y + i * pitch + kLanes, b, mb);
        StoreNarrow(y + i * pitch + 2 * kLanes, c, mc);
    }
}

template <typename T> GlobalTensor<T> Global(std::vector<T>& v) {
    GlobalTensor<T> t;
    t.SetGlobalBuffer(v.data());
    return t;
}

// Tiles of rows through queues; `call` is the function on one tile.
template <typename T, typename F>
void RowKernel(std::vector<T>& x, std::vector<T>& y, std::common_type_t<std::vector<T>*> w, uint32_t length, uint32_t pitch, F call) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECIN> weights;
    pipe.InitBuffer(in, 2, kRows * pitch * sizeof(T));
    pipe.InitBuffer(out, 2, kRows * pitch * sizeof(T));
    pipe.InitBuffer(weights, pitch * sizeof(T));
    const uint32_t bytes = length * static_cast<uint32_t>(sizeof(T));
    const uint32_t gap = (pitch * static_cast<uint32_t>(sizeof(T)) - (bytes + 31) / 32 * 32) / 32;
    auto wt = weights.Get<T>();
    const DataCopyPadExtParams<T> plain{false, 0, 0, T(0.0f)};
    if (w != nullptr) {
        DataCopyPad(wt, Global(*w), DataCopyExtParams{1, bytes, 0, 0, 0}, plain);
        const auto id = pipe.AllocEventID<HardEvent::MTE2_V>();
        SetFlag<HardEvent::MTE2_V>(id);
        WaitFlag<HardEvent::MTE2_V>(id);
        pipe.ReleaseEventID<HardEvent::MTE2_V>(id);
    }
    auto gx = Global(x);
    auto gy = Global(y);
    const uint64_t first = static_cast<uint64_t>(GetBlockIdx()) * kTilesOfCore * kRows * length;
    for (uint32_t tile = 0; tile < kTilesOfCore; ++tile) {
        const uint64_t at = first + uint64_t{tile} * kRows * length;
        auto a = in.template AllocTensor<T>();
        DataCopyPad(a, gx[at], DataCopyExtParams{kRows, bytes, 0, gap, 0}, plain);
        in.EnQue(a);
        a = in.template DeQue<T>();
        auto b = out.template AllocTensor<T>();
        call(a, wt, b);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.template DeQue<T>();
        DataCopyPad(gy[at], b, DataCopyExtParams{kRows, bytes, gap, 0, 0});
        out.FreeTensor(b);
    }
}

template <typename T> std::vector<T> Numbers(size_t n, float scale) {
    std::vector<T> v(n);
    uint64_t state = 7;
    for (auto& x : v) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        x = T((static_cast<float>(state >> 40) / 8388608.0f - 1.0f) * scale);
    }
    return v;
}

template <typename T, typename F> void Each(std::vector<T>& x, std::vector<T>& y, std::vector<T>& w, F kernel, const char* name) {
    std::vector<T> once;
    for (int mode = -1; mode < 9; ++mode) {
        std::fill(y.begin(), y.end(), T(-1.0f));
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), x.size() * sizeof(T), "x", 0);
        autofuse_twin_gm_add(w.data(), w.size() * sizeof(T), "w", 0);
        autofuse_twin_gm_add(y.data(), y.size() * sizeof(T), "y",
                             AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_ONCE | AUTOFUSE_TWIN_GM_COMPLETE);
        autofuse_twin_set_check(mode >= 0, mode < 0 ? 0 : static_cast<uint64_t>(mode));
        const int64_t rc = autofuse_twin::Launch(kCores, kernel);
        autofuse_twin_set_check(0, 0);
        if (rc != 0) {
            check::Fail(__FILE__, __LINE__, std::string(name) + ": " + check::Findings());
            return;
        }
        if (mode < 0) {
            once = y;
        }
        CHECK(std::memcmp(once.data(), y.data(), y.size() * sizeof(T)) == 0);
    }
    autofuse_twin_gm_clear();
}

void Softmax(uint32_t length) {
    const uint32_t pitch = 256;
    auto x = Numbers<float>(size_t{kCores} * kTilesOfCore * kRows * length, 30.0f);
    std::vector<float> y(x.size());
    std::vector<float> w(8);
    Each(x, y, w, [&] {
        RowKernel(x, y, nullptr, length, pitch, [&](LocalTensor<float>& a, LocalTensor<float>&, LocalTensor<float>& b) {
            SoftmaxRows(a.GetPhyAddr(), b.GetPhyAddr(), kRows, length, pitch);
        });
    }, "softmax");
    for (size_t r = 0; r < x.size() / length; ++r) {
        const float* row = x.data() + r * length;
        const double top = *std::max_element(row, row + length);
        double sum = 0;
        for (uint32_t i = 0; i < length; ++i) sum += std::exp(row[i] - top);
        for (uint32_t i = 0; i < length; ++i) {
            // The difference to the largest number is rounded: 2 ^ -24 of up to 60, before e^x.
            const double want = std::exp(row[i] - top) / sum;
            CHECK(std::fabs(y[r * length + i] - want) <= 5e-6 * want);
        }
    }
}

void RmsNorm(uint32_t length) {
    const uint32_t pitch = 192;
    auto x = Numbers<half>(size_t{kCores} * kTilesOfCore * kRows * length, 4.0f);
    auto w = Numbers<half>(length, 2.0f);
    std::vector<half> y(x.size());
    Each(x, y, w, [&] {
        RowKernel(x, y, &w, length, pitch, [&](LocalTensor<half>& a, LocalTensor<half>& wt, LocalTensor<half>& b) {
            RmsRows(a.GetPhyAddr(), wt.GetPhyAddr(), b.GetPhyAddr(), kRows, length, pitch, 1.0f / static_cast<float>(length));
        });
    }, "rms norm");
    for (size_t r = 0; r < x.size() / length; ++r) {
        double sum = 0;
        for (uint32_t i = 0; i < length; ++i) sum += double(float(x[r * length + i])) * float(x[r * length + i]);
        const double scale = 1.0 / std::sqrt(sum / length + 1e-6);
        for (uint32_t i = 0; i < length; ++i) {
            const double want = float(x[r * length + i]) * scale * float(w[i]);
            CHECK(std::fabs(float(y[r * length + i]) - want) <= 6e-4 * std::fabs(want) + 1e-7);
        }
    }
}

}  // namespace

int main() {
    for (uint32_t length : {256u, 200u, 65u, 1u}) Softmax(length);
    for (uint32_t length : {192u, 130u, 17u}) RmsNorm(length);
    return check::Failures() == 0 ? 0 : 1;
}
