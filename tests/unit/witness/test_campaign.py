"""The packed campaign without a card: the twin stands in for it, and wrong numbers are planted."""

import json
from pathlib import Path
from types import SimpleNamespace

import campaign
import mutants
import op_kernels
import pack
import packed
import pytest
from twin_graphs import every_template

from autofuse import api
from autofuse.implgraph.ops.registry import all_ops
from autofuse.machines.twin.run.compile import QUICK, compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of
from autofuse.machines.witness import kernel

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = ROOT / "tests" / "snapshot" / "graphs"


@pytest.fixture
def folder(tmp_path, cache_dir):
    """One packed graph with two sets of sizes."""
    del cache_dir
    options = pack.Options(tmp_path, api.DEFAULT_TARGET, 2, 4096, 0, 0)
    said = pack.pack_one(GRAPHS / "reduce_rows.json", "reduce_rows", options)
    assert "runs" in said
    return tmp_path


@pytest.fixture
def on_twin(monkeypatch):
    """Kernels "on the card" run on the twin; ``spoil`` changes what they give."""
    built = api.build(GRAPHS / "reduce_rows.json")
    how = SimpleNamespace(spoil=lambda outputs: None)

    class Card(TwinKernel):
        def __init__(self, files, graph, device, *, timeout, library, image):
            assert set(files) <= set(built.files)
            assert (device, timeout, image) == ("cuda:0", 30.0, None)
            path = compile_kernel(built.files, graph.name, opt=QUICK)
            super().__init__(path, graph, chip=chip_of(files, graph.name))
            self.packed, self.card = library, SimpleNamespace(name="a card")

        def run(self, inputs, *, symbols, key, cores):
            order = [symbols[s.name] for s in self.graph.symbols]
            found = self.packed.tiling(order, key, cores)
            assert found.data == self.library.tiling(order, key).data
            done = super().run(inputs, symbols=symbols, key=key, cores=cores)
            how.spoil(done.outputs)
            return done

    monkeypatch.setattr(kernel, "CudaKernel", Card)
    return how


def row_of(folder):
    return campaign.run_case(folder, "reduce_rows", 0)


@pytest.mark.twin
def test_a_kernel_that_is_right(folder, on_twin):
    row = row_of(folder)
    text, ok = campaign.table([row])
    assert ok, text
    assert all(o["differ"] == 0 and o["wrong"] == 0 for r in row["runs"] for o in r["outputs"])
    assert "outputs that differ  0" in text


@pytest.mark.twin
def test_one_wrong_element_is_found(folder, on_twin):
    def spoil(outputs):
        for a in outputs.values():
            if a.size:
                a.reshape(-1)[-1] += 1000

    on_twin.spoil = spoil
    text, ok = campaign.table([row_of(folder)])
    assert not ok
    assert "WRONG reduce_rows" in text
    assert "DIFFERS reduce_rows" in text


@pytest.mark.twin
@pytest.mark.parametrize(("planted", "word"), [("twin", "DIFFERS"), ("inputs", "other data")])
def test_a_planted_digest_is_found(folder, on_twin, planted, word):
    case = packed.read_case(folder, "reduce_rows")
    runs = []
    for r in case.runs:
        fields = {f: getattr(r, f) for f in r.__slots__}
        if planted == "inputs":
            fields["inputs"] = "0" * 16
        else:
            fields["twin"] = {n: [s ^ 1 for s in sums] for n, sums in r.twin.items()}
        runs.append(packed.PackedRun(**fields))
    packed.write_case(folder, packed.PackedCase(case.name, case.graph, case.files, case.keys, runs))
    text, ok = campaign.table([row_of(folder)])
    assert not ok
    assert word in text
    if planted == "inputs":
        assert f"runs with other data {len(runs)}" in text
        assert "beside the twin      0 elements" in text


@pytest.mark.twin
def test_a_case_is_read_as_it_was_written(folder):
    case = packed.read_case(folder, "reduce_rows")
    assert (
        packed.names_in(folder) == ["reduce_rows"] == packed.longest_first(folder, ["reduce_rows"])
    )
    assert not any("/../" in p or p.startswith("/") for p in case.files)
    packed.write_binary(folder, case.name, "digest", b"\x7fELF\n\n")
    assert packed.read_binary(folder, case.name, "digest") == b"\x7fELF\n\n"
    assert packed.read_binary(folder, case.name, "other") is None
    assert packed.read_binary(folder, "nobody", "digest") is None


@pytest.mark.twin
def test_a_worker_that_is_lost_is_a_row_and_the_next_graph_gets_another(folder, tmp_path):
    worker = campaign.Worker(folder, 0, tmp_path / "cache", ())
    worker._cmd = [
        campaign.sys.executable,
        "-c",
        "import sys; n = input(); print('gone', file=sys.stderr); sys.exit(7) if n == 'bad' else "
        'print(\'{"name": "good", "runs": []}\', flush=True)',
    ]
    assert worker.run("bad")["failed"] == "exit status 7: gone"
    assert worker.run("good") == {"name": "good", "runs": []}
    worker.close()


