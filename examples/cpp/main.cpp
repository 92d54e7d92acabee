// Calls a generated kernel from C++: y = max(x + bias, 0) with x of [rows, cols] and bias of [cols], sizes known at run time.
//
//   call_kernel libadd_bias_dynamic.so [rows cols]
//
// Every library has functions of the same names, so it is opened with RTLD_LOCAL: a program may hold any number of them.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "autofuse_shape.h"          // AutofuseShape
#include "autofuse_status.h"         // autofuse::kOk, ...
#include "autofuse_tiling_data.h"    // AutofuseTilingData of this kernel
#include "autofuse_tiling.h"  // ResLimit

namespace {

// The functions of the library.  Those that take symbols have one int64_t per symbol, in the order of the graph file:
// here rows, cols.  The pointers of AutofuseLaunch are inputs, outputs, workspace.
struct Kernel {
    explicit Kernel(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL), &dlclose)
    {
        if (handle == nullptr) {
            throw std::runtime_error(dlerror());
        }
        // First: a library with another version has other functions.
        Find("AutofuseAbiVersion", &abi_version);
        if (abi_version() != autofuse::kAbiVersion) {
            throw std::runtime_error("the library has another C interface: build kernel and program with one autofuse");
        }
        Find("InferShape", &infer_shape);
        Find("AutofuseTiling", &tiling);
        Find("AutofuseTilingForKey", &tiling_for_key);
        Find("AutofuseLaunch", &launch);
        Find("AutofuseErrorText", &error_text);
        Find("GetTilingDataSize", &tiling_data_size);
        Find("GetTilingKeyCount", &key_count);
        if (tiling_data_size() != sizeof(AutofuseTilingData)) {
            throw std::runtime_error("the header is not the one of this library");
        }
    }

    template <typename Function>
    void Find(const char* name, Function** function)
    {
        void* found = dlsym(handle.get(), name);
        if (found == nullptr) {
            throw std::runtime_error(std::string("the library has no ") + name);
        }
        std::memcpy(function, &found, sizeof(found));
    }

    std::unique_ptr<void, int (*)(void*)> handle;
    uint32_t (*abi_version)() = nullptr;
    int64_t (*infer_shape)(uint32_t, const AutofuseShape*, uint32_t, AutofuseShape*) = nullptr;
    int64_t (*tiling)(int64_t rows, int64_t cols, AutofuseTilingData*, uint32_t*, uint32_t*, ResLimit*) = nullptr;
    int64_t (*tiling_for_key)(uint32_t key, int64_t rows, int64_t cols, AutofuseTilingData*, uint32_t*, uint32_t*,
                              ResLimit*) = nullptr;
    int64_t (*launch)(uint32_t block_dim, void* stream, void* x, void* bias, void* y, void* workspace,
                      AutofuseTilingData*) = nullptr;
    const char* (*error_text)(int64_t) = nullptr;
    uint64_t (*tiling_data_size)() = nullptr;
    uint32_t (*key_count)() = nullptr;
};

void Check(const Kernel& kernel, const char* function, int64_t rc)
{
    if (rc != autofuse::kOk) {
        throw std::runtime_error(std::string(function) + " returned " + std::to_string(rc) + ": " + kernel.error_text(rc));
    }
}

void Expect(bool holds, const std::string& what)
{
    if (!holds) {
        throw std::runtime_error("expected: " + what);
    }
}

struct Options {
    ResLimit* limit = nullptr;  // cores and UB that the caller grants; null: all of the chip
    int64_t key = -1;           // a template by its tiling key; -1: the tiling function chooses
};

// What one run needs; nothing in it is shared with another one.
struct Run {
    Run(int64_t row_count, int64_t col_count, uint32_t seed)
        : rows(row_count), cols(col_count), x(static_cast<size_t>(rows * cols)), bias(static_cast<size_t>(cols))
    {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> number(-4.0F, 4.0F);
        for (float& v : x) {
            v = number(random);
        }
        for (float& v : bias) {
            v = number(random);
        }
    }

    // False if the template does not take these sizes.
    bool Call(const Kernel& kernel, const Options& options)
    {
        // 1. How large is the output?
        const AutofuseShape inputs[] = {{2, {rows, cols}}, {1, {cols}}};
        AutofuseShape output = {};
        Check(kernel, "InferShape", kernel.infer_shape(2, inputs, 1, &output));
        Expect(output.rank == 2 && output.dims[0] == rows && output.dims[1] == cols, "an output of [rows, cols]");
        y.assign(static_cast<size_t>(output.dims[0] * output.dims[1]), -1.0F);

        // 2. Template, tile sizes and cores for these sizes; the bytes of workspace, and the number of cores to launch on.
        AutofuseTilingData data;
        uint32_t workspace_size = 0;
        uint32_t block_dim = 0;
        const int64_t rc =
            options.key < 0 ? kernel.tiling(rows, cols, &data, &workspace_size, &block_dim, options.limit)
                            : kernel.tiling_for_key(static_cast<uint32_t>(options.key), rows, cols, &data,
                                                    &workspace_size, &block_dim, options.limit);
        const int64_t kind = rc % autofuse::kStatusStep;
        if (options.key >= 0 && (kind == autofuse::kCondition || kind == autofuse::kNoTile)) {
            return false;
        }
        Check(kernel, "AutofuseTiling", rc);
        cores = block_dim;

        // 3. Run.  On the twin a tensor is plain memory, there is no stream, and the call returns when the kernel is done.
        std::vector<uint8_t> workspace(workspace_size);
        Check(kernel, "AutofuseLaunch",
              kernel.launch(block_dim, nullptr, x.data(), bias.data(), y.data(), workspace.data(), &data));
        return true;
    }

