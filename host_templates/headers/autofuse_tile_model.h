// The cost model that chooses tiles: the time of a template with tiles of t elements on a given number of cores.
//
// Times are in cycles and leave out costs that no choice changes.  Sizes are int64_t, times are double.
//
//   time = core_start * cores + the longer of (one core, GM) + 1/256 of the shorter
//   one core = before its tiles + first and last tile + tiles per core * the sum of all loops' periods
//   period = max(load, vector, store, scalar, latency that the buffers of a queue cannot hide)
//   load, store = issue of every command + row for every further row + bytes / rate of one core among that many
//   GM = bytes of all cores / rates of all cores
//
// autofuse itself calls these functions too, to rank templates and to explain them.
#ifndef AUTOFUSE_TILE_MODEL_H
#define AUTOFUSE_TILE_MODEL_H

#include <stdint.h>

#include <algorithm>

#include "autofuse_math.h"

namespace autofuse {

constexpr int64_t kUnlimited = INT64_MAX;
constexpr int64_t kBlock = 32;           // bytes that a row in UB is rounded up to
constexpr double kMostLate = 40;         // the last tile counts as this many at most
constexpr double kHidden = 1.0 / 256;    // share that the hidden side, GM or the pipes, still counts for

// The figures of a chip.
struct Chip {
    int64_t cores = 0;
    int64_t ub = 0;         // usable bytes of UB of one core
    int64_t l2 = 0;         // bytes
    int64_t line = 0;       // bytes of a cache line
    int64_t short_row = 0;  // bytes that a row shorter than 32 bytes counts as
    // Cycles.
    double core_start = 0;    // added to the start by every core
    double load_issue = 0;    // per command
    double store_issue = 0;
    double row = 0;           // per further row of a command
    double load_latency = 0;  // to the first byte
    // Bytes per cycle of one core.
    double load_core = 0;
    double l2_core = 0;
    double store_core = 0;
    // Bytes per cycle of all cores together.
    double read = 0;        // from memory
    double l2_read = 0;
    double same_order = 0;  // one tensor that all cores load in the same order, ...
    double shared = 0;      // ... or each starting at a different place
    double write = 0;
    double writeback = 0;   // from L2 to memory, for data that L2 cannot hold
};

// base + step * t, where t is the length of a tile.
struct Line {
    constexpr Line(int64_t constant = 0, int64_t per_element = 0) : base(constant), step(per_element)
    {
    }

    constexpr int64_t At(int64_t t) const
    {
        return base + step * t;
    }

    // At() for lengths that are not those of a tile.
    constexpr double Of(double t) const
    {
        return static_cast<double>(base) + static_cast<double>(step) * t;
    }

    int64_t base;
    int64_t step;
};

constexpr Line operator+(Line a, Line b)
{
    return {a.base + b.base, a.step + b.step};
}

constexpr Line operator-(Line a, Line b)
{
    return {a.base - b.base, a.step - b.step};
}

constexpr Line operator*(int64_t factor, Line a)
{
    return {factor * a.base, factor * a.step};
}

constexpr Line operator*(Line a, int64_t factor)
{
    return factor * a;
}

constexpr Line kTileLength = {0, 1};

// The axis that is cut into tiles, and the loops around it.
struct Axis {
    int64_t extent = 0;
    int64_t longest = 0;           // length of a tile that holds the whole axis
    int64_t outer = 0;             // iterations of the loops around it
    int64_t reduce_outer = 0;      // iterations of the reduce loop per tile, or around the tiles
    int64_t granule = 0;           // tiles are multiples of this, unless the tile is the whole axis
    int64_t tile_max = kUnlimited; // limit other than UB
    int64_t ub_limit = 0;          // bytes
    bool looped = false;           // one core loops over all tiles of the axis
    bool conditions = true;        // the conditions of the template hold
};

enum Place { kOnce, kTile, kStep };             // a loop body runs once per core, per tile, per step of the reduce loop
enum Route { kRead, kAgain, kStream, kWrite };  // again: read or written before; stream: bypasses a full L2
enum Reach { kMemory, kL2, kSameOrder, kShared, kReaches };  // source of the bytes of a load

// Cycles and bytes of one run of a loop body.
struct Run {
    double load;              // cycles of commands and rows
    double vector;
    double store;
    double scalar;
    double loaded[kReaches];  // bytes
    double stored;
};

// Cycles of the vector unit: base + step * t.
struct Cycles {
    // Adds `cycles` for each of `count` elements or vector calls.
    void Add(double cycles, Line count)
    {
        base += cycles * static_cast<double>(count.base);
        step += cycles * static_cast<double>(count.step);
    }

