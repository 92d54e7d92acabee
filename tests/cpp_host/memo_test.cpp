// Threads that look the same few calls up and keep them again and again.  A hit must be what belongs to all of the key;
// exit status 1 if one was not, or if there was none.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "autofuse_tiling_memo.h"

namespace {

// Three and a half words, as tiling data has them.
struct Data {
    int64_t first;
    int64_t second;
    int64_t third;
    uint32_t last;
};

using Key = autofuse::MemoKey<2>;

constexpr int64_t kShapes = 61;  // more than there are entries
autofuse::Memo<Data, 2> g_memo;
std::atomic<int64_t> g_hits{0};
std::atomic<int64_t> g_wrong{0};

Data Answer(const Key& key)
{
    uint64_t mixed = 17;
    for (const int64_t word : key.words) {
        mixed = mixed * 1000003 + static_cast<uint64_t>(word);
    }
    const auto number = static_cast<int64_t>(mixed);
    return {number, number ^ 0x5555, ~number, static_cast<uint32_t>(mixed)};
}

void Work(int64_t seed)
{
    for (int64_t i = 0; i < 200000; ++i) {
        const int64_t at = (i * 7 + seed * 13 + i / 1000) % kShapes;
        const int64_t sizes[2] = {at / 8 + 1, at % 8};
        ResLimit limit = {};
        limit.aiv_num = static_cast<uint32_t>(at % 3);
        limit.ub_size = static_cast<uint32_t>(at % 2);
        const Key key(sizes, at % 5 - 1, at % 7 == 0 ? nullptr : &limit);
        const Data want = Answer(key);
        Data found = {};
        if (g_memo.Find(key, &found)) {
            ++g_hits;
            const bool same = found.first == want.first && found.second == want.second && found.third == want.third &&
                              found.last == want.last;
            g_wrong += same ? 0 : 1;
        }
        if (i % 3 == 0) {
            g_memo.Keep(key, want);
        }
    }
}

// What differs in one word only, or lacks a limit, is another call.
bool OneWordTellsThemApart()
{
    static autofuse::Memo<Data, 2> memo;
    const int64_t sizes[2] = {5, 6};
    const int64_t other[2] = {5, 7};
    ResLimit cores = {};
    cores.aiv_num = 3;
    ResLimit ub = {};
    ub.ub_size = 3;
    const Key keys[] = {Key(sizes, -1, nullptr), Key(other, -1, nullptr), Key(sizes, 0, nullptr), Key(sizes, -1, &cores),
                        Key(sizes, -1, &ub)};
    bool ok = true;
    Data found = {};
    for (const Key& key : keys) {
        ok = ok && !memo.Find(key, &found);
        memo.Keep(key, Answer(key));
        ok = ok && memo.Find(key, &found) && found.first == Answer(key).first;
    }
    ResLimit nothing = {};
    return ok && memo.Find(Key(sizes, -1, &nothing), &found) && found.first == Answer(keys[0]).first;
}

}  // namespace

int main()
{
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < 4; ++i) {
        threads.emplace_back(Work, i);
    }
    for (std::thread& t : threads) {
        t.join();
    }
    const bool apart = OneWordTellsThemApart();
    if (g_wrong != 0 || g_hits == 0 || !apart) {
        std::printf("%lld wrong of %lld hits, keys apart: %d\n", static_cast<long long>(g_wrong),
                    static_cast<long long>(g_hits), apart ? 1 : 0);
        return 1;
    }
    return 0;
}
