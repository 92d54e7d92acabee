"""The document: every section of the write-up, and names of graphs as nothing but text."""

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from extras import needs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from autofuse import api
from autofuse.base.visible import visible
from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.defining.sources import describe
from autofuse.clients.kernelgen.defining.strategies import STRATEGIES, outlook
from autofuse.clients.kernelgen.document import document
from autofuse.clients.kernelgen.markdown import bullets, code, plain, table
from autofuse.targets import find_target, gpu_names, target_names

#: The sections of the write-up, by its own titles.
SECTIONS = (
    *("算子定义", "原始需求", "算子基本信息", "输入参数", "输出参数", "自动优化最大迭代轮次"),
    *(
        "算法分析",
        "算法复杂度分析",
        "计算密度分析",
        "Roofline模型分析",
        "性能瓶颈分析",
        "数据流分析",
    ),
    *("性能优化策略", "网格配置优化", "块大小优化", "Warp和Stage配置优化", "内存访问优化"),
    *("数据复用优化", "动态Shape处理优化"),
    *("未达目标修改方案", "问题诊断框架", "具体修改方案", "记档模板"),
)
HOSTILE = (
    *("<script>alert(1)</script>", "x | y |", "`x`", "[x](http://a.b)", "![x](y)", "**x**", "_x_"),
    *(
        "# x",
        "x):",
        "../up",
        "tl",
        "lambda",
        "http://a.b",
        "www.a.b",
        "a@b.c",
        "~~x~~",
        "&lt;",
        "\\",
    ),
    *("{{x}}", "1. x", "- x", "> x", "|", "<!--", "$x$", "$(id)"),
)
LINE = re.compile(r"^(#+) (.*)$", re.M)


class Rendered(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def commonmark(text: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))


def of_the_site(text: str) -> str:
    import markdown

    return str(markdown.markdown(text, extensions=["tables", "attr_list", "sane_lists"]))


RENDERERS = pytest.mark.parametrize(
    "render", [commonmark, pytest.param(of_the_site, marks=needs("markdown"))]
)


def headings(text: str) -> list[str]:
    return [title for _, title in LINE.findall(text)]


def test_every_section_is_there_in_its_order(softmax: Definition) -> None:
    found = headings(document(softmax))
    own = [next(k for k, h in enumerate(found) if f"({s})" in h) for s in SECTIONS]
    assert own == sorted(own)
    assert len(found) == len(SECTIONS) + 1
    # Each has something to say.
    parts = LINE.split(document(softmax))[3::3]
    for title, part in zip(found[1:], parts[1:], strict=True):
        assert part.strip() or re.match(r"\d\. ", title), title


@pytest.mark.parametrize("name", [*target_names(), *gpu_names()])
def test_for_every_target(name: str) -> None:
    d = describe("gelu of x float16 [b, 768]", target=name)
    text = document(d)
    assert [h for h in headings(text) if "2.3" in h]
    for f in (d.analysis.ceilings.bandwidth, d.analysis.ceilings.peak, d.analysis.ceilings.start):
        assert f"| {f.status} |" in text
    times = [line for line in text.splitlines() if "us (model)" in line]
    assert times
    assert not re.search(
        r"\bus\b(?! \(model\))[^|]*\|",
        "\n".join(line for line in text.splitlines() if line.startswith("| shape")),
    )


def test_figures_of_the_document_are_those_of_the_definition(softmax: Definition) -> None:
    text = document(softmax)
    for p in softmax.analysis.points:
        sizes = ", ".join(f"{n}={v}" for n, v in p.case.sizes.items())
        assert f"| `{sizes}` | {p.flops} | {p.moved_bytes} | {p.intensity:.4g} |" in text
        times = (p.memory_us, p.compute_us, p.attainable_us)
        row = " | ".join(f"{t:.4g}" for t in times)
        assert f"| `{sizes}` | {row} | {p.bottleneck} |" in text
    assert f"**{softmax.analysis.bottleneck}**" in text


