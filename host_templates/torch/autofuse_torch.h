// Support code for PyTorch operators around a kernel: sizes that may be symbols, checks, and loading of the library.
//
// Everything is local to a translation unit: a process may load the extensions of many kernels.
#ifndef AUTOFUSE_TORCH_H
#define AUTOFUSE_TORCH_H

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>

// Functions in the size expressions of graphs; division rounds down, and dividing by 0 gives 0.
namespace autofuse {
namespace {

[[maybe_unused]] c10::SymInt FloorDiv(const c10::SymInt& a, const c10::SymInt& b)
{
    const auto x = a.maybe_as_int();
    const auto y = b.maybe_as_int();
    if (y && *y == 0) {
        return 0;
    }
    if (x && y) {
        return *x / *y - ((*x % *y != 0 && (*x < 0) != (*y < 0)) ? 1 : 0);
    }
    return a / b;  // division of symbols rounds down
}

[[maybe_unused]] c10::SymInt CeilDiv(const c10::SymInt& a, const c10::SymInt& b)
{
    return FloorDiv(a * c10::SymInt(-1), b) * c10::SymInt(-1);
}

[[maybe_unused]] c10::SymInt Mod(const c10::SymInt& a, const c10::SymInt& b)
{
    return a - FloorDiv(a, b) * b;
}

[[maybe_unused]] c10::SymInt Min(const c10::SymInt& a, const c10::SymInt& b)
{
    return a.min(b);
}

[[maybe_unused]] c10::SymInt Max(const c10::SymInt& a, const c10::SymInt& b)
{
    return a.max(b);
}

}  // namespace
}  // namespace autofuse

namespace autofuse_torch {
namespace {

constexpr size_t kWorkspaceAlign = 512;
// Version of the kernel's C interface, as in autofuse_status.h, which only the library includes.
constexpr uint32_t kAbiVersion = 1;

// Checks ------------------------------------------------------------------------------------------

// Name of an element type in Python.
[[maybe_unused]] std::string Called(at::ScalarType dtype)
{
    return std::string(c10::getDtypeNames(dtype).first);
}

// Checks dtype and rank of an argument; `name` is its name in the schema.
[[maybe_unused]] void CheckKind(const char* op, const char* name, const at::Tensor& t, at::ScalarType dtype, int64_t rank)
{
    TORCH_CHECK_TYPE(t.scalar_type() == dtype, op, ": ", name, " must be ", Called(dtype), ", not ", Called(t.scalar_type()));
    TORCH_CHECK_VALUE(t.dim() == rank, op, ": ", name, " must have ", rank, " dimensions, not ", t.dim());
}

[[maybe_unused]] void CheckDevice(const char* op, const char* name, const at::Tensor& t, const at::Tensor& first)
{
    TORCH_CHECK_VALUE(t.device() == first.device(), op, ": ", name, " is on ", t.device(), ", and others on ", first.device());
}

// Checks that a dimension has the size of the graph, whose text is `text`.
[[maybe_unused]] void CheckSize(const char* op, const char* name, const at::Tensor& t, int64_t dim, const c10::SymInt& size,
                                const char* text)
{
    TORCH_CHECK_VALUE(t.sym_size(dim).sym_eq(size).expect_true(__FILE__, __LINE__), op, ": dimension ", dim, " of ", name,
                      " is ", t.sym_size(dim), "; the graph says ", text, ", which is ", size, " here");
}

// Solves size == factor * symbol + plus for the symbol.
[[maybe_unused]] c10::SymInt Solved(const at::Tensor& t, int64_t dim, int64_t factor, int64_t plus)
{
    const c10::SymInt rest = t.sym_size(dim) - c10::SymInt(plus);
    return factor == 1 ? rest : autofuse::FloorDiv(rest, c10::SymInt(factor));
}

// Memory ------------------------------------------------------------------------------------------

// A parameter of the kernel, whose first element is `offset` elements after its pointer.
struct Buffer {
    at::Tensor tensor;
    bool written = false;
    int64_t offset = 0;

