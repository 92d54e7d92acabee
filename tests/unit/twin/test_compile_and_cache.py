"""Compiling generated files, and the cache they go to."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autofuse.base import cache, knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run import compile as compiling
from autofuse.machines.twin.run.compile import compile_kernel, toolchain, twin_files
from autofuse.machines.twin.run.kernel import TwinKernel

pytestmark = pytest.mark.twin


def test_the_second_time_comes_from_the_cache(abs_files, cache_dir):
    first = compile_kernel(abs_files(), "absk")
    stamp = first.stat().st_mtime_ns
    assert compile_kernel(abs_files(), "absk") == first
    assert first.stat().st_mtime_ns == stamp
    assert first.is_relative_to(cache_dir)
    assert (first.parent / "device" / "absk_kernel.cpp").is_file()
    assert cache.info().kinds["kernels"][0] == 1


def test_a_checkout_that_was_built_but_not_installed_is_searched(tmp_path, monkeypatch):
    package = tmp_path / "autofuse"
    headers, library = tmp_path / "runtime" / "include", tmp_path / "build" / "dev"
    for folder in (headers, library, package / "machines" / "twin" / "run"):
        folder.mkdir(parents=True)
    (library / "libautofuse_twin.so").write_bytes(b"")
    monkeypatch.setattr(
        compiling, "__file__", str(package / "machines" / "twin" / "run" / "compile.py")
    )
    found = compiling._package_folders()
    assert {package / "include", headers, library} <= set(found)


def test_another_file_flag_or_level_is_another_library(abs_files, cache_dir, monkeypatch):
    found = {compile_kernel(abs_files(), "absk"), compile_kernel(abs_files(), "absk", opt="-O0")}
    found.add(compile_kernel(abs_files(("int64_t tile = 64", "int64_t tile = 128")), "absk"))
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", "-DMORE=1")
    found.add(compile_kernel(abs_files(), "absk"))
    assert len(found) == 4


def test_folders_of_killed_processes_leave_with_the_next_one(cache_dir):
    """After an hour, which another machine that shares the cache may need; those of a process that runs stay."""
    (cache_dir / "tmp").mkdir(parents=True)
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    ours, theirs = f"{os.getpid()}-a", f"{int(gone.stdout)}-a"
    old = time.time() - 3700
    for name, when in ((ours, old), (theirs, old), (theirs + "b", time.time()), ("other", old)):
        (cache_dir / "tmp" / name).mkdir()
        os.utime(cache_dir / "tmp" / name, (when, when))
    with cache.scratch() as fresh:
        left = {p.name for p in (cache_dir / "tmp").iterdir()}
        assert left == {fresh.name, ours, theirs + "b"}
    assert not fresh.exists()


def test_what_the_compiler_keeps_between_two_passes_is_in_the_cache(
    abs_files, cache_dir, monkeypatch, tmp_path
):
    script = tmp_path / "telling"
    script.write_text(f'#!/bin/sh\necho "$TMPDIR" >> {tmp_path}/told\nexec g++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("AUTOFUSE_CXX", str(script))
    compile_kernel(abs_files(), "absk")
    told = (tmp_path / "told").read_text().splitlines()
    assert told[1:]
    assert all(t.startswith(str(cache_dir / "tmp")) for t in told[1:])


def test_a_compiler_that_writes_nothing_is_named(abs_files, cache_dir, monkeypatch, tmp_path):
    script = tmp_path / "silent"
    script.write_text("#!/bin/sh\necho all is well\n")
    script.chmod(0o755)
    monkeypatch.setenv("AUTOFUSE_CXX", str(script))
    with pytest.raises(
        AutofuseError, match=r"AF5001: .*silent reported success .*, but wrote no file"
    ) as e:
        compile_kernel(abs_files(), "absk")
    assert e.value.diagnostics[0].notes == ("all is well",)
    assert cache.info().entries == 0


@pytest.mark.parametrize("name", ["locks", "tmp", "kernels"])
def test_a_file_where_a_folder_should_be(abs_files, cache_dir, name):
    cache_dir.mkdir(exist_ok=True)
    (cache_dir / name).write_text("")
    with pytest.raises(AutofuseError, match=r"AF5009: .* cannot be used") as caught:
        compile_kernel(abs_files(), "absk")
    assert knobs.CACHE_DIR.name in caught.value.diagnostics[0].hint


def test_a_disk_that_is_full(abs_files, cache_dir, tmp_path):
    """Files may have 64 bytes here."""
    (tmp_path / "files.json").write_text(json.dumps(abs_files()))
    code = """
