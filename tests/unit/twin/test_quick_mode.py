"""What kernels have in common is compiled once; quick mode: those that are verified are not optimised."""

import numpy as np
import pytest

from autofuse import api
from autofuse.base import cache, knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run import compile as compiling
from autofuse.machines.twin.run import compiler
from autofuse.machines.twin.run.compile import (
    DEFAULT,
    OBJECT,
    PRELUDE,
    QUICK,
    compile_kernel,
    level,
    toolchain,
)
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.native import KernelLibrary
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin

gcc_only = pytest.mark.skipif(
    not toolchain().is_gcc, reason="only GCC's precompiled headers are used"
)


def headers():
    return cache.info().kinds["headers"][0]


def test_levels_follow_the_knob(monkeypatch):
    assert (level(), level(QUICK)) == (DEFAULT, QUICK) == ("-O1", "-O0")
    monkeypatch.setenv("AUTOFUSE_OPT", "2")
    assert level() == level(QUICK) == "-O2"
    monkeypatch.setenv("AUTOFUSE_OPT", "")
    assert level(QUICK) == QUICK
    for bad in ("4", "-O2", "fast"):
        with pytest.raises(AutofuseError, match=r"AF5008.*one of 0, 1, 2, 3"):
            knobs.OPT.get({"AUTOFUSE_OPT": bad})


def test_verification_is_quick_unless_asked_otherwise(abs_files, abs_graph, cache_dir, monkeypatch):
    quick = compile_kernel(abs_files(), "absk", opt=QUICK, checked=True)
    assert verify_kernel(abs_files(), abs_graph, count=2).ok
    assert cache.info().kinds["kernels"][0] == 1
    assert verify_kernel(abs_files(), abs_graph, count=2, opt="-O2").ok
    monkeypatch.setenv("AUTOFUSE_OPT", "2")
    assert verify_kernel(abs_files(), abs_graph, count=2).ok
    assert cache.info().kinds["kernels"][0] == 2
    assert compile_kernel(abs_files(), "absk", checked=True) != quick


@gcc_only
def test_headers_are_compiled_once_and_used(abs_files, abs_graph, cache_dir, monkeypatch):
    # GCC says nothing when it cannot use what it finds, unless it is asked to.
    monkeypatch.setattr(compiling, "FLAGS", (*compiling.FLAGS, "-Winvalid-pch"))
    compile_kernel(abs_files(), "absk", opt="-O1")
    assert headers() == 1
    cache.clear()
    first = compile_kernel(abs_files(), "absk", opt=QUICK)
    assert headers() == 1
    other = compile_kernel(
        abs_files(("int64_t tile = 64", "int64_t tile = 128")), "absk", opt=QUICK
    )
    assert first != other
    assert headers() == 1
    compile_kernel(abs_files(), "absk", opt=QUICK, checked=True)
    assert headers() == 2
    compile_kernel(
        {**abs_files(), "include/more.h": "inline int More() { return 1; }\n"}, "absk", opt=QUICK
    )
    assert headers() == 3
    x = np.array([-1.5, 2.0, -0.25], np.float32)
    assert TwinKernel(other, abs_graph)(x).tolist() == [1.5, 2.0, 0.25]


def test_flags_of_the_user_that_include_a_file_keep_their_meaning(
    abs_files, cache_dir, monkeypatch, tmp_path
):
    (tmp_path / "more.h").write_text("static const int kMore = 1;\n")
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", f"-include {tmp_path / 'more.h'} -Wno-unused-variable")
    compile_kernel(abs_files(), "absk", opt=QUICK)
    assert headers() == 0


@gcc_only
def test_the_search_for_tiles_is_compiled_once_and_chooses_the_same(cache_dir, monkeypatch, repo):
    graph = api.read(repo / "examples" / "demo.json")
    built = api.build(graph)
    shared = KernelLibrary(compile_kernel(built.files, graph.name, opt=QUICK))
    (prelude,) = (cache_dir / "headers").glob(f"*/{PRELUDE}")
    assert "AUTOFUSE_SOLVER_APART" in prelude.read_text()
    assert headers() == 2
    # Another level has headers of its own, but the same code.
    compile_kernel(built.files, graph.name, opt="-O1")
    assert headers() == 3
    assert len(list((cache_dir / "headers").glob(f"*/{OBJECT}"))) == 1
    # With flags of the user every kernel has the code itself.
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", "-DMORE=1")
    own = KernelLibrary(compile_kernel(built.files, graph.name, opt=QUICK))
    assert headers() == 3
    chosen = set()
    for tokens in (1, 7, 48, 1000, 4096, 100_003):
        for cores in (0, 5):
            found, expected = (k.tiling([tokens], None, cores) for k in (shared, own))
            assert found == expected
            chosen.add(found.key)
    assert len(chosen) > 1


@gcc_only
def test_headers_that_are_damaged_are_made_again(abs_files, cache_dir):
    compile_kernel(abs_files(), "absk", opt=QUICK)
    (made,) = (cache_dir / "headers").iterdir()
    (made / "prelude.h.gch").write_bytes(b"nonsense")
    compile_kernel(abs_files(("int64_t tile = 64", "int64_t tile = 32")), "absk", opt=QUICK)
    assert (made / "prelude.h.gch").stat().st_size > 1000


@gcc_only
def test_code_that_is_damaged_is_made_again(cache_dir, repo):
    graph = api.read(repo / "examples" / "demo.json")
    files = api.build(graph).files
    compile_kernel(files, graph.name, opt=QUICK)
    (made,) = (cache_dir / "headers").glob(f"*/{OBJECT}")
    made.write_bytes(b"nonsense")
    compile_kernel(files, graph.name, opt=QUICK, cache=False)
    assert made.stat().st_size > 1000


@gcc_only
@pytest.mark.parametrize("split", [False, True])
def test_a_cache_that_others_empty_is_filled_again(cache_dir, repo, monkeypatch, split):
    graph = api.read(repo / "examples" / "demo.json")
    built = api.build(graph)
    run, emptied = compiler.run_compiler, []

    def run_late(cmd, folder, name, result):
        if name == graph.name and len(emptied) < times:
            emptied.append(cache.clear().entries)
        run(cmd, folder, name, result)

    def compiled(opt):
        if split:
            return compiling.compile_split(built.files, graph.name, {}, opt=opt)
        return compile_kernel(built.files, graph.name, opt=opt)

    monkeypatch.setattr(compiler, "run_compiler", run_late)
    times = 1
    library = compiled(QUICK)
    assert emptied[0] >= 2
    assert KernelLibrary(library).tiling([7], None, 0)
    times = 20
    with pytest.raises(AutofuseError, match="other processes keep emptying it") as e:
        compiled("-O1")
    assert e.value.diagnostics[0].code == "AF5009"


@gcc_only
def test_a_header_that_does_not_stand_alone_does_no_harm(abs_files, cache_dir):
    files = {**abs_files(), "include/later.h": "#ifndef NEEDED\n#error first\n#endif\n"}
    compile_kernel(files, "absk", opt=QUICK)
    assert headers() == 0


def test_an_error_is_placed_as_without_quick_mode(abs_files, cache_dir):
    broken = abs_files(("TPipe pipe;", "TPipe pipe;\nundeclared();"))
    found = []
    for opt in (QUICK, "-O1"):
        with pytest.raises(AutofuseError) as caught:
            compile_kernel(broken, "absk", opt=opt)
        found.append((caught.value.diagnostics[0].where, caught.value.diagnostics[0].notes[:2]))
    assert found[0] == found[1]
