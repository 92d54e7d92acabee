// Python module autofuse._twin: loading a generated kernel library, its tiling function, and checked launches.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "autofuse_twin/launch.h"
#include "autofuse_twin/types.h"

namespace py = pybind11;

namespace {

constexpr size_t kMaxSymbols = 64;
constexpr size_t kWorkspaceAlign = 512;
// Workspace words that a thread keeps for its next call: 8 MiB.
constexpr size_t kKeptWorkspace = size_t{1} << 20;

// Layout shared with the generated host code.
struct ResLimit {
    uint32_t valid_num;
    uint32_t aiv_num;
    uint32_t aic_num;
    uint32_t ub_size;
    uint32_t resv[10];
};

struct TilingArgs {
    void* data;
    uint32_t* workspace;
    uint32_t* block_dim;
    ResLimit* limit;
};

template <size_t> using Int64 = int64_t;

// AutofuseTiling takes one int64_t per symbol before its pointers, so each symbol count is its own function type.
template <size_t... I>
int64_t CallTiling(void* fn, const int64_t* symbols, const TilingArgs& a, std::index_sequence<I...>) {
    using Fn = int64_t (*)(Int64<I>..., void*, uint32_t*, uint32_t*, ResLimit*);
    (void)symbols;
    return reinterpret_cast<Fn>(fn)(symbols[I]..., a.data, a.workspace, a.block_dim, a.limit);
}
template <size_t... I>
int64_t CallTilingForKey(void* fn, uint32_t key, const int64_t* symbols, const TilingArgs& a, std::index_sequence<I...>) {
    using Fn = int64_t (*)(uint32_t, Int64<I>..., void*, uint32_t*, uint32_t*, ResLimit*);
    (void)symbols;
    return reinterpret_cast<Fn>(fn)(key, symbols[I]..., a.data, a.workspace, a.block_dim, a.limit);
}

using TilingCall = int64_t (*)(void*, int64_t, const int64_t*, const TilingArgs&);
template <size_t N> int64_t TilingOf(void* fn, int64_t key, const int64_t* symbols, const TilingArgs& a) {
    if (key < 0) {
        return CallTiling(fn, symbols, a, std::make_index_sequence<N>{});
    }
    return CallTilingForKey(fn, static_cast<uint32_t>(key), symbols, a, std::make_index_sequence<N>{});
}
template <size_t... N> TilingCall PickTiling(size_t n, std::index_sequence<N...>) {
    static constexpr TilingCall table[] = {TilingOf<N>...};
    return table[n];
}

using PlainCall = int64_t (*)(void*, const int64_t*);
template <size_t... I> int64_t CallPlain(void* fn, const int64_t* args, std::index_sequence<I...>) {
    (void)args;
    return reinterpret_cast<int64_t (*)(Int64<I>...)>(fn)(args[I]...);
}
template <size_t N> int64_t PlainOf(void* fn, const int64_t* args) {
    return CallPlain(fn, args, std::make_index_sequence<N>{});
}
template <size_t... N> PlainCall PickPlain(size_t n, std::index_sequence<N...>) {
    static constexpr PlainCall table[] = {PlainOf<N>...};
    return table[n];
}

// The calls of an architecture, by the target files' names of dtypes and round modes.
class Architecture {
public:
    Architecture(std::string name, const std::vector<std::tuple<std::string, std::string, std::string>>& modes,
                 std::vector<std::string> lacks, std::vector<std::string> flushes, bool zero_counts,
                 uint64_t control)
        : name_(std::move(name)), lacks_(std::move(lacks)), flushes_(std::move(flushes)) {
        for (const auto& [source, destination, mode] : modes) {
            const int bit = Index(kModes, mode);
            calls_.modes[Type(source)][Type(destination)] |= static_cast<uint8_t>(1u << bit);
        }
        for (const std::string& call : lacks_) {
            names_.push_back(call.c_str());
        }
        calls_.name = name_.c_str();
        calls_.lacks = names_.data();
        calls_.lacks_count = names_.size();
        for (const std::string& call : flushes_) {
            flushing_.push_back(call.c_str());
        }
        calls_.flushes = flushing_.data();
        calls_.flushes_count = flushing_.size();
        calls_.zero_counts = zero_counts ? 1 : 0;
        calls_.control = control;
    }
    Architecture(const Architecture&) = delete;
    Architecture& operator=(const Architecture&) = delete;

