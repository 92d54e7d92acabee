// Python module autofuse._tiling: the cost model and the search of the generated host code, for autofuse itself.
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "autofuse_tile_search.h"

namespace py = pybind11;

namespace {

using autofuse::Body;
using autofuse::Chip;
using autofuse::Copy;
using autofuse::Line;
using autofuse::Scan;

// The members of Chip in constructor order.
constexpr std::tuple kFigures = {
    std::pair{"cores", &Chip::cores}, std::pair{"ub", &Chip::ub}, std::pair{"l2", &Chip::l2}, std::pair{"line", &Chip::line},
    std::pair{"short_row", &Chip::short_row}, std::pair{"core_start", &Chip::core_start},
    std::pair{"load_issue", &Chip::load_issue}, std::pair{"store_issue", &Chip::store_issue}, std::pair{"row", &Chip::row},
    std::pair{"load_latency", &Chip::load_latency}, std::pair{"load_core", &Chip::load_core},
    std::pair{"l2_core", &Chip::l2_core}, std::pair{"store_core", &Chip::store_core}, std::pair{"read", &Chip::read},
    std::pair{"l2_read", &Chip::l2_read}, std::pair{"same_order", &Chip::same_order}, std::pair{"shared", &Chip::shared},
    std::pair{"write", &Chip::write}, std::pair{"writeback", &Chip::writeback}};

// Takes the items of a sequence in order.  An integer beyond 64 bits raises OverflowError.
class Items {
public:
    explicit Items(const py::handle& of) : all_(py::reinterpret_borrow<py::tuple>(of))
    {
    }

    py::object Take()
    {
        return all_[next_++];
    }

    double Number()
    {
        return PyFloat_AsDouble(Take().ptr());
    }

    int64_t Int()
    {
        return AsInt(Take());
    }

    bool Flag()
    {
        return Int() != 0;
    }

    Line AsLine()
    {
        const int64_t base = Int();
        return {base, Int()};
    }

    autofuse::Cycles AsCycles()
    {
        autofuse::Cycles c;
        c.base = Number();
        c.step = Number();
        return c;
    }

    static int64_t AsInt(const py::object& value)
    {
        const int64_t found = PyLong_AsLongLong(value.ptr());
        if (found == -1 && PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
        return found;
    }

private:
    py::tuple all_;
    size_t next_ = 0;
};

// The work of a template at given sizes, with items in the order of _tiling.pyi.
class Form {
public:
    Form(const py::tuple& axis, int64_t largest, const py::list& bodies, const py::list& copies, const py::list& scans)
        : largest(largest), bodies_(bodies.size()), copies_(copies.size()), scans_(scans.size())
    {
        Items a(axis);
        for (int64_t* member :
             {&work.axis.extent, &work.axis.longest, &work.axis.outer, &work.axis.reduce_outer, &work.axis.granule}) {
            *member = a.Int();
        }
        work.axis.looped = a.Flag();
        work.body = bodies_.data();
        work.copy = copies_.data();
        work.scan = scans_.data();
        for (const py::handle& of : bodies) {
            Items in(of);
            const auto place = static_cast<autofuse::Place>(in.Int());
            Body& b = work.Loop(place, in.Int());
            b.heads = in.Number();
            b.scalar = in.Number();
            b.held = in.Number();
            b.chained = in.Flag();
            b.staggered = in.Flag();
            b.places = in.AsCycles();
        }
        for (const py::handle& of : copies) {
            Items in(of);
            Body& body = bodies_.at(static_cast<size_t>(in.Int()));
            const auto route = static_cast<autofuse::Route>(in.Int());
            Copy& c = work.Load(body, in.Int(), route);
            c.commands = in.AsLine();
            c.rows = in.AsLine();
            c.row_bytes = in.AsLine();
            c.apart = in.Int();
            c.tiles_apart = in.Int();
            c.distinct = in.Int();
            c.table = in.Int();
            c.names = in.Int();
            c.varies = in.Flag();
            c.varies_by_tile = in.Flag();
            c.own = in.AsCycles();
        }
        for (const py::handle& of : scans) {
            Items in(of);
            Body& body = bodies_.at(static_cast<size_t>(in.Int()));
            const Line along = in.AsLine();
            work.Sum(body, along).vector = in.AsCycles();
        }
    }

