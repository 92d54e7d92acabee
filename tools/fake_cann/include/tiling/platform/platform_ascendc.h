// What the tiling of an operator may ask about the chip, as the public documentation of CANN has it.
#ifndef AUTOFUSE_FAKE_PLATFORM_ASCENDC_H
#define AUTOFUSE_FAKE_PLATFORM_ASCENDC_H

#include <cstdint>

#include "register/op_def_registry.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6 };

class PlatformAscendC {
public:
    PlatformAscendC() = delete;
    explicit PlatformAscendC(fe::PlatFormInfos* infos) : infos_(infos) {}
    uint32_t GetCoreNumAiv() const { return infos_->vector_cores; }
    void GetCoreMemSize(const CoreMemType& kind, uint64_t& bytes) const {
        bytes = kind == CoreMemType::UB ? infos_->ub_bytes : 0;
    }
    uint32_t GetLibApiWorkSpaceSize() const { return infos_->system_workspace; }

private:
    fe::PlatFormInfos* infos_;
};

}  // namespace platform_ascendc

#endif
