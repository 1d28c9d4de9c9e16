"""All models of MLPerf Tiny: outputs compared with LiteRT byte by byte, cycles, rates."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from celosia import InputError, profile
from celosia.sw.files import read_file
from celosia.sw.ir.program import Program
from celosia.sw.networks.comparison import Setting, compare, reference
from celosia.sw.runtime.arrays import random_samples
from celosia.sw.runtime.opening import open_session
from celosia_examples.mlperf.published import MODELS, REPOSITORY, Model


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """Figures of one model at one setting, batch 1."""

    model: Model  #: The model.
    setting: Setting  #: Core, memory and clock.
    published: bool  #: Whether the file has the digest of the published one.
    host: tuple[str, ...]  #: Operators that run on the host.
    #: Output bytes, and those that are not LiteRT's.
    compared: int
    different: int
    #: Multiplications of one inference, cycles that the array takes at least, estimated cycles.
    macs: int
    bound: int
    estimated: int
    counted: int | None  #: Cycles that the RTL has counted, the mean of all inputs rounded.

    @property
    def cycles(self) -> int:
        """Cycles of one inference: counted where they are, else estimated."""
        return self.estimated if self.counted is None else self.counted

    @property
    def utilisation(self) -> float:
        """Share of the multipliers' cycles that the model has."""
        config = self.setting.config
        available = self.cycles * config.rows * config.columns
        return self.macs / available if available else 0.0

    @property
    def pace(self) -> float | None:
        """Inferences per second of the core, if there is a clock and the core has work."""
        clock = self.setting.clock_hz
        return clock / self.cycles if clock and self.cycles else None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Results of all models at all settings, those of one setting after the other."""

    device: str  #: ``machine`` or ``rtl``.
    #: Random inputs of each model, and the seed they are drawn with.
    inputs: int
    seed: int
    results: tuple[ModelResult, ...]  #: The results.

    @property
    def by_setting(self) -> dict[Setting, list[ModelResult]]:
        """Results of each setting."""
        results: dict[Setting, list[ModelResult]] = {}
        for result in self.results:
            results.setdefault(result.setting, []).append(result)
        return results


class _Outcome(NamedTuple):
    """Bytes compared and different, and cycles of one input if the device counts them."""

    compared: int
    different: int
    counted: int | None


def model_files(folder: Path | None) -> dict[Model, Path]:
    """Return the file of each model.

    Raises InputError if there is no folder, or a file is missing.
    """
    requirement = f"the models of {REPOSITORY}: {', '.join(model.file for model in MODELS)}"
    if folder is None:
        raise InputError(f"mlperf: wanted --models FOLDER or CELOSIA_MODELS, with {requirement}")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; wanted one with {requirement}")
    missing = [model.file for model in MODELS if not (folder / model.file).is_file()]
    if missing:
        raise InputError(f"{folder}: has no {', '.join(missing)}; wanted {requirement}")
    return {model: folder / model.file for model in MODELS}


def run_benchmark(
    files: dict[Model, Path],
    settings: Sequence[Setting],
    *,
    device: str = "machine",
    inputs: int = 20,
    seed: int = 0,
) -> Benchmark:
    """Compare and count all models at all settings; shows its progress on stderr.

    - ``files``: file of each model.
    - ``settings``: cores and memories.
    - ``device``: ``machine``, with estimated cycles, or ``rtl``, with counted ones.
    - ``inputs``: invocations of each model, in order: a model with variables keeps them in between.
    - ``seed``: seed of the random inputs.

    Raises ImportError if LiteRT is not installed; ValueError if a file is no model, or the core
    cannot run it; DeviceError if there is no simulator, or the core stops with an error.
    """
    cases = {model: _Case(model, path, inputs, seed) for model, path in files.items()}
    keys = {_key(setting, device) for setting in settings}
    results = []
    total = len(cases) * len(keys) * inputs
    with tqdm(total=total, unit="input", delay=1, file=sys.stderr, disable=None) as bar:
        for setting in settings:
            for case in cases.values():
                bar.set_description(f"{case.model.name}, {setting.name}")
                results.append(case.result(setting, device, bar))
    return Benchmark(device=device, inputs=inputs, seed=seed, results=tuple(results))


def _key(setting: Setting, device: str) -> tuple[Any, ...]:
    """Return the part of a setting that a run depends on."""
    memory = (setting.latency, setting.bandwidth) if device == "rtl" else ()
    return (setting.config, *memory)


class _Case:
    """A model, its inputs and LiteRT's outputs; runs that several settings share."""

    def __init__(self, model: Model, path: Path, inputs: int, seed: int) -> None:
        self.model = model
        self._path, self._inputs, self._seed = path, inputs, seed
        self._content = read_file(path)
        self._expected: list[list[np.ndarray]] = []
        self._arrays: list[np.ndarray] = []
        self._outcomes: dict[tuple[Any, ...], _Outcome] = {}

    def result(self, setting: Setting, device: str, bar: Any) -> ModelResult:
        """Return the figures at a setting."""
        memory = {"latency": setting.latency, "bandwidth": setting.bandwidth}
        estimate = profile(self._path, config=setting.config, **memory)
        program, total = estimate.program, estimate.total
        key = _key(setting, device)
        if key not in self._outcomes:
            options = memory if device == "rtl" else {}
            self._outcomes[key] = self._outcome(program, bar, device=device, **options)
        return ModelResult(
            model=self.model,
            setting=setting,
            published=hashlib.sha256(self._content).hexdigest() == self.model.sha256,
            host=tuple(operator.kind for operator in program.host),
            macs=total.macs,
            bound=total.bound,
            estimated=total.cycles,
            **self._outcomes[key]._asdict(),
        )

    def _outcome(self, program: Program, bar: Any, **options: Any) -> _Outcome:
        """Run all inputs and compare their outputs; options as in ``open_session``."""
        if not self._expected:
            rng = np.random.default_rng(self._seed)
            self._arrays = [random_samples(rng, port, self._inputs) for port in program.inputs]
            self._expected = reference(self._content, self._arrays)
        compared = different = 0
        with open_session(program, **options) as session:
            for size, wrong in compare(session, self._arrays, self._expected):
                compared, different = compared + size, different + wrong
                bar.update()
            cycles = session.statistics.cycles_per_input
        return _Outcome(compared, different, None if cycles is None else round(cycles))
