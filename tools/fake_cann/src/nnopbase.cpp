// Tensors of aclnn calls, and what the aclnn functions of an operator package do in the fake CANN: they take the definition and
// the tiling function from the package's libraries, and launch its kernel with what that function decided.
#include <dlfcn.h>
#include <sys/stat.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "autofuse_fake_operator.h"
#include "autofuse_twin/op_package.h"
#include "register/op_def_registry.h"

struct aclTensor {
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t offset = 0;
    aclDataType type = ACL_DT_UNDEFINED;
    void* data = nullptr;

    bool Contiguous() const {
        int64_t expected = 1;
        for (size_t i = dims.size(); i-- > 0;) {
            if (dims[i] != 1 && strides[i] != expected) {
                return false;
            }
            expected *= dims[i];
        }
        return offset == 0;
    }
};

using Kernel = void (*)(uint64_t key, uint32_t cores, void* stream, void* const* pointers, void* workspace, void* tiling);

struct aclOpExecutor {
    Kernel kernel = nullptr;
    uint64_t key = 0;
    uint32_t cores = 0;
    uint64_t workspace = 0;
    std::vector<void*> pointers;
    std::vector<char> tiling;
};

namespace {

// What the framework says the chip has; the fake has no other call for it.
constexpr uint64_t kUbBytes = 196608 - 256;

// FOLDER of FOLDER/op_api/lib/libcust_opapi.so.
std::string Folder(const void* inside) {
    Dl_info info = {};
    char path[PATH_MAX];
    if (dladdr(inside, &info) == 0 || info.dli_fname == nullptr || realpath(info.dli_fname, path) == nullptr) {
        return "";
    }
    std::string folder = path;
    for (int i = 0; i < 3; ++i) {
        folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
    }
    return folder;
}

template <typename Function> Function Find(const std::string& library, const char* name) {
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = handle == nullptr ? nullptr : dlsym(handle, name);
    Function function = nullptr;
    std::memcpy(&function, &found, sizeof(found));
    return function;
}

const ops::OpDef* Definition(const std::string& folder, const char* type) {
    using Operators = std::vector<ops::OpDef>* (*)();
    const auto operators = Find<Operators>(folder + "/op_impl/ai_core/tbe/op_tiling/liboptiling.so", "autofuse_fake_operators");
    if (operators != nullptr) {
        for (const ops::OpDef& op : *operators()) {
            if (op.type_ == type) {
                return &op;
            }
        }
    }
    return nullptr;
}

gert::Shape ShapeOf(const aclTensor& t) {
    gert::Shape shape;
    for (const int64_t d : t.dims) {
        shape.AppendDim(d);
    }
    return shape;
}

bool Fits(const aclTensor& t, const ops::OpParamDef& p) {
    return t.Contiguous() && p.types_.size() == 1 && static_cast<int>(p.types_[0]) == static_cast<int>(t.type) &&
           t.dims.size() <= gert::Shape::kMaxDimNum;
}

// Whether the outputs have the shapes and dtypes that the operator infers.
bool Inferred(const ops::OpDef& op, const autofuse_fake_call& call) {
    gert::InferShapeContext shapes;
    gert::InferDataTypeContext types;
    for (uint32_t i = 0; i < call.inputs; ++i) {
        shapes.inputs_.push_back(ShapeOf(*call.input[i]));
        types.inputs_.push_back(op.inputs_[i].types_[0]);
    }
    shapes.attributes_.values_.assign(call.attribute, call.attribute + call.attributes);
    shapes.outputs_.resize(call.outputs);
    types.outputs_.resize(call.outputs);
    if (op.shapes_ == nullptr || op.dtypes_ == nullptr || op.shapes_(&shapes) != ge::GRAPH_SUCCESS ||
        op.dtypes_(&types) != ge::GRAPH_SUCCESS) {
        return false;
    }
    for (uint32_t i = 0; i < call.outputs; ++i) {
        const aclTensor& t = *call.output[i];
        if (static_cast<int>(types.outputs_[i]) != static_cast<int>(t.type) ||
            shapes.outputs_[i].GetDimNum() != t.dims.size()) {
            return false;
        }
        for (size_t d = 0; d < t.dims.size(); ++d) {
            if (shapes.outputs_[i].GetDim(d) != t.dims[d]) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace

extern "C" aclTensor* aclCreateTensor(const int64_t* view_dims, uint64_t view_dims_num, aclDataType data_type,
                                      const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storage_dims,
                                      uint64_t storage_dims_num, void* tensor_data) {
    if ((view_dims == nullptr && view_dims_num != 0) || (storage_dims == nullptr && storage_dims_num != 0) ||
        format != ACL_FORMAT_ND) {
        return nullptr;
    }
    auto* const t = new aclTensor;
    t->dims.assign(view_dims, view_dims + view_dims_num);
    t->strides.assign(view_dims_num, 1);
    for (size_t i = view_dims_num; i-- > 1;) {
        t->strides[i - 1] = t->strides[i] * t->dims[i];
    }
    if (stride != nullptr) {
        t->strides.assign(stride, stride + view_dims_num);
    }
    t->offset = offset;
    t->type = data_type;
    t->data = tensor_data;
    return t;
}

extern "C" aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    delete tensor;
    return ACLNN_SUCCESS;
}

extern "C" aclnnStatus autofuse_fake_prepare(const autofuse_fake_call* call, uint64_t* workspace_size,
                                             aclOpExecutor** executor) {
    if (workspace_size == nullptr || executor == nullptr) {
        return ACLNN_ERR_PARAM_NULLPTR;
    }
    for (uint32_t i = 0; i < call->inputs + call->outputs; ++i) {
        const aclTensor* const t = i < call->inputs ? call->input[i] : call->output[i - call->inputs];
        if (t == nullptr || t->data == nullptr) {
            return ACLNN_ERR_PARAM_NULLPTR;
        }
    }
    const std::string folder = Folder(call->inside);
    const ops::OpDef* const op = Definition(folder, call->type);
    if (op == nullptr || op->aicore_.tiling_ == nullptr || op->aicore_.units_.size() != 1 ||
        op->inputs_.size() != call->inputs || op->outputs_.size() != call->outputs ||
        op->attributes_.size() != call->attributes) {
        return ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND;
    }
    for (uint32_t i = 0; i < call->inputs; ++i) {
        if (!Fits(*call->input[i], op->inputs_[i])) {
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    for (uint32_t i = 0; i < call->outputs; ++i) {
        if (!Fits(*call->output[i], op->outputs_[i])) {
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    if (!Inferred(*op, *call)) {
        return ACLNN_ERR_PARAM_INVALID;
    }

    int32_t device = 0;
    int64_t cores = 0;
    if (aclrtGetDevice(&device) != ACL_SUCCESS ||
        aclrtGetDeviceInfo(static_cast<uint32_t>(device), ACL_DEV_ATTR_VECTOR_CORE_NUM, &cores) != ACL_SUCCESS) {
        return ACLNN_ERR_RUNTIME_ERROR;
    }
    fe::PlatFormInfos platform;
    platform.vector_cores = static_cast<uint32_t>(cores);
    platform.ub_bytes = kUbBytes;
    platform.system_workspace = autofuse_twin::kSystemWorkspace;
    gert::TilingContext context;
    context.platform_ = &platform;
    context.attributes_.values_.assign(call->attribute, call->attribute + call->attributes);
    for (uint32_t i = 0; i < call->inputs; ++i) {
        context.inputs_.emplace_back(ShapeOf(*call->input[i]));
    }
    if (op->aicore_.tiling_(&context) != ge::GRAPH_SUCCESS || context.cores_ == 0 || context.cores_ > cores ||
        context.workspaces_.size() != 1) {
        return ACLNN_ERR_INNER_TILING_ERROR;
    }
    const std::string binary = folder + "/op_impl/ai_core/tbe/kernel/" + op->aicore_.units_[0] + "/" + call->type + ".so";
    const auto kernel = Find<Kernel>(binary, "autofuse_fake_kernel");
    if (kernel == nullptr) {
        return ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND;
    }
    auto* const e = new aclOpExecutor;
    e->kernel = kernel;
    e->key = context.key_;
    e->cores = context.cores_;
    e->workspace = context.workspaces_[0];
    for (uint32_t i = 0; i < call->inputs; ++i) {
        e->pointers.push_back(call->input[i]->data);
    }
    for (uint32_t i = 0; i < call->outputs; ++i) {
        e->pointers.push_back(call->output[i]->data);
    }
    const char* const data = static_cast<const char*>(context.data_.GetData());
    e->tiling.assign(data, data + context.data_.GetDataSize());
    *workspace_size = e->workspace;
    *executor = e;
    return ACLNN_SUCCESS;
}

extern "C" aclnnStatus autofuse_fake_execute(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                             aclrtStream stream) {
    if (executor == nullptr || (workspace == nullptr && executor->workspace != 0)) {
        return ACLNN_ERR_PARAM_NULLPTR;
    }
    if (workspace_size < executor->workspace) {
        return ACLNN_ERR_PARAM_INVALID;
    }
    void* tiling = nullptr;
    const size_t bytes = executor->tiling.size();
    aclnnStatus status = ACLNN_ERR_RUNTIME_ERROR;
    if (aclrtMalloc(&tiling, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS &&
        aclrtMemcpy(tiling, bytes, executor->tiling.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS) {
        executor->kernel(executor->key, executor->cores, stream, executor->pointers.data(), workspace, tiling);
        status = ACLNN_SUCCESS;
    }
    // A launch of the fake has run when it returns.
    if (tiling != nullptr) {
        aclrtFree(tiling);
    }
    delete executor;
    return status;
}
