"""Shifts of a training from what its steps compute: nobody sets them by hand.

Shifts of sums and errors are the least at which calibration images hardly saturate. The shift of an
update keeps it in proportion to its weights. All are watched while the network trains. See
docs/design/training.md.
"""

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from celosia.sw.layers.weight_bytes import LOW_BITS, MOST
from celosia.sw.training.carriers import HostSteps
from celosia.sw.training.graph import StepGraph

#: Steps after which shifts are looked at, and first steps, before each of which they are.
_WATCHED_STEPS, _FIRST_STEPS = 20, 80
#: First steps, in which updates grow, and part of all steps at most.
_WARM_STEPS, _WARM_PART = 40, 0.05
#: Images that calibrate the first shifts.
IMAGES = 128
#: Share of results that is below the limits of first results.
_PERCENTILE = 99.9
_SUM_LIMIT, _LOGIT_LIMIT, _ERROR_LIMIT = 100, 48, 100
#: Least exponent of first logits: that nearest to the real number that a step is for softmax.
_LOGIT_EXPONENT = -3
#: Observations in a row that count; share of saturated results that is too many, in the mean and at
#: once.
_OBSERVATIONS = 5
_SATURATED, _FULL = 0.005, 0.05
#: Sizes below which so many percent of the results are, and that are too small for results of
#: errors, of sums and of logits, in the mean; and the part of them that is too small at once.
_SIZED, _SMALL_ERRORS, _SMALL_SUMS, _SMALL_LOGITS, _TINY = 99.5, 28, 20, 2, 0.5
#: Greatest shift of an update: sums and noise are int32.
_MOST_SHIFT = 24
#: Part of the old mean in that of the sizes of gradients, and in that of losses; loss over its mean
#: after which shifts are looked at.
_KEPT, _KEPT_LOSS, _MUCH = 0.5, 0.9, 2.0
#: Part of the greatest size of a gradient that a later one counts as, at least.
_LEAST_SIZE = 2.0**-2
#: First and last ratio of update and weights: from random weights, and from trained ones; share of
#: right images from which weights are trained. Those that lack a class of ten are not.
_RANDOM, _TRAINED = (2.0**-5.5, 2.0**-9.5), (2.0**-8, 2.0**-11)
_TRAINED_SHARE = 0.85
#: Steps of a training below which updates grow, and how much at most.
_USUAL_STEPS, _MOST_GROWTH = 500, 2.0
#: Greatest root of the mean square of high bytes; results that count as the size of biases, and
#: that size at most.
_MOST_SPREAD, _BIASES, _MOST_BIASES = 48.0, 8.0, 24.0 * (1 << LOW_BITS)