def test_strategies_are_judged_by_the_plan() -> None:
    """A case for each side of each strategy, on shapes for which the plan is known (docs/triton.md)."""
    target = find_target("nvidia-h100")

    def judged(line: str) -> dict[str, bool]:
        d = describe(line, target=target)
        verdicts = outlook(d.graph, target, d.analysis).verdicts()
        assert d.strategies == tuple(k for k, v in verdicts.items() if v.applies)
        assert all(v.reason for v in verdicts.values())
        assert all(bool(v.tries) == v.applies for v in verdicts.values())
        return {k.removesuffix("_optimization"): v.applies for k, v in verdicts.items()}

    relu = judged("relu of x float32 [n]")
    assert relu == {
        "grid_config": False,
        "block_size": True,
        "warp_stage": True,
        "memory_access": True,
        "data_reuse": False,
        "dynamic_shape": True,
    }
    few = judged("sum over all axes of x float32 [1000]")
    assert few["grid_config"]
    assert not few["dynamic_shape"]
    assert judged("add b float32 [768] to x float32 [n, 768]")["data_reuse"]
    norm = judged("layer norm over the last axis of x float16 [n, 768] with gamma and beta")
    assert norm["data_reuse"]  # of the weights, which every row needs
    for line in (
        "softmax over the last axis of x float32 [n, 768]",
        "concat x float32 [n, 3] and y float32 [n, 5] along axis 1",
    ):
        assert not judged(line)["data_reuse"], line
    assert not judged("relu of x float32 [4]")["memory_access"]


def test_what_is_planned_is_what_explain_prints() -> None:
    from autofuse.codegen.backends.triton.plan import plan
    from autofuse.codegen.backends.triton.summary import plan_summary
    from autofuse.compiler import Stages, lower_to_plan

    d = describe("softmax over the last axis of x float32 [1024, 65536]", target="nvidia-h100")
    target = find_target("nvidia-h100")
    (kernel,) = plan_summary(plan(d.graph, lower_to_plan(d.graph, Stages()), target), {})
    assert kernel["cluster"] > 1
    block = " x ".join(map(str, [kernel["cluster"], *kernel["block"]]))
    assert f"| `{kernel['name']}` | `rows in a cluster` | 1024 x 65536 | `{block}` |" in document(d)


def test_the_rounds_are_no_more_than_the_definition_allows() -> None:
    d = describe("relu of x float32 [n]", target="nvidia-h100", rounds=2)
    assert len(d.strategies) == 4
    text = document(d)
    part = text[text.index("### 4.2") : text.index("### 4.3")]
    rows = [line for line in part.splitlines() if re.match(r"\| \d", line)]
    assert [line[2] for line in rows] == ["1", "2"]
    assert "Left for later definitions: Memory access, Dynamic shapes." in part


def test_the_log_template_has_every_field(softmax: Definition) -> None:
    text = document(softmax)
    part = text[text.index("### 4.3") :]
    for field in (
        "版本号",
        "测试Shape",
        "目标加速比",
        "内存带宽利用率",
        "主要瓶颈",
        "修改类型",
        "预期效果",
    ):
        assert f"({field}):" in part
    for field in ("新加速比", "加速比提升", "是否达到目标", "成功经验", "失败教训", "后续优化方向"):
        assert f"({field}):" in part
    assert "(目标加速比): more than 1\n" in part


def test_a_long_formula_is_shown_in_part(graph_of: Callable[..., dict[str, Any]]) -> None:
    names = ["x", *(f"t{k}" for k in range(230))]
    nodes = [
        {"name": f"n{k}", "op": "Relu" if k % 2 else "Neg", "inputs": [a], "outputs": [b]}
        for k, (a, b) in enumerate(pairwise(names))
    ]
    d = describe_graph(graph_of(nodes=nodes, outputs=[names[-1]]))
    text = document(d)
    assert "| 200 | `n199` |" in text
    assert "`n200`" not in text
    assert "The graph has 30 more nodes." in text


RELU = {"name": "r", "op": "Relu", "inputs": ["x"], "outputs": ["z"]}
IOTA = {
    "name": "i",
    "op": "Iota",
    "inputs": [],
    "outputs": ["z"],
    "attrs": {"shape": [7], "axis": 0, "dtype": "int32"},
}


