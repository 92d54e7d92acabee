"""The flows of MindSpore AKG: what its command makes of a graph for a CPU, a GPU or an Ascend chip.

Each flow makes the binary, or the project of one, and beside it the JSON that a run time launches it by.
"""
