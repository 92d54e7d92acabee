// Vector functions of Ascend 950 in the twin. Internal to the library.
//
// Without checks an operation computes immediately, in the bytes of the registers. In checked mode the operations of a
// vector function become nodes: their operands and results are kept apart from the register (a cell per value), so that
// the accesses to UB can execute in any order that registers and barriers allow, and the function as a whole when its
// pipe reaches it.
#ifndef AUTOFUSE_TWIN_SRC_REG_VF_H
#define AUTOFUSE_TWIN_SRC_REG_VF_H

#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "autofuse_twin/reg_types.h"
#include "core.h"

namespace autofuse_twin {

constexpr uint32_t kVl = 256;       // bytes of a register
constexpr uint32_t kPair = 2 * kVl;

// A value of a vector register: its bytes, and their definedness (null: all defined).
struct RegCell {
    uint8_t* data;
    uint8_t* known;
    uint32_t node;
};
// A value of a mask register. may: bits that can be set; known: bits that are defined; fixed: data-independent, with
// `may` as its value.
struct MaskCell {
    uint64_t bits[4];
    uint64_t may[4];
    uint64_t known[4];
    uint32_t node;
    bool fixed;
};

enum NodeKind : uint8_t { kCompute, kRead, kWrite, kFence };
struct Node {
    NodeKind kind = kCompute;
    uint8_t src = 0, dst = 0;  // of a fence: 1 for stores, 2 for loads
    bool done = false;
    uint8_t count = 0;
    uint32_t deps[6];
    const void* name = nullptr;  // the loaded or stored register
    const char* api = nullptr;
    Place place;
    void (*run)(void*) = nullptr;
    alignas(16) unsigned char data[192];
};

struct Arena {
    std::vector<std::unique_ptr<uint8_t[]>> chunks;
    size_t used = 0, size = 0;
    uint8_t* Take(size_t bytes);
};

struct Vf {
    uint64_t id = 0;
    uint32_t base = 0;  // number of the first node
    uint32_t fence_load = 0, fence_store = 0, fence_reuse = 0;  // last barrier store-load, store-store, load-store
    uint32_t style = 0;
    bool late = false;  // nodes execute at the end
    std::vector<Node> nodes;
    Arena arena;
    std::vector<uint8_t> read, written;  // per 32-byte block of UB

    Node& At(uint32_t seq) { return nodes[seq - base]; }
    void Run();
    void RunNode(uint32_t seq);
    void Demand(uint32_t seq);
};

struct RegState {
    uint64_t next_id = 1;
    uint32_t next_seq = 1;
    const void* frame = nullptr;
    const void* caller = nullptr;
    bool named = false;  // inside of asc_vf_call
    std::vector<uint32_t> store_seq, load_seq;  // the last store and load of every byte
    std::vector<std::unique_ptr<Vf>> issued;
    std::set<std::pair<uint32_t, uint32_t>> told;
    int streams[2] = {0, 0};
};

// One operation.
class RegOp {
public:
    explicit RegOp(const char* api);

    bool Checked() const { return vf_ != nullptr; }
    Core& core() { return core_; }
    Vf* vf() { return vf_; }
    const char* api() const { return api_; }
    bool Late() const { return vf_ != nullptr && vf_->late; }

    const uint8_t* Read(const RegRef& r);
    const uint64_t* Read(const MaskRef& m);
    uint8_t* Write(const RegRef& r);
    uint64_t* Write(const MaskRef& m);
    // The cells, in checked mode only and after Read or Write.
    RegCell* Cell(const RegRef& r) { return static_cast<RegCell*>(r.slot->cell); }
    MaskCell* Cell(const MaskRef& m) { return static_cast<MaskCell*>(m.slot->cell); }
    uint8_t* Known(RegCell* cell, uint32_t bytes);

    // A range of UB that the operation reads, or writes. Alignment 1 and more. Returns the number of bytes from `at` on
    // that are in the buffer; a load may extend past it, up to the end of UB.
    uint64_t Load(const void* at, uint64_t bytes, uint32_t align, const void* name);
    void Store(void* at, uint64_t bytes, uint32_t align, const void* name);
    // [at, end of its buffer).
    uint64_t Rest(const void* at, uint32_t align);

    template <typename F> void Do(const F& f) {
        static_assert(std::is_trivially_copyable<F>::value && sizeof(F) <= sizeof(Node::data), "an operation is small");
        if (vf_ != nullptr) {
            Enter();
            if (vf_->late) {
                Node& n = vf_->nodes.back();
                std::memcpy(n.data, &f, sizeof(F));
                n.run = [](void* data) { (*static_cast<F*>(data))(); };
                return;
            }
        }
        f();
    }

private:
    void Enter();
    void Depend(uint32_t seq);
    void Note(uint32_t at, uint64_t bytes, bool write, const void* name);
    void Tell(uint32_t other, uint32_t lo, const char* what, const char* barrier, const UbView& view, uint64_t bytes);
    bool Reaches(uint32_t from, uint32_t to);
    UbView Owner(const void* at, uint32_t align);

    Core& core_;
    Vf* vf_;
    const char* api_;
    uint32_t seq_ = 0;
    uint8_t count_ = 0;
    NodeKind kind_ = kCompute;
    const void* name_ = nullptr;
    uint32_t deps_[6];
    friend void RegBarrier(int src, int dst);
};

inline bool MaskHas(const uint64_t* bits, uint32_t bit) { return (bits[bit >> 6] >> (bit & 63u) & 1u) != 0; }
inline void MaskSetBit(uint64_t* bits, uint32_t bit) { bits[bit >> 6] |= uint64_t{1} << (bit & 63u); }
inline uint32_t MaskStep(const RegRef& r) { return kVl / r.lanes; }

// The defined lanes of a result: those defined in all sources where the mask is on, and those that are off.
void KnowLanes(RegOp& op, const RegRef& dst, RegCell* const* sources, int n, MaskCell* mask, RegCell* old);

}  // namespace autofuse_twin

#endif
