"""Inputs of a model: layout and type are checked, real numbers quantised."""

import hashlib
from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.graph import short_name
from celosia.sw.ir.names import Names
from celosia.sw.ir.parts import Port

#: Pixels 0 to 255 span the range of the input's quantisation.
OWN_RANGE = "own"

#: Range of real numbers that pixels 0 to 255 stand for: low and high, or ``OWN_RANGE``.
Pixels = tuple[float, float] | str


class InputError(ValueError):
    """Inputs of a wrong shape, type or content; the message is one line.

    Attributes
    ----------
    hint : str
        Option of the command line, and argument of ``quantized``, that takes such an input.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def digest_of(arrays: Sequence[np.ndarray]) -> bytes:
    """Return the SHA-256 of the types, shapes and contents of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def names_of(ports: Sequence[Port]) -> Names:
    """Return the names of inputs or outputs, and the other texts that users may give for them."""
    return Names([port.name for port in ports], [port.tensor_name for port in ports])


def label(port: Port) -> str:
    """Return the name of an input in messages."""
    return f"input {short_name(port.name)!r}"


def quantized(
    array: np.ndarray, port: Port, *, flat: bool = False, pixels: Pixels | None = None
) -> np.ndarray:
    """Return inputs as the model takes them.

    Parameters
    ----------
    array : numpy.ndarray
        Shape ``(N, *port.shape)``. Of the port's type, taken unchanged, or float, quantised with
        the input's scale, half away from zero; whole numbers of any type for an input of int32
        or int64 without scale.
    port : Port
        The input.
    flat : bool
        Also take rows of numbers for samples of any shape, and samples of any shape for rows of
        numbers; in row-major order.
    pixels : tuple of float, str or None
        Also take uint8 as pixels of this range, or of the range of an input of int8; pixels of one
        channel may leave out its axis.

    Returns
    -------
    numpy.ndarray
        Of the port's type, shape ``(N, *port.shape)``.

    Raises
    ------
    InputError
        If the array is of another type or shape, empty, or contains no numbers (NaN).
    """
    if port.dtype in ("int32", "int64") and port.scale in (0, 1) and not pixels:
        array = _whole(array, port)
    ranged = pixels is not None and pixels != OWN_RANGE
    are_pixels = array.dtype == np.uint8 and (port.dtype != "uint8" or ranged)
    if array.dtype != port.dtype and array.dtype.kind != "f" and not (are_pixels and pixels):
        either = f"{port.dtype} or float" if port.dtype != "float32" else "float"
        hint = "--pixels" + "=LOW:HIGH" * (port.dtype != "int8") if are_pixels else ""
        raise InputError(f"{label(port)}: wanted {either}, got {array.dtype}", hint)
    array = _laid_out(array, port, flat, bool(are_pixels and pixels))
    if array.dtype == port.dtype and not are_pixels:
        return array
    if are_pixels and pixels:
        if pixels == OWN_RANGE:
            return _own_range(array, port)
        low, high = map(np.float32, pixels)
        array = array * ((high - low) / np.float32(255)) + low
    return _rounded(array, port)


def _whole(array: np.ndarray, port: Port) -> np.ndarray:
    """Return whole numbers of any type in that of a port without scale."""
    if array.dtype.kind not in "iuf" or array.dtype == port.dtype:
        return array
    limits = np.iinfo(port.dtype)
    if array.dtype.kind == "f":
        least, greatest = float(limits.min), -float(limits.min)
        held = (array == np.rint(array)) & (array >= least) & (array < greatest)
    else:
        held = (array >= limits.min) & (array <= limits.max)
    if not held.all():
        raise InputError(
            f"{label(port)}: wanted whole numbers of {port.dtype}, got {array[~held].flat[0]}"
        )
    return array.astype(port.dtype)


def random_samples(rng: np.random.Generator, port: Port, count: int) -> np.ndarray:
    """Return random samples of an input.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the numbers.
    port : Port
        The input.
    count : int
        Number of samples.

    Returns
    -------
    numpy.ndarray
        Of the port's type, shape ``(count, *port.shape)``.
    """
    shape = (count, *port.shape)
    if port.dtype == "float32":
        return rng.normal(0, 64 * port.scale, shape).astype(np.float32)
    limits = np.iinfo(port.dtype)
    return rng.integers(limits.min, limits.max, shape, port.dtype, endpoint=True)


def clipped(array: np.ndarray, port: Port) -> tuple[float, float, float]:
    """Return the share of real numbers that the type of a port cannot hold, and its range.

    Parameters
    ----------
    array : numpy.ndarray
        Float, any shape.
    port : Port
        The input, of whole numbers.

    Returns
    -------
    share : float
        0 to 1.
    low, high : float
        The least and the greatest real number of the port.
    """
    limits = np.iinfo(port.dtype)
    low, high = ((end - port.zero_point) * port.scale for end in (limits.min, limits.max))
    outside = (array < low - port.scale) | (array > high + port.scale)
    return float(outside.mean()), low, high


def _laid_out(array: np.ndarray, port: Port, flat: bool, pixels: bool) -> np.ndarray:
    """Return the array with the axes of the port, refused where it has others."""
    shape = array.shape[1:]
    plain = (port.elements,)
    same = shape == port.shape
    row = np.prod(shape, dtype=np.int64) == port.elements and plain in (shape, port.shape)
    gray = pixels and port.shape == (*shape, 1)
    if array.ndim >= 1 and len(array) and (same or gray or (flat and row)):
        return array.reshape(len(array), *port.shape)
    axes = f"[{', '.join(['N', *map(str, port.shape)])}]"
    reason = ""
    if sorted(shape) == sorted(port.shape) and not same:
        reason = ", the same axes in another order (numpy.transpose)"
    text = f"{label(port)}: wanted shape {axes}, got {list(array.shape)}{reason}"
    raise InputError(text, "--flat" if row and len(array) and not same else "")


def _own_range(array: np.ndarray, port: Port) -> np.ndarray:
    """Return pixels with 0 at the least value of the input, and 255 at the greatest."""
    if port.dtype != "int8":
        text = f"{label(port)}: wanted a range of pixels, because {port.dtype} has none"
        raise InputError(text, "--pixels=LOW:HIGH")
    return (array ^ np.uint8(0x80)).view(np.int8)


def _rounded(array: np.ndarray, port: Port) -> np.ndarray:
    """Return real numbers in the type of the port."""
    if port.dtype == "float32":
        return array.astype(np.float32)
    if np.isnan(array).any():
        raise InputError(f"{label(port)}: wanted numbers, got NaN")
    # TensorFlow Lite divides in single precision.
    with np.errstate(over="ignore"):
        ratio = (array.astype(np.float32) / np.float32(port.scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    limits = np.iinfo(port.dtype)
    return np.clip(rounded + port.zero_point, limits.min, limits.max).astype(port.dtype)
