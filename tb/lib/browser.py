"""Debian's Chromium without a window, driven by the DevTools protocol over two pipes."""

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any, Self

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --remote-debugging-pipe"
).split()
_SECONDS = 30
#: Codes of keys that are not those of their characters.
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "Delete": 46}
_KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
_SHIFT = 8


class BrowserNotFound(RuntimeError):
    """There is no Chromium on the path."""


class Browser:
    """One page of a browser with a new profile.

    ``width``, ``height``: of the window, in CSS pixels.
    ``requests``: addresses that the page has requested; ``problems``: errors that the page has
    logged.
    Raises ``BrowserNotFound`` if Chromium is not installed.
    """

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        program = which("chromium")
        if program is None:
            raise BrowserNotFound("Chromium not found: install the package chromium")
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._profile = tempfile.TemporaryDirectory(prefix="celosia-", ignore_cleanup_errors=True)
        theirs, self._to = os.pipe()
        self._from, back = os.pipe()
        # Chromium reads commands from file 3 and writes to file 4.
        script = f'exec "$@" 3<&{theirs} 4>&{back}'
        flags = (
            *_FLAGS,
            f"--user-data-dir={self._profile.name}",
            f"--window-size={width},{height}",
        )
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", program, *flags, "about:blank"],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(back)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command; return its result, and note the events that come before it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self._note(found)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._from, 1 << 16)
            if not more:
                raise RuntimeError("Chromium has ended")
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.problems.append(parameters["entry"]["text"])

    def open(self, address: str) -> None:
        """Load a page."""
        self._call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Return the value of an expression once it is true.

        Raises ``TimeoutError`` if it is not true for a long time.
        """
        end = time.monotonic() + _SECONDS
        while not (value := self.run(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression}: {self.problems}")
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        """Return the text of an element as shown."""
        return self.run(f"document.querySelector({selector!r}).innerText")

    def stroke(
        self, selector: str, points: Sequence[tuple[float, float]], *, finger: bool = False
    ) -> None:
        """Drag mouse or finger over an element; points are shares of its width and height."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        places = [(box[0] + x * box[2], box[1] + y * box[3]) for x, y in points]
        if finger:
            self._touch(places)
            return
        kinds = ["mousePressed", *["mouseMoved"] * (len(places) - 1)]
        for kind, (x, y) in zip(kinds, places, strict=True):
            self._mouse(kind, x, y)
        self._mouse("mouseReleased", *places[-1])

    def _touch(self, places: Sequence[tuple[float, float]]) -> None:
        self._call("Emulation.setTouchEmulationEnabled", enabled=True)
        for n, (x, y) in enumerate(places):
            kind = "touchMove" if n else "touchStart"
            self._call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self._call("Emulation.setTouchEmulationEnabled", enabled=False)

    def _mouse(self, kind: str, x: float, y: float) -> None:
        self._call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            buttons=0 if kind == "mouseReleased" else 1,
            clickCount=0 if kind == "mouseMoved" else 1,
        )

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        self.stroke(selector, [(0.5, 0.5)])

    def press(self, key: str, times: int = 1, *, shift: bool = False) -> None:
        """Press a key."""
        code = _KEYS[key]
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                self._call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code="Space" if key == " " else key,
                    windowsVirtualKeyCode=code,
                    modifiers=_SHIFT if shift else 0,
                )

    def resize(self, width: int, height: int, *, phone: bool = False, scale: float = 1) -> None:
        """Set the size of the page's window, in CSS pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )

    def prefer(self, **features: str) -> None:
        """Set preferences of the user: ``color_scheme="dark"``, ``reduced_motion="reduce"``."""
        wanted = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self._call("Emulation.setEmulatedMedia", features=wanted)

    def accessible(self) -> list[dict[str, Any]]:
        """Return the accessibility tree: role, name and properties of each node not ignored."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                **{p["name"]: p["value"].get("value") for p in node.get("properties", [])},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def picture(self, path: Path, height: int) -> None:
        """Write a picture of the top of the page, PNG."""
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self._call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser, and remove its profile."""
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
