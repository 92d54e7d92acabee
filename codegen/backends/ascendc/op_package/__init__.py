"""A custom operator project of CANN around a kernel (docs/op_package.md)."""
