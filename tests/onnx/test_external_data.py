"""Models whose data lie in other files: read from beside the model, and from nowhere else."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model, node, value

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models

W = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) / 1000
SCALE = np.linspace(-1, 1, 32, dtype=np.float32)


def network() -> Any:
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Mul", ["m", "scale"], ["s"]),
        node("Tanh", ["s"], ["y"]),
    ]
    return model(nodes, [value("x", ["n", 64])], ["y"], constants={"w": W, "scale": SCALE})


def saved(m: Any, folder: Path, location: str = "weights.bin") -> Path:
    """The file of a model, with all data in another one."""
    path = folder / "m.onnx"
    (folder / location).parent.mkdir(exist_ok=True)
    onnx.save(m, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def pointing(tensor: Any, **entries: str) -> Any:
    """A tensor whose data lie elsewhere."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for k, v in entries.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = k, v
    return tensor


@pytest.mark.parametrize("location", ["weights.bin", "data/weights.bin"])
def test_data_beside_a_model_are_those_of_the_model(tmp_path: Path, location: str) -> None:
    path = saved(network(), tmp_path, location)
    assert models.is_partitioned(path)
    found, inside = models.build(path), models.build(network())
    assert found.manifest["parameters"] == inside.manifest["parameters"]
    assert found.kernels.keys() == inside.kernels.keys()


def test_a_model_that_is_one_kernel_too(tmp_path: Path) -> None:
    """What decides about shapes has to be known."""
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Mul", ["r", "scale"], ["y"])]
    held = {"to": np.array([-1, 32]), "scale": SCALE}
    path = saved(model(nodes, [value("x", [4, 64])], ["y"], constants=held), tmp_path)
    assert not models.is_partitioned(path)
    graph = api.read(path)
    assert [str(e) for e in graph.tensors[graph.outputs[0].tensor].shape] == ["8", "32"]


def test_inside_of_a_subgraph(tmp_path: Path) -> None:
    k = numpy_helper.from_array(np.array([2, 3, 5, 7], np.float32), "k")
    (tmp_path / "k.bin").write_bytes(bytes(8) + k.raw_data)
    pointing(k, location="k.bin", offset="8")
    out = helper.make_tensor_value_info("k", TensorProto.FLOAT, [4])
    inner = helper.make_graph([], "inner", [], [out], [k])
    nodes = [node("If", ["c"], ["a"], then_branch=inner, else_branch=inner)]
    nodes.append(node("Neg", ["a"], ["y"]))
    nodes.append(node("Exp", ["x"], ["z"]))
    given = [value("c", [], TensorProto.BOOL), value("x", [4])]
    m = model(nodes, given, ["y", "z"])
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    built = models.build(tmp_path / "m.onnx")
    held = built.pieces.model.graph.node[0].attribute[0].g.initializer[0]
    np.testing.assert_array_equal(numpy_helper.to_array(held), [2, 3, 5, 7])


def test_what_names_another_place_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(W.nbytes))
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(secret)
    (folder / "out").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    locations = [str(secret), "../secret", "sub/../../secret", "link", "out/secret"]
    locations += ["pipe", "sub", ".", "", "missing", "a\0b"]
    for location in locations:
        m = network()
        pointing(m.graph.initializer[0], location=location)
        (folder / "m.onnx").write_bytes(m.SerializeToString())
        for read in (models.build, models.is_partitioned, api.read):
            with pytest.raises(AutofuseError) as e:
                read(folder / "m.onnx")
            assert [d.code for d in e.value.diagnostics] == ["AF1104"], location
            assert "'w'" in str(e.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"length": "4"},
        {"length": "-1"},
        {"offset": "1"},
        {"offset": "-8"},
        {"offset": "99999999999999999999"},
        {"length": "x"},
    ],
    ids=str,
)
def test_data_of_another_length_are_refused(tmp_path: Path, entries: dict[str, str]) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    m = network()
    pointing(m.graph.initializer[0], location="w.bin", **entries)
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(AutofuseError) as e:
        models.build(tmp_path / "m.onnx")
    assert [d.code for d in e.value.diagnostics] == ["AF1104"]


def test_one_file_named_by_many_tensors_counts_as_often(tmp_path: Path) -> None:
    """No more memory than a model may have, however small its files are; nothing of it is read."""
    with (tmp_path / "zeros").open("wb") as f:
        f.truncate(1 << 30)
    held = {f"t{k}": np.zeros(1, np.float32) for k in range(3)}
    m = model([node("Sum", ["x", *held], ["y"])], [value("x", [1 << 28])], ["y"], constants=held)
    for t in m.graph.initializer:
        t.dims[0] = 1 << 28
        pointing(t, location="zeros")
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(AutofuseError) as e:
        models.build(tmp_path / "m.onnx")
    assert [d.code for d in e.value.diagnostics] == ["AF1003"]


def test_without_a_path_there_is_no_folder(tmp_path: Path) -> None:
    path = saved(network(), tmp_path)
    for given in (path.read_bytes(), onnx.load(path, load_external_data=False)):
        with pytest.raises(AutofuseError, match="give the path of the model") as e:
            models.build(given)
        assert [d.code for d in e.value.diagnostics] == ["AF1104"]
    assert models.build(onnx.load(path)).kernels
