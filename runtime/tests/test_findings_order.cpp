// Order of accesses, and contents of memory: a fault in the first, a middle and the last 32 bytes of a tensor, and in the
// first, a middle and the last block of a launch, is reported, before and after the block has given its memory back.
#include "findings_support.h"

namespace {

using P = TPosition;
constexpr R::MaskPattern kEight = R::MaskPattern::VL8;

// One access to `n` floats of a tensor, which may end inside a unit, and one to a single unit of it.
void Span(uint32_t n, uint32_t unit) {
    const uint32_t at = unit * kUnit;
    const int32_t all = static_cast<int32_t>(n);
    // Between pipes, the tensor last.
    CASE("race", kChecked, r.Fill(); Duplicate(r.y[at], 2.0f, 8); if (!f) r.Order<HardEvent::V_MTE3>();
         DataCopyPad(r.V(), r.y, Row(n)));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y[at], Row(8)); if (!f) r.Order<HardEvent::MTE3_V>();
         Duplicate(r.y, 2.0f, all));
    CASE("race", kChecked, r.Fill(); Duplicate(r.x[at], 2.0f, 8); if (!f) r.Order<HardEvent::V_MTE2>();
         DataCopyPad(r.x, r.X(), Row(n), NoPad()));
    CASE("race", kChecked, r.Fill(); Abs(r.t, r.x[at], 8); if (!f) r.Order<HardEvent::V_MTE2>();
         DataCopyPad(r.x, r.X(), Row(n), NoPad()));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.x[at], r.X(), Row(8), NoPad());
         if (!f) r.Order<HardEvent::MTE2_V>(); Abs(r.t, r.x, all));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.x[at], r.X(), Row(8), NoPad());
         if (!f) r.Order<HardEvent::MTE2_MTE3>(); DataCopyPad(r.V(), r.x, Row(n)));
    CASE("race", kChecked, r.Fill(); r.t.SetValue(at, 2.0f); if (!f) r.Order<HardEvent::S_V>(); Abs(r.s, r.t, all));
    // The tensor first.
    CASE("race", kChecked, r.Fill(); Duplicate(r.y, 2.0f, all); if (!f) r.Order<HardEvent::V_MTE3>();
         DataCopyPad(r.V(), r.y[at], Row(1)));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y, Row(n)); if (!f) r.Order<HardEvent::MTE3_V>();
         Duplicate(r.y[at], 2.0f, 1));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.x, r.X(), Row(n), NoPad()); if (!f) r.Order<HardEvent::MTE2_S>();
         (void)r.x.GetValue(at));
    CASE("race", kChecked, r.Fill(); Abs(r.s, r.t, all); if (!f) r.Order<HardEvent::V_S>(); r.t.SetValue(at, 2.0f));
    // On one pipe.
    CASE("race", kChecked, r.Fill(); Duplicate(r.t[at], 2.0f, 8); if (!f) PipeBarrier<PIPE_V>(); Abs(r.s, r.t, all));
    CASE("race", kChecked, r.Fill(); Abs(r.s, r.t[at], 8); if (!f) PipeBarrier<PIPE_V>(); Duplicate(r.t, 2.0f, all));
    CASE("race", kChecked, r.Fill(); Duplicate(r.t[at], 2.0f, 8); if (!f) PipeBarrier<PIPE_V>(); Duplicate(r.t, 3.0f, all));
    CASE("race", kChecked, r.Fill(); DataCopyPad(r.x[at], r.X(), Row(8), NoPad()); if (!f) PipeBarrier<PIPE_MTE2>();
         DataCopyPad(r.x, r.X(), Row(n), NoPad()));
}
void Spans() {
    for (const uint32_t unit : Ends(kUnits)) {
        Span(kLen, unit);
    }
    Span(kLen - 7, kUnits - 1);
}

