"""A program on a device: constants loaded once, then batch after batch."""

import math
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from tqdm import tqdm

from celosia.hw.arch import isa
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import Device, DeviceError, PodDevice
from celosia.sw.ir.parts import Part, Port, Section
from celosia.sw.ir.program import Program
from celosia.sw.operators import host
from celosia.sw.runtime.arrays import InputError, label
from celosia.sw.runtime.pods import Cores, private_range
from celosia.sw.runtime.statistics import Statistics

#: Approximate limits of the samples that go through all steps at once, and of a tensor's elements.
_MOST_SAMPLES = 1024
_MOST_ELEMENTS = 1 << 24


def _assembly(section: Section, index: int) -> str:
    """Return an instruction as text, or the error of an illegal one."""
    try:
        return isa.disassemble(section.instructions[index])
    except isa.Illegal as error:
        return str(error)


def _shifted(array: np.ndarray) -> np.ndarray:
    """Return uint8 less 128 as int8, or int8 and 128 as uint8."""
    return (array.view(np.uint8) ^ np.uint8(0x80)).view("i1" if array.dtype == np.uint8 else "u1")


def together(program: Program) -> int:
    """Return the samples at most that go through all steps of a program at once.

    These are whole batches, which bounds the memory for tensors between parts.
    """
    if program.variables:
        return 1
    ends = (*program.inputs, *program.outputs)
    computed = [operand.shape for step in program.host for operand in step.results]
    largest = max(math.prod(shape) for shape in (*computed, *(port.shape for port in ends)))
    limit = program.batch * max(1, _MOST_SAMPLES // program.batch)
    return min(limit, max(1, _MOST_ELEMENTS // largest))


def count_of(program: Program, inputs: Sequence[np.ndarray]) -> int:
    """Return the number of samples, the same for all inputs.

    Raises
    ------
    InputError
        If an input is of another shape or type, or their numbers differ.
    """
    ports = program.inputs
    if len(inputs) != len(ports):
        raise InputError(f"wanted {len(ports)} inputs, got {len(inputs)}")
    for array, port in zip(inputs, ports, strict=True):
        if array.dtype != port.dtype or array.shape[1:] != port.shape or not len(array):
            raise InputError(
                f"{label(port)}: wanted {port.dtype} of shape (N, "
                f"{', '.join(map(str, port.shape))}), got {array.dtype} {array.shape}"
            )
    counts = {len(array) for array in inputs}
    if len(counts) != 1:
        raise InputError(f"wanted the same number of each input, got {sorted(counts)}")
    return counts.pop()


class Session:
    """A program loaded into a device.

    Parameters
    ----------
    program : Program
        The program.
    device : Device or PodDevice
        The device or pod; its cores must be of the configuration that the program was compiled for.
        Closed with the session, and when there is none because of an error.

    Raises
    ------
    ProgramError
        If the core is of another configuration, or an operator of the host cannot be run.
    DeviceError
        If the one-time load fails.
    """

    def __init__(self, program: Program, device: Device | PodDevice) -> None:
        self.program = program
        self.pod = device if isinstance(device, PodDevice) else Cores([device])
        #: Numbers of the cores that work.
        self.cores = list(range(len(self.pod.cores)))
        self.statistics = Statistics(program, len(self.cores))
        #: By tensor, the variables that stay in the memories of the cores, and the contents of the
        #: others for each core, shape ``(cores, *port.shape)``.
        self._in_place = {variable.port.tensor: variable for variable in program.in_place}
        self._variables: dict[int, np.ndarray] = {}
        # The part whose constants and margins are in the core; True if those of all parts are.
        self._loaded: Part | None = None
        self._kept = False
        self._counts_loads = True
        self._unsigned = program.shifted
        #: Samples at most that go through all steps at once.
        self.together = together(program)
        try:
            program.require(device.config)
            for operator in program.host:
                host.check(operator)
            if len(self.cores) > 1:
                self.pod.keep_private(*private_range(program))
            self.reset()
            for segment in program.segments:
                self.pod.write_shared(segment.address, segment.data)
            for _, section in program.sections:
                self.pod.write_shared(section.address, section.code)
            if program.parts:
                for result in self._load(program.parts[0]):
                    self.statistics.add_setup(result)
        except BaseException:
            device.close()
            raise

    def reset(self) -> None:
        """Give all variables their initial contents."""
        ports = {variable.port.name: variable for variable in self.program.variables}
        self.assign({name: np.frombuffer(v.data, v.port.dtype) for name, v in ports.items()})

    def variables(self) -> dict[str, np.ndarray]:
        """Return the contents of all variables by name, shape ``(cores, *shape)``."""
        return {v.port.name: self._contents(v.port).copy() for v in self.program.variables}

    def _contents(self, port: Port) -> np.ndarray:
        """Return the contents of a variable for each core."""
        if port.tensor not in self._in_place:
            return self._variables[port.tensor]
        raw = [core.read(port.address, port.bytes_per_item) for core in self.pod.cores]
        return np.frombuffer(b"".join(raw), port.dtype).reshape(-1, *port.shape)

    def assign(self, contents: Mapping[str, np.ndarray]) -> None:
        """Give variables, by name, other contents, on all cores.

        Raises
        ------
        InputError
            If there is no such variable, or contents are of another size or type.
        """
        ports = {variable.port.name: variable.port for variable in self.program.variables}
        for name, array in contents.items():
            if name not in ports:
                raise InputError(f"wanted one of {', '.join(ports)}, got {name!r}")
            port = ports[name]
            if array.dtype != port.dtype or array.size != port.elements:
                requirement = f"{port.elements} elements of {port.dtype}"
                got = f"{array.size} of {array.dtype}"
                raise InputError(f"{label(port)}: wanted {requirement}, got {got}")
            if port.tensor in self._in_place:
                for core in self.pod.cores:
                    core.write(port.address, np.ascontiguousarray(array).tobytes())
                continue
            one = array.reshape(1, *port.shape)
            self._variables[port.tensor] = one.repeat(len(self.pod.cores), axis=0)

    def begin(self, sample: int) -> None:
        """Continue before a sample as the session that has run all samples before it.

        The next ``run`` takes samples up to a multiple of ``together`` at most. It counts a load of
        constants only if that session has it there, too. So the costs of shards add up to the costs
        of one session, however the samples are divided.
        """
        parts = self.program.parts
        if len(parts) < 2:
            return
        self._counts_loads = sample % self.together == 0
        if sample == 0 and self._loaded is not parts[0]:
            self._load(parts[0])
        elif sample and self._counts_loads:
            self._loaded = None

    def run(
        self, inputs: Sequence[np.ndarray], *, progress: bool = False, by_core: bool = False
    ) -> list[np.ndarray]:
        """Return the outputs for any number of inputs.

        For a program with variables, these are as many invocations, in order.

        Parameters
        ----------
        inputs : sequence of numpy.ndarray
            For each input of the model shape ``(N, *port.shape)``, of the port's type, with the
            same N.
        progress : bool
            Whether to show a progress bar on stderr, when it is a terminal and it takes long.
        by_core : bool
            Whether each invocation of a program with variables has a core for itself, with the
            variables of that core; else all have those of the first core.

        Returns
        -------
        list of numpy.ndarray
            For each output of the model shape ``(N, *port.shape)``, of the port's type.

        Raises
        ------
        InputError
            If an input is of another shape or type, or an operator of the host refuses
            values computed from it.
        DeviceError
            If the device stops with an error; names the instruction and the layer.
        """
        count, parts, limit = count_of(self.program, inputs), len(self.program.parts), self.together
        if by_core:
            limit = len(self.cores)
            if count > limit:
                raise InputError(f"wanted at most {limit} invocations, one a core, got {count}")
        with tqdm(
            total=count * parts,
            unit="input",
            delay=1,
            file=sys.stderr,
            disable=None if progress else True,
        ) as bar:
            results = [
                self._steps([array[first : first + limit] for array in inputs], bar)
                for first in range(0, count, limit)
            ]
        return [np.concatenate(arrays) for arrays in zip(*results, strict=True)]

    def _steps(self, inputs: Sequence[np.ndarray], bar: tqdm) -> list[np.ndarray]:
        """Run core and host in turn on some samples; return the outputs."""
        samples = len(inputs[0])
        values = {port.tensor: x for port, x in zip(self.program.inputs, inputs, strict=True)}
        values |= {n: _shifted(values[n]) for n in self._unsigned.intersection(values)}
        values |= {number: array[:samples] for number, array in self._variables.items()}
        for step in self.program.steps:
            if isinstance(step, Part):
                values |= self._on_core(step, values, samples, bar)
            else:
                start = time.perf_counter()
                try:
                    values |= host.run(step, values)
                except host.OperandError as error:
                    raise InputError(str(error)) from None
                self.statistics.add_host(time.perf_counter() - start)
        for variable in self.program.variables:
            number, shape = variable.port.tensor, (samples, *variable.port.shape)
            if number in self._in_place:
                continue
            parts = values[variable.successor].reshape(shape), self._variables[number][samples:]
            self._variables[number] = np.concatenate(parts)
        self.statistics.inputs += samples
        values |= {n: _shifted(values[n]) for n in self._unsigned.intersection(values)}
        return [values[port.tensor].reshape(samples, *port.shape) for port in self.program.outputs]

    def _on_core(
        self, part: Part, values: Mapping[int, np.ndarray], samples: int, bar: tqdm
    ) -> dict[int, np.ndarray]:
        """Run a part on all samples, in batches; return its outputs by number of tensor."""
        count, batch = samples * part.items, self.program.batch
        sources, ports = self._moved(part)
        inputs = [(port, values[port.tensor].reshape(count, *port.shape)) for port in sources]
        outputs = [(port, np.empty((count, *port.shape), np.int8)) for port in ports]
        if self._loaded is not part:
            start = time.perf_counter()
            for loaded in self._load(part):
                if self._counts_loads:
                    self.statistics.add(loaded, 0, time.perf_counter() - start)
                start = time.perf_counter()
        left = deque((first, min(first + batch, count)) for first in range(0, count, batch))
        while left:
            shares = [(core, left.popleft()) for core in self.cores[: len(left)]]
            for core, (first, last) in shares:
                self._write(core, [(port, array[first:last]) for port, array in inputs])
            start = time.perf_counter()
            running = [core for core, _ in shares]
            for section in part.mains:
                result, running = self._run(section, running)
                self.statistics.add(result, 0, time.perf_counter() - start)
                start = time.perf_counter()
            for core, (first, last) in shares:
                if core not in running:
                    left.appendleft((first, last))
                    continue
                for port, output in outputs:
                    place = port.address, (last - first) * port.bytes_per_item
                    raw = self.pod.cores[core].read(*place)
                    output[first:last] = np.frombuffer(raw, np.int8).reshape(-1, *port.shape)
                bar.update((last - first) / part.items)
        return {port.tensor: output.reshape(samples, -1) for port, output in outputs}

    def _moved(self, part: Part) -> tuple[list[Port], list[Port]]:
        """Return what the host writes and reads for a batch: all but variables in place."""
        read = {port.tensor for port in self.program.outputs}
        kept = {v.successor for v in self._in_place.values()} - read
        sources = [port for port in part.inputs if port.tensor not in self._in_place]
        return sources, [port for port in part.outputs if port.tensor not in kept]

    def _load(self, part: Part) -> list[RunResult]:
        """Load a part's resident constants; the section may contain HALT alone."""
        results = []
        if self.program.constants and not self._kept:
            results += [self._run(section, self.cores)[0] for section in self.program.constants]
            self._kept = True
        for section in self.program.before(part):
            results.append(self._run(section, self.cores)[0])
        self._loaded = part
        return results

    def _write(self, core: int, inputs: Sequence[tuple[Port, np.ndarray]]) -> None:
        """Write one batch into the memory of a core, filled up with zero points."""
        for port, array in inputs:
            missing = (self.program.batch - len(array)) * port.bytes_per_item
            padding = np.full(missing, port.zero_point, np.int8).tobytes()
            data = np.ascontiguousarray(array).tobytes() + padding
            self.pod.cores[core].write(port.address, data)

    def _run(self, section: Section, cores: list[int]) -> tuple[RunResult, list[int]]:
        """Run a section on some cores; return the longest result, and the cores that ended it.

        Raises DeviceError if no core works, or one that has variables does not.
        """
        # The contents of the cores are unknown if this does not end.
        before = self._loaded, self._kept
        self._loaded, self._kept = None, False
        results = self.pod.run_each(section.address, section.words, cores)
        good, failures = [], dict[int, str]()
        for core, result in zip(cores, results, strict=True):
            if isinstance(result, RuntimeError):
                failures[core] = str(result)
            elif result.error is not None:
                failures[core] = self._failure(section, *result.error)
            else:
                good.append(result)
        working = [core for core in self.cores if core not in failures]
        for core, text in failures.items():
            if not working or self._in_place:
                raise DeviceError(text if len(self.pod.cores) == 1 else f"core {core}: {text}")
            print(f"core {core}: {text}; the others do its work", file=sys.stderr)
        self.cores, (self._loaded, self._kept) = working, before
        longest = max(good, key=lambda result: result.cycles or 0, default=RunResult())
        return longest, [core for core in cores if core not in failures]

    def _failure(self, section: Section, code: isa.Error, unit: isa.Unit, index: int) -> str:
        """Return where a section stopped, as text."""
        names = {section.address: name for name, section in self.program.sections}
        where = f"instruction {index} of {names[section.address]}"
        if 0 <= index < section.count:
            where += f" ({_assembly(section, index)})"
            if section.layers[index] >= 0:
                where += f", layer {self.program.label(section.layers[index])!r}"
        return f"{code.name} in {unit.name}: {where}"

    def close(self) -> None:
        """Release the device."""
        self.pod.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
