// Of torch_npu's task queue, what its documents show and the extensions call. Tasks wait until `RunTasks`.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace at_npu {
namespace native {

using PROC_FUNC = std::function<int()>;

inline std::vector<std::pair<std::string, PROC_FUNC>>& Tasks()
{
    static std::vector<std::pair<std::string, PROC_FUNC>> tasks;
    return tasks;
}

class OpCommand {
public:
    static void RunOpApiV2(const std::string& op_name, const PROC_FUNC& func, bool sync = false)
    {
        static_cast<void>(sync);
        Tasks().emplace_back(op_name, func);
    }
};

}  // namespace native
}  // namespace at_npu
