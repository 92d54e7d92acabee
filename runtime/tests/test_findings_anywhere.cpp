// Rules of memory, queues, flags and calls: a fault in the first, a middle and the last block of a launch is reported,
// before and after the block has given its memory back. test_findings_order.cpp has what the order of accesses decides.
#include "findings_support.h"

#include <stdexcept>

#include "autofuse_device.h"

namespace {

constexpr NdDmaConfig kPlain{};

constexpr Exception kExceptions[] = {
    {"block-dim", "the launch has no blocks, so that none runs"},
    {"gm-overlap", "the launch is refused for its arrays before a block runs"},
};

LocalTensor<uint8_t> Bytes(const F32& t, uint32_t size = kLen * 4) {
    LocalTensor<uint8_t> out = t.ReinterpretCast<uint8_t>();
    out.SetSize(size);
    return out;
}
LocalTensor<int32_t> Ints(const F32& t) { return t.ReinterpretCast<int32_t>(); }

template <uint8_t dim>
void Dims(const F32& dst, const GlobalTensor<float>& src, const uint32_t (&size)[dim], const uint64_t (&from)[dim],
          const uint32_t (&to)[dim]) {
    NdDmaParams<float, dim> p{};
    std::copy(size, size + dim, p.loopInfo.loopSize);
    std::copy(from, from + dim, p.loopInfo.loopSrcStride);
    std::copy(to, to + dim, p.loopInfo.loopDstStride);
    DataCopy<float, dim, kPlain>(dst, src, p);
}

// 16 blocks of either side, one after another.
void Blocks(const F32& dst, const F32& src, uint64_t shift, const TransDataTo5HDParams& params) {
    uint64_t to[16];
    uint64_t from[16];
    for (uint32_t i = 0; i < 16; ++i) {
        to[i] = reinterpret_cast<uint64_t>(dst[i * kUnit].GetPhyAddr());
        from[i] = reinterpret_cast<uint64_t>(src[i * kUnit].GetPhyAddr());
    }
    to[15] += shift;
    TransDataTo5HD<float>(to, from, params);
}

void Operands() {
    CASE("ub-oob", kAny, r.Fill(); Abs(r.t, r.s, f ? 257 : 256));
    CASE("ub-oob", kAny, r.Fill(); Abs(r.t, r.s, uint64_t{64}, f ? 5 : 4, UnaryRepeatParams{1, 1, 8, 8}));
    CASE("ub-oob", kAny, r.t.SetValue(f ? kLen : kLen - 1, 1.0f));
    CASE("ub-oob", kAny, r.Fill(); (void)r.t.GetValue(f ? kLen : kLen - 1));
    CASE("ub-oob", kAny, DataCopyPad(r.x, r.X(), Row(f ? kLen + 1 : kLen), NoPad()));
    CASE("ub-oob", kAny, (void)r.t_buf.Get<float>(f ? kLen + 1 : kLen));
    CASE("ub-oob", kAny, r.Fill(); Blocks(r.t, r.s, 0, {false, false, 1, static_cast<uint16_t>(f ? 17 : 16), 16}));
    CASE("ub-oob", kAny, r.Fill(); Blocks(r.t, r.s, f ? 1u << 20 : 0, {false, false, 1, 16, 16}));
    CASE("ub-align", kAny, r.Fill(); Abs(r.t[f ? 1 : 8], r.s, 8));
    CASE("ub-align", kAny, (void)r.t_buf.GetWithOffset<float>(8, f ? 16 : 32));
    CASE("ub-align", kAny, DataCopy(r.x[f ? 4 : 8], r.X(), 8));
    CASE("ub-align", kAny, r.Fill(); Gather(r.t, r.s, r.o, f ? 2 : 4, 8));
    // The offsets are data: the call fails when it executes, which may be after the last call of the kernel.
    for (const uint32_t at : Ends(8)) {
        for (const bool last : {false, true}) {
            CASE("ub-oob", kAny, r.Fill(); r.o.SetValue(at, f ? kLen * 4 : kLen * 4 - 4); r.Order<HardEvent::S_V>();
                 if (last) r.Store(); Gather(r.t, r.s, r.o, 0, 8));
            CASE("ub-align", kAny, r.Fill(); r.o.SetValue(at, f ? 2u : 4u); r.Order<HardEvent::S_V>();
                 if (last) r.Store(); Gather(r.t, r.s, r.o, 0, 8));
        }
    }
    CASE("ub-null", kAny, r.Fill(); Abs(r.t, f ? F32() : r.s, 8));
    CASE("ub-overlap", kAny, r.Fill(); Abs(r.t[8], f ? r.t : r.s, 16));
    CASE("ub-overlap", kAny, r.Fill(); DataCopy(r.t, f ? r.t[8] : r.s, 16));
    CASE("ub-overlap", kAny, r.Fill(); Adds(r.t, f ? r.t[8] : r.t[128], 1.0f, uint64_t{32}, 2, {1, 1, 8, 8}));
    CASE("ub-overlap", kAny, r.Fill(); Copy(r.t[64], f ? r.t : r.s, uint64_t{64}, 2, {1, 1, 8, 8}));
    CASE("ub-overlap", kAny, r.Fill(); Blocks(f ? r.s : r.t, r.s, 0, {false, false, 2, 1, 1}));
    CASE("cast-mode", kAny, r.Fill();
         Cast(r.t.ReinterpretCast<half>(), r.s, f ? RoundMode::CAST_HYBRID : RoundMode::CAST_RINT, 8));
    CASE("shift-range", kAny, r.Fill(); ShiftLeft(Ints(r.t), Ints(r.s), f ? 33 : 32, 8));
    CASE("cmp-count", kAny, r.Fill(); Compare(Bytes(r.t), r.s, r.x, CMPMODE::LT, f ? 63 : 64));
    CASE("cmp-mode", kAny, r.Fill(); Compare(Bytes(r.t), Ints(r.s), Ints(r.x), f ? CMPMODE::LT : CMPMODE::EQ, 64));
    CASE("select-mode", kAny, r.Fill(); Select(r.t, Bytes(r.x), r.s, r.y,
         f ? SELMODE::VSEL_TENSOR_SCALAR_MODE : SELMODE::VSEL_TENSOR_TENSOR_MODE, 64));
    CASE("tmp-size", kAny, r.Fill(); Tanh(r.t, r.s, Bytes(r.x, f ? 255 : 256), 64));
    CASE("tmp-size", kAny, r.Fill(); r.x.SetSize(f ? 8 : 64); ReduceMax(r.t, r.s, r.x, 256, true));
    CASE("mask-range", kAny, r.Fill(); Abs(r.t, r.s, uint64_t{f ? 65u : 64u}, 1, UnaryRepeatParams{}));
    CASE("mask-range", kAny, r.Fill(); const uint64_t mask[2] = {1, f ? 1u : 0u};
         Abs(r.t, r.s, mask, 1, UnaryRepeatParams{}));
    CASE("mask-range", kAny, r.Fill(); uint64_t n = 0;
         GatherMask(r.t, r.s, f ? 8 : 7, false, 0, GatherMaskParams{1, 1, 8, 0}, n));
    CASE("repeat-params", kAny, r.Fill(); const uint8_t blk = f ? 0 : 1;
         Abs(r.t, r.s, uint64_t{64}, 1, UnaryRepeatParams{blk, 1, 8, 8}));
    CASE("repeat-params", kAny, r.Fill(); const uint16_t rep = f ? 4096 : 4095;
         Copy(r.t, r.s, uint64_t{64}, 1, {1, 1, rep, 8}));
    CASE("repeat-params", kAny, r.Fill(); WholeReduceSum(r.t, r.s, 8, f ? 256 : 255, 0, 1, 0));
    CASE("repeat-params", kAny, r.Fill(); const uint8_t blk = f ? 0 : 1; Brcb(r.t, r.s, 1, {blk, 8}));
    CASE("count-range", kAny, r.Fill(); Abs(r.t, r.s, f ? -1 : 1));
    CASE("count-range", kChecked, DataCopy(r.x, r.X(), f ? 0 : 8));
    CASE("count-range", kChecked, r.Fill(); Silu(r.t, r.s, f ? 0 : 8));
    CASE("count-range", kChecked | kOwn, r.Fill(); Abs(r.t, r.s, f ? 0 : 8));
    CASE("index-range", kChecked, (void)autofuse::IndexIn(f ? kLen : kLen - 1, kLen));
    CASE("index-range", kChecked, (void)autofuse::IndexIn(f ? -int64_t{kLen} - 1 : -int64_t{kLen}, kLen));
    // The templates accept no such types.
    CASE("dtype", kAny, const auto dt = f ? autofuse_twin::Dt::U64 : autofuse_twin::Dt::F32; r.Fill();
         autofuse_twin::Elementwise({autofuse_twin::Op::Exp, dt, dt, &r.t.View(), &r.s.View(), nullptr, 0, 8, nullptr}));
}

void Arrays950() {
    CASE("dma-params", kAny, NdDmaDci(); Dims<1>(r.x, r.X(), {f ? 0u : 8u}, {1}, {1}));
    CASE("dma-params", kAny, NdDmaDci(); Dims<2>(r.x, r.X(), {8, 1}, {1, uint64_t{f ? 1u : 0u} << 40}, {1, 8}));
    CASE("dma-params", kAny, NdDmaDci(); Dims<2>(r.x, r.X(), {8, 1}, {1, 8}, {1, f ? 1u << 20 : 8u}));
    CASE("dma-overlap", kAny, NdDmaDci(); Dims<2>(r.x, r.X(), {8, 4}, {1, 8}, {1, f ? 7u : 8u}));
    CASE("dma-cache", kChecked, if (!f) NdDmaDci(); Dims<1>(r.x, r.X(), {8}, {1}, {1}));
    CASE("dma-cache", kChecked, NdDmaDci(); Dims<1>(r.x, r.X(), {8}, {1}, {1}); if (!f) NdDmaDci();
         Dims<1>(r.x[8], r.X(), {8}, {1}, {1}));
    CASE("call-missing", kAny | kOwn, if (f) NdDmaDci());
    CASE("control-value", kAny, SetCtrlSpr<48, 48>(f ? 2 : 1));
    CASE("control-bits", kAny, SetCtrlSpr<48, 48>(f ? 0 : 1));
    CASE("control-bits", kAny, SetCtrlSpr<53, 53>(f ? 1 : 0));
    CASE("control-bits", kAny, SetCtrlSpr<60, 60>(f ? 0 : 1));
}

void Copies() {
    CASE("dma-params", kAny, DataCopyPad(r.x, r.X(), DataCopyExtParams{1, f ? 6u : 8u, 0, 0, 0}, NoPad()));
    CASE("dma-params", kAny, const uint16_t count = f ? 4096 : 4095;
         DataCopyPad(r.x, r.X(), DataCopyExtParams{count, 0, 0, 0, 0}, NoPad()));
    CASE("dma-params", kAny, DataCopyPad(r.x, r.X(), DataCopyExtParams{0, f ? 2097152u : 2097148u, 0, 0, 0}, NoPad()));
    CASE("dma-params", kAny, const uint8_t left = f ? 9 : 8;
         DataCopyPad(r.x, r.X(), Row(1), DataCopyPadExtParams<float>{true, left, 0, 0.0f}));
    CASE("dma-params", kAny, r.Fill(); DataCopyPad(r.V(), r.y, DataCopyExtParams{1, f ? 6u : 8u, 0, 0, 0}));
    CASE("dma-position", kChecked, DataCopyPad(f ? r.t : r.x, r.X(), Row(8), NoPad()));
    CASE("dma-position", kChecked, r.Fill(); DataCopyPad(r.V(), f ? r.t : r.y, Row(8)));
    CASE("copy-count", kChecked, DataCopy(r.x, r.X(), f ? 12 : 8));
    CASE("copy-count", kChecked, r.Fill(); DataCopy(r.t, r.s, f ? 12 : 8));
    CASE("atomic-type", kAny, r.Fill(); if (f) SetAtomicAdd<int32_t>(); DataCopy(r.V(), r.y, 8));
    CASE("atomic-mode", kAny, SetAtomicAdd<float>(); if (!f) SetAtomicNone());
    CASE("gm-oob", kAny, DataCopyPad(r.x, Global(r.gm.x, r.gm.x.size() - (f ? kLen - 1 : kLen)), Row(kLen), NoPad()));
    CASE("gm-oob", kAny, r.Fill(); DataCopyPad(Global(r.gm.v, f ? r.gm.v.size() - 1 : uint64_t{r.me} * kLen), r.y, Row(2)));
    CASE("gm-oob", kAny, (void)Global(r.gm.x).GetValue(f ? kCores * kLen : kCores * kLen - 1));
    CASE("gm-oob", kAny, std::vector<float> own(8); DataCopy(r.x, f ? Global(own) : r.X(), 8));
    CASE("gm-readonly", kAny, r.Fill(); DataCopyPad(f ? r.X() : r.V(), r.y, Row(8)));
    CASE("gm-readonly", kAny, (f ? r.X() : r.V()).SetValue(kLen - 1, 1.0f));
    CASE("gm-null", kAny, DataCopy(r.x, f ? GlobalTensor<float>() : r.X(), 8));
    CASE("gm-align", kAny, GlobalTensor<float> g; const uintptr_t at = reinterpret_cast<uintptr_t>(r.gm.x.data());
         g.SetGlobalBuffer(reinterpret_cast<float*>(at + (f ? 2 : 4))));
}

void Pipes() {
    CASE("ub-capacity", kAny, TBuf<> more; r.pipe->InitBuffer(more, f ? 188160 : 32));
    CASE("ub-capacity", kAny, TBuf<> more; r.pipe->InitBuffer(more, f ? 0 : 32));
    CASE("buf-limit", kAny, for (int i = 0; i < (f ? 64 : 8); ++i) { TBuf<> more; r.pipe->InitBuffer(more, 32); });
    CASE("que-buf-limit", kAny, TQue<TPosition::VECOUT, 1> more; r.pipe->InitBuffer(more, f ? 7 : 6, 32));
    CASE("que-buf-limit", kAny, TQue<TPosition::VECIN, 1> more; r.pipe->InitBuffer(more, f ? 0 : 1, 32));
    CASE("buf-uninit", kAny, TBuf<> none; (void)(f ? none : r.t_buf).Get<float>());
    CASE("pipe-missing", kAny, if (f) r.pipe.reset(); (void)GetTPipePtr());
    CASE("pipe-second", kAny, std::optional<TPipe> second; if (f) second.emplace());
    CASE("event-ids", kAny, for (int i = 0; i < (f ? 9 : 8); ++i) (void)r.pipe->AllocEventID<HardEvent::V_S>());
    CASE("event-ids", kAny, const auto id = r.pipe->AllocEventID<HardEvent::V_S>();
         r.pipe->ReleaseEventID<HardEvent::V_S>(id); if (f) r.pipe->ReleaseEventID<HardEvent::V_S>(id));
    CASE("flag-id", kAny, const int id = f ? 8 : 7; SetFlag<HardEvent::S_V>(id); WaitFlag<HardEvent::S_V>(id));
    CASE("flag-id", kAny, SetFlag<HardEvent::S_V>(0); WaitFlag<HardEvent::S_V>(f ? -1 : 0));
    for (const int32_t id : {0, 7}) {
        CASE("flag-set", kAny, SetFlag<HardEvent::V_S>(id); if (f) SetFlag<HardEvent::V_S>(id);
             WaitFlag<HardEvent::V_S>(id));
        CASE("flag-wait", kAny, SetFlag<HardEvent::V_S>(id); WaitFlag<HardEvent::V_S>(id);
             if (f) WaitFlag<HardEvent::V_S>(id));
        CASE("flag-leak", kAny, SetFlag<HardEvent::V_S>(id); if (!f) WaitFlag<HardEvent::V_S>(id));
        CASE("flag-leak", kAny, SetFlag<HardEvent::FIX_FIX>(id); if (!f) WaitFlag<HardEvent::FIX_FIX>(id));
    }
    CASE("mask-mode", kAny, r.Store(); SetMaskCount(); if (!f) SetMaskNorm());
    CASE("kernel-exception", kAny, if (f) throw std::runtime_error("of the kernel"));
    CASE("kernel-exception", kAny, if (f) throw 1);
}

// Two tensors of a queue of two blocks; `which` of them has the fault.
void Queues() {
    CASE("que-no-free", kAny, F32 a = r.in.AllocTensor<float>(); F32 b = r.in.AllocTensor<float>();
         if (f) (void)r.in.AllocTensor<float>(); r.in.FreeTensor(a); r.in.FreeTensor(b));
    CASE("que-depth", kAny, F32 a = r.bound.AllocTensor<float>(); F32 b = r.bound.AllocTensor<float>(); r.bound.EnQue(a);
         if (f) r.bound.EnQue(b); a = r.bound.DeQue<float>(); r.bound.FreeTensor(a); r.bound.FreeTensor(b));
    CASE("que-foreign", kAny, F32 a = r.in.AllocTensor<float>(); if (f) r.out.FreeTensor(a); r.in.FreeTensor(a));
    CASE("que-foreign", kAny, F32 a = r.in.AllocTensor<float>(); if (f) r.in.FreeTensor(r.x); r.in.FreeTensor(a));
    CASE("que-uninit", kAny, TQue<TPosition::VECIN, 1> none; if (!f) r.pipe->InitBuffer(none, 1, 32);
         F32 a = none.AllocTensor<float>(); none.FreeTensor(a));
    CASE("que-uninit", kAny, r.pipe->Reset(); if (!f) r.Init(); F32 a = r.in.AllocTensor<float>(); r.in.FreeTensor(a));
    CASE("que-state", kAny, F32 a = r.in.AllocTensor<float>(); if (!f) r.in.EnQue(a);
         a = r.in.DeQue<float>(); r.in.FreeTensor(a));
    for (const int which : {0, 1}) {
        const auto pair = [=](Room& r, const std::function<void(F32& a)>& body) {
            F32 a[2] = {r.in.AllocTensor<float>(), r.in.AllocTensor<float>()};
            body(a[which]);
            r.in.FreeTensor(a[1 - which]);
        };
        CASE("que-leak", kAny, pair(r, [&](F32& a) { if (!f) r.in.FreeTensor(a); }));
        CASE("que-leak", kAny, pair(r, [&](F32& a) { if (!f) r.in.FreeTensor(a); }); r.Again());
        CASE("que-leak", kAny, pair(r, [&](F32& a) {
            r.in.EnQue(a);
            if (!f) a = r.in.DeQue<float>(), r.in.FreeTensor(a);
        }));
        CASE("que-state", kAny, pair(r, [&](F32& a) { r.in.FreeTensor(a); if (f) r.in.FreeTensor(a); }));
        CASE("que-state", kAny, pair(r, [&](F32& a) { r.in.FreeTensor(a); if (f) r.in.EnQue(a); }));
        CASE("que-state", kAny, pair(r, [&](F32& a) {
            r.in.EnQue(a);
            if (f) r.in.EnQue(a);
            a = r.in.DeQue<float>();
            r.in.FreeTensor(a);
        }));
        CASE("que-state", kAny, pair(r, [&](F32& a) {
            r.in.EnQue(a);
            if (!f) a = r.in.DeQue<float>();
            r.in.FreeTensor(a);
        }));
        // The block was given out again.
        CASE("que-state", kAny, pair(r, [&](F32& a) {
            r.in.FreeTensor(a);
            F32 b = r.in.AllocTensor<float>();
            r.in.FreeTensor(f ? a : b);
        }));
        CASE("que-state", kAny, pair(r, [&](F32& a) {
            r.in.FreeTensor(a);
            F32 b = r.in.AllocTensor<float>();
            r.in.EnQue(f ? a : b);
            b = r.in.DeQue<float>();
            r.in.FreeTensor(b);
        }));
    }
    // A tensor, and a queue, from before the memory was given back.
    for (const bool reset : {true, false}) {
        const auto again = [=](Room& r) { reset ? r.Again() : (r.pipe.reset(), r.Open()); };
        CASE("que-state", kAny, F32 a = r.in.AllocTensor<float>(); r.in.FreeTensor(a); again(r);
             F32 b = r.in.AllocTensor<float>(); r.in.FreeTensor(f ? a : b));
        CASE("que-uninit", kAny, auto in = r.in; again(r); F32 a = (f ? in : r.in).AllocTensor<float>(); r.in.FreeTensor(a));
    }
}

void Meetings() {
    CASE_NAMES(kOthers, "sync-all", kAny, if (!f) SyncAll());
    CASE_NAMES(kOthers, "sync-all", kAny, SyncAll(); if (!f) SyncAll());
    CASE_NAMES(kOthers, "sync-all", kAny, if (!f) SyncAll(Global(r.gm.meet), Ints(r.t)));
    CASE_NAMES(kMeets, "sync-cores", kAny, SyncAll(Global(r.gm.meet), Ints(r.t), f ? kCores - 1 : kCores));
    CASE("sync-type", kAny | kOwn, KERNEL_TASK_TYPE_DEFAULT(f ? KERNEL_TYPE_AIV_ONLY : KERNEL_TYPE_MIX_AIV_1_0));
    CASE_NAMES(kMeets, "sync-type", kAny, KERNEL_TASK_TYPE_DEFAULT(f ? KERNEL_TYPE_AIV_ONLY : KERNEL_TYPE_MIX_AIV_1_0);
               SyncAll());
    CASE_NAMES(kMeets, "sync-workspace", kAny, GlobalTensor<int32_t> g;
               g.SetGlobalBuffer(r.gm.meet.data(), f ? kMarks - 1 : kMarks); SyncAll(g, Ints(r.t)));
    for (uint32_t i = 0; i < 3; ++i) {
        CASE("sync-workspace", kAny, SyncAll(f ? Global(r.gm.odd, i * kMarks) : Global(r.gm.meet), Ints(r.t)));
        CASE("sync-workspace", kChecked, SyncAll(Global(r.gm.meet), Ints(r.t));
             if (f) (void)Global(r.gm.meet).GetValue(8 * Ends(kCores)[i] + 7));
    }
}

}  // namespace

int main() {
    Operands();
    Arrays950();
    Copies();
    Pipes();
    Queues();
    Meetings();
    RunAll(__FILE__);
    for (const Exception& e : kExceptions) {
        CHECK(std::none_of(Cases().begin(), Cases().end(), [&](const Case& c) { return std::strcmp(c.code, e.code) == 0; }));
    }
    return check::Failures() != 0;
}
