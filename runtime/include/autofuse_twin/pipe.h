// TPipe, TQue, TQueBind and TBuf: UB allocation and the queue protocol. Lengths are bytes.
//
// The objects are handles; the simulated core owns the state (blocks, their FREE/OCCUPIED/ENQUE/DEQUE states, FIFOs,
// event ids), so that leaks can be reported when the kernel ends. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_PIPE_H
#define AUTOFUSE_TWIN_PIPE_H

#include "tensor.h"

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
public:
    // The position that owns the event ids: the UB side of the pair.
    static constexpr TPosition kPos = src == TPosition::GM ? dst : src;
    static_assert(kPos == TPosition::VECIN || kPos == TPosition::VECOUT,
                  "TQue/TQueBind: only VECIN and VECOUT are queue positions of a vector core; use TBuf<VECCALC>");
    static_assert(depth >= 0, "TQue depth must not be negative");

    template <typename T> LocalTensor<T> AllocTensor(AUTOFUSE_TWIN_HERE_ONLY) {
        return LocalTensor<T>(::autofuse_twin::QueueAlloc(id_, sizeof(T)));
    }
    template <typename T> void AllocTensor(LocalTensor<T>& tensor AUTOFUSE_TWIN_HERE) {
        tensor = AllocTensor<T>();
    }
    template <typename T> bool EnQue(const LocalTensor<T>& tensor AUTOFUSE_TWIN_HERE) {
        ::autofuse_twin::QueueEnQue(id_, tensor.View(), ::autofuse_twin::Link::kQueue);
        return true;
    }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    bool EnQue(const LocalTensor<T>& tensor AUTOFUSE_TWIN_HERE) {
        ::autofuse_twin::QueueEnQue(id_, tensor.View(), UserLink<srcUserPos, dstUserPos>());
        return true;
    }
    template <typename T> LocalTensor<T> DeQue(AUTOFUSE_TWIN_HERE_ONLY) {
        return LocalTensor<T>(::autofuse_twin::QueueDeQue(id_, sizeof(T), ::autofuse_twin::Link::kQueue));
    }
    template <typename T> void DeQue(LocalTensor<T>& tensor AUTOFUSE_TWIN_HERE) { tensor = DeQue<T>(); }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T> LocalTensor<T> DeQue(AUTOFUSE_TWIN_HERE_ONLY) {
        return LocalTensor<T>(::autofuse_twin::QueueDeQue(id_, sizeof(T), UserLink<srcUserPos, dstUserPos>()));
    }
    template <typename T> void FreeTensor(LocalTensor<T>& tensor AUTOFUSE_TWIN_HERE) {
        ::autofuse_twin::QueueFree(id_, tensor.View());
    }
    bool VacantInQue() {
        static_assert(depth != 0, "VacantInQue is not available on a queue of depth 0");
        return ::autofuse_twin::QueueVacant(id_);
    }
    bool HasTensorInQue() { return GetTensorCountInQue() > 0; }
    int32_t GetTensorCountInQue() {
        static_assert(depth != 0, "GetTensorCountInQue is not available on a queue of depth 0");
        return ::autofuse_twin::QueueCount(id_);
    }
    bool HasIdleBuffer() {
        static_assert(depth != 0, "HasIdleBuffer is not available on a queue of depth 0");
        return ::autofuse_twin::QueueIdle(id_);
    }
    void FreeAllEvent() { static_assert(depth != 0, "FreeAllEvent is not available on a queue of depth 0"); }

private:
    friend class TPipe;
    template <TPosition from, TPosition to> static constexpr ::autofuse_twin::Link UserLink() {
        return from == TPosition::GM   ? ::autofuse_twin::Link::kMte2V
               : to == TPosition::GM   ? ::autofuse_twin::Link::kVMte3
                                       : ::autofuse_twin::Link::kMte2Mte3;
    }
    static constexpr TPosition kSrc = src;
    static constexpr TPosition kDst = dst;
    static constexpr int32_t kDepth = depth;
    int id_ = -1;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<pos == TPosition::VECOUT ? pos : TPosition::GM,
                             pos == TPosition::VECOUT ? TPosition::GM : pos, depth, mask> {};

template <TPosition pos = TPosition::LCM>
class TBuf {
    static_assert(pos == TPosition::VECIN || pos == TPosition::VECOUT || pos == TPosition::VECCALC ||
                      pos == TPosition::LCM,
                  "TBuf: VECIN, VECOUT, VECCALC and LCM are the positions of a vector core's UB");

public:
    template <typename T> LocalTensor<T> Get(AUTOFUSE_TWIN_HERE_ONLY) {
        return LocalTensor<T>(::autofuse_twin::BufGet(view_, 0, static_cast<uint64_t>(view_.hi - view_.lo), sizeof(T)));
    }
    template <typename T> LocalTensor<T> Get(uint32_t len AUTOFUSE_TWIN_HERE) {
        return LocalTensor<T>(::autofuse_twin::BufGet(view_, 0, static_cast<uint64_t>(len) * sizeof(T), sizeof(T)));
    }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset AUTOFUSE_TWIN_HERE) {
        return LocalTensor<T>(
            ::autofuse_twin::BufGet(view_, bufOffset, static_cast<uint64_t>(size) * sizeof(T), sizeof(T)));
    }

private:
    friend class TPipe;
    ::autofuse_twin::UbView view_;
};

class TPipe {
public:
    TPipe() { ::autofuse_twin::PipeConstruct(this); }
    ~TPipe() { ::autofuse_twin::PipeDestroy(this); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    void Init() { ::autofuse_twin::PipeReset(this, true); }
    void Reset() { ::autofuse_twin::PipeReset(this, true); }

    template <TPosition src, TPosition dst, int32_t depth, auto mask>
    bool InitBuffer(TQueBind<src, dst, depth, mask>& que, uint8_t num, uint32_t len AUTOFUSE_TWIN_HERE) {
        que.id_ = ::autofuse_twin::PipeAddQueue(static_cast<uint8_t>(src), static_cast<uint8_t>(dst), depth, num, len);
        return true;
    }
    template <TPosition pos> bool InitBuffer(TBuf<pos>& buf, uint32_t len AUTOFUSE_TWIN_HERE) {
        buf.view_ = ::autofuse_twin::PipeAddBuf(static_cast<uint8_t>(pos), len);
        return true;
    }

    template <HardEvent evt> TEventID AllocEventID() {
        return static_cast<TEventID>(::autofuse_twin::EventAlloc(static_cast<uint8_t>(evt), true));
    }
    template <HardEvent evt> void ReleaseEventID(TEventID id) {
        ::autofuse_twin::EventRelease(static_cast<uint8_t>(evt), id);
    }
    template <HardEvent evt> TEventID FetchEventID() { return FetchEventID(evt); }
    TEventID FetchEventID(HardEvent evt) {
        return static_cast<TEventID>(::autofuse_twin::EventAlloc(static_cast<uint8_t>(evt), false));
    }
};

inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(::autofuse_twin::PipePointer()); }

}  // namespace AscendC

#endif
