"""Kernels of Ascend C on a card, as far as a machine without one can tell."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from extras import needs

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.witness import driver, kernel, nvcc
from autofuse.machines.words import card_index

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = ROOT / "tests" / "snapshot" / "graphs"
COMPILED = sorted([*GRAPHS.glob("*.json"), *(ROOT / "examples" / "gallery").glob("*.json")])


@pytest.fixture
def no_card(monkeypatch):
    monkeypatch.setattr(driver, "_LIBRARY", "libcuda-that-is-nowhere.so.1")
    driver.open_card.cache_clear()
    yield
    driver.open_card.cache_clear()


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Make a program the nvcc that is found."""

    def make(text):
        path = tmp_path / "nvcc"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv(knobs.NVCC.name, str(path))
        return path

    nvcc._nvcc_at.cache_clear()
    yield make
    nvcc._nvcc_at.cache_clear()


def code_of(caught):
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("cuda", 0),
        ("cuda:0", 0),
        ("cuda:17", 17),
        ("cuda:", None),
        ("cuda:01", None),
        ("cuda:-1", None),
        ("cuda:0 ", None),
        ("cpu", None),
        ("npu:0", None),
        ("", None),
    ],
)
def test_words_that_name_a_card(text, index):
    assert card_index(text) == index


def test_the_compiler_is_the_one_that_the_knob_names(compiler):
    path = compiler('echo "Cuda compilation tools, release 13.0, V13.0.88"')
    found = nvcc.find_nvcc()
    assert (found.path, found.version) == (
        str(path),
        "Cuda compilation tools, release 13.0, V13.0.88",
    )


def test_a_compiler_that_is_missing_or_does_not_answer(compiler, monkeypatch):
    compiler("exit 3")
    with pytest.raises(AutofuseError, match="--version fails") as caught:
        nvcc.find_nvcc()
    assert code_of(caught) == "AF5001"
    monkeypatch.setenv(knobs.NVCC.name, "nvcc-that-is-nowhere")
    with pytest.raises(AutofuseError, match="there is no 'nvcc-that-is-nowhere'") as caught:
        nvcc.find_nvcc()
    assert code_of(caught) == "AF5001"
    assert knobs.NVCC.name in caught.value.diagnostics[0].hint


def test_nothing_but_a_name_comes_into_the_source(compiler):
    compiler('echo "release 13.0"')
    for name in ("", "a b", "x;y", "../x", 'k"\n#include "/etc/passwd'):
        with pytest.raises(ValueError, match="is not a name of a kernel"):
            nvcc.unit(name)
    with pytest.raises(ValueError, match="is not a path inside the output folder"):
        nvcc.compile_for_card({"device/../../x.h": ""}, "x")


def test_what_nvcc_refuses_is_told_with_its_lines(compiler, cache_dir):
    del cache_dir
    compiler(
        'case "$1" in --version) echo "release 13.0";; '
        "*) echo 'device/x_kernel.cpp(7): error: identifier \"Nonsense\" is undefined' >&2; exit 2;; esac"
    )
    with pytest.raises(AutofuseError, match="nvcc rejects") as caught:
        nvcc.compile_for_card({"device/x_kernel.cpp": "Nonsense();"}, "x")
    assert code_of(caught) == "AF5002"
    assert 'x_kernel.cpp:7: identifier "Nonsense" is undefined' in str(caught.value)


def test_a_machine_without_a_driver(no_card):
    built = api.build(GRAPHS / "abs_test.json")
    with pytest.raises(AutofuseError, match=r"there is no card here: .*the driver") as caught:
        api.load(built, device="cuda")
    assert code_of(caught) == "AF5001"


def test_kernels_that_no_card_runs():
    for target, why in (
        ("ascend950pr", "the calls of architecture 3510"),
        ("ascend310p", "do not run on a card"),
    ):
        built = api.build(GRAPHS / "abs_test.json", target=target)
        with pytest.raises(AutofuseError, match=why) as caught:
            api.load(built, device="cuda:0")
        assert code_of(caught) == "AF5007"
    built = api.build(GRAPHS / "abs_test.json")
    files = {p: t for p, t in built.files.items() if not p.endswith("_launch.cpp")}
    with pytest.raises(AutofuseError, match="has no launcher"):
        kernel.runs_on_cards(files, built.graph)
    bare = {p: t for p, t in built.files.items() if p != "abs_test.json"}
    with pytest.raises(AutofuseError, match="metadata name its target"):
        kernel.runs_on_cards(bare, built.graph)


