// Vector functions: their operations as nodes, the order of their accesses to UB, and their execution.
#include "reg/vf.h"

#include <algorithm>
#include <cstring>

#include "autofuse_twin/reg_types.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kUbBlock = 32;
constexpr size_t kChunkBytes = 1u << 18;

RegState& State(Core& core) {
    if (core.reg == nullptr) {
        core.reg = std::make_shared<RegState>();
    }
    return *core.reg;
}

Vf* Open(Core& core) {
    RegState& s = State(core);
    if (s.store_seq.empty()) {
        s.store_seq.resize(kUbPhysical);
        s.load_seq.resize(kUbPhysical);
    }
    s.issued.push_back(std::make_unique<Vf>());
    Vf* vf = s.issued.back().get();
    vf->id = s.next_id++;
    vf->base = s.next_seq;
    vf->late = core.order != nullptr;
    vf->read.resize(kUbPhysical / kUbBlock);
    vf->written.resize(kUbPhysical / kUbBlock);
    // Each seed chooses another order, for each function.
    const uint64_t mix = (core.run->seed * 0x9e3779b97f4a7c15ull + vf->id * 0xd1342543de82ef95ull) >> 33;
    vf->style = static_cast<uint32_t>(mix % 4);
    core.vf = vf;
    return vf;
}

}  // namespace

uint8_t* Arena::Take(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (used + bytes > size) {
        size = std::max(kChunkBytes, bytes + 64);
        chunks.push_back(std::make_unique<uint8_t[]>(size));
        used = (64 - reinterpret_cast<uintptr_t>(chunks.back().get()) % 64) % 64;
    }
    uint8_t* out = chunks.back().get() + used;
    used += bytes;
    return out;
}

// ---- execution ----

void Vf::RunNode(uint32_t seq) {
    Node& n = At(seq);
    if (!n.done) {
        n.done = true;
        if (n.run != nullptr) {
            n.run(n.data);
        }
    }
}

// Runs a node after its dependences.
void Vf::Demand(uint32_t seq) {
    std::vector<uint32_t> stack{seq};
    while (!stack.empty()) {
        Node& n = At(stack.back());
        bool ready = true;
        for (uint8_t i = 0; i < n.count && !n.done; ++i) {
            if (!At(n.deps[i]).done) {
                stack.push_back(n.deps[i]);
                ready = false;
            }
        }
        if (ready) {
            RunNode(stack.back());
            stack.pop_back();
        }
    }
}

// Four legal orders: program order; stores as late as barriers allow, in order or reversed; loads as late as registers
// and barriers allow.
void Vf::Run() {
    const uint32_t end = base + static_cast<uint32_t>(nodes.size());
    if (style == 3) {
        for (uint32_t seq = base; seq < end; ++seq) {
            Node& n = At(seq);
            if (n.kind == kWrite) {
                Demand(seq);
            } else if (n.kind == kFence && (n.src & 2u) != 0) {
                for (uint32_t k = base; k < seq; ++k) {
                    if (At(k).kind == kRead) {
                        Demand(k);
                    }
                }
            }
        }
    } else {
        std::vector<uint32_t> stores;
        const auto flush = [&] {
            if (style == 2) {
                std::reverse(stores.begin(), stores.end());
            }
            for (const uint32_t seq : stores) {
                RunNode(seq);
            }
            stores.clear();
        };
        for (uint32_t seq = base; seq < end; ++seq) {
            Node& n = At(seq);
            if (n.kind == kWrite && style != 0) {
                stores.push_back(seq);
            } else if (n.kind == kFence) {
                if ((n.src & 1u) != 0) {
                    flush();
                }
            } else {
                RunNode(seq);
            }
        }
        flush();
    }
    std::vector<Node>().swap(nodes);
    arena = Arena{};
}

// The operations of a function by name, in order of first use.
static std::vector<std::pair<const char*, uint64_t>> OperationsOf(const Vf& vf) {
    std::vector<std::pair<const char*, uint64_t>> found;
    for (const Node& n : vf.nodes) {
        const auto at = std::find_if(found.begin(), found.end(),
                                     [&n](const auto& f) { return std::strcmp(f.first, n.api) == 0; });
        if (at == found.end()) {
            found.emplace_back(n.api, 1);
        } else {
            ++at->second;
        }
    }
    return found;
}