    const autofuse_twin_architecture* Calls() const { return &calls_; }

    // The twin's built-in round modes of Atlas A2 for a conversion.
    static std::vector<std::string> DefaultModes(const std::string& source, const std::string& destination) {
        const uint8_t bits = autofuse_twin_default_modes(Type(source), Type(destination));
        std::vector<std::string> out;
        for (size_t i = 0; i < kModes.size(); ++i) {
            if ((bits >> i & 1) != 0) {
                out.emplace_back(kModes[i]);
            }
        }
        return out;
    }

private:
    template <size_t N> static int Index(const std::array<const char*, N>& names, const std::string& name) {
        const auto at = std::find(names.begin(), names.end(), name);
        if (at == names.end()) {
            throw std::invalid_argument("the twin knows no " + name);
        }
        return static_cast<int>(at - names.begin());
    }
    // A bool of a kernel is a byte.
    static int Type(const std::string& dtype) { return Index(kTypes, dtype == "bool" ? "uint8" : dtype); }

    static constexpr std::array<const char*, AUTOFUSE_TWIN_TYPES> kTypes = {
        "uint8", "int8", "uint16", "int16", "float16", "bfloat16", "uint32", "int32", "float32", "uint64", "int64", "float64"};
    static constexpr std::array<const char*, 8> kModes = {"NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD", "HYBRID"};

    std::string name_;
    std::vector<std::string> lacks_;
    std::vector<const char*> names_;
    std::vector<std::string> flushes_;
    std::vector<const char*> flushing_;
    autofuse_twin_architecture calls_{};
};

using Region = std::tuple<uintptr_t, uint64_t, std::string, int>;

class Kernel {
public:
    explicit Kernel(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr) {
            const char* why = dlerror();
            throw std::runtime_error(why == nullptr ? "cannot load " + path : why);
        }
    }
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;
    ~Kernel() { Close(); }

    const std::string& Path() const { return path_; }
    void Close() {
        if (handle_ != nullptr) {
            dlclose(handle_);
            handle_ = nullptr;
        }
    }

    bool Has(const std::string& symbol) const { return handle_ != nullptr && dlsym(handle_, symbol.c_str()) != nullptr; }

    // Calls int64_t f(int64_t...) with up to 64 arguments.
    int64_t CallInt(const std::string& symbol, const std::vector<int64_t>& args) const {
        void* fn = Symbol(symbol);
        if (args.size() > kMaxSymbols) {
            throw std::invalid_argument("at most 64 arguments are supported");
        }
        return PickPlain(args.size(), std::make_index_sequence<kMaxSymbols + 1>{})(fn, args.data());
    }

    std::tuple<int64_t, py::bytes, uint32_t, uint32_t> Tiling(const std::vector<int64_t>& symbols, size_t tiling_bytes,
                                                              std::optional<std::pair<uint32_t, uint32_t>> limit,
                                                              int64_t key) const {
        if (symbols.size() > kMaxSymbols) {
            throw std::invalid_argument("at most 64 symbols are supported");
        }
        void* fn = Symbol(key < 0 ? "AutofuseTiling" : "AutofuseTilingForKey");
        // 64-bit units keep the buffer aligned for any POD.
        std::vector<uint64_t> data((tiling_bytes + 7) / 8, 0);
        uint32_t workspace = 0;
        uint32_t block_dim = 0;
        ResLimit res{};
        if (limit) {
            res.valid_num = 3;
            res.aiv_num = limit->first;
            res.ub_size = limit->second;
        }
        const TilingArgs args{data.data(), &workspace, &block_dim, limit ? &res : nullptr};
        int64_t rc = 0;
        {
            const py::gil_scoped_release unlocked;
            rc = PickTiling(symbols.size(), std::make_index_sequence<kMaxSymbols + 1>{})(fn, key, symbols.data(), args);
        }
        return {rc, py::bytes(reinterpret_cast<const char*>(data.data()), tiling_bytes), workspace, block_dim};
    }

