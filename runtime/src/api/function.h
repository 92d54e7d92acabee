// The operation of a vector call on memory, for the architecture and control register of its launch. Internal.
#ifndef AUTOFUSE_TWIN_SRC_FUNCTION_H
#define AUTOFUSE_TWIN_SRC_FUNCTION_H

#include <algorithm>
#include <cstring>

#include "api/control.h"
#include "api/flush.h"
#include "api/vector_call.h"

namespace autofuse_twin {

// Some calls flush subnormal operands and results to zero. Out-of-range results may saturate, or be truncated.
struct Function {
    ElementFn plain;
    Dt dst, src;
    bool flushes, saturates, cuts;

    void operator()(void* d, const void* a, const void* b, uint64_t imm, size_t n) const {
        if (cuts) {
            CutToIntegers(d, dst, a, src, static_cast<int>(imm), n);
        } else if (flushes) {
            Flushed(d, a, b, imm, n);
        } else {
            plain(d, a, b, imm, n);
        }
        if (saturates) {
            SaturateFloats(d, n, dst);
        }
    }

private:
    void Flushed(void* d, const void* a, const void* b, uint64_t imm, size_t n) const {
        constexpr size_t part = 64;
        const size_t elem = SizeOf(dst);
        uint8_t x[part * sizeof(float)];
        uint8_t y[part * sizeof(float)];
        for (size_t i = 0; i < n; i += part) {
            const size_t m = n - i < part ? n - i : part;
            const auto taken = [&](const void* from, uint8_t* to) {
                std::memcpy(to, static_cast<const uint8_t*>(from) + i * elem, m * elem);
                Flush(to, m, dst);
            };
            taken(a, x);
            if (b != nullptr) {
                taken(b, y);
            }
            uint8_t* out = static_cast<uint8_t*>(d) + i * elem;
            plain(out, x, b == nullptr ? nullptr : y, imm, m);
            Flush(out, m, dst);
        }
    }
};

inline Function FunctionOf(const Core& core, const VecCall& c) {
    const autofuse_twin_architecture* own = core.run->architecture;
    const bool flushes = own != nullptr && (c.dst_dt == Dt::F32 || c.dst_dt == Dt::F16) &&
                         std::any_of(own->flushes, own->flushes + own->flushes_count,
                                     [api = OpName(c.op)](const char* name) { return std::strcmp(name, api) == 0; });
    Function out{Lookup(c), c.dst_dt, c.src_dt, flushes, false, false};
    if (c.op == Op::Cast) {
        // Every conversion on memory asks its instruction to saturate.
        const bool saturates = CastSaturates(core, c.dst_dt, true);
        const bool to_float = c.dst_dt == Dt::F16 || c.dst_dt == Dt::BF16 || c.dst_dt == Dt::F32;
        out.saturates = to_float && saturates && CanSaturate(c.dst_dt, c.src_dt);
        out.cuts = !to_float && !saturates && SizeOf(c.dst_dt) <= SizeOf(c.src_dt);
    } else if (c.op != Op::Copy && c.op != Op::Duplicate) {
        out.saturates = HalvesSaturate(core, c.dst_dt);
        const ElementFn held = IntegersSaturate(core) ? SaturatingIntegers(c.op, c.dst_dt) : nullptr;
        out.plain = held != nullptr ? held : out.plain;
    }
    return out;
}

}  // namespace autofuse_twin

#endif