void LeaveVf(Core& core) {
    Vf* vf = core.vf;
    core.vf = nullptr;
    RegState& s = State(core);
    s.frame = s.caller = nullptr;
    // The bytes it accessed, as runs of blocks inside one buffer.
    std::vector<UbView> views;
    std::vector<Span> spans;
    const auto collect = [&](const std::vector<uint8_t>& blocks, bool write) {
        for (size_t b = 0; b < blocks.size(); ++b) {
            if (blocks[b] == 0) {
                continue;
            }
            uint8_t* at = core.ub + b * kUbBlock;
            const auto owner = std::find_if(core.buffers.begin(), core.buffers.end(),
                                            [at](const BufferInfo& i) { return at >= i.lo && at < i.hi; });
            if (owner == core.buffers.end()) {
                continue;
            }
            size_t e = b + 1;
            while (e < blocks.size() && blocks[e] != 0 && core.ub + e * kUbBlock < owner->hi) {
                ++e;
            }
            UbView view;
            view.addr = at;
            view.lo = owner->lo;
            view.hi = owner->hi;
            view.pos = owner->pos;
            view.age = core.first_age;
            if (owner->queue >= 0) {
                view.age = core.queues[static_cast<size_t>(owner->queue)].slots[owner->index].view.age;
            }
            views.push_back(view);
            spans.push_back({nullptr, write ? "a store" : "a load", write, (e - b) * kUbBlock});
            b = e - 1;
        }
    };
    collect(vf->written, true);
    collect(vf->read, false);
    for (size_t i = 0; i < spans.size(); ++i) {
        spans[i].view = &views[i];
    }
    core.check->Issue(core, "a vector function", kPipeV, spans.data(), static_cast<int>(spans.size()), 0, 0);
    if (core.check->record != nullptr) {
        core.check->record->Registers(OperationsOf(*vf));
    }
    if (vf->late) {
        Execute(core, kPipeV, [vf] { vf->Run(); });
    } else {
        s.issued.clear();
    }
}

void RegLeave() {
    if (g_current != nullptr && g_current->vf != nullptr) {
        LeaveVf(*g_current);
    }
}

void RegCall(bool begin) {
    Core& core = Current();  // closes the previous one
    if (core.check != nullptr) {
        State(core).named = begin;
    }
}

// An operation with another frame, or another caller, belongs to another vector function.
void RegSiteSet(int line, const char* file, const void* frame, const void* caller) {
    SiteSet(line, file);
    Core* core = g_current;
    if (core == nullptr || core->check == nullptr) {
        return;
    }
    RegState& s = State(*core);
    if (s.named) {
        return;
    }
    if (core->vf != nullptr && (s.frame != frame || s.caller != caller)) {
        LeaveVf(*core);
    }
    s.frame = frame;
    s.caller = caller;
}

void RegStream(bool load, int change) {
    if (g_current == nullptr || g_current->check == nullptr) {
        return;
    }
    int& n = State(*g_current).streams[load ? 0 : 1];
    n = std::max(0, n + change);
    if (change > 0 && n > 4) {
        Report("reg-streams", load ? "UnalignRegForLoad" : "UnalignRegForStore",
               "%d registers for unaligned %s at a time; there are 4", n, load ? "loads" : "stores");
    }
}

void RegBarrier(int src, int dst) {
    RegOp op("LocalMemBar");
    if (!op.Checked()) {
        return;
    }
    constexpr int store = 0, load = 1, all = 4;
    op.kind_ = kFence;
    op.Do([] {});
    Vf& vf = *op.vf();
    Node& n = vf.nodes.back();
    n.src = static_cast<uint8_t>(src == store ? 1 : src == load ? 2 : src == all ? 3 : 0);
    n.dst = static_cast<uint8_t>(dst == store ? 1 : dst == load ? 2 : dst == all ? 3 : 0);
    const uint32_t seq = op.seq_;
    if ((n.src & 1u) != 0 && (n.dst & 2u) != 0) vf.fence_load = seq;
    if ((n.src & 1u) != 0 && (n.dst & 1u) != 0) vf.fence_store = seq;
    if ((n.src & 2u) != 0 && (n.dst & 1u) != 0) vf.fence_reuse = seq;
    if (n.dst == 0) {
        n.src = 0;
    }
}

