// Launching: every core runs once, SyncAll with more cores than threads, findings, concurrent launches.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "autofuse_meet.h"
#include "kernel_support.h"

using namespace AscendC;

namespace {

void EveryCoreOnce() {
    for (uint32_t cores : {1u, 2u, 3u, 48u, 1000u}) {
        std::vector<std::atomic<int>> hits(cores);
        EXPECT_CLEAN(cores, [&] {
            CHECK_EQ(GetBlockNum(), static_cast<int64_t>(cores));
            ++hits[static_cast<size_t>(GetBlockIdx())];
        });
        for (const auto& h : hits) CHECK(h == 1);
    }
    CHECK(autofuse_twin::Launch(0, [] {}) != 0);
    CHECK(check::Findings().find("block-dim") != std::string::npos);
}

void Barrier() {
    for (int threads : {0, 1, 2}) {
        autofuse_twin_set_threads(threads);
        for (uint32_t cores : {1u, 2u, 7u, 64u}) {
            std::atomic<uint32_t> arrived{0};
            std::atomic<int> wrong{0};
            EXPECT_CLEAN(cores, [&] {
                Ub ub(4096);
                auto t = ub.Make<int32_t>(8);
                Duplicate(t, static_cast<int32_t>(GetBlockIdx()), 8);
                for (uint32_t round = 1; round <= 5; ++round) {
                    ++arrived;
                    SyncAll();
                    if (arrived < round * cores) ++wrong;
                    SyncAll<true>();
                }
                // UB is private to the core across barriers.
                if (t.GetValue(7) != GetBlockIdx()) ++wrong;
            });
            CHECK_EQ(wrong.load(), 0);
            CHECK_EQ(arrived.load(), 5 * cores);
        }
    }
    autofuse_twin_set_threads(0);
}

void BrokenBarrier() {
    EXPECT_FINDING("sync-all", 8, [] {
        if (GetBlockIdx() != 3) SyncAll();
    });
    // A failing core releases the others too.
    EXPECT_FINDING("flag-wait", 8, [] {
        if (GetBlockIdx() == 7) WaitFlag<HardEvent::S_V>(0);
        SyncAll();
    });
    EXPECT_FINDING("sync-type", 2, [] {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
        SyncAll();
    });
    EXPECT_CLEAN(2, [] {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
        SyncAll();
    });
}

void SoftBarrier() {
    std::vector<int32_t> gm(8 * 16, 0);
    const auto run = [&](const char* code, uint32_t cores, int32_t used) {
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(gm.data(), gm.size() * sizeof(int32_t), "workspace", 1);
        std::atomic<uint32_t> arrived{0};
        EXPECT_FINDING(code, cores, [&] {
            KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
            Ub ub(4096);
            GlobalTensor<int32_t> g;
            g.SetGlobalBuffer(gm.data());
            auto t = ub.Make<int32_t>(8 * 16);
            ++arrived;
            SyncAll(g, t, used);
            CHECK_EQ(arrived.load(), cores);
            DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(g);
        });
        autofuse_twin_gm_clear();
    };
    run("", 16, 0);
    run("", 4, 4);
    run("gm-oob", 17, 0);
    run("sync-cores", 4, 2);
    gm[2 * 8] = 1;
    run("sync-workspace", 4, 0);
}

// Calls that architecture 2002 lacks, and its own barrier: with workspace cleared by each core, or not.
void WithoutHardware() {
    static const char* const lacks[] = {"SyncAll()", "KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_MIX_AIV_1_0"};
    autofuse_twin_architecture arch = {};
    arch.name = "2002";
    arch.lacks = lacks;
    arch.lacks_count = 3;
    autofuse_twin_set_architecture(&arch);
    EXPECT_FINDING("sync-type", 4, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY); });
    EXPECT_FINDING("sync-type", 4, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0); });
    EXPECT_FINDING("call-missing", 4, [] {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);
        SyncAll();
    });
    std::vector<int32_t> gm(8 * 5);
    const auto run = [&](const char* code, uint32_t cores, int twice) {
        std::fill(gm.begin(), gm.end(), -1);
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(gm.data(), gm.size() * sizeof(int32_t), "workspace", 1);
        EXPECT_FINDING(code, cores, [&] {
            KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);
            const auto place = reinterpret_cast<GM_ADDR>(gm.data());
            autofuse::MeetAll<true>(place);
            for (int i = 0; i < twice; i++) {
                autofuse::MeetAll<false>(place);
            }
        });
        autofuse_twin_gm_clear();
    };
    run("", 5, 0);
    run("", 4, 2);
    run("", 1, 1);
    run("gm-oob", 6, 0);
    autofuse_twin_set_architecture(nullptr);
}

