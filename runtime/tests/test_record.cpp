// Records of some cores: instructions with their lines, flags, barriers, and bytes of all cores.
#include "checked_support.h"

#include <algorithm>

namespace {

constexpr uint32_t kCores = 6;

// y = 2 x, tile after tile; the cores meet in between.
void Double(Arrays& a) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(in, 2, kTile * 4);
    pipe.InitBuffer(out, 2, kTile * 4);
    pipe.InitBuffer(buf, kTile * 4);
    LocalTensor<float> t = buf.Get<float>();
    for (uint32_t i = 0; i < kTiles; ++i) {
        const uint64_t at = (static_cast<uint64_t>(GetBlockIdx()) * kTiles + i) * kTile;
        LocalTensor<float> x = in.AllocTensor<float>();
        DataCopyPad(x, a.X()[at], Row(kTile), NoPad());
        in.EnQue(x);
        x = in.DeQue<float>();
        PipeBarrier<PIPE_V>();
        Muls(t, x, 2.0f, static_cast<int32_t>(kTile));
        in.FreeTensor(x);
        LocalTensor<float> y = out.AllocTensor<float>();
        PipeBarrier<PIPE_V>();
        Abs(y, t, static_cast<int32_t>(kTile - 8));
        Abs(y[kTile - 8], t[kTile - 8], 8);
        out.EnQue(y);
        y = out.DeQue<float>();
        DataCopyPad(a.Y()[at], y, Row(kTile));
        out.FreeTensor(y);
        if (i == 2) {
            SyncAll();
        }
    }
}

struct Recorded {
    std::vector<autofuse_twin_record> cores;
    std::string findings;
};

Recorded Launch(Arrays& arrays, const std::vector<uint32_t>& cores, uint64_t limit) {
    autofuse_twin_set_record(cores.data(), static_cast<uint32_t>(cores.size()), limit);
    autofuse_twin::Launch(kCores, [&] {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
        Double(arrays);
    });
    autofuse_twin_set_record(nullptr, 0, 0);
    Recorded out;
    out.findings = check::Findings();
    autofuse_twin_record r;
    while (autofuse_twin_get_record(static_cast<uint32_t>(out.cores.size()), &r) != 0) {
        out.cores.push_back(r);
    }
    return out;
}

std::vector<autofuse_twin_event> Of(const autofuse_twin_record& r, int kind, int pipe) {
    std::vector<autofuse_twin_event> out;
    std::copy_if(r.events, r.events + r.events_count, std::back_inserter(out), [kind, pipe](const autofuse_twin_event& e) {
        return e.kind == kind && (pipe < 0 || e.pipe == pipe);
    });
    return out;
}