    Form(const Form&) = delete;

    // Throws unless tiles may have this length.
    void Check(int64_t tile) const
    {
        if (tile < 1) {
            throw std::invalid_argument("a tile has at least one element");
        }
    }

    autofuse::Work work;
    int64_t largest;

private:
    std::vector<Body> bodies_;
    std::vector<Copy> copies_;
    std::vector<Scan> scans_;
};

// Cycles of the pipes.
struct Busy {
    double load = 0;
    double vector = 0;
    double store = 0;
    double scalar = 0;
};

// Breakdown of the cycles of a choice.
struct Shares {
    int64_t tiles = 0;
    int64_t cores = 0;
    Busy once;           // per core, before its tiles
    Busy tile;           // per tile, all of its loops
    double before = 0;   // before the tiles
    double period = 0;   // per tile
    double exposed = 0;
    double last = 0;     // added by tail tiles
    double gm = 0;       // of all cores
    double rest = 0;     // of GM
    double held = 0;     // per tile, while loads wait for an index
    double bytes = 0;    // loads and stores of all cores
    double common = 0;   // bytes of one tensor that all cores load, among these
    double cycles = 0;
};

class Measured final : public autofuse::Model {
public:
    using Model::Model;

    Shares Of(int64_t per_core) const
    {
        Shares out;
        out.tiles = tiles_;
        out.cores = autofuse::Max(autofuse::Pieces(tiles_, per_core), 1);
        out.cycles = Time(per_core, out.cores);
        if (tiles_ == 0) {
            return out;
        }
        double pace[autofuse::kReaches + 1];
        SetPace(out.cores, pace);
        for (int i = 0; i < work_.bodies; ++i) {
            const Body& b = work_.body[i];
            const double times = b.place == autofuse::kStep ? autofuse::AsDouble(steps_) : 1;
            Busy& to = b.place == autofuse::kOnce ? out.once : out.tile;
            double load = b.run.load;
            for (int k = 0; k < autofuse::kReaches; ++k) {
                load += b.run.loaded[k] * pace[k];
            }
            to.load += times * load;
            to.vector += times * b.run.vector;
            to.store += times * (b.run.store + b.run.stored * pace[autofuse::kReaches]);
            to.scalar += times * b.run.scalar;
        }
        const Pipes pipes = PipesOf(pace);
        out.before = pipes.once;
        out.period = pipes.period;
        out.exposed = pipes.exposed;
        out.last = LastTiles(per_core, out.cores);
        out.gm = GmOf(out.cores);
        out.rest = out.gm > 0 ? pipes.rest + autofuse::AsDouble(per_core) * pipes.held : 0;
        out.held = pipes.held;
        out.bytes = once_ * autofuse::AsDouble(out.cores);
        out.common = out.bytes + moved_[autofuse::kSameOrder] + moved_[autofuse::kShared];
        for (const double moved : moved_) {
            out.bytes += moved;
        }
        return out;
    }
};

py::object AsChoice(const autofuse::Tile& t)
{
    return py::make_tuple(t.size, t.per_core, t.block_dim, t.cycles);
}

py::object Search(Form& form, const Chip& chip)
{
    if (form.largest == 0) {
        return py::none();
    }
    return AsChoice(autofuse::BestTile(form.work, chip, form.largest, autofuse::kForever));
}

py::object SearchLength(Form& form, const Chip& chip, int64_t tile)
{
    form.Check(tile);
    autofuse::Model model(form.work, chip);
    autofuse::Tile best;
    best.cycles = autofuse::kForever;
    autofuse::TryLength(model, chip, tile, best);
    return AsChoice(best);
}

std::vector<int64_t> Lengths(const Form& form, const Chip& chip)
{
    int64_t found[autofuse::kMostLengths];
    const int count = autofuse::FindLengths(form.work, chip, form.largest, found);
    return {found, found + count};
}

std::vector<double> Times(Form& form, const Chip& chip, int64_t tile, const std::vector<int64_t>& per_core)
{
    form.Check(tile);
    autofuse::Model model(form.work, chip);
    model.SetTile(tile);
    std::vector<double> out;
    for (const int64_t n : per_core) {
        out.push_back(model.Time(n, autofuse::Max(autofuse::Pieces(model.Tiles(), n), 1)));
    }
    return out;
}

Shares SharesOf(Form& form, const Chip& chip, int64_t tile, int64_t per_core)
{
    form.Check(tile);
    Measured model(form.work, chip);
    model.SetTile(tile);
    return model.Of(per_core);
}

int64_t LargestTile(int64_t longest, int64_t granule, int64_t tile_max, int64_t limit, const py::function& ub)
{
    autofuse::Axis axis;
    axis.longest = longest;
    axis.granule = granule;
    axis.tile_max = tile_max;
    const autofuse::UbOf bytes = {&ub, [](const void* of, int64_t size) {
        return Items::AsInt((*static_cast<const py::function*>(of))(size));
    }};
    return autofuse::LargestTile(axis, limit, bytes);
}

}  // namespace

PYBIND11_MODULE(_tiling, m)
{
    py::class_<Chip> chip(m, "Chip");
    chip.def(py::init([](const py::tuple& figures) {
        Items in(figures);
        Chip c;
        std::apply([&](auto... f) { (..., (c.*f.second = static_cast<std::decay_t<decltype(c.*f.second)>>(in.Number()))); },
                   kFigures);
        return c;
    }));
    std::apply([&](auto... f) { (..., chip.def_readonly(f.first, f.second)); }, kFigures);
    chip.def("granted", [](const Chip& c, int64_t cores) {
        Chip less = c;
        less.cores = autofuse::Min(c.cores, cores);
        return less;
    });

    py::class_<Busy>(m, "Busy")
        .def_readonly("load", &Busy::load)
        .def_readonly("vector", &Busy::vector)
        .def_readonly("store", &Busy::store)
        .def_readonly("scalar", &Busy::scalar);

    py::class_<Shares>(m, "Shares")
        .def_readonly("tiles", &Shares::tiles)
        .def_readonly("cores", &Shares::cores)
        .def_readonly("once", &Shares::once)
        .def_readonly("tile", &Shares::tile)
        .def_readonly("before", &Shares::before)
        .def_readonly("period", &Shares::period)
        .def_readonly("exposed", &Shares::exposed)
        .def_readonly("last", &Shares::last)
        .def_readonly("gm", &Shares::gm)
        .def_readonly("rest", &Shares::rest)
        .def_readonly("held", &Shares::held)
        .def_readonly("bytes", &Shares::bytes)
        .def_readonly("common", &Shares::common)
        .def_readonly("cycles", &Shares::cycles);

    const auto axis = [](int64_t autofuse::Axis::*member) { return [member](const Form& f) { return f.work.axis.*member; }; };
    py::class_<Form>(m, "Form")
        .def(py::init<const py::tuple&, int64_t, const py::list&, const py::list&, const py::list&>())
        .def_readonly("largest", &Form::largest)
        .def_property_readonly("extent", axis(&autofuse::Axis::extent))
        .def_property_readonly("longest", axis(&autofuse::Axis::longest))
        .def_property_readonly("outer", axis(&autofuse::Axis::outer))
        .def_property_readonly("reduce_outer", axis(&autofuse::Axis::reduce_outer))
        .def_property_readonly("granule", axis(&autofuse::Axis::granule))
        .def_property_readonly("looped", [](const Form& f) { return f.work.axis.looped; })
        .def("tiles", [](const Form& f, int64_t tile) {
            f.Check(tile);
            const autofuse::Axis& a = f.work.axis;
            return a.looped ? a.outer : a.outer * autofuse::Pieces(a.extent, tile);
        })
        .def("lengths", &Lengths)
        .def("search", &Search)
        .def("search_length", &SearchLength)
        .def("times", &Times)
        .def("shares", &SharesOf);

    m.def("largest_tile", &LargestTile);
}