    double At(int64_t t) const
    {
        return base + step * static_cast<double>(t);
    }

    double base = 0;
    double step = 0;
};

// One loop body.
struct Body {
    Place place = kTile;
    int64_t buffers = 2;     // per queue, 1 or 2
    double heads = 0;        // cycles of element-wise calls that do not depend on their length
    double scalar = 0;       // cycles of the scalar unit
    Cycles places;           // ... and those for reading places from an index
    double held = 0;         // cycles to read the first place, while loads wait; 0 if no index is loaded
    Cycles vector;           // cycles per element and per repeated call
    bool loads = false;
    bool chained = false;    // stores from the buffer that was loaded
    bool staggered = false;  // every core starts at a different step
    Run run;                 // for the current tile length
};

// A number of equal loads or stores.
struct Copy {
    Body* body = nullptr;
    Route route = kRead;
    int64_t count = 1;
    Line commands = 1;         // per tile, each of them
    Line rows = 1;
    Line row_bytes = 0;
    int64_t apart = 0;         // distances of rows in GM in bytes, or-ed
    int64_t tiles_apart = 0;   // distances of tiles in GM in bytes per element of t, or-ed
    int64_t distinct = 0;      // bytes of GM touched, each counted once
    int64_t table = 0;         // places that an index may name; 0 without an index
    int64_t names = 0;         // elements of that index
    bool varies = false;       // addresses change along a loop other than the one over tiles, ...
    bool varies_by_tile = false;  // ... and along that one
    Cycles own;                // of its pipe, if they do not follow from commands, rows and bytes
    Reach reach = kMemory;     // for the current tile length, starting at `places` places
    double places = 1;
    double whole = 0;          // bytes of all tiles, however the axis is cut; 0 if they do not depend on the axis
    double touched = 0;        // bytes touched by all `count` of them, each counted once
};

// Vector calls that pass over their elements once, and once more per bit of `along`, as running sums do.
struct Scan {
    Body* body = nullptr;
    Line along;
    Cycles vector;
};

// The work of a template.  WorkOf owns the memory.
struct Work {
    Body& Loop(Place place, int64_t buffers)
    {
        Body& b = body[bodies++];
        b.place = place;
        b.buffers = buffers;
        return b;
    }

    Copy& Load(Body& of, int64_t count, Route route)
    {
        Copy& c = copy[copies++];
        c.body = &of;
        c.count = count;
        c.route = route;
        of.loads = of.loads || route != kWrite;
        return c;
    }

    Copy& Store(Body& of, int64_t count)
    {
        return Load(of, count, kWrite);
    }

    Scan& Sum(Body& of, Line along)
    {
        Scan& s = scan[scans++];
        s.body = &of;
        s.along = along;
        return s;
    }

    Axis axis;
    Body* body = nullptr;
    Copy* copy = nullptr;
    Scan* scan = nullptr;
    int bodies = 0;
    int copies = 0;
    int scans = 0;
};

template <int kBodies, int kCopies, int kScans>
struct WorkOf final : Work {
    WorkOf()
    {
        body = all_bodies;
        copy = all_copies;
        scan = all_scans;
    }

    Body all_bodies[kBodies];
    Copy all_copies[kCopies > 0 ? kCopies : 1];
    Scan all_scans[kScans > 0 ? kScans : 1];
};

inline double AsDouble(int64_t value)
{
    return static_cast<double>(value);
}

// a / b rounded up, for a >= 0 and b > 0.
inline int64_t Pieces(int64_t a, int64_t b)
{
    return static_cast<int64_t>((static_cast<uint64_t>(a) + static_cast<uint64_t>(b) - 1) / static_cast<uint64_t>(b));
}

// The largest power of two that divides x, which is not 0.
inline int64_t LowBit(int64_t x)
{
    return x & -x;
}

// Time of a template for one tile length at a time.
class Model {
public:
    Model(Work& work, const Chip& chip) : work_(work), axis_(work.axis), chip_(chip)
    {
        const double extent = AsDouble(axis_.extent);
        const double outer = AsDouble(axis_.outer);
        const double reduce_outer = AsDouble(axis_.reduce_outer);
        for (int i = 0; i < work.copies; ++i) {
            Copy& c = work.copy[i];
            c.touched = AsDouble(c.count * c.distinct);
            if (c.rows.step != 0 || c.row_bytes.step != 0) {
                c.whole = AsDouble(c.count) * (c.rows.Of(extent) * c.row_bytes.Of(extent)) * outer;
                c.whole *= c.body->place == kStep ? reduce_outer : 1;
            }
            if (c.row_bytes.step > 0 && c.rows.base + c.rows.step > 1) {
                row_step_ = Min(row_step_, c.row_bytes.step);
            }
        }
        const double own[] = {chip.load_core, chip.l2_core, chip.load_core, chip.load_core, chip.store_core};
        const double all[] = {chip.read, chip.l2_read, chip.same_order, chip.shared, chip.write};
        for (int i = 0; i <= kReaches; ++i) {
            own_[i] = 1 / own[i];
            share_[i] = 1 / all[i];
        }
    }

