// Log of the host functions of a kernel: off unless AUTOFUSE_LOG_LEVEL or AutofuseSetLogger turns it on.  When off, it
// costs a call one atomic read.
#ifndef AUTOFUSE_LOG_H
#define AUTOFUSE_LOG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

// Receives one line without a trailing newline, on the thread of the call that it describes.
typedef void (*AutofuseLogger)(int32_t level, const char* text, void* user);

namespace autofuse {

enum LogLevel : int32_t {
    kLogOff = 0,
    kLogError = 1,  // calls that fail
    kLogInfo = 2,   // what the tiling function chose
    kLogDebug = 3   // launches
};

struct LogState {
    std::atomic<int32_t> level{-1};  // -1: AUTOFUSE_LOG_LEVEL not read yet
    std::atomic<AutofuseLogger> logger{nullptr};
    std::atomic<void*> user{nullptr};
};

// One per library: hidden, so that two libraries in one process do not share it.
__attribute__((visibility("hidden"))) inline LogState log_state;

// Reads AUTOFUSE_LOG_LEVEL; complains on stderr if it is not a level.
__attribute__((cold, noinline, visibility("hidden"))) inline int32_t LevelOfEnvironment()
{
    constexpr const char* kNames[] = {"off", "error", "info", "debug"};
    const char* const text = getenv("AUTOFUSE_LOG_LEVEL");
    int32_t level = text == nullptr || *text == '\0' ? kLogOff : -1;
    for (int32_t i = kLogOff; level < 0 && i <= kLogDebug; ++i) {
        if (strcmp(text, kNames[i]) == 0) {
            level = i;
        }
    }
    if (level < 0) {
        fputs("autofuse: AUTOFUSE_LOG_LEVEL is none of off, error, info, debug; nothing is logged\n", stderr);
        level = kLogOff;
    }
    int32_t before = -1;
    // AutofuseSetLogger may have set a level first.
    return log_state.level.compare_exchange_strong(before, level) ? level : before;
}

inline bool Logs(LogLevel level)
{
    const int32_t now = log_state.level.load(std::memory_order_relaxed);
    return __builtin_expect(now != kLogOff, 0) && (now < 0 ? LevelOfEnvironment() : now) >= level;
}

inline void LogLine(LogLevel level, const char* text)
{
    const AutofuseLogger logger = log_state.logger.load(std::memory_order_acquire);
    if (logger != nullptr) {
        logger(level, text, log_state.user.load(std::memory_order_relaxed));
    } else {
        fprintf(stderr, "autofuse: %s\n", text);
    }
}

struct LogSize {
    const char* name;
    int64_t value;
};

// Writes "KERNEL: FUNCTION(rows=4, cols=8)", truncated to 1023 characters; returns the length.
inline size_t LogHead(char (&text)[1024], const char* kernel, const char* function, std::initializer_list<LogSize> sizes)
{
    const auto left = [](size_t used) { return sizeof(text) - used; };
    const auto more = [](size_t used, int written) {
        const size_t end = used + static_cast<size_t>(written < 0 ? 0 : written);
        return end < sizeof(text) ? end : sizeof(text) - 1;
    };
    size_t used = more(0, snprintf(text, sizeof(text), "%s: %s(", kernel, function));
    const char* comma = "";
    for (const LogSize& s : sizes) {
        used = more(used, snprintf(text + used, left(used), "%s%s=%lld", comma, s.name, static_cast<long long>(s.value)));
        comma = ", ";
    }
    return more(used, snprintf(text + used, left(used), ")"));
}

// Logs the result of a tiling function.  `why`: the text of `rc`.
template <typename Data>
__attribute__((cold, noinline)) void LogTiling(const char* kernel, const char* function,
                                               std::initializer_list<LogSize> sizes, int64_t rc, const char* why,
                                               const Data* data, const uint32_t* workspace)
{
    char text[1024];
    const size_t used = LogHead(text, kernel, function, sizes);
    if (rc != 0) {
        snprintf(text + used, sizeof(text) - used, " returned %lld: %s", static_cast<long long>(rc), why);
        LogLine(kLogError, text);
    } else if (Logs(kLogInfo)) {
        snprintf(text + used, sizeof(text) - used, ": key %u, %u cores, %u bytes of workspace", data->tiling_key,
                 data->block_dim, *workspace);
        LogLine(kLogInfo, text);
    }
}

// Logs the result of a launch.
__attribute__((cold, noinline, visibility("hidden"))) inline void LogLaunch(const char* kernel, uint32_t key,
                                                                            uint32_t cores, int64_t rc)
{
    char text[1024];
    const bool failed = rc != 0;
    snprintf(text, sizeof(text), "%s: AutofuseLaunch of key %u on %u cores returned %lld", kernel, key, cores,
             static_cast<long long>(rc));
    if (failed || Logs(kLogDebug)) {
        LogLine(failed ? kLogError : kLogDebug, text);
    }
}

// Sets the function that receives the lines (null for stderr), and the most detailed level that is logged.
inline void SetLogger(AutofuseLogger logger, void* user, int32_t level)
{
    log_state.user.store(user, std::memory_order_relaxed);
    log_state.logger.store(logger, std::memory_order_release);
    log_state.level.store(level < kLogOff ? kLogOff : level, std::memory_order_relaxed);
}

}  // namespace autofuse

#endif