    std::string TilingErrorText(int64_t rc) const {
        void* fn = handle_ == nullptr ? nullptr : dlsym(handle_, "AutofuseErrorText");
        if (fn == nullptr) {
            return "";
        }
        const char* text = reinterpret_cast<const char* (*)(int64_t)>(fn)(rc);
        return text == nullptr ? "" : text;
    }

    py::list Launch(uint32_t block_dim, const std::vector<uintptr_t>& pointers, const std::string& tiling_data,
                    const std::vector<Region>& regions, uint64_t ub_size, int threads, const std::string& check,
                    uint64_t seed, const std::vector<uint32_t>& record, uint64_t record_limit,
                    const Architecture* architecture) const {
        if (check != "fast" && check != "all") {
            throw std::invalid_argument("check is 'fast' or 'all', not '" + check + "'");
        }
        void* fn = Symbol("AutofuseLaunchArray");
        std::vector<void*> args;
        args.reserve(pointers.size() + 1);
        for (const uintptr_t p : pointers) {
            args.push_back(reinterpret_cast<void*>(p));
        }
        args.push_back(nullptr);  // never an empty array
        std::vector<uint64_t> data(tiling_data.size() / 8 + 1, 0);
        std::memcpy(data.data(), tiling_data.data(), tiling_data.size());
        autofuse_twin_gm_clear();
        for (const Region& r : regions) {
            autofuse_twin_gm_add(reinterpret_cast<const void*>(std::get<0>(r)), std::get<1>(r), std::get<2>(r).c_str(),
                                 std::get<3>(r));
        }
        autofuse_twin_set_ub_size(ub_size);
        autofuse_twin_set_architecture(architecture == nullptr ? nullptr : architecture->Calls());
        autofuse_twin_set_threads(threads);
        autofuse_twin_set_check(check == "all" ? 1 : 0, seed);
        autofuse_twin_set_record(record.data(), static_cast<uint32_t>(record.size()), record_limit);
        using Fn = int64_t (*)(uint32_t, void*, void**, void*);
        int64_t rc = 0;
        std::string json;
        {
            const py::gil_scoped_release unlocked;
            // Clear earlier findings, as this launch may fail before it reaches the twin.
            autofuse_twin_findings_clear();
            rc = reinterpret_cast<Fn>(fn)(block_dim, nullptr, args.data(), data.data());
            json.resize(autofuse_twin_findings_json(nullptr, 0) + 1);
            autofuse_twin_findings_json(&json[0], json.size());
            json.pop_back();
        }
        autofuse_twin_gm_clear();
        autofuse_twin_set_ub_size(0);
        autofuse_twin_set_architecture(nullptr);
        autofuse_twin_set_threads(0);
        autofuse_twin_set_check(0, 0);
        autofuse_twin_set_record(nullptr, 0, 0);
        py::list findings = py::module_::import("json").attr("loads")(json);
        if (rc != 0 && findings.empty()) {
            py::dict d;
            d["code"] = "launch-rc";
            d["core"] = -1;
            d["cores"] = 1;
            d["api"] = "AutofuseLaunchArray";
            d["message"] = "the launch function returned " + std::to_string(rc);
            for (const char* key : {"line", "count", "begin", "end"}) {
                d[key] = 0;
            }
            d["nested"] = false;
            d["place"] = "";
            d["other"] = py::none();
            findings.append(d);
        }
        return findings;
    }