    // The extra time of the last tile, in tiles, if a single core runs it.
    int64_t Late() const
    {
        return late_;
    }

    // Tiles of the current length that the cores share.
    int64_t Tiles() const
    {
        return tiles_;
    }

    // Sets the tile length.
    void SetTile(int64_t t)
    {
        pieces_ = Pieces(axis_.extent, t);
        tiles_ = axis_.looped ? axis_.outer : axis_.outer * pieces_;
        steps_ = axis_.looped ? axis_.reduce_outer * pieces_ : axis_.reduce_outer;
        const int64_t length = Min(t, Max(axis_.extent, 1));
        const int64_t last = axis_.extent - (pieces_ - 1) * t;
        const int64_t apart = pieces_ > 1 ? t : 0;
        SetTraffic(length);
        Measure(length, apart);
        alone_ = PipesOf(own_);
        tail_ = behind_ = 0;
        late_ = 0;
        // The last tile of the axis takes longer than others if its rows are shorter than a block.
        if (pieces_ > 1 && last * row_step_ < kBlock) {
            Measure(last, apart);
            const Pipes late = PipesOf(own_);
            // If one core loops over the whole axis, each of its steps was counted as a last one.
            tail_ = std::max(late.period - alone_.period, 0.0) / (axis_.looped ? AsDouble(pieces_) : 1);
            behind_ = std::max(late.exposed - alone_.exposed, 0.0);
            if (!axis_.looped && tiles_ == pieces_ && alone_.period > 0) {
                late_ = static_cast<int64_t>(std::min((tail_ + behind_) / alone_.period + 1, kMostLate));
            }
            Measure(length, apart);
        }
    }

    // Cycles without contention between cores: a lower bound.
    double LeastTime(int64_t per_core, int64_t cores) const
    {
        return tiles_ == 0 ? chip_.core_start : Together(per_core, cores, alone_);
    }

    // Cycles with `per_core` tiles on each of `cores` cores.
    double Time(int64_t per_core, int64_t cores) const
    {
        if (tiles_ == 0) {
            return chip_.core_start;
        }
        double pace[kReaches + 1];
        SetPace(cores, pace);
        return Together(per_core, cores, PipesOf(pace));
    }

protected:
    // Cycles of one core.
    struct Pipes {
        double once = 0;     // before its tiles
        double period = 0;   // per tile
        double exposed = 0;  // not hidden, for the first and the last tile
        double rest = 0;     // after the last bytes have arrived
        double held = 0;     // per tile, while loads wait for an index
    };

    // Cycles per byte of one core among `cores`; the last entry is for stores.
    void SetPace(int64_t cores, double (&pace)[kReaches + 1]) const
    {
        for (int i = 0; i <= kReaches; ++i) {
            pace[i] = std::max(own_[i], AsDouble(cores) * share_[i]);
        }
    }

    // Cycles of all cores, given the cycles of one.
    double Together(int64_t per_core, int64_t cores, const Pipes& pipes) const
    {
        const double tiles = AsDouble(per_core) * pipes.period + LastTiles(per_core, cores);
        const double busy = pipes.once + pipes.exposed + tiles;
        double gm = GmOf(cores);
        gm += gm > 0 ? pipes.rest + AsDouble(per_core) * pipes.held : 0;
        return chip_.core_start * AsDouble(cores) + std::max(busy, gm) + std::min(busy, gm) * kHidden;
    }

    // Cycles of GM for `cores` cores together.
    double GmOf(int64_t cores) const
    {
        return gm_ + AsDouble(cores) * (once_ * share_[kSameOrder]);
    }

