// Order inside vector functions, and between vector functions and other pipes: a missing barrier is found, and some
// order that is legal without it changes the numbers. Accesses that the registers of Ascend 950 do not allow.
#include "checked_support.h"
#include "autofuse_twin/reg.h"

namespace {

namespace R = AscendC::Reg;

template <HardEvent event> void Order(TPipe& pipe) {
    const auto id = pipe.AllocEventID<event>();
    SetFlag<event>(id);
    WaitFlag<event>(id);
    pipe.ReleaseEventID<event>(id);
}

// y = 2 x through a buffer of UB.
template <bool fault> __simd_vf__ inline void StoreThenLoad(__ubuf__ float* x, __ubuf__ float* y, __ubuf__ float* t) {
    R::RegTensor<float> a, b;
    R::MaskReg all = R::CreateMask<float>();
    R::LoadAlign(a, x);
    R::StoreAlign(t, a, all);
    if (!fault) R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_LOAD>();
    R::LoadAlign(b, t);
    R::Add(b, a, b, all);
    R::StoreAlign(y, b, all);
}
// The second store has to win.
template <bool fault> __simd_vf__ inline void StoreThenStore(__ubuf__ float* x, __ubuf__ float* y, __ubuf__ float*) {
    R::RegTensor<float> a, b;
    R::MaskReg all = R::CreateMask<float>();
    R::LoadAlign(a, x);
    R::Muls(b, a, 2.0f, all);
    R::StoreAlign(y, a, all);
    if (!fault) R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_STORE>();
    R::StoreAlign(y, b, all);
}
// The load has to come before a store that does not depend on it.
template <bool fault> __simd_vf__ inline void LoadThenStore(__ubuf__ float* x, __ubuf__ float* y, __ubuf__ float*) {
    R::RegTensor<float> a, b;
    R::MaskReg all = R::CreateMask<float>();
    R::Duplicate(b, 7.0f);
    R::LoadAlign(a, x);
    if (!fault) R::LocalMemBar<R::MemType::VEC_LOAD, R::MemType::VEC_STORE>();
    R::StoreAlign(x, b, all);
    R::StoreAlign(y, a, all);
}
// From one iteration to the next, in a helper.
__simd_callee__ inline void Step(__ubuf__ float* t, R::MaskReg& all) {
    R::RegTensor<float> a;
    R::LoadAlign(a, t);
    R::Adds(a, a, 1.0f, all);
    R::StoreAlign(t, a, all);
}
template <bool fault> __simd_vf__ inline void Iterations(__ubuf__ float* x, __ubuf__ float* y, __ubuf__ float*) {
    R::RegTensor<float> a;
    R::MaskReg all = R::CreateMask<float>();
    for (uint16_t i = 0; i < 4; ++i) {
        Step(x, all);
        if (!fault) R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_LOAD>();
    }
    R::LoadAlign(a, x);
    R::StoreAlign(y, a, all);
}
// Sound: in place, and other rows.
__simd_vf__ inline void InPlace(__ubuf__ float* x, __ubuf__ float* y) {
    R::RegTensor<float> a;
    uint32_t n = kTile;
    R::MaskReg mask = R::UpdateMask<float>(n);
    R::LoadAlign(a, x);
    R::Muls(a, a, 2.0f, mask);
    R::StoreAlign(x, a, mask);
    R::StoreAlign(y, a, mask);
}

enum Missing { kNothing, kLoad, kStore, kReuse };

// Tiles with flags around a function; `missing` is omitted.
template <typename F> void Tiles(Arrays& a, Missing missing, bool named, F function) {
    TPipe pipe;
    TBuf<TPosition::VECIN> buf;
    pipe.InitBuffer(buf, 3 * kTile * 4);
    LocalTensor<float> x = buf.GetWithOffset<float>(kTile, 0);
    LocalTensor<float> y = buf.GetWithOffset<float>(kTile, kTile * 4);
    LocalTensor<float> t = buf.GetWithOffset<float>(kTile, kTile * 8);
    Duplicate(t, -3.0f, static_cast<int32_t>(kTile));
    PipeBarrier<PIPE_V>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        if (missing != kLoad) Order<HardEvent::MTE2_V>(pipe);
        if (named) {
            asc_vf_call<InPlace>(x.GetPhyAddr(), y.GetPhyAddr());
        } else {
            function(x.GetPhyAddr(), y.GetPhyAddr(), t.GetPhyAddr());
        }
        if (missing != kStore) Order<HardEvent::V_MTE3>(pipe);
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        if (missing != kReuse) {
            Order<HardEvent::MTE3_V>(pipe);
            Order<HardEvent::V_MTE2>(pipe);
        }
        PipeBarrier<PIPE_V>();
    }
}

#define INSIDE(Name)                                                                                        \
    PAIR(#Name, "vf-order", true, 1, [](Arrays& a, bool fault) {                                            \
        Tiles(a, kNothing, false, [fault](float* x, float* y, float* t) {                                   \
            if (fault) {                                                                                    \
                Name<true>(x, y, t);                                                                        \
            } else {                                                                                        \
                Name<false>(x, y, t);                                                                       \
            }                                                                                               \
        });                                                                                                 \
    })
#define OUTSIDE(what, named)                                                                                \
    PAIR(#what, "race", what != kReuse, 1, [](Arrays& a, bool fault) {                                      \
        Tiles(a, fault ? what : kNothing, named, [](float* x, float* y, float*) { InPlace(x, y); });        \
    })

