"""Partitioner: chooses the quantised operators that the core runs."""

from importlib import import_module
from typing import Any

from celosia.sw.executorch.backend import CelosiaBackend
from celosia.sw.executorch.model import EdgeGraph
from celosia.sw.executorch.operators import QUANTIZE, form_of, is_dequantize, target_of
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.node import ModelError
from celosia.sw.runtime.opening import core_of, open_program

_SCHEMA: Any = import_module("executorch.exir.backend.compile_spec_schema")
_PARTITIONER: Any = import_module("executorch.exir.backend.partitioner")
_UTILS: Any = import_module("executorch.exir.backend.utils")

#: Operators of the host that a partition may have.
_MOVES = ("RESHAPE", "TRANSPOSE")


class CelosiaPartitioner(_PARTITIONER.Partitioner):
    """Partitioner for ``to_edge_transform_and_lower(partitioner=[...])``.

    It takes quantised operators: those between the nodes that dequantise their inputs and the one
    that quantises their result, if the core runs all of them. ExecuTorch runs the others.

    Parameters
    ----------
    config : str
        The core: a preset, with changes: ``edge``, ``edge,weight_rows=4``.

    Raises
    ------
    ValueError
        If there is no such preset.
    """

    def __init__(self, config: str = "edge") -> None:
        super().__init__()
        core_of(config)
        self._config, self._tensors = config, dict[str, Any]()

    def transform_for_pre_decomposition(self, exported_program: Any) -> Any:
        """Return a program unchanged; ``partition`` gets one without contents of its constants."""
        self._tensors |= exported_program.state_dict
        return exported_program

    def partition(self, exported_program: Any) -> Any:
        """Return the program with the tags of its partitions.

        Partitions have numbers: the number of other partitions that end before an operator whose
        results they wait for. So none waits for itself.
        """
        graph, tags = EdgeGraph(exported_program, self._tensors), dict[str, Any]()
        units = {node: self._unit(graph, node) for node in graph.nodes}
        specifications = [_SCHEMA.CompileSpec("config", self._config.encode())]
        numbers = dict[Any, int]()
        for node in graph.nodes:
            unit = units[node] or [node]
            sources = {source for member in unit for source in member.all_input_nodes}
            numbers[node] = max(
                (
                    numbers[source] + bool(units[source] and not units[node])
                    for source in sources.difference(unit)
                ),
                default=0,
            )
            if units[node]:
                tag = f"celosia_{numbers[node]}"
                tags[tag] = _PARTITIONER.DelegationSpec(CelosiaBackend.__name__, specifications)
                for member in unit:
                    member.meta["delegation_tag"] = tag
        _UTILS.tag_constant_data(exported_program)
        return _PARTITIONER.PartitionResult(
            tagged_exported_program=exported_program, partition_tags=tags
        )

    def _unit(self, graph: EdgeGraph, end: Any) -> list[Any]:
        """Return the operators that a quantisation ends; none if the core does not run them."""
        if target_of(end) != QUANTIZE:
            return []
        unit, sources, waiting = dict[Any, None](), dict[Any, None](), [end]
        while waiting:
            node = waiting.pop()
            if node in unit or graph.constant(node) is not None:
                continue
            if node.op != "call_function" or form_of(node, graph.constant) is None:
                return []
            unit[node] = None
            operands = node.all_input_nodes
            if not is_dequantize(node):
                waiting += operands
            elif graph.constant(operands[0]) is None:
                sources[operands[0]] = None
        shared = any(set(node.users).difference(unit) for node in unit if node is not end)
        strided = any(not node.meta["val"].is_contiguous() for node in (*sources, end))
        if shared or strided or not sources:
            return []
        nodes = sorted(unit, key=graph.nodes.index)
        return nodes if self._runs(graph.model(nodes, [*sources], [end])) else []

    def _runs(self, content: bytes) -> bool:
        """Return whether the core computes a model; the host may move elements."""
        try:
            program = open_program(content, config=self._config)
        except (ModelError, CompileError):
            return False
        return all(step.kind in _MOVES for step in program.host)