// ---- an operation ----

RegOp::RegOp(const char* api) : core_(CurrentInside()), vf_(nullptr), api_(api) {
    if (core_.check != nullptr) {
        vf_ = core_.vf != nullptr ? core_.vf : Open(core_);
        seq_ = core_.reg->next_seq;
    }
}

void RegOp::Enter() {
    ++core_.reg->next_seq;
    vf_->nodes.emplace_back();
    Node& n = vf_->nodes.back();
    n.kind = kind_;
    n.count = count_;
    std::copy(deps_, deps_ + count_, n.deps);
    n.name = name_;
    n.api = api_;
    n.place = core_.check->Site();
}

void RegOp::Depend(uint32_t seq) {
    if (seq >= vf_->base && std::find(deps_, deps_ + count_, seq) == deps_ + count_ && count_ < 6) {
        deps_[count_++] = seq;
    }
}

uint8_t* RegOp::Known(RegCell* cell, uint32_t bytes) {
    if (cell->known == nullptr) {
        cell->known = vf_->arena.Take(bytes);
        std::memset(cell->known, 0xff, bytes);
    }
    return cell->known;
}

const uint8_t* RegOp::Read(const RegRef& r) {
    if (vf_ == nullptr) {
        return r.data;
    }
    const uint32_t bytes = r.elem * r.lanes;
    if (r.slot->owner != vf_->id) {
        // Nothing was written to it in this function.
        auto* cell = reinterpret_cast<RegCell*>(vf_->arena.Take(sizeof(RegCell)));
        *cell = {vf_->arena.Take(bytes), vf_->arena.Take(bytes), 0};
        std::memset(cell->data, 0xff, bytes);
        std::memset(cell->known, 0, bytes);
        *r.slot = {cell, vf_->id};
    }
    Depend(Cell(r)->node);
    return Cell(r)->data;
}

const uint64_t* RegOp::Read(const MaskRef& m) {
    if (vf_ == nullptr) {
        return m.bits;
    }
    if (m.slot->owner != vf_->id) {
        auto* cell = reinterpret_cast<MaskCell*>(vf_->arena.Take(sizeof(MaskCell)));
        std::memset(cell, 0, sizeof(*cell));
        std::fill_n(cell->bits, 4, ~uint64_t{0});
        std::fill_n(cell->may, 4, ~uint64_t{0});
        *m.slot = {cell, vf_->id};
    }
    Depend(Cell(m)->node);
    return Cell(m)->bits;
}

uint8_t* RegOp::Write(const RegRef& r) {
    if (vf_ == nullptr) {
        return r.data;
    }
    auto* cell = reinterpret_cast<RegCell*>(vf_->arena.Take(sizeof(RegCell)));
    *cell = {vf_->arena.Take(r.elem * r.lanes), nullptr, seq_};
    *r.slot = {cell, vf_->id};
    return cell->data;
}

uint64_t* RegOp::Write(const MaskRef& m) {
    if (vf_ == nullptr) {
        return m.bits;
    }
    auto* cell = reinterpret_cast<MaskCell*>(vf_->arena.Take(sizeof(MaskCell)));
    std::memset(cell, 0, sizeof(*cell));
    std::fill_n(cell->known, 4, ~uint64_t{0});
    cell->node = seq_;
    *m.slot = {cell, vf_->id};
    return cell->bits;
}

// ---- accesses to UB ----

