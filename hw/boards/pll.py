"""Settings of the parts' phase-locked loops."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Settings of a loop: frequencies in Hz, factors as ranges or tuples.

    The oscillator divided by ``reference`` meets the loop's own clock divided by ``feedback`` and
    ``feedback_output``; its output divided by ``output`` is what comes out.

    Parameters
    ----------
    input_hz, compare_hz, loop_hz : (int, int)
        Least and greatest frequency of the oscillator, at the phase detector, of the loop.
    reference, feedback, feedback_output, output : sequence of int
        Factors.
    steps : int
        Steps of an output's lag in a cycle of the loop, or in one of the output if ``shared``.
    shared : bool
        ``feedback_output`` and ``output`` are the same divider.
    """

    input_hz: tuple[int, int]
    compare_hz: tuple[int, int]
    loop_hz: tuple[int, int]
    reference: range | tuple[int, ...]
    feedback: range | tuple[int, ...]
    feedback_output: range | tuple[int, ...]
    output: range | tuple[int, ...]
    steps: int
    shared: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Factors of a loop, named as in :class:`Limits`, and the frequencies they give, in Hz."""

    reference: int
    feedback: int
    feedback_output: int
    output: int
    loop_hz: Fraction
    output_hz: Fraction


#: ECP5 family data sheet, sysCLOCK PLL timing. The feedback is another output of the loop.
ECP5 = Limits(
    input_hz=(8_000_000, 400_000_000),
    compare_hz=(10_000_000, 400_000_000),
    loop_hz=(400_000_000, 800_000_000),
    reference=range(1, 129),
    feedback=(1,),
    feedback_output=range(1, 81),
    output=range(1, 129),
    steps=8,
)

#: GW2A series data sheet, PLL switching characteristics, speed C8.
GOWIN = Limits(
    input_hz=(3_000_000, 500_000_000),
    compare_hz=(3_000_000, 500_000_000),
    loop_hz=(500_000_000, 1_250_000_000),
    reference=range(1, 65),
    feedback=range(1, 65),
    feedback_output=(2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128),
    output=(2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128),
    steps=16,
    shared=True,
)

#: By family of parts.
LIMITS = {"ECP5": ECP5, "Gowin": GOWIN}


def settings(limits: Limits, *, oscillator_hz: int, clock_hz: int) -> Settings:
    """Return factors that make ``clock_hz`` out of ``oscillator_hz``, rounded to a whole Hz.

    Of all that do, those with the fastest phase detector, then with the loop nearest the middle of
    its range: least jitter.

    Raises
    ------
    ValueError
        If the oscillator is out of range, or there are no such factors.

    Examples
    --------
    >>> found = settings(ECP5, oscillator_hz=25_000_000, clock_hz=120_000_000)
    >>> found.reference, found.feedback_output, found.output, int(found.loop_hz)
    (1, 24, 5, 600000000)
    """
    least, most = limits.input_hz
    if not least <= oscillator_hz <= most:
        raise ValueError(f"oscillator_hz: wanted {least} to {most}, got {oscillator_hz}")
    if clock_hz <= 0:
        raise ValueError(f"clock_hz: wanted more than 0, got {clock_hz}")
    middle = sum(limits.loop_hz) // 2
    possible = [
        (reference, abs(loop - middle), feedback, back, output, round(loop / output))
        for reference in limits.reference
        if limits.compare_hz[0] <= Fraction(oscillator_hz, reference) <= limits.compare_hz[1]
        for feedback in limits.feedback
        for back in limits.feedback_output
        if (loop := Fraction(oscillator_hz * feedback * back, reference)) <= limits.loop_hz[1]
        if limits.loop_hz[0] <= loop
        for output in ((back,) if limits.shared else limits.output)
    ]
    found = [factors for factors in possible if factors[-1] == clock_hz]
    if not found:
        made = [factors[-1] for factors in possible]
        nearest = min(made, key=lambda hertz: (abs(hertz - clock_hz), hertz))
        raise ValueError(
            f"clock_hz: wanted a frequency that the loop makes of {oscillator_hz}, {nearest} for "
            f"instance, got {clock_hz}"
        )
    reference, _, feedback, back, output, _ = min(found)
    return Settings(
        reference=reference,
        feedback=feedback,
        feedback_output=back,
        output=output,
        loop_hz=Fraction(oscillator_hz * feedback * back, reference),
        output_hz=Fraction(oscillator_hz * feedback * back, reference * output),
    )


def lag(limits: Limits, found: Settings, *, lead_ns: float) -> int:
    """Return the steps by which an output lags that rises ``lead_ns`` before the other one.

    Parameters
    ----------
    limits, found : Limits, Settings
        The loop, and what it is set to.
    lead_ns : float
        At least 0, less than a period.

    Raises
    ------
    ValueError
        If the lead is out of range.

    Examples
    --------
    >>> found = settings(ECP5, oscillator_hz=25_000_000, clock_hz=75_000_000)
    >>> int(found.loop_hz), found.output, lag(ECP5, found, lead_ns=2.0)
    (600000000, 8, 54)
    """
    cycles = 1 if limits.shared else found.output
    lead = float(found.output_hz) * lead_ns / 1e9
    if not 0 <= lead < 1:
        raise ValueError(f"lead_ns: wanted 0 to less than a period, got {lead_ns}")
    steps = cycles * limits.steps
    return round((1 - lead) * steps) % steps
