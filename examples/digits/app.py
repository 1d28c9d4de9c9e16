"""The page's server: one page, one description of the core, one response for each drawing.

It takes requests of this machine's own browser alone: names of other hosts are refused, so that no
page elsewhere can reach it by a name that leads here. Other types of contents are refused too,
because a page elsewhere could send them without a preflight request.
"""

import base64
import logging
import os
import socket
from typing import Any

import numpy as np
from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import BadRequest, HTTPException, LengthRequired, UnsupportedMediaType
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from celosia import DeviceError, InputError
from celosia_examples.digits.classifier import Classification, Classifier
from celosia_examples.digits.picture import CANVAS

#: The only address that is listened on, and names that it goes by.
HOST = "127.0.0.1"
_NAMES = [HOST, "localhost"]

_TYPE = "application/octet-stream"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class _Handler(WSGIRequestHandler):
    """Closes connections of clients that send nothing."""

    timeout = 10  #: Seconds in which a request must arrive.

    def end_headers(self) -> None:
        """Begin the response."""
        super().end_headers()
        # The server reads the rest of a body that was refused, and would wait for its end.
        self.connection.settimeout(0.2)


def create_app(classifier: Classifier) -> Flask:
    """Return the application."""
    app = Flask("celosia_examples.digits")
    app.config.update(MAX_CONTENT_LENGTH=CANVAS * CANVAS, TRUSTED_HOSTS=_NAMES)
    app.before_request(_require_length)
    app.after_request(_with_headers)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(InputError, lambda error: _error(str(error), 422))
    app.register_error_handler(DeviceError, lambda error: _error(str(error), 500))
    app.add_url_rule("/", "page", lambda: app.send_static_file("index.html"))
    app.add_url_rule("/api/core", "core", lambda: jsonify(dict(classifier.facts)))
    app.add_url_rule(
        "/api/classify",
        "classify",
        lambda: jsonify(_as_json(classifier.classify(_drawing()))),
        methods=["POST"],
    )
    return app


def open_server(classifier: Classifier, port: int) -> BaseWSGIServer:
    """Return a server that listens on this machine alone.

    - ``classifier``: classifies the drawings.
    - ``port``: 1 to 65535, or 0 for any that is free.

    Raises InputError if the port is taken, or not allowed.
    """
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InputError(f"--port: wanted a free port, got {port} ({reason})") from None
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with listener:
        app = create_app(classifier)
        # The server takes a copy of the open socket.
        options: dict[str, Any] = {"threaded": True, "request_handler": _Handler}
        return make_server(HOST, port, app, fd=listener.fileno(), **options)


def _require_length() -> None:
    """Refuse a body of unknown length, whose end would be waited for."""
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired(f"wanted Content-Length {CANVAS * CANVAS}, got a chunked body")


def _drawing() -> np.ndarray:
    """Return the drawing of a request: the ink of each pixel, row by row."""
    if request.mimetype != _TYPE:
        raise UnsupportedMediaType(f"drawing: wanted {_TYPE}, got {request.mimetype or 'none'}")
    contents = request.get_data()
    if len(contents) != CANVAS * CANVAS:
        requirement = f"{CANVAS * CANVAS} bytes, {CANVAS} for each row"
        raise BadRequest(f"drawing: wanted {requirement}, got {len(contents)}")
    return np.frombuffer(contents, np.uint8).reshape(CANVAS, CANVAS)


def _as_json(result: Classification) -> dict[str, Any]:
    statistics = result.statistics
    return {
        "picture": _base64(result.picture),
        "probabilities": result.probabilities.tolist(),
        "cycles": statistics.cycles,
        "counters": statistics.counters,
        "maps": [
            {
                "layer": item.layer,
                "shape": item.contents.shape,
                "scale": item.scale,
                "zeroPoint": item.zero_point,
                "contents": _base64(item.contents),
            }
            for item in result.maps
        ],
        "passes": [
            {
                "layer": item.layer,
                "instruction": item.instruction,
                "tile": item.tile,
                "step": item.step,
                "steps": item.steps,
                "first": item.first,
                "vectors": item.vectors,
                "weights": _base64(item.weights),
                "activations": _base64(item.activations),
            }
            for item in result.passes
        ],
    }


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _error(line: str, code: int) -> tuple[Response, int]:
    return jsonify(error=" ".join(line.split())), code


def _http_error(error: HTTPException) -> tuple[Response, int]:
    return _error(error.description or error.name, error.code or 500)


def _with_headers(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response
