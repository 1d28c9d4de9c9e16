"""The blocks of the core: their sources, and the tests that check a change of them."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A block.

    ``name``: name of the block; ``files``: its sources; ``unit``, ``parent``: tests of its
    components, and of the components that contain it; below tb/hw; ``proofs``: files of its proofs,
    below tb/formal; ``benches``: cocotb benches, of the ``core`` or of a unit; Icarus
    runs them; ``fuzz``: random programs on whole cores may show a change.
    """

    name: str
    files: tuple[str, ...]
    unit: tuple[str, ...]
    parent: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    benches: tuple[str, ...] = ()
    fuzz: bool = True


def _block(row: str) -> Block:
    name, files, *tests = (row + "|" * 6).replace("\n", " ").split("|")[:7]
    sources = tuple(f"hw/{word}.py" for word in files.split())
    unit, parent, proofs = (
        tuple(f"test_{word}.py" for word in names.split()) for names in tests[:3]
    )
    benches = tuple(tests[3].split())
    fuzz = not tests[4].strip()
    return Block(name.strip(), sources, unit, parent, proofs, benches, fuzz=fuzz)


#: A block a row:
#: name | sources | unit | parent | proofs | benches | "alone" if not for ``fuzz``.
_ROWS = """
fetch | sequencer/fetch | sequencer_fetch | sequencer_program | | sequencer
check, dispatch | sequencer/check sequencer/dispatch | sequencer_check sequencer_dispatch | | |
    sequencer
issue, command, semaphores | sequencer/issue sequencer/activity sequencer/command
    sequencer/semaphores | sequencer_issue sequencer_semaphores | |
    queue_users commands semaphores | sequencer
supervisor, counters | sequencer/supervisor sequencer/counters lib/counter | sequencer_supervisor
    sequencer_counters lib_counter | | | sequencer
sequencer | sequencer/sequencer sequencer/program sequencer/faults | sequencer_program
    sequencer_faults | | | sequencer core
host registers | axi/registers axi/interrupts | axi_registers axi_interrupts
pod | pod axi/windows axi/joined | pod axi_windows axi_joined | | axi_joined
AXI reader, writer | axi/reader axi/writer | axi_reader | axi_signature | axi_reader axi_writer |
    store
AXI arbiter, slices, queue | axi/arbiter lib/skid_buffer lib/queue axi/signature | axi_arbiter
    axi_signature lib_queue | | axi_arbiter queues
ports of units | streams | streams axi_reader | | | store matrix
splitter | dma/splitter | | | dma_splitter | load store
load | dma/load dma/decoder dma/receiver | | | | load store
store | dma/store dma/gather | | | gather | store
unified buffer | memory/unified_buffer | unified_buffer memory_parity | | buffer |
    unified_buffer
runs | memory/runs memory/run_start memory/serial_runs lib/comparison | memory_runs
    memory_serial_runs lib_comparison | | | vector matrix
weight buffer | memory/weight_buffer | memory_parity | | | weight_buffer
parameters, tables | memory/parameter_memory memory/table_memory | memory_parameter
    memory_parity | | | vector
parity | memory/parity vector/watch | memory_parity vector_watch | | | vector matrix | alone
cell, product | matrix/cell targets/product | matrix_cell targets_product | matrix_array | cells
    | array core | alone
array | matrix/array | matrix_array | | | array core
large array | matrix/shared | matrix_shared | | | | alone
matrix control | matrix/control matrix/completion matrix/prefetcher matrix/spacing |
    matrix_control matrix_completion matrix_prefetcher matrix_spacing | | | matrix
matrix addresses | matrix/addresses matrix/reads | matrix_addresses | | | matrix
matrix moves | matrix/moves | matrix_moves | | move_order | matrix
matrix unit | matrix/unit matrix/verdict | matrix_verdict | | | matrix
accumulators | memory/accumulators | memory_parity | | | accumulators
vector control | vector/control vector/task lib/loop_nest | vector_control lib_loop_nest | | |
    vector
vector source | vector/source vector/reads vector/responses vector/window | vector_window
    vector_writer | | | vector
vector pipe | vector/pipe vector/accumulate vector/sums vector/destination vector/writer
    vector/datapath vector/unit | vector_sums vector_writer
    vector_pipe vector_datapath | | | vector
requantiser | vector/requantize vector/multiplier lib/delay lib/fanout | vector_requantize
    lib_delay lib_fanout | | multipliers requantizer | vector
sequential requantiser | vector/sequential vector/pace | vector_requantize vector_sequential
    vector_pipe | | sequential | vector | alone
softmax | softmax/exponentials softmax/reduction softmax/reciprocals vector/softmax_stage |
    softmax_blocks softmax_stage | | | vector
core | core | | | | core
"""
BLOCKS = tuple(_block(row) for row in re.findall(r"\S.*(?:\n .*)*", _ROWS))