def test_every_element_wise_op_is_in_a_kernel():
    kernels = dict(op_kernels.op_kernels())
    ops = {n.op for g in kernels.values() for n in g.nodes}
    assert ops == {r.name for r in all_ops(user=True) if r.compute_type == "elewise"}
    assert all(set(g.inputs) <= set(g.tensors) for g in kernels.values())
    assert {t.dtype.name for g in kernels.values() for t in g.tensors.values()} >= {
        "float32",
        "float16",
        "bfloat16",
        "int8",
        "int64",
        "bool",
    }


TEXT = """\
  x_queue.EnQue<half>(x_local);
  x_local = x_queue.DeQue<half>();
  PipeBarrier<PIPE_V>();
  SetFlag<HardEvent::MTE2_S>(0);
  WaitFlag<HardEvent::MTE2_S>(0);
  SyncAll();
  y_queue.EnQue<half>(y_local);
"""


def test_every_mutant_lacks_one_call():
    lines = TEXT.splitlines(keepends=True)
    found = list(mutants.mutants_of(TEXT))
    assert [(k, n) for k, n, _ in found] == [("queue", 1), ("barrier", 3), ("flag", 4), ("sync", 6)]
    left = [
        [i for i, x in enumerate(lines) if x not in t.splitlines(keepends=True)] for *_, t in found
    ]
    assert left == [[0, 1], [2], [3, 4], [5]]


def test_a_mutant_that_the_card_alone_kills_is_told(tmp_path):
    verdicts = {
        "a": {"kind": "barrier", "killed": True},
        "b": {"kind": "sync", "killed": False},
        "c": {"kind": "flag", "killed": False},
    }
    good = {"wrong": 0, "differ": 0}
    rows = [
        {"name": "a", "runs": [{"key": 0, "outputs": [{"wrong": 3, "differ": 1}]}]},
        {"name": "b", "runs": [{"key": 0, "outputs": [good]}]},
        {"name": "c", "runs": [{"key": 0, "outputs": [good]}]},
    ]
    text, ok = mutants.table(verdicts, rows)
    assert ok
    assert text.splitlines()[1].split() == ["barrier", "1", "1", *"00000"]
    rows[2]["runs"] = [{"key": 0, "failed": "AF5003 it does not end"}]
    text, ok = mutants.table(verdicts, rows)
    assert not ok
    assert "CARD ALONE c: AF5003" in text
    (tmp_path / "verdicts").mkdir()
    for name, v in verdicts.items():
        (tmp_path / "verdicts" / f"{name}.json").write_text(json.dumps(v))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert mutants.main(["table", str(tmp_path), str(tmp_path)]) == 1


PAIRS = """\
  LocalTensor<half> x_local = x_queue.AllocTensor<half>();
  DataCopyPad(x_local[0], x_gm[4 * n], block0, autofuse::NoPad<half>());
  x_queue.EnQue<half>(x_local);
  x_local = x_queue.DeQue<half>();
  // from: gather_1
  LocalTensor<half> z_local = z_queue.AllocTensor<half>();
  DataCopyPad(z_local[0], z_gm[0], block0, autofuse::NoPad<half>());
  z_queue.EnQue<half>(z_local);
  z_local = z_queue.DeQue<half>();
  Add(y_local[0], x_local[0], z_local[0], n);
  y_queue.EnQue<half>(y_local);
  y_local = y_queue.DeQue<half>();
"""


def test_a_pair_is_implied_by_the_next_one_where_nothing_reads_before_it():
    assert mutants.implied(PAIRS, 3)
    assert not mutants.implied(PAIRS, 8)
    assert not mutants.implied(PAIRS, 11)
    before = PAIRS.replace("  // from: gather_1\n", "  Abs(w_local[0], x_local[0], n);\n")
    assert not mutants.implied(before, 3)
    computed = PAIRS.replace("DataCopyPad(z_local[0]", "Abs(z_local[0]")
    assert not mutants.implied(computed, 3)
    aside = PAIRS.replace("DataCopyPad(z_local[0]", "DataCopyPad(w_local[0]")
    assert not mutants.implied(aside, 3)


@pytest.mark.twin
@every_template()
def test_what_no_run_reaches_is_known(cache_dir):
    del cache_dir
    inputs = [
        {"name": n, "dtype": "float32", "shape": shape}
        for n, shape in (("x", [16, 256]), ("w", [256]))
    ]
    scaled = {"schema": "autofuse.graph/1", "name": "scaled", "inputs": inputs, "outputs": ["y"]}
    node = {"name": "by", "op": "Mul", "inputs": ["x", "w"], "outputs": ["y"]}
    built = api.build({**scaled, "nodes": [node]})
    device = f"device/{built.graph.name}_kernel.cpp"
    library = compile_kernel(built.files, built.graph.name, opt=QUICK)
    twin = TwinKernel(library, built.graph, chip=chip_of(built.files, built.graph.name))
    options = pack.Options(Path(), api.DEFAULT_TARGET, 1, 4096, 0, 0, cores=(0, 1))
    runs = list(pack.runs_of(twin, options))
    assert {r.cores for r in runs} == {0, 1}
    assert {r.tiling.block_dim for r in runs if r.cores} == {1}
    lines = built.files[device].splitlines()
    at = [k + 1 for k, x in enumerate(lines) if ".EnQue<" in x]
    assert mutants.reached(built.files, device, at[0], built.graph, runs)
    # Of two templates the first one runs alone.
    assert twin.key_count == 2
    first = [r for r in runs if r.key == 0]
    assert not mutants.reached(built.files, device, at[-1], built.graph, first)