UbView RegOp::Owner(const void* address, uint32_t align) {
    uint8_t* at = const_cast<uint8_t*>(static_cast<const uint8_t*>(address));
    const int64_t offset = at - core_.ub;
    if (at < core_.ub || offset >= static_cast<int64_t>(core_.run->ub_size)) {
        Fail("ub-oob", api_, "the address lies outside of UB, which has %llu bytes",
             static_cast<unsigned long long>(core_.run->ub_size));
    }
    if (static_cast<uint64_t>(offset) % align != 0) {
        Fail("ub-align", api_, "UB byte %lld is not a multiple of %u, as this access needs", static_cast<long long>(offset),
             align);
    }
    UbView view;
    view.addr = at;
    for (const BufferInfo& b : core_.buffers) {
        if (at >= b.lo && at < b.hi) {
            view.lo = b.lo;
            view.hi = b.hi;
            break;
        }
    }
    return view;
}

// True if `from` depends on `to`, through registers.
bool RegOp::Reaches(uint32_t from, uint32_t to) {
    std::vector<uint32_t> stack{from};
    std::set<uint32_t> seen;
    while (!stack.empty()) {
        const uint32_t seq = stack.back();
        stack.pop_back();
        if (seq == to) {
            return true;
        }
        if (seq < to || !seen.insert(seq).second) {
            continue;
        }
        const Node& n = vf_->At(seq);
        stack.insert(stack.end(), n.deps, n.deps + n.count);
    }
    return false;
}

void RegOp::Tell(uint32_t other, uint32_t lo, const char* what, const char* barrier, const UbView& view, uint64_t bytes) {
    const Node& n = vf_->At(other);
    const Place site = core_.check->Site();
    if (!core_.reg->told.insert({site.line, n.place.line}).second) {
        return;
    }
    Finding f = NewFinding(core_, "vf-order", api_);
    f.place = view.lo == nullptr ? "UB" : BufferName(core_, view);
    f.begin = view.addr - (view.lo == nullptr ? core_.ub : view.lo);
    f.end = f.begin + static_cast<int64_t>(bytes);
    f.has_other = true;
    f.other_api = n.api;
    f.other_core = core_.index;
    f.other_site = n.place;
    f.message = std::string(what) + " in " + f.place + ", UB byte " + std::to_string(lo) + ", which " + n.api +
                " of the same vector function may not have reached yet; LocalMemBar<" + barrier + "> is missing between them";
    AddFinding(*core_.run, std::move(f));
}

void RegOp::Note(uint32_t at, uint64_t bytes, bool write, const void* name) {
    RegState& s = *core_.reg;
    kind_ = write ? kWrite : kRead;
    name_ = name;
    UbView view;
    view.addr = core_.ub + at;
    for (const BufferInfo& b : core_.buffers) {
        if (view.addr >= b.lo && view.addr < b.hi) {
            view.lo = b.lo;
            view.hi = b.hi;
        }
    }
    bool told = false;
    uint32_t ordered = 0;  // a load already checked
    for (uint32_t i = at; i < at + bytes; ++i) {
        const uint32_t stored = s.store_seq[i];
        const uint32_t loaded = s.load_seq[i];
        if (!write) {
            if (stored >= vf_->base && stored > vf_->fence_load && stored != seq_ && !told) {
                Tell(stored, i, "reads what is written", "MemType::VEC_STORE, MemType::VEC_LOAD", view, bytes);
                told = true;
            }
            s.load_seq[i] = seq_;
            continue;
        }
        if (loaded >= vf_->base && loaded > vf_->fence_reuse && loaded != ordered && loaded > stored && !told) {
            // One register keeps its order, and so do dependents of the load.
            const Node& n = vf_->At(loaded);
            bool fine = name != nullptr && n.name == name;
            for (uint8_t k = 0; k < count_ && !fine; ++k) {
                fine = Reaches(deps_[k], loaded);
            }
            if (fine) {
                Depend(loaded);
                ordered = loaded;
            } else {
                Tell(loaded, i, "writes what is read", "MemType::VEC_LOAD, MemType::VEC_STORE", view, bytes);
                told = true;
            }
        }
        // A load that is ordered with both stores orders the stores.
        if (stored >= vf_->base && stored > vf_->fence_store && stored != seq_ && loaded < stored && !told) {
            Tell(stored, i, "writes what is written", "MemType::VEC_STORE, MemType::VEC_STORE", view, bytes);
            told = true;
        }
        s.store_seq[i] = seq_;
    }
    std::vector<uint8_t>& blocks = write ? vf_->written : vf_->read;
    if (bytes != 0) {
        std::fill(blocks.begin() + at / kUbBlock, blocks.begin() + static_cast<int64_t>((at + bytes - 1) / kUbBlock + 1),
                  uint8_t{1});
    }
}