// A workspace that is too small for its cores, or that holds their earlier contents.
void SoftWorkspace() {
    std::vector<int32_t> gm(8 * 4, 0);
    const auto run = [&](const char* code, uint64_t size, bool clears) {
        std::fill(gm.begin(), gm.end(), clears ? 0 : 7);
        EXPECT_FINDING(code, 4, [&] {
            Ub ub(4096);
            GlobalTensor<int32_t> g;
            g.SetGlobalBuffer(gm.data(), size);
            auto t = ub.Make<int32_t>(8 * 4);
            SyncAll(g, t);
        });
    };
    run("", 32, true);
    run("sync-workspace", 31, true);
    run("sync-workspace", 32, false);
}

void FindingText() {
    EXPECT_FINDING("flag-wait", 48, [] { WaitFlag<HardEvent::S_V>(0); });
    CHECK_EQ(autofuse_twin_findings_count(), uint64_t{1});
    const std::string text = check::Findings();
    CHECK(text.find("\"core\": 0, \"cores\": 48, \"api\": \"WaitFlag\", \"message\": \"flag S_V id 0 was not set") != std::string::npos);
    char small[8];
    CHECK_EQ(autofuse_twin_findings_json(small, sizeof(small)), uint64_t{text.size()});
    CHECK(std::string(small) == text.substr(0, 7));
    EXPECT_FINDING("kernel-exception", 1, [] { throw std::runtime_error("quote \" and\nnewline"); });
    CHECK(check::Findings().find("quote \\\" and\\u000anewline") != std::string::npos);
    // A failing core does not stop the others.
    std::atomic<int> done{0};
    EXPECT_FINDING("flag-wait", 8, [&] {
        if (GetBlockIdx() == 2) WaitFlag<HardEvent::S_V>(0);
        ++done;
    });
    CHECK_EQ(done.load(), 7);
    EXPECT_CLEAN(1, [] {});
    bool thrown = false;
    try {
        (void)GetBlockIdx();
    } catch (const std::logic_error&) {
        thrown = true;
    }
    CHECK(thrown);
}

// Regions that share memory: rejected before anything runs if the kernel may write there.
void SharedMemory() {
    std::vector<float> x(64, 1.0f);
    std::vector<float> y(64, 1.0f);
    constexpr int kWritten = AUTOFUSE_TWIN_GM_WRITABLE;
    const auto run = [&](const char* code, const float* second, uint64_t count, int first_use, int second_use) {
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), 32 * sizeof(float), "first", first_use);
        autofuse_twin_gm_add(y.data(), y.size() * sizeof(float), "apart", 0);
        autofuse_twin_gm_add(second, count * sizeof(float), "second", second_use);
        int ran = 0;
        EXPECT_FINDING(code, 1, [&] { ++ran; });
        CHECK_EQ(ran, *code == '\0' ? 1 : 0);
        autofuse_twin_gm_clear();
    };
    run("", x.data(), 32, 0, 0);
    run("", x.data() + 8, 32, 0, 0);
    run("", x.data(), 32, 0, kWritten);
    run("", x.data(), 32, kWritten, 0);
    run("", x.data() + 32, 32, kWritten, kWritten);
    run("", x.data() + 8, 0, kWritten, kWritten);
    run("gm-overlap", x.data(), 32, kWritten, kWritten);
    run("gm-overlap", x.data(), 16, 0, kWritten);
    run("gm-overlap", x.data() + 31, 32, 0, kWritten);
    run("gm-overlap", x.data() + 8, 8, kWritten, 0);
    run("gm-overlap", x.data() + 31, 1, kWritten, kWritten | AUTOFUSE_TWIN_GM_SCRATCH);
}

// Two threads with their own GM regions and findings.
void Concurrent() {
    std::atomic<int> wrong{0};
    const auto work = [&](int id) {
        std::vector<float> x(64, 1.0f);
        for (int i = 0; i < 200; ++i) {
            const bool bad = (i + id) % 2 == 0;
            autofuse_twin_gm_clear();
            autofuse_twin_gm_add(x.data(), bad ? 128 : 256, id == 0 ? "left" : "right", 1);
            const int64_t rc = autofuse_twin::Launch(4, [&] {
                Ub ub(1024);
                GlobalTensor<float> g;
                g.SetGlobalBuffer(x.data());
                auto t = ub.Make<float>(64);
                if (i % 3 == 0) SyncAll();
                DataCopy(t, g, 64);
            });
            const std::string text = check::Findings();
            if ((rc != 0) != bad || (text.find(id == 0 ? "left" : "right") != std::string::npos) != bad) ++wrong;
        }
        autofuse_twin_gm_clear();
    };
    std::thread a(work, 0);
    std::thread b(work, 1);
    a.join();
    b.join();
    CHECK_EQ(wrong.load(), 0);
}

}  // namespace

int main() {
    EveryCoreOnce();
    Barrier();
    BrokenBarrier();
    SoftBarrier();
    WithoutHardware();
    SoftWorkspace();
    FindingText();
    SharedMemory();
    Concurrent();
    return check::Failures() != 0;
}
