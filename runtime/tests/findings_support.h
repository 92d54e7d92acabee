// A kernel of several blocks with a fault in one of them: the finding names this block, wherever it is and whatever its
// memory was used for before; the same kernel without the fault has no finding.
#ifndef AUTOFUSE_TWIN_TESTS_FINDINGS_SUPPORT_H
#define AUTOFUSE_TWIN_TESTS_FINDINGS_SUPPORT_H

#define __NPU_ARCH__ 3510  // for the registers and the copies that Ascend 950 has alone

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "checked_support.h"

namespace R = AscendC::Reg;
using F32 = LocalTensor<float>;

constexpr uint32_t kCores = 5;
constexpr uint32_t kLen = 256;           // floats of a tensor
constexpr uint32_t kUnit = 8;            // floats of 32 bytes: checked mode keeps the order of accesses for each 32 bytes
constexpr uint32_t kUnits = kLen / kUnit;
constexpr uint32_t kMarks = kCores * 8;  // integers of the workspace of a software SyncAll

// The first, a middle and the last one of n.
inline std::array<uint32_t, 3> Ends(uint32_t n) { return {0, n / 2, n - 1}; }

struct Gm {
    std::vector<float> x, y, v, w;
    std::vector<int32_t> meet, odd;

    Gm() : x(kCores * kLen, 1.0f), y(x.size()), v(x.size()), w(x.size()), meet(kMarks), odd(3 * kMarks) {
        // Workspaces that are not clear at the end of one block's part.
        for (uint32_t i = 0; i < 3; ++i) {
            odd[i * kMarks + 8 * Ends(kCores)[i] + 7] = 1;
        }
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), x.size() * 4, "x", 0);
        autofuse_twin_gm_add(y.data(), y.size() * 4, "y",
                             AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_ONCE | AUTOFUSE_TWIN_GM_COMPLETE);
        autofuse_twin_gm_add(v.data(), v.size() * 4, "v", AUTOFUSE_TWIN_GM_WRITABLE);
        autofuse_twin_gm_add(w.data(), w.size() * 4, "w", AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_SCRATCH);
        autofuse_twin_gm_add(meet.data(), meet.size() * 4, "meet", AUTOFUSE_TWIN_GM_WRITABLE);
        autofuse_twin_gm_add(odd.data(), odd.size() * 4, "odd", AUTOFUSE_TWIN_GM_WRITABLE);
    }
    ~Gm() { autofuse_twin_gm_clear(); }
};

template <typename T> GlobalTensor<T> Global(std::vector<T>& v, uint64_t from = 0) {
    GlobalTensor<T> t;
    t.SetGlobalBuffer(v.data());
    return t[from];
}

// The past of a block before the kernel that has the fault: none; or the block used all its buffers, and then ended the
// TPipe, reset it, or kept it and freed all blocks of its queues.
enum class Past { kNothing, kEarlierPipe, kReset, kReused };
constexpr Past kPasts[] = {Past::kNothing, Past::kEarlierPipe, Past::kReset, Past::kReused};
inline const char* PastText(Past past) {
    static const char* const names[] = {"nothing", "an earlier TPipe", "Reset", "use of the same buffers"};
    return names[static_cast<int>(past)];
}

// One block: its parts of the arrays, and its memory.
struct Room {
    Gm& gm;
    const uint32_t me;
    std::optional<TPipe> pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> bound;
    TBuf<TPosition::VECIN> x_buf;
    TBuf<TPosition::VECOUT> y_buf;
    TBuf<TPosition::VECCALC> t_buf, s_buf, o_buf;
    F32 x, y, t, s;          // to load into, to store from, and two to compute with
    LocalTensor<uint32_t> o;
    bool stored = false;

    Room(Gm& arrays, Past past) : gm(arrays), me(static_cast<uint32_t>(GetBlockIdx())) {
        Open();
        if (past == Past::kNothing) {
            return;
        }
        Use();
        if (past == Past::kEarlierPipe) {
            pipe.reset();
            Open();
        } else if (past == Past::kReset) {
            Again();
        }
    }

