"""Cores that benches simulate."""

_SQUARE = (
    "nano,unified_bytes=256,weight_tiles=12,accumulator_depth=16,weight_rows=2,bus_bytes=4,"
    "parameter_channels=32,burst_beats=8,outstanding=4"
)
#: Sizes of small cores: two without options, one without what takes area, one with all units'
#: options, one with memories that are protected; two with cells that are no plain Verilog, and a
#: column or two of those in logic.
CORES = {
    "square": _SQUARE,
    "wide": (
        "micro,columns=12,unified_bytes=512,weight_tiles=8,accumulator_depth=16,lanes=4,"
        "parameter_channels=16,tables=2,queue_depth=3,dsp_columns=5"
    ),
    "least": (
        "pico,unified_bytes=256,weight_tiles=6,accumulator_depth=8,parameter_channels=8,"
        "columns=6,dsp_columns=3,lanes=2,burst_beats=4"
    ),
    "complete": (
        "micro,unified_bytes=512,weight_tiles=8,accumulator_depth=16,weight_rows=4,lanes=4,"
        "columns=16,parameter_channels=32,bus_bytes=4,activation_weights=true,softmax=true,"
        "elementwise_products=true"
    ),
    "protected": (
        "nano,unified_bytes=256,weight_tiles=8,accumulator_depth=16,weight_rows=2,columns=3,"
        "dsp_columns=2,"
        "parameter_channels=16,links=skid,skips=parallel,protection=parity,"
        "activation_weights=true,elementwise_products=true"
    ),
    "pair": f"{_SQUARE},columns=6,cells=pair,dsp_columns=4".replace("rows=2", "rows=4"),
    "ecp5": f"{_SQUARE},columns=5,cells=ecp5,dsp_columns=4",
}
