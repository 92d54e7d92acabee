// Tensors on an NPU: runs the kernel on the chip, through the task queue of torch_npu, on the current stream.
#ifndef AUTOFUSE_TORCH_NPU_H
#define AUTOFUSE_TORCH_NPU_H

#include "autofuse_torch.h"

#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace autofuse_torch {
namespace {

struct Npu {
    static Kernel Open(const char* op, const char* kernel)
    {
        return autofuse_torch::Open(op, std::string("lib") + kernel + "_npu.so",
                                    "the extension was built without a kernel for the chip");
    }

    // Returns before the kernel has run. The task keeps its tensors alive until it is queued on the stream.
    static void Launch(const Kernel& kernel, const char* op, Plan plan, const std::vector<Buffer>& buffers,
                       uint64_t /* ub_bytes */)
    {
        const at::Tensor workspace = Workspace(plan, buffers.front().tensor);
        void* const stream = c10_npu::getCurrentNPUStream().stream(false);
        const auto launch = kernel.launch;
        auto task = [launch, stream, plan = std::move(plan), buffers, workspace]() mutable -> int {
            std::vector<void*> pointers = Pointers(buffers, workspace);
            return static_cast<int>(launch(plan.block_dim, stream, pointers.data(), plan.data.data()));
        };
        at_npu::native::OpCommand::RunOpApiV2(op, task);
    }
};

}  // namespace
}  // namespace autofuse_torch

#endif
