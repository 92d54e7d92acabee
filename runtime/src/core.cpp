// Findings, bounds checks, and the setup and checks around a core's kernel body.
#include "core.h"
#include "reg/vf.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace autofuse_twin {
namespace {

std::string Format(const char* format, va_list args) {
    char buf[1024];
    const int n = vsnprintf(buf, sizeof(buf), format, args);
    return std::string(buf, n < 0 ? 0 : (n < static_cast<int>(sizeof(buf)) ? n : sizeof(buf) - 1));
}

}  // namespace

Core::~Core() { std::free(ub); }

__thread Core* g_current = nullptr;
void NoCurrent() { throw std::logic_error("an Ascend C function was called outside of autofuse_twin::Launch"); }

void AddFinding(Run& run, Finding finding) {
    const std::lock_guard<std::mutex> lock(run.mutex);
    for (Finding& f : run.findings) {
        const bool located = f.site.line != 0 && f.site.line == finding.site.line && f.site.nested == finding.site.nested &&
                             f.other_site.line == finding.other_site.line && f.place == finding.place;
        if (f.code == finding.code && f.api == finding.api && (located || f.message == finding.message)) {
            if (std::find(f.who.begin(), f.who.end(), finding.core) == f.who.end()) {
                f.who.push_back(finding.core);
            }
            finding.who.swap(f.who);
            if (finding.core < f.core) {
                f = std::move(finding);
            } else {
                f.who.swap(finding.who);
            }
            f.cores = static_cast<uint32_t>(f.who.size());
            return;
        }
    }
    finding.who.assign(1, finding.core);
    run.findings.push_back(std::move(finding));
}

void AddFinding(Run& run, int64_t core, const char* code, const char* api, std::string message) {
    Finding f;
    f.code = code;
    f.core = core;
    f.cores = 1;
    f.api = api;
    f.message = std::move(message);
    AddFinding(run, std::move(f));
}

Finding NewFinding(const Core& core, const char* code, const char* api) {
    Finding f;
    f.code = code;
    f.core = core.index;
    f.cores = 1;
    f.api = api;
    if (core.check != nullptr) {
        f.site = core.check->Site();
    }
    return f;
}

void FinishAll(Core& core) {
    if (core.order != nullptr) {
        core.order->FinishAll();
    }
    if (core.check != nullptr) {
        core.check->BarrierAll();
    }
    StreamFence();
}

void Fail(const char* code, const char* api, const char* format, ...) {
    va_list args;
    va_start(args, format);
    std::string text = Format(format, args);
    va_end(args);
    Core& core = CurrentInside();
    core.aborted = true;
    Finding f = NewFinding(core, code, api);
    f.message = std::move(text);
    AddFinding(*core.run, std::move(f));
    throw CoreAbort{};
}

void Report(const char* code, const char* api, const char* format, ...) {
    va_list args;
    va_start(args, format);
    std::string text = Format(format, args);
    va_end(args);
    Core& core = CurrentInside();
    Finding f = NewFinding(core, code, api);
    f.message = std::move(text);
    AddFinding(*core.run, std::move(f));
}

bool Lacks(const Run& run, const char* api) {
    const char* const* names = run.architecture->lacks;
    return std::any_of(names, names + run.architecture->lacks_count,
                       [api](const char* name) { return std::strcmp(name, api) == 0; });
}

void FailLacking(const Run& run, const char* api) {
    Fail("call-missing", api, "architecture %s has no %s: the call does nothing there", run.architecture->name, api);
}

const char* OpName(Op op) {
#define OP_TEXT(Name) #Name,
    static const char* const names[] = {AUTOFUSE_TWIN_OPS(OP_TEXT)};
#undef OP_TEXT
    switch (op) {
        case Op::ShiftRightRound: return "ShiftRight";
        case Op::PowerTensorScalar: return "Power";
        case Op::PowerScalarTensor: return "Power";
        default: return names[static_cast<int>(op)];
    }
}

