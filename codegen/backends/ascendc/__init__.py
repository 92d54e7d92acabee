"""The Ascend C backend: kernel, host code, CMake project, metadata."""
