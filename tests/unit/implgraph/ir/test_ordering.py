"""The order of nodes, and how many values are alive at once in one."""

from autofuse.implgraph.ir.ordering import execution_order, most_alive


def test_values_that_are_alive_at_once():
    # 0 and 1 are loads, 2 uses both, 3 uses 2 and 0; 4 stores 3.
    operands = [[], [], [0, 1], [2, 0], [3]]
    free = [False] * 5
    assert most_alive(operands, [0, 1, 2, 3, 4], free) == 3
    assert most_alive(operands, [0, 1, 2, 3, 4], [True, *free[1:]]) == 2
    assert most_alive([[], [0]], [0, 1], [False, False]) == 2


def test_a_chain_beside_another_one_that_needs_it():
    """Root by root, all of one chain is made before the other one: as written, one step of each."""
    n = 20
    operands = [[], []]
    for i in range(2, 2 * n, 2):
        operands += [[i - 2], [i - 1, i - 2]]
    free = [False] * len(operands)
    order = execution_order(operands, [2 * n - 2, 2 * n - 1], free)
    assert most_alive(operands, order, free) >= n
    assert most_alive(operands, range(2 * n), free) < 6
