"""Backend of ONNX: models and nodes run through ONNX's own interface."""
