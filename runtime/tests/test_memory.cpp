// Uninitialised data, blocks used after they were freed, GM written twice or not at all, and the locations of findings.
#include "checked_support.h"

namespace {

// The rest of a padded row may be computed with, but not be stored.
void StoredTail(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, kTile * 4);
    pipe.InitBuffer(out, 1, kTile * 4);
    const uint32_t row = kTile - 3;
    uint32_t at = 0;
    while (at < a.x.size()) {
        const uint32_t left = static_cast<uint32_t>(a.x.size()) - at;
        const uint32_t n = left < row ? left : row;
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[at], Row(n), NoPad());
        in.EnQue(x);
        x = in.DeQue<float>();
        LocalTensor<float> y = out.AllocTensor<float>();
        Muls(y, x, 2.0f, static_cast<int32_t>(kTile));
        in.FreeTensor(x);
        out.EnQue(y);
        y = out.DeQue<float>();
        const uint32_t stored = fault && n == row ? row + 1 : n;
        DataCopyPad(a.Y()[at], y, Row(stored));
        out.FreeTensor(y);
        at += stored;
    }
}

// Conversions, comparisons, selections and broadcasts propagate undefined data.
template <int kind> void Carried(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECOUT> buf;
    pipe.InitBuffer(buf, 8192);
    LocalTensor<float> t = buf.GetWithOffset<float>(64, 0);
    LocalTensor<float> y = buf.GetWithOffset<float>(64, 512);
    LocalTensor<half> h = buf.GetWithOffset<half>(64, 1024);
    LocalTensor<uint8_t> bits = buf.GetWithOffset<uint8_t>(32, 2048);
    LocalTensor<float> ones = buf.GetWithOffset<float>(64, 2560);
    LocalTensor<float> wide = buf.GetWithOffset<float>(512, 4096);
    Duplicate(ones, 1.0f, 64);
    Duplicate(t, 2.0f, fault ? 40 : 64);
    for (uint32_t i = 0; i < kTiles; ++i) {
        PipeBarrier<PIPE_V>();
        if (kind == 0) {
            Cast(h, t, RoundMode::CAST_RINT, 64);
            PipeBarrier<PIPE_V>();
            Cast(y, h, RoundMode::CAST_NONE, 64);
        } else if (kind == 1) {
            CompareScalar(bits, t, 1.0f, CMPMODE::GT, 64);
            PipeBarrier<PIPE_V>();
            Select(y, bits, ones, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
        } else if (kind == 2) {
            Brcb(wide, t, 8, {1, 8});
            PipeBarrier<PIPE_V>();
            Copy(y, wide[448], 64);
        } else {
            Copy(y, t, 64, 1, {1, 1, 8, 8});
        }
        PipeBarrier<PIPE_ALL>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        PipeBarrier<PIPE_ALL>();
    }
}

void ScalarOfNothing(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECOUT> buf;
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> t = buf.Get<float>();
    Duplicate(t, 2.0f, fault ? 8 : 64);
    PipeBarrier<PIPE_ALL>();
    const float v = t.GetValue(9);
    PipeBarrier<PIPE_ALL>();
    Duplicate(t, v, 64);
    PipeBarrier<PIPE_ALL>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(a.Y()[i * kTile], t, Row(kTile));
    }
}

void AfterFree(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        in.EnQue(x);
        x = in.DeQue<float>();
        LocalTensor<float> y = out.AllocTensor<float>();
        if (fault) {
            in.FreeTensor(x);
        }
        Muls(y, x, 2.0f, static_cast<int32_t>(kTile));
        if (!fault) {
            in.FreeTensor(x);
        }
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// A freed tensor whose only queue block belongs to another one: used once that is allocated (0), waiting in the queue
// (1), or dequeued (2).
template <int when> void AfterTheNextAlloc(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(out, 1, kTile * 4);
    const int32_t n = static_cast<int32_t>(kTile);
    LocalTensor<float> freed;
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> y = out.AllocTensor<float>();
        Duplicate(y, static_cast<float>(i), n);
        PipeBarrier<PIPE_V>();
        const auto use = [&](int now) {
            if (fault && i > 0 && now == when) {
                Adds(freed, freed, 1.0f, n);
                PipeBarrier<PIPE_ALL>();
            }
        };
        use(0);
        out.EnQue(y);
        use(1);
        y = out.DeQue<float>();
        use(2);
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
        freed = y;
    }
}

