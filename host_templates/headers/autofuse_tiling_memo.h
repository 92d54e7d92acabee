// Cache of a kernel's most recent tilings.  Lock-free and without allocation.
//
// An entry holds everything that a choice depends on (sizes, forced key, granted cores and UB), and a lookup compares
// all of it, so a hit is the choice that the search made for the very same call.  `turn` is odd while an entry is being
// written: a reader that finds it odd, or changed when it is done, reports a miss; a writer that finds it odd leaves
// the entry alone.  This also holds for a signal handler that interrupts a call.
#ifndef AUTOFUSE_TILING_MEMO_H
#define AUTOFUSE_TILING_MEMO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <atomic>
#include <type_traits>

#include "autofuse_tiling_solver.h"

namespace autofuse {

// Everything that a choice depends on: equal keys have equal choices.
template <int kSizes>
struct MemoKey {
    MemoKey(const int64_t (&sizes)[kSizes], int64_t forced, const ResLimit* limit)
    {
        uint64_t mixed = 0;
        for (int i = 0; i < kSizes; ++i) {
            words[i] = sizes[i];
        }
        words[kSizes] = forced;
        words[kSizes + 1] = limit == nullptr ? 0 : static_cast<int64_t>(limit->aiv_num) << 32 | limit->ub_size;
        for (const int64_t word : words) {
            mixed = (mixed ^ static_cast<uint64_t>(word)) * UINT64_C(0x9E3779B97F4A7C15);
            mixed ^= mixed >> 32;
        }
        hash = mixed;
    }

    static constexpr int kWords = kSizes + 2;
    int64_t words[kWords];
    uint64_t hash;
};

// With static storage, an object needs no code at startup.
template <typename Data, int kSizes>
class Memo {
public:
    static_assert(std::is_trivially_copyable<Data>::value, "entries are copied word by word");
    using Key = MemoKey<kSizes>;

    // Fills `data` and returns true if the cache has the choice for `key`.
    bool Find(const Key& key, Data* data) const
    {
        const Entry* const set = entries_ + First(key);
        for (uint64_t way = 0; way < kWays; ++way) {
            if (set[way].Read(key, data)) {
                return true;
            }
        }
        return false;
    }

    // Stores the choice for `key`, evicting another if the set is full, unless another thread is writing to that entry.
    void Keep(const Key& key, const Data& data)
    {
        Entry* const set = entries_ + First(key);
        for (uint64_t way = 0; way < kWays; ++way) {
            if (set[way].turn.load(std::memory_order_relaxed) == 0) {
                set[way].Write(key, data);
                return;
            }
        }
        // Two threads may pick the same entry; then one of them does not store its choice.
        const uint64_t next = next_.load(std::memory_order_relaxed);
        next_.store(next + 1, std::memory_order_relaxed);
        set[next % kWays].Write(key, data);
    }

private:
    static constexpr uint64_t kWays = 4;  // entries that may hold a key
    static constexpr uint64_t kSets = 8;
    static constexpr size_t kDataWords = (sizeof(Data) + sizeof(int64_t) - 1) / sizeof(int64_t);

    static size_t First(const Key& key)
    {
        return key.hash % kSets * kWays;
    }

    struct Entry {
        std::atomic<uint64_t> turn{0};  // 0: empty
        std::atomic<int64_t> words[Key::kWords + kDataWords] = {};

        bool Read(const Key& key, Data* data) const
        {
            const uint64_t before = turn.load(std::memory_order_acquire);
            if (before == 0 || before % 2 != 0) {
                return false;
            }
            for (int i = 0; i < Key::kWords; ++i) {
                if (words[i].load(std::memory_order_acquire) != key.words[i]) {
                    return false;
                }
            }
            Data found;
            for (size_t i = 0; i < kDataWords; ++i) {
                const int64_t word = words[Key::kWords + i].load(std::memory_order_acquire);
                const size_t at = i * sizeof(word);
                memcpy(reinterpret_cast<char*>(&found) + at, &word, i + 1 < kDataWords ? sizeof(word) : sizeof(Data) - at);
            }
            if (turn.load(std::memory_order_acquire) != before) {
                return false;
            }
            *data = found;
            return true;
        }

        void Write(const Key& key, const Data& data)
        {
            uint64_t before = turn.load(std::memory_order_relaxed);
            if (before % 2 != 0 || !turn.compare_exchange_strong(before, before + 1, std::memory_order_acq_rel)) {
                return;
            }
            int64_t from[kDataWords] = {};
            memcpy(from, &data, sizeof(Data));
            for (int i = 0; i < Key::kWords; ++i) {
                words[i].store(key.words[i], std::memory_order_release);
            }
            for (size_t i = 0; i < kDataWords; ++i) {
                words[Key::kWords + i].store(from[i], std::memory_order_release);
            }
            turn.store(before + 2, std::memory_order_release);
        }
    };

    Entry entries_[kSets * kWays];
    std::atomic<uint64_t> next_{0};
};

}  // namespace autofuse

#endif
