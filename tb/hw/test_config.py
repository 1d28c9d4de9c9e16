from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import pytest

from celosia.hw.arch.isa import OPTIONS
from celosia.hw.arch.presets import PRESETS, preset

EDGE = PRESETS["edge"]

REFUSED = [
    ({"rows": 2}, "rows: wanted a power of two, at least 4, got 2"),
    ({"rows": 12}, "rows: wanted a power of two, at least 4, got 12"),
    ({"rows": 0}, "rows: wanted"),
    ({"columns": 0, "dsp_columns": 0}, "columns: wanted at least 1, got 0"),
    ({"unified_bytes": 131080}, "unified_bytes: wanted a multiple of rows = 16"),
    ({"unified_bytes": 64}, "unified_bytes: wanted .* at least 128, got 64"),
    (
        {"unified_bytes": 512},
        "unified_bytes: wanted at least as many as rows of sums, 1024, got 512",
    ),
    ({"weight_tiles": 1}, "weight_tiles: wanted at least 2, got 1"),
    ({"accumulator_depth": 500}, "accumulator_depth: wanted a power of two, at least 4, got 500"),
    ({"accumulator_depth": 2}, "accumulator_depth: wanted"),
    ({"lanes": 3}, "lanes: wanted a power of two, at most rows = 16, dividing columns = 16, got 3"),
    ({"lanes": 32, "columns": 32}, "lanes: wanted"),
    ({"lanes": 8, "columns": 12}, "lanes: wanted .* dividing columns = 12, got 8"),
    ({"weight_rows": 3}, "weight_rows: wanted a divisor of rows = 16, got 3"),
    ({"weight_rows": 0}, "weight_rows: wanted"),
    ({"weight_rows": 32}, "weight_rows: wanted"),
    ({"bus_bytes": 2}, "bus_bytes: wanted a power of two from 4 to rows = 16, got 2"),
    ({"bus_bytes": 32}, "bus_bytes: wanted"),
    ({"bus_bytes": 12}, "bus_bytes: wanted"),
    (
        {"rows": 64, "unified_bytes": 1 << 17, "bus_bytes": 64, "lanes": 2},
        "bus_bytes: wanted at most 16 bytes for each of lanes = 2, got 64",
    ),
    ({"parameter_channels": 1020}, "parameter_channels: wanted a multiple of lanes = 8, got 1020"),
    ({"parameter_channels": 0}, "parameter_channels: wanted"),
    ({"tables": 0}, "tables: wanted 1 to 256, got 0"),
    ({"tables": 257}, "tables: wanted 1 to 256, got 257"),
    ({"queue_depth": 2}, "queue_depth: wanted 3 to 8, got 2"),
    ({"burst_beats": 12}, "burst_beats: wanted a power of two up to 256"),
    ({"burst_beats": 512}, "burst_beats: wanted"),
    ({"outstanding": 1}, "outstanding: wanted at least 2, got 1"),
    ({"dsp_columns": 17}, "dsp_columns: wanted 0 to columns, got 17"),
    ({"dsp_columns": -1}, "dsp_columns: wanted"),
    ({"cells": "abacus"}, "cells: wanted one of portable, .*, got 'abacus'"),
    ({"protection": "hope"}, "protection: wanted one of none, parity, got 'hope'"),
    ({"requantizer": "hope"}, "requantizer: wanted one of pipelined, sequential, got 'hope'"),
    ({"links": "hope"}, "links: wanted one of skid, register, got 'hope'"),
    ({"skips": "hope"}, "skips: wanted one of parallel, serial, got 'hope'"),
    ({"counters": "hope"}, "counters: wanted one of units, luts, none, got 'hope'"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_sizes_that_no_core_can_have(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(EDGE, **changes)


def test_a_burst_has_at_most_4096_bytes():
    wide = PRESETS["tpu_v1"]
    assert wide.burst_beats * wide.bus_bytes == 4096
    with pytest.raises(ValueError, match="burst_beats: wanted .* at most 4096 bytes, got 128"):
        replace(wide, burst_beats=128)


def test_the_least_core():
    preset(
        "nano,columns=1,unified_bytes=32,weight_tiles=2,accumulator_depth=4,parameter_channels=1,"
        "queue_depth=3,outstanding=32,dsp_columns=0"
    )


# rows, columns, sum_bits, address_bits, unified_rows, accumulator_rows, groups, tile_bytes
DERIVED = {
    "pico": (4, 4, 18, 11, 512, 128, 4, 16),
    "nano": (4, 4, 18, 17, 32768, 512, 4, 16),
    "micro": (8, 8, 19, 15, 4096, 1024, 4, 64),
    "edge": (16, 16, 20, 17, 8192, 1024, 2, 256),
    "transformer": (16, 16, 20, 17, 8192, 1024, 2, 256),
    "tpu_v1": (256, 256, 24, 25, 98304, 4096, 1, 65536),
    "tpu_32": (32, 32, 21, 19, 12288, 4096, 2, 1024),
    "tpu_64": (64, 64, 22, 21, 24576, 4096, 4, 4096),
    "tpu_128": (128, 128, 23, 23, 49152, 4096, 8, 16384),
}


@pytest.mark.parametrize("name", PRESETS)
def test_what_derives_from_the_sizes(name: str):
    c = PRESETS[name]
    assert c.name == name
    sizes = (c.rows, c.columns, c.sum_bits, c.address_bits)
    assert DERIVED[name] == (*sizes, c.unified_rows, c.accumulator_rows, c.groups, c.tile_bytes)
    # The largest partial sum that a column of the array can hold.
    assert c.rows * 128 * 128 < 1 << (c.sum_bits - 1)


def test_tile_rows_are_padded_to_whole_beats():
    narrow = replace(EDGE, columns=24, lanes=8, bus_bytes=16)
    assert narrow.tile_row_bytes == 32
    assert narrow.tile_bytes == 16 * 32


def test_fingerprint_differs_by_program():
    fingerprints = {config.fingerprint for config in PRESETS.values()}
    assert len(fingerprints) == len(PRESETS)
    assert all(0 <= fingerprint < 1 << 32 for fingerprint in fingerprints)
    assert preset("edge").fingerprint == replace(EDGE).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        *("weight_rows=4", "queue_depth=8", "burst_beats=8", "outstanding=4", "dsp_columns=1"),
        *("cells=pair", "protection=parity", "requantizer=sequential"),
        *("links=register", "skips=serial", "counters=none", "counters=luts"),
    ],
)
def test_fingerprint_leaves_out_what_programs_cannot_see(change: str):
    assert preset(f"edge,{change}").fingerprint == EDGE.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        *("columns=8", "unified_bytes=65536", "weight_tiles=511", "accumulator_depth=256"),
        *("lanes=4", "bus_bytes=8", "parameter_channels=512", "tables=3"),
        "activation_weights=true",
        "softmax=true",
    ],
)
def test_fingerprint_covers_what_programs_see(change: str):
    assert preset(f"edge,{change}").fingerprint != EDGE.fingerprint


