"""Provenance check: instructions read the tensors they want; faults that it finds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import Chain, Depthwise, FullyConnected, Pool, Reshape, serialize, write_sequential
from whole_networks.small import convolution

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import PRESETS, preset
from celosia.sw.compiler import arrange
from celosia.sw.compiler import compile as passes
from celosia.sw.compiler.emit.access import Owner, Step
from celosia.sw.compiler.layout.placement import Placement
from celosia.sw.compiler.provenance import Displaced, follow
from celosia.sw.compiler.schedule.actions import Action, Drain, LoadRegion, StoreRegion, Stripe
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError

NANO = PRESETS["nano"]
MODELS = Path(passes.__file__).parents[1] / "models"


class Named:
    """A network of which only the name of a layer is used."""

    layers = (type("Layer", (), {"name": "some layer"})(),)


def loads(start: int, count: int, value: int, items: tuple[int, int] = (0, 1)) -> Step:
    instruction = Instruction(Opcode.LOAD, unified=start, length=count)
    return Step(instruction, (), 0, writes=Owner(value, items))


def stores(start: int, count: int, value: int, items: tuple[int, int] = (0, 1)) -> Step:
    instruction = Instruction(Opcode.STORE, unified=start, length=count)
    return Step(instruction, (), 0, reads=Owner(value, items))


def margin(start: int, count: int, value: int) -> Step:
    instruction = Instruction(Opcode.FILL, channels=count, destination_base=start)
    return Step(instruction, (), 0, writes=Owner(value, (0, 1), margins=True))


def followed(main: Sequence[Step], setup: Sequence[Step] = ()) -> str:
    """Return the message about a program; empty if there is none."""
    network: Any = Named()
    try:
        follow(setup, main, network, NANO)
    except CompileError as error:
        assert isinstance(error.__cause__, Displaced)
        return str(error)
    return ""


def test_what_was_written_is_read() -> None:
    assert followed([loads(0, 8, 0), loads(8, 8, 0), stores(0, 16, 0)]) == ""
    assert followed([loads(0, 8, 0), stores(0, 8, 0), loads(0, 8, 1), stores(0, 8, 1)]) == ""
    assert followed([loads(0, 8, 0, (0, 4)), stores(2, 1, 0, (3, 4))]) == ""


@pytest.mark.parametrize(
    ("main", "place", "what"),
    [
        # The value of another, the same of another item, nothing at all.
        ([loads(0, 8, 0), loads(7, 2, 1), stores(0, 8, 0)], 7, "value 1 of items 0 to 0"),
        ([loads(0, 8, 0, (1, 3)), stores(0, 8, 0)], 0, "value 0 of items 1 to 2"),
        ([loads(0, 8, 0, (0, 2)), stores(0, 8, 0, (2, 3))], 0, "value 0 of items 0 to 1"),
        ([loads(0, 8, 0), stores(0, 9, 0)], 8, "nothing of this run"),
        ([loads(0, 8, 0), margin(3, 1, 1), stores(0, 8, 0)], 3, "a margin of value 1"),
    ],
)
def test_what_is_not_there_any_more_is_named(main: list[Step], place: int, what: str) -> None:
    printed = followed(main)
    assert printed.startswith("program, STORE of some layer: reads byte ")
    assert f"byte {place} of the unified buffer" in printed and printed.endswith(f"where {what} is")


def test_places_between_what_is_read_may_hold_anything() -> None:
    fields = {"unified": 0, "length": 2, "rows": 3, "unified_pitch": 4, "external_pitch": 2}
    rows = Step(Instruction(Opcode.STORE, **fields), (), 0, reads=Owner(0, (0, 1)))
    between = [loads(start, 2, 1) for start in (2, 6)]
    assert followed([loads(0, 12, 0), *between, rows]) == ""
    assert "reads byte 5 " in followed([loads(0, 12, 0), *between, loads(5, 1, 2), rows])


def test_rows_of_another_strip_are_named() -> None:
    """A buffer whose rows are moved on holds nothing of the strip before."""
    first, second = (Stripe(layer=1, turn=0, first=row) for row in (0, 4))
    load = loads(0, 8, 0)._replace(writes=Owner(0, (0, 1), stripe=first))
    reads = [stores(0, 8, 0)._replace(reads=Owner(0, (0, 1), stripe=x)) for x in (first, second)]
    assert followed([load, reads[0]]) == ""
    assert "reads byte 0 " in followed([load, reads[1]])
    assert "reads byte 0 " in followed([loads(0, 8, 0), reads[0]])


def test_margins_of_the_setup_are_there_in_each_run() -> None:
    """And are for all items; what overwrites them is seen by the next run."""
    reads = stores(0, 4, 3, (5, 6))
    assert followed([reads], [margin(0, 4, 3)]) == ""
    printed = followed([reads, loads(2, 1, 1)], [margin(0, 4, 3)])
    assert "reads byte 2 " in printed and printed.endswith("where nothing of this run is")
    # What a run leaves is nothing for the next to rely on.
    assert followed([stores(0, 4, 3), loads(0, 4, 3)]).endswith("where nothing of this run is")


def depthwise(channels: int, size: int, **changes: Any) -> Depthwise:
    weights = np.ones((1, size, size, channels), np.int8)
    return Depthwise(weights=weights, weight_scale=0.5, output_scale=0.5, **changes)


#: A band at the end, and hardly more room than for one item: seed 11856 of tb/e2e.
LAYERS = [depthwise(20, 3, padding="VALID"), depthwise(20, 3, padding="SAME", dilation=(2, 2))]
BANDS = load(write_sequential(LAYERS, input_shape=(1, 12, 12, 20), input_scale=0.5))
TIGHT = preset("micro,unified_bytes=8192")


def planted(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any], user: Any = passes
) -> Callable[..., str]:
    """Let a pass give what ``change`` makes of its result; return what compiles then.

    ``user``: the module that uses the pass.
    """
    right = getattr(user, name)
    monkeypatch.setattr(user, name, lambda *given: change(right(*given)))

    def compiled(graph: Any, config: Any, batch: int) -> str:
        with pytest.raises(CompileError) as caught:
            passes.compile_graph(graph, config, batch)
        assert isinstance(caught.value.__cause__, Displaced)
        return str(caught.value)

    return compiled


def test_a_load_over_an_output_that_is_not_stored_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of the second item come before the last drain of the first, as they once did."""
    passes.compile_graph(BANDS, TIGHT, 2)

    def early(actions: list[Action]) -> list[Action]:
        second = next(
            n for n, a in enumerate(actions) if isinstance(a, LoadRegion) and a.region.samples[0]
        )
        drain = max(n for n in range(second) if isinstance(actions[n], Drain))
        rest = [a for a in actions[drain:second] if not isinstance(a, LoadRegion)]
        first = [a for a in actions[second:] if isinstance(a, LoadRegion)]
        behind = [a for a in actions[second:] if not isinstance(a, LoadRegion)]
        return [*actions[:drain], *first, *rest, *behind]

    printed = planted(monkeypatch, "schedule", early)(BANDS, TIGHT, 2)
    assert printed.startswith("program, STORE of ") and "value 0 of items 1 to 1" in printed


