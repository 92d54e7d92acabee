// Minimal test support: CHECK macros, findings of the last launch, and a kernel with one UB buffer per operand.
#ifndef AUTOFUSE_TWIN_TESTS_CHECK_H
#define AUTOFUSE_TWIN_TESTS_CHECK_H

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "autofuse_twin/launch.h"

namespace check {

inline int& Failures() {
    static int failures = 0;
    return failures;
}

inline void Fail(const char* file, int line, const std::string& text) {
    ++Failures();
    std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

inline std::string Findings() {
    std::string out(autofuse_twin_findings_json(nullptr, 0) + 1, '\0');
    autofuse_twin_findings_json(&out[0], out.size());
    out.pop_back();
    return out;
}

// Launches and expects exactly one finding with this code ("" = none).
template <typename F>
void ExpectFinding(const char* file, int line, const char* code, uint32_t block_dim, F body) {
    const int64_t rc = autofuse_twin::Launch(block_dim, body);
    const std::string text = Findings();
    const bool clean = *code == 0;
    if ((rc == 0) != clean || (clean && text != "[]") ||
        (!clean && text.find("{\"code\": \"" + std::string(code) + "\"") == std::string::npos)) {
        Fail(file, line, "expected finding '" + std::string(code) + "', got rc " + std::to_string(rc) + " " + text);
    }
}

}  // namespace check

#define CHECK(cond) \
    do { \
        if (!(cond)) check::Fail(__FILE__, __LINE__, "failed: " #cond); \
    } while (false)
#define CHECK_EQ(a, b) \
    do { \
        const auto check_a = (a); \
        const auto check_b = (b); \
        if (!(check_a == check_b)) { \
            check::Fail(__FILE__, __LINE__, #a " == " #b ": " + std::to_string(check_a) + " and " + std::to_string(check_b)); \
        } \
    } while (false)
#define EXPECT_FINDING(code, block_dim, ...) check::ExpectFinding(__FILE__, __LINE__, code, block_dim, __VA_ARGS__)
#define EXPECT_CLEAN(block_dim, ...) check::ExpectFinding(__FILE__, __LINE__, "", block_dim, __VA_ARGS__)

#endif