    void Open() {
        pipe.emplace();
        Init();
    }
    void Again() {
        pipe->Reset();
        Init();
    }
    void Init() {
        pipe->InitBuffer(in, 2, kLen * 4);
        pipe->InitBuffer(out, 2, kLen * 4);
        pipe->InitBuffer(bound, 2, kLen * 4);
        pipe->InitBuffer(x_buf, kLen * 4);
        pipe->InitBuffer(y_buf, kLen * 4);
        pipe->InitBuffer(t_buf, kLen * 4);
        pipe->InitBuffer(s_buf, kLen * 4);
        pipe->InitBuffer(o_buf, kLen * 4);
        x = x_buf.Get<float>();
        y = y_buf.Get<float>();
        t = t_buf.Get<float>();
        s = s_buf.Get<float>();
        o = o_buf.Get<uint32_t>();
    }

    GlobalTensor<float> X() { return Global(gm.x, uint64_t{me} * kLen); }
    GlobalTensor<float> Y() { return Global(gm.y, uint64_t{me} * kLen); }
    GlobalTensor<float> V() { return Global(gm.v, uint64_t{me} * kLen); }
    GlobalTensor<float> W() { return Global(gm.w, uint64_t{me} * kLen); }
    uint64_t Next() const { return uint64_t{(me + 1) % kCores} * kLen; }

    template <HardEvent event> void Order() {
        const auto id = pipe->AllocEventID<event>();
        SetFlag<event>(id);
        WaitFlag<event>(id);
        pipe->ReleaseEventID<event>(id);
    }
    // Gives the buffers defined contents.
    void Fill() {
        for (const F32& each : {x, y, t, s}) {
            Duplicate(each, 1.0f, kLen);
        }
        Duplicate(o, uint32_t{0}, kLen);
        PipeBarrier<PIPE_ALL>();
    }
    // All bytes of the buffers, of the queues' blocks, and of some memory behind them: written, read and ordered.
    void Use() {
        TBuf<TPosition::VECCALC> rest;
        pipe->InitBuffer(rest, 4 * kLen * 4);
        Duplicate(rest.Get<float>(), 1.0f, 4 * kLen);
        Fill();
        for (int i = 0; i < 4; ++i) {
            F32 a = in.AllocTensor<float>();
            DataCopyPad(a, X(), Row(kLen), NoPad());
            in.EnQue(a);
            a = in.DeQue<float>();
            F32 b = out.AllocTensor<float>();
            Adds(b, a, 1.0f, kLen);
            in.FreeTensor(a);
            out.EnQue(b);
            b = out.DeQue<float>();
            DataCopyPad(V(), b, Row(kLen));
            out.FreeTensor(b);
            PipeBarrier<PIPE_ALL>();
            F32 c = bound.AllocTensor<float>();
            DataCopyPad(c, X(), Row(kLen), NoPad());
            bound.EnQue(c);
            c = bound.DeQue<float>();
            DataCopyPad(V(), c, Row(kLen));
            bound.FreeTensor(c);
            PipeBarrier<PIPE_ALL>();
        }
        Order<HardEvent::S_V>();
    }
    // The results of the block, except one unit if there is such a unit.
    void Store(uint32_t except = kUnits) {
        stored = true;
        PipeBarrier<PIPE_ALL>();
        Duplicate(y, 4.0f, kLen);
        PipeBarrier<PIPE_ALL>();
        const uint32_t first = except * kUnit;
        DataCopyPad(Y(), y, Row(first));
        if (first + kUnit < kLen) {
            DataCopyPad(Y()[first + kUnit], y[first + kUnit], Row(kLen - first - kUnit));
        }
        PipeBarrier<PIPE_ALL>();
    }
};

// kSelf: the block with the fault. kMeets: it, and the others wait for it in vain. kOthers: the others alone.
// kPair: it and the next block, the later of the two first. kReads: it, which reads what the next block writes.
// kNobody: the launch, with bytes of this block.
enum class Names { kSelf, kMeets, kOthers, kPair, kReads, kNobody };
// Modes that report a finding: checked mode alone, or both. kOwn: the launch has an architecture of its own.
enum : int { kChecked = 1, kAny = 3, kOwn = 4 };

struct Case {
    int line;
    const char* code;
    int modes;
    Names names;
    std::function<void(Room&, bool)> kernel;
};
inline std::vector<Case>& Cases() {
    static std::vector<Case> cases;
    return cases;
}
// A kernel of a block `r`, with a fault if `f`.
#define CASE_NAMES(names, code, modes, ...)                                                             \
    Cases().push_back({__LINE__, code, modes, Names::names,                                             \
                       [=]([[maybe_unused]] Room& r, [[maybe_unused]] bool f) { __VA_ARGS__; }})
#define CASE(code, modes, ...) CASE_NAMES(kSelf, code, modes, __VA_ARGS__)

// A finding that no single block can have, and why.
struct Exception {
    const char* code;
    const char* why;
};

