"""Measure the generated tiling function: its time, its compile time with g++, and its lines.

    python benchmarks/tiling/tiling_latency.py [--shapes 20000] [--repeat 5] [--target ascend910b2] [--json]

For every graph of ``choose_graphs.py`` the generated host code is compiled with ``-O2`` and called with random
log-uniform sizes, one call at a time, and with one shape repeatedly.  The function caches its last calls; to
make every call of the first kind a search, each gets a different number of bytes of UB, always more than there are.
The clock's own time is measured and subtracted.

The output is in nanoseconds: median and p99.9 of all searches, as the median of ``--repeat`` passes with the lowest
and the highest; the median of a repeated shape, and of eight in turn; processor seconds of g++; lines.  All figures
are of this machine's CPU under its current load.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from choose_graphs import GRAPHS, LONGEST

from autofuse import api
from autofuse.targets import target_names

_MAIN = """
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "autofuse_tiling_data.h"

struct ResLimit {{
    uint32_t valid_num, aiv_num, aic_num, ub_size, resv[10];
}};
extern "C" int64_t AutofuseTiling({parameters}AutofuseTilingData*, uint32_t*, uint32_t*, ResLimit*);

namespace {{

double Now()
{{
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}}

double Quantile(std::vector<double>& values, double q)
{{
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}}

}}  // namespace

int main()
{{
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> exponent(0, {most});
    AutofuseTilingData data;
    uint32_t workspace = 0;
    uint32_t cores = 0;
    ResLimit limit = {{}};
    limit.ub_size = 1 << 24;
    std::vector<double> clock(20000);
    for (double& c : clock) {{
        const double start = Now();
        c = Now() - start;
    }}
    const double own = Quantile(clock, 0.5);
    for (int pass = 0; pass < {passes}; ++pass) {{
        std::vector<double> each({shapes});
        int64_t failed = 0;
        for (double& ns : each) {{
            int64_t sizes[{count}];
            for (int64_t& s : sizes) {{
                s = static_cast<int64_t>(std::exp2(exponent(random)));
            }}
            ++limit.ub_size;
            const double start = Now();
            const int64_t rc = AutofuseTiling({arguments}&data, &workspace, &cores, &limit);
            ns = Now() - start - own;
            failed += rc != 0 ? 1 : 0;
        }}
        std::vector<double> again({shapes});
        for (double& ns : again) {{
            const double start = Now();
            AutofuseTiling({repeated}&data, &workspace, &cores, nullptr);
            ns = Now() - start - own;
        }}
        std::vector<double> turns({shapes});
        for (size_t i = 0; i < turns.size(); ++i) {{
            const double start = Now();
            AutofuseTiling({turns}&data, &workspace, &cores, nullptr);
            turns[i] = Now() - start - own;
        }}
        std::printf("%.1f %.1f %.1f %.1f %lld\\n", Quantile(each, 0.5), Quantile(each, 0.999), Quantile(again, 0.5),
                    Quantile(turns, 0.5), (long long)failed);
    }}
    return 0;
}}
"""


def measure(graph: dict[str, Any], target: str, shapes: int, passes: int) -> dict[str, Any]:
    """Return the figures of one graph: lists of one number per pass, seconds of g++, lines of the tiling file."""
    built = api.build(graph, target=target)
    count = len(built.graph.symbols)
    text = _MAIN.format(
        parameters="int64_t, " * count,
        arguments="".join(f"sizes[{i}], " for i in range(count)),
        repeated="1000, " * count,
        turns="1000 + 37 * static_cast<int64_t>(i % 8), " * count,
        count=count,
        most=LONGEST[count].bit_length() - 1,
        shapes=shapes,
        passes=passes,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in {**built.files, "main.cpp": text}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
        (source,) = (folder / "host").glob("*_tiling.cpp")
        compiler = [os.environ.get("CXX", "g++"), "-std=c++17", "-O2", f"-I{folder}"]
        compiler.append(f"-I{folder / 'include'}")
        start = _compiled_s()
        subprocess.run([*compiler, "-c", source, "-o", folder / "tiling.o"], check=True)
        seconds = _compiled_s() - start
        program = folder / "main"
        command = [*compiler, folder / "main.cpp", folder / "tiling.o", "-o", program]
        subprocess.run(command, check=True)
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        rows = [[float(x) for x in line.split()] for line in out.splitlines()]
        return {
            "median_ns": [r[0] for r in rows],
            "p999_ns": [r[1] for r in rows],
            "repeated_ns": [r[2] for r in rows],
            "turns_ns": [r[3] for r in rows],
            "refused": int(rows[-1][4]),
            "gxx_s": seconds,
            "lines": source.read_text(encoding="utf-8").count("\n"),
        }


def _compiled_s() -> float:
    """Return the processor time of finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.0f} ({min(values):.0f} to {max(values):.0f})"


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--shapes", type=int, default=20_000, help="random sizes in a pass (default 20000)"
    )
    parser.add_argument("--repeat", type=int, default=5, help="passes (default 5)")
    parser.add_argument(
        "--target",
        choices=target_names(),
        default="ascend910b2",
        help="the chip (default ascend910b2)",
    )
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    given = parser.parse_args()
    rows = {
        kind: {n: measure(g, given.target, given.shapes, given.repeat) for n, g in graphs.items()}
        for kind, graphs in GRAPHS.items()
    }
    if given.json:
        print(json.dumps(rows))
        return 0
    print(
        f"{'':32} {'median ns':24} {'p99.9 ns':26} {'one shape ns':18} {'eight in turns':18} g++ s lines"
    )
    for kind, graphs in rows.items():
        for name, r in graphs.items():
            cells = [f"{_spread(r[k]):24}" for k in ("median_ns", "p999_ns")]
            cells += [f"{_spread(r[k]):18}" for k in ("repeated_ns", "turns_ns")]
            print(f"{kind:14} {name:17} {' '.join(cells)} {r['gxx_s']:5.2f} {r['lines']:5}")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
