"""Emit kernels with reductions: rows in registers, loops over columns, clusters, and sums beside rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from autofuse.codegen.backends.triton.kernels import Form
from autofuse.codegen.backends.triton.ops.reductions import accumulator, identity, running_sum
from autofuse.codegen.backends.triton.ops.spelling import TYPES
from autofuse.codegen.backends.triton.text.writer import COL, PART, ROW, Value, Writer
from autofuse.codegen.nests.levels import Item, Join
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import varies, walk
from autofuse.implgraph.division.online_reductions import Online
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["RowWriter"]


@dataclass
class RowWriter(Writer):
    """Writer of a kernel whose programs have rows and columns.

    Attributes:
        meets: number of results that the blocks of a cluster exchange.
        exponentials: sum of exponentials -> their values by node, relative to the maximum of the block's part of the
            row.
        part_values: result of a reduction -> its value for the block's part of the row.
        carries: running sum -> its value before a block of columns, and its rounding loss; integers have none.
        losses: sum in a loop -> rounding losses of the sum and of the sum of squares.
    """

    meets: int = 0
    exponentials: dict[str, Mapping[str, Value]] = field(default_factory=dict)
    part_values: dict[str, str] = field(default_factory=dict)
    carries: dict[str, tuple[str, str]] = field(default_factory=dict)
    losses: dict[str, tuple[str, str]] = field(default_factory=dict)

    def body(self) -> None:
        """Write all statements after the program index."""
        if self.goes_over_rows:
            self._rows_with_sums()
        else:
            self._rows()

    # whole rows and loops over columns --------------------------------------------------------
    def _rows(self) -> None:
        k = self.kernel
        if k.form is Form.ROWS:
            self._columns("")
        if k.partials:
            self._parts_of_columns()
            return
        self._overwritten()
        for items in k.passes:
            self._pass(items)
        self._rest()

    def _overwritten(self) -> None:
        """Load overwritten values that are constant along columns: all threads read, one writes after a barrier."""
        written = {self.kernel.targets[n.name].name for n in self.stored}
        cols = frozenset(self.kernel.cols)
        loads = [n for n in self.kernel.nest.nodes if n.op == "Load" and not varies(n) & cols]
        self.need([n.name for n in loads if self.kernel.buffers[n.inputs[0]].name in written])

    def _columns(self, start: str) -> None:
        """Write the index along columns of a block that starts at ``start``."""
        line = f"tl.arange(0, COLS){self.across(COL)}"
        if PART in self.dims:
            line = f"tl.arange(0, PARTS){self.across(PART)} * COLS + {line}"
        self.say(f"col = {start} + {line}" if start else f"col = {line}")
        self.index_along(COL)

    @contextmanager
    def _blocks(self, *, backwards: bool = False) -> Iterator[None]:
        """Open a loop over the columns, if the form has one."""
        if self.kernel.form is Form.ROWS:
            yield
            return
        count = self.size(self.count(COL))
        if self.kernel.partials:
            span = self.names.take("span")
            self.say(f"{span} = tl.cdiv(tl.cdiv({count}, tl.num_programs(1)), COLS) * COLS")
            self.say(f"first = tl.program_id(1) * {span}")
            last = f"min(first + {span}, {count})"
            with self.inside(f"for start in {self._range('first', last, 'COLS')}:"):
                self._columns("start")
                yield
            return
        head = f"for start in {self._range('0', count, 'COLS')}:"
        if backwards:
            head = f"for start in range((tl.cdiv({count}, COLS) - 1) * COLS, -1, -COLS):"
        with self.inside(head):
            self._columns("start")
            yield

    def _range(self, first: str, last: str, step: str) -> str:
        stages = self.kernel.blocks.stages if self.kernel.blocks else 1
        if stages == 1:
            return f"range({first}, {last}, {step})"
        return f"tl.range({first}, {last}, {step}, num_stages={stages})"

    def _outside(self, targets: Sequence[str]) -> None:
        """Write the part of ``targets`` that is constant along columns and waits for no unknown reduction."""
        if self.kernel.form is Form.ROWS:
            return
        needed = list(walk(self.kernel.nest.nodes, targets, frozenset(self.values)))
        blocked: set[str] = set()
        cols = frozenset(self.kernel.cols)
        for n in needed:
            waits = n.op in REDUCES or n.op == "Scan" or any(i in blocked for i in n.inputs)
            if waits or (n.op != "Scalar" and varies(n) & cols):
                blocked.add(n.name)
            elif n.op != "Store":
                self.node(n)

    def _pass(self, items: Sequence[Item]) -> None:
        self._outside([r.inputs[0] for i in items for r in i.results])
        if self.kernel.form is Form.ROWS:
            for item in items:
                self._item_of_block(item)
        else:
            self._looped(items)
        if PART in self.dims:
            self._meet(items)

    def _item_of_block(self, item: Item) -> None:
        """Write an item whose elements are in registers."""
        self.need([item.first.inputs[0]])
        if item.join is Join.PLAIN:
            self.node(item.first)
            return
        second, _ = item.followed()
        x = self.values[item.first.inputs[0]]
        self.node(item.first)
        total = self.values[item.first.name]
        if item.join is Join.EXPONENTIALS:
            near = self._about(item, x, self._centre(item, total))
            self.exponentials[second.name] = near
            self.define(second, self.reduced(second, near[second.inputs[0]]), total.dims)
            return
        number = self._elements()
        centred = self.names.take("centred")
        self.say(f"{centred} = {x.text} - {total.text} / {number}")
        text = self.reduced(second, Value(f"{centred} * {centred}", x.dims))
        self.define(second, text, total.dims)

    # sums of exponentials about a centre ------------------------------------------------------
    def _centre(self, i: Item, largest: Value) -> Value:
        """Return the centre for a maximum ``largest``: the maximum itself, or 0 where it is -inf."""
        _, rule = i.followed()
        (centre,) = rule.centres
        if centre.is_number:
            return self._with({i.first.name: largest}, centre.value, rule)[centre.value]
        shift = self.names.take("shift")
        self.say(f'{shift} = tl.where({largest.text} == float("-inf"), 0.0, {largest.text})')
        return Value(shift, largest.dims)

    def _about(self, i: Item, x: Value, centre: Value) -> Mapping[str, Value]:
        """Return the operand of a sum of exponentials, and the nodes on the path to it, relative to a centre."""
        second, rule = i.followed()
        given = {i.first.inputs[0]: x, rule.centres[0].value: centre}
        return self._with(given, second.inputs[0], rule)

    def _moved(self, i: Item, have: str, to: str) -> str:
        """Return the factor that moves a sum of exponentials from the centre ``have`` to ``to``."""
        _, rule = i.followed()
        apart = self.names.take("apart")
        self.say(f"{apart} = {have} - {to}")
        value = Value(apart, frozenset(d for d in self.dims if d != COL))
        for name in rule.moves[0]:
            given = {x: value for x in self.named[name].inputs if x in rule.path}
            value = self._with(given, name, rule)[name]
        return value.text

    def _with(self, given: Mapping[str, Value], target: str, rule: Online) -> Mapping[str, Value]:
        """Return the values of a node and of the path to it, for given values; afterwards none of them is known.

        Errors of tl.exp do not matter in a sum with an element of size 1.
        """
        gone = {*rule.path, *given}
        before = dict(self.values)
        self.values = {k: v for k, v in before.items() if k not in gone} | dict(given)
        for n in walk(self.kernel.nest.nodes, [target], frozenset(self.values)):
            short = {**n.attrs, "accuracy": "short"}
            self.node(replace(n, attrs=short) if n.name in rule.powers else n)
        made = {k: v for k, v in self.values.items() if k in gone}
        self.values = {k: v for k, v in self.values.items() if k not in gone}
        self.values |= {k: v for k, v in before.items() if k in gone}
        return made

    def _elements(self) -> str:
        """Return the number of columns of a block of a cluster, at least 1."""
        count = self.size(self.count(COL), atomic=True)
        if PART not in self.dims:
            return count
        if COL not in self.partial:
            return "COLS"
        name = self.names.take("elements")
        part = f"tl.arange(0, PARTS){self.across(PART)}"
        self.say(f"{name} = tl.minimum(tl.maximum({count} - {part} * COLS, 1), COLS)")
        return name

    def _looped(self, items: Sequence[Item]) -> None:
        """Write one loop over the columns that computes all items."""
        rows = [d for d in self.dims if d != COL]
        state: dict[str, tuple[str, ...]] = {}
        for i in items:
            dtype = self.named[i.first.inputs[0]].y.dtype
            kind = TYPES[accumulator(dtype).name]
            base = i.first.name
            if i.join is Join.PLAIN:
                name = self.names.take(base)
                first = identity(i.first.op, dtype)
                self.say(f"{name} = tl.full({self.shape(self.dims)}, {first}, {kind})")
                state[base] = (name,)
            else:
                a, b = self.names.take(base), self.names.take(i.followed()[0].name)
                first = 'float("-inf")' if i.join is Join.EXPONENTIALS else "0.0"
                self.say(f"{a} = tl.full({self.shape(rows)}, {first}, tl.float32)")
                self.say(f"{b} = tl.zeros({self.shape(rows)}, tl.float32)")
                state[base] = (a, b)
                if i.join is Join.MOMENTS:
                    lost = self.losses[base] = self.names.take("lost"), self.names.take("lost")
                    for name in lost:
                        self.say(f"{name} = tl.zeros({self.shape(rows)}, tl.float32)")
        with self._blocks():
            for i in items:
                self.need([i.first.inputs[0]])
                x = self.values[i.first.inputs[0]]
                self._step(i, x, state[i.first.name])
        for i in items:
            self._after_loop(i, state[i.first.name])

    def _step(self, i: Item, x: Value, state: tuple[str, ...]) -> None:
        """Accumulate one block of columns into the state of an item."""
        dtype = self.named[i.first.inputs[0]].y.dtype
        op = i.first.op
        if i.join is Join.PLAIN:
            self.say(
                f"{state[0]} = {self.combine(op, state[0], self.neutral(op, x, dtype), dtype)}"
            )
            return
        a, b = state
        if i.join is Join.EXPONENTIALS:
            second, rule = i.followed()
            masked, largest = self.names.take("masked"), self.names.take("largest")
            rows = frozenset(d for d in self.dims if d != COL)
            self.say(f"{masked} = {self.neutral(op, x, dtype)}")
            block = self.reduce(op, masked, dtype)
            self.say(f"{largest} = {self.combine(op, a, block, dtype)}")
            centre = self._centre(i, Value(largest, rows))
            part = self._about(i, Value(masked, x.dims | {COL}), centre)[second.inputs[0]]
            # With factors, the exponential of an absent element, 0, might become nonzero.
            text = self.neutral(second.op, part, dtype) if self._has_factors(i) else part.text
            have = self._centre(i, Value(a, rows)) if rule.centres[0].is_number else Value(a, rows)
            scale = self._moved(i, have.text, centre.text)
            total = f"tl.sum({text}, {self.axis_of(COL)}, keep_dims=True)"
            self.say(f"{b} = {b} * {scale} + {total}")
            self.say(f"{a} = {largest}")
            return
        lost = self.losses[i.first.name]
        count, total, mean, centred, apart = (
            self.names.take(s) for s in ("count", "total", "mean", "centred", "apart")
        )
        cols = self.size(self.count(COL), atomic=True)
        self.say(f"{count} = tl.minimum({cols} - start, COLS)")
        since = "(start - first)" if self.kernel.partials else "start"
        axis = self.axis_of(COL)
        self.say(f"{total} = tl.sum({self.neutral(op, x, dtype)}, {axis}, keep_dims=True)")
        self.say(f"{mean} = {total} / {count}")
        self.say(f"{centred} = {self._masked(f'{x.text} - {mean}')}")
        self.say(f"{apart} = {mean} - {a} / tl.maximum({since}, 1)")
        weight = f"({since} * ({count} / ({since} + {count})))"
        squares = f"tl.sum({centred} * {centred}, {axis}, keep_dims=True)"
        self._add(b, f"{squares} + {apart} * {apart} * {weight}", lost[1])
        self._add(a, total, lost[0])

    def _has_factors(self, i: Item) -> bool:
        """Return True if the exponentials of a sum have operands other than numbers and the data."""
        _, rule = i.followed()
        beside = {x for n in rule.path for x in self.named[n].inputs} - rule.path
        beside -= {i.first.name, i.first.inputs[0]}
        return any(self.named[x].op != "Scalar" for x in beside)

    def _add(self, total: str, step: str, lost: str) -> None:
        """Add to a long sum with compensation: the rounding loss of a step is added in the next one.

        For an infinite sum the computed loss is NaN, and is replaced by 0.
        """
        exact, grown = self.names.take("step"), self.names.take("grown")
        self.say(f"{exact} = {step} - {lost}")
        self.say(f"{grown} = {total} + {exact}")
        self.say(f"{lost} = ({grown} - {total}) - {exact}")
        self.say(f"{lost} = tl.where({lost} == {lost}, {lost}, 0.0)")
        self.say(f"{total} = {grown}")

    def _masked(self, text: str) -> str:
        live = self.live(frozenset({COL}), among=(COL,))
        return f"tl.where({live}, {text}, 0.0)" if live else text

    def _after_loop(self, i: Item, state: tuple[str, ...]) -> None:
        dims = frozenset(d for d in self.dims if d != COL)
        if i.join is Join.PLAIN:
            self.define(i.first, self.result(i.first, state[0]), dims)
            return
        second, _ = i.followed()
        a, b = state
        if i.join is Join.EXPONENTIALS and not self.kernel.partials:
            self._undefined(i, a, b)
        self.values[i.first.name] = Value(a, dims)
        self.values[second.name] = Value(b, dims)

    def _undefined(self, i: Item, largest: str, total: str) -> None:
        """Set the sum to NaN for a row of only -inf, as the difference from the maximum is NaN."""
        if i.followed()[1].centres[0].is_number:
            return
        self.say(f'{total} = tl.where({largest} == float("-inf"), float("nan"), {total})')

    def _rest(self) -> None:
        """Write the Stores, and the nodes that they need."""
        cols = frozenset(self.kernel.cols)
        wide = [n for n in self.stored if varies(n) & cols]
        narrow = [n for n in self.stored if n not in wide]
        if self.kernel.form is Form.ROWS:
            self.store_all()
            return
        if narrow:
            self.need([n.name for n in narrow])
            for n in narrow:
                self.store(n)
        if wide:
            scans = [n for n in self.kernel.nest.nodes if n.op == "Scan"]
            self._outside([n.name for n in wide])
            self.carries = {n.name: self._carry(n) for n in scans}
            backwards = any(n.attrs["reverse"] for n in scans)
            with self._blocks(backwards=backwards):
                self.need([n.name for n in wide])
                for n in wide:
                    self.store(n)

    # running sums -----------------------------------------------------------------------------
    def _carry(self, n: Node) -> tuple[str, str]:
        kind = TYPES[accumulator(n.y.dtype).name]
        rows = [d for d in self.dims if d != COL]
        before = self.names.take(f"{n.name}_before")
        lost = self.names.take("lost") if n.y.dtype.kind == "f" else ""
        for name in filter(None, (before, lost)):
            self.say(f"{name} = tl.zeros({self.shape(rows)}, {kind})")
        return before, lost

    def scan(self, n: Node) -> None:
        """Write a running sum of the block; in a loop, added to the preceding blocks' total."""
        x = self.values[n.inputs[0]]
        dtype = n.y.dtype
        value = self.names.take(f"{n.name}_of")
        self.say(f"{value} = {self.neutral('ReduceSum', x, dtype)}")
        text = running_sum(
            value, exclusive=bool(n.attrs["exclusive"]), reverse=bool(n.attrs["reverse"])
        )
        name = self.define(n, text, x.dims | {COL})
        if self.kernel.form is Form.LOOP:
            before, lost = self.carries[n.name]
            total = f"tl.sum({value}, {self.axis_of(COL)}, keep_dims=True)"
            self.say(f"{name} += {before}")
            if lost:
                self._add(before, total, lost)
            else:
                self.say(f"{before} += {total}")
        if accumulator(dtype) != dtype:
            self.define(n, f"{name}.to({TYPES[dtype.name]})", x.dims | {COL})

    # clusters ---------------------------------------------------------------------------------
    def _meet(self, items: Sequence[Item]) -> None:
        """Exchange the partial results of a cluster's blocks, and join them."""
        line, rows = self._line()
        if not self.meets:
            self.say(f"line = {line}")
            self.say(f"part = tl.arange(0, PARTS){self.across(PART)}")
        mask = ", mask=row_live" if ROW in self.partial else ""
        self.part_values = {}
        places: dict[str, str] = {}
        for i in items:
            for r in i.results:
                base = f"({self.meets} * {rows} + line)" if self.meets else "line"
                places[r.name] = f"meeting_ptr + {base} * PARTS"
                self.part_values[r.name] = self.values[r.name].text
                self.say(f"tl.store({places[r.name]} + part, {self.values[r.name].text}{mask})")
                self.meets += 1
        self.say("meet_cluster(PARTS)")
        for i in items:
            self._joined(i, {name: self._part(place) for name, place in places.items()})

    def _line(self) -> tuple[str, str]:
        """Return the index of a row among all rows, and their number."""
        k = self.kernel
        rows = self.size(k.nest.count((*k.grid, *k.rows)), atomic=True)
        if not k.grid:
            return "row", rows
        return f"outer * {self.size(self.count(ROW), atomic=True)} + row", rows

    def _part(self, place: str) -> str:
        """Return the load of the value that block ``other`` of the cluster stored."""
        mask = ", mask=row_live, other=0.0" if ROW in self.partial else ""
        return f'tl.load({place} + other{mask}, cache_modifier=".cg")'

    def _joined(self, i: Item, parts: Mapping[str, str]) -> None:
        """Join an item from the results of all blocks of the cluster, one after another."""
        dtype = self.named[i.first.inputs[0]].y.dtype
        dims = self.spread(ROW)
        kind = TYPES[accumulator(dtype).name]
        first = self._start(i.first, identity(i.first.op, dtype), kind, dims)
        self.values[i.first.name] = Value(first, dims)
        if i.join is Join.EXPONENTIALS:
            self._joined_exponentials(i, first, parts, dims)
            return
        with self.inside("for other in tl.static_range(PARTS):"):
            self.say(f"{first} = {self.combine(i.first.op, first, parts[i.first.name], dtype)}")
        if i.second is None:
            return
        second = self._start(i.second, "0.0", "tl.float32", dims)
        self.values[i.second.name] = Value(second, dims)
        a, b = parts[i.first.name], parts[i.second.name]
        count = self.size(self.count(COL), atomic=True)
        apart, number = self.names.take("apart"), "COLS"
        with self.inside("for other in tl.static_range(PARTS):"):
            if COL in self.partial:
                number = self.names.take("elements")
                self.say(f"{number} = tl.minimum(tl.maximum({count} - other * COLS, 0), COLS)")
            each = f"tl.maximum({number}, 1)" if COL in self.partial else number
            self.say(f"{apart} = {a} / {each} - {first} / {count}")
            self.say(f"{second} += {b} + {apart} * {apart} * {number}")

    def _joined_exponentials(
        self, i: Item, first: str, parts: Mapping[str, str], dims: frozenset[str]
    ) -> None:
        second, rule = i.followed()
        dtype = self.named[i.first.inputs[0]].y.dtype
        total = self._start(second, "0.0", "tl.float32", dims)
        self.values[second.name] = Value(total, dims)
        part, largest = self.names.take("part_largest"), self.names.take("largest")
        with self.inside("for other in tl.static_range(PARTS):"):
            self.say(f"{part} = {parts[i.first.name]}")
            self.say(f"{largest} = {self.combine(i.first.op, first, part, dtype)}")
            centre = self._centre(i, Value(largest, dims)).text
            have, new = first, part
            if rule.centres[0].is_number:
                have, new = (self._centre(i, Value(x, dims)).text for x in (first, part))
            again = f"{total} * {self._moved(i, have, centre)}"
            add = f"{parts[second.name]} * {self._moved(i, new, centre)}"
            self.say(f"{total} = {again} + {add}")
            self.say(f"{first} = {largest}")
        self._undefined(i, first, total)
        near = self._used_again(i)
        if near:
            ends = (Value(x, dims) for x in (self.part_values[i.first.name], first))
            if rule.centres[0].is_number:
                ends = (self._centre(i, x) for x in ends)
            scale = self._moved(i, *(x.text for x in ends))
            for n, value in near:
                self.define(n, f"{value.text} * {scale}", value.dims | dims)

    def _used_again(self, i: Item) -> list[tuple[Node, Value]]:
        """Return the exponentials of a part of a row, and multiples of them, that other nodes use as well."""
        second, rule = i.followed()
        near = self.exponentials.get(second.name, {})
        others = [n for n in self.kernel.nest.nodes if n.name not in {*rule.path, second.name}]
        used = {x for n in others for x in n.inputs}
        return [(self.named[x], near[x]) for x in near if x in rule.powers & used]

    def _start(self, n: Node, value: str, kind: str, dims: frozenset[str]) -> str:
        """Write the initial value of a reduction, and return its name."""
        name = self.names.take(n.name)
        shape = self.shape(sorted(dims)) if dims else "()"
        self.say(f"{name} = tl.full({shape}, {value}, {kind})")
        return name

    # sums beside rows, and parts of reductions ------------------------------------------------
    def _rows_with_sums(self) -> None:
        """Write a loop over this program's blocks of rows that also accumulates sums over rows."""
        k = self.kernel
        self._columns("")
        self._beside_rows()
        state: dict[str, str] = {}
        for p in k.partials:
            name = self.names.take(p.node.name)
            self.say(f"{name} = tl.zeros({self.shape(self.dims)}, tl.float32)")
            state[p.node.name] = name
        blocks = f"tl.cdiv({self.size(self.count(ROW))}, ROWS)"
        with self.inside(
            f"for block in {self._range('tl.program_id(0)', blocks, 'tl.num_programs(0)')}:"
        ):
            self.index_rows(self.widened("block"))
            for items in k.passes:
                self._pass(items)
            self.store_all()
            for p in k.partials:
                self.need([p.node.inputs[0]])
                dtype = self.named[p.node.inputs[0]].y.dtype
                full = self.full(self.values[p.node.inputs[0]], frozenset({ROW, COL}), dtype)
                text = f"tl.where(row_live, {full}, 0.0)" if ROW in self.partial else full
                self.say(f"{state[p.node.name]} += {text}")
        count = self.size(self.count(COL), atomic=True)
        mask = ", mask=col_live" if COL in self.partial else ""
        for p in k.partials:
            total = f"tl.sum({state[p.node.name]}, {self.axis_of(ROW)}, keep_dims=True)"
            self._leave(p.memory, f"tl.program_id(0) * {count} + col", total, mask)

    def _beside_rows(self) -> None:
        """Write values constant along rows once, before the loop over them."""
        rows = frozenset(self.kernel.rows)
        moving: set[str] = set()
        for n in self.kernel.nest.nodes:
            if n.op in REDUCES or varies(n) & rows or any(i in moving for i in n.inputs):
                moving.add(n.name)
            elif n.op not in ("Store", "Scalar"):
                self.need([n.name])

    def _parts_of_columns(self) -> None:
        """Write the reduction of this program's part of the columns."""
        (items,) = self.kernel.passes
        self._pass(items)
        line, rows = self._line()
        mask = ", mask=row_live" if ROW in self.partial else ""
        for p in self.kernel.partials:
            self._leave(
                p.memory, f"tl.program_id(1) * {rows} + {line}", self.values[p.node.name].text, mask
            )

    def _leave(self, m: Memory, place: str, value: str, mask: str) -> None:
        self.memory[m.name] = m
        self.say(f"tl.store({self.pointer(m)} + {place}, {value}{mask})")
