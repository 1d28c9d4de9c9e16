"""The blocks of the core: their sources, and the tests that check a change of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A block.

    Parameters
    ----------
    name : str
        Name of the block.
    files : tuple of str
        Its sources.
    unit, room : tuple of str
        Tests of its components, and of the components that contain it; below tb/hw.
    proofs : tuple of str
        Files of its proofs, below tb/formal.
    benches : tuple of str
        Files of its cocotb benches, below tb/cosim; Icarus runs them.
    fuzz : bool
        Random programs on whole cores may show a change.
    """

    name: str
    files: tuple[str, ...]
    unit: tuple[str, ...]
    room: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    benches: tuple[str, ...] = ()
    fuzz: bool = True


def _block(
    name: str,
    files: str,
    unit: str,
    room: str = "",
    proofs: str = "",
    benches: str = "",
    fuzz: bool = True,
) -> Block:
    sources = tuple(f"hw/{word}.py" for word in files.split())
    return Block(name, sources, _tests(unit), _tests(room), _tests(proofs), _tests(benches), fuzz)


def _tests(names: str) -> tuple[str, ...]:
    return tuple(f"test_{name}.py" for name in names.split())


#: In the order of docs/log/2026-11-23-mutation.md.
BLOCKS = (
    _block("fetch", "sequencer/fetch", "sequencer_fetch", "sequencer"),
    _block(
        "check, dispatch",
        "sequencer/check sequencer/dispatch",
        "sequencer_check sequencer_dispatch",
        "sequencer",
    ),
    _block(
        "issue, pieces, semaphores",
        "sequencer/issue sequencer/pieces sequencer/semaphores",
        "sequencer_issue sequencer_pieces sequencer_semaphores",
        "sequencer",
        "queue_users semaphores",
    ),
    _block(
        "supervisor, counters",
        "sequencer/supervisor sequencer/counters",
        "sequencer_supervisor sequencer_counters",
        "sequencer",
    ),
    _block("sequencer", "sequencer/sequencer", "sequencer"),
    _block("host registers", "bus/registers bus/interrupts", "bus_registers bus_interrupts"),
    _block(
        "bus reader, writer",
        "bus/reader bus/writer",
        "bus_reader bus_writer",
        "bus_signature",
        "axi_reader axi_writer",
    ),
    _block(
        "bus arbiter, slices, queue",
        "bus/arbiter bus/slice bus/queue bus/signature",
        "bus_arbiter bus_signature bus_slice bus_queue",
        "",
        "axi_arbiter queues",
    ),
    _block(
        "bus splitter",
        "bus/splitter",
        "bus_splitter",
        "bus_load bus_store",
        "axi_splitter",
    ),
    _block("load", "bus/load bus/decoder bus/receiver", "bus_load", "bus_store"),
    _block("store", "bus/store bus/gather", "bus_store", "", "queue_users"),
    _block("unified buffer", "memory/unified_buffer", "unified_buffer memory_parity", "", "buffer"),
    _block("runs", "memory/runs", "memory_runs", "vector_source"),
    _block(
        "weight buffer", "memory/weight_buffer", "memory_weight_buffer memory_parity", "matrix_unit"
    ),
    _block(
        "parameters, tables",
        "memory/parameter_memory memory/table_memory",
        "memory_parameter memory_parity",
        "vector_unit",
    ),
    _block(
        "parity",
        "memory/parity vector/watch",
        "memory_parity vector_watch vector_parity",
        "vector_unit",
        fuzz=False,
    ),
    _block(
        "cell, product",
        "matrix/cell product",
        "matrix_cell product",
        "matrix_array",
        "cells",
        "matrix",
        fuzz=False,
    ),
    _block("array", "matrix/array", "matrix_array", "matrix_unit", "", "matrix"),
    _block(
        "matrix control",
        "matrix/control matrix/feeder",
        "matrix_control matrix_feeder",
        "matrix_unit",
    ),
    _block("matrix walker", "matrix/walker", "matrix_walker", "matrix_unit"),
    _block("matrix unit", "matrix/unit", "matrix_unit matrix_parity"),
    _block(
        "accumulators", "matrix/accumulators", "matrix_accumulators memory_parity", "matrix_unit"
    ),
    _block(
        "vector control",
        "vector/control vector/task vector/nest",
        "vector_control vector_nest vector_source vector_unit vector_parity",
    ),
    _block(
        "vector source",
        "vector/source vector/answers vector/window",
        "vector_window vector_answers vector_source vector_unit",
    ),
    _block(
        "vector pipe",
        "vector/pipe vector/accumulate vector/destination vector/writer vector/unit",
        "vector_accumulate vector_unit vector_parity",
    ),
    _block(
        "requantiser",
        "vector/requantize vector/multiplier vector/delay",
        "vector_requantize",
        "vector_unit",
        "multipliers requantizer",
    ),
    _block(
        "sequential requantiser",
        "vector/sequential vector/pace",
        "vector_requantize vector_sequential",
        "",
        "sequential",
        fuzz=False,
    ),
    _block(
        "SDRAM controller",
        "sdram/bank sdram/buffer sdram/chunks sdram/columns sdram/controller sdram/countdown"
        " sdram/data_path sdram/opener sdram/reads sdram/scheduler sdram/startup sdram/writes",
        "sdram_rooms sdram_controller sdram_rules sdram_parts",
        "sdram_bandwidth",
        fuzz=False,
    ),
    _block(
        "host link",
        "link/bridge link/frames link/link link/slots link/uart",
        "link_frames link_uart link_endpoint",
        fuzz=False,
    ),
)