import json, resource, sys
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run import compile as compiling
from autofuse.machines.twin.run.compile import compile_kernel
files = json.load(open(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
try:
    compile_kernel(files, "absk")
except AutofuseError as e:
    print(e.diagnostics[0].code, e.diagnostics[0].message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "files.json"], capture_output=True, text=True
    )
    assert done.stdout.startswith("AF5009 "), done.stderr
    assert "File too large" in done.stdout


@pytest.mark.parametrize(
    ("says", "code", "message"),
    [
        ("unit.cpp:1: fatal error: error writing to /x.s: No space left on device", "AF5009", "No space left"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "AF5002", "not enough memory"),
        ("cc1plus: out of memory allocating 65536 bytes", "AF5002", "not enough memory"),
    ],
)  # fmt: skip
def test_what_the_machine_lacks_is_no_fault_of_the_code(
    abs_files, cache_dir, monkeypatch, tmp_path, says, code, message
):
    script = tmp_path / "g++"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ (x) 12" && exit\necho "{says}"\nexit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("AUTOFUSE_CXX", str(script))
    with pytest.raises(AutofuseError, match=message) as caught:
        compile_kernel(abs_files(), "absk")
    (d,) = caught.value.diagnostics
    assert d.code == code
    assert "report" not in d.hint
    assert cache.info().entries == 0


def test_own_flags_are_named_where_the_compiler_fails(abs_files, cache_dir, monkeypatch):
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", "--no-such-flag")
    with pytest.raises(AutofuseError, match="no-such-flag") as caught:
        compile_kernel(abs_files(), "absk")
    assert "AUTOFUSE_CXXFLAGS" in caught.value.diagnostics[0].hint


def test_errors_name_file_line_and_kept_sources(abs_files, cache_dir):
    with pytest.raises(AutofuseError) as caught:
        compile_kernel(
            abs_files(("TPipe pipe;", "TPipe pipe\n;int unused = 1;\nundeclared();")), "absk"
        )
    (d,) = caught.value.diagnostics
    assert d.code == "AF5002"
    assert d.where.path == "device/absk_kernel.cpp"
    text = "\n".join(d.notes)
    assert "undeclared();" in text
    kept = d.notes[-1].split(": ")[1]
    assert "undeclared" in (cache_dir / "failed").joinpath(kept, "compiler.log").read_text()
    assert not list((cache_dir / "kernels").glob("*"))


def test_a_missing_function_of_the_twin_is_found_when_linking(abs_files, cache_dir):
    change = ("TPipe pipe;", "extern void nowhere(); nowhere(); TPipe pipe;")
    with pytest.raises(AutofuseError, match="nowhere"):
        compile_kernel(abs_files(change), "absk")


def test_without_a_compiler_the_hint_says_how_to_get_one(abs_files, cache_dir, monkeypatch):
    monkeypatch.setenv("AUTOFUSE_CXX", "no-such-compiler")
    with pytest.raises(AutofuseError) as caught:
        compile_kernel(abs_files(), "absk")
    assert caught.value.diagnostics[0].code == "AF5001"
    assert "install" in caught.value.diagnostics[0].hint


def test_a_compiler_that_hangs_is_ended(abs_files, cache_dir, monkeypatch, tmp_path):
    script = tmp_path / "slow"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo slow 1 && exit\nsleep 60\n')
    script.chmod(0o755)
    monkeypatch.setenv("AUTOFUSE_CXX", str(script))
    monkeypatch.setenv("AUTOFUSE_COMPILE_TIMEOUT", "1")
    start = time.monotonic()
    with pytest.raises(AutofuseError, match="more than 1 s"):
        compile_kernel(abs_files(), "absk")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "1a", "a;rm", "a" * 300])
def test_bad_names_never_become_paths(abs_files, cache_dir, name):
    with pytest.raises(ValueError, match="name"):
        compile_kernel(abs_files(), name)


@pytest.mark.parametrize(
    "path", ["../x.cpp", "/x.cpp", "host//x.cpp", "host/../../x.cpp", "unit.cpp", ""]
)
def test_bad_paths_are_refused(abs_files, cache_dir, path):
    with pytest.raises(ValueError, match="path"):
        compile_kernel({**abs_files(), path: ""}, "absk")