@pytest.mark.parametrize("batch", [1, 2])
def test_an_output_of_an_early_layer_stays(batch: int) -> None:
    """The next layer loads its input before the last rows of that output are there."""
    chain = Chain((1, 12, 12, 20), 0.5)
    depthwise(20, 3, padding="VALID").add(chain)
    chain.input("second", (1, 14, 14, 20), 0.5)
    depthwise(20, 3, padding="VALID").add(chain)
    graph = load(serialize(chain.graph()))
    program = passes.compile_graph(graph, preset("micro,unified_bytes=10240"), batch)
    assert [port.name for port in program.outputs] == ["output_0", "output_1"]


@pytest.mark.parametrize(("size", "channels", "batch"), [(16, 4, 2), (16, 4, 4), (12, 8, 4)])
def test_what_all_samples_share_stays(size: int, channels: int, batch: int) -> None:
    """Layers that run by sample go on with other samples after a value for the batched ones."""
    taps = (size // 2) ** 2 * channels
    layers: list[Any] = [convolution(channels, 3, depth) for depth in (1, channels)]
    last = FullyConnected(weights=np.ones((10, taps), np.int8), weight_scale=0.01, output_scale=0.5)
    layers += [Pool(), Reshape(shape=(1, taps)), last]
    content = write_sequential(layers, input_shape=(1, size, size, 1), input_scale=0.5)
    config = preset("nano,unified_bytes=1024")
    assert passes.compile_graph(load(content), config, batch).batch == batch


@pytest.mark.parametrize("name", ["mnist_cnn_5x5", "mnist_cnn_deep"])
def test_an_output_stored_before_it_is_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(actions: list[Action]) -> list[Action]:
        last = max(n for n, a in enumerate(actions) if isinstance(a, StoreRegion))
        drain = max(n for n in range(last) if isinstance(actions[n], Drain))
        return [*actions[:drain], actions[last], *actions[drain:last], *actions[last + 1 :]]

    compiled = planted(monkeypatch, "schedule", swapped)
    assert "STORE of " in compiled(load(MODELS / f"{name}.tflite"), preset("edge"), 1)


def test_two_values_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value begins where the first of them does."""

    def moved(placement: Placement) -> Placement:
        values = {
            number: replace(kept, addresses=(0,) * len(kept.addresses))
            for number, kept in placement.values.items()
        }
        return replace(placement, values=values)

    compiled = planted(monkeypatch, "allocate", moved, arrange)
    assert ", where " in compiled(load(MODELS / "mnist_cnn_deep.tflite"), preset("edge"), 1)
