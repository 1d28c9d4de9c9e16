"""Elements out of the responses to reads, in the order of the requests."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_sizes import sizes

from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.responses import Responses
from celosia.hw.vector.task import VectorSizes

FIELDS = ("first", "last", "groups_last")


@pytest.mark.parametrize("name", ["nano", "wide", "tall"])
async def test_responses(name: str, rng: np.random.Generator) -> None:
    """One kind of read after the other; a slow unified buffer leaves no space at times."""
    given = sizes(name)
    del given["bus_bytes"]
    shape = VectorSizes(**given)
    dut = Responses(sizes=shape)
    reset = Signal()

    async def episode(ctx: Any, kind: str, latency: int, share: float) -> None:
        # Requests, and the cycles until their responses.
        awaited: deque[list[Any]] = deque()
        for cycle in range(60):
            request = {
                "first": int(rng.integers(2)),
                "last": int(rng.integers(2)),
                "groups_last": int(rng.integers(shape.column_groups)),
                "outside": int(rng.random() < 0.2),
            }
            for one in awaited:
                one[1] -= 1
            arrives = bool(awaited) and awaited[0][1] == 0
            assert ctx.get(dut.quiet) == (not awaited)
            assert ctx.get(dut.space) == (kind != "unified" or len(awaited) < Responses.DEPTH)
            requests = cycle < 35 and bool(ctx.get(dut.space)) and bool(rng.random() < share)
            bytes_ = rng.integers(0, 256, shape.rows)
            sums = rng.integers(-(2**31), 2**31, shape.columns)
            fault = bool(rng.integers(2))
            ctx.set(dut.request, request)
            for one in ("unified", "accumulators", "nothing"):
                ctx.set(getattr(dut, f"request_{one}"), requests and kind == one)
            ctx.set(dut.read_valid, arrives and kind == "unified")
            ctx.set(dut.read_data, bytes_.tolist())
            ctx.set(dut.read_fault, fault)
            ctx.set(dut.sums, sums.tolist())
            element = ctx.get(dut.element)
            assert element.valid == arrives
            if arrives:
                now, _ = awaited.popleft()
                wanted = sums[: 0 if kind == "nothing" else None]
                if kind == "unified":
                    wanted = bytes_.astype(np.uint8).view(np.int8)[: shape.columns]
                    wanted = wanted[: shape.lanes * shape.read_groups]
                assert [element[field] for field in FIELDS] == [now[field] for field in FIELDS]
                assert element.fault == bool(now["outside"] or (kind == "unified" and fault))
                assert list(element["values"])[: len(wanted)] == wanted.tolist()
            if requests:
                awaited.append([request, latency])
            await ctx.tick()
        assert not awaited

    async def after_a_reset(ctx: Any) -> None:
        for kind in ("unified", "accumulators", "nothing"):
            ctx.set(getattr(dut, f"request_{kind}"), 1)
            await ctx.tick()
            ctx.set(getattr(dut, f"request_{kind}"), 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            for _ in range(4):
                assert ctx.get(dut.quiet) and not ctx.get(dut.element.valid)
                await ctx.tick()

    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    await after_a_reset(ctx)
    for latency, share in ((2, 1.0), (5, 0.5), (6, 1.0), (22, 1.0)):
        await episode(ctx, "unified", latency, share)
        await episode(ctx, "accumulators", ACCUMULATOR_LATENCY, share)
        await episode(ctx, "nothing", 1, share)
