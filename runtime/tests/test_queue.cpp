// Queue protocol, buffer limits, event ids and flags.
#include "kernel_support.h"

using namespace AscendC;

namespace {

template <int32_t depth = 1> struct Fixture {
    explicit Fixture(uint8_t num = 2) { pipe.InitBuffer(que, num, 256); }
    TPipe pipe;
    TQue<TPosition::VECIN, depth> que;
};

void Protocol() {
    EXPECT_CLEAN(2, [] {
        Fixture<> f;
        for (int i = 0; i < 5; ++i) {
            auto t = f.que.AllocTensor<float>();
            CHECK_EQ(t.GetSize(), 64u);
            CHECK(t.GetPosition() == static_cast<int32_t>(TPosition::VECIN));
            t.SetValue(0, static_cast<float>(i));
            CHECK(!f.que.HasTensorInQue() && f.que.VacantInQue() && f.que.HasIdleBuffer());
            f.que.EnQue(t);
            CHECK(f.que.GetTensorCountInQue() == 1 && !f.que.VacantInQue());
            auto u = f.que.DeQue<float>();
            CHECK(u.GetValue(0) == static_cast<float>(i));
            f.que.FreeTensor(u);
        }
    });
    // First in, first out; two blocks rotate.
    EXPECT_CLEAN(1, [] {
        Fixture<2> f;
        auto a = f.que.AllocTensor<float>();
        auto b = f.que.AllocTensor<float>();
        CHECK(a.GetPhyAddr() != b.GetPhyAddr() && !f.que.HasIdleBuffer());
        f.que.EnQue(b);
        f.que.EnQue(a);
        auto c = f.que.DeQue<float>();
        CHECK(c.GetPhyAddr() == b.GetPhyAddr());
        auto d = f.que.DeQue<float>();
        f.que.FreeTensor(c);
        f.que.FreeTensor(d);
    });
    // In-place interface of a queue of depth 0, and a queue that binds both directions.
    EXPECT_CLEAN(1, [] {
        TPipe pipe;
        TQue<TPosition::VECOUT, 0> que;
        TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> bind;
        pipe.InitBuffer(que, 2, 64);
        pipe.InitBuffer(bind, 2, 64);
        LocalTensor<half> t;
        que.AllocTensor<half>(t);
        que.EnQue(t);
        que.DeQue<half>(t);
        que.FreeTensor(t);
        auto u = bind.AllocTensor<half>();
        bind.EnQue<TPosition::GM, TPosition::VECIN, half>(u);
        u = bind.DeQue<TPosition::GM, TPosition::VECIN, half>();
        bind.EnQue<TPosition::VECOUT, TPosition::GM, half>(u);
        u = bind.DeQue<TPosition::VECOUT, TPosition::GM, half>();
        bind.FreeTensor(u);
        CHECK(GetTPipePtr() == &pipe);
    });
}

void ProtocolErrors() {
    EXPECT_FINDING("que-no-free", 1, [] {
        Fixture<> f;
        (void)f.que.AllocTensor<float>();
        (void)f.que.AllocTensor<float>();
        (void)f.que.AllocTensor<float>();
    });
    EXPECT_FINDING("que-leak", 1, [] {
        Fixture<> f;
        (void)f.que.AllocTensor<float>();
    });
    EXPECT_FINDING("que-leak", 1, [] {
        Fixture<> f;
        auto t = f.que.AllocTensor<float>();
        f.que.EnQue(t);
    });
    EXPECT_FINDING("que-leak", 1, [] {
        Fixture<> f;
        (void)f.que.AllocTensor<float>();
        f.pipe.Reset();
    });
    EXPECT_FINDING("que-state", 1, [] {
        Fixture<> f;
        (void)f.que.DeQue<float>();
    });
    EXPECT_FINDING("que-state", 1, [] {
        Fixture<> f;
        auto t = f.que.AllocTensor<float>();
        f.que.FreeTensor(t);
        f.que.FreeTensor(t);
    });
    EXPECT_FINDING("que-state", 1, [] {
        Fixture<2> f;
        auto t = f.que.AllocTensor<float>();
        f.que.EnQue(t);
        f.que.EnQue(t);
    });
    EXPECT_FINDING("que-state", 1, [] {
        Fixture<> f;
        auto t = f.que.AllocTensor<float>();
        f.que.EnQue(t);
        f.que.FreeTensor(t);
    });
    EXPECT_FINDING("que-depth", 1, [] {
        Fixture<> f;
        auto a = f.que.AllocTensor<float>();
        auto b = f.que.AllocTensor<float>();
        f.que.EnQue(a);
        f.que.EnQue(b);
    });
    EXPECT_FINDING("que-foreign", 1, [] {
        Fixture<> f;
        TQue<TPosition::VECOUT, 1> other;
        f.pipe.InitBuffer(other, 1, 64);
        auto a = f.que.AllocTensor<float>();
        other.EnQue(a);
    });
    EXPECT_FINDING("que-uninit", 1, [] {
        TPipe pipe;
        TQue<TPosition::VECOUT, 1> que;
        (void)que.AllocTensor<float>();
    });
    EXPECT_FINDING("buf-uninit", 1, [] {
        TPipe pipe;
        TBuf<> buf;
        (void)buf.Get<float>();
    });
}

void Limits() {
    EXPECT_FINDING("pipe-second", 1, [] {
        TPipe a;
        TPipe b;
    });
    EXPECT_CLEAN(1, [] {
        { TPipe a; }
        TPipe b;
    });
    EXPECT_FINDING("pipe-missing", 1, [] { (void)GetTPipePtr(); });
    EXPECT_FINDING("que-buf-limit", 1, [] {
        TPipe pipe;
        TQue<TPosition::VECIN, 1> a, b;
        pipe.InitBuffer(a, 6, 32);
        pipe.InitBuffer(b, 3, 32);
    });
    EXPECT_CLEAN(1, [] {
        TPipe pipe;
        TQue<TPosition::VECIN, 1> a;
        TQue<TPosition::VECOUT, 1> b;
        pipe.InitBuffer(a, 8, 32);
        pipe.InitBuffer(b, 8, 32);
    });
    EXPECT_FINDING("buf-limit", 1, [] {
        TPipe pipe;
        for (int i = 0; i < 65; ++i) {
            TBuf<> buf;
            pipe.InitBuffer(buf, 32);
        }
    });
    // Usable UB: 188160 bytes by default.
    EXPECT_CLEAN(1, [] {
        TPipe pipe;
        TBuf<> buf;
        pipe.InitBuffer(buf, 188160);
    });
    EXPECT_FINDING("ub-capacity", 1, [] {
        TPipe pipe;
        TBuf<> buf;
        TQue<TPosition::VECIN, 1> que;
        pipe.InitBuffer(que, 2, 64000);
        pipe.InitBuffer(buf, 60161);
    });
    autofuse_twin_set_ub_size(1024);
    EXPECT_FINDING("ub-capacity", 1, [] {
        TPipe pipe;
        TBuf<> buf;
        pipe.InitBuffer(buf, 1056);
    });
    autofuse_twin_set_ub_size(0);
    EXPECT_CLEAN(1, [] {
        TPipe pipe;
        TBuf<> buf;
        pipe.InitBuffer(buf, 150000);
        pipe.Reset();
        pipe.InitBuffer(buf, 150000);
    });
}

void Flags() {
    EXPECT_CLEAN(1, [] {
        TPipe pipe;
        const TEventID id = pipe.AllocEventID<HardEvent::MTE2_V>();
        CHECK(pipe.FetchEventID(HardEvent::MTE2_V) != id && pipe.FetchEventID<HardEvent::V_MTE3>() == 0);
        SetFlag<HardEvent::MTE2_V>(id);
        WaitFlag<HardEvent::MTE2_V>(id);
        pipe.ReleaseEventID<HardEvent::MTE2_V>(id);
        PipeBarrier<PIPE_V>();
        PipeBarrier<PIPE_ALL>();
    });
    EXPECT_FINDING("flag-wait", 1, [] { WaitFlag<HardEvent::V_MTE3>(0); });
    EXPECT_FINDING("flag-wait", 1, [] {
        SetFlag<HardEvent::V_MTE3>(1);
        WaitFlag<HardEvent::V_MTE3>(0);
    });
    EXPECT_FINDING("flag-set", 1, [] {
        SetFlag<HardEvent::V_S>(0);
        SetFlag<HardEvent::V_S>(0);
    });
    EXPECT_FINDING("flag-leak", 1, [] { SetFlag<HardEvent::S_V>(3); });
    EXPECT_FINDING("flag-id", 1, [] { SetFlag<HardEvent::S_V>(8); });
    EXPECT_FINDING("event-ids", 1, [] {
        TPipe pipe;
        for (int i = 0; i < 9; ++i) (void)pipe.AllocEventID<HardEvent::S_V>();
    });
    EXPECT_FINDING("event-ids", 1, [] {
        TPipe pipe;
        pipe.ReleaseEventID<HardEvent::S_V>(2);
    });
}

// operator[]: at 0 the tensor itself, whose changes a copy does not follow; elsewhere a tensor of the rest.
void Elements() {
    EXPECT_CLEAN(1, [] {
        Fixture<2> f;
        const LocalTensor<float> t = f.que.AllocTensor<float>();
        LocalTensor<float> other = f.que.AllocTensor<float>();
        for (uint32_t i = 0; i < 64; ++i) {
            t.SetValue(i, static_cast<float>(i));
        }
        const uint32_t none = 0;
        CHECK(t[0].GetPhyAddr() == t.GetPhyAddr() && t[0].GetSize() == 64);
        CHECK(t[none].GetPhyAddr() == t.GetPhyAddr() && t[none].GetSize() == 64);
        CHECK(t[8].GetPhyAddr() == t.GetPhyAddr() + 8 && t[8].GetSize() == 56 && t[64].GetSize() == 0);
        CHECK(t[8][0].GetValue(0) == 8.0f && t[int64_t{9}].GetValue(1) == 10.0f && t[0][3].GetValue(0) == 3.0f);
        const auto& kept = LocalTensor<float>(t)[0];  // of a temporary: lives as long as its name
        auto copied = other[0];
        other = t;
        CHECK(kept.GetPhyAddr() == t.GetPhyAddr() && copied.GetPhyAddr() != t.GetPhyAddr());
        copied.SetSize(8);
        CHECK(copied.GetSize() == 8 && copied[0].GetSize() == 8 && copied[7].GetSize() == 1);
        f.que.FreeTensor(copied);
        f.que.FreeTensor(other);
    });
    std::vector<float> x{1.0f, 2.0f, 3.0f};
    EXPECT_CLEAN(1, [&] {
        GlobalTensor<float> gm;
        gm.SetGlobalBuffer(x.data());
        const uint64_t none = 0;
        CHECK(gm[0].GetPhyAddr() == x.data() && gm[none].GetPhyAddr() == x.data() && gm[2].GetPhyAddr() == &x[2]);
        CHECK(GlobalTensor<float>(gm)[0][1].GetValue(0) == 2.0f);
        gm[0].SetValue(2, 4.0f);
        gm[1].SetValue(0, 5.0f);
    });
    CHECK(x[1] == 5.0f && x[2] == 4.0f);
}

}  // namespace

int main() {
    Protocol();
    ProtocolErrors();
    Limits();
    Flags();
    Elements();
    return check::Failures() != 0;
}