def test_two_processes_and_a_killed_one_share_the_cache(abs_files, cache_dir, tmp_path):
    """A process killed in the middle leaves neither an entry nor a lock."""
    program = (
        "import json, sys; from autofuse.machines.twin.run.compile import compile_kernel;"
        "print(compile_kernel(json.load(open(sys.argv[1])), 'absk'))"
    )
    import json

    source = tmp_path / "files.json"
    source.write_text(json.dumps(abs_files()))
    slow = tmp_path / "g++"
    started = tmp_path / "started"
    slow.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {toolchain().path} "$@"\n'
        f"touch absk.so; touch {started}; sleep 60\n"
    )
    slow.chmod(0o755)

    def start(**more):
        env = {**os.environ, "AUTOFUSE_CACHE_DIR": str(cache_dir), **more}
        return subprocess.Popen(
            [sys.executable, "-c", program, str(source)], env=env, stdout=subprocess.PIPE, text=True
        )

    killed = start(AUTOFUSE_CXX=str(slow))
    while not started.exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert not list((cache_dir / "kernels").glob("*"))
    both = [start(), start()]
    paths = {p.communicate(timeout=60)[0].strip() for p in both}
    assert all(p.returncode == 0 for p in both)
    assert len(paths) == 1
    assert cache.info().kinds["kernels"][0] == 1


def test_pruning_keeps_what_was_used_last(cache_dir):
    def make(folder):
        (folder / "f").write_bytes(b"x" * 100_000)

    paths = [cache.entry("kernels", f"{i:02x}", "f", make) for i in range(4)]
    now = time.time()
    for i, p in enumerate(paths):
        os.utime(p, (now - 10_000 + i, now - 10_000 + i))
    leftover = cache_dir / "tmp" / "123-x"
    leftover.mkdir(parents=True, exist_ok=True)
    os.utime(leftover, (0, 0))
    assert cache.prune(250_000) == 2
    assert [p.exists() for p in paths] == [False, False, True, True]
    assert not leftover.exists()
    fresh = cache.entry("kernels", "ff", "f", make)
    cache.prune(0)
    assert fresh.exists()
    assert cache.clear().entries == 1
    assert cache.info().entries == 0


def test_an_unusable_cache_folder_is_a_diagnostic(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(AutofuseError) as caught:
        cache.root()
    assert caught.value.diagnostics[0].code == "AF5009"
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(shared))
    with pytest.raises(AutofuseError, match="every user"):
        cache.root()


def test_atomic_writes(tmp_path):
    cache.write_atomic(tmp_path / "a", "one")
    cache.write_atomic(tmp_path / "a", b"two")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "two"


def test_the_twin_is_found():
    assert (twin_files().include[0] / "kernel_operator.h").is_file()
    assert twin_files().library.is_file()


def test_knobs_are_typed():
    assert knobs.CXX.get({"CXX": "clang++"}) == "clang++"
    assert knobs.CXX.get({"CXX": "clang++", "AUTOFUSE_CXX": "g++-13"}) == "g++-13"
    assert knobs.CXXFLAGS.get({"AUTOFUSE_CXXFLAGS": "-g '-DA=b c'"}) == ("-g", "-DA=b c")
    assert knobs.DEBUG.get({"AUTOFUSE_DEBUG": "yes"}) is True
    assert knobs.DEBUG.get({}) is False
    assert knobs.THREADS.get({"AUTOFUSE_THREADS": "3"}) == 3
    for bad in ({"AUTOFUSE_THREADS": "-1"}, {"AUTOFUSE_THREADS": "x"}, {"AUTOFUSE_DEBUG": "maybe"}):
        with pytest.raises(AutofuseError, match="AF5008"):
            [k.get(bad) for k in (knobs.THREADS, knobs.DEBUG)]


@pytest.mark.parametrize(
    ("text", "why"),
    [("0", "the minimum is 1"), ("x", "write a number in digits"), ("1.5", "digits")],
)
def test_integers_say_what_is_allowed(text, why):
    with pytest.raises(AutofuseError, match=f"is not an allowed integer: .*{why}"):
        knobs.CACHE_MB.get({"AUTOFUSE_CACHE_MB": text})


def test_a_misspelt_knob_is_a_warning():
    (d,) = knobs.unknown({"AUTOFUSE_CASHE_DIR": "x", "AUTOFUSE_CXX": "g++", "AUTOFUSE_SHARED": "x"})
    assert d.severity == "warning"
    assert "AUTOFUSE_CACHE_DIR" in d.hint
    assert len({k.name for k in knobs.KNOBS}) == len(knobs.KNOBS)