    // Tiling and launch in one call. pointers: inputs and outputs; the workspace comes from the calling thread. sizes:
    // the bytes of each; the first `inputs` of them are read-only. Without sizes, GM is not checked.
    std::pair<int64_t, std::string> Run(const std::vector<int64_t>& symbols, const std::vector<uintptr_t>& pointers,
                                        int threads, const std::vector<uint64_t>& sizes, size_t inputs) const {
        if (symbols.size() > kMaxSymbols) {
            throw std::invalid_argument("at most 64 symbols are supported");
        }
        if (!sizes.empty() && sizes.size() != pointers.size()) {
            throw std::invalid_argument("a size for every pointer, or none");
        }
        // The tiling function caches its latest choices itself.
        const int64_t bytes = reinterpret_cast<int64_t (*)()>(Symbol("GetTilingDataSize"))();
        std::vector<uint64_t> data((static_cast<size_t>(bytes) + 7) / 8);
        uint32_t workspace = 0;
        uint32_t block_dim = 0;
        const TilingArgs tiling{data.data(), &workspace, &block_dim, nullptr};
        const int64_t tiled = PickTiling(symbols.size(), std::make_index_sequence<kMaxSymbols + 1>{})(
            Symbol("AutofuseTiling"), -1, symbols.data(), tiling);
        if (tiled != 0) {
            return {tiled, TilingErrorText(tiled)};
        }
        void* launch = Symbol("AutofuseLaunchArray");
        std::vector<void*> args;
        args.reserve(pointers.size() + 1);
        for (const uintptr_t p : pointers) {
            args.push_back(reinterpret_cast<void*>(p));
        }
        const py::gil_scoped_release unlocked;
        thread_local std::vector<uint64_t> scratch;
        std::vector<uint64_t> large;
        args.push_back(Workspace(workspace, scratch, large));
        autofuse_twin_gm_clear();
        for (size_t i = 0; i < sizes.size(); ++i) {
            const bool read = i < inputs;
            const std::string name = (read ? "input " : "output ") + std::to_string(read ? i : i - inputs);
            autofuse_twin_gm_add(args[i], sizes[i], name.c_str(), read ? 0 : AUTOFUSE_TWIN_GM_WRITABLE);
        }
        if (!sizes.empty()) {
            autofuse_twin_gm_add(args.back(), workspace, "workspace", AUTOFUSE_TWIN_GM_WRITABLE | AUTOFUSE_TWIN_GM_SCRATCH);
        }
        autofuse_twin_set_threads(threads);
        autofuse_twin_findings_clear();
        using Fn = int64_t (*)(uint32_t, void*, void**, void*);
        const int64_t rc = reinterpret_cast<Fn>(launch)(block_dim, nullptr, args.data(), data.data());
        autofuse_twin_set_threads(0);
        autofuse_twin_gm_clear();
        if (rc == 0) {
            return {0, ""};
        }
        std::string json(autofuse_twin_findings_json(nullptr, 0) + 1, ' ');
        autofuse_twin_findings_json(&json[0], json.size());
        json.pop_back();
        return {rc, json};
    }

private:
    // Memory for `bytes`, aligned for copies; large allocations are freed after the call.
    static void* Workspace(size_t bytes, std::vector<uint64_t>& kept, std::vector<uint64_t>& large) {
        const size_t words = bytes / 8 + kWorkspaceAlign / 8 + 1;
        std::vector<uint64_t>& memory = words > kKeptWorkspace ? large : kept;
        if (memory.size() < words) {
            memory.resize(words);
        }
        const uintptr_t start = reinterpret_cast<uintptr_t>(memory.data());
        return reinterpret_cast<void*>((start + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign);
    }

    void* Symbol(const std::string& name) const {
        if (handle_ == nullptr) {
            throw std::runtime_error(path_ + " is closed");
        }
        void* fn = dlsym(handle_, name.c_str());
        if (fn == nullptr) {
            throw py::key_error(path_ + " does not export " + name);
        }
        return fn;
    }

    std::string path_;
    void* handle_;
};

template <typename To, typename From, To (*Convert)(From)>
py::array_t<To> Map(const py::array_t<From, py::array::c_style | py::array::forcecast>& in) {
    py::array_t<To> out(std::vector<py::ssize_t>(in.shape(), in.shape() + in.ndim()));
    const From* src = in.data();
    To* dst = out.mutable_data();
    for (py::ssize_t i = 0; i < in.size(); ++i) {
        dst[i] = Convert(src[i]);
    }
    return out;
}

using Buffer = std::tuple<uint32_t, uint32_t, int32_t, uint32_t, uint32_t>;

std::vector<std::tuple<uint32_t, bool, py::bytes, std::vector<Buffer>, std::vector<std::string>>> Records() {
    std::vector<std::tuple<uint32_t, bool, py::bytes, std::vector<Buffer>, std::vector<std::string>>> out;
    autofuse_twin_record r;
    while (autofuse_twin_get_record(static_cast<uint32_t>(out.size()), &r) != 0) {
        std::vector<Buffer> buffers;
        for (uint64_t i = 0; i < r.buffers_count; ++i) {
            const autofuse_twin_buffer& b = r.buffers[i];
            buffers.emplace_back(b.lo, b.hi, b.queue, b.index, b.pos);
        }
        const size_t bytes = r.events_count * sizeof(autofuse_twin_event);
        out.emplace_back(r.core, r.cut != 0, py::bytes(reinterpret_cast<const char*>(r.events), bytes), std::move(buffers),
                         std::vector<std::string>(r.apis, r.apis + r.apis_count));
    }
    return out;
}

// Kernel libraries that were not linked against the twin still find its symbols.
void ExportTwinSymbols() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&autofuse_twin_version), &info) != 0 && info.dli_fname != nullptr) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    }
}

}  // namespace

