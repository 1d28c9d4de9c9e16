"""``celosia serve``: requests that never end, and several at once."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from digit_pages import one, serving

from celosia.hw.arch.presets import preset
from celosia_examples.digits.classifier import Classifier

OCTETS = "application/octet-stream"


@pytest.fixture(scope="module")
def classifier() -> Iterator[Classifier]:
    made = Classifier("mnist_mlp", preset("nano"))
    yield made
    made.close()


REQUESTS = {
    "of another type": b"Content-Type: text/plain\r\nContent-Length: 99999\r\n\r\nabc",
    "chunked": b"Content-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc" % OCTETS.encode(),
    "too long": b"Content-Type: %b\r\nContent-Length: 9999999\r\n\r\nabc" % OCTETS.encode(),
}


@pytest.mark.parametrize(("kind", "code"), [*zip(REQUESTS, (415, 411, 413), strict=True)])
def test_a_connection_is_closed_after_a_refusal(kind, code, classifier: Classifier) -> None:
    """The rest of the body never comes."""
    with (
        serving(classifier) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as line,
    ):
        start = b"POST /api/classify HTTP/1.1\r\nHost: localhost\r\n"
        # More than the server has read with the first line.
        line.sendall(start + REQUESTS[kind] + bytes(50_000))
        response = b""
        while part := line.recv(4096):
            response += part
    assert response.startswith(b"HTTP/1.1 %d " % code)


def test_drawings_at_once_do_not_mix(classifier: Classifier, monkeypatch: Any) -> None:
    """A classifier has one session: a run must end before the next begins."""
    running: list[int] = []
    runs = classifier._machine.run

    def run(arrays: Any) -> Any:
        running.append(1)
        assert len(running) == 1
        time.sleep(0.01)
        found = runs(arrays)
        running.pop()
        return found

    monkeypatch.setattr(classifier._machine, "run", run)
    drawings = [one(), np.ascontiguousarray(one().T)]
    wanted = [classifier.classify(each).probabilities.tolist() for each in drawings]
    assert wanted[0] != wanted[1]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(classifier.classify, drawings * 4))
    assert [each.probabilities.tolist() for each in got] == wanted * 4