uint64_t RegOp::Rest(const void* at, uint32_t align) {
    const UbView view = Owner(at, align);
    if (view.lo == nullptr) {
        Fail("ub-oob", api_, "UB byte %lld lies in no buffer", static_cast<long long>(view.addr - core_.ub));
    }
    return static_cast<uint64_t>(view.hi - view.addr);
}

uint64_t RegOp::Load(const void* at, uint64_t bytes, uint32_t align, const void* name) {
    const UbView view = Owner(at, align);
    const uint64_t offset = static_cast<uint64_t>(view.addr - core_.ub);
    if (bytes > core_.run->ub_size - offset) {
        Fail("ub-oob", api_, "reads UB bytes [%llu, %llu), and UB ends at %llu", static_cast<unsigned long long>(offset),
             static_cast<unsigned long long>(offset + bytes), static_cast<unsigned long long>(core_.run->ub_size));
    }
    const uint64_t own = view.lo == nullptr ? 0 : std::min<uint64_t>(bytes, static_cast<uint64_t>(view.hi - view.addr));
    if (vf_ != nullptr) {
        Note(static_cast<uint32_t>(offset), own, false, name);
    }
    return own;
}

void RegOp::Store(void* at, uint64_t bytes, uint32_t align, const void* name) {
    const uint64_t rest = Rest(at, align);
    const uint64_t offset = static_cast<uint64_t>(static_cast<uint8_t*>(at) - core_.ub);
    if (bytes > rest) {
        Fail("ub-oob", api_, "writes UB bytes [%llu, %llu), and the buffer ends at %llu",
             static_cast<unsigned long long>(offset), static_cast<unsigned long long>(offset + bytes),
             static_cast<unsigned long long>(offset + rest));
    }
    if (vf_ != nullptr) {
        Note(static_cast<uint32_t>(offset), bytes, true, name);
    }
}

// ---- definedness ----

void KnowLanes(RegOp& op, const RegRef& dst, RegCell* const* sources, int n, MaskCell* mask, RegCell* old) {
    if (!op.Checked()) {
        return;
    }
    const auto whole = [](const uint8_t* known, uint32_t bytes) {
        return std::all_of(known, known + bytes, [](uint8_t b) { return b == 0xff; });
    };
    bool all = old == nullptr || old->known == nullptr;
    for (int i = 0; i < n; ++i) {
        all = all && sources[i]->known == nullptr;
    }
    if (mask != nullptr) {
        all = all && std::all_of(mask->known, mask->known + 4, [](uint64_t w) { return w == ~uint64_t{0}; });
    }
    if (all) {
        return;
    }
    RegCell* cell = op.Cell(dst);
    const uint32_t step = MaskStep(dst);
    uint8_t* out = op.Known(cell, dst.elem * dst.lanes);
    for (uint32_t lane = 0; lane < dst.lanes; ++lane) {
        const uint32_t at = lane * dst.elem;
        const bool may = mask == nullptr || MaskHas(mask->may, lane * step);
        bool known = mask == nullptr || !may || MaskHas(mask->known, lane * step);
        if (may) {
            for (int i = 0; i < n && known; ++i) {
                known = sources[i]->known == nullptr || whole(sources[i]->known + at, dst.elem);
            }
        }
        // If the mask is off, or may be, the old value stays.
        if (known && old != nullptr && old->known != nullptr && (!may || (mask != nullptr && !mask->fixed))) {
            known = whole(old->known + at, dst.elem);
        }
        std::memset(out + at, known ? 0xff : 0, dst.elem);
    }
}

}  // namespace autofuse_twin