    // Cycles that last tiles add to the slowest core.  A single last tile is on the last core, which has fewer others.
    double LastTiles(int64_t per_core, int64_t cores) const
    {
        if (tail_ + behind_ == 0) {
            return 0;
        }
        if (axis_.looped) {
            return AsDouble(per_core) * tail_ + behind_;
        }
        const int64_t spare = tiles_ == pieces_ ? per_core * cores - tiles_ : 0;
        return std::max(AsDouble(Pieces(per_core, pieces_)) * tail_ + behind_ - AsDouble(spare) * alone_.period, 0.0);
    }

    // Sets the source of the bytes of every copy, and the cycles of GM for all cores.
    void SetTraffic(int64_t length)
    {
        const double tiles = AsDouble(tiles_);
        const double steps = AsDouble(steps_);
        const double l2 = AsDouble(chip_.l2);
        const int64_t most = Max(Min(tiles_, chip_.cores), 1);
        // Every core loops over all tiles of the axis, again and again.
        const bool rounds = !axis_.looped && axis_.outer >= chip_.cores;
        std::fill(moved_, moved_ + kReaches + 1, 0.0);
        once_ = 0;
        double cached = 0;
        double streamed = 0;
        for (int i = 0; i < work_.copies; ++i) {
            Copy& c = work_.copy[i];
            const Body& body = *c.body;
            c.reach = kMemory;
            c.places = 1;
            if (body.place == kOnce) {
                // Every core reads it.
                c.reach = kSameOrder;
                once_ += AsDouble(c.count) * BytesOf(c, length);
                continue;
            }
            double moved = c.whole;
            if (c.rows.step == 0 && c.row_bytes.step == 0) {
                moved = AsDouble(c.count) * BytesOf(c, length) * tiles;
                moved *= body.place == kStep ? steps : 1;
            }
            const double distinct = std::min(c.touched, moved);
            cached += distinct;
            if (c.route == kWrite) {
                moved_[kReaches] += moved;
                continue;
            }
            const bool by_tile = c.varies_by_tile && pieces_ > 1;
            const bool common = NamesHalf(c, most);
            if (most > 1 && (common || (!c.varies && (rounds || !by_tile)))) {
                // All cores read one tensor; those that start at the same place read it in the same order.
                c.reach = kSameOrder;
                double in_order = moved;
                if (common) {
                    c.places = AsDouble(most);
                    in_order = moved / c.places;
                } else if (body.staggered || by_tile) {
                    c.places = AsDouble(Max(Min(body.staggered ? steps_ : pieces_, most), 1));
                    in_order = moved / c.places;
                }
                moved_[kSameOrder] += in_order;
                moved_[kShared] += moved - in_order;
                continue;
            }
            double hit = moved - distinct;
            if (hit > 0) {
                double held = distinct;
                if (c.route == kAgain) {
                    held = BytesOf(c, length) * AsDouble(most) * AsDouble(Max(steps_, 1));
                }
                hit *= held > l2 ? l2 / held : 1;
            }
            moved_[kMemory] += moved - hit;
            moved_[kL2] += hit;
            streamed += c.route == kStream ? distinct : 0;
            c.reach = hit > 0 && 2 * hit >= moved ? kL2 : kMemory;
        }
        const double written = moved_[kReaches];
        gm_ = moved_[kMemory] * share_[kMemory] + moved_[kL2] * share_[kL2];
        gm_ += moved_[kSameOrder] * share_[kSameOrder] + moved_[kShared] * share_[kShared];
        gm_ += written * share_[kReaches];
        cached -= cached > l2 ? streamed : 0;
        if (cached > l2) {
            gm_ += (written - written * (l2 / cached)) / chip_.writeback;
        }
    }

    // Each core reads half of an index's table: with evenly spread entries that takes ln 2 = 0.69 of them per place.
    static bool NamesHalf(const Copy& c, int64_t cores)
    {
        return c.table > 0 && 100 * AsDouble(c.names) >= 69 * AsDouble(cores) * AsDouble(c.table);
    }

    static double BytesOf(const Copy& c, int64_t length)
    {
        return AsDouble(c.rows.At(length)) * AsDouble(c.row_bytes.At(length));
    }

