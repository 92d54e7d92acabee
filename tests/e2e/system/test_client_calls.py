"""What a client of CANN's interface calls, from its graphs to pointers in ``kernel.so``, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import draws
import numpy as np
import pytest
from client_calls import Calls, Library, executed, fused, generated
from client_examples import (
    EXAMPLES,
    F16,
    F32,
    add_relu,
    arrays,
    compare,
    flips,
    halves,
    softmax,
    table,
    two_graphs,
)

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse import Autofuser, AutofuserOptions, CodeGen, Schedule, ascir
from autofuse.clients.cann.pyautofuse.platform import chip
from autofuse.targets import load_target

pytestmark = pytest.mark.twin


@pytest.mark.parametrize("name", EXAMPLES)
def test_fixed_sizes(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](False)
    compare(example, Library(generated(example.text), tmp_path), 12, ())


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_library_for_all_sizes(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](True)
    library = Library(generated(example.text), tmp_path)
    for n in (12, 1, 7, 131):
        compare(example, library, n, (n,))


@pytest.mark.parametrize("name", ["add_relu", "halves", "part_of_rows", "two_graphs"])
def test_no_elements(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name](True)
    compare(example, Library(generated(example.text), tmp_path), 0, (0,))


def test_the_output_may_be_the_input(tmp_path: Path) -> None:
    """A client that has no more use for a buffer passes it as both."""
    example = softmax(True, "float16", F16, 1e-3)
    library = Library(generated(example.text), tmp_path)
    for n in (5, 200):
        (x,) = arrays(example.inputs(n))
        want = example.reference([x.copy()])[0]
        library([x], [x], (n,))
        np.testing.assert_allclose(x.astype(np.float64), want, rtol=1e-3, atol=1e-3)


def in_place_text(both: bool) -> str:
    """exp(x) is stored in the pass over x that x / sum(x) needs first; nothing takes x after it is stored."""
    c = Calls("g", [9, 30000])
    x = c.load(c.data("float32"))
    part = c.op("Add", x, c.load(c.data("float32"))) if both else x
    total = c.op("Broadcast", c.op("Sum", c.op("Abs", part), sizes=[9, 1]))
    c.store(c.op("TrueDiv", part, total))
    c.store(c.op("Exp", part))
    return fused("in_place", [(c, [f"in{k}" for k in range(c.inputs)])])


def test_one_of_two_outputs_may_be_the_input(tmp_path: Path) -> None:
    library = Library(generated(in_place_text(False)), tmp_path)
    (x,) = arrays([(F32, (9, 30000))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y, x])
    total = np.abs(kept.astype(np.float64)).sum(1, keepdims=True)
    np.testing.assert_allclose(y, kept / total, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(x, np.exp(kept), rtol=1e-6)


def test_either_of_two_inputs_may_be_the_output(tmp_path: Path) -> None:
    library = Library(generated(in_place_text(True)), tmp_path)
    a, b = arrays([(F32, (9, 30000))] * 2)
    want = np.exp(a + b)
    for shared in (0, 1):
        given = [a.copy(), b.copy()]
        library(given, [np.zeros_like(a), given[shared]])
        np.testing.assert_allclose(given[shared], want, rtol=2e-6)


def test_a_transposed_input_may_not_be_the_output(tmp_path: Path) -> None:
    """``x + x.T`` over x: no client may do that, and the launcher says so."""
    c = Calls("g", [40, 40])
    x = c.data("float32")
    turned = c.transpose(c.load(x, axes=["a1", "a0"]), [40, 40])
    c.store(c.op("Add", c.load(x), turned))
    library = Library(generated(fused("turned", [(c, ["in0"])])), tmp_path)
    (x,) = arrays([(F32, (40, 40))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y])
    np.testing.assert_array_equal(y, x + x.T)
    with pytest.raises(AssertionError, match="14"):
        library([x], [x])
    np.testing.assert_array_equal(x, kept)


def test_a_buffer_that_may_not_be_shared_is_refused(tmp_path: Path) -> None:
    """A buffer that is loaded in two layouts cannot be overwritten: the launcher says so, and writes nothing."""
    c = Calls("g", [40, 40])
    x = c.data("float32")
    first = c.op("Broadcast", c.load(x, [1, 40]))
    c.store(c.op("Sub", c.load(x), first))
    library = Library(generated(fused("first_row", [(c, ["in0"])])), tmp_path)
    (x,) = arrays([(F32, (40, 40))])
    y, kept = np.zeros_like(x), x.copy()
    library([x], [y])
    np.testing.assert_array_equal(y, x - x[0])
    with pytest.raises(AssertionError, match="14"):
        library([x], [x])
    np.testing.assert_array_equal(x, kept)


def test_a_table_may_not_be_the_output(tmp_path: Path) -> None:
    """Elements change places, although table, places and result have the same axis."""
    c = Calls("g", [64])
    rows, at = table(c, "float32", [64], ["a0"]), c.load(c.data("int32"))
    c.store(c.gather(rows, at, 0, [64], ["a0"]))
    library = Library(generated(fused("turned", [(c, ["in0", "in1"])])), tmp_path)
    (x,) = arrays([(F32, (64,))])
    places, kept = np.arange(64, dtype=np.int32)[::-1].copy(), x.copy()
    y = np.zeros_like(x)
    library([x, places], [y])
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises(AssertionError, match="14"):
        library([x, places], [x])
    np.testing.assert_array_equal(x, kept)


def test_sizes_are_passed_by_number(tmp_path: Path) -> None:
    """Clients make ks10 before ks2, as texts are sorted, and pass ks2 first; they pass what nothing needs, too."""
    symbols = [f"ks{i}" for i in range(12)]
    c = Calls("g", ["ks2", "2*ks10 + 1"], symbols)
    c.store(c.op("Abs", c.load(c.data("float32"))))
    library = Library(generated(fused("numbered", [(c, ["in0"])])), tmp_path)
    values = list(range(100, 112))
    values[2], values[10] = 5, 3
    (x,) = arrays([(F32, (5, 7))])
    y = np.zeros_like(x)
    library([x], [y], values)
    np.testing.assert_array_equal(y, np.abs(x))


def test_sizes_out_of_range_are_refused(tmp_path: Path) -> None:
    c = Calls("g", ["ks0", "ks0 - 3"], ["ks0"])
    c.store(c.op("Abs", c.load(c.data("float32"))))
    library = Library(generated(fused("ranged", [(c, ["in0"])])), tmp_path)
    assert library.tiling(2)[0] != 0
    assert library.tiling(9)[0] == 0
    assert library.tiling(1 << 40)[0] != 0


def test_an_input_that_nothing_reads_is_still_a_parameter(tmp_path: Path) -> None:
    c = Calls("g", [12, 10])
    c.data("float32")
    x = c.data("float32")
    c.store(c.op("Abs", c.load(x)))
    library = Library(generated(fused("unread", [(c, ["in0", "in1"])])), tmp_path)
    a, b = arrays([(F32, (12, 10))] * 2)
    y = np.zeros_like(b)
    library([a, b], [y])
    np.testing.assert_array_equal(y, np.abs(b))


@pytest.mark.parametrize("views", [False, True])
def test_a_graph_that_needs_several_kernels(
    tmp_path: Path, views: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little UB the library holds a driver and its kernels, and is called in the same way."""
    monkeypatch.setattr(
        AutofuserOptions, "spec", property(lambda _: load_target("ascend910b1").with_ub(2048))
    )
    c = Calls("g", [30, 64])
    loads = []
    for _ in range(12):
        x = c.data("float32")
        loads.append(c.load(x, strides=[80, 1], offset=4) if views else c.load(x))
    total = c.op("Mul", loads[0], loads[1])
    for x in (*loads[2:], *loads):
        total = c.op("Add", c.op("Abs", total), x)
    c.store(total, strides=[100, 1] if views else None)
    text = fused("several", [(c, [f"in{k}" for k in range(12)])])
    result = Autofuser().schedule(executed(text))
    assert result.built.split is not None
    library = Library(Autofuser().codegen(result), tmp_path)
    given = arrays([(F32, (30, 80 if views else 64))] * 12)
    y = np.zeros((30, 100 if views else 64), F32)
    library(given, [y])
    seen = [x[:, 4:68] if views else x for x in given]
    want = seen[0] * seen[1]
    for x in (*seen[2:], *seen):
        want = np.abs(want) + x
    np.testing.assert_array_equal(y[:, :64], want)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_are_verified(name: str) -> None:
    """With races, uninitialised data and hostile orders looked for, and against the reference of the registry."""
    built = Autofuser().schedule(executed(EXAMPLES[name](True).text)).built
    report = api.verify(built, shapes=2, seed=draws.seed(), check_seed=3)
    assert report.passed, report