def test_checks_of_the_twin_are_not_those_of_a_card():
    built = api.build(GRAPHS / "abs_test.json")
    for options in ({"check": "all"}, {"check_seed": 3}):
        with pytest.raises(AutofuseError, match="is for the CPU twin"):
            api.load(built, device="cuda", **options)
    with pytest.raises(AutofuseError, match="is for the CPU twin"):
        api.verify(built, device="cuda", check="fast")


def fake_card(monkeypatch, *, capability=90, room=230_000):
    class Function:
        def __init__(self):
            self.room = room

    class Card:
        name, lost = "a card", ""

        def __init__(self):
            self.capability = capability

        def function(self, image, name):
            del image, name
            return Function()

    monkeypatch.setattr(kernel, "open_card", lambda index: Card())
    monkeypatch.setattr(kernel, "compile_for_card", lambda files, name, capability: b"cubin")


@pytest.mark.twin
def test_a_card_that_is_too_small_or_too_old(monkeypatch):
    built = api.build(GRAPHS / "abs_test.json")
    fake_card(monkeypatch)
    assert kernel.CudaKernel(built.files, built.graph, "cuda:1").device == "cuda:1"
    fake_card(monkeypatch, room=160_000)
    with pytest.raises(AutofuseError, match=r"bytes of UB of ascend910b1.*160000 bytes") as caught:
        api.load(built, device="cuda")
    assert code_of(caught) == "AF5007"
    fake_card(monkeypatch, capability=80)
    with pytest.raises(AutofuseError, match=r"capability 8\.0.* need 9\.0") as caught:
        api.load(built, device="cuda")
    assert code_of(caught) == "AF5007"


def test_a_card_that_a_kernel_took_is_not_used_again():
    card = object.__new__(driver.Card)
    card.name, card.lost = "a card", "a kernel did not finish on it"
    with pytest.raises(AutofuseError, match="cannot use a card any more") as caught:
        card.use()
    assert code_of(caught) == "AF5003"


def test_digests_of_sources_tell_binaries_apart():
    files = {"device/x_kernel.cpp": "a", "autofuse_tiling_data.h": "b", "host/x.cpp": "c"}
    digest = nvcc.source_digest(files, "x")
    assert nvcc.source_digest({**files, "host/x.cpp": "d"}, "x") == digest
    others = [
        nvcc.source_digest({**files, "device/x_kernel.cpp": "d"}, "x"),
        nvcc.source_digest(files, "y"),
        nvcc.source_digest(files, "x", 100),
    ]
    assert len({digest, *others}) == 4


def test_the_compiler_of_a_package_is_found(tmp_path, monkeypatch):
    for toolkit in ("cu12", "cu13"):
        path = tmp_path / "nvidia" / toolkit / "bin" / "nvcc"
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho release 13.0\n")
        path.chmod(0o755)
    monkeypatch.setattr(
        nvcc.importlib.util,
        "find_spec",
        lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path / name)]),
    )
    monkeypatch.setattr(nvcc, "_USUAL", "/nowhere/nvcc")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(knobs.NVCC.name, raising=False)
    nvcc._nvcc_at.cache_clear()
    try:
        assert nvcc.find_nvcc().path == str(path)
        path.unlink()
        nvcc._nvcc_at.cache_clear()
        assert "cu12" in nvcc.find_nvcc().path
    finally:
        nvcc._nvcc_at.cache_clear()


@needs("nvcc")
@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", COMPILED, ids=lambda p: p.stem)
def test_generated_kernels_compile_for_a_card(path, cache_dir):
    del cache_dir
    try:
        built = api.build(path)
    except AutofuseError as e:
        pytest.skip(f"its kernel is not for this target: {e.diagnostics[0].code}")
    image = nvcc.compile_for_card(built.files, built.graph.name)
    assert image[:4] == b"\x7fELF"
    assert nvcc.ENTRY.encode() in image


def test_the_headers_belong_to_what_is_installed():
    text = (ROOT / "runtime" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert "install(DIRECTORY cuda/autofuse_cuda DESTINATION autofuse/include)" in text
    found = nvcc.headers()
    assert (found.include[0] / "kernel_operator.h").is_file()
    assert replace(found, digest="") != found
