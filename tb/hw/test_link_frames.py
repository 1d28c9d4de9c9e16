import zlib

import pytest
from devices.link import Noise
from pysim import get, pulse, put_all, run

from celosia.hw.arch import link
from celosia.hw.link.frames import FrameReceiver, FrameTransmitter

SLOT_BYTES = 64


def transmit(contents, rng=None, stall=0.0):
    """Return what the transmitter makes of frames."""
    dut = FrameTransmitter()
    wanted = sum(len(link.frame(content)) for content in contents)
    sent = bytearray()

    async def feed(ctx):
        payloads = [
            {"data": byte, "last": n == len(content) - 1}
            for content in contents
            for n, byte in enumerate(content)
        ]
        await put_all(ctx, dut.i, payloads, rng=rng, stall=stall)

    async def take(ctx):
        while len(sent) < wanted:
            while rng is not None and rng.random() < stall:
                await ctx.tick()
            sent.append(await get(ctx, dut.o))
        assert not ctx.get(dut.o.valid)

    run(dut, feed, take)
    return bytes(sent)


@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_transmitter_against_the_reference(rng, stall):
    contents = [bytes((1,)), bytes((link.FLAG,)), bytes((link.ESCAPE, link.FLAG, link.ESCAPE))]
    contents += [rng.bytes(int(n)) for n in rng.integers(1, 60, 12)]
    # Checksums that need escapes, too.
    contents += [content for n in range(400) if _escapes(content := n.to_bytes(2, "little"))][:8]
    assert transmit(contents, rng, stall) == b"".join(link.frame(content) for content in contents)


def _escapes(content):
    crc = zlib.crc32(content).to_bytes(4, "little")
    return link.FLAG in crc or link.ESCAPE in crc


def receive(line, *, full=(), gap=FrameReceiver.GAP):
    """Return the frames in a line: their contents, None for damaged ones.

    ``full`` are numbers of bytes at which there is no room.
    """
    dut = FrameReceiver(slot_bytes=SLOT_BYTES)
    frames = []

    async def feed(ctx):
        for n, byte in enumerate(line):
            ctx.set(dut.full, n in full)
            ctx.set(dut.byte, byte)
            await pulse(ctx, dut.valid)
            await ctx.tick().repeat(gap - 1)
        await ctx.tick().repeat(4)

    async def watch(ctx):
        slot = {}
        async for _, _, write, place, data, commit, length in ctx.tick().sample(
            dut.write, dut.place, dut.data, dut.commit, dut.length
        ):
            assert not (write and commit)
            if write:
                slot[place] = data
            if commit:
                whole = bytes(slot[n] for n in range(length))
                frames.append(whole[: -link.CRC_BYTES] if length else None)
                slot = {}

    run(dut, feed, background=(watch,), cycles_limit=200_000)
    return frames


def reference(line):
    """Return what the reference makes of a line; the gateware wants whole headers, too."""
    deframer = link.Deframer(SLOT_BYTES)
    return [
        frame if frame is None or len(frame) >= link.HEADER_BYTES else None
        for frame in deframer.feed(line)
    ]


def test_receiver_good_frames_of_all_lengths(rng):
    contents = [rng.bytes(n) for n in range(link.HEADER_BYTES, SLOT_BYTES - link.CRC_BYTES + 1)]
    contents.append(bytes((link.FLAG, link.ESCAPE) * 8))
    line = b"".join(link.frame(content) for content in contents)
    assert receive(line) == contents


def test_receiver_inverts_one_bit_of_whatever_was_escaped():
    content = bytes(byte for byte in range(0x28, 0x60) if byte not in (0x5D, 0x5E))
    (raw,) = link.frame(content).split(bytes((link.FLAG,)))[1:-1]
    line = bytes((link.FLAG,))
    line += b"".join(bytes((link.ESCAPE, byte ^ link.ESCAPED)) for byte in raw)
    line += bytes((link.FLAG,))
    assert receive(line) == reference(line) == [content]


def test_receiver_refuses_short_and_long_ones(rng):
    lengths = (0, 1, 4, 7, 61, 62, 70, 300, 8)
    contents = [rng.bytes(n) for n in lengths]
    line = b"".join(link.frame(content) for content in contents)
    assert receive(line) == [None] * 8 + contents[-1:]


def test_receiver_ignores_delimiters_alone():
    line = bytes((link.FLAG,) * 5)
    content = bytes(range(12))
    assert receive(line + link.frame(content) + line) == [content]


def test_receiver_drops_what_begins_without_room_and_no_more():
    content = bytes(range(12))
    frame = link.frame(content)
    size = len(frame)
    # Room comes back in the middle of the second frame, and goes in the middle of the fourth.
    full = set(range(size, size + 9)) | set(range(3 * size + 4, 4 * size))
    assert receive(frame * 4, full=full) == [content] * 3


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_receiver_against_the_reference_on_a_noisy_line(rng, rate):
    contents = [rng.bytes(int(n)) for n in rng.integers(8, 40, 60)]
    line = b"".join(link.frame(content) for content in contents)
    noisy = Noise(rng, rate).pass_on(line) + bytes((link.FLAG,))
    # Whatever was there before, a good frame gets through.
    noisy += link.frame(contents[0])
    got = receive(noisy)
    assert got == reference(noisy)
    assert got[-1] == contents[0]
    assert {frame for frame in got if frame} <= set(contents)


def test_crc_against_zlib(rng):
    for _ in range(200):
        content = rng.bytes(int(rng.integers(0, 40)))
        crc = zlib.crc32(content).to_bytes(4, "little")
        assert zlib.crc32(content + crc) == link.RESIDUE
        assert link.Deframer().feed(link.frame(content + b"\0")) == [content + b"\0"]


@pytest.mark.parametrize("kind", ["flip", "drop", "double"])
def test_every_single_damage_is_seen(rng, kind):
    content = rng.bytes(14)
    frame = link.frame(content)
    for n in range(1, len(frame) - 1):
        variants = {
            "flip": [
                frame[:n] + bytes((frame[n] ^ 1 << bit,)) + frame[n + 1 :] for bit in range(8)
            ],
            "drop": [frame[:n] + frame[n + 1 :]],
            "double": [frame[: n + 1] + frame[n:]],
        }
        for line in variants[kind]:
            assert content not in link.Deframer().feed(line)
            assert all(got is None for got in link.Deframer().feed(line))