void BetweenEnQueAndDeQue(Arrays& a, bool fault) {
    TPipe pipe;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(out, 2, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> y = out.AllocTensor<float>();
        Duplicate(y, 1.0f, 64);
        PipeBarrier<PIPE_V>();
        if (!fault) {
            Adds(y, y, 1.0f, 64);
        }
        out.EnQue(y);
        if (fault) {
            Adds(y, y, 1.0f, 64);
        }
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], y, Row(kTile));
        out.FreeTensor(y);
    }
}

// Stores y; `again` and `missing` are tiles; `shift` floats too far.
void StoreTiles(Arrays& a, uint32_t first, uint32_t tiles, uint32_t again, bool atomic) {
    TPipe pipe;
    TBuf<TPosition::VECOUT> buf;
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> t = buf.Get<float>();
    Duplicate(t, 3.0f, 64);
    PipeBarrier<PIPE_ALL>();
    if (atomic) {
        SetAtomicAdd<float>();
    }
    for (uint32_t i = 0; i < tiles; ++i) {
        DataCopyPad(a.Y()[(first + i) * kTile], t, Row(kTile));
        PipeBarrier<PIPE_MTE3>();
    }
    for (uint32_t i = 0; i < again; ++i) {
        DataCopyPad(a.Y()[first * kTile], t, Row(1));
    }
    if (atomic) {
        SetAtomicNone();
    }
}

void Overlap(Arrays& a, bool fault) {
    const uint32_t me = static_cast<uint32_t>(GetBlockIdx());
    const uint32_t extra = fault && me + 1 < static_cast<uint32_t>(GetBlockNum()) ? 1 : 0;
    StoreTiles(a, me * kTiles, kTiles + extra, 0, false);
}

void Scratch(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 1, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        const uint32_t n = fault && i == 2 ? kTile - 1 : kTile;
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.X()[i * kTile], Row(kTile), NoPad());
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(a.W()[i * kTile], x, Row(n));
        que.FreeTensor(x);
    }
    PipeBarrier<PIPE_ALL>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopyPad(x, a.W()[i * kTile], Row(kTile), NoPad());
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopyPad(a.Y()[i * kTile], x, Row(kTile));
        que.FreeTensor(x);
    }
}

// Rules of calls that only checked mode checks.
void WholeBlocks(Arrays& a, bool fault) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 1, kTile * 4);
    for (uint32_t i = 0; i < kTiles; ++i) {
        LocalTensor<float> x = que.AllocTensor<float>();
        DataCopy(x, a.X()[i * kTile], kTile);
        if (fault) {
            DataCopy(x, a.X()[i * kTile], 3);
        }
        que.EnQue(x);
        x = que.DeQue<float>();
        DataCopy(a.Y()[i * kTile], x, kTile);
        que.FreeTensor(x);
    }
}
template <TPosition position> void LoadTo(Arrays& a) {
    TPipe pipe;
    TBuf<position> buf;
    pipe.InitBuffer(buf, kTile * kTiles * 4);
    LocalTensor<float> x = buf.template Get<float>();
    DataCopyPad(x, a.X(), Row(kTile * kTiles), NoPad());
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(a.Y(), x, Row(kTile * kTiles));
}
void Position(Arrays& a, bool fault) {
    fault ? LoadTo<TPosition::VECCALC>(a) : LoadTo<TPosition::VECIN>(a);
}
// Repeats of 32 elements; the source of the faulty call starts inside its result.
void RepeatOverlap(Arrays& a, bool fault) {
    TPipe pipe;
    TBuf<TPosition::VECOUT> buf;
    pipe.InitBuffer(buf, 4096);
    LocalTensor<float> t = buf.Get<float>();
    Duplicate(t, 1.0f, 512);
    PipeBarrier<PIPE_V>();
    Adds(t, fault ? t[8] : t[256], 1.0f, static_cast<uint64_t>(32), 2, {1, 1, 8, 8});
    PipeBarrier<PIPE_ALL>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        DataCopyPad(a.Y()[i * kTile], t, Row(kTile));
    }
}

