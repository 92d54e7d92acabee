"""ONNX operators, by kind."""