// Rows with gaps: the other access is to a row, or else to the gap behind it.
void Rows() {
    for (const uint32_t row : Ends(kUnits / 2)) {
        const uint32_t at = row * 2 * kUnit;
        CASE("race", kChecked, r.Fill(); Duplicate(r.x[at + (f ? 0 : kUnit)], 2.0f, 8);
             DataCopyPad(r.x, r.X(), DataCopyExtParams{kUnits / 2, 32, 0, 1, 0}, NoPad()));
        CASE("race", kChecked, r.Fill(); Duplicate(r.y[at + (f ? 0 : kUnit)], 2.0f, 8);
             DataCopyPad(r.V(), r.y, DataCopyExtParams{kUnits / 2, 32, 1, 0, 0}));
        CASE("race", kChecked, r.Fill(); Duplicate(r.t[at + (f ? 0 : kUnit)], 2.0f, 8);
             Abs(r.s, r.t, uint64_t{64}, 2, UnaryRepeatParams{1, 2, 8, 16}));
        CASE("race", kChecked, r.Fill(); Duplicate(r.t[at + (f ? 0 : kUnit)], 2.0f, 8);
             Abs(r.t, r.s, uint64_t{64}, 2, UnaryRepeatParams{2, 1, 16, 8}));
        CASE("race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y, DataCopyExtParams{kUnits / 2, 32, 0, 32, 0});
             DataCopyPad(r.V()[at + (f ? 0 : kUnit)], r.y, Row(8)));
    }
}

// Queues order what passes through them; here something does not.
void Passed() {
    CASE("race", kChecked, F32 a = r.in.AllocTensor<float>(); DataCopyPad(a, r.X(), Row(kLen), NoPad());
         if (!f) r.in.EnQue(a), a = r.in.DeQue<float>(); Abs(r.t, a, kLen); r.in.FreeTensor(a));
    CASE("race", kChecked, F32 a = r.out.AllocTensor<float>(); Duplicate(a, 2.0f, kLen);
         if (!f) r.out.EnQue(a), a = r.out.DeQue<float>(); DataCopyPad(r.V(), a, Row(kLen)); r.out.FreeTensor(a));
    CASE("race", kChecked, F32 a = r.bound.AllocTensor<float>(); DataCopyPad(a, r.X(), Row(kLen), NoPad());
         if (f) r.bound.EnQue(a); else r.bound.EnQue<P::GM, P::VECIN, float>(a);
         a = f ? r.bound.DeQue<float>() : r.bound.DeQue<P::GM, P::VECIN, float>(); Abs(r.t, a, kLen); r.bound.FreeTensor(a));
}

// GM: of one block between its pipes, and of two blocks.
void Shared() {
    for (const uint32_t unit : Ends(kUnits)) {
        const uint32_t at = unit * kUnit;
        CASE("race", kChecked, r.Fill(); DataCopyPad(r.W(), r.y, Row(kLen)); PipeBarrier<PIPE_ALL>();
             DataCopyPad(r.W()[at], r.y, Row(8)); if (!f) r.Order<HardEvent::MTE3_MTE2>();
             DataCopyPad(r.x, r.W(), Row(kLen), NoPad()));
        CASE("race", kChecked, r.Fill(); DataCopyPad(r.x, r.V(), Row(kLen), NoPad());
             if (!f) r.Order<HardEvent::MTE2_MTE3>(); DataCopyPad(r.V()[at], r.y, Row(8)));
        CASE("race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y, Row(kLen)); if (!f) PipeBarrier<PIPE_MTE3>();
             DataCopyPad(r.V()[at], r.y[at], Row(8)));
        CASE("race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y, Row(kLen)); if (!f) r.Order<HardEvent::MTE3_S>();
             (void)r.V().GetValue(at));
        CASE_NAMES(kPair, "race", kChecked, r.Fill(); DataCopyPad(r.V(), r.y, Row(kLen)); PipeBarrier<PIPE_ALL>();
                   if (f) DataCopyPad(Global(r.gm.v, r.Next() + at), r.y, Row(1)));
        CASE_NAMES(kReads, "race", kChecked, r.Fill();
                   if (f) DataCopyPad(r.x, Global(r.gm.w, r.Next() + at), Row(1), NoPad());
                   DataCopyPad(r.W(), r.y, Row(kLen)); SyncAll();
                   DataCopyPad(r.x[at], Global(r.gm.w, r.Next() + at), Row(1), NoPad()));
        CASE("gm-twice", kChecked, r.Store(); const auto bytes = r.y.ReinterpretCast<uint8_t>();
             if (f) DataCopyPad(r.Y().ReinterpretCast<uint8_t>()[4 * at + 31], bytes, DataCopyExtParams{1, 1, 0, 0, 0}));
        CASE("gm-twice", kChecked, r.Store(); SyncAll(); if (f) r.Y().SetValue(at + 7, 2.0f));
        CASE_NAMES(kNobody, "gm-unwritten", kChecked, r.Fill(); r.Store(f ? unit : kUnits));
        CASE("gm-uninit", kChecked, r.Fill(); DataCopyPad(r.W(), r.y, Row(at));
             DataCopyPad(r.W()[at + 1], r.y, Row(kLen - at - 1));
             if (!f) DataCopyPad(r.W()[at], r.y, Row(1)); PipeBarrier<PIPE_ALL>();
             DataCopyPad(r.x, r.W(), Row(kLen), NoPad()));
    }
}

