"""Changes of the networks of tests: of one tensor, or of the only operator."""

from dataclasses import replace
from typing import Any

from celosia.sw.export.tflite import Graph

__all__ = ["retensored", "rewired"]


def retensored(graph: Graph, name: str, **changes: Any) -> Graph:
    """Return a graph with one tensor changed."""
    tensors = tuple(replace(t, **changes) if t.name == name else t for t in graph.tensors)
    assert any(tensor.name == name for tensor in tensors)
    return replace(graph, tensors=tensors)


def rewired(graph: Graph, **changes: Any) -> Graph:
    """Return a graph with its only operator changed."""
    (operation,) = graph.operations
    return replace(graph, operations=(replace(operation, **changes),))