    void Compare() const
    {
        for (int64_t i = 0; i < rows * cols; ++i) {
            const float sum = x[static_cast<size_t>(i)] + bias[static_cast<size_t>(i % cols)];
            const float wanted = sum > 0.0F ? sum : 0.0F;
            if (y[static_cast<size_t>(i)] != wanted) {
                throw std::runtime_error("element " + std::to_string(i) + " is " +
                                         std::to_string(y[static_cast<size_t>(i)]) + ", not " + std::to_string(wanted));
            }
        }
    }

    int64_t rows, cols;
    uint32_t cores = 0;
    std::vector<float> x, bias, y;
};

uint32_t RunAndCompare(const Kernel& kernel, int64_t rows, int64_t cols, const Options& options = {})
{
    Run run(rows, cols, static_cast<uint32_t>(rows * 31 + cols));
    if (run.Call(kernel, options)) {
        run.Compare();
    }
    return run.cores;
}

void RunAll(const Kernel& kernel)
{
    // One kernel serves all sizes; 0, 1 and primes are sizes like others.
    const int64_t sizes[][2] = {{0, 5}, {1, 1}, {7, 13}, {1009, 257}, {64, 768}, {3, 40000}};
    for (const auto& s : sizes) {
        std::printf("%lld x %lld: right, %u core(s)\n", static_cast<long long>(s[0]), static_cast<long long>(s[1]),
                    RunAndCompare(kernel, s[0], s[1]));
    }

    // Every template by its key, where its condition holds.
    uint32_t ran = 0;
    for (uint32_t key = 0; key < kernel.key_count(); ++key) {
        ran += RunAndCompare(kernel, 64, 1024, {nullptr, key}) != 0 ? 1 : 0;
    }
    Expect(ran == kernel.key_count(), "templates that take 64 x 1024");
    std::printf("%u template(s): right\n", ran);

    // No more than two cores, and half of UB.
    ResLimit limit = {};
    limit.aiv_num = 2;
    limit.ub_size = 96 * 1024;
    const uint32_t cores = RunAndCompare(kernel, 1009, 257, {&limit});
    Expect(cores >= 1 && cores <= 2, "at most two cores");
    std::printf("limited to 2 cores: right, %u core(s)\n", cores);

    // Threads share the library, and nothing else.
    std::vector<std::string> failures(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < failures.size(); ++t) {
        threads.emplace_back([&kernel, &failures, t] {
            try {
                for (int64_t i = 0; i < 20; ++i) {
                    RunAndCompare(kernel, 10 * static_cast<int64_t>(t) + i, 100 + i);
                }
            } catch (const std::exception& e) {
                failures[t] = e.what();
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    for (const std::string& f : failures) {
        Expect(f.empty(), "no failure in a thread: " + f);
    }
    std::printf("%zu threads: right\n", failures.size());

    // What is wrong with a call is a number, and a text.
    const AutofuseShape wrong[] = {{2, {4, 6}}, {1, {5}}};
    AutofuseShape output = {};
    const int64_t rc = kernel.infer_shape(2, wrong, 1, &output);
    Expect(rc == autofuse::Fail(autofuse::kInputShape, 0) || rc == autofuse::Fail(autofuse::kInputShape, 1),
           "an error for shapes that do not fit");
    std::printf("x of [4, 6] with a bias of [5]: %lld, %s\n", static_cast<long long>(rc), kernel.error_text(rc));
    AutofuseTilingData data;
    uint32_t workspace_size = 0;
    uint32_t block_dim = 0;
    const int64_t range = kernel.tiling(4, 0, &data, &workspace_size, &block_dim, nullptr);
    Expect(range == autofuse::Fail(autofuse::kSymbolRange, 1), "an error for cols below its minimum");
    std::printf("cols of 0: %lld, %s\n", static_cast<long long>(range), kernel.error_text(range));
    Expect(kernel.tiling(4, 5, nullptr, &workspace_size, &block_dim, nullptr) == autofuse::kNullArgument,
           "an error for a null pointer");
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 2 && argc != 4) {
        std::fprintf(stderr, "usage: %s libadd_bias_dynamic.so [rows cols]\n", argv[0]);
        return 2;
    }
    try {
        const Kernel kernel(argv[1]);
        if (argc == 4) {
            const int64_t rows = std::atoll(argv[2]);
            const int64_t cols = std::atoll(argv[3]);
            Expect(rows >= 0 && cols >= 1, "rows from 0 on, cols from 1 on");
            std::printf("right, %u core(s)\n", RunAndCompare(kernel, rows, cols));
        } else {
            RunAll(kernel);
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
