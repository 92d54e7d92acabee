// Linked with the op_host sources of a project: writes the aclnn functions of its operators, and a header for each, into a
// folder.  Names are made as the public documentation of CANN says.
#include <cctype>
#include <cstdio>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "register/op_def_registry.h"

namespace {

// AddCustom -> add_custom, Conv2DCustom -> conv2_d_custom.
std::string Snake(const std::string& type) {
    std::string out;
    for (size_t i = 0; i < type.size(); ++i) {
        const auto at = [&type](size_t k) { return static_cast<unsigned char>(type[k]); };
        const bool capital = std::isupper(at(i)) != 0;
        const bool begins = i != 0 && capital &&
                            (std::isupper(at(i - 1)) == 0 || (i + 1 < type.size() && std::islower(at(i + 1)) != 0));
        out += begins ? "_" : "";
        out += static_cast<char>(std::tolower(at(i)));
    }
    return out;
}

// expert_idx -> expertIdx
std::string Camel(const std::string& name) {
    std::string out;
    bool upper = false;
    for (const char c : name) {
        if (c == '_') {
            upper = !out.empty();
        } else {
            out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
            upper = false;
        }
    }
    return out;
}

void Expect(bool holds, const ops::OpDef& op, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(op.type_ + ": " + what);
    }
}

void CheckParam(const ops::OpDef& op, const ops::OpParamDef& p) {
    Expect(!p.name_.empty() && std::isalpha(static_cast<unsigned char>(p.name_[0])) != 0, op, "a parameter has no name");
    for (const char c : p.name_) {
        const auto u = static_cast<unsigned char>(c);
        Expect(std::islower(u) != 0 || std::isdigit(u) != 0 || c == '_', op, "the name " + p.name_);
    }
    Expect(p.option_ == ops::REQUIRED, op, p.name_ + " is not required");
    Expect(p.types_.size() == 1 && p.formats_.size() == 1, op, p.name_ + " has another number of dtypes than of formats");
}

