// LargestTile against all tiles, tried one by one.  Prints what differs; exit status 1 if anything did.
#include <cstdio>
#include <initializer_list>

#include "autofuse_tile_search.h"

namespace {

int failures = 0;

// Bytes of UB that grow with the tile, each in another way, the last ones far from a line.
int64_t Bytes(int64_t shape, int64_t t)
{
    switch (shape) {
    case 0:
        return 4 * t;
    case 1:
        return 32 * autofuse::CeilDiv(3 * t, 32) + 64;
    case 2:
        return t * t;
    case 3:
        return t < 40 ? t : 1000 * t;
    case 4:
        return 100;
    default:
        return autofuse::Min(t, 20) * 16;
    }
}

// A multiple of the granule, or the whole axis; within all limits; 0 if there is none.
int64_t Tried(const autofuse::Axis& a, int64_t limit, int64_t shape)
{
    int64_t largest = 0;
    for (int64_t t = 1; t <= a.longest && t <= a.tile_max; ++t) {
        const bool legal = t % a.granule == 0 || t == a.longest;
        if (legal && Bytes(shape, t) <= limit) {
            largest = t;
        }
    }
    return largest;
}

}  // namespace

int main()
{
    // Beyond 256 granules UB is asked for along the way: of 2, 3 and 8 elements, from 513, 769 and 2049 on.
    for (int64_t longest = 1; longest <= 2070; longest += longest < 150 || longest % 256 < 20 ? 1 : 29) {
        for (const int64_t granule : {1, 2, 3, 8, 32, 64}) {
            for (const int64_t most : {int64_t{1}, granule, int64_t{37}, int64_t{64}, int64_t{100}, autofuse::kUnlimited}) {
                for (int64_t shape = 0; shape <= 5; ++shape) {
                    for (const int64_t limit : {1, 31, 99, 100, 160, 300, 1000, 39999, 40000, 1 << 20}) {
                        autofuse::Axis a;
                        a.extent = a.longest = longest;
                        a.granule = granule;
                        a.tile_max = most;
                        const autofuse::UbOf ub = {&shape, [](const void* of, int64_t t) {
                            return Bytes(*static_cast<const int64_t*>(of), t);
                        }};
                        const int64_t found = autofuse::LargestTile(a, limit, ub);
                        const int64_t tried = Tried(a, limit, shape);
                        if (found != tried && ++failures <= 20) {
                            std::printf("axis %lld granule %lld most %lld shape %lld limit %lld: found %lld, tried %lld\n",
                                        (long long)longest, (long long)granule, (long long)most, (long long)shape,
                                        (long long)limit, (long long)found, (long long)tried);
                        }
                    }
                }
            }
        }
    }
    return failures == 0 ? 0 : 1;
}
