// TPipe, queues, buffers and event flags.
#include <algorithm>
#include <cstring>

#include "core.h"
#include "checks/record.h"

namespace autofuse_twin {
namespace {

constexpr uint8_t kGmPos = static_cast<uint8_t>(AscendC::TPosition::GM);

const char* StateName(SlotState s) {
    static const char* const names[] = {"FREE", "OCCUPIED", "ENQUE", "DEQUE"};
    return names[static_cast<int>(s)];
}

uint8_t UbPos(const Queue& q) { return q.src == kGmPos ? q.dst : q.src; }

Core& CoreWithPipe(const char* api) {
    Core& core = Current();
    if (core.pipe == nullptr) {
        Fail("pipe-missing", api, "no TPipe is alive on this core");
    }
    return core;
}

std::string QueueName(const Core& core, int id) {
    const Queue& q = core.queues[id];
    return std::string(PosName(UbPos(q))) + " queue " + std::to_string(id);
}

std::string States(const Queue& q) {
    std::string out;
    for (const Slot& s : q.slots) {
        out += out.empty() ? "" : ", ";
        out += StateName(s.state);
    }
    return out;
}

// The queue of a handle; `id` becomes its number in this layout of UB.
Queue& QueueAt(Core& core, int& id, const char* api) {
    id -= core.first_queue;
    if (id < 0 || static_cast<size_t>(id) >= core.queues.size()) {
        Fail("que-uninit", api, "the queue was not initialised by TPipe::InitBuffer (or the pipe was reset since)");
    }
    return core.queues[id];
}

uint32_t SlotOf(const Core& core, const Queue& q, int id, const UbView& view, const char* api) {
    for (uint32_t i = 0; i < q.slots.size(); ++i) {
        if (q.slots[i].view.lo == view.lo && view.lo != nullptr) {
            return i;
        }
    }
    Fail("que-foreign", api, "the tensor belongs to %s, not to %s",
         view.lo == nullptr ? "no buffer" : BufferName(core, view).c_str(), QueueName(core, id).c_str());
}

uint64_t RoundBlock(uint64_t bytes) { return (bytes + 31) / 32 * 32; }

// All buffers with their sizes, for the message of an overflow.
std::string Inventory(const Core& core) {
    std::string out;
    for (const BufferInfo& b : core.buffers) {
        UbView v;
        v.lo = b.lo;
        out += (out.empty() ? "" : ", ") + BufferName(core, v) + " " + std::to_string(b.hi - b.lo);
    }
    return out.empty() ? "none" : out;
}

uint8_t* Reserve(Core& core, uint64_t bytes, const std::string& what) {
    if (bytes == 0) {
        Fail("ub-capacity", "InitBuffer", "%s has length 0", what.c_str());
    }
    const uint64_t size = RoundBlock(bytes);
    if (core.used + size > core.run->ub_size) {
        Fail("ub-capacity", "InitBuffer",
             "%s needs %llu bytes at UB byte %llu, usable UB is %llu: %llu bytes too many; buffers so far: %s",
             what.c_str(), static_cast<unsigned long long>(size), static_cast<unsigned long long>(core.used),
             static_cast<unsigned long long>(core.run->ub_size),
             static_cast<unsigned long long>(core.used + size - core.run->ub_size), Inventory(core).c_str());
    }
    if (core.buffers.size() >= kMaxBuffers) {
        Fail("buf-limit", "InitBuffer", "%s would be buffer %zu; a TPipe manages at most %u", what.c_str(),
             core.buffers.size() + 1, kMaxBuffers);
    }
    uint8_t* p = core.ub + core.used;
    core.used += size;
    core.dirty = core.used > core.dirty ? core.used : core.dirty;
    return p;
}

// The tensor of a block. It is kept, since copying members that were just written would stall.
const UbView& ViewOf(const Queue& q, Slot& slot, uint32_t elem) {
    if (slot.elem != elem) {
        slot.elem = elem;
        slot.view.size = static_cast<uint32_t>(q.len / elem);
    }
    return slot.view;
}

// The pipe that fills blocks of a queue, and the one that uses them.
struct Pipes {
    PipeId from, to;
};
Pipes PipesOf(const Queue& q, Link link) {
    switch (link) {
        case Link::kMte2V: return {kPipeMte2, kPipeV};
        case Link::kVMte3: return {kPipeV, kPipeMte3};
        case Link::kMte2Mte3: return {kPipeMte2, kPipeMte3};
        default: break;
    }
    if (q.src == kGmPos) {
        return {kPipeMte2, kPipeV};
    }
    return {q.dst == kGmPos ? kPipeV : kPipeMte2, kPipeMte3};
}

// The flags of a queue in checked mode: one pipe sets them, the other one waits.
void SetFor(Core& core, PipeId pipe, Clock& clock, uint32_t& token) {
    clock = core.check->Release(pipe);
    token = core.order == nullptr ? 0 : core.order->Set(pipe);
    if (core.check->record != nullptr) {
        token = core.check->record->Set(pipe);
    }
}
void WaitFor(Core& core, PipeId pipe, const Clock& clock, uint32_t token, Record::Cause cause) {
    core.check->Acquire(pipe, clock);
    if (core.check->record != nullptr) {
        core.check->record->Wait(pipe, token, cause);
    }
    if (core.order != nullptr) {
        core.order->Wait(pipe, token);
    }
}

// The two sides of an event, or kPipes for units that are not modelled.
Pipes PipesOf(uint8_t event) {
    using E = AscendC::HardEvent;
    switch (static_cast<E>(event)) {
        case E::MTE2_V: return {kPipeMte2, kPipeV};
        case E::V_MTE2: return {kPipeV, kPipeMte2};
        case E::MTE3_V: return {kPipeMte3, kPipeV};
        case E::V_MTE3: return {kPipeV, kPipeMte3};
        case E::V_V: return {kPipeV, kPipeV};
        case E::MTE3_MTE2: return {kPipeMte3, kPipeMte2};
        case E::MTE2_MTE3: return {kPipeMte2, kPipeMte3};
        case E::S_V: return {kPipeS, kPipeV};
        case E::V_S: return {kPipeV, kPipeS};
        case E::S_MTE2: return {kPipeS, kPipeMte2};
        case E::MTE2_S: return {kPipeMte2, kPipeS};
        case E::S_MTE3: return {kPipeS, kPipeMte3};
        case E::MTE3_S: return {kPipeMte3, kPipeS};
        default: return {kPipes, kPipes};
    }
}

}  // namespace

namespace {

// A TPipe resets the control register to its defaults, except for one bit.
void InitControl(Core& core) { core.control = kControlDefault | (core.control & kControlKept); }

}  // namespace

void PipeConstruct(void* pipe) {
    Core& core = Current();
    if (core.pipe != nullptr) {
        Fail("pipe-second", "TPipe", "a TPipe is already alive on this core");
    }
    core.pipe = pipe;
    InitControl(core);
}

void ReleasePipe(Core& core) {
    uint64_t age = core.first_age;
    for (size_t id = 0; id < core.queues.size(); ++id) {
        const Queue& q = core.queues[id];
        for (uint32_t i = 0; i < q.slots.size(); ++i) {
            age = std::max(age, q.slots[i].view.age);
            if (q.slots[i].state != SlotState::kFree) {
                Report("que-leak", "FreeTensor", "%s block %u is %s when the pipe ends; every block must be FREE",
                       QueueName(core, static_cast<int>(id)).c_str(), i, StateName(q.slots[i].state));
            }
        }
    }
    core.first_age = age + 1;
    core.first_queue += static_cast<int>(core.queues.size());
    core.queues.clear();
    core.buffers.clear();
    core.used = 0;
    if (core.check != nullptr) {
        core.check->Disown();
    }
}

void PipeDestroy(void* pipe) {
    Core* core = g_current;
    if (core == nullptr || core->pipe != pipe) {
        return;
    }
    if (!core->aborted) {
        // Destroying a pipe waits for all units. A call that fails only when it executes is reported here; it does not
        // end the kernel, since no exception may leave a destructor.
        try {
            if (core->vf != nullptr) {
                LeaveVf(*core);
            }
            FinishAll(*core);
        } catch (const CoreAbort&) {
        }
        ReleasePipe(*core);
    }
    core->pipe = nullptr;
}

void PipeReset(void* pipe, bool) {
    Core& core = Current();
    if (core.pipe != nullptr && core.pipe != pipe) {
        Fail("pipe-second", "TPipe", "another TPipe is already alive on this core");
    }
    core.pipe = pipe;
    FinishAll(core);
    ReleasePipe(core);
    std::memset(core.reserved, 0, sizeof(core.reserved));
    InitControl(core);
}

void* PipePointer() { return CoreWithPipe("GetTPipePtr").pipe; }

int PipeAddQueue(uint8_t src, uint8_t dst, int32_t depth, uint32_t num, uint64_t len) {
    Core& core = CoreWithPipe("InitBuffer");
    const int id = static_cast<int>(core.queues.size());
    const uint8_t pos = src == kGmPos ? dst : src;
    if (num == 0) {
        Fail("que-buf-limit", "InitBuffer", "%s queue %d has 0 buffers", PosName(pos), id);
    }
    uint32_t total = num;
    for (const Queue& q : core.queues) {
        total += UbPos(q) == pos ? static_cast<uint32_t>(q.slots.size()) : 0u;
    }
    if (total > kMaxQueueBuffers) {
        Fail("que-buf-limit", "InitBuffer", "queues at %s would use %u buffers (event ids); the limit is %u", PosName(pos),
             total, kMaxQueueBuffers);
    }
    Queue q{src, dst, depth, RoundBlock(len), {}, {}, 0};
    for (uint32_t i = 0; i < num; ++i) {
        uint8_t* p = Reserve(core, len, std::string(PosName(pos)) + " queue " + std::to_string(id) + " block " + std::to_string(i));
        Slot slot{};
        slot.view.addr = slot.view.lo = p;
        slot.view.hi = p + q.len;
        slot.view.pos = pos;
        slot.view.age = core.first_age;
        q.slots.push_back(slot);
        if (core.check != nullptr) {
            core.check->Own(static_cast<uint32_t>(p - core.ub), q.len, id, i, pos);
        }
        core.buffers.push_back({p, p + q.len, id, i, pos});
    }
    core.queues.push_back(std::move(q));
    return core.first_queue + id;
}

UbView PipeAddBuf(uint8_t pos, uint64_t len) {
    Core& core = CoreWithPipe("InitBuffer");
    uint32_t index = 0;
    for (const BufferInfo& b : core.buffers) {
        index += b.queue < 0 ? 1u : 0u;
    }
    uint8_t* p = Reserve(core, len, std::string(PosName(pos)) + " TBuf " + std::to_string(index));
    UbView v;
    v.addr = v.lo = p;
    v.hi = p + RoundBlock(len);
    v.pos = pos;
    v.age = core.first_age;
    if (core.check != nullptr) {
        core.check->Own(static_cast<uint32_t>(p - core.ub), RoundBlock(len), -1, index, pos);
    }
    core.buffers.push_back({v.lo, v.hi, -1, index, pos});
    return v;
}

UbView BufGet(const UbView& buf, uint64_t offset, uint64_t bytes, uint32_t elem) {
    Core& core = Current();
    if (buf.lo == nullptr) {
        Fail("buf-uninit", "TBuf::Get", "the TBuf was not initialised by TPipe::InitBuffer");
    }
    UbView v = buf;
    v.addr += offset;
    if (offset % 32 != 0) {
        Fail("ub-align", "TBuf::GetWithOffset", "offset %llu is not a multiple of 32", static_cast<unsigned long long>(offset));
    }
    CheckUb(core, "TBuf::Get", "the tensor", v, bytes, 32);
    v.size = static_cast<uint32_t>(bytes / elem);
    return v;
}

UbView QueueAlloc(int id, uint32_t elem) {
    Core& core = CoreWithPipe("AllocTensor");
    Queue& q = QueueAt(core, id, "AllocTensor");
    const uint32_t n = static_cast<uint32_t>(q.slots.size());
    for (uint32_t k = 0, i = q.next; k < n; ++k) {
        Slot& slot = q.slots[i];
        i = i + 1 == n ? 0 : i + 1;
        if (slot.state == SlotState::kFree) {
            slot.state = SlotState::kOccupied;
            q.next = i;
            if (core.check != nullptr) {
                WaitFor(core, PipesOf(q, Link::kQueue).from, slot.freed, slot.freed_flag, Record::kSlot);
                core.check->Fill(core, slot.view.lo, q.len, false);
            }
            return ViewOf(q, slot, elem);
        }
    }
    Fail("que-no-free", "AllocTensor", "%s has no FREE block (states: %s); the chip would wait forever",
         QueueName(core, id).c_str(), States(q).c_str());
}

void QueueEnQue(int id, const UbView& view, Link link) {
    Core& core = CoreWithPipe("EnQue");
    Queue& q = QueueAt(core, id, "EnQue");
    const uint32_t i = SlotOf(core, q, id, view, "EnQue");
    Slot& slot = q.slots[i];
    if (slot.state != SlotState::kOccupied && slot.state != SlotState::kDeque) {
        Fail("que-state", "EnQue", "%s block %u is %s; EnQue needs OCCUPIED or DEQUE", QueueName(core, id).c_str(), i,
             StateName(slot.state));
    }
    const size_t limit = q.depth == 0 ? q.slots.size() : static_cast<size_t>(q.depth);
    if (q.fifo.size() >= limit) {
        Fail("que-depth", "EnQue", "%s already holds %zu tensors, its depth is %zu", QueueName(core, id).c_str(),
             q.fifo.size(), limit);
    }
    if (slot.view.age != view.age) {
        Fail("que-state", "EnQue", "the tensor was given back by FreeTensor; %s block %u is another tensor now",
             QueueName(core, id).c_str(), i);
    }
    slot.state = SlotState::kEnque;
    if (core.check != nullptr) {
        SetFor(core, PipesOf(q, link).from, slot.filled, slot.filled_flag);
    }
    q.fifo.Push(i);
}

UbView QueueDeQue(int id, uint32_t elem, Link link) {
    Core& core = CoreWithPipe("DeQue");
    Queue& q = QueueAt(core, id, "DeQue");
    if (q.fifo.empty()) {
        Fail("que-state", "DeQue", "%s is empty (states: %s); DeQue needs a block in state ENQUE",
             QueueName(core, id).c_str(), States(q).c_str());
    }
    Slot& slot = q.slots[q.fifo.Pop()];
    slot.state = SlotState::kDeque;
    if (core.check != nullptr) {
        WaitFor(core, PipesOf(q, link).to, slot.filled, slot.filled_flag, Record::kData);
    }
    return ViewOf(q, slot, elem);
}

void QueueFree(int id, const UbView& view) {
    Core& core = CoreWithPipe("FreeTensor");
    Queue& q = QueueAt(core, id, "FreeTensor");
    const uint32_t i = SlotOf(core, q, id, view, "FreeTensor");
    Slot& slot = q.slots[i];
    if (slot.state == SlotState::kFree) {
        Fail("que-state", "FreeTensor", "%s block %u is already FREE", QueueName(core, id).c_str(), i);
    }
    if (slot.view.age != view.age) {
        Fail("que-state", "FreeTensor", "the tensor was given back already; %s block %u is another tensor now",
             QueueName(core, id).c_str(), i);
    }
    if (slot.state == SlotState::kEnque) {
        Fail("que-state", "FreeTensor", "%s block %u is still ENQUE; DeQue it before FreeTensor",
             QueueName(core, id).c_str(), i);
    }
    slot.state = SlotState::kFree;
    ++slot.view.age;
    if (core.check != nullptr) {
        SetFor(core, PipesOf(q, Link::kQueue).to, slot.freed, slot.freed_flag);
    }
}

int QueueCount(int id) { return static_cast<int>(QueueAt(CoreWithPipe("GetTensorCountInQue"), id, "GetTensorCountInQue").fifo.size()); }
bool QueueVacant(int id) {
    const Queue& q = QueueAt(CoreWithPipe("VacantInQue"), id, "VacantInQue");
    return q.fifo.size() < static_cast<size_t>(q.depth);
}
bool QueueIdle(int id) {
    for (const Slot& s : QueueAt(CoreWithPipe("HasIdleBuffer"), id, "HasIdleBuffer").slots) {
        if (s.state == SlotState::kFree) {
            return true;
        }
    }
    return false;
}

int EventAlloc(uint8_t event, bool reserve) {
    Core& core = CoreWithPipe(reserve ? "AllocEventID" : "FetchEventID");
    for (int i = 0; i < kEventIds; ++i) {
        if (!core.reserved[event][i]) {
            core.reserved[event][i] = reserve;
            return i;
        }
    }
    Fail("event-ids", reserve ? "AllocEventID" : "FetchEventID", "all %d ids of event %s are in use", kEventIds,
         EventName(event).c_str());
}

void EventRelease(uint8_t event, int id) {
    Core& core = CoreWithPipe("ReleaseEventID");
    if (id < 0 || id >= kEventIds || !core.reserved[event][id]) {
        Fail("event-ids", "ReleaseEventID", "id %d of event %s was not allocated", id, EventName(event).c_str());
    }
    core.reserved[event][id] = false;
}

void FlagSet(uint8_t event, int id) {
    Core& core = Current();
    if (id < 0 || id >= kEventIds) {
        Fail("flag-id", "SetFlag", "event id %d is outside of [0, %d)", id, kEventIds);
    }
    if (core.flags[event][id]) {
        Fail("flag-set", "SetFlag", "flag %s id %d is set twice without a WaitFlag between", EventName(event).c_str(), id);
    }
    core.flags[event][id] = true;
    const Pipes pipes = PipesOf(event);
    if (core.check != nullptr && pipes.from != kPipes) {
        SetFor(core, pipes.from, core.flag_clock[event][id], core.flag_token[event][id]);
    }
}

void FlagWait(uint8_t event, int id) {
    Core& core = Current();
    if (id < 0 || id >= kEventIds) {
        Fail("flag-id", "WaitFlag", "event id %d is outside of [0, %d)", id, kEventIds);
    }
    if (!core.flags[event][id]) {
        Fail("flag-wait", "WaitFlag", "flag %s id %d was not set; the chip would wait forever", EventName(event).c_str(), id);
    }
    core.flags[event][id] = false;
    const Pipes pipes = PipesOf(event);
    if (core.check != nullptr && pipes.to != kPipes) {
        WaitFor(core, pipes.to, core.flag_clock[event][id], core.flag_token[event][id], Record::kFlag);
    }
}

void BarrierOf(int pipe) {
    Core& core = Current();
    if (core.check == nullptr) {
        return;
    }
    if (pipe == PIPE_ALL) {
        FinishAll(core);
        return;
    }
    const PipeId id = pipe == PIPE_V ? kPipeV : (pipe == PIPE_MTE2 ? kPipeMte2 : (pipe == PIPE_MTE3 ? kPipeMte3 : kPipes));
    if (id == kPipes) {
        return;
    }
    core.check->Barrier(id);
    if (core.order != nullptr) {
        core.order->Barrier(id);
    }
}

}  // namespace autofuse_twin
