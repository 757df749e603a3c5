#!/usr/bin/env python3
"""Writes a memory snapshot as large as wanted, in constant memory: the opcodes that Python's pickler would write for a long history
without stacks. Every block is asked for, given back and free; the heap at the end is one free segment.

usage: large_snapshot.py FILE BYTES [whole]

whole: the history's list in one piece, as PyTorch's C++ writes it, and not in batches, as Python does.
"""
import struct
import sys

BLOCKS, BLOCK_BYTES = 512, 1 << 21
FIRST_ADDRESS, FIRST_US, STREAM = 0x7F0000000000, 1_790_000_000_000_000, 0
BATCH = 333  # of three entries each, for one APPENDS


def text(value):
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data + b"\x94"  # SHORT_BINUNICODE, MEMOIZE


class Writer:
    def __init__(self, file):
        self.file, self.size_bytes, self.memo = file, 0, {}
        self.memo_count = 0

    def write(self, data):
        self.file.write(data)
        self.size_bytes += len(data)

    def memoized(self, value):
        """The text, or where it was written already its number."""
        if value in self.memo:
            return b"h" + bytes([self.memo[value]])  # BINGET
        self.memo[value] = self.memo_count
        self.memo_count += 1
        return text(value)

    def opened(self, opcode):
        self.memo_count += 1
        return opcode + b"\x94"


def number(value):
    if value < 256:
        return b"K" + bytes((value,))  # BININT1
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)  # BININT
    size = (value.bit_length() + 8) // 8
    return b"\x8a" + bytes((size,)) + value.to_bytes(size, "little")  # LONG1


def pieces(writer, action):
    """What stands before the address, before the size, before the time and behind it in an entry."""
    get = writer.memoized
    return (writer.opened(b"}") + b"(" + get("action") + get(action) + get("addr"), get("size"),
            get("stream") + number(STREAM) + get("time_us"),
            get("compile_context") + get("N/A") + get("user_metadata") + get("") + get("pool_id") + b"K\x00K\x00\x86u")


def entry(parts, address, size_bytes, time_us):
    return parts[0] + number(address) + parts[1] + number(size_bytes) + parts[2] + number(time_us) + parts[3]


def write_history(writer, size_bytes_min, batch_end):
    writer.write(writer.opened(b"]") + b"(")
    writer.write(entry(pieces(writer, "segment_alloc"), FIRST_ADDRESS, BLOCKS * BLOCK_BYTES, FIRST_US))
    actions = ("alloc", "free_requested", "free_completed")
    count, time_us = 1, FIRST_US
    for action in actions:  # a text is written once, and then called by its number
        writer.write(batch_end + entry(pieces(writer, action), FIRST_ADDRESS, BLOCK_BYTES, FIRST_US))
        count += 1
    parts = [pieces(writer, action) for action in actions]
    while writer.size_bytes < size_bytes_min:
        chunk = []
        for index in range(BATCH):
            address, time_us = FIRST_ADDRESS + index % BLOCKS * BLOCK_BYTES, time_us + 3
            chunk += [entry(part, address, BLOCK_BYTES - 5 - index % 7, time_us) for part in parts]
        writer.write(batch_end + b"".join(chunk))
        count += len(chunk)
    writer.write(b"e")
    return count


def write_segment(writer):
    block = [("address", FIRST_ADDRESS), ("size", BLOCKS * BLOCK_BYTES), ("requested_size", 0), ("state", "inactive")]
    segment = [("device", 0), ("address", FIRST_ADDRESS), ("total_size", BLOCKS * BLOCK_BYTES), ("allocated_size", 0),
               ("active_size", 0), ("requested_size", 0), ("stream", STREAM), ("segment_type", "large")]

    def pairs(items):
        return b"".join(text(key) + (text(value) if isinstance(value, str) else number(value)) for key, value in items)

    writer.write(b"](}(" + pairs(segment) + text("blocks") + b"](}(" + pairs(block) + b"ueue")


def main(path, size_bytes, whole):
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.write(b"\x80\x04" + writer.opened(b"}") + b"(" + writer.memoized("device_traces") + writer.opened(b"]") + b"(")
        count = write_history(writer, size_bytes, b"" if whole else b"e(")  # APPENDS, MARK
        writer.write(b"e" + text("segments"))
        write_segment(writer)
        writer.write(b"u.")
    print(f"{path}: {writer.size_bytes} bytes, {count} entries")


if __name__ == "__main__":
    main(sys.argv[1], int(float(sys.argv[2])), sys.argv[3:] == ["whole"])
