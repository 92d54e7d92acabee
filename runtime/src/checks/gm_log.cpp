// Accesses of all cores to GM that the kernel writes: unordered overlaps, bytes written twice or never.
//
// Every core keeps a list of its accesses; the lists are compared once, after the last core. For a kernel with disjoint
// stores this costs one sort.
#include <algorithm>
#include <set>
#include <utility>

#include "checks/checked.h"
#include "core.h"

namespace autofuse_twin {
namespace {

constexpr uint64_t kMaxPairs = 20000000;  // a kernel with more overlaps has been reported already

struct Interval {
    uint64_t lo, hi;  // from the start of the region
    uint32_t access;
};

bool Before(const GmAccess& a, const GmAccess& b) {
    return a.core == b.core ? b.start.at[a.pipe] >= a.seq : a.round < b.round;
}

class Sweep {
public:
    Sweep(Run& run, uint32_t region) : run_(run), region_((*run.regions)[region - 1]) {
        for (uint32_t i = 0; i < run.gm.size(); ++i) {
            const GmAccess& a = run.gm[i];
            if (a.region != region || Clears(a)) {
                continue;
            }
            std::vector<Interval>& list = a.write ? writes_ : reads_;
            for (uint32_t r = 0; r < a.rows; ++r) {
                const uint64_t lo = static_cast<uint64_t>(a.lo - region_.lo) + r * a.pitch;
                list.push_back({lo, lo + a.bytes, i});
            }
        }
        const auto by_start = [](const Interval& x, const Interval& y) { return x.lo < y.lo; };
        std::sort(writes_.begin(), writes_.end(), by_start);
        std::sort(reads_.begin(), reads_.end(), by_start);
    }

    void Check() {
        for (size_t i = 0; i < writes_.size() && pairs_ < kMaxPairs; ++i) {
            for (size_t k = i + 1; k < writes_.size() && writes_[k].lo < writes_[i].hi; ++k) {
                BothWrite(writes_[i], writes_[k]);
            }
        }
        uint64_t longest = 0;
        for (const Interval& r : reads_) {
            longest = std::max(longest, r.hi - r.lo);
        }
        for (size_t i = 0; i < writes_.size() && !reads_.empty() && pairs_ < kMaxPairs; ++i) {
            const Interval& w = writes_[i];
            const uint64_t from = w.lo > longest ? w.lo - longest : 0;
            auto r = std::lower_bound(reads_.begin(), reads_.end(), from,
                                      [](const Interval& x, uint64_t lo) { return x.lo < lo; });
            for (; r != reads_.end() && r->lo < w.hi; ++r) {
                if (r->hi > w.lo) {
                    ReadAndWrite(*r, w);
                }
            }
        }
        if (!run_.aborted) {
            Coverage();
        }
    }

private:
    const GmAccess& Of(const Interval& i) const { return run_.gm[i.access]; }

    // True if a core clears the workspace of a software SyncAll: each core does, before it gets there. Any other access
    // to it is a finding.
    bool Clears(const GmAccess& a) {
        for (const auto& [first, end] : run_.meetings) {
            for (uint32_t r = 0; r < a.rows; ++r) {
                const uint8_t* lo = a.lo + r * a.pitch;
                if (lo >= end || lo + a.bytes <= first) {
                    continue;
                }
                if (a.write && a.round == 0 && a.rows == 1 && lo >= first && lo + a.bytes <= end) {
                    return true;
                }
                if (First(4, a, a)) {
                    const uint64_t at = static_cast<uint64_t>(lo - region_.lo);
                    Finding f = Start("sync-workspace", a, at, at + a.bytes);
                    f.message = Range(at, at + a.bytes) + " are touched, where all cores meet";
                    AddFinding(run_, std::move(f));
                }
            }
        }
        return false;
    }

    Finding Start(const char* code, const GmAccess& a, uint64_t lo, uint64_t hi) const {
        Finding f;
        f.code = code;
        f.core = a.core;
        f.cores = 1;
        f.api = a.api;
        f.site = a.place;
        f.place = region_.name;
        f.begin = static_cast<int64_t>(lo);
        f.end = static_cast<int64_t>(hi);
        return f;
    }

    static void Other(Finding& f, const GmAccess& b) {
        f.has_other = true;
        f.other_api = b.api;
        f.other_core = b.core;
        f.other_site = b.place;
    }

    // Among findings that differ only in their bytes, report the first.
    bool First(int kind, const GmAccess& a, const GmAccess& b) {
        const uint64_t lines = static_cast<uint64_t>(a.place.line) << 32 | b.place.line;
        return seen_.insert({static_cast<uint64_t>(kind) << 32 | a.core, lines}).second;
    }

    std::string Range(uint64_t lo, uint64_t hi) const {
        return "bytes [" + std::to_string(lo) + ", " + std::to_string(hi) + ") of GM tensor '" + region_.name + "'";
    }

    // Of two accesses, the later one is the finding: in the order of the program, or of the cores.
    static bool Later(const GmAccess& a, const GmAccess& b) {
        if (a.core != b.core) {
            return a.core > b.core;
        }
        return a.place.count != b.place.count ? a.place.count > b.place.count : a.seq > b.seq;
    }

