"""The flows of MindSpore AKG: the files that its command produces from a graph for a CPU, a GPU or an Ascend chip.

Each flow produces the binary, or a project that builds it, and the JSON from which a run time launches it.
"""
