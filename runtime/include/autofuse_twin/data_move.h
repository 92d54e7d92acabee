// Copies between GM and UB, and inside UB. Source: Ascend C public documentation.
//
// DataCopy(count) moves count * sizeof(T) rounded DOWN to 32 bytes. DataCopyPad moves any number of bytes.
#ifndef AUTOFUSE_TWIN_DATA_MOVE_H
#define AUTOFUSE_TWIN_DATA_MOVE_H

#include "tensor.h"

namespace AscendC {

template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyGmToUb(dst.View(), src.View(), sizeof(T), count);
}
template <typename T> inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyUbToGm(dst.View(), src.View(), ::autofuse_twin::DtOf<T>::value, count);
}
template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyUbToUb(dst.View(), src.View(), sizeof(T), count);
}
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyGmToUbBlocks(dst.View(), src.View(), sizeof(T), repeatParams);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyUbToGmBlocks(dst.View(), src.View(), ::autofuse_twin::DtOf<T>::value, repeatParams);
}
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CopyUbToUbBlocks(dst.View(), src.View(), repeatParams);
}

template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                        const DataCopyPadExtParams<T>& padParams AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::PadGmToUb(dst.View(), src.View(), sizeof(T), dataCopyParams,
                               {padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                                ::autofuse_twin::Bits(padParams.paddingValue)});
}
template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::PadUbToGm(dst.View(), src.View(), ::autofuse_twin::DtOf<T>::value, dataCopyParams);
}
// Older forms: DataCopyParams with blockLen in bytes; the GM-side stride in bytes, the UB-side one in blocks.
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& dataCopyParams,
                        const DataCopyPadParams& padParams AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::PadGmToUb(dst.View(), src.View(), sizeof(T),
                               {dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcStride,
                                dataCopyParams.dstStride, 0},
                               {padParams.isPad, padParams.leftPadding, padParams.rightPadding, padParams.paddingValue});
}
template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& dataCopyParams
    AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::PadUbToGm(dst.View(), src.View(), ::autofuse_twin::DtOf<T>::value,
                               {dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcStride,
                                dataCopyParams.dstStride, 0});
}

// Atomic accumulation of all following UB -> GM copies, until SetAtomicNone.
template <typename T> inline void SetAtomicAdd(AUTOFUSE_TWIN_HERE_ONLY) {
    static_assert(::autofuse_twin::kOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicAdd: A2 supports int8_t, int16_t, half, bfloat16_t, int32_t, float");
    ::autofuse_twin::AtomicSet(1, ::autofuse_twin::DtOf<T>::value);
}
template <typename T> inline void SetAtomicMax(AUTOFUSE_TWIN_HERE_ONLY) {
    static_assert(::autofuse_twin::kOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicMax: A2 supports int8_t, int16_t, half, bfloat16_t, int32_t, float");
    ::autofuse_twin::AtomicSet(2, ::autofuse_twin::DtOf<T>::value);
}
template <typename T> inline void SetAtomicMin(AUTOFUSE_TWIN_HERE_ONLY) {
    static_assert(::autofuse_twin::kOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicMin: A2 supports int8_t, int16_t, half, bfloat16_t, int32_t, float");
    ::autofuse_twin::AtomicSet(3, ::autofuse_twin::DtOf<T>::value);
}
inline void SetAtomicNone(AUTOFUSE_TWIN_HERE_ONLY) { ::autofuse_twin::AtomicSet(0, ::autofuse_twin::Dt::F32); }

}  // namespace AscendC

#endif
