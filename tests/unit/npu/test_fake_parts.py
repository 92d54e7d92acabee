"""Parts of the fake CANN: how its compiler reads words and launches, and its hidden figures."""

import pytest
from fake_cann.bisheng import launches, read_words
from fake_cann.figures import HIDDEN, SPREAD, changed, perturbed, read_figures, text_of
from fake_cann.layout import Options, make

from autofuse.targets import load_target


def test_launches_become_calls() -> None:
    text = "before k<<<(n), nullptr, (s)>>>(f(a, b), t); ns::k2<half, 3><<<8, nullptr, s>>>() after"
    assert launches(text) == (
        'before ::autofuse_fake::Launch("k", (n), nullptr, (s))'
        ".Run([](auto... a) { k(a...); }, f(a, b), t); "
        '::autofuse_fake::Launch("k2", 8, nullptr, s)'
        ".Run([](auto... a) { ns::k2<half, 3>(a...); }) after"
    )
    assert launches("a << b; x<<<y") == "a << b; x<<<y"
    with pytest.raises(ValueError, match=r"expected '\)'"):
        launches("k<<<1, nullptr, s>>>(a")


def test_words_of_the_compiler() -> None:
    words = ["-O2", "--npu-arch=dav-2201", "-I", "inc", "-shared", "h.o", "-x", "asc", "k.cpp"]
    call = read_words([*words, "-o", "k.so", "-Llib", "-lm"])
    assert call.sources == [("object", "h.o"), ("asc", "k.cpp")]
    assert (call.flags, call.links) == (["-O2", "-I", "inc"], ["-Llib", "-lm"])
    assert (call.arch, call.output, call.shared, call.only_compile) == (
        "dav-2201",
        "k.so",
        True,
        False,
    )
    assert read_words(["a.asc", "b.cpp"]).sources == [("asc", "a.asc"), ("c++", "b.cpp")]
    for bad in ([], ["-o"], ["-O2"]):
        with pytest.raises(ValueError, match=r"no input files|is missing"):
            read_words(bad)


def test_hidden_figures_are_near_those_of_the_target() -> None:
    target = load_target("ascend910b2")
    figures = perturbed(target, 1)
    assert figures == perturbed(target, 1) != perturbed(target, 2)
    assert figures == read_figures(text_of(figures))
    own = changed(target, figures)
    share = own.model.read_gbs / target.model.read_gbs
    assert 1.0 / (1.0 + SPREAD) <= share <= 1.0 + SPREAD
    assert share != 1.0
    assert own.model.vector_issue == target.model.vector_issue
    assert own.model.conflict_result >= 1.0
    assert figures[HIDDEN] > 0.0


def test_figures_as_tables() -> None:
    assert read_figures("[model]\nread_gbs = 9\n[figures]\nkernel_head_us = 2.0\n") == {
        "model.read_gbs": 9.0,
        "kernel_head_us": 2.0,
    }
    with pytest.raises(ValueError, match="not a number"):
        read_figures('[model]\nread_gbs = "9"\n')
    with pytest.raises(ValueError, match=r"no figure model\.no"):
        changed(load_target("ascend910b2"), {"model.no": 1.0})


@pytest.mark.parametrize("fail", ["explode", "oom:add", "timeout:a\nb"])
def test_what_cannot_fail_on_purpose(tmp_path, fail: str) -> None:
    with pytest.raises(ValueError, match="--fail takes timeout"):
        make(tmp_path / "cann", Options(fail=(fail,)))


def test_a_folder_of_something_else_is_left_alone(tmp_path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="holds something else"):
        make(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