    void* Pointer() const { return static_cast<char*>(tensor.data_ptr()) - Before(); }
    // Bytes from the pointer to the end of the last element.
    uint64_t Bytes() const
    {
        return Before() + at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
    }
    int64_t Before() const { return offset * static_cast<int64_t>(tensor.element_size()); }
};

// The tensor with the strides of the graph, in elements: unchanged, or a copy. Strides of dimensions of size 1 do not
// matter.
[[maybe_unused]] at::Tensor Laid(const at::Tensor& t, const std::vector<int64_t>& strides)
{
    bool fits = true;
    for (int64_t d = 0; d < t.dim() && t.numel() != 0; ++d) {
        fits = fits && (t.size(d) <= 1 || t.stride(d) == strides[static_cast<size_t>(d)]);
    }
    return fits ? t : at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
}

// A number in device memory.
[[maybe_unused]] at::Tensor Number(const at::Scalar& value, at::ScalarType dtype, const at::Tensor& like)
{
    return at::full({}, value, like.options().dtype(dtype));
}

// Copies an overwritten argument back if the kernel had to write to a copy of it.
[[maybe_unused]] void HandBack(const at::Tensor& argument, const at::Tensor& written)
{
    if (!argument.is_same(written)) {
        argument.copy_(written);
    }
}

// Overlaps ----------------------------------------------------------------------------------------

// Memory layout of a tensor, in bytes; sizes are not 0.
struct Span {
    const char* first = nullptr;
    int64_t width = 0;  // of an element
    std::vector<std::pair<int64_t, int64_t>> dims;  // bytes from one element to the next, and steps

    explicit Span(const at::Tensor& t) : first(static_cast<const char*>(t.const_data_ptr())), width(t.element_size())
    {
        for (int64_t d = 0; d < t.dim(); ++d) {
            dims.emplace_back(t.stride(d) * width, t.size(d) - 1);
        }
    }
    int64_t Bytes() const
    {
        int64_t bytes = width;
        for (const auto& [step, count] : dims) {
            bytes += step * count;
        }
        return bytes;
    }
};

constexpr int64_t kMaxWork = int64_t{1} << 20;

// True if `rest` is a sum of terms from `at` on, each used at most `count` times, or if the search takes too many
// steps. `most` is the sum of all of them.
[[maybe_unused]] bool IsSum(const std::vector<std::pair<int64_t, int64_t>>& terms, size_t at, int64_t rest, int64_t most,
                            int64_t& work)
{
    if (rest < 0 || rest > most) {
        return false;
    }
    if (rest == 0 || ++work > kMaxWork) {
        return true;
    }
    const auto [size, count] = terms[at];
    const int64_t behind = most - size * count;
    const int64_t least = std::max<int64_t>(0, (rest - behind + size - 1) / size);
    for (int64_t n = std::min(count, rest / size); n >= least; --n) {
        if (IsSum(terms, at + 1, rest - n * size, behind, work)) {
            return true;
        }
    }
    return false;
}

// True if an element of one tensor and an element of the other have a byte in common.
[[maybe_unused]] bool Share(const Span& a, const Span& b)
{
    // The distance from the first byte of a to the last one of b is a sum of steps forwards in a and backwards in b.
    const int64_t distance = b.first + b.Bytes() - 1 - a.first;
    std::vector<std::pair<int64_t, int64_t>> terms = {{1, a.width - 1}, {1, b.width - 1}};
    terms.insert(terms.end(), a.dims.begin(), a.dims.end());
    terms.insert(terms.end(), b.dims.begin(), b.dims.end());
    terms.erase(std::remove_if(terms.begin(), terms.end(), [](const auto& t) { return t.first == 0 || t.second == 0; }),
                terms.end());
    std::sort(terms.rbegin(), terms.rend());
    int64_t work = 0;
    return IsSum(terms, 0, distance, a.Bytes() + b.Bytes() - 2, work);
}

// True if two elements of one tensor have a byte in common.
[[maybe_unused]] bool SharesWithItself(Span a)
{
    // Take the first dimension along which two elements differ: compare the later elements there with the first one,
    // over all indices of the dimensions after it.
    for (size_t d = 0; d < a.dims.size(); ++d) {
        Span later = a;
        const auto [step, count] = std::exchange(a.dims[d], {0, 0});
        later.first += step;
        later.dims[d].second = count - 1;
        if (count > 0 && Share(a, later)) {
            return true;
        }
    }
    return false;
}

// An argument and whether the kernel overwrites it.
struct Argument {
    const char* name;
    const at::Tensor& tensor;
    bool written;
};

// Checks that an overwritten argument shares no memory with itself or another argument.
[[maybe_unused]] void CheckApart(const char* op, const std::vector<Argument>& arguments)
{
    for (size_t i = 0; i < arguments.size(); ++i) {
        const Argument& a = arguments[i];
        if (!a.written || a.tensor.numel() == 0) {
            continue;
        }
        TORCH_CHECK_VALUE(!SharesWithItself(Span(a.tensor)), op, ": elements of ", a.name,
                          " share memory, and the kernel overwrites it");
        for (size_t k = 0; k < arguments.size(); ++k) {
            const Argument& b = arguments[k];
            if (k == i || (b.written && k < i) || b.tensor.numel() == 0) {
                continue;
            }
            TORCH_CHECK_VALUE(!Share(Span(a.tensor), Span(b.tensor)), op, ": ", a.name, " shares memory with ", b.name,
                              ", and the kernel overwrites it");
        }
    }
}

// The kernel --------------------------------------------------------------------------------------

// A library with the kernel and its host functions; never closed.
struct Kernel {
    void* handle = nullptr;
    void* tiling = nullptr;
    int64_t (*launch)(uint32_t, void*, void**, void*) = nullptr;
    const char* (*text)(int64_t) = nullptr;
    uint64_t tiling_bytes = 0;
};

// The folder of this extension.
[[maybe_unused]] std::string Folder()
{
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(&Folder), &info) == 0 || info.dli_fname == nullptr) {
        return "";
    }
    const std::string path = info.dli_fname;
    const size_t end = path.rfind('/');
    return end == std::string::npos ? "" : path.substr(0, end + 1);
}

