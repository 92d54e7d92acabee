"""The definition of an operator as a document, with every section of the write-up of the flow.

Headings are English, followed by the titles of the write-up.  Text from a graph is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autofuse.base.wording import counted
from autofuse.clients.kernelgen.defining.definition import Definition, Parameter
from autofuse.clients.kernelgen.defining.shapes import ASSUMED_MEMORY
from autofuse.clients.kernelgen.defining.strategies import STRATEGIES, Outlook, Verdict, outlook
from autofuse.clients.kernelgen.log_template import log_template
from autofuse.clients.kernelgen.markdown import bullets, code, plain, table
from autofuse.implgraph.expr.expression import Expr
from autofuse.report.text.tables import bytes_text
from autofuse.targets import Figure, find_target

__all__ = ["document"]

#: Maximum number of nodes in the data-flow table.
_MAX_STEPS = 200


def document(definition: Definition) -> str:
    """Return the document as Markdown; it depends only on the definition.

    Args:
        definition: definition of the operator.

    Raises:
        AutofuseError: AF5006, the target is unknown; AF2xxx, AF3xxx: no kernel exists for the graph.
    """
    d = definition
    seen = outlook(d.graph, find_target(d.device), d.analysis)
    lines = [
        f"# {code(d.name)}: definition and analysis (算子定义与分析文档)",
        "",
        'Counts follow from the formula. Times marked "model" are computed from figures of the target; they were not '
        "measured.",
        "",
        *_basics(d),
        *_analysis(d),
        *_strategies(d, seen),
        *_plan(d, seen),
    ]
    return "\n".join(lines).rstrip() + "\n"


# 1 --------------------------------------------------------------------------------------------


def _basics(d: Definition) -> Iterator[str]:
    yield from ("## 1. Definition (算子定义)", "", "### (1) Original request (原始需求)", "")
    yield from (f"> {plain(line) or plain('-')}" for line in d.requirement.splitlines() or ["-"])
    yield from ("", "### (2) Basic information (算子基本信息)", "")
    yield from table(
        ("property (属性)", "value (值)"),
        [
            ("name (算子名称)", code(d.name)),
            ("test device (测评设备)", code(d.device)),
            ("type (算子类型)", d.kind),
            ("description (功能描述)", plain(d.description)),
            *_signature(d),
            ("formula (公式)", f"{counted(len(d.graph.nodes), 'op')}, in 2.5"),
            (
                "target speedup, to be exceeded (目标加速比)",
                f"{d.target_speedup:g} over the baseline",
            ),
        ],
    )
    yield from ("### (3) Inputs (输入参数)", "", *_parameters(d, d.inputs))
    if d.constraints:
        yield from ("Constraints (约束条件):", "", *bullets(code(c) for c in d.constraints))
    yield from ("### (4) Outputs (输出参数)", "", *_parameters(d, d.outputs))
    yield from ("### (5) Maximum rounds of automatic tuning (自动优化最大迭代轮次)", "")
    yield from (str(d.rounds), "")


def _signature(d: Definition) -> Iterator[tuple[str, str]]:
    """Yield the row for the function that describes the operator."""
    if d.function is not None:
        parameters = d.function.call.parameters((), annotated=True)
        yield "signature (函数签名)", code(f"{d.function.name}({parameters})")


def _parameters(d: Definition, parameters: Sequence[Parameter]) -> list[str]:
    if not parameters:
        return ["None.", ""]
    return table(
        ("name", "type", "dtype", "shape", "description", "constraints"),
        [
            (
                code(p.name),
                "`torch.Tensor`",
                code(p.dtype),
                code(_shape(d, p.shape)),
                plain(p.description),
                "; ".join(plain(c) for c in p.constraints),
            )
            for p in parameters
        ],
    )


def _shape(d: Definition, shape: Sequence[Expr]) -> str:
    return f"[{', '.join(_size(d, e) for e in shape)}]"


def _size(d: Definition, e: Expr) -> str:
    """Return a size without its outermost parentheses."""
    text = d.graph.in_words(e)
    return text[1:-1] if text.startswith("(") and _closes_last(text) else text


def _closes_last(text: str) -> bool:
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


# 2 --------------------------------------------------------------------------------------------


def _analysis(d: Definition) -> Iterator[str]:
    yield from ("## 2. Analysis (算法分析)", "")
    yield from _complexity(d)
    yield from _intensity(d)
    yield from _roofline(d)
    yield from _bottleneck(d)
    yield from _data_flow(d)


def _complexity(d: Definition) -> Iterator[str]:
    a = d.analysis
    yield from ("### 2.1 Complexity (算法复杂度分析)", "")
    yield from bullets(
        [
            f"P = {code(_size(d, a.rows))} rows; D = {code(_size(d, a.columns))} elements each",
            f"time (时间复杂度): {a.time_complexity}",
            f"space (空间复杂度): {a.space_complexity}; "
            f"{code(_size(d, a.read_bytes))} bytes of inputs, {code(_size(d, a.written_bytes))} of outputs",
        ]
    )
    yield "Operations by kind; a step is one operation of the vector lanes, and functions take several:"
    yield ""
    yield from table(
        ("kind", "operations", "steps", "counted as FLOP"),
        [
            (o.kind, code(_size(d, o.count)), code(_size(d, o.steps)), "yes" if o.is_flop else "no")
            for o in a.operations
        ]
        or [("none: elements are only moved", "0", "0", "no")],
    )


def _intensity(d: Definition) -> Iterator[str]:
    a = d.analysis
    yield from ("### 2.2 Arithmetic intensity (计算密度分析)", "")
    moved = _size(d, a.read_bytes + a.written_bytes)
    yield f"Intensity (计算密度) = FLOP / bytes = ({code(_size(d, a.flops))}) / ({code(moved)}):"
    yield ""
    yield from table(
        ("shape", "FLOP", "bytes read and written", "FLOP/byte"),
        [
            (_sizes(d, k), str(p.flops), str(p.moved_bytes), f"{p.intensity:.4g}")
            for k, p in enumerate(a.points)
        ],
    )


def _sizes(d: Definition, k: int) -> str:
    labels = d.graph.symbol_labels()
    case = d.analysis.points[k].case
    return code(", ".join(f"{labels[n]}={v}" for n, v in case.sizes.items()) or "fixed")


def _roofline(d: Definition) -> Iterator[str]:
    c = d.analysis.ceilings
    yield from ("### 2.3 Roofline (Roofline模型分析)", "")
    yield from table(
        ("ceiling", "value", "status", "source"),
        [
            _ceiling("memory bandwidth", c.bandwidth),
            _ceiling("vector lanes", c.peak),
            _ceiling("start of a kernel", c.start),
        ],
    )
    yield f"The ridge is at {c.ridge:.4g} operations per byte: below it, additions are memory-bound."
    yield "The attainable time is the larger of the two times, plus the start of a kernel."
    yield ""
    yield from table(
        ("shape", "memory, us (model)", "lanes, us (model)", "attainable, us (model)", "limit"),
        [
            (
                _sizes(d, k),
                f"{p.memory_us:.4g}",
                f"{p.compute_us:.4g}",
                f"{p.attainable_us:.4g}",
                p.bottleneck,
            )
            for k, p in enumerate(d.analysis.points)
        ],
    )


def _ceiling(name: str, f: Figure) -> tuple[str, str, str, str]:
    value = f"{f.value:.6g}" if isinstance(f.value, float) else str(f.value)
    return name, f"{value} {plain(f.unit)}", f.status, plain(f.source)


def _bottleneck(d: Definition) -> Iterator[str]:
    a = d.analysis
    yield from ("### 2.4 Bottleneck (性能瓶颈分析)", "")
    assumed = ", assumed" if a.memory_bytes == ASSUMED_MEMORY else ""
    yield f"At the largest test shape, the bottleneck is the **{a.bottleneck}** (model). At the test shapes, inputs and"
    yield f"outputs may take a quarter of the memory of the device ({bytes_text(a.memory_bytes)}{assumed})."
    yield ""
    yield from table(
        ("shape", "for", "inputs and outputs", "note"),
        [
            (_sizes(d, k), p.case.use, bytes_text(p.case.bytes), plain(p.case.note))
            for k, p in enumerate(a.points)
        ],
    )


def _data_flow(d: Definition) -> Iterator[str]:
    steps = d.analysis.steps
    yield from ("### 2.5 Data flow (数据流分析)", "")
    yield from table(
        ("step", "node", "op", "reads", "writes", "dtype", "shape"),
        [
            (
                str(k),
                code(s.node),
                s.op,
                ", ".join(code(x) for x in s.reads),
                code(s.writes),
                s.dtype,
                code(_shape(d, s.shape)),
            )
            for k, s in enumerate(steps[:_MAX_STEPS], start=1)
        ]
        or [("1", "copy", "Identity", "", "", "", "")],
    )
    if len(steps) > _MAX_STEPS:
        yield from (f"The graph has {len(steps) - _MAX_STEPS} more nodes.", "")
    inputs = ", ".join(code(t) for t in d.graph.inputs) or "nothing"
    outputs = ", ".join(f"{code(o.name)} from {code(o.tensor)}" for o in d.graph.outputs)
    yield from (
        f"Read from memory: {inputs}. Written: {outputs}.",
        "",
    )


# 3 and 4 --------------------------------------------------------------------------------------


def _strategies(d: Definition, seen: Outlook) -> Iterator[str]:
    yield from ("## 3. Optimisation strategies (性能优化策略)", "")
    k = len(seen.points) - 1
    yield f"Plan of the code generator at {_sizes(d, len(d.analysis.points) - 1)}:"
    yield ""
    yield from table(
        (
            *("part", "form", "rows x columns", "block or tile", "grid or cores", "warps"),
            *("passes", "bottleneck (model)"),
        ),
        [
            (
                code(p.name),
                code(p.form),
                p.over or "-",
                code(p.block),
                code(p.programs),
                str(p.warps or "-"),
                str(p.passes),
                p.limit or "-",
            )
            for p in seen.parts[k]
        ]
        or [("none", "-", "-", "-", "-", "-", "-", "-")],
    )
    verdicts = seen.verdicts()
    yield from table(
        ("section", "strategy (策略)", "key", "applies", "in this definition"),
        [
            (
                f"3.{n}",
                f"{s.title} ({s.chinese})",
                code(key),
                "yes" if verdicts[key].applies else "no",
                "yes" if key in d.strategies else "no",
            )
            for n, (key, s) in enumerate(STRATEGIES.items(), start=1)
        ],
    )
    yield from ("The gain of a change is unknown until it is measured.", "")
    for n, (key, s) in enumerate(STRATEGIES.items(), start=1):
        yield from (f"### 3.{n} {s.title} ({s.chinese})", "")
        yield from _verdict(verdicts[key])


def _verdict(v: Verdict) -> Iterator[str]:
    yield from ("Applies:" if v.applies else "Not applicable:", "")
    yield from bullets(plain(r) for r in v.reason)
    if v.tries:
        yield from ("To try:", "", *bullets(plain(t) for t in v.tries))


_DIRECTIONS = (
    (
        "memory bandwidth utilisation below 60 %",
        "bytes moved / time / the bandwidth in 2.3",
        "3.4, 3.2",
    ),
    ("cache hit rate below 80 %", "a profiler", "3.5, 3.2"),
    ("too few programs to fill the device", "programs in the plan of 3; a profiler", "3.1, 3.2"),
    ("memory latency is exposed", "a profiler: stalls", "3.3"),
    ("fast only at some shapes", "speedup per shape", "3.6"),
)


def _plan(d: Definition, seen: Outlook) -> Iterator[str]:
    yield from ("## 4. If the target is missed (未达目标修改方案)", "")
    yield from ("### 4.1 Diagnosis (问题诊断框架)", "")
    yield from ("First, the scope of each change:", "")
    yield from table(
        ("change (修改类型)", "parts", "files to change"),
        [
            ("performance parameter (性能参数修改)", "grid, blocks, warps, stages", "the kernel"),
            ("interface (接口修改)", "names, number or types of parameters", "all four"),
            ("logic (逻辑修改)", "the formula", "all four, and this definition"),
        ],
    )
    yield from ("Then, the bottleneck, and the section with the change:", "")
    yield from table(("symptom (瓶颈类型)", "how to find it", "section"), _DIRECTIONS)
    yield from ("### 4.2 Changes, round by round (具体修改方案)", "")
    yield (
        "One kind of change per round; correctness is tested before each timing. At most "
        f"{counted(d.rounds, 'round')}:"
    )
    yield ""
    verdicts = seen.verdicts()
    rounds = [(key, STRATEGIES[key], verdicts[key]) for key in d.strategies]
    yield from table(
        ("round", "strategy", "to try"),
        [
            (
                str(n),
                f"{s.title} ({s.chinese})",
                "; ".join(plain(t) for t in v.tries) or "nothing, by the plan in 3",
            )
            for n, (_, s, v) in enumerate(rounds[: d.rounds], start=1)
        ]
        or [("-", "none applies", "-")],
    )
    left = rounds[d.rounds :]
    if left:
        names = ", ".join(s.title for _, s, _ in left)
        yield from (f"Left for later definitions: {names}.", "")
    yield from ("### 4.3 Log template (记档模板)", "", *log_template(d.target_speedup))
