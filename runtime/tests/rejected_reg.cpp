// No CASE may compile: missing features of the registers and of the multi-dimensional copy of Ascend 950.
#define __NPU_ARCH__ 3510
#include "kernel_operator.h"

using namespace AscendC;
namespace R = AscendC::Reg;

constexpr R::CastTrait kNone{};
constexpr R::CastTrait kOne{R::RegLayout::ONE, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kTwo{R::RegLayout::TWO, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kSat{R::RegLayout::ZERO, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr NdDmaConfig kPlain{};
[[maybe_unused]] constexpr NdDmaConfig kNearest{true};
[[maybe_unused]] constexpr NdDmaConfig kLeft{false, 1};
[[maybe_unused]] constexpr NdDmaConfig kRight{false, 0, 1};
constexpr R::DivSpecificMode kPrecise{R::MaskMergeMode::ZEROING, false, R::DivAlgo::PRECISION_0ULP_FTZ_FALSE};

[[maybe_unused]] static void ByReference(float&) {}

void Body(__ubuf__ float* pf, __ubuf__ half* ph, __ubuf__ int64_t* pl) {
    [[maybe_unused]] R::RegTensor<float> f;
    [[maybe_unused]] R::RegTensor<half> h;
    [[maybe_unused]] R::RegTensor<bfloat16_t> b;
    [[maybe_unused]] R::RegTensor<int8_t> i8;
    [[maybe_unused]] R::RegTensor<int16_t> i16;
    [[maybe_unused]] R::RegTensor<int32_t> i32;
    [[maybe_unused]] R::RegTensor<uint32_t> u32;
    [[maybe_unused]] R::RegTensor<int64_t> i64;
    [[maybe_unused]] R::RegTensor<int64_t, R::RegTraitNumTwo> pair;
    [[maybe_unused]] R::UnalignRegForLoad ul;
    R::MaskReg m = R::CreateMask<float>();
    [[maybe_unused]] LocalTensor<float> lf;
    [[maybe_unused]] GlobalTensor<float> gf;
    [[maybe_unused]] NdDmaParams<float, 2> two_loops{};
    (void)pf, (void)ph, (void)pl;
#if CASE == 0
    R::Add(pair, pair, pair, m);  // these must compile
    R::Cast<half, float, kOne>(h, f, m);
    R::Div<float, &kPrecise>(f, f, f, m);
    R::LocalMemBar<R::MemType::VEC_ALL, R::MemType::SCALAR_ALL>();
    DataCopy<float, 2, kPlain>(lf, gf, two_loops);
    NdDmaDci();
#elif CASE == 1
    R::Exp(b, b, m);
#elif CASE == 2
    R::Add(i64, i64, i64, m);
#elif CASE == 3
    R::Mul(i8, i8, i8, m);
#elif CASE == 4
    R::Muls(b, b, bfloat16_t(1.0f), m);
#elif CASE == 5
    R::Adds(h, h, 1.0f, m);
#elif CASE == 6
    R::Mul<float, R::MaskMergeMode::MERGING>(f, f, f, m);
#elif CASE == 7
    R::Reduce<ReduceType::SUM>(b, b, m);
#elif CASE == 8
    R::Reduce<ReduceType::SUM>(i16, i16, m);
#elif CASE == 9
    R::Cast<float, half, kNone>(f, h, m);
#elif CASE == 10
    R::Cast<half, float, kTwo>(h, f, m);
#elif CASE == 11
    R::Cast<float, half, kSat>(f, h, m);
#elif CASE == 12
    R::Cast<bfloat16_t, int32_t, kOne>(b, i32, m);
#elif CASE == 13
    R::LoadAlign<half, R::LoadDist::DIST_UNPACK_B32>(h, ph);
#elif CASE == 14
    R::LoadAlign<float, R::LoadDist::DIST_DINTLV_B32>(f, pf);
#elif CASE == 15
    R::LoadAlign<int64_t, R::LoadDist::DIST_BLK>(i64, pl);
#elif CASE == 16
    R::StoreAlign<half, R::StoreDist::DIST_NORM_B32>(ph, h, m);
#elif CASE == 17
    R::LocalMemBar<R::MemType::VEC_LOAD, R::MemType::VEC_LOAD>();
#elif CASE == 18
    R::LocalMemBar<R::MemType::SCALAR_STORE, R::MemType::SCALAR_STORE>();
#elif CASE == 19
    R::RegTensor<float, R::RegTraitNumTwo> two;
#elif CASE == 20
    asc_vf_call<ByReference>(1.0f);
#elif CASE == 21
    R::Gather(f, pf, i32, m);
#elif CASE == 22
    R::ShiftLeft(i32, i32, u32, m);
#elif CASE == 23
    R::Abs(u32, u32, m);
#elif CASE == 24
    R::Div<half, &kPrecise>(h, h, h, m);
#elif CASE == 25
    R::LoadAlign(f, ph);
#elif CASE == 26
    R::Add(f, f, h, m);
#elif CASE == 27
    R::LoadUnAlign<float, R::PostLiteral::POST_MODE_NORMAL>(f, ul, pf, 8);
#elif CASE == 28
    DataCopy<float, 2, kNearest>(lf, gf, two_loops);
#elif CASE == 29
    DataCopy<float, 2, kLeft>(lf, gf, two_loops);
#elif CASE == 30
    DataCopy<float, 2, kRight>(lf, gf, two_loops);
#elif CASE == 31
    NdDmaParams<float, 6> loops;
#elif CASE == 32
    DataCopy<half, 2, kPlain>(lf, gf, two_loops);
#endif
}