struct Found {
    std::string code;
    int64_t core, cores, begin, end, other;  // other: -1 for a finding about one access
};

inline std::vector<Found> Findings() {
    const std::string head = "{\"code\": \"";
    const std::string text = check::Findings();
    const auto number = [](const std::string& part, const char* key, size_t from) {
        const size_t at = part.find(key, from);
        return at == std::string::npos ? int64_t{-2} : std::stoll(part.substr(at + std::strlen(key)));
    };
    std::vector<Found> out;
    for (size_t at = text.find(head); at != std::string::npos;) {
        const size_t next = text.find(head, at + 1);
        const std::string part = text.substr(at + head.size(), next - at - head.size());
        const size_t other = part.find("\"other\": {");
        out.push_back({part.substr(0, part.find('"')), number(part, "\"core\": ", 0), number(part, "\"cores\": ", 0),
                       number(part, "\"begin\": ", 0), number(part, "\"end\": ", 0),
                       other == std::string::npos ? -1 : number(part, "\"core\": ", other)});
        at = next;
    }
    return out;
}

inline bool Right(const Case& c, const std::vector<Found>& found, uint32_t bad) {
    const int64_t self = bad;
    const int64_t next = (bad + 1) % kCores;
    size_t hits = 0;
    for (const Found& f : found) {
        if (c.names == Names::kMeets && f.code == "sync-all") {
            continue;
        }
        bool right = f.code == c.code && f.cores == (c.names == Names::kOthers ? kCores - 1 : 1);
        switch (c.names) {
            case Names::kOthers: right = right && f.core == (bad == 0 ? 1 : 0); break;
            case Names::kPair: right = right && f.core == std::max(self, next) && f.other == std::min(self, next); break;
            case Names::kReads: right = right && f.core == self && f.other == next; break;
            case Names::kNobody:
                right = right && f.core == -1 && f.begin / 4 / kLen == self && (f.end - 1) / 4 / kLen == self;
                break;
            default: right = right && f.core == self && (f.other == -1 || f.other == self); break;
        }
        if (!right) {
            return false;
        }
        ++hits;
    }
    return hits != 0;
}

// Runs all cases: in program order, and in an order of the scheduler, whose odd seed starts the last block first. The
// blocks of all launches share the memory of one thread, so a sound one follows a faulty one.
inline void RunAll(const char* file) {
    static const char* const lacks[] = {"NdDmaDci", "KERNEL_TYPE_AIV_ONLY"};
    autofuse_twin_architecture own = {};
    own.name = "own";
    own.lacks = lacks;
    own.lacks_count = 2;
    own.zero_counts = 1;
    for (int i = 0; i < AUTOFUSE_TWIN_TYPES; ++i) {
        for (int k = 0; k < AUTOFUSE_TWIN_TYPES; ++k) {
            own.modes[i][k] = autofuse_twin_default_modes(i, k);
        }
    }
    struct Mode {
        int check;
        uint64_t seed;
    };
    for (const Case& c : Cases()) {
        for (const Past past : kPasts) {
            for (const Mode mode : {Mode{0, 0}, Mode{1, 0}, Mode{1, 1}}) {
                if (mode.check == 0 && (c.modes & kAny) != kAny) {
                    continue;
                }
                const auto launch = [&](uint32_t bad) {
                    Gm arrays;
                    autofuse_twin_set_architecture((c.modes & kOwn) != 0 ? &own : nullptr);
                    autofuse_twin_set_check(mode.check, mode.seed);
                    autofuse_twin_set_threads(1);
                    autofuse_twin::Launch(kCores, [&] {
                        Room room(arrays, past);
                        c.kernel(room, room.me == bad);
                        if (!room.stored) {
                            room.Store();
                        }
                    });
                    return Findings();
                };
                const auto fail = [&](const std::string& what) {
                    const std::string order = mode.check == 0 ? "not checked" : "seed " + std::to_string(mode.seed);
                    const std::string place = what + ", after " + PastText(past) + ", " + order;
                    check::Fail(file, c.line, std::string(c.code) + ", " + place + ": " + check::Findings());
                };
                for (const uint32_t bad : Ends(kCores)) {
                    if (!Right(c, launch(bad), bad)) {
                        fail("fault in block " + std::to_string(bad));
                    }
                }
                if (!launch(kCores).empty()) {
                    fail("sound");
                }
            }
        }
    }
    autofuse_twin_set_architecture(nullptr);
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
}

#endif