void Write(const ops::OpDef& op, const std::string& folder) {
    Expect(!op.type_.empty() && std::isupper(static_cast<unsigned char>(op.type_[0])) != 0, op, "the type is not CamelCase");
    for (const char c : op.type_) {
        Expect(std::isalnum(static_cast<unsigned char>(c)) != 0, op, "the type is not CamelCase");
    }
    Expect(!op.inputs_.empty() && !op.outputs_.empty(), op, "inputs or outputs are missing");
    Expect(op.aicore_.tiling_ != nullptr && op.aicore_.units_.size() == 1, op, "tiling or chip is missing");
    std::set<std::string> taken = {"workspaceSize", "executor"};
    const auto once = [&](const std::string& name) {
        Expect(taken.insert(name).second, op, "two parameters are called " + name);
        return name;
    };
    std::set<std::string> results;
    for (const ops::OpParamDef& p : op.outputs_) {
        CheckParam(op, p);
        Expect(results.insert(p.name_).second, op, "two outputs are called " + p.name_);
    }
    std::string parameters, inputs, attributes, outputs;
    std::set<std::string> overwritten;
    for (const ops::OpParamDef& p : op.inputs_) {
        CheckParam(op, p);
        const bool ref = results.count(p.name_) != 0;
        const std::string name = once(Camel(p.name_) + (ref ? "Ref" : ""));
        parameters += (ref ? "aclTensor* " : "const aclTensor* ") + name + ", ";
        inputs += name + ", ";
        if (ref) {
            overwritten.insert(p.name_);
        }
    }
    for (const ops::OpAttrDef& a : op.attributes_) {
        Expect(a.option_ == ops::REQUIRED && a.is_int_, op, "the attribute " + a.name_);
        const std::string name = once(Camel(a.name_));
        parameters += "int64_t " + name + ", ";
        attributes += name + ", ";
    }
    for (const ops::OpParamDef& p : op.outputs_) {
        const bool ref = overwritten.count(p.name_) != 0;
        const std::string name = ref ? Camel(p.name_) + "Ref" : once(Camel(p.name_) + "Out");
        parameters += ref ? "" : "const aclTensor* " + name + ", ";
        outputs += name + ", ";
    }
    const std::string snake = Snake(op.type_);
    const std::string first = "aclnnStatus aclnn" + op.type_ + "GetWorkspaceSize(" + parameters +
                              "uint64_t* workspaceSize, aclOpExecutor** executor)";
    const std::string second = "aclnnStatus aclnn" + op.type_ +
                               "(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)";
    std::ofstream header(folder + "/aclnn_" + snake + ".h");
    header << "#pragma once\n#include \"aclnn/acl_meta.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
           << "__attribute__((visibility(\"default\"))) " << first << ";\n"
           << "__attribute__((visibility(\"default\"))) " << second << ";\n\n#ifdef __cplusplus\n}\n#endif\n";
    std::ofstream source(folder + "/aclnn_" + snake + ".cpp");
    source << "#include \"aclnn_" << snake << ".h\"\n#include \"autofuse_fake_operator.h\"\n\n"
           << first << "\n{\n    const aclTensor* const inputs[] = {" << inputs << "};\n"
           << "    const aclTensor* const outputs[] = {" << outputs << "};\n"
           << "    const int64_t attributes[] = {" << attributes << "0};\n"
           << "    static const char inside = 0;\n"
           << "    const autofuse_fake_call call = {&inside, \"" << op.type_ << "\", inputs, " << op.inputs_.size()
           << ", outputs, " << op.outputs_.size() << ", attributes, " << op.attributes_.size() << "};\n"
           << "    return autofuse_fake_prepare(&call, workspaceSize, executor);\n}\n\n"
           << second << "\n{\n    return autofuse_fake_execute(workspace, workspaceSize, executor, stream);\n}\n";
    // What the launcher of the kernel has to know.
    std::ofstream kernel(folder + "/" + op.type_ + ".launch.cpp");
    std::string declared, passed, entered;
    const size_t count = op.inputs_.size() + op.outputs_.size();
    for (size_t i = 0; i < count; ++i) {
        const std::string name = "p" + std::to_string(i);
        declared += "GM_ADDR " + name + ", ";
        entered += name + ", ";
        passed += "static_cast<GM_ADDR>(pointers[" + std::to_string(i) + "]), ";
    }
    kernel << "#include \"kernel_operator.h\"\n\n// One binary for all keys: each core asks for that of its launch.\n"
           << "static thread_local uint64_t autofuse_fake_key = 0;\n#undef TILING_KEY_IS\n"
           << "#define TILING_KEY_IS(key) (autofuse_fake_key == (key))\n"
           << "#include AUTOFUSE_FAKE_KERNEL_FILE\n\n"
           << "static __global__ __aicore__ void autofuse_fake_entry(" << declared
           << "GM_ADDR workspace, GM_ADDR tiling, uint64_t key)\n{\n    autofuse_fake_key = key;\n    " << snake << "("
           << entered << "workspace, tiling);\n}\n\n"
           << "extern \"C\" void autofuse_fake_kernel(uint64_t key, uint32_t cores, void* stream, void* const* pointers,\n"
           << "                                     void* workspace, void* tiling)\n{\n    autofuse_fake_entry<<<cores, nullptr, "
           << "stream>>>(" << passed << "static_cast<GM_ADDR>(workspace), static_cast<GM_ADDR>(tiling), key);\n}\n";
    if (!header.flush() || !source.flush() || !kernel.flush()) {
        throw std::runtime_error(folder + " cannot be written");
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 2) {
            throw std::runtime_error("usage: op_build FOLDER");
        }
        if (ops::Registry().empty()) {
            throw std::runtime_error("the sources register no operator");
        }
        for (const ops::OpDef& op : ops::Registry()) {
            Write(op, argv[1]);
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "op_build: error: %s\n", e.what());
        return 1;
    }
    return 0;
}
