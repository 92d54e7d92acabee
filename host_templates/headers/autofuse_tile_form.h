// The numbers that costs are computed from: of a chip, of the tiled axis of a template, and of what the template does.  No
// float.
//
// Ticks are 2^-10 cycles, rates 2^-24 cycles per byte or element.  Everything that a template does is base + step * t, with t
// the length of a tile along the tiled axis: a loop body has Copies (loads and stores), Calls of the vector unit and heads
// of calls.
#ifndef AUTOFUSE_TILE_FORM_H
#define AUTOFUSE_TILE_FORM_H

#include <stdint.h>

#include "autofuse_math.h"
#include "autofuse_tile_arithmetic.h"

namespace autofuse {

// The figures of a chip.
struct Chip {
    int64_t cores;
    int64_t ub;    // usable bytes
    int64_t line;  // bytes of a cache line
    int64_t l2;    // bytes
    int64_t load_issue;   // ticks of a command
    int64_t store_issue;
    int64_t row;          // ticks of a further row
    int64_t latency;      // ticks to the first byte of a load
    int64_t short_row;    // bytes that a row of less than a block counts for
    int64_t core_start;   // ticks that every core adds to the start
    int64_t load_rate;    // of one core: from memory, from L2, stores
    int64_t hot_rate;
    int64_t store_rate;
    int64_t read_share;   // of all cores: from memory, from L2, the same data for all, the same from different places,
    int64_t again_share;  // stores, from L2 on to memory
    int64_t same_share;
    int64_t shared_share;
    int64_t write_share;
    int64_t writeback_share;
};

// The tiled axis of a template, for given sizes.
struct TileAxis {
    int64_t extent;        // length
    int64_t longest;       // tile that holds the whole axis
    int64_t outer;         // iterations of the loops around it
    int64_t reduce_outer;  // iterations of the reduce loop per tile, or around the tiles
    int64_t granule;       // tiles are multiples of this, unless the tile is the whole axis
    int64_t tile_max;      // limit other than UB
    int64_t ub_limit;      // bytes
    bool looped;           // one core goes through all tiles of the axis
    bool conditions;       // the conditions of the template hold
};

enum Place : int64_t { kOnce = 0, kTile = 1, kStep = 2 };      // a body runs once per core, per tile, per step
// Again: read or written before, from L2. Stream: bypasses L2 where that cannot hold everything.
enum Route : int64_t { kRead = 0, kAgain = 1, kWrite = 2, kStream = 3 };

struct Line {
    int64_t base;
    int64_t step;

    constexpr int64_t At(int64_t t) const
    {
        return base + step * t;
    }
};

// One loop body: ticks of heads of calls and of the scalar unit, buffers of each queue.
struct Body {
    Place place;
    int64_t heads;
    int64_t scalar;
    int64_t buffers;  // 1 or 2
    bool chained;  // stored from the buffer that was loaded
    bool loads;
    bool staggered;  // every core starts at another step
};

// How copies of a body cut a tile into rows, with so many loads and stores that do.
struct Rows {
    int64_t body;
    int64_t loads;
    int64_t stores;
    Line commands;      // of a tile
    Line rows;
    Line row_bytes;
    int64_t aligned;    // distances in GM in bytes, or-ed
    int64_t tiled;      // distances of tiles per element of t, or-ed
};

// `count` equal loads or stores, by the index of their rows.
struct Copies {
    int64_t rows;
    Route route;
    int64_t count;
    int64_t whole;      // bytes of all cores, if they vary along the tiled axis
    int64_t each;       // bytes of one run, if not
    int64_t distinct;   // bytes that differ
    Line footprint;     // bytes of one run that is read again
    int64_t varies;     // 1 along a loop other than that over tiles
    bool varies_by_tile;
};

// Vector calls of a body: cycles in units of rates; a running sum goes over them once per bit of `along`.
struct Calls {
    int64_t body;
    Line cycles;
    Line along;
};

// Stands for the i-th of the numbers of a form that depend on sizes; no other number is as small.
constexpr int kMostNumbers = 4096;

constexpr int64_t Number(int i)
{
    return INT64_MIN + i;
}

// What a template does.
template <int kBodies, int kRows, int kCopies, int kCalls>
struct Form {
    static constexpr int kBodyLimit = kBodies;
    static constexpr int kRowsLimit = kRows;
    static constexpr int kCopyLimit = kCopies;
    static constexpr int kCallLimit = kCalls;

    int bodies;
    int rows;
    int copies;
    int calls;
    Body body[kBodyLimit];
    Rows row[kRowsLimit];
    Copies copy[kCopyLimit];
    Calls call[kCallLimit];
};

// A form whose tables lie elsewhere: one copy of the code does for all forms that it holds.
struct FormView {
    static constexpr int kBodyLimit = 8;
    static constexpr int kRowsLimit = 32;
    static constexpr int kCopyLimit = 48;

    int bodies;
    int rows;
    int copies;
    int calls;
    const Body* body;
    const Rows* row;
    const Copies* copy;
    const Calls* call;

    template <typename Form>
    static constexpr bool Holds()
    {
        return Form::kBodyLimit <= kBodyLimit && Form::kRowsLimit <= kRowsLimit && Form::kCopyLimit <= kCopyLimit;
    }

    template <typename Form>
    static constexpr FormView Of(const Form& form)
    {
        static_assert(Holds<Form>(), "it has more tables");
        return {form.bodies, form.rows, form.copies, form.calls, form.body, form.row, form.copy, form.call};
    }
};

// Whether a core loads what was loaded or written before.
template <typename Form>
constexpr bool LoadsAgain(const Form& form)
{
    bool again = false;
    for (int i = 0; i < form.copies; ++i) {
        again = again || form.copy[i].route == kAgain;
    }
    return again;
}

// A form, and the chip as granted, that code looks up when it runs: one copy of the code does for all of them.
template <typename FormOf>
struct Rolled {
    using Form = FormOf;
    static constexpr bool kUnrolled = false;

    static const Form& Shape(const Form& form)
    {
        return form;
    }

    static const Chip& Figures(const Chip& granted)
    {
        return granted;
    }
};

#if defined(__OPTIMIZE__) && !defined(AUTOFUSE_TWIN)
// Those that the compiler knows, so that it unrolls every loop over them; of the chip only cores and UB may be fewer.
template <typename FormOf, const FormOf& kForm, const Chip& kChip>
struct Unrolled {
    using Form = FormOf;
    static constexpr bool kUnrolled = true;

    static constexpr const Form& Shape(const Form&)
    {
        return kForm;
    }

    static constexpr const Chip& Figures(const Chip&)
    {
        return kChip;
    }
};
#else
// Nothing would be unrolled, or nobody waits for a tiling as long as for the compiler.
template <typename FormOf, const FormOf&, const Chip&>
using Unrolled = Rolled<FormOf>;
#endif

struct Tile {
    int64_t size = 1;        // t
    int64_t per_core = 1;    // tiles of one core
    int64_t block_dim = 1;   // cores
    int64_t cost = kUnlimited;
};

}  // namespace autofuse

#endif
