"""Choices of the compiler that no rule decides: one constant each, with its reason.

Costs are the estimator's (``celosia.sim.timing.costs``). Figures in brackets are measurements: the
change of the estimated cycles of a golden network if the constant is half as large, and twice as
large. "No effect" is that on ten golden networks; such a constant matters to others.
"""

from celosia.sim.timing.costs import COSTS

# Memories.

#: A share 1 / n of the weight buffer is the ring for streamed tiles. A smaller ring leaves space
#: for resident tiles, a larger one bridges more layers (``mnist_a``: +0.7 %, +0.3 %;
#: ``ad01_int8``: +3.4 %, −0.1 %).
RING_SHARE = 4
#: Fetches that a ring of constants holds: more are shorter and wait for memory in turn, fewer free
#: their slots late (``ad01_int8``: +0.5 %, −0.1 %; ``mnist_c``: −0.1 %, +0.1 %).
RING_FETCHES = 8
#: Instructions whose tiles a ring holds, if their taps lie in several rows (``mnist_a``: +0.7 %,
#: +0.1 %).
RING_READS = 4
#: A share 1 / n of a ring may hold constants for a later use; the rest is free for fetches.
RING_HELD = 3
#: A share 1 / n of the weight buffer, at most, is for tiles made of activations (no effect).
SCRATCH_SHARE = 4
#: A share 1 / n of the weight buffer, at most, is for such tiles that several layers multiply.
SHARED_SHARE = 2
#: Parts in which results of a step graph are stored while the next layer runs.
LATE_STORES = 8
#: Bytes of such results, at least.
LATE_BYTES = 4096
#: Shares of the unified buffer up to which they stay so long: the first with which all values fit.
LATE_SHARES = (0.9, 0.75, 0.6, 0.0)
#: Regions of such tiles that are filled in turn (``mnist_vit``: +0.4 %, +1.5 %).
SCRATCH_TURNS = 4
#: Turns, at least, of a chain of layers whose rows pass from one to the next: each layer begins
#: after one turn of the layer before.
CHAIN_TURNS = 6
#: Layers of a chain, at most.
CHAIN_LAYERS = 8
#: A share 1 / 2ⁿ of the unified buffer remains free in each further search for addresses.
CHAIN_SLACK = (5, 4, 3)
#: A share 1 / n of the cycles of the second busiest unit that the busiest one waits (1 / 6 to 1 / 2
#: in ten layers and chains of MobileNetV1).
WAITED = 3
#: Cycles that a layer waits at the start of a turn, about.
TURN_CYCLES = 40

# Bands.

#: A share 1 / n of the weight buffer, at most, streams for one instruction of a band.
BAND_SHARE = 16
#: Times that each layer chooses its band: the best one depends on those of the others (no
#: effect).
BAND_TURNS = 2
#: Least cycles of the array for a block of a band, if jobs of the next layer come between.
BAND_CYCLES = 300
#: Cycles of the array after which no more tiles of a band share a half of the accumulators.
BAND_TILES = 450
#: Output tiles that start on the channels of a band whose last drains are not over
#: (``kws_ref_model``: +0.2 %, +11.6 %).
AFTER_BAND = 2

# Blocks of results.

#: Pixels of a block without pooling, in rows of a tile: the next layer starts early, and little is
#: left to drain at the end. Pooling drains fast enough with large blocks (``kws_ref_model``:
#: +1.7 %, +0.5 %; ``mnist_c``: 0, +3.9 %).
BLOCK_TILES = 4
#: Cycles of the array in which the sums of a small last block drain, additions included
#: (``pretrainedResnet_quant``: +0.6 %, +1.6 %).
LAST_BLOCK = 450
#: Sums of a block that drain no faster than they are made, if the next layer overlaps (``mnist_d``:
#: +0.4 %, +0.7 %).
SLOW_SUMS = 256

#: Latest drains, at most, that the start of a job is compared with.
RECENT_DRAINS = 64

# Loads and stores.

#: Words of an instruction, one a cycle: 3.1 to 4.6 in the shipped networks, rounded up (no effect).
INSTRUCTION_WORDS = 5
#: Words of an instruction of a band.
BAND_WORDS = 2 * INSTRUCTION_WORDS
#: Cycles from the request of a stage of an input to its first use (``mnist_mlp``: 0, +2.1 %), and
#: the share of the array's cycles in which the next stage must arrive.
STAGE_LATENCY = 2 * COSTS.memory
STAGE_BUSY = 0.75
#: Taps of the first stage of an input, at least; shares 1 / n of all steps of a reduction that the
#: first stage and each later one have, at least.
STAGE_TAPS = 16
FIRST_STAGE = 64
LATER_STAGE = 16
#: Bytes of an image in the first load, and in each other: few at first, so that the
#: array starts (``fashion_b``: +0.5 %, +0.1 %; ``pretrainedResnet_quant``: 0, +0.1 %).
FIRST_BYTES = 192
LOAD_BYTES = 1024
#: Bytes of the rows of a stripe in each load: others come between them.
STRIPE_BYTES = 2048
#: Steps of a vector that are loaded before the others (no effect).
FIRST_STEPS = 4
#: Output tiles that share one pass over an input that is still being loaded (``mnist_mlp``: +0.6 %,
#: +5.5 %).
ARRIVING_TILES = 4
#: Bytes, at least, of a store of a result of many tiles: a long burst, and little left at the end.
STORE_BYTES = 64
#: Portions of the margins of a value, filled while inputs arrive.
MARGIN_FILLS = 6

# Length of programs.

#: Instructions of a part for one batch, at most: about a minute and a gigabyte for the compiler.
PART_INSTRUCTIONS = 1 << 19
#: A share 1 / n of them remains free when a batch is advised: instructions are not quite in
#: proportion to samples.
SPARE_INSTRUCTIONS = 10

#: Layers before its first reader from which on an input of a batched layer has its bytes.
LEAD_LAYERS = 3
#: Shares of the unified buffer up to which it has them: the first one with which all values fit.
EARLY_SHARES = (1.0, 0.9, 0.8)
#: Trials of layers after which the next one may begin early, one by one, times the layers of the
#: network: each takes the compiler as long as all before.
END_TRIALS = 1 << 14