@dataclass
class Calibration:
    """Shifts of a training, and what they rest on.

    - ``shifts``: by role.
    - ``sizes``: of gradients, smoothed, by role.
    - ``greatest``: those sizes at most, in real numbers.
    - ``ends``: last observations of sums and errors: share of saturated results, and
      size that most are below.
    - ``right``: share of the calibration images that the first weights have right.
    - ``loss``: of the steps so far, smoothed. ``is_surprised``: whether the last one had far more.
    """

    shifts: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    greatest: dict[str, float] = field(default_factory=dict)
    ends: dict[str, list[list[float]]] = field(default_factory=dict)
    right: float = 0.0
    loss: float = 0.0
    is_surprised: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, in types of JSON."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, fields: Any, roles: Set[str]) -> "Calibration":
        """Return the calibration of such fields; raises ValueError if they are damaged."""
        calibration = cls(**fields)
        if set(calibration.shifts) not in (set(), set(roles)):
            raise ValueError("roles")
        numbers = [*calibration.sizes.values(), *calibration.greatest.values()]
        numbers += [calibration.right, calibration.loss]
        for rows in calibration.ends.values():
            numbers += [number for share, greatest in rows for number in (share, greatest)]
        good = all(isinstance(number, float) and math.isfinite(number) for number in numbers)
        shifts = calibration.shifts.values()
        good = good and isinstance(calibration.is_surprised, bool)
        if not good or any(type(shift) is not int or not 0 <= shift <= 30 for shift in shifts):
            raise ValueError("numbers")
        return calibration

    def ratio(self, steps: int, total: int) -> float:
        """Return the ratio of update and weights after some of all steps.

        Short trainings have larger updates.
        """
        first, last = _TRAINED if self.right >= _TRAINED_SHARE else _RANDOM
        first *= min(_MOST_GROWTH, max(1.0, (_USUAL_STEPS / total) ** 0.5))
        progress = min(1.0, steps / total)
        warm = max((steps + 8) / _WARM_STEPS, (progress + 0.01) / _WARM_PART)
        return first * (last / first) ** progress * min(1.0, warm)

    def watch(self, step: StepGraph, host: HostSteps, ratio: float) -> bool:
        """Look at the results of a step on the host; return whether a shift of a sum changed.

        ``ratio``: of updates and weights.
        """
        names = {tensor.name: number for number, tensor in enumerate(step.graph.tensors)}
        before = dict(self.shifts)
        for role in before:
            if role not in host.sums:
                small = _SMALL_ERRORS if "error" in role else _SMALL_SUMS
                if role == step.last:
                    # Those of squares are as small as their targets.
                    small = _SMALL_LOGITS if step.loss == "softmax" else 0
                self._watch_sums(role, host.values[names[role]], small)
        pairs = [*zip(step.weights, host.weights, strict=True)]
        roots = {f"{matrix.name}/step": values for matrix, values in pairs}
        units = {f"{matrix.name}/step": 2.0 ** step.update_exponent(matrix) for matrix, _ in pairs}
        updates = {role: _root(np.concatenate(sums, axis=-1)) for role, sums in host.sums.items()}
        for role, size in updates.items():
            if role.endswith("/bias/step"):
                # In steps of the low bytes of a bias.
                name = role.removesuffix("/bias/step")
                least = step.exponents[names[f"{name}/bias/high"]] - LOW_BITS
                results = step.exponents[names[f"{name}/sum"]]
                weights = min(_BIASES * 2.0 ** (results - least), _MOST_BIASES)
            else:
                weights = max(1.0, _root(roots[role]))
            self._watch_update(role, size, units[role], weights * ratio)
        return any(before[role] != self.shifts[role] for role in before if role not in updates)

    def rescale(self, role: str, sums: int, weights: int) -> None:
        """Keep the real size of updates where the exponents of gradients and weights grow by some.

        ``sums``: of the sums of products that are gradients. They may not have been looked at yet.
        """
        if role in self.sizes:
            self.sizes[role] *= 2.0**-sums
        self.shifts[role] = min(max(0, self.shifts[role] + weights - sums), _MOST_SHIFT)

    def note(self, loss: float) -> None:
        """Note the loss of a step, before the next one."""
        self.is_surprised = loss > _MUCH * self.loss
        self.loss = _KEPT_LOSS * self.loss + (1 - _KEPT_LOSS) * loss if self.loss else loss

    def is_due(self, steps: int, count: int) -> bool:
        """Return whether shifts are looked at before one of the next steps; ``steps``: so far."""
        return self.is_surprised or steps < _FIRST_STEPS or -steps % _WATCHED_STEPS < count

    def _watch_sums(self, role: str, results: np.ndarray, small: float) -> None:
        """Look at results of a role; ``small``: size that is too small."""
        sizes = np.abs(results.astype(np.int16))
        rows = self.ends.setdefault(role, [])
        rows.append([float((sizes >= MOST).mean()), float(np.percentile(sizes, _SIZED))])
        del rows[:-_OBSERVATIONS]
        share, size = (float(column) for column in np.mean(rows, axis=0))
        if len(rows) == _OBSERVATIONS:
            is_full, is_small = share > _SATURATED, size < small
        else:
            is_full, is_small = rows[-1][0] > _FULL, rows[-1][1] < _TINY * small
        if is_full or (is_small and self.shifts[role] > 0):
            self.shifts[role] += 1 if is_full else -1
            rows.clear()

    def _watch_update(self, role: str, size: float, unit: float, update: float) -> None:
        """Look at the size of a gradient, in steps of a unit; ``update``: size of the update.

        Small gradients count as a part of the greatest: those of one image that is not right are
        many times as large as those of many that are. After a loss far over the mean those that
        grow count at once.
        """
        first, now = role not in self.sizes, size
        size = size if first else _KEPT * self.sizes[role] + (1 - _KEPT) * size
        self.sizes[role] = size
        self.greatest[role] = max(self.greatest.get(role, 0.0), size * unit)
        size = max(size, _LEAST_SIZE * self.greatest[role] / unit, now * self.is_surprised)
        shift = round(math.log2(max(size / update, 1)))
        if not first:
            limit = _MOST_SHIFT if self.is_surprised else self.shifts[role] + 1
            shift = max(self.shifts[role] - 1, min(limit, shift))
        self.shifts[role] = min(shift, _MOST_SHIFT)


def _root(values: np.ndarray) -> float:
    """Return the root of the mean square."""
    return math.sqrt(float(np.mean(np.square(values, dtype=np.float64))))


def bounded(step: StepGraph, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return weights whose matrices are as large as weights may be; biases follow theirs.

    Without a bound they grow, and a deep network drifts: each update adds to their length.
    """
    factors = {
        matrix.name: min(1.0, _MOST_SPREAD * (1 << LOW_BITS) / max(_root(values), 1.0))
        for matrix, values in zip(step.weights, weights, strict=True)
        if not matrix.name.endswith("/bias")
    }
    results = []
    for matrix, values in zip(step.weights, weights, strict=True):
        factor = factors.get(matrix.name.removesuffix("/bias"), 1.0)
        scaled = values if factor == 1 else np.rint(values * factor).astype(np.int32)
        results.append(scaled)
    return results


def least(
    role: str, is_last: bool, results: Callable[[int], np.ndarray], exponent: int, target: float
) -> int:
    """Return the first shift of a role: the least at which few results are at the limit.

    No channel of sums has most results there: its bias is kept. The shift of an update follows from
    the first step. ``exponent``: of the sums; ``target``: greatest target of the logits, which is
    below the limit, too; 0 for none.
    """
    if role.endswith("/step"):
        return 0
    limit = _LOGIT_LIMIT if is_last else _ERROR_LIMIT if "error" in role else _SUM_LIMIT
    low, high = 0, _MOST_SHIFT
    if is_last:
        finest = math.ceil(math.log2(target / _SUM_LIMIT)) if target else _LOGIT_EXPONENT
        low = min(high, max(low, finest - exponent))
    while low < high:
        middle = (low + high) // 2
        sizes = np.abs(results(middle).astype(np.int16))
        channels = np.median(sizes.reshape(-1, sizes.shape[-1]), axis=0)
        is_full = "error" not in role and channels.max(initial=0) >= MOST
        if np.percentile(sizes, _PERCENTILE) <= limit and not is_full:
            high = middle
        else:
            low = middle + 1
    return low
