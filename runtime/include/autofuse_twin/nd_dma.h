// The multi-dimensional copy of Ascend 950 from GM to UB (NDDMA). Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_ND_DMA_H
#define AUTOFUSE_TWIN_ND_DMA_H

#include "tensor.h"

namespace AscendC {

// unsetPad: the loops give the paddings. The twin supports 0 only.
struct NdDmaConfig {
    static constexpr uint16_t unsetPad = 0xffff;
    bool isNearestValueMode = false;
    uint16_t loopLpSize = unsetPad;
    uint16_t loopRpSize = unsetPad;
    bool ascOptimize = false;
};

// Loop 0 is the innermost; strides in elements. A source stride of 0 repeats the element.
template <uint8_t dim> struct NdDmaLoopInfo {
    static_assert(dim >= 1 && dim <= 5, "NdDmaLoopInfo: 1 to 5 loops");
    uint64_t loopSrcStride[dim] = {0};
    uint32_t loopDstStride[dim] = {0};
    uint32_t loopSize[dim] = {0};
    uint8_t loopLpSize[dim] = {0};
    uint8_t loopRpSize[dim] = {0};
};

template <typename T, uint8_t dim> struct NdDmaParams {
    NdDmaLoopInfo<dim> loopInfo;
    T constantValue;
};

template <typename T, uint8_t dim, const NdDmaConfig& config>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const NdDmaParams<T, dim>& params
    AUTOFUSE_TWIN_HERE) {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "DataCopy: elements have 1, 2, 4 or 8 bytes");
    static_assert(!config.isNearestValueMode, "DataCopy: the twin has no multi-dimensional copy that pads with nearest values");
    static_assert(config.loopLpSize == 0 || config.loopLpSize == NdDmaConfig::unsetPad,
                  "DataCopy: the twin has no multi-dimensional copy with paddings");
    static_assert(config.loopRpSize == 0 || config.loopRpSize == NdDmaConfig::unsetPad,
                  "DataCopy: the twin has no multi-dimensional copy with paddings");
    const NdDmaLoopInfo<dim>& l = params.loopInfo;
    ::autofuse_twin::DimsGmToUb(dst.View(), src.View(), sizeof(T),
                                {dim, l.loopSrcStride, l.loopDstStride, l.loopSize, l.loopLpSize, l.loopRpSize});
}

// Empties the core's cache for multi-dimensional copies; nothing else keeps it coherent.
inline void NdDmaDci(AUTOFUSE_TWIN_HERE_ONLY) { ::autofuse_twin::DimsClean(); }

}  // namespace AscendC

#endif