__simd_vf__ inline void Doubled(__ubuf__ float* x, __ubuf__ float* y) {
    R::RegTensor<float> a;
    R::MaskReg all = R::CreateMask<float>();
    R::LoadAlign(a, x);
    R::Add(a, a, a, all);
    R::StoreAlign(y, a, all);
}

// Two functions, the second of which reads results of the first one: they are two instructions of one pipe.
void TwoFunctions(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECIN> buf;
    pipe.InitBuffer(buf, 3 * kTile * 4);
    LocalTensor<float> x = buf.GetWithOffset<float>(kTile, 0);
    LocalTensor<float> y = buf.GetWithOffset<float>(kTile, kTile * 4);
    LocalTensor<float> t = buf.GetWithOffset<float>(kTile, kTile * 8);
    float* px = x.GetPhyAddr();
    float* py = y.GetPhyAddr();
    float* pt = t.GetPhyAddr();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        Order<HardEvent::MTE2_V>(pipe);
        Doubled(px, pt);
        if (!fault) PipeBarrier<PIPE_V>();
        Doubled(pt, py);
        Order<HardEvent::V_MTE3>(pipe);
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        PipeBarrier<PIPE_ALL>();
    }
}

// ---- accesses ----

template <typename F> void Found(int line, const char* code, F body) {
    autofuse_twin_gm_clear();
    autofuse_twin_set_check(1, 0);
    check::ExpectFinding(__FILE__, line, code, 1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECIN> buf;
        pipe.InitBuffer(buf, 1024);
        TBuf<TPosition::VECCALC> last;
        pipe.InitBuffer(last, 64);
        LocalTensor<float> x = buf.Get<float>();
        Duplicate(x, 1.0f, 256);
        PipeBarrier<PIPE_V>();
        body(x.GetPhyAddr(), last.Get<float>().GetPhyAddr());
    });
    autofuse_twin_set_check(0, 0);
}
#define FOUND(code, ...) Found(__LINE__, code, __VA_ARGS__)

void Accesses() {
    R::RegTensor<float> r;
    FOUND("", [&](float* x, float*) { R::LoadAlign(r, x + 8); });
    FOUND("ub-align", [&](float* x, float*) { R::LoadAlign(r, x + 1); });
    FOUND("", [&](float* x, float*) { R::LoadAlign<float, R::LoadDist::DIST_BRC_B32>(r, x + 1); });
    FOUND("ub-align", [&](float* x, float*) {
        R::LoadAlign<float, R::LoadDist::DIST_BRC_B32>(r, reinterpret_cast<float*>(reinterpret_cast<char*>(x) + 2));
    });
    // A load may extend past its buffer, a store may not.
    FOUND("", [&](float*, float* last) { R::LoadAlign(r, last); });
    FOUND("ub-oob", [&](float*, float* last) {
        auto all = R::CreateMask<float>();
        R::LoadAlign(r, last);
        R::StoreAlign(last, r, all);
    });
    FOUND("", [&](float* x, float* last) {
        auto few = R::CreateMask<float, R::MaskPattern::VL16>();
        R::LoadAlign(r, x);
        R::StoreAlign(last, r, few);
    });
    FOUND("ub-oob", [&](float* x, float*) { R::LoadAlign(r, x + 188160 / 4 - 8); });
    FOUND("ub-oob", [&](float* x, float*) {
        R::RegTensor<uint32_t> index;
        auto all = R::CreateMask<float>();
        R::Duplicate(index, uint32_t(256));
        R::Gather(r, x, index, all);
    });
    FOUND("reg-streams", [&](float*, float*) { R::UnalignRegForLoad five[5]; });
    FOUND("", [&](float*, float*) { R::UnalignRegForLoad four[4]; R::UnalignRegForStore more[4]; });
    FOUND("unalign-order", [&](float* x, float*) {
        R::UnalignRegForStore u;
        R::LoadAlign(r, x);
        float* at = x + 129;
        R::StoreUnAlign(at, r, u, 3);
        at += 7;
        R::StoreUnAlignPost(at, u, 0);
    });
    // Data past the buffer is undefined, and so is a register that was never written.
    for (const bool fault : {false, true}) {
        Found(__LINE__, fault ? "uninit-scalar" : "", [&](float* x, float* last) {
            R::RegTensor<float> own;
            auto few = R::CreateMask<float, R::MaskPattern::VL16>();
            auto all = R::CreateMask<float>();
            R::LoadAlign(r, x);
            R::StoreAlign(last, r, few);
            R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_LOAD>();
            R::LoadAlign(own, last);
            R::Reduce<ReduceType::SUM>(own, own, fault ? all : few);
            R::StoreAlign(x + 64, own, all);
            PipeBarrier<PIPE_ALL>();
            LocalTensor<float> out(autofuse_twin::UbViewAt("test", reinterpret_cast<uint64_t>(x + 64)));
            CHECK(fault || out.GetValue(0) == 16.0f);
            if (fault) (void)out.GetValue(0);
        });
    }
}

}  // namespace

int main() {
    INSIDE(StoreThenLoad);
    INSIDE(StoreThenStore);
    INSIDE(LoadThenStore);
    INSIDE(Iterations);
    OUTSIDE(kLoad, false);
    OUTSIDE(kLoad, true);
    OUTSIDE(kStore, false);
    OUTSIDE(kReuse, true);
    PAIR("two functions", "race", true, 1, TwoFunctions);
    Accesses();
    return check::Failures() == 0 ? 0 : 1;
}
