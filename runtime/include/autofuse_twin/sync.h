// Flags, barriers, core identity, mask registers. Source: Ascend C public documentation.
//
// In program order, flags and barriers change no result; their pairing is checked. Checked mode derives from them which
// accesses are ordered, and its scheduler delays instructions as far as they allow.
#ifndef AUTOFUSE_TWIN_SYNC_H
#define AUTOFUSE_TWIN_SYNC_H

#include "pipe.h"

#define KERNEL_TASK_TYPE_DEFAULT(value) ::autofuse_twin::TaskType(static_cast<int>(value))

namespace AscendC {

template <HardEvent event> inline void SetFlag(int32_t eventID AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::FlagSet(static_cast<uint8_t>(event), eventID);
}
template <HardEvent event> inline void WaitFlag(int32_t eventID AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::FlagWait(static_cast<uint8_t>(event), eventID);
}
template <pipe_t pipe> inline void PipeBarrier(AUTOFUSE_TWIN_HERE_ONLY) {
    static_assert(pipe != PIPE_S, "PipeBarrier: PIPE_S is not allowed");
    ::autofuse_twin::BarrierOf(pipe);
}
// Hardware barrier over all cores; needs a task type that starts the scheduler (not KERNEL_TYPE_AIV_ONLY).
template <bool isAIVOnly = true> inline void SyncAll(AUTOFUSE_TWIN_HERE_ONLY) { ::autofuse_twin::SyncAllCores(); }
// Software barrier: 32 bytes per core in a zeroed GM workspace and in UB. usedCores 0 means all.
template <bool isAIVOnly = true>
inline void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                    const int32_t usedCores = 0 AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::SyncAllSoft(gmWorkspace.View(), ubWorkspace.View(), usedCores);
}

// GM is coherent in the twin; the call has no effect.
template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}

inline int64_t GetBlockIdx() { return ::autofuse_twin::BlockIdx(); }
inline int64_t GetBlockNum() { return ::autofuse_twin::BlockNum(); }
inline int64_t GetSubBlockIdx() { return 0; }

inline void SetMaskCount() { ::autofuse_twin::MaskModeSet(true); }
inline void SetMaskNorm() { ::autofuse_twin::MaskModeSet(false); }
inline void ResetMask() { ::autofuse_twin::MaskReset(); }
template <typename T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
    ::autofuse_twin::MaskSet(maskHigh, maskLow, mode == MaskMode::COUNTER ? 0 : sizeof(T));
}
template <typename T, MaskMode mode = MaskMode::NORMAL> inline void SetVectorMask(int32_t len) {
    if (mode == MaskMode::COUNTER) {
        ::autofuse_twin::MaskSet(0, static_cast<uint32_t>(len), 0);
        return;
    }
    const uint64_t n = static_cast<uint32_t>(len);
    const uint64_t all = ~static_cast<uint64_t>(0);
    const uint64_t low = n >= 64 ? all : (static_cast<uint64_t>(1) << n) - 1;
    const uint64_t high = n >= 128 ? all : (n > 64 ? (static_cast<uint64_t>(1) << (n - 64)) - 1 : 0);
    ::autofuse_twin::MaskSet(high, low, sizeof(T));
}

}  // namespace AscendC

#endif
