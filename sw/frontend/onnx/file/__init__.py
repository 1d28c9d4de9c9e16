"""Contents of ``.onnx`` files: versions, shapes, constants, nodes."""
