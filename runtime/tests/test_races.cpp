// Every kind of missing order between two accesses is found, and some order of the scheduler changes the numbers.
#include <algorithm>

#include "checked_support.h"

namespace {

template <HardEvent event> void Order(TPipe& pipe) {
    const auto id = pipe.AllocEventID<event>();
    SetFlag<event>(id);
    WaitFlag<event>(id);
    pipe.ReleaseEventID<event>(id);
}

// y = x + x with queues; without EnQue and DeQue on the way in, the vector unit does not wait for the load.
void MissingQueueIn(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        if (!fault) {
            in.EnQue(x);
            x = in.DeQue<float>();
        }
        LocalTensor<float> y = out.AllocTensor<float>();
        Add(y, x, x, static_cast<int32_t>(kTile));
        in.FreeTensor(x);
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// On the way out: the store does not wait for the vector unit.
void MissingQueueOut(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        in.EnQue(x);
        x = in.DeQue<float>();
        LocalTensor<float> y = out.AllocTensor<float>();
        Muls(y, x, 2.0f, static_cast<int32_t>(kTile));
        in.FreeTensor(x);
        if (!fault) {
            out.EnQue(y);
            y = out.DeQue<float>();
        }
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// A queue bound from VECIN to VECOUT: load and store of one block.
void MissingQueueBind(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> que;
    pipe.InitBuffer(que, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        if (!fault) {
            que.EnQue(x);
            x = que.DeQue<float>();
        }
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// A bound queue with a vector call between load and store: the typed forms order MTE2 -> V and V -> MTE3. With
// EnQue(x) and DeQue(x) the queue would order MTE2 -> MTE3 only, and the vector call would not wait.
template <int plain> void TypedQueue(Arrays& a, bool fault) {
    using P = TPosition;
    TPipe pipe;
    TQueBind<P::VECIN, P::VECOUT, 1> que;
    pipe.InitBuffer(que, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        if (fault && plain == 0) {
            que.EnQue(x);
            x = que.DeQue<float>();
        } else {
            que.EnQue<P::GM, P::VECIN, float>(x);
            x = que.DeQue<P::GM, P::VECIN, float>();
        }
        Muls(x, x, 2.0f, static_cast<int32_t>(kTile));
        if (fault && plain == 1) {
            que.EnQue(x);
            x = que.DeQue<float>();
        } else {
            que.EnQue<P::VECOUT, P::GM, float>(x);
            x = que.DeQue<P::VECOUT, P::GM, float>();
        }
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// A buffer without a queue: three flags per tile order load, computation, store, and the load of the next tile.
template <int missing> void MissingFlag(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECIN> buf;
    pipe.InitBuffer(buf, 2 * kTile * 4);
    LocalTensor<float> x = buf.GetWithOffset<float>(kTile, 0);
    LocalTensor<float> y = buf.GetWithOffset<float>(kTile, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        if (!(fault && missing == 0)) Order<HardEvent::MTE2_V>(pipe);
        Muls(y, x, 2.0f, static_cast<int32_t>(kTile));
        if (!(fault && missing == 1)) Order<HardEvent::V_MTE3>(pipe);
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        if (!(fault && missing == 2)) Order<HardEvent::V_MTE2>(pipe);
        if (!(fault && missing == 3)) Order<HardEvent::MTE3_V>(pipe);
    }
}

// One buffer, loaded and stored: the next load must wait for the store.
void MissingStoreToLoad(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECIN> buf;
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> x = buf.Get<float>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        Order<HardEvent::MTE2_MTE3>(pipe);
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        if (!fault) Order<HardEvent::MTE3_MTE2>(pipe);
    }
}

// Vector calls that depend on each other: read after write (0), write after read (1), write after write (2).
template <int kind> void MissingBarrier(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> t = buf.Get<float>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        in.EnQue(x);
        x = in.DeQue<float>();
        LocalTensor<float> y = out.AllocTensor<float>();
        const int32_t n = static_cast<int32_t>(kTile);
        PipeBarrier<PIPE_V>();
        Muls(t, x, 2.0f, n);
        if (!(fault && kind == 0)) PipeBarrier<PIPE_V>();
        Adds(y, t, 1.0f, n);
        if (!(fault && kind == 1)) PipeBarrier<PIPE_V>();
        Duplicate(t, -5.0f, n);
        if (!(fault && kind == 2)) PipeBarrier<PIPE_V>();
        Muls(t, x, 3.0f, n);
        PipeBarrier<PIPE_V>();
        Add(y, y, t, n);
        in.FreeTensor(x);
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// Two loads into the same bytes need a barrier of their own pipe.
void MissingLoadBarrier(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> que;
    pipe.InitBuffer(que, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.X()[0], Row(kTile), NoPad());
        if (!fault) PipeBarrier<PIPE_MTE2>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile / 2), NoPad());
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// The scalar unit reads loaded data, or writes data that the vector unit reads.
void MissingScalarRead(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECIN> buf;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(buf, 32);
    pipe.InitBuffer(out, 1, kTile * 4);
    LocalTensor<float> s = buf.Get<float>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(s, a.X()[i], Row(1), NoPad());
        if (!fault) Order<HardEvent::MTE2_S>(pipe);
        const float value = s.GetValue(0);
        LocalTensor<float> y = out.AllocTensor<float>();
        Duplicate(y, value, static_cast<int32_t>(kTile));
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
        PipeBarrier<PIPE_ALL>();
    }
}
void MissingScalarWrite(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(buf, kTile * 4);
    pipe.InitBuffer(out, 1, kTile * 4);
    LocalTensor<float> s = buf.Get<float>();
    Duplicate(s, 1.0f, static_cast<int32_t>(kTile));
    for (uint32_t i = 0; i < kTiles; ++i) {
        Order<HardEvent::V_S>(pipe);
        s.SetValue(3, static_cast<float>(i));
        if (!fault) Order<HardEvent::S_V>(pipe);
        LocalTensor<float> y = out.AllocTensor<float>();
        Muls(y, s, 2.0f, static_cast<int32_t>(kTile));
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// Another pipe accesses one block of a row without order, the other blocks are in order: the store of a row that is
// still being written (0), or the next write of a row that is still being stored (1). `length` floats; the last block
// may be partial.
template <int kind, uint32_t length> void OneBlock(Arrays& a, bool fault, uint32_t block) {
    TPipe pipe;
    TBuf<TPosition::VECOUT> buf;
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> t = buf.Get<float>();
    const uint32_t at = block * 8;
    const uint32_t part = std::min(length - at, 8u);
    for (uint32_t i = 0; i < kTiles; ++i) {
        Duplicate(t, static_cast<float>(i + 1), static_cast<int32_t>(kTile));
        Order<HardEvent::V_MTE3>(pipe);
        if (kind == 0) {
            PipeBarrier<PIPE_V>();
            Duplicate(t[at], static_cast<float>(i + 100), static_cast<int32_t>(part));
            if (!fault) Order<HardEvent::V_MTE3>(pipe);
            DataCopyPad(a.Y()[i * kTile], t, Row(length));
        } else {
            DataCopyPad(a.Y()[i * kTile + at], t[at], Row(part));
            if (!fault) Order<HardEvent::MTE3_V>(pipe);
            PipeBarrier<PIPE_V>();
            Duplicate(t, static_cast<float>(i + 100), static_cast<int32_t>(length));
            Order<HardEvent::V_MTE3>(pipe);
            if (at != 0) DataCopyPad(a.Y()[i * kTile], t, Row(at));
            if (at + part < kTile) DataCopyPad(a.Y()[i * kTile + at + part], t[(at + 8) % kTile], Row(kTile - at - part));
        }
        if (kind == 0 && length < kTile) DataCopyPad(a.Y()[i * kTile + length], t, Row(kTile - length));
        Order<HardEvent::MTE3_V>(pipe);
        PipeBarrier<PIPE_V>();
    }
}

void CopyThrough(TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>& que, const GlobalTensor<float>& from,
                 const GlobalTensor<float>& to, bool backwards = false) {
    for (uint32_t k = 0; k < kTiles; ++k) {
        const uint32_t i = backwards ? kTiles - 1 - k : k;
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, from[i * kTile], Row(kTile), NoPad());
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(to[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// Every core writes its part of a workspace, then reads its neighbour's part.
void MissingSyncAll(Arrays& a, bool fault) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    const uint32_t cores = static_cast<uint32_t>(GetBlockNum());
    const uint32_t me = static_cast<uint32_t>(GetBlockIdx());
    const uint32_t part = kTile * kTiles;
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 2, kTile * 4);
    CopyThrough(que, a.X()[me * part], a.W()[me * part]);
    if (!fault) {
        SyncAll();
    } else {
        PipeBarrier<PIPE_ALL>();
    }
    CopyThrough(que, a.W()[(me + 1) % cores * part], a.Y()[me * part]);
}

// A core that writes GM and reads it again: the first load must wait for the last store. The queue's blocks order the
// others, because a load waits for the store that used its block.
void MissingGmOrder(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 2, kTile * 4);
    CopyThrough(que, a.X(), a.W());
    if (!fault) Order<HardEvent::MTE3_MTE2>(pipe);
    CopyThrough(que, a.W(), a.Y(), true);
}

}  // namespace

int main() {
    PAIR("no EnQue/DeQue of a VECIN queue", "race", true, 1, MissingQueueIn);
    PAIR("no EnQue/DeQue of a VECOUT queue", "race", true, 1, MissingQueueOut);
    PAIR("no EnQue/DeQue of a bound queue", "race", true, 1, MissingQueueBind);
    PAIR("EnQue without positions before a vector call", "race", true, 1, TypedQueue<0>);
    PAIR("EnQue without positions after a vector call", "race", true, 1, TypedQueue<1>);
    PAIR("no MTE2_V", "race", true, 1, MissingFlag<0>);
    PAIR("no V_MTE3", "race", true, 1, MissingFlag<1>);
    PAIR("no V_MTE2", "race", true, 1, MissingFlag<2>);
    PAIR("no MTE3_V", "race", true, 1, MissingFlag<3>);
    PAIR("no MTE3_MTE2", "race", true, 1, MissingStoreToLoad);
    PAIR("no PipeBarrier, read after write", "race", true, 1, MissingBarrier<0>);
    PAIR("no PipeBarrier, write after read", "race", true, 1, MissingBarrier<1>);
    PAIR("no PipeBarrier, write after write", "race", true, 1, MissingBarrier<2>);
    PAIR("no PipeBarrier of loads", "race", true, 1, MissingLoadBarrier);
    PAIR("no MTE2_S", "race", true, 1, MissingScalarRead);
    PAIR("no S_V", "race", true, 1, MissingScalarWrite);
    PAIR("no SyncAll", "race", true, 3, MissingSyncAll);
    PAIR("no MTE3_MTE2 over GM", "race", true, 1, MissingGmOrder);
    for (uint32_t block = 0; block < kTile / 8; ++block) {
        PAIR("one block still written", "race", true, 1,
             [&](Arrays& a, bool fault) { OneBlock<0, kTile>(a, fault, block); });
        PAIR("one block still written, of a row that ends in the last", "race", true, 1,
             [&](Arrays& a, bool fault) { OneBlock<0, kTile - 7>(a, fault, block); });
        PAIR("one block still stored", "race", true, 1,
             [&](Arrays& a, bool fault) { OneBlock<1, kTile>(a, fault, block); });
    }
    return check::Failures() != 0;
}
