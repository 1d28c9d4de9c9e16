"""The page that recognises drawn digits: its server, and a drawing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import prerequisites

from celosia_examples.digits.classifier import Classifier
from celosia_examples.digits.picture import CANVAS


def one() -> np.ndarray:
    """Return a drawing of a digit 1."""
    drawing = np.zeros((CANVAS, CANVAS), np.uint8)
    drawing[40:240, 130:152] = 255
    return drawing


@contextmanager
def serving(classifier: Classifier) -> Iterator[Any]:
    """Run the server of a classifier on a free port; end it afterwards."""
    prerequisites.package("flask")
    from celosia_examples.digits.app import open_server

    server = open_server(classifier, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
