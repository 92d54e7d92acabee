// running_sum: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared running_sum.cpp

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

static void running_sum_0(const float* __restrict x, float* __restrict y)
{
    for (int64_t start = 0; start < 40; start += 32) {
        const int64_t lanes = std::min<int64_t>(32, 40 - start);
        double sum_total[32];
        std::fill_n(sum_total, 32, 0.0);
        for (int64_t i0 = 30 - 1; i0 >= 0; --i0) {
            #pragma omp simd
            for (int64_t j = 0; j < lanes; ++j) {
                const int64_t i1 = start + j;
                const float x_value = x[i0 * 40 + i1];
                const float square = x_value * x_value;
                sum_total[j] += square;
                const float sum = static_cast<float>(sum_total[j]);
                const float root = std::sqrt(sum);
                y[i0 * 40 + i1] = root;
            }
        }
    }
}

extern "C" void running_sum_kernel(void** data)
{
    const float* const x = static_cast<const float*>(data[0]);
    float* const y = static_cast<float*>(data[1]);
    running_sum_0(x, y);
}
