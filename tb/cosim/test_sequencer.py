from celosia.hw.arch.config import Config


def test_programs(cosim):
    config = Config(
        rows=8,
        columns=8,
        unified_bytes=512,
        weight_tiles=12,
        accumulator_depth=16,
        lanes=2,
        bus_bytes=8,
        parameter_channels=16,
        tables=3,
        queue_depth=3,
        burst_beats=8,
    )
    cosim("sequencer", config, programs=2, illegal=10, stall=0.3)
