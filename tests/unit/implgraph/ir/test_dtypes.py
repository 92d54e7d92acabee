import ml_dtypes
import numpy as np
import pytest

from autofuse.implgraph.ir.dtypes import BY_NAME, dtype, is_float, is_int, numpy_dtype


def test_names_and_aliases_belong_to_one_row():
    names = [n for d in BY_NAME.values() for n in (d.name, *d.aliases)]
    assert len(names) == len(set(names))
    for d in BY_NAME.values():
        assert all(dtype(n) is d for n in (d.name, *d.aliases))
        assert str(d) == d.name


def test_unknown_name():
    with pytest.raises(KeyError):
        dtype("float65")


@pytest.mark.parametrize("d", [d for d in BY_NAME.values() if d.name != "mask"], ids=str)
def test_numpy_agrees_on_size_and_kind(d):
    n = numpy_dtype(d)
    assert n.itemsize == d.itemsize
    if d.name != "bfloat16":
        assert n.kind == d.kind


def test_special_rows():
    assert numpy_dtype(dtype("bf16")) == np.dtype(ml_dtypes.bfloat16)
    assert numpy_dtype(dtype("mask")) == np.dtype(np.bool_)
    assert dtype("mask").itemsize == 1


def test_kinds():
    assert is_float(dtype("half"))
    assert not is_int(dtype("half"))
    assert is_int(dtype("uint8"))
    assert is_int(dtype("int64"))
    assert not is_int(dtype("bool"))
    assert not is_float(dtype("mask"))
