"""IP-XACT (IEEE 1685-2014) of ``StandardAxi``: its ports, and the AXI interfaces they form."""

from typing import Any
from xml.etree import ElementTree

from amaranth.lib.wiring import In

from celosia.hw.axi.standard import StandardAxi

_SPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
#: Bus definition and side of the interfaces whose ports have these prefixes.
_BUSES = {"m": ("AXI4", "master"), "s": ("AXI4-Lite", "slave")}


def _add(parent: Any, **children: Any) -> None:
    """Add elements in order: of a text, or of further elements."""
    for name, content in children.items():
        for item in content if isinstance(content, list) else [content]:
            child = ElementTree.SubElement(parent, f"{{{_SPACE}}}{name}")
            if isinstance(item, dict):
                child.attrib.update(item.pop("", {}))
                _add(child, **item)
            else:
                child.text = str(item)


def _library(name: str) -> dict[str, Any]:
    """Return a reference to a definition of AMBA."""
    return {"": {"vendor": "amba.com", "library": "AMBA4", "name": name, "version": "r0p0"}}


def _interface(name: str, side: str, signals: list[str]) -> dict[str, Any]:
    """Return a bus interface."""
    bus, role = _BUSES[side]
    maps = [
        {
            "logicalPort": {"name": signal.upper()},
            "physicalPort": {"name": f"{name}_{signal}"},
        }
        for signal in signals
    ]
    abstraction = {"abstractionRef": _library(f"{bus}_rtl"), "portMaps": {"portMap": maps}}
    types = {"abstractionType": abstraction}
    return {"name": name, "busType": _library(bus), "abstractionTypes": types, role: {}}


def ip_xact(wrapper: StandardAxi, *, module: str, file: str, version: str) -> str:
    """Return the description of a module in a file of Verilog.

    Parameters
    ----------
    wrapper : StandardAxi
        Component of the module.
    module, file : str
        Names of the module and of the file.
    version : str
        Version of the component.
    """
    ElementTree.register_namespace("ipxact", _SPACE)
    signals: dict[tuple[str, str], list[str]] = {}
    ports = []
    for path, member, value in wrapper.signature.flatten(wrapper):
        [name] = map(str, path)
        bus, _, signal = name.rpartition("_")
        if "_axi" in bus:
            signals.setdefault((bus, bus[0]), []).append(signal)
        wire: dict[str, Any] = {"direction": "in" if member.flow is In else "out"}
        if len(value) > 1:
            wire["vectors"] = {"vector": {"left": len(value) - 1, "right": 0}}
        ports.append({"name": name, "wire": wire})
    view = {"name": "rtl", "componentInstantiationRef": "verilog"}
    files = {"name": file, "fileType": "verilogSource"}
    instantiation = {
        **{"name": "verilog", "language": "verilog", "moduleName": module},
        "fileSetRef": {"localName": "rtl"},
    }
    root = ElementTree.Element(f"{{{_SPACE}}}component")
    _add(
        root,
        **{"vendor": "celosia", "library": "ip", "name": module, "version": version},
        busInterfaces={"busInterface": [_interface(*bus, names) for bus, names in signals.items()]},
        model={
            "views": {"view": view},
            "instantiations": {"componentInstantiation": instantiation},
            "ports": {"port": ports},
        },
        fileSets={"fileSet": {"name": "rtl", "file": files}},
    )
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"