[[maybe_unused]] void* Function(const char* op, void* handle, const char* name)
{
    void* found = dlsym(handle, name);
    TORCH_CHECK(found != nullptr, op, ": the library of the kernel has no function ", name, "; build the extension again");
    return found;
}

// Checks that the library reports the version of the C interface that this header calls.
[[maybe_unused]] void CheckAbi(const char* op, void* handle)
{
    const auto version = reinterpret_cast<uint32_t (*)()>(Function(op, handle, "AutofuseAbiVersion"))();
    TORCH_CHECK(version == kAbiVersion, op, ": the library of the kernel has version ", version,
                " of the C interface, and this extension calls version ", kAbiVersion,
                "; build the extension again");
}

// Opens FOLDER/FILE; `why` explains a missing file: the build left something out.
[[maybe_unused]] Kernel Open(const char* op, const std::string& file, const char* why)
{
    const std::string path = Folder() + file;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* error = dlerror();
        TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": ", why, " (", error == nullptr ? "" : error, ")");
    }
    CheckAbi(op, handle);
    Kernel k;
    k.handle = handle;
    k.tiling = Function(op, handle, "AutofuseTiling");
    k.launch = reinterpret_cast<decltype(k.launch)>(Function(op, handle, "AutofuseLaunchArray"));
    k.text = reinterpret_cast<decltype(k.text)>(Function(op, handle, "AutofuseErrorText"));
    k.tiling_bytes = reinterpret_cast<uint64_t (*)()>(Function(op, handle, "GetTilingDataSize"))();
    return k;
}

// The choices of the tiling function for a call.
struct Plan {
    std::vector<uint64_t> data;
    uint32_t workspace = 0;
    uint32_t block_dim = 0;
};

// Every symbol is an int64_t.
template <typename... Symbols>
Plan PlanOf(const Kernel& kernel, const char* op, Symbols... symbols)
{
    Plan plan;
    plan.data.resize(kernel.tiling_bytes / sizeof(uint64_t) + 1);
    using Tiling = int64_t (*)(Symbols..., void*, uint32_t*, uint32_t*, void*);
    const int64_t rc = reinterpret_cast<Tiling>(kernel.tiling)(symbols..., plan.data.data(), &plan.workspace,
                                                               &plan.block_dim, nullptr);
    TORCH_CHECK_VALUE(rc == 0, op, ": ", kernel.text(rc));
    return plan;
}

// Memory of PyTorch's allocator on the device of `like`.
[[maybe_unused]] at::Tensor Workspace(const Plan& plan, const at::Tensor& like)
{
    const int64_t bytes = plan.workspace == 0 ? 0 : static_cast<int64_t>(plan.workspace + kWorkspaceAlign);
    return at::empty({bytes}, like.options().dtype(at::kByte));
}

// Pointers in the order of the kernel's parameters; the workspace is aligned to 512 bytes.
[[maybe_unused]] std::vector<void*> Pointers(const std::vector<Buffer>& buffers, const at::Tensor& workspace)
{
    std::vector<void*> out;
    out.reserve(buffers.size() + 1);
    for (const Buffer& b : buffers) {
        out.push_back(b.Pointer());
    }
    const auto start = reinterpret_cast<uintptr_t>(workspace.numel() == 0 ? nullptr : workspace.data_ptr());
    out.push_back(reinterpret_cast<void*>((start + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign));
    return out;
}

// True if no output has any elements: the launch may be skipped.
[[maybe_unused]] bool NothingToDo(const std::vector<Buffer>& buffers)
{
    return std::all_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return !b.written || b.tensor.numel() == 0; });
}

}  // namespace
}  // namespace autofuse_torch

#endif
