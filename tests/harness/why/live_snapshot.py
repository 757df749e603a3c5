#!/usr/bin/env python3
"""Writes a memory snapshot with as many live blocks as wanted: small requests, none of which is given back, and at last one that
fails. PyTorch's allocator puts the blocks as they stand there.

usage: live_snapshot.py FILE COUNT
"""
import bisect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workloads/import"))
from large_snapshot import FIRST_ADDRESS, FIRST_US, Writer, entry, number, pieces

SEGMENT_BYTES = 2 << 20
UNIT_BYTES = 512
REFUSED_BYTES = 64 << 20


class TextWriter(Writer):
    """Memoizes texts alone, so that their numbers stay below 256."""

    def opened(self, opcode):
        return opcode


def place_blocks(count):
    """Segments, each a list of (address, requested bytes, rounded bytes), and their order as the allocator took and filled them."""
    segments, order, rests = [], [], []  # rests: (bytes, address) of the free end of each segment
    for index in range(count):
        size_bytes = (1 + index * 7919 % 8) * UNIT_BYTES
        at = bisect.bisect_left(rests, (size_bytes, 0))
        if at == len(rests):
            address = FIRST_ADDRESS + len(segments) * SEGMENT_BYTES
            segments.append([])
            order.append((None, address))
            rests.append((SEGMENT_BYTES, address))
        rest_bytes, address = rests.pop(at)
        block = (address, size_bytes - index % 9, size_bytes)
        segments[(address - FIRST_ADDRESS) // SEGMENT_BYTES].append(block)
        order.append((block, address))
        if rest_bytes > size_bytes:
            bisect.insort(rests, (rest_bytes - size_bytes, address + size_bytes))
    return segments, order


def write_history(writer, order):
    writer.write(writer.opened(b"]") + b"(")
    time_us = FIRST_US
    parts = {}
    for block, address in order:
        action = "alloc" if block else "segment_alloc"
        known = action in parts
        made = parts[action] if known else pieces(writer, action)
        writer.write(entry(made, address, block[1] if block else SEGMENT_BYTES, time_us))
        if not known:
            parts[action] = pieces(writer, action)  # its texts are in the memo now
        time_us += 1
    writer.write(entry(pieces(writer, "oom"), 1 << 20, REFUSED_BYTES, time_us))
    writer.write(b"e")


def pairs(writer, items):
    return b"".join(writer.memoized(key) + (writer.memoized(value) if isinstance(value, str) else number(value)) for key, value in items)


def write_segments(writer, segments):
    writer.write(writer.opened(b"]") + b"(")
    for index, blocks in enumerate(segments):
        address = FIRST_ADDRESS + index * SEGMENT_BYTES
        end = address + SEGMENT_BYTES
        live_bytes = sum(size_bytes for _, _, size_bytes in blocks)
        writer.write(writer.opened(b"}") + b"(" + pairs(writer, [
            ("device", 0), ("address", address), ("total_size", SEGMENT_BYTES), ("allocated_size", live_bytes), ("active_size", live_bytes),
            ("requested_size", sum(block[1] for block in blocks)), ("stream", 0), ("segment_type", "small")]))
        writer.write(writer.memoized("blocks") + writer.opened(b"]") + b"(")
        place = address
        for at, requested_bytes, size_bytes in blocks:
            writer.write(writer.opened(b"}") + b"(" + pairs(writer, [
                ("address", at), ("size", size_bytes), ("requested_size", requested_bytes), ("state", "active_allocated")]) + b"u")
            place = at + size_bytes
        if place < end:
            writer.write(writer.opened(b"}") + b"(" + pairs(writer, [
                ("address", place), ("size", end - place), ("requested_size", 0), ("state", "inactive")]) + b"u")
        writer.write(b"eu")
    writer.write(b"e")


def main(path, count):
    segments, order = place_blocks(count)
    with open(path, "wb") as file:
        writer = TextWriter(file)
        writer.write(b"\x80\x04" + writer.opened(b"}") + b"(" + writer.memoized("device_traces") + writer.opened(b"]") + b"(")
        write_history(writer, order)
        writer.write(b"e" + writer.memoized("segments"))
        write_segments(writer, segments)
        writer.write(b"u.")
    print(f"{path}: {writer.size_bytes} bytes, {len(order) + 1} entries, {count} live blocks")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
