"""Operator tables of profilers: what is taken, what is left, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.bench.importing import imported
from autofuse.measure.bench.profiles import read_profile
from autofuse.measure.bench.results import parse_results, results_text
from autofuse.measure.bench.subjects import Subject, subject_of

OP_SUMMARY = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,Input Shapes,aiv_time(us),aiv_vec_ratio\n"
)
KERNEL_DETAILS = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Num,Input Shapes,aiv_vec_ratio\n"


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    graph = tmp_path / "add_rows.json"
    graph.write_text(
        '{"schema": "autofuse.graph/1", "name": "add_rows",'
        '"symbols": {"n": {"min": 1, "max": 65536, "hint": 500}},'
        '"inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 8]},'
        '{"name": "b", "dtype": "float32", "shape": [8]}],'
        '"nodes": [{"name": "a", "op": "Add", "inputs": ["x", "b"], "outputs": ["y"]}],'
        '"outputs": ["y"]}'
    )
    return subject_of(graph, "ascend910b1")


def _table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "op_summary_1.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


def test_rows_of_kernels_are_taken_and_others_counted(tmp_path: Path, subject: Subject) -> None:
    table = _table(
        tmp_path,
        OP_SUMMARY
        + '0,1,1,2,add_rows,add_rows,AI_VECTOR_CORE,1,10.5,0,48,"""640,8;8""",9.5,0.25\n'
        + '0,1,2,2,MatMulV2,MatMulV2,AI_CORE,2,100.0,0,24,"64,8;8,8",N/A,N/A\n'
        + '0,1,3,2,add_rows_mix_aiv,add_rows,AI_VECTOR_CORE,3,11.5,0,48,"640,8;8",9.7,0.75\n'
        + "0,1,4,2,add_rows,add_rows,AI_VECTOR_CORE,4,3.0,0,8,N/A,N/A,N/A\n"
        + "0,1,5,2,autofuse_pointwise_1_abs,x,AI_VECTOR_CORE,5,2.0,0,8,,N/A,N/A\n"
        + "0,1,6,2,add_rows_more,x,AI_VECTOR_CORE,6,2.0,0,8,,N/A,N/A\n"
        + "0,1,7,2,add_rows,add_rows,AI_VECTOR_CORE,7,N/A,0,8,,N/A,N/A\n",
    )
    found = imported(read_profile(table), [subject], chip="Ascend910B1", target="ascend910b1")
    assert (found.total, found.taken) == (7, 4)
    whole, shapeless, other = found.records
    assert whole.times_us == [10.5, 11.5]
    assert (whole.sizes, whole.cores, whole.device.fake) == ({"n": 640}, 48, False)
    assert whole.counters == {"aiv_time(us)": 9.6, "aiv_vec_ratio": 0.5}
    assert whole.modelled_us is not None
    assert whole.kernel.graph_sha256 == subject.facts()["graph_sha256"]
    assert (shapeless.sizes, shapeless.modelled_us, shapeless.cores) == ({}, None, 8)
    assert (other.kernel.name, other.kernel.graph_sha256) == ("autofuse_pointwise_1_abs", None)
    assert found.graphs == (subject.path, subject.path, "")
    assert parse_results(results_text(found.records)) == found.records


def test_the_table_of_torch_npu_is_read(tmp_path: Path, subject: Subject) -> None:
    row = '1,add_rows,add_rows,AI_VECTOR_CORE,"1700.5\t",4.25,40,"16,8;8",0.5\n'
    profile = read_profile(_table(tmp_path, KERNEL_DETAILS + row))
    (record,) = imported(profile, [subject], chip="Ascend910B2", target="ascend910b2").records
    assert (record.times_us, record.sizes, record.cores) == ([4.25], {"n": 16}, 40)


def test_a_table_of_a_fake_says_so(tmp_path: Path, subject: Subject) -> None:
    head = "Op Name,Task Duration(us),autofuse fake\n"
    profile = read_profile(_table(tmp_path, f"{head}add_rows,4.0,1\n"))
    (record,) = imported(profile, [subject], chip="Ascend910B1", target="ascend910b1").records
    assert record.device.fake


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "AF1004", 0),
        ("a,b\n1,2\n", "AF1004", 0),
        ("Op Name,OP Type\nx,y\n", "AF1004", 0),
        (f"Op Name,Task Duration(us){',c' * 600}\n", "AF1004", 0),
        ("Op Name,Task Duration(us)\nx,-1\n", "AF1403", 2),
        ("Op Name,Task Duration(us)\nx,1e30\n", "AF1403", 2),
        ("Op Name,Task Duration(us)\nx,inf\n", "AF1403", 2),
        ("Op Name,Task Duration(us)\nx,1.0\ny,$(ls)\n", "AF1403", 3),
        ("Op Name,Task Duration(us),Block Dim\nx,1.0,1e9\n", "AF1403", 2),
        ('Op Name,Task Duration(us)\nx,"1.0\n', "AF1004", 2),
        ("Op Name,Task Duration(us)\n" + "x" * 200_000 + ",1.0\n", "AF1004", 2),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, code: str, line: int) -> None:
    with pytest.raises(AutofuseError) as e:
        read_profile(_table(tmp_path, text))
    d = e.value.diagnostics[0]
    assert (d.code, d.where.line) == (code, line)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"Op Name,\xff\xfe\n")
    with pytest.raises(AutofuseError, match="AF1004"):
        read_profile(path)
    with pytest.raises(AutofuseError, match="AF1001"):
        read_profile(tmp_path / "missing.csv")


def test_findings_of_a_wrong_table_end(tmp_path: Path) -> None:
    rows = "x,-1\n" * 1000
    with pytest.raises(AutofuseError) as e:
        read_profile(_table(tmp_path, f"Op Name,Task Duration(us)\n{rows}"))
    assert len(e.value.diagnostics) == 20


def test_shapes_that_contradict_the_graph_give_no_sizes(tmp_path: Path, subject: Subject) -> None:
    rows = 'add_rows,4.0,"16,9;8"\nadd_rows,4.0,"16;8"\nadd_rows,4.0,"16,8"\nadd_rows,4.0,"x;y"\n'
    text = f"Op Name,Task Duration(us),Input Shapes\n{rows}"
    found = imported(
        read_profile(_table(tmp_path, text)), [subject], chip="Ascend910B1", target="ascend910b1"
    )
    assert [r.sizes for r in found.records] == [{}] * 4
