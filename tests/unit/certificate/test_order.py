"""The order of sums that a certificate states."""

from gradient_graphs import softmax_gradient

from autofuse import api
from autofuse.measure.certificate.order import orders


def test_rows_are_complete_in_a_step_and_columns_in_the_loop_of_a_part() -> None:
    built = api.build(softmax_gradient(8191, 128))
    rows, columns, *_ = orders(built.schedule)
    assert rows["calls"] == [{"along": "inner", "elements": "128"}]
    assert rows["loop"] == "1"
    assert columns["calls"] == [{"along": "outer", "elements": "z0tt_size"}]
    assert columns["loop"] == "Ceiling((171 / (z0tt_size)))"
