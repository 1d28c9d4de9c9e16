"""Backend of ExecuTorch: programs of Celosia in its files."""

from importlib import import_module
from typing import Any, final

from celosia.sw.executorch.model import EdgeGraph
from celosia.sw.runtime.opening import open_program

# Operators that quantise, for ExecuTorch's compiler and its runtime.
import_module("executorch.kernels.quantized")
_DETAILS: Any = import_module("executorch.exir.backend.backend_details")


@final
class CelosiaBackend(_DETAILS.BackendDetails):
    """Backend that compiles a partition to a program of Celosia."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> Any:
        """Return the program of a partition.

        Parameters
        ----------
        edge_program : torch.export.ExportedProgram
            The partition.
        compile_specs : list of CompileSpec
            ``config``: the core, as text.
        """
        graph = EdgeGraph(edge_program)
        (config,) = (one.value.decode() for one in compile_specs if one.key == "config")
        names = edge_program.graph_signature.user_inputs
        inputs = [node for node in graph.nodes if node.op == "placeholder" and node.name in names]
        nodes = [node for node in graph.nodes if node.op == "call_function"]
        (results,) = graph.nodes[-1].args
        content = graph.model(nodes, inputs, results)
        return _DETAILS.PreprocessResult(open_program(content, config=config).to_bytes())
