// Small kernels in two versions each: one with a fault, and one without it.
//
// Every kernel copies or computes over GM arrays `x` (input) and `y` (output) in tiles, written out call by call, so
// that a single call can be left out.
#ifndef AUTOFUSE_TWIN_TESTS_CHECKED_SUPPORT_H
#define AUTOFUSE_TWIN_TESTS_CHECKED_SUPPORT_H

#include "check.h"
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 64;   // floats
constexpr uint32_t kTiles = 6;   // of one core
constexpr uint64_t kSeeds = 24;  // tested orders

struct Arrays {
    std::vector<float> x, y, w;

    explicit Arrays(uint32_t cores = 1) : x(cores * kTile * kTiles), y(x.size(), -1.0f), w(x.size(), -1.0f) {
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<float>(i + 1);
        }
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), x.size() * sizeof(float), "x", 0);
        autofuse_twin_gm_add(y.data(), y.size() * sizeof(float), "y",
                             AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_ONCE | AUTOFUSE_TWIN_GM_COMPLETE);
        autofuse_twin_gm_add(w.data(), w.size() * sizeof(float), "w", AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_SCRATCH);
    }
    GlobalTensor<float> X() { return Tensor(x); }
    GlobalTensor<float> Y() { return Tensor(y); }
    GlobalTensor<float> W() { return Tensor(w); }

private:
    static GlobalTensor<float> Tensor(std::vector<float>& v) {
        GlobalTensor<float> t;
        t.SetGlobalBuffer(v.data());
        return t;
    }
};

inline DataCopyExtParams Row(uint32_t floats) { return {1, floats * static_cast<uint32_t>(sizeof(float)), 0, 0, 0}; }
inline DataCopyPadExtParams<float> NoPad() { return {false, 0, 0, 0.0f}; }

// Launches in program order (seed 0) or in an order of the scheduler.
template <typename Kernel> std::string RunChecked(uint32_t cores, uint64_t seed, Arrays& arrays, Kernel kernel) {
    autofuse_twin_set_check(1, seed);
    autofuse_twin_set_threads(1);
    autofuse_twin::Launch(cores, [&] { kernel(arrays); });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_set_threads(0);
    return check::Findings();
}

inline bool HasCode(const std::string& findings, const char* code) {
    return findings.find("{\"code\": \"" + std::string(code) + "\"") != std::string::npos;
}

// kernel(arrays, fault). With the fault every seed reports the finding, without it none does. `changes`: for some seed
// the fault changes the numbers.
template <typename Kernel>
void Pair(const char* file, int line, const char* name, const char* code, bool changes, uint32_t cores, Kernel kernel) {
    std::vector<float> good;
    bool changed = false;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        Arrays clean(cores);
        const std::string none = RunChecked(cores, seed, clean, [&](Arrays& a) { kernel(a, false); });
        if (none != "[]") {
            check::Fail(file, line, std::string(name) + ", sound, seed " + std::to_string(seed) + ": " + none);
            return;
        }
        if (seed == 0) {
            good = clean.y;
        }
        if (clean.y != good) {
            check::Fail(file, line, std::string(name) + ", sound: seed " + std::to_string(seed) + " changes the numbers");
            return;
        }
        Arrays faulty(cores);
        const std::string found = RunChecked(cores, seed, faulty, [&](Arrays& a) { kernel(a, true); });
        if (!HasCode(found, code)) {
            check::Fail(file, line, std::string(name) + ", seed " + std::to_string(seed) + ": expected " + code + ", got " + found);
            return;
        }
        changed = changed || std::memcmp(faulty.y.data(), good.data(), good.size() * sizeof(float)) != 0;
    }
    if (changes && !changed) {
        check::Fail(file, line, std::string(name) + ": no seed makes the fault change the numbers");
    }
}

#define PAIR(name, code, changes, cores, ...) Pair(__FILE__, __LINE__, name, code, changes, cores, __VA_ARGS__)

#endif
