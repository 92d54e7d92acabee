// The control register of a core, and results that saturate or are truncated according to it.
#include "api/control.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "autofuse_twin/control.h"

namespace autofuse_twin {
namespace {

bool IsFloat(Dt dt) { return dt == Dt::F16 || dt == Dt::BF16 || dt == Dt::F32; }
bool IsSigned(Dt dt) { return dt == Dt::I8 || dt == Dt::I16 || dt == Dt::I32 || dt == Dt::I64; }

int64_t ReadInt(const uint8_t* at, Dt dt) {
    uint64_t v = 0;
    const uint32_t bytes = SizeOf(dt);
    std::memcpy(&v, at, bytes);
    const uint32_t unused = 64 - 8 * bytes;
    return IsSigned(dt) ? static_cast<int64_t>(v << unused) >> unused : static_cast<int64_t>(v);
}

// The low bits of an integral float.
uint64_t LowBits(float v, Dt dst) {
    const uint32_t bits = FloatBits(v);
    const uint32_t exponent = bits >> 23 & 0xffu;
    const bool negative = bits >> 31 != 0;
    if (exponent == 0xffu) {
        if ((bits & 0x7fffffu) != 0) {
            return 0;
        }
        const uint64_t top = ~uint64_t{0} >> (64 - 8 * SizeOf(dst) + (IsSigned(dst) ? 1 : 0));
        return negative ? (IsSigned(dst) ? ~top : 0) : top;
    }
    const uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint64_t mag = 0;
    if (exponent >= 150) {
        mag = exponent - 150 < 64 ? mantissa << (exponent - 150) : 0;
    } else if (exponent >= 127) {
        mag = mantissa >> (150 - exponent);
    }
    return negative ? 0 - mag : mag;
}

template <typename T, Op O> void Clamped(void* d, const void* a, const void* b, uint64_t imm, size_t n) {
    T scalar;
    std::memcpy(&scalar, &imm, sizeof(T));
    for (size_t i = 0; i < n; ++i) {
        T x;
        T y = scalar;
        std::memcpy(&x, static_cast<const T*>(a) + i, sizeof(T));
        if (b != nullptr) {
            std::memcpy(&y, static_cast<const T*>(b) + i, sizeof(T));
        }
        const int64_t p = x;
        const int64_t q = y;
        const int64_t exact = O == Op::Sub ? p - q : (O == Op::Add || O == Op::Adds ? p + q : p * q);
        const T held = static_cast<T>(std::min<int64_t>(
            std::max<int64_t>(exact, std::numeric_limits<T>::min()), std::numeric_limits<T>::max()));
        std::memcpy(static_cast<T*>(d) + i, &held, sizeof(T));
    }
}

template <Op O> ElementFn PickClamped(Dt dt) {
    switch (dt) {
        case Dt::I8: return Clamped<int8_t, O>;
        case Dt::U8: return Clamped<uint8_t, O>;
        case Dt::I16: return Clamped<int16_t, O>;
        case Dt::U16: return Clamped<uint16_t, O>;
        case Dt::I32: return Clamped<int32_t, O>;
        default: return nullptr;
    }
}

}  // namespace

void SaturateFloats(void* v, size_t n, Dt dt) {
    const uint32_t inf = dt == Dt::F16 ? 0x7c00u : 0x7f80u;
    for (size_t i = 0; i < n; ++i) {
        uint8_t* at = static_cast<uint8_t*>(v) + 2 * i;
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        const uint32_t mag = bits & 0x7fffu;
        if (mag >= inf) {
            bits = static_cast<uint16_t>(mag > inf ? 0 : (bits & 0x8000u) | (inf - 1));
            std::memcpy(at, &bits, 2);
        }
    }
}

ElementFn SaturatingIntegers(Op op, Dt dt) {
    switch (op) {
        case Op::Add: return PickClamped<Op::Add>(dt);
        case Op::Adds: return PickClamped<Op::Adds>(dt);
        case Op::Sub: return PickClamped<Op::Sub>(dt);
        case Op::Mul: return PickClamped<Op::Mul>(dt);
        case Op::Muls: return PickClamped<Op::Muls>(dt);
        default: return nullptr;
    }
}

void ClampIntegers(void* d, Dt dst, const void* s, Dt src, size_t n) {
    const uint32_t ed = SizeOf(dst);
    const uint32_t es = SizeOf(src);
    const int64_t top = ed == 8 ? std::numeric_limits<int64_t>::max()
                                : (int64_t{1} << (8 * ed - (IsSigned(dst) ? 1 : 0))) - 1;
    const int64_t bottom = IsSigned(dst) ? -top - 1 : 0;
    for (size_t i = 0; i < n; ++i) {
        const int64_t v = std::min(std::max(ReadInt(static_cast<const uint8_t*>(s) + i * es, src), bottom), top);
        std::memcpy(static_cast<uint8_t*>(d) + i * ed, &v, ed);
    }
}

void CutToIntegers(void* d, Dt dst, const void* s, Dt src, int mode, size_t n) {
    const uint32_t ed = SizeOf(dst);
    const uint32_t es = SizeOf(src);
    uint8_t* to = static_cast<uint8_t*>(d);
    const uint8_t* from = static_cast<const uint8_t*>(s);
    if (!IsFloat(src)) {
        for (size_t i = 0; i < n; ++i) {
            const int64_t v = ReadInt(from + i * es, src);
            std::memcpy(to + i * ed, &v, ed);
        }
        return;
    }
    constexpr size_t part = 64;
    alignas(64) float wide[part];
    for (size_t i = 0; i < n; i += part) {
        const size_t m = std::min(n - i, part);
        if (src == Dt::F32) {
            std::memcpy(wide, from + i * es, m * sizeof(float));
        } else {
            Kernels().element(Op::Cast, Dt::F32, src)(wide, from + i * es, nullptr, 0, m);
        }
        Kernels().element(Op::Cast, Dt::F32, Dt::F32)(wide, wide, nullptr, static_cast<uint64_t>(mode), m);
        for (size_t k = 0; k < m; ++k) {
            const uint64_t bits = LowBits(wide[k], dst);
            std::memcpy(to + (i + k) * ed, &bits, ed);
        }
    }
}

uint64_t ControlRead() { return Current().control; }

void ControlWrite(const char* api, uint64_t mask, uint64_t bits) {
    Core& core = Current();
    if ((bits & ~mask) != 0) {
        Fail("control-value", api, "the value does not fit into the bits 0x%llx of the control register",
             static_cast<unsigned long long>(mask));
    }
    core.control = (core.control & ~mask) | bits;
}

void ControlReset(uint64_t mask) {
    Core& core = Current();
    core.control = (core.control & ~mask) | (kControlDefault & mask);
}

void CheckControlKept(const Core& core) {
    const uint64_t changed = core.control ^ core.control_found;
    for (const int bit : {48, 50, 53, 59, 60}) {
        if ((changed >> bit & 1u) != 0) {
            Report("control-bits", "SetCtrlSpr", "bit %d of the control register was %d when the kernel began, and is %d when it ends",
                   bit, static_cast<int>(core.control_found >> bit & 1u), ControlBit(core, bit) ? 1 : 0);
        }
    }
}

}  // namespace autofuse_twin
