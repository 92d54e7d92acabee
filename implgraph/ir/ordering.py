"""Execution order of a data-flow graph that keeps live ranges short."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["execution_order", "most_alive"]


def execution_order(
    operands: Sequence[Sequence[int]], roots: Sequence[int], free: Sequence[bool]
) -> list[int]:
    """Order the nodes that the roots need, depth first, the heavier operand before the lighter one.

    This is Sethi and Ullman's order: the number of simultaneously live values is minimal for trees and close to minimal
    for graphs with shared values.  Leaves come right before their first use.  Linear time, no recursion.

    Args:
        operands: for every node the indices of the nodes it uses.
        roots: nodes to reach, in the order in which they should finish.
        free: nodes whose result takes no memory (compile-time scalars).

    Returns:
        Indices of all reachable nodes, operands before users.
    """
    need = [0] * len(operands)
    for n in _post_order(operands, roots):
        if free[n]:
            continue
        used = operands[n]
        if len(used) < 2:
            need[n] = max(need[used[0]], 1) if used else 1
            continue
        ranked = sorted([need[i] for i in dict.fromkeys(used)], reverse=True)
        need[n] = max(1, *[v + k for k, v in enumerate(ranked)])
    ordered = [
        ops if len(ops) < 2 else sorted(dict.fromkeys(ops), key=lambda i: -need[i])
        for ops in operands
    ]  # the sort is stable: equal operands keep their order
    return _post_order(ordered, roots)


def most_alive(
    operands: Sequence[Sequence[int]], order: Sequence[int], free: Sequence[bool]
) -> int:
    """Return the maximum number of simultaneously live values, including those at their last use.

    Args:
        operands: for every node the indices of the nodes it uses.
        order: the nodes in execution order.
        free: nodes whose result takes no memory.
    """
    last = {x: n for n in order for x in operands[n]}
    alive = most = 0
    for n in order:
        alive += not free[n]
        most = max(most, alive)
        ends = [x for x in dict.fromkeys(operands[n]) if last[x] == n and not free[x]]
        alive -= len(ends) + (not free[n] and n not in last)
    return most


def _post_order(operands: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    done = [False] * len(operands)
    out: list[int] = []
    for root in roots:
        stack = [(root, 0)]
        while stack:
            node, k = stack.pop()
            if done[node]:
                continue
            ops = operands[node]
            while k < len(ops) and done[ops[k]]:
                k += 1
            if k < len(ops):
                stack.append((node, k + 1))
                stack.append((ops[k], 0))
            else:
                done[node] = True
                out.append(node)
    return out