def test_a_damaged_library_is_made_again(abs_files, cache_dir):
    path = compile_kernel(abs_files(), "absk")
    good = path.read_bytes()
    changed = bytearray(good)
    changed[len(changed) // 2] ^= 1
    for damaged in (bytes(changed), good[:-100], b""):
        path.write_bytes(damaged)
        os.utime(path, ns=(1, 1))
        assert cache.lookup("kernels", path.parent.name, "absk.so") is None
        assert compile_kernel(abs_files(), "absk") == path
        assert len(path.read_bytes()) == len(good)
        assert cache.lookup("kernels", path.parent.name, "absk.so") == path.parent
    (path.parent / "sha256").unlink()
    assert cache.lookup("kernels", path.parent.name, "absk.so") is None
    compile_kernel(abs_files(), "absk")
    assert cache.info().kinds["kernels"][0] == 1


def test_damaged_sources_are_made_again(abs_files, cache_dir):
    """Lines, loops and nodes of findings and traces are read from them."""
    path = compile_kernel(abs_files(), "absk")
    (source,) = (path.parent / "device").glob("*.cpp")
    good = source.read_text()
    for damage in (lambda: source.write_text(good[:100]), source.unlink):
        damage()
        assert compile_kernel(abs_files(), "absk") == path
        assert source.read_text() == good


def test_the_cache_knows_what_it_holds_and_can_be_emptied(cache_dir):
    def make(folder):
        (folder / "f").write_bytes(b"x" * 10_000)

    for kind, key in (("kernels", "aa"), ("kernels", "bb"), ("failed", "cc")):
        cache.entry(kind, key, "f", make)
    found = cache.info()
    assert {kind: n for kind, (n, _) in found.kinds.items()} == {
        "kernels": 2, "headers": 0, "failed": 1, "traces": 0, "triton": 0, "functions": 0, "choices": 0,
    }  # fmt: skip
    assert found.entries == 3
    assert found.bytes == sum(b for _, b in found.kinds.values()) >= 30_000
    busy = cache_dir / "tmp" / "1-busy"
    busy.mkdir()
    assert cache.clear() == found
    assert cache.info().entries == 0
    assert busy.is_dir()


def test_nothing_stays_of_a_folder_whose_maker_is_ended_as_it_is_made(cache_dir, monkeypatch):
    """A signal may end a process between any two steps."""
    mkdir = Path.mkdir

    def made_and_ended(self: Path, *args: Any, **options: Any) -> None:
        mkdir(self, *args, **options)
        if self.parent.name == "tmp":
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", made_and_ended)
    with pytest.raises(KeyboardInterrupt), cache.scratch():
        pass
    assert list((cache_dir / "tmp").iterdir()) == []


@pytest.mark.parametrize("named", ["", "~/kernels"])
def test_a_user_that_the_system_does_not_know_has_no_home(monkeypatch, named):
    def unknown(*_):
        raise KeyError("no such user")

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", named)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(AutofuseError, match="AF5009: there is no cache folder") as caught:
        cache.root()
    assert knobs.CACHE_DIR.name in caught.value.diagnostics[0].hint
    assert not Path("~").exists()


def test_an_entry_that_is_used_while_others_are_removed_stays(cache_dir, monkeypatch):
    """Sizes of a large cache take a while to sum up: what was last used when they were is not what is now."""

    def make(folder):
        (folder / "f").write_bytes(b"x" * 5000)

    kept = cache.entry("kernels", "aa", "f", make)
    gone = cache.entry("kernels", "bb", "f", make)
    long_ago = gone.stat().st_mtime - 10_000
    for path in (kept, gone):
        os.utime(path, (long_ago, long_ago))
    listed = cache._entries()
    monkeypatch.setattr(cache, "_entries", lambda: listed)
    assert cache.lookup("kernels", "aa", "f") == kept
    assert cache.prune(0) == 1
    assert kept.exists()
    assert not gone.exists()


@pytest.mark.parametrize("version", ["2", None])
def test_a_library_with_another_interface_is_refused(abs_files, abs_graph, version):
    own = 'extern "C" uint32_t AutofuseAbiVersion() { return 1; }'
    other = own.replace("1;", f"{version};") if version else ""
    library = compile_kernel(abs_files((own, other)), "absk")
    with pytest.raises(AutofuseError, match="version 1") as e:
        TwinKernel(library, abs_graph)
    assert e.value.diagnostics[0].code == "AF5007"