void RecordsWhatSomeCoresDo() {
    Arrays arrays(kCores);
    const Recorded found = Launch(arrays, {4, 1, 4, 99}, 1000);
    CHECK(found.findings == "[]");
    CHECK(found.cores.size() == 2);
    CHECK(found.cores[0].core == 1 && found.cores[1].core == 4);
    // Only these ran.
    CHECK(arrays.y[0] == -1.0f && arrays.y[kTiles * kTile] == 2.0f * arrays.x[kTiles * kTile]);
    uint64_t loaded = 0;
    uint64_t stored = 0;
    CHECK(autofuse_twin_core_bytes(1, &loaded, &stored) == 1 && loaded == kTiles * kTile * 4 && stored == loaded);
    CHECK(autofuse_twin_core_bytes(0, &loaded, &stored) == 1 && loaded == 0);
    CHECK(autofuse_twin_core_bytes(kCores, &loaded, &stored) == 0);

    const autofuse_twin_record& r = found.cores[1];
    CHECK(r.cut == 0 && r.buffers_count == 5);
    const auto loads = Of(r, AUTOFUSE_TWIN_EVENT_ISSUE, 2);
    const auto calls = Of(r, AUTOFUSE_TWIN_EVENT_ISSUE, 1);
    const auto stores = Of(r, AUTOFUSE_TWIN_EVENT_ISSUE, 3);
    CHECK(loads.size() == kTiles && calls.size() == 3 * kTiles && stores.size() == kTiles);
    for (uint32_t i = 0; i < kTiles; ++i) {
        const uint64_t at = (4 * kTiles + i) * kTile * 4;
        CHECK(loads[i].region == 1 && loads[i].gm_at == at && loads[i].gm_bytes == kTile * 4 && loads[i].gm_rows == 1);
        CHECK(loads[i].gm_use == 0 && stores[i].gm_use == AUTOFUSE_TWIN_EVENT_WRITE);
        CHECK(stores[i].region == 2 && stores[i].gm_at == at);
        CHECK(calls[3 * i].count == kTile && calls[3 * i].bytes == 4 && calls[3 * i + 1].count == kTile - 8);
        // Muls reads the loaded block, and writes the buffer.
        CHECK(calls[3 * i].spans == 2 && calls[3 * i].writes == 1 && calls[3 * i].lo[1] == loads[i].lo[0]);
        CHECK(std::string(r.apis[calls[3 * i].api]) == "Muls" && std::string(r.apis[loads[i].api]) == "DataCopyPad");
        CHECK(loads[i].line < calls[3 * i].line && calls[3 * i].line < stores[i].line);
    }
    // Two buffers each: no wait for a free block until the third tile. Flags are set before the waits.
    const auto waits = Of(r, AUTOFUSE_TWIN_EVENT_WAIT, -1);
    const auto count = [&waits](int cause) {
        return std::count_if(waits.begin(), waits.end(), [cause](const autofuse_twin_event& e) { return e.cause == cause; });
    };
    CHECK(count(0) == 2 * (kTiles - 2) && count(1) == 2 * kTiles && count(2) == 0);
    for (uint64_t i = 0; i < r.events_count; ++i) {
        if (r.events[i].kind == AUTOFUSE_TWIN_EVENT_WAIT) {
            const auto set = [&](const autofuse_twin_event& e) {
                return e.kind == AUTOFUSE_TWIN_EVENT_SET && e.flag == r.events[i].flag;
            };
            CHECK(std::count_if(r.events, r.events + i, set) == 1);
        }
    }
    CHECK(Of(r, AUTOFUSE_TWIN_EVENT_BARRIER, 1).size() == 2 * kTiles);
    CHECK(Of(r, AUTOFUSE_TWIN_EVENT_SYNC, -1).size() == 1);
}

void StopsAtTheLimit() {
    Arrays arrays(kCores);
    const Recorded found = Launch(arrays, {0}, 10);
    CHECK(found.cores.size() == 1 && found.cores[0].cut == 1 && found.cores[0].events_count == 10);
    CHECK(arrays.y[kTiles * kTile - 1] == 2.0f * arrays.x[kTiles * kTile - 1]);
}

void NothingIsRecordedAfterwards() {
    Arrays arrays(kCores);
    Launch(arrays, {0}, 1000);
    const Recorded found = Launch(arrays, {}, 0);
    CHECK(found.cores.empty() && found.findings == "[]");
    CHECK(arrays.y.back() == 2.0f * arrays.x.back());
    uint64_t loaded = 0;
    uint64_t stored = 0;
    for (uint32_t core = 0; core < kCores; ++core) {
        CHECK(autofuse_twin_core_bytes(core, &loaded, &stored) == 1 && loaded == kTiles * kTile * 4);
    }
}

// Loads that ask L2 not to keep them.
void BypassIsAPropertyOfTheTensor() {
    Arrays arrays(kCores);
    const uint32_t core = 0;
    autofuse_twin_set_record(&core, 1, 100);
    autofuse_twin::Launch(1, [&] {
        TPipe pipe;
        TQue<TPosition::VECIN, 1> in;
        pipe.InitBuffer(in, 1, kTile * 4);
        GlobalTensor<float> x = arrays.X();
        x.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        LocalTensor<float> t = in.AllocTensor<float>();
        DataCopyPad(t, x[kTile], Row(kTile), NoPad());
        in.EnQue(t);
        t = in.DeQue<float>();
        in.FreeTensor(t);
    });
    autofuse_twin_set_record(nullptr, 0, 0);
    autofuse_twin_record r;
    CHECK(autofuse_twin_get_record(0, &r) == 1);
    const auto loads = Of(r, AUTOFUSE_TWIN_EVENT_ISSUE, 2);
    CHECK(loads.size() == 1 && loads[0].gm_use == AUTOFUSE_TWIN_EVENT_BYPASS);
}

}  // namespace

int main() {
    RecordsWhatSomeCoresDo();
    StopsAtTheLimit();
    NothingIsRecordedAfterwards();
    BypassIsAPropertyOfTheTensor();
    return check::Failures() != 0;
}