// Memory without a value, except for that a queue's block loses its values when it is allocated.
void Undefined() {
    for (const uint32_t unit : Ends(kUnits)) {
        for (const uint32_t lane : {0u, 7u}) {
            const uint32_t at = unit * kUnit + lane;
            const auto fill = [=](const F32& a, bool f) {  // `f`: not from this lane of the unit on
                for (uint32_t i = 0; i < kUnits; ++i) {
                    Duplicate(a[i * kUnit], 2.0f, i == unit && f ? static_cast<int32_t>(lane) : 8);
                }
                PipeBarrier<PIPE_V>();
            };
            CASE("uninit-store", kChecked, F32 a = r.out.AllocTensor<float>(); fill(a, f); r.out.EnQue(a);
                 a = r.out.DeQue<float>(); DataCopyPad(r.V(), a, Row(at + 1)); r.out.FreeTensor(a));
            CASE("uninit-store", kChecked, F32 a = r.out.AllocTensor<float>(); fill(a, f); Adds(r.y, a, 1.0f, kLen);
                 r.out.FreeTensor(a); PipeBarrier<PIPE_ALL>(); DataCopyPad(r.V(), r.y, Row(at + 1)));
            CASE("uninit-scalar", kChecked, F32 a = r.out.AllocTensor<float>(); fill(a, f); r.Order<HardEvent::V_S>();
                 (void)a.GetValue(at); r.out.FreeTensor(a));
            CASE("uninit-store", kChecked, TBuf<P::VECOUT> more; r.pipe->InitBuffer(more, kLen * 4);
                 fill(more.Get<float>(), f); r.Order<HardEvent::V_MTE3>();
                 DataCopyPad(r.V(), more.Get<float>(), Row(at + 1)));
        }
    }
    // A single byte at the end.
    CASE("uninit-store", kChecked, auto a = r.out.AllocTensor<uint8_t>();
         const DataCopyPadExtParams<uint8_t> none{false, 0, 0, 0};
         DataCopyPad(a, r.X().ReinterpretCast<uint8_t>(), DataCopyExtParams{1, 4 * kLen - (f ? 1 : 0), 0, 0, 0}, none);
         r.Order<HardEvent::MTE2_MTE3>(); DataCopyPad(r.V(), a.ReinterpretCast<float>(), Row(kLen)); r.out.FreeTensor(a));
}