# the three texts -----------------------------------------------------------------------------


def test_texts_survive_where_clients_paste_them() -> None:
    """Clients paste them between triple quotes, in which backslashes mean something."""
    texts = generated(halves(True).text)
    for text in texts:
        scope: dict[str, str] = {}
        exec(f"pasted = '''{text}'''", scope)
        assert scope["pasted"] == text
        assert "\\" not in text


def test_texts_depend_on_the_graph_alone(tmp_path: Path, repo: Path) -> None:
    text = two_graphs(True).text
    program = (
        "import sys, hashlib\nfrom client_calls import generated\n"
        "print(hashlib.sha256(''.join(generated(sys.stdin.read())).encode()).hexdigest())\n"
    )
    path = str(repo / "tests" / "support")
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_tiling_data_is_a_header_of_its_own(tmp_path: Path) -> None:
    """A client's launcher holds a copy of it, made by a compiler that knows nothing of autofuse."""
    (tmp_path / "a.cpp").write_text(
        generated(add_relu(True).text)[0]
        + "int main() { AutofuseTilingData a = {}; AutofuseTilingData b = a;"
        " return static_cast<int>(sizeof(b)) == 0; }\n"
    )
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Werror", "-c", "a.cpp"], cwd=tmp_path, check=True
    )


def test_halves_of_older_clients(tmp_path: Path) -> None:
    """Schedule and CodeGen give what an Autofuser gives."""
    text = add_relu(True).text
    result = Schedule().schedule(executed(text))
    maker = CodeGen()
    tiling, device = maker.device_code_generator(result)
    host, _ = maker.host_code_generator(result)
    texts = (tiling["default"], host["default"]["host_impl"], device["default"])
    assert texts == generated(text)
    assert (result.get_name(), result.get_input_num(), result.get_output_num()) == (
        "add_relu",
        2,
        1,
    )
    assert (result.is_cube_type(), result.is_conv_type(), result.get_cube_attributes()) == (
        False,
        False,
        {},
    )
    fuser = Autofuser()
    assert fuser.autofuse_backend(executed(text)) == generated(text)


def test_a_hint_graph_alone(tmp_path: Path) -> None:
    graph = executed(add_relu(True).text).operators
    hint = next(n.subgraph for n in graph if n.subgraph is not None)
    assert (hint.get_input_num(), hint.get_output_num()) == (2, 1)
    hint.set_name("alone")
    library = Library(Autofuser().autofuse_backend(hint), tmp_path)
    compare(add_relu(True), library, 9, (9,))


def test_the_chip_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofuse.clients.cann.pyautofuse.platform._chosen", [])
    ascir.utils.set_platform("2201", aiv_num=20, ub_size=100_000)
    assert chip().aiv_cores == 20
    text = add_relu(True).text
    assert generated(text) != generated(text, target="ascend910b1")
    ascir.utils.set_platform("9999")
    with pytest.raises(AutofuseError, match="AF5006"):
        generated(text)


@pytest.mark.parametrize("dynamic", [False, True])
def test_loads_that_walk_backwards(dynamic: bool, tmp_path: Path) -> None:
    example = flips(dynamic)
    library = Library(generated(example.text), tmp_path)
    for n in (12, 1, 7, 131) if dynamic else (12,):
        compare(example, library, n, (n, 21) if dynamic else ())
