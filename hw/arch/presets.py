"""Presets of a core, and a preset with changes from text."""

from dataclasses import fields, replace

from celosia.hw.arch.config import Config

PRESETS = {
    config.name: config
    for config in (
        Config(
            name="pico",
            rows=4,
            columns=4,
            unified_bytes=2048,
            weight_tiles=64,
            accumulator_depth=64,
            lanes=1,
            bus_bytes=4,
            parameter_channels=64,
            queue_depth=3,
            outstanding=2,
            dsp_columns=4,
            requantizer="sequential",
            links="register",
            skips="serial",
            counters="none",
        ),
        Config(
            name="nano",
            rows=4,
            columns=4,
            unified_bytes=128 * 1024,
            weight_tiles=256,
            accumulator_depth=256,
            lanes=1,
            bus_bytes=4,
            parameter_channels=256,
            queue_depth=4,
            outstanding=8,
            dsp_columns=4,
            links="register",
            skips="serial",
        ),
        Config(
            name="micro",
            rows=8,
            columns=8,
            unified_bytes=32 * 1024,
            weight_tiles=512,
            accumulator_depth=512,
            lanes=2,
            bus_bytes=8,
            parameter_channels=512,
            dsp_columns=2,
        ),
        Config(
            name="edge",
            rows=16,
            columns=16,
            unified_bytes=128 * 1024,
            weight_tiles=512,
            accumulator_depth=512,
            lanes=8,
            bus_bytes=16,
            parameter_channels=1024,
            tables=4,
            dsp_columns=7,
        ),
        Config(
            name="tpu_v1",
            rows=256,
            columns=256,
            unified_bytes=24 * 1024 * 1024,
            weight_tiles=4,
            accumulator_depth=2048,
            lanes=256,
            bus_bytes=64,
            parameter_channels=4096,
            tables=4,
            burst_beats=64,
            dsp_columns=256,
        ),
    )
}

#: `tpu_v1` with smaller arrays and fewer requantisers.
PRESETS |= {
    f"tpu_{rows}": replace(
        PRESETS["tpu_v1"],
        name=f"tpu_{rows}",
        rows=rows,
        columns=rows,
        unified_bytes=24 * rows**2 << 4,
        lanes=16,
        bus_bytes=max(16, rows // 4),
        burst_beats=16,
        dsp_columns=rows,
    )
    for rows in (32, 64, 128)
}

#: `edge` with everything that transformers need.
PRESETS["transformer"] = replace(
    PRESETS["edge"],
    name="transformer",
    activation_weights=True,
    elementwise_products=True,
    softmax=True,
)


def _value(key: str, kind: object, text: str) -> int | str:
    """Return the value of a field of type ``kind`` that ``text`` gives."""
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"preset: {key}: wanted true or false, got {text!r}")
        return text == "true"
    if kind is int and not text.isdecimal():
        raise ValueError(f"preset: {key}: wanted a whole number, got {text!r}")
    return int(text) if kind is int else text


def preset(text: str) -> Config:
    """Return the preset named in ``text``, with the changes that follow the name.

    Parameters
    ----------
    text : str
        A name, then any number of ``,field=value``, for instance ``edge,weight_rows=4``.

    Raises
    ------
    ValueError
        If the preset or a field does not exist, or the sizes are refused by ``Config``.

    Examples
    --------
    >>> preset("edge,columns=8").columns
    8
    """
    name, *changes = text.split(",")
    if name not in PRESETS:
        raise ValueError(f"preset: wanted one of {', '.join(PRESETS)}, got {name!r}")
    if not changes:
        return PRESETS[name]
    known = {field.name: field.type for field in fields(Config) if field.name != "name"}
    values: dict[str, int | str] = {}
    for change in changes:
        key, _, value = change.partition("=")
        if key not in known:
            raise ValueError(f"preset: wanted one of {', '.join(known)}, got {change!r}")
        values[key] = _value(key, known[key], value)
    return replace(PRESETS[name], name=text, **values)  # pyright: ignore[reportArgumentType]