    void BothWrite(const Interval& x, const Interval& y) {
        ++pairs_;
        const GmAccess& a = Of(x);
        const GmAccess& b = Of(y);
        if (x.access == y.access || (a.atomic && b.atomic)) {
            if (x.access != y.access || a.atomic) {
                return;
            }
        }
        const bool ordered = x.access == y.access || Before(a, b) || Before(b, a);
        if (ordered && (region_.use & AUTOFUSE_TWIN_GM_ONCE) == 0) {
            return;
        }
        const bool swap = Later(a, b);
        const GmAccess& first = swap ? b : a;
        const GmAccess& second = swap ? a : b;
        if (!First(ordered ? 0 : 1, second, first)) {
            return;
        }
        const uint64_t lo = std::max(x.lo, y.lo);
        const uint64_t hi = std::min(x.hi, y.hi);
        if (!ordered) {
            Finding f = Start("race", second, lo, hi);
            Other(f, first);
            f.message = Range(lo, hi) + " are written by core " + std::to_string(second.core) + " and, with nothing to order the two, by " +
                        Who(first, second);
            AddFinding(run_, std::move(f));
            return;
        }
        Finding f = Start("gm-twice", second, lo, hi);
        Other(f, first);
        f.message = Range(lo, hi) + " are written again; core " + std::to_string(first.core) + " had written them";
        AddFinding(run_, std::move(f));
    }

    static std::string Who(const GmAccess& first, const GmAccess& second) {
        if (first.core == second.core) {
            return std::string("the same core on ") + PipeText(first.pipe) +
                   (first.pipe == second.pipe ? "; PipeBarrier is missing between them" : "");
        }
        return "core " + std::to_string(first.core) + (first.write && second.write ? "" : "; SyncAll is missing between them");
    }

    void ReadAndWrite(const Interval& r, const Interval& w) {
        ++pairs_;
        const GmAccess& read = Of(r);
        const GmAccess& write = Of(w);
        if (Before(read, write) || Before(write, read)) {
            return;
        }
        if (!First(2, read, write)) {
            return;
        }
        const uint64_t lo = std::max(r.lo, w.lo);
        const uint64_t hi = std::min(r.hi, w.hi);
        Finding f = Start("race", read, lo, hi);
        Other(f, write);
        f.message = Range(lo, hi) + " are read by core " + std::to_string(read.core) + " and, with nothing to order the two, written by " +
                    Who(write, read);
        AddFinding(run_, std::move(f));
    }

    void Coverage() {
        const uint64_t size = static_cast<uint64_t>(region_.hi - region_.lo);
        if ((region_.use & AUTOFUSE_TWIN_GM_COMPLETE) != 0) {
            uint64_t missing = 0;
            uint64_t gap_lo = 0;
            uint64_t gap_hi = 0;
            uint64_t at = 0;
            const auto gap = [&](uint64_t to) {
                if (to > at) {
                    gap_lo = missing == 0 ? at : gap_lo;
                    gap_hi = missing == 0 ? to : gap_hi;
                    missing += to - at;
                }
            };
            for (const Interval& w : writes_) {
                gap(w.lo);
                at = std::max(at, w.hi);
            }
            gap(size);
            if (missing != 0) {
                Finding f;
                f.code = "gm-unwritten";
                f.core = -1;
                f.cores = 1;
                f.api = "kernel";
                f.place = region_.name;
                f.begin = static_cast<int64_t>(gap_lo);
                f.end = static_cast<int64_t>(gap_hi);
                f.message = std::to_string(missing) + " of " + std::to_string(size) + " bytes of GM tensor '" + region_.name +
                            "' are not written by any core, first " + Range(gap_lo, gap_hi);
                AddFinding(run_, std::move(f));
            }
        }
        if ((region_.use & AUTOFUSE_TWIN_GM_SCRATCH) != 0) {
            std::vector<Interval> covered;
            for (const Interval& w : writes_) {
                if (!covered.empty() && w.lo <= covered.back().hi) {
                    covered.back().hi = std::max(covered.back().hi, w.hi);
                } else {
                    covered.push_back(w);
                }
            }
            for (const Interval& r : reads_) {
                auto c = std::upper_bound(covered.begin(), covered.end(), r.lo,
                                          [](uint64_t lo, const Interval& x) { return lo < x.lo; });
                const uint64_t to = c == covered.begin() ? 0 : std::prev(c)->hi;
                if (to < r.hi && First(3, Of(r), Of(r))) {
                    const uint64_t lo = std::max(r.lo, to);
                    Finding f = Start("gm-uninit", Of(r), lo, r.hi);
                    f.message = Range(lo, r.hi) + " are read, but no core writes them";
                    AddFinding(run_, std::move(f));
                }
            }
        }
    }

    Run& run_;
    const Region& region_;
    std::vector<Interval> writes_, reads_;
    std::set<std::pair<uint64_t, uint64_t>> seen_;
    uint64_t pairs_ = 0;
};

}  // namespace

void CheckGmAccesses(Run& run) {
    for (uint32_t i = 1; i <= run.regions->size(); ++i) {
        if (((*run.regions)[i - 1].use & AUTOFUSE_TWIN_GM_WRITABLE) != 0) {
            Sweep(run, i).Check();
        }
    }
    run.gm.clear();
}

}  // namespace autofuse_twin