    // Computes one run of every loop body for a tile of `length` elements.
    void Measure(int64_t length, int64_t apart)
    {
        for (int i = 0; i < work_.bodies; ++i) {
            Body& b = work_.body[i];
            b.run = {0, b.heads + b.vector.At(length), 0, b.scalar + b.places.At(length), {0, 0, 0, 0}, 0};
        }
        for (int i = 0; i < work_.scans; ++i) {
            const Scan& s = work_.scan[i];
            const int64_t along = s.along.At(length);
            const int64_t bits = along > 1 ? 64 - __builtin_clzll(static_cast<uint64_t>(along - 1)) : 0;
            s.body->run.vector += s.vector.At(length) * AsDouble(1 + bits);
        }
        for (int i = 0; i < work_.copies; ++i) {
            const Copy& c = work_.copy[i];
            Run& run = c.body->run;
            const double count = AsDouble(c.count);
            const double own = c.own.At(length);
            if (own > 0) {
                run.load += count * own;
                continue;
            }
            const double commands = AsDouble(c.commands.At(length));
            const int64_t rows = Max(c.rows.At(length), 1);
            const double billed = BilledRow(c, c.row_bytes.At(length), rows, apart) * AsDouble(c.count * rows);
            const double further = chip_.row * std::max(AsDouble(rows) - commands, 0.0);
            if (c.route == kWrite) {
                run.store += count * (chip_.store_issue * commands + further);
                run.stored += billed;
                continue;
            }
            run.load += count * (chip_.load_issue * commands + further);
            const double in_order = c.places > 1 ? billed / c.places : billed;
            run.loaded[c.reach] += in_order;
            run.loaded[kShared] += billed - in_order;
        }
    }

    // Bytes that a row counts as: whole blocks, scaled by the cache lines that it touches.
    double BilledRow(const Copy& c, int64_t row, int64_t rows, int64_t apart) const
    {
        const double billed = AsDouble(row < kBlock && rows > 1 ? chip_.short_row : (row + kBlock - 1) & -kBlock);
        const int64_t off = chip_.line - LowBit(chip_.line | c.apart | c.tiles_apart * apart);
        if (off > 0 && row + off > chip_.line) {
            return billed * AsDouble(row + off) / AsDouble(Max(row, chip_.line));
        }
        return billed;
    }

    Pipes PipesOf(const double* pace) const
    {
        Pipes out;
        for (int i = 0; i < work_.bodies; ++i) {
            const Body& b = work_.body[i];
            const Run& run = b.run;
            const double bytes = (run.loaded[kMemory] * pace[kMemory] + run.loaded[kL2] * pace[kL2]) +
                                 (run.loaded[kSameOrder] * pace[kSameOrder] + run.loaded[kShared] * pace[kShared]);
            const double load = run.load + bytes;
            const double store = run.store + run.stored * pace[kReaches];
            // The first place is read when the index has arrived; after that, loads run as fast as places are read.
            const double held = b.held > 0 ? chip_.load_latency + std::max(b.held, run.scalar - load) : 0;
            const double come = (b.loads ? load + chip_.load_latency : load) + held;
            const double alone = std::max(come + run.vector + store, run.scalar);
            if (b.place == kOnce) {
                out.once += alone;
                continue;
            }
            if (b.place == kStep && steps_ == 0) {
                continue;
            }
            const double wait = b.chained ? come + run.vector + store : std::max(come, store) + run.vector;
            const double busiest = std::max(std::max(load + held, run.vector), std::max(store, run.scalar));
            const double period = std::max(busiest, b.buffers == 1 ? wait : wait * 0.5);
            out.period += b.place == kStep ? period * AsDouble(steps_) : period;
            out.exposed = std::max(out.exposed, alone - period);
            out.rest = std::max(out.rest, come - held - load + run.vector);
            out.held += b.place == kStep ? held * AsDouble(steps_) : held;
        }
        return out;
    }

    Work& work_;
    const Axis& axis_;
    const Chip& chip_;
    int64_t row_step_ = 1 << 16;  // bytes of a row per element of t: the minimum over copies of several rows
    double own_[kReaches + 1];    // cycles per byte of one core without contention ...
    double share_[kReaches + 1];  // ... and per core that shares the rate of all
    int64_t pieces_ = 0;          // of the axis, for the current length
    int64_t tiles_ = 0;           // that the cores share, for the current length
    int64_t steps_ = 0;           // of the reduce loop
    double tail_ = 0;             // extra cycles of the period of the last tile of the axis ...
    double behind_ = 0;           // ... and extra cycles that it leaves exposed
    int64_t late_ = 0;
    Pipes alone_;                 // of a core without contention
    double moved_[kReaches + 1] = {};  // bytes of all cores: loads by source, then stores
    double once_ = 0;             // bytes that every core loads before its tiles
    double gm_ = 0;               // cycles of GM for the bytes of all tiles
};

}  // namespace autofuse

#endif