@pytest.mark.parametrize("target", ["nvidia-h100", "triton-ascend910b1", "ascend910b1"])
@pytest.mark.parametrize(
    ("x", "changes"),
    [
        ({"shape": [0, 3]}, {}),
        ({"shape": []}, {}),
        ({"scalar": True}, {}),
        ({"shape": [5]}, {"nodes": [], "outputs": [{"tensor": "x", "name": "z"}]}),
        ({"shape": ["n", 3]}, {"symbols": {"n": {"min": 0, "max": 0}}}),
        ({"shape": ["n", 1]}, {"symbols": {"n": {"min": 1, "max": 1}}}),
        ({"shape": ["n", 3]}, {"outputs": [{"tensor": "z", "inout": "x"}]}),
        (None, {"nodes": [IOTA]}),
    ],
)
def test_small_and_odd_graphs(
    graph_of: Callable[..., dict[str, Any]],
    x: dict[str, Any] | None,
    changes: dict[str, Any],
    target: str,
) -> None:
    """No elements, one element, no inputs, no nodes, a result in the place of an input."""
    inputs = [] if x is None else [{"name": "x", "dtype": "float32"} | x]
    d = describe_graph(graph_of(**{"inputs": inputs, "nodes": [RELU]} | changes), target)
    assert len(headings(document(d))) == len(SECTIONS) + 1
    assert Definition.from_json(d.to_json()) == d


def describe_graph(data: dict[str, Any], target: str = "nvidia-h100") -> Definition:
    return describe(api.read(data), target=target)


def named(names: tuple[str, ...]) -> str:
    """The document of a graph in which everything is called like that."""
    data = {
        "schema": "autofuse.graph/1",
        "name": names[0],
        "symbols": {"n": {"max": 1 << 20}},
        "inputs": [{"name": n, "dtype": "float32", "shape": ["n"]} for n in names],
        "nodes": [
            {"name": f"{n} node", "op": "Relu", "inputs": [n], "outputs": [f"{n} y"]} for n in names
        ],
        "outputs": [{"tensor": f"{n} y", "name": f"{n} out"} for n in names],
    }
    return document(describe_graph(data))


@RENDERERS
def test_names_are_text_and_nothing_else(render: Callable[[str], str]) -> None:
    page, tame = (
        Rendered(render(named(HOSTILE))),
        Rendered(render(named(tuple(f"a{k}" for k in range(len(HOSTILE)))))),
    )
    allowed = set(tame.tags) | {"code"}
    assert set(page.tags) <= allowed
    assert [t for t in page.tags if t != "code"] == [t for t in tame.tags if t != "code"]
    for name in HOSTILE:
        assert name in page.text, name


@RENDERERS
def test_the_request_is_text_and_nothing_else(
    render: Callable[[str], str], softmax: Definition
) -> None:
    import dataclasses

    text = "\n".join((*HOSTILE, "", "```", "# x", "| a | b |", "|---|---|"))
    d = dataclasses.replace(
        softmax, requirement=text, description=text, constraints=HOSTILE, device=softmax.device
    )
    tags = set(Rendered(render(document(d))).tags)
    assert tags <= set(Rendered(render(document(softmax))).tags) | {"br"}
    assert len(headings(document(d))) == len(headings(document(softmax)))


MARKUP = st.text(alphabet="\\`*_{}[]()#+-.!|<>~:@$^=\"'& \n\tabwhtp/019é", max_size=24)


@settings(max_examples=150, deadline=None)
@given(MARKUP)
@example("http://a")
@example("1. a")
@example("_a_ b_c_d")
@example("a\\")
def test_any_text_is_shown_as_it_is(text: str) -> None:
    shown = " ".join(visible(text).split())
    for render in (commonmark, of_the_site):
        for word in (plain(text), code(text)):
            assert word or not shown
            if not word:
                continue
            cell = Rendered(render("\n".join(table(("head", "x"), [(word, "end")]))))
            assert " ".join(cell.text.split()) == f"head x {shown} end", (render.__name__, word)
            item = Rendered(render("\n".join(bullets([f"{word}", "end"]))))
            assert " ".join(item.text.split()) == f"{shown} end", (render.__name__, word)
            assert set(cell.tags + item.tags) <= {
                *("table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "p")
            }


def test_the_document_is_a_function_of_the_definition(softmax: Definition) -> None:
    text = document(softmax)
    assert document(softmax) == text
    script = (
        "import sys; from autofuse.clients.kernelgen.defining.sources import describe;"
        "from autofuse.clients.kernelgen.document import document;"
        f"sys.stdout.write(document(describe({softmax.requirement!r}, target='nvidia-h100')))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode() == text


def test_every_strategy_has_a_section(softmax: Definition) -> None:
    text = document(softmax)
    for n, (key, s) in enumerate(STRATEGIES.items(), start=1):
        assert f"### 3.{n} {s.title} ({s.chinese})" in text
        assert f"`{key}`" in text
