// No CASE may compile: element types, scalar types and positions that A2 does not have.
#include "kernel_operator.h"

using namespace AscendC;

void Body() {
    [[maybe_unused]] LocalTensor<float> f;
    [[maybe_unused]] LocalTensor<half> h;
    [[maybe_unused]] LocalTensor<bfloat16_t> b;
    [[maybe_unused]] LocalTensor<int8_t> i8;
    [[maybe_unused]] LocalTensor<uint8_t> u8;
    [[maybe_unused]] LocalTensor<int32_t> i32;
    [[maybe_unused]] LocalTensor<int64_t> i64;
#if CASE == 0
    Add(f, f, f, 8);  // the only case that must compile
#elif CASE == 1
    Add(b, b, b, 8);
#elif CASE == 2
    Abs(i32, i32, 8);
#elif CASE == 3
    Add(i64, i64, i64, 8);
#elif CASE == 4
    Adds(h, h, 1.0f, 8);
#elif CASE == 5
    Cast(f, i8, RoundMode::CAST_NONE, 8);
#elif CASE == 6
    Cast(b, h, RoundMode::CAST_RINT, 8);
#elif CASE == 7
    Duplicate(u8, static_cast<uint8_t>(0), 8);
#elif CASE == 8
    TQue<TPosition::VECCALC, 1> que;
#elif CASE == 9
    Add(f, f, h, 8);
#elif CASE == 10
    And(i32, i32, i32, 8);
#elif CASE == 11
    Compare(f, f, f, CMPMODE::LT, 64);
#elif CASE == 12
    Select(i32, u8, i32, i32, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
#elif CASE == 13
    Div(i32, i32, i32, 8);
#elif CASE == 14
    PipeBarrier<PIPE_S>();
#elif CASE == 15
    SetAtomicAdd<uint8_t>();
#elif CASE == 16
    Sigmoid(i32, i32, u8, 8);
#elif CASE == 17
    TBuf<TPosition::A1> buf;
#elif CASE == 18
    WholeReduceSum(i32, i32, 64, 1, 1, 1, 8);
#elif CASE == 19
    Gather(u8, u8, f.ReinterpretCast<uint32_t>(), 0, 8);
#elif CASE == 20
    Transpose(f, f);
#elif CASE == 21
    NdDmaDci();
#endif
}
