from celosia.hw.arch.config import preset


def test_programs(cosim):
    config = preset(
        "micro,unified_bytes=512,weight_tiles=12,accumulator_depth=16,parameter_channels=16,tables=3,"
        "queue_depth=3,burst_beats=8,dsp_columns=0"
    )
    cosim("sequencer", config, programs=2, illegal=10, stall=0.3)
