// Tensors on a CPU: runs the kernel on the twin, which checks that every access is in-bounds.
#ifndef AUTOFUSE_TORCH_CPU_H
#define AUTOFUSE_TORCH_CPU_H

#include "autofuse_torch.h"

namespace autofuse_torch {
namespace {

struct Cpu {
    static Kernel Open(const char* op, const char* kernel)
    {
        return autofuse_torch::Open(op, std::string("lib") + kernel + "_twin.so",
                                    "the extension was built without the CPU twin of autofuse");
    }

    static void Launch(const Kernel& kernel, const char* op, Plan plan, const std::vector<Buffer>& buffers,
                       uint64_t ub_bytes)
    {
        const auto clear = reinterpret_cast<void (*)()>(Function(op, kernel.handle, "autofuse_twin_gm_clear"));
        const auto add = reinterpret_cast<void (*)(const void*, uint64_t, const char*, int)>(
            Function(op, kernel.handle, "autofuse_twin_gm_add"));
        const auto forget = reinterpret_cast<void (*)()>(Function(op, kernel.handle, "autofuse_twin_findings_clear"));
        const auto findings = reinterpret_cast<uint64_t (*)(char*, uint64_t)>(
            Function(op, kernel.handle, "autofuse_twin_findings_json"));
        const auto set_ub = reinterpret_cast<void (*)(uint64_t)>(Function(op, kernel.handle, "autofuse_twin_set_ub_size"));
        constexpr int kWritable = 1;
        constexpr int kScratch = 8;

        const at::Tensor workspace = Workspace(plan, buffers.front().tensor);
        std::vector<void*> pointers = Pointers(buffers, workspace);
        clear();
        for (size_t i = 0; i < buffers.size(); ++i) {
            // If a later output overwrites this input, register only the output with the twin.
            const bool again = std::any_of(buffers.begin() + i + 1, buffers.end(), [&](const Buffer& b) {
                return b.written && b.Pointer() == pointers[i];
            });
            if (!again) {
                const std::string name = "argument " + std::to_string(i);
                add(pointers[i], buffers[i].Bytes(), name.c_str(), buffers[i].written ? kWritable : 0);
            }
        }
        add(pointers.back(), plan.workspace, "workspace", kWritable | kScratch);
        forget();
        set_ub(ub_bytes);
        const int64_t rc = kernel.launch(plan.block_dim, nullptr, pointers.data(), plan.data.data());
        set_ub(0);
        clear();
        if (rc != 0) {
            std::string json(findings(nullptr, 0) + 1, ' ');
            findings(&json[0], json.size());
            json.pop_back();
            TORCH_CHECK(false, op, ": the kernel broke a rule of the chip: ", json);
        }
    }
};

}  // namespace
}  // namespace autofuse_torch

#endif
