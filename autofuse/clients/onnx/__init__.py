"""Whole ONNX models, and autofuse as an ONNX backend."""