// Tensors that a block has given back, or passed on.
void GivenBack() {
    for (const int which : {0, 1}) {
        // The tensor that is used is the first, or the second one of the queue.
        const auto one = [=](Room& r) {
            F32 a = r.out.AllocTensor<float>();
            if (which == 1) {
                r.out.FreeTensor(a);
                a = r.out.AllocTensor<float>();
            }
            return a;
        };
        CASE("ub-freed", kChecked, r.Fill(); F32 a = one(r); r.out.FreeTensor(a); if (f) Duplicate(a, 2.0f, 8));
        CASE("ub-freed", kChecked, r.Fill(); F32 a = one(r); Duplicate(a, 2.0f, 8); if (f) r.out.FreeTensor(a);
             PipeBarrier<PIPE_V>(); Abs(r.t, a, 8); if (!f) r.out.FreeTensor(a));
        CASE("ub-state", kChecked, r.Fill(); F32 a = one(r); r.out.EnQue(a); if (f) Duplicate(a, 2.0f, 8);
             a = r.out.DeQue<float>(); if (!f) Duplicate(a, 2.0f, 8); r.out.FreeTensor(a));
        // The block was given out again: to a tensor that is allocated, waits in the queue, or was taken.
        for (const int state : {0, 1, 2}) {
            CASE("ub-freed", kChecked, r.Fill(); F32 a = one(r); r.out.FreeTensor(a); F32 b = one(r);
                 if (b.GetPhyAddr() != a.GetPhyAddr()) { r.out.FreeTensor(b); b = r.out.AllocTensor<float>(); }
                 const auto use = [&](int now) { if (now == state) Duplicate(f ? a : r.t, 2.0f, 8); };
                 use(0); r.out.EnQue(b); use(1); b = r.out.DeQue<float>(); use(2); r.out.FreeTensor(b));
        }
    }
    // A tensor from before the memory was given back: of a queue, whose block is free or has another tensor; of a TBuf.
    for (const bool reset : {true, false}) {
        const auto again = [=](Room& r) { reset ? r.Again() : (r.pipe.reset(), r.Open()); };
        CASE("ub-freed", kChecked, F32 a = r.in.AllocTensor<float>(); r.in.FreeTensor(a); again(r);
             Duplicate(f ? a : r.t, 2.0f, 8));
        CASE("ub-freed", kChecked, F32 a = r.in.AllocTensor<float>(); r.in.FreeTensor(a); again(r);
             F32 b = r.in.AllocTensor<float>(); Duplicate(f ? a : b, 2.0f, 8); r.in.FreeTensor(b));
        CASE("ub-freed", kChecked, const F32 old = r.t; again(r); Duplicate(f ? old : r.t, 2.0f, 8));
        CASE("ub-freed", kChecked, auto buf = r.t_buf; again(r); Duplicate((f ? buf : r.t_buf).Get<float>(), 2.0f, 8));
        CASE("ub-freed", kChecked, const F32 old = r.y; again(r); r.Fill(); DataCopyPad(r.V(), f ? old : r.y, Row(8)));
    }
}

