"""Template for a round in the optimisation log, in the order of the write-up of the flow."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["SECTIONS", "log_template"]

#: Sections of a round and their fields, each with its title in the write-up.
SECTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Version",
        "当前版本信息",
        (
            ("version", "版本号"),
            ("tested shape", "测试Shape"),
            ("current speedup", "当前加速比"),
            ("target speedup", "目标加速比"),
        ),
    ),
    (
        "Bottleneck",
        "性能瓶颈分析",
        (
            ("memory bandwidth used, %", "内存带宽利用率"),
            ("cache hit rate, %", "Cache命中率"),
            ("parallelism, %", "并行度"),
            ("use of AI cores, %", "AI Core利用率"),
            ("main bottleneck", "主要瓶颈"),
        ),
    ),
    (
        "Change",
        "修改方案",
        (
            ("kind: performance parameter, interface, or logic", "修改类型"),
            ("code before and after", "修改内容"),
            ("problem", "问题分析"),
            ("idea", "优化思路"),
            ("expected effect", "预期效果"),
        ),
    ),
    (
        "Result",
        "测试结果",
        (
            ("new speedup", "新加速比"),
            ("change of the speedup, %", "加速比提升"),
            ("target reached, yes or no", "是否达到目标"),
        ),
    ),
    (
        "Lessons",
        "经验总结",
        (
            ("successes", "成功经验"),
            ("failures, and why", "失败教训"),
            ("next steps", "后续优化方向"),
        ),
    ),
)


def log_template(target_speedup: float) -> Iterator[str]:
    """Yield the lines of the template; each figure states its origin: measured, model, or not measured."""
    yield from (
        "One block per round; mark each figure: measured, model, or not measured.",
        "",
    )
    for title, chinese, fields in SECTIONS:
        yield from (f"**{title} ({chinese})**", "")
        for name, own in fields:
            value = f" more than {target_speedup:g}" if name == "target speedup" else ""
            yield f"- {name} ({own}):{value}"
        yield ""
