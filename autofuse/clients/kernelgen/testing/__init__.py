"""The tests of a kernel beside its baseline: accuracy in a worker, speed on a card."""