// Vector functions.
void Registers() {
    for (const uint32_t unit : Ends(8)) {
        const uint32_t at = unit * kUnit;
        CASE("vf-order", kChecked, r.Fill(); float* t = r.t.GetPhyAddr(); float* s = r.s.GetPhyAddr(); R::RegTensor<float> a;
             auto few = R::CreateMask<float, kEight>(); R::LoadAlign(a, s); R::StoreAlign(t + at, a, few);
             if (!f) R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_LOAD>(); R::LoadAlign(a, t));
        CASE("vf-order", kChecked, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::RegTensor<float> b;
             auto few = R::CreateMask<float, kEight>(); R::Duplicate(b, 7.0f); R::LoadAlign(a, t);
             if (!f) R::LocalMemBar<R::MemType::VEC_LOAD, R::MemType::VEC_STORE>(); R::StoreAlign(t + at, b, few));
        CASE("vf-order", kChecked, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::RegTensor<float> b;
             auto all = R::CreateMask<float>(); auto few = R::CreateMask<float, kEight>(); R::Duplicate(a, 7.0f);
             R::Duplicate(b, 8.0f); R::StoreAlign(t, a, all);
             if (!f) R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_STORE>(); R::StoreAlign(t + at, b, few));
        // The function and a pipe; it may be the last call of the kernel.
        for (const bool last : {false, true}) {
            CASE("race", kChecked, r.Fill(); if (last) r.Store(); float* x = r.x.GetPhyAddr(); R::RegTensor<float> a;
                 DataCopyPad(r.x[at], r.X(), Row(8), NoPad()); if (!f) r.Order<HardEvent::MTE2_V>(); R::LoadAlign(a, x));
        }
        CASE("race", kChecked, r.Fill(); float* y = r.y.GetPhyAddr(); R::RegTensor<float> a;
             auto all = R::CreateMask<float>(); R::Duplicate(a, 7.0f); R::StoreAlign(y, a, all);
             if (!f) r.Order<HardEvent::V_MTE3>(); DataCopyPad(r.V(), r.y[at], Row(8)));
    }
    for (const bool last : {false, true}) {
        // Indices are data: the call fails when it executes.
        CASE("ub-oob", kAny, r.Fill(); if (last) r.Store(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a;
             R::RegTensor<uint32_t> index; auto all = R::CreateMask<float>(); R::Duplicate(index, f ? kLen : kLen - 1);
             R::Gather(a, t, index, all); R::StoreAlign(t, a, all));
        CASE("ub-align", kAny, r.Fill(); if (last) r.Store(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a;
             R::RegTensor<uint32_t> index; auto all = R::CreateMask<float>(); R::Duplicate(index, f ? 16u : 32u);
             R::GatherB(a, t, index, all); R::StoreAlign(t, a, all));
        CASE("index-range", kAny, r.Fill(); if (last) r.Store(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a;
             R::RegTensor<uint32_t> index; auto all = R::CreateMask<float>(); R::Duplicate(index, f ? 64u : 63u);
             R::LoadAlign(a, t); R::Gather(a, a, index); R::StoreAlign(t, a, all));
    }
    CASE("ub-oob", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; auto all = R::CreateMask<float>();
         R::Duplicate(a, 7.0f); R::StoreAlign(t + kLen - (f ? 56 : 64), a, all));
    CASE("ub-oob", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; auto all = R::CreateMask<float>();
         R::Duplicate(a, 7.0f); R::StoreAlign(t + (f ? 20000 : 0), a, all));
    CASE("ub-oob", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a;
         R::LoadAlign(a, t + (f ? 188160 / 4 : 0)));
    CASE("ub-align", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::LoadAlign(a, t + (f ? 4 : 8)));
    CASE("count-range", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::Duplicate(a, 7.0f);
         R::Store(t, a, f ? 65 : 64));
    CASE("unalign-order", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::UnalignRegForLoad u;
         if (!f) R::LoadUnAlignPre(u, t); R::LoadUnAlign(a, u, t));
    CASE("unalign-order", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::UnalignRegForStore u;
         R::Duplicate(a, 7.0f); R::StoreUnAlign(t, a, u, 3); if (f) ++t; R::StoreUnAlign(t, a, u, 3);
         R::StoreUnAlignPost(t, u, 0));
    CASE("unalign-order", kAny, r.Fill(); float* t = r.t.GetPhyAddr(); R::RegTensor<float> a; R::UnalignRegForStore u;
         R::Duplicate(a, 7.0f); R::StoreUnAlign(t, a, u, 3); if (f) ++t; R::StoreUnAlignPost(t, u, 0));
    CASE("reg-streams", kChecked, R::UnalignRegForLoad four[4]; std::optional<R::UnalignRegForLoad> more;
         if (f) more.emplace());
    CASE("reg-streams", kChecked, r.Fill(); float* t = r.t.GetPhyAddr(); R::UnalignRegForLoad four[4]; R::RegTensor<float> a;
         if (f) R::Load(a, t));
    CASE("reg-streams", kChecked, r.Fill(); float* t = r.t.GetPhyAddr(); R::UnalignRegForStore four[4];
         R::RegTensor<float> a; R::Duplicate(a, 7.0f); if (f) R::Store(t, a));
    CASE("reg-streams", kChecked, R::UnalignRegForStore four[4]; std::optional<R::UnalignRegForStore> more;
         if (f) more.emplace());
}

}  // namespace

int main() {
    Spans();
    Rows();
    Passed();
    Shared();
    Undefined();
    GivenBack();
    Registers();
    RunAll(__FILE__);
    return check::Failures() != 0;
}