// Findings are merged by location; they state it, and the conflicting access.
void TestPlaces() {
    Arrays a(2);
    const int line = __LINE__ + 12;
    const std::string found = RunChecked(2, 0, a, [](Arrays& arrays) {
        TPipe pipe;
        TBuf<TPosition::VECOUT> buf;
        pipe.InitBuffer(buf, kTile * 4);
        LocalTensor<float> t = buf.Get<float>();
        Duplicate(t, 3.0f, 64);
        PipeBarrier<PIPE_ALL>();
        const uint32_t me = static_cast<uint32_t>(GetBlockIdx());
        for (uint32_t i = 0; i < kTiles; ++i) {
            DataCopyPad(arrays.Y()[(me * kTiles + i) * kTile], t, Row(kTile));
            if (i % 2 == 1) {
                Adds(t, t, 1.0f, 64);
                PipeBarrier<PIPE_V>();
            }
        }
    });
    const std::string site = "\"line\": " + std::to_string(line);
    CHECK(HasCode(found, "race"));
    CHECK(found.find("\"cores\": 2") != std::string::npos);
    CHECK(found.find(site + ", \"count\": 1, \"nested\": false, \"place\": \"VECOUT TBuf 0\", \"begin\": 0, \"end\": 256") !=
          std::string::npos);
    CHECK(found.find("\"other\": {\"api\": \"DataCopyPad\", \"core\": 0, \"line\": " + std::to_string(line - 2) + ", \"count\": 2") !=
          std::string::npos);
    if (check::Failures() != 0) {
        std::fprintf(stderr, "%s\n", found.c_str());
    }
}

}  // namespace

int main() {
    PAIR("undefined tail stored", "uninit-store", false, 1, StoredTail);
    PAIR("Cast of undefined data", "uninit-store", false, 1, Carried<0>);
    PAIR("Compare and Select of undefined data", "uninit-store", false, 1, Carried<1>);
    PAIR("Brcb of undefined data", "uninit-store", false, 1, Carried<2>);
    PAIR("Copy of undefined data", "uninit-store", false, 1, Carried<3>);
    PAIR("GetValue of undefined data", "uninit-scalar", false, 1, ScalarOfNothing);
    PAIR("use after FreeTensor", "ub-freed", true, 1, AfterFree);
    PAIR("use after FreeTensor, of a block that was allocated again", "ub-freed", true, 1, AfterTheNextAlloc<0>);
    PAIR("use after FreeTensor, of a block that waits in the queue again", "ub-freed", true, 1, AfterTheNextAlloc<1>);
    PAIR("use after FreeTensor, of a block that was taken again", "ub-freed", true, 1, AfterTheNextAlloc<2>);
    PAIR("use between EnQue and DeQue", "ub-state", true, 1, BetweenEnQueAndDeQue);
    PAIR("a byte written twice", "gm-twice", false, 1,
         [](Arrays& a, bool fault) { StoreTiles(a, 0, kTiles, fault ? 1 : 0, false); });
    PAIR("atomic for one core only", "gm-twice", false, 1, [](Arrays& a, bool fault) {
        StoreTiles(a, 0, kTiles, 1, !fault);
    });
    PAIR("bytes not written", "gm-unwritten", true, 1,
         [](Arrays& a, bool fault) { StoreTiles(a, 0, fault ? kTiles - 1 : kTiles, 0, false); });
    PAIR("two cores write the same bytes", "race", false, 3, Overlap);
    PAIR("scratch read and never written", "gm-uninit", false, 1, Scratch);
    PAIR("count of a copy", "copy-count", false, 1, WholeBlocks);
    PAIR("position of a padded load", "dma-position", false, 1, Position);
    PAIR("overlap inside a repeat", "ub-overlap", false, 1, RepeatOverlap);
    TestPlaces();
    return check::Failures() != 0;
}
