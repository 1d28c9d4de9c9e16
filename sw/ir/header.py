"""Steps, sections, constants and ports of a program, to and from the header of its file.

Readers take ``entry``, an entry of the header, and raise ValueError if it is malformed.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from celosia.hw.arch.commands import WORD_BYTES
from celosia.sw.ir.parts import HostOperator, Operand, Part, Port, Section, Segment, Variable
from celosia.sw.ir.records import listed, record, value

#: Returns the next bytes after the header, as many as given; the text names them in messages.
Take = Callable[[Any, str], bytes]


def require_fields(entry: Any, where: str, names: Sequence[str]) -> None:
    """Refuse an entry that has other fields than ``names``."""
    if not isinstance(entry, dict) or sorted(entry) != sorted(names):
        raise ValueError(f"{where}: wanted {', '.join(names)} and nothing else")


def step_blobs(step: Part | HostOperator) -> list[bytes]:
    """Return the bytes of a step that lie after the header."""
    if isinstance(step, Part):
        return [section.code for section in (*step.setups, *step.mains)]
    return [operand.data for operand in step.sources if operand.data is not None]


def step_header(step: Part | HostOperator) -> dict[str, Any]:
    """Return the header's entry of a step."""
    if isinstance(step, HostOperator):
        entry = asdict(step)
        for operand in (*entry["sources"], *entry["results"]):
            operand["data"] = None if operand["data"] is None else len(operand["data"])
        return {"host": entry}
    sections = {
        name: [section_header(section) for section in sections]
        for name, sections in (("setup", step.setups), ("main", step.mains))
    }
    ports = {
        name: [asdict(port) for port in ports]
        for name, ports in (("inputs", step.inputs), ("outputs", step.outputs))
    }
    return {"core": {**sections, **ports, "items": step.items}}


def section_header(section: Section) -> dict[str, Any]:
    """Return the header's entry of a section: (layer, count) for each group of instructions."""
    layers = [[number, len(list(run))] for number, run in groupby(section.layers)]
    return {"address": section.address, "bytes": len(section.code), "layers": layers}


def read_step(entry: Any, take: Take) -> Part | HostOperator:
    """Return the step of an entry of the header."""
    if isinstance(entry, dict) and "host" in entry:
        require_fields(entry, "step", ("host",))
        return _host_operator(entry["host"], take)
    require_fields(entry, "step", ("core",))
    part = entry["core"]
    require_fields(part, "part", ("setup", "main", "inputs", "outputs", "items"))
    setups, mains = (read_sections(name, part[name], take) for name in ("setup", "main"))
    inputs, outputs = (read_ports(part[name], name) for name in ("inputs", "outputs"))
    return Part(setups, mains, inputs, outputs, value(part["items"], int, "items"))


def _host_operator(entry: Any, take: Take) -> HostOperator:
    if not isinstance(entry, dict) or not isinstance(entry.get("attributes"), dict):
        raise ValueError("operator of the host: wanted fields, and attributes among them")
    fields: dict[str, Any] = {"attributes": entry["attributes"]}
    for side in ("sources", "results"):
        operands = listed(entry.get(side), side)
        fields[side] = tuple(_operand(operand, take) for operand in operands)
    if any(operand.data is not None for operand in fields["results"]):
        raise ValueError("operator of the host: wanted results to be computed")
    return record(HostOperator, entry, "operator of the host", fields)


def read_sections(name: str, entries: Any, take: Take) -> tuple[Section, ...]:
    """Return the sections of a list of entries, at least one; ``name`` is for messages."""
    sections = tuple(_section(name, entry, take) for entry in listed(entries, name))
    if not sections:
        raise ValueError(f"{name}: wanted at least one section")
    return sections


def _section(name: str, entry: Any, take: Take) -> Section:
    require_fields(entry, name, ("address", "bytes", "layers"))
    code = take(entry["bytes"], f"{name} bytes")
    layers: list[int] = []
    for run in listed(entry["layers"], f"{name} layers"):
        pair = [value(number, int, f"{name} layers") for number in listed(run, f"{name} layers")]
        # Checked first, so that a large count builds no long list.
        if len(pair) != 2 or not 1 <= pair[1] <= len(code) // WORD_BYTES - len(layers):
            raise ValueError(f"{name}: wanted a layer for each instruction")
        layers += [pair[0]] * pair[1]
    section = Section(value(entry["address"], int, f"{name} address"), code, tuple(layers))
    try:
        count = len(section.instructions)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if count != section.count:
        raise ValueError(f"{name}: wanted a layer for each instruction")
    return section


def read_segment(entry: Any, take: Take) -> Segment:
    """Return the constants of an entry."""
    require_fields(entry, "segment", ("name", "address", "bytes"))
    name = value(entry["name"], str, "segment name")
    data = take(entry["bytes"], "segment bytes")
    return Segment(name, value(entry["address"], int, "segment address"), data)


def read_variable(entry: Any, take: Take) -> Variable:
    """Return the variable of an entry."""
    require_fields(entry, "variable", ("port", "successor", "bytes"))
    port = record(Port, entry["port"], "port of variable")
    data = take(entry["bytes"], "variable bytes")
    return Variable(port, value(entry["successor"], int, "variable successor"), data)


def _operand(entry: Any, take: Take) -> Operand:
    if not isinstance(entry, dict) or "data" not in entry:
        raise ValueError("operand: wanted fields, and data among them")
    data = None if entry["data"] is None else take(entry["data"], "operand data")
    return record(Operand, entry, "operand", {"data": data})


def read_ports(entry: Any, where: str) -> tuple[Port, ...]:
    """Return the ports of a list of entries."""
    return tuple(record(Port, port, f"port of {where}") for port in listed(entry, where))
