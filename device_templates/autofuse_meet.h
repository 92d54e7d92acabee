// A barrier of all cores in software, for chips without hardware support for SyncAll().
#ifndef AUTOFUSE_MEET_H
#define AUTOFUSE_MEET_H

#include "kernel_operator.h"

namespace autofuse {

// Values of `first`.
constexpr bool kFirstMeeting = true;
constexpr bool kLaterMeeting = false;

// Blocks until all cores have arrived and completed their stores. `place`: 32 bytes of GM for each core of the launch,
// reserved for this. All barriers of a launch share it. With `first`, every core clears all of it, as SyncAll requires
// of kernels that provide the memory themselves; a core that is already waiting sets its mark again.
template <bool first>
__aicore__ inline void MeetAll(GM_ADDR place) {
  const uint32_t marks = static_cast<uint32_t>(AscendC::GetBlockNum()) * 8;
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECOUT> buffer;
  pipe.InitBuffer(buffer, static_cast<uint32_t>(marks * sizeof(int32_t)));
  AscendC::LocalTensor<int32_t> local = buffer.Get<int32_t>();
  AscendC::GlobalTensor<int32_t> global;
  global.SetGlobalBuffer((__gm__ int32_t*)place, marks);
  if (first) {
    AscendC::Duplicate(local, static_cast<int32_t>(0), static_cast<int32_t>(marks));
    const auto id = pipe.AllocEventID<AscendC::HardEvent::V_MTE3>();
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(id);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(id);
    AscendC::DataCopy(global, local, marks);
  }
  AscendC::SyncAll(global, local, static_cast<int32_t>(AscendC::GetBlockNum()));
}

}  // namespace autofuse

#endif