PYBIND11_MODULE(_twin, m) {
    m.doc() = "Loads generated kernels and runs them on the CPU twin of the Ascend C API.";
    ExportTwinSymbols();
    m.attr("DEFAULT_UB_SIZE") = 196608 - 256 - 8192;
    m.attr("GM_WRITABLE") = static_cast<int>(AUTOFUSE_TWIN_GM_WRITABLE);
    m.attr("GM_ONCE") = static_cast<int>(AUTOFUSE_TWIN_GM_ONCE);
    m.attr("GM_COMPLETE") = static_cast<int>(AUTOFUSE_TWIN_GM_COMPLETE);
    m.attr("GM_SCRATCH") = static_cast<int>(AUTOFUSE_TWIN_GM_SCRATCH);
    m.def("version", [] { return std::string(autofuse_twin_version()); });
    m.def(
        "moved_bytes",
        [] {
            uint64_t loaded = 0;
            uint64_t stored = 0;
            autofuse_twin_moved_bytes(&loaded, &stored);
            return std::pair<uint64_t, uint64_t>{loaded, stored};
        },
        "Bytes that the copies of this thread's last launch moved from GM and to GM.");
    m.def(
        "core_bytes",
        [] {
            std::vector<std::pair<uint64_t, uint64_t>> out;
            std::pair<uint64_t, uint64_t> bytes;
            while (autofuse_twin_core_bytes(static_cast<uint32_t>(out.size()), &bytes.first, &bytes.second) != 0) {
                out.push_back(bytes);
            }
            return out;
        },
        "The same for every core: (from GM, to GM); cores that did not run have (0, 0).");
    m.attr("EVENT_BYTES") = sizeof(autofuse_twin_event);
    m.def("records", &Records,
          "What the cores did that this thread's last launch recorded: (core, cut, events, buffers, apis) each. cut: there "
          "was more. events: the bytes of the C structs autofuse_twin_event. buffers: (lo, hi, queue, index, position).");
    py::class_<Architecture>(m, "Architecture")
        .def(py::init<std::string, const std::vector<std::tuple<std::string, std::string, std::string>>&,
                      std::vector<std::string>, std::vector<std::string>, bool, uint64_t>(),
             py::arg("name"), py::arg("modes"), py::arg("lacks"), py::arg("flushes") = std::vector<std::string>{},
             py::arg("zero_counts") = false, py::arg("control") = uint64_t{0},
             "The calls of an architecture. modes: (source, destination, round mode) of Cast. lacks: calls that it does not "
             "have. flushes: those to which subnormal numbers are zeros. zero_counts: a call of nothing is a finding. "
             "control: the control register when a kernel begins; 0, nothing is known of it.")
        .def_static("default_modes", &Architecture::DefaultModes, py::arg("source"), py::arg("destination"),
                    "Round modes where a launch is given no architecture.");
    py::class_<Kernel>(m, "Kernel")
        .def(py::init<const std::string&>(), py::arg("path"))
        .def_property_readonly("path", &Kernel::Path)
        .def("close", &Kernel::Close, "Unloads the library; the object cannot be used afterwards.")
        .def("has", &Kernel::Has, py::arg("symbol"))
        .def("call_int", &Kernel::CallInt, py::arg("symbol"), py::arg("int_args") = std::vector<int64_t>{},
             "Calls int64_t symbol(int64_t...) and returns its result.")
        .def("tiling", &Kernel::Tiling, py::arg("symbols"), py::arg("tiling_bytes"), py::arg("limit") = py::none(),
             py::arg("key") = -1,
             "Returns (rc, tiling_data, workspace_size, block_dim). limit is (aiv_num, ub_size); key >= 0 forces a "
             "tiling key.")
        .def("tiling_error_text", &Kernel::TilingErrorText, py::arg("rc"))
        .def("run", &Kernel::Run, py::arg("symbols"), py::arg("pointers"), py::arg("threads") = 0,
             py::arg("sizes") = std::vector<uint64_t>{}, py::arg("inputs") = size_t{0},
             "Tiling and launch in one call. pointers: inputs and outputs; workspace is provided. sizes: of what these point "
             "to, in bytes, the first `inputs` of them only read; without any, GM is not checked. Returns (0, ''), or the status and a text: of the tiling function, or the "
             "findings of the twin as JSON.")
        .def("launch", &Kernel::Launch, py::arg("block_dim"), py::arg("pointers"), py::arg("tiling_data"), py::kw_only(),
             py::arg("regions") = std::vector<Region>{}, py::arg("ub_size") = 0, py::arg("threads") = 0,
             py::arg("check") = "fast", py::arg("seed") = 0, py::arg("record") = std::vector<uint32_t>{},
             py::arg("record_limit") = uint64_t{1} << 20, py::arg("architecture") = static_cast<const Architecture*>(nullptr),
             "Runs the kernel. pointers: inputs, outputs, workspace. regions: (ptr, bytes, name, use); use is 0 for "
             "inputs, else a sum of GM_WRITABLE, GM_ONCE, GM_COMPLETE, GM_SCRATCH; without any, GM is not checked. "
             "check 'all' looks for races and uninitialised data in kernels compiled with AUTOFUSE_TWIN_CHECKED; "
             "a seed other than 0 then executes in an unfavourable order. record: the cores that run, in checked mode, and "
             "are recorded up to record_limit events each, see records(). architecture: whose calls the kernel may make; None for "
             "Atlas A2. Returns the findings; an empty list means that every check held.");
    m.def("float_to_half", &Map<uint16_t, float, autofuse_twin::FloatToHalfBits>, py::arg("values"));
    m.def("half_to_float", &Map<float, uint16_t, autofuse_twin::HalfBitsToFloat>, py::arg("bits"));
    m.def("float_to_bf16", &Map<uint16_t, float, autofuse_twin::FloatToBf16Bits>, py::arg("values"));
    m.def("bf16_to_float", &Map<float, uint16_t, autofuse_twin::Bf16BitsToFloat>, py::arg("bits"));
}