const char* DtName(Dt dt) {
    static const char* const names[] = {"uint8_t", "int8_t", "uint16_t", "int16_t", "half", "bfloat16_t",
                                        "uint32_t", "int32_t", "float", "uint64_t", "int64_t", "double"};
    return names[static_cast<int>(dt)];
}

const char* PosName(uint8_t pos) {
    static const char* const names[] = {"GM", "A1", "A2", "B1", "B2", "C1", "C2", "CO1", "CO2", "VECIN", "VECOUT",
                                        "VECCALC", "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
    return pos < sizeof(names) / sizeof(names[0]) ? names[pos] : "?";
}

std::string EventName(uint8_t event) {
    static const char* const names[] = {
        "MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1", "MTE2_V", "V_MTE2", "MTE3_V", "V_MTE3", "M_V", "V_M", "V_V",
        "MTE3_MTE1", "MTE1_MTE3", "MTE1_V", "MTE2_M", "M_MTE2", "V_MTE1", "M_FIX", "FIX_M", "MTE3_MTE2", "MTE2_MTE3",
        "S_V", "V_S", "S_MTE2", "MTE2_S", "S_MTE3", "MTE3_S", "MTE2_FIX", "FIX_MTE2", "FIX_S", "M_S", "FIX_MTE3",
        "MTE1_FIX", "FIX_MTE1", "FIX_FIX"};
    static_assert(sizeof(names) / sizeof(names[0]) == kEvents, "one name per event");
    return event < kEvents ? names[event] : "?";
}

std::string BufferName(const Core& core, const UbView& view) {
    for (const BufferInfo& b : core.buffers) {
        if (b.lo == view.lo) {
            std::string out = PosName(b.pos);
            out += b.queue < 0 ? " TBuf " : " queue " + std::to_string(b.queue) + " block ";
            return out + std::to_string(b.index);
        }
    }
    return "a buffer of an earlier TPipe state";
}

void CheckUb(Core& core, const char* api, const char* operand, const UbView& view, uint64_t bytes, uint32_t align) {
    if (view.lo == nullptr) {
        Fail("ub-null", api, "%s is a LocalTensor without a buffer (no AllocTensor, DeQue or TBuf::Get)", operand);
    }
    const int64_t offset = view.addr - core.ub;
    if (align > 1 && static_cast<uint64_t>(offset) % align != 0) {
        Fail("ub-align", api, "%s starts at UB byte %lld, which is not a multiple of %u (%s starts at %lld)", operand,
             static_cast<long long>(offset), align, BufferName(core, view).c_str(),
             static_cast<long long>(view.lo - core.ub));
    }
    if (view.addr < view.lo || view.addr > view.hi || bytes > static_cast<uint64_t>(view.hi - view.addr)) {
        const long long begin = offset;
        const long long lo = view.lo - core.ub;
        const long long hi = view.hi - core.ub;
        Fail("ub-oob", api, "%s covers UB bytes [%lld, %lld) but %s is [%lld, %lld): %lld bytes too far", operand, begin,
             begin + static_cast<long long>(bytes), BufferName(core, view).c_str(), lo, hi,
             begin + static_cast<long long>(bytes) > hi ? begin + static_cast<long long>(bytes) - hi : lo - begin);
    }
}

void CheckGm(Core& core, const char* api, const GmView& view, uint64_t bytes, bool write) {
    if (view.addr == nullptr) {
        Fail("gm-null", api, "GlobalTensor has no address (SetGlobalBuffer missing, or a null kernel argument)");
    }
    if (view.lo == nullptr) {
        return;
    }
    if (view.region == 0) {
        // Name the nearest tensor below the address: usually the one that was overrun.
        const Region* below = nullptr;
        for (const Region& r : *core.run->regions) {
            if (r.hi <= view.addr && (below == nullptr || r.hi > below->hi)) {
                below = &r;
            }
        }
        const std::string place = below == nullptr ? std::string("below all of them")
                                                   : std::to_string(view.addr - below->hi) + " bytes after the end of '" +
                                                         below->name + "'";
        Fail("gm-oob", api, "%s %llu bytes outside of every registered GM tensor (%s)", write ? "writes" : "reads",
             static_cast<unsigned long long>(bytes), place.c_str());
    }
    const Region& region = (*core.run->regions)[view.region - 1];
    const long long begin = view.addr - region.lo;
    const long long size = region.hi - region.lo;
    if (begin < 0 || begin > size || static_cast<long long>(bytes) > size - begin) {
        Fail("gm-oob", api, "%s bytes [%lld, %lld) of GM tensor '%s', which has %lld bytes", write ? "writes" : "reads",
             begin, begin + static_cast<long long>(bytes), region.name.c_str(), size);
    }
    if (write && !view.writable) {
        Fail("gm-readonly", api, "writes bytes [%lld, %lld) of GM tensor '%s', which is an input", begin,
             begin + static_cast<long long>(bytes), region.name.c_str());
    }
}

void GmBind(GmView& view, uint32_t elem) {
    const Core& core = Current();
    const std::vector<Region>& regions = *core.run->regions;
    view.lo = nullptr;
    view.hi = nullptr;
    view.region = 0;
    view.writable = true;
    if (regions.empty() || view.addr == nullptr) {
        return;
    }
    view.lo = view.hi = view.addr;
    if (reinterpret_cast<uintptr_t>(view.addr) % elem != 0) {
        Fail("gm-align", "SetGlobalBuffer", "address %p is not a multiple of the element size %u",
             static_cast<void*>(view.addr), elem);
    }
    // A pointer one past the end belongs to its tensor only if no other tensor starts there.
    size_t best = 0;
    for (size_t i = 0; i < regions.size(); ++i) {
        const Region& r = regions[i];
        const bool inside = view.addr >= r.lo && (view.addr < r.hi || (view.addr == r.hi && best == 0));
        if (inside) {
            const bool better = best == 0 || view.addr == regions[best - 1].hi ||
                                (r.use != 0 && regions[best - 1].use == 0);
            best = better ? i + 1 : best;
        }
    }
    if (best != 0) {
        const Region& r = regions[best - 1];
        view.lo = r.lo;
        view.hi = r.hi;
        view.region = static_cast<uint32_t>(best);
        view.writable = r.use != 0;
    }
}

void GmScalarFail(const GmView& view, uint64_t byte_offset, uint32_t elem, bool write) {
    GmView at = view;
    at.addr += byte_offset;
    CheckGm(Current(), write ? "GlobalTensor::SetValue" : "GlobalTensor::GetValue", at, elem, write);
    Fail("gm-oob", "GlobalTensor", "scalar access outside of the tensor");
}

void UbScalarFail(const UbView& view, uint64_t byte_offset, uint32_t elem, bool write) {
    UbView at = view;
    at.addr += byte_offset;
    CheckUb(Current(), write ? "LocalTensor::SetValue" : "LocalTensor::GetValue", "the element", at, elem, 1);
    Fail("ub-oob", "LocalTensor", "scalar access outside of the tensor");
}

void IndexFail(int64_t index, int64_t extent) {
    Fail("index-range", "GetValue", "the index %lld is outside of a dimension of %lld elements",
         static_cast<long long>(index), static_cast<long long>(extent));
}

// ---- scalar accesses of checked mode ----

void UbScalar(const UbView& view, uint64_t byte_offset, uint32_t elem, bool write) {
    Core& core = Current();
    if (core.check == nullptr) {
        return;
    }
    if (core.order != nullptr) {
        core.order->Finish(kPipeS);
    }
    UbView at = view;
    at.addr += byte_offset;
    const char* api = write ? "LocalTensor::SetValue" : "LocalTensor::GetValue";
    const Span span{&at, write ? "dst" : "src", write, elem};
    core.check->Issue(core, api, kPipeS, &span, 1);
    if (write) {
        core.check->Fill(core, at.addr, elem, true);
    } else {
        core.check->NeedDefined(core, "uninit-scalar", api, at, elem, elem, 1, "the scalar unit reads them");
    }
}

void UbScalarStore(const UbView& view, uint64_t byte_offset, uint32_t elem, uint64_t bits) {
    Core& core = Current();
    uint8_t* p = view.addr + byte_offset;
    if (core.check != nullptr) {
        UbView at = view;
        at.addr = p;
        const Span span{&at, "dst", true, elem};
        core.check->Issue(core, "LocalTensor::SetValue", kPipeS, &span, 1);
        core.check->Fill(core, p, elem, true);
    }
    Execute(core, kPipeS, [p, elem, bits] { std::memcpy(p, &bits, elem); });
}

void GmScalar(const GmView& view, uint64_t byte_offset, uint32_t elem, bool write) {
    Core& core = Current();
    if (core.check == nullptr) {
        return;
    }
    GmView at = view;
    at.addr += byte_offset;
    const char* api = write ? "GlobalTensor::SetValue" : "GlobalTensor::GetValue";
    core.check->Issue(core, api, kPipeS, nullptr, 0);
    core.check->Gm(core, api, kPipeS, at, elem, elem, 1, write, false);
}

void BeginCore(Core& core, Run* run, int64_t index) {
    if (core.ub == nullptr) {
        core.ub = static_cast<uint8_t*>(std::aligned_alloc(4096, kUbPhysical));
        if (core.ub == nullptr) {
            throw std::bad_alloc();
        }
    }
    std::memset(core.ub, 0xff, core.dirty);
    core.run = run;
    core.index = index;
    core.dirty = 0;
    core.used = 0;
    core.loaded = core.stored = 0;
    core.aborted = false;
    core.ahead = {};
    core.pipe = nullptr;
    core.queues.clear();
    core.buffers.clear();
    core.first_age = 0;
    core.first_queue = 0;
    std::memset(core.flags, 0, sizeof(core.flags));
    std::memset(core.reserved, 0, sizeof(core.reserved));
    std::memset(core.cmp_mask, 0, sizeof(core.cmp_mask));
    core.atomic = 0;
    core.dims_clean = false;
    core.task_type = -1;
    // For an unknown control register, floats overflow to infinity and casts to integers saturate.
    const bool has_control = run->architecture != nullptr && run->architecture->control != 0;
    core.control = core.control_found = has_control ? run->architecture->control : kControlDefault | kControlKept;
    core.check = nullptr;
    core.order = nullptr;
    core.vf = nullptr;
    if (core.reg != nullptr) {
        core.reg = std::make_shared<RegState>();
    }
    if (run->check) {
        if (core.check_memory == nullptr) {
            core.check_memory = std::make_unique<Checked>();
        }
        core.check = core.check_memory.get();
        core.check->Begin();
        core.check->record = nullptr;
        if (run->recorded != nullptr) {
            core.record.Begin(run->record_limit);
            core.check->record = &core.record;
        }
    }
    if (run->check && run->seed != 0) {
        if (core.order_memory == nullptr) {
            core.order_memory = std::make_unique<Scheduler>();
        }
        core.order = core.order_memory.get();
        core.order->Begin(run->seed * 1000003u + static_cast<uint64_t>(index));
    }
    MaskModeSet(false);
    MaskReset();
}

void EndCore(Core& core) {
    if (core.aborted) {
        return;
    }
    Current();  // closes the vector function
    FinishAll(core);
    ReleasePipe(core);
    for (int e = 0; e < kEvents; ++e) {
        for (int i = 0; i < kEventIds; ++i) {
            if (core.flags[e][i]) {
                Report("flag-leak", "SetFlag", "flag %s id %d is still set when the kernel ends (no WaitFlag)",
                       EventName(static_cast<uint8_t>(e)).c_str(), i);
            }
        }
    }
    if (core.counter_mode) {
        Report("mask-mode", "SetMaskCount", "the kernel ends in counter mode; SetMaskNorm is missing");
    }
    if (core.atomic != 0) {
        Report("atomic-mode", "SetAtomic", "the kernel ends with atomic accumulation on; SetAtomicNone is missing");
    }
    CheckControlKept(core);
}

namespace {

void Arrive(Core& core) {
    FinishAll(core);
    if (core.check != nullptr) {
        core.check->NextRound();
    }
    if (!WaitAllCores(*core.run)) {
        Fail("sync-all", "SyncAll", "not every core reaches this barrier: some cores ended before it");
    }
}

}  // namespace

int64_t BlockIdx() { return Current().index; }
int64_t BlockNum() { return Current().run->block_dim; }
uint64_t TilingKey() { return Current().run->tiling_key; }

void TaskType(int type) {
    Core& core = Current();
    core.task_type = type;
    const char* name = type == KERNEL_TYPE_AIV_ONLY ? "KERNEL_TYPE_AIV_ONLY"
                       : type == KERNEL_TYPE_MIX_AIV_1_0 ? "KERNEL_TYPE_MIX_AIV_1_0" : nullptr;
    if (name != nullptr && core.run->architecture != nullptr && Lacks(*core.run, name)) {
        Fail("sync-type", "KERNEL_TASK_TYPE_DEFAULT", "architecture %s has no kernels of the type %s",
             core.run->architecture->name, name);
    }
}

void SyncAllCores() {
    Core& core = Current();
    CheckCall(core, "SyncAll()");
    if (core.task_type == KERNEL_TYPE_AIV_ONLY) {
        Fail("sync-type", "SyncAll",
             "KERNEL_TYPE_AIV_ONLY kernels cannot synchronise in hardware; declare KERNEL_TYPE_MIX_AIV_1_0");
    }
    Arrive(core);
}

void SyncAllSoft(const GmView& gm, const UbView& ub, int32_t used_cores) {
    Core& core = Current();
    const uint32_t cores = core.run->block_dim;
    if (used_cores != 0 && used_cores != static_cast<int32_t>(cores)) {
        Fail("sync-cores", "SyncAll", "usedCores %d: only all %u cores (or 0) are supported", used_cores, cores);
    }
    const uint64_t bytes = uint64_t{cores} * 32;
    if (gm.size != 0 && gm.size * sizeof(int32_t) < bytes) {
        Fail("sync-workspace", "SyncAll", "gmWorkspace has %llu bytes; %u cores take %llu",
             static_cast<unsigned long long>(gm.size * sizeof(int32_t)), cores, static_cast<unsigned long long>(bytes));
    }
    CheckGm(core, "SyncAll", gm, bytes, true);
    CheckUb(core, "SyncAll", "ubWorkspace", ub, bytes, 32);
    FinishAll(core);
    // The cores count in the workspace, and its contents decide whether they wait. The twin counts elsewhere and leaves
    // it 0, so that every core finds all of it cleared.
    const uint8_t* end = gm.addr + bytes;
    const uint8_t* odd = std::find_if(gm.addr, const_cast<uint8_t*>(end), [](uint8_t byte) { return byte != 0; });
    if (odd != end) {
        const unsigned first = static_cast<unsigned>(odd - gm.addr) / 32 * 32;
        Report("sync-workspace", "SyncAll", "gmWorkspace must be 0 before the first SyncAll; bytes [%u, %u) are not", first,
               first + 32);
    }
    if (core.check != nullptr && gm.region != 0) {
        const std::lock_guard<std::mutex> lock(core.run->mutex);
        core.run->meetings.insert({gm.addr, end});
    }
    Arrive(core);
}

}  // namespace autofuse_twin