def test_protection_is_off_by_default():
    assert not any(config.parity for config in PRESETS.values())
    assert preset("edge,protection=parity").parity


def test_requantizers_are_pipelined_by_default():
    assert [name for name, c in PRESETS.items() if c.group_cycles > 1] == ["pico"]
    assert preset("nano,requantizer=sequential").group_cycles == 23


def test_small_forms():
    assert [name for name, config in PRESETS.items() if not config.skid] == ["pico", "nano"]
    assert [name for name, config in PRESETS.items() if config.serial_skips] == ["pico", "nano"]
    assert [name for name, config in PRESETS.items() if not config.counts] == ["pico"]
    assert not preset("edge,counters=none").counts
    assert preset("edge,links=register").skid is False


@pytest.mark.parametrize(
    ("text", "forwards"),
    [("nano", False), ("nano,weight_rows=2", True), ("edge", False), ("edge,weight_rows=8", True)],
)
def test_sums_are_forwarded_where_tiles_load_faster_than_a_sum_is_added(text, forwards):
    assert preset(text).forwards is forwards


@pytest.mark.parametrize("option", [*OPTIONS.values(), "elementwise_products"])
def test_options_that_are_off_leave_no_trace(option: str):
    assert [name for name in PRESETS if getattr(PRESETS[name], option)] == ["transformer"]
    assert preset(f"edge,{option}=false").fingerprint == EDGE.fingerprint
    assert option not in EDGE.given()
    assert preset(f"edge,{option}=true").given()[option] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("protection=parity", "protection: wanted none on a core with softmax, got 'parity'"),
        ("requantizer=sequential", "requantizer: wanted pipelined on a core with softmax"),
    ],
)
def test_softmax_needs_words_without_parity_and_the_pipelined_requantizer(change, message):
    with pytest.raises(ValueError, match=message):
        preset(f"edge,softmax=true,{change}")


def test_presets_can_be_changed_by_name():
    name = "edge,columns=8,weight_rows=4"
    assert asdict(preset(name)) == asdict(EDGE) | {"name": name, "columns": 8, "weight_rows": 4}
    assert preset("nano") is PRESETS["nano"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mega",
            "preset: wanted one of pico, nano, micro, edge, tpu_v1, tpu_32, tpu_64, tpu_128, transformer, got 'mega'",
        ),
        ("", "preset: wanted one of pico, nano"),
        ("edge,colour=3", "preset: wanted one of rows, columns, .*, got 'colour=3'"),
        ("edge,name=3", "preset: wanted one of rows, .*, got 'name=3'"),
        ("edge,columns", "preset: columns: wanted a whole number, got ''"),
        ("edge,columns=x", "preset: columns: wanted a whole number, got 'x'"),
        ("edge,columns=-8", "preset: columns: wanted a whole number, got '-8'"),
        ("edge,activation_weights=1", "activation_weights: wanted true or false, got '1'"),
        ("edge,rows=3", "rows: wanted a power of two"),
    ],
)
def test_what_is_no_preset(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        preset(text)


def test_sizes_cannot_change():
    with pytest.raises(FrozenInstanceError):
        EDGE.rows = 8  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("field", "size"),
    [
        ("unified_bytes", 1 << 27),
        ("weight_tiles", 1 << 16),
        ("accumulator_depth", 1 << 16),
        ("parameter_channels", 1 << 16),
        ("columns", 1 << 16),
    ],
)
def test_sizes_that_instructions_cannot_name(field: str, size: int):
    with pytest.raises(ValueError, match=f"{field}: wanted at most .* got {size}"):
        replace(EDGE, **{field: size})
