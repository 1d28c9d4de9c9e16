"""Run MLPerf Tiny on the processor of a simulated LiteX system, by the commands of its runner.

mlperf.py PROGRAM MODEL.tflite TASK FOLDER [DATA]: TASK is KWS, VWW, IC or AD, FOLDER gets the files
of the modes, DATA is the folder of the data sets.
"""

import sys
from pathlib import Path

from celosia import profile
from celosia.hw.arch.presets import preset
from celosia.sw.driver.link import HostLink
from celosia.sw.runtime.litex import open_litex
from celosia_examples.mlperf.device import END, READY, TASKS, Task
from celosia_examples.mlperf.submission import run_modes, summary

#: Memory of the core that mlperf.c assumes.
CORE_BYTES = 0x300000
#: Registers of the UART's other end: data, whether it takes no byte, whether it has none.
DATA, FULL, EMPTY = 0, 4, 8


class Firmware:
    """The device under test: mlperf.c on a processor, at its UART."""

    def __init__(self, link: HostLink, program: bytes, task: Task, input_bytes: int) -> None:
        self.task, self.input_bytes = task, input_bytes
        self._link, self._uart = link, link.processor["uart"]
        link.boot(program)
        self.greeting = self._lines()

    def respond(self, command: str) -> list[str]:
        """Return the lines of the response to a command, the last one ``READY``."""
        for byte in command.encode() + END:
            while self._link.load(self._uart + FULL):
                continue
            self._link.store(self._uart + DATA, byte)
        return self._lines()

    def _lines(self) -> list[str]:
        text = ""
        while not text.endswith(f"{READY}\r\n"):
            if self._link.load(self._uart + EMPTY):
                self._link.pause(0.01)
            else:
                text += chr(self._link.load(self._uart + DATA))
        return text.removesuffix("\r\n").split("\r\n")


def main() -> None:
    """Run both modes, accuracy where there is a data set, and write their files."""
    program, model, name, folder, *data = sys.argv[1:]
    config, task = preset("nano,softmax=true"), TASKS[name]
    (port,) = profile(model, config=config).program.inputs
    device = open_litex("sim+vexriscv", config, CORE_BYTES)
    firmware = Firmware(
        device.link, Path(program).read_bytes(), task, port.elements * task.item_bytes
    )
    modes = run_modes(firmware, {"seed": 0, "data": Path(data[0]) if data else None})
    device.close()
    for mode, files in modes.items():
        place = Path(folder, mode)
        place.mkdir(parents=True)
        for file, content in files.items():
            (place / file).write_bytes(content)
        print(f"{mode}: {summary(files)}")


if __name__ == "__main__":
    main()
