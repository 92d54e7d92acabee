"""The entry of op packages: tiling data in GM, dispatch on TILING_KEY_IS; built and run on the twin."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from autofuse.codegen.backends.ascendc.backend import BACKEND
from autofuse.codegen.backends.interface import Job, generate
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target
from autofuse.twin.run.compile import twin_files

EXAMPLE = Path(__file__).parents[3] / "examples" / "abs_test.json"

DRIVER = r"""
#include <cmath>
#include <cstdio>
#include <vector>

#include "device/abs_test_kernel.cpp"
#include "host/abs_test_tiling.cpp"
#include "launch.h"

int main() {
  const int64_t n = 200 * 200;
  std::vector<float> x(n), y(n);
  for (int64_t i = 0; i < n; i++) {
    x[i] = static_cast<float>((i * 7919) % 1013) - 500.5f;
  }
  for (uint32_t key = 0; key < GetTilingKeyCount(); key++) {
    y.assign(n, NAN);
    AutofuseTilingData tiling;
    uint32_t workspace = 0, cores = 0;
    if (AutofuseTilingForKey(key, &tiling, &workspace, &cores, nullptr) != 0) return 1;
    autofuse_twin_set_tiling_key(tiling.tiling_key);
    const int64_t rc = autofuse_twin::Launch(cores, [&] {
      abs_test((GM_ADDR)x.data(), (GM_ADDR)y.data(), nullptr, (GM_ADDR)&tiling);
    });
    if (rc != 0) return 2;
    for (int64_t i = 0; i < n; i++) {
      if (!(y[i] == std::fabs(x[i]))) return 3;
    }
    std::printf("key %u on %u cores\n", key, cores);
  }
  return 0;
}
"""


@pytest.mark.twin
def test_every_key_runs_from_tiling_data_in_gm(tmp_path: Path) -> None:
    from autofuse.frontends import read_graph

    graph = read_graph(EXAMPLE)
    target = load_target("ascend910b1")
    results = schedule(canonicalise(lower(graph)), target)
    files = generate(BACKEND, Job(graph, target, Costs(target), "op-package"), results)
    assert not any("launch.cpp" in f or "CMake" in f for f in files)
    kernel = files["device/abs_test_kernel.cpp"]
    assert "GM_ADDR tiling)" in kernel
    # Every branch has a TILING_KEY_IS of its own: the package builds one binary per key.
    assert kernel.count("TILING_KEY_IS(") == 2
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "driver.cpp").write_text(DRIVER, encoding="utf-8")
    twin = twin_files()
    compiler = shutil.which("g++")
    assert compiler is not None
    includes = [f"-I{d}" for d in (tmp_path, tmp_path / "include", *twin.include)]
    subprocess.run(
        [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", *includes, str(tmp_path / "driver.cpp"),
         "-o", str(tmp_path / "driver"), f"-L{twin.library.parent}", "-lautofuse_twin",
         f"-Wl,-rpath,{twin.library.parent}"],
        check=True,
    )  # fmt: skip
    ran = subprocess.run([str(tmp_path / "driver")], check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines()[0].startswith("key 0 on ")
    assert len(ran.stdout.splitlines()) == 2
