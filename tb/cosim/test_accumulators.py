import pytest

from celosia.hw.arch.config import Config


@pytest.mark.parametrize(("rows", "columns", "depth"), [(4, 3, 16), (8, 6, 4)])
def test_random_operations(cosim, rows, columns, depth):
    config = Config(
        rows=rows,
        columns=columns,
        unified_bytes=64 * rows,
        weight_tiles=2,
        accumulator_depth=depth,
        lanes=1,
        bus_bytes=4,
        parameter_channels=1,
    )
    cosim("accumulators", config, phases=60)
