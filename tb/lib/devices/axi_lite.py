"""AXI4-Lite master for Amaranth simulations."""

from typing import Any

from pysim import Draws, rest


class AxiLiteHost:
    """Master that rests at random and sends address and data in any order.

    ``bus``: the slave's bus; ``rng``: random numbers of ``stall`` and of the order; ``stall``:
    probability of a further cycle before each transfer, 0 to below 1.
    """

    def __init__(self, bus: Any, rng: Draws | None = None, stall: float = 0.0) -> None:
        self.bus = bus
        self.rng = rng
        self.stall = stall

    async def transfer(self, ctx: Any, valid: Any, ready: Any, **payload: int) -> None:
        """Offer a payload on one channel until it is taken."""
        await rest(ctx, self.rng, self.stall)
        for name, value in payload.items():
            ctx.set(getattr(self.bus, name), value)
        ctx.set(valid, 1)
        await ctx.tick().until(ready)
        ctx.set(valid, 0)

    async def read(self, ctx: Any, address: int) -> tuple[int, int]:
        """Read a word; return it and the response."""
        bus = self.bus
        await self.transfer(ctx, bus.arvalid, bus.arready, araddr=address)
        await rest(ctx, self.rng, self.stall)
        ctx.set(bus.rready, 1)
        data, response = await ctx.tick().sample(bus.rdata, bus.rresp).until(bus.rvalid)
        ctx.set(bus.rready, 0)
        return data, response

    async def write(self, ctx: Any, address: int, value: int, strobes: int = 15) -> int:
        """Write a word; return the response."""
        bus = self.bus
        parts = [
            (bus.awvalid, bus.awready, {"awaddr": address}),
            (bus.wvalid, bus.wready, {"wdata": value, "wstrb": strobes}),
        ]
        if self.rng is not None and self.rng.random() < 0.5:
            parts.reverse()
        for valid, ready, payload in parts:
            await self.transfer(ctx, valid, ready, **payload)
        await rest(ctx, self.rng, self.stall)
        ctx.set(bus.bready, 1)
        (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
        ctx.set(bus.bready, 0)
        return response
