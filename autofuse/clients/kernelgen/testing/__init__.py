"""Tests of a kernel against its baseline: accuracy in a worker, speed on a card."""
