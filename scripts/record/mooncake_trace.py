#!/usr/bin/env python3
"""Makes a trace of a KV cache on the host from request logs with prefix hashes, as Mooncake publishes them.

scripts/record/mooncake_trace.py conversation_trace.jsonl --out kv.csv.gz [--requests 500]
allocmark pinned --workload file:kv.csv.gz

Each line of the log is a request: `timestamp` in ms, `input_length` in tokens, and `hash_ids`, one for each 512 tokens of the prompt, where
equal ids are equal prefixes (https://github.com/kvcache-ai/Mooncake, FAST25-release/traces, Apache-2.0). The cache holds a block of pinned
memory for each id. A request reads those that are there back to the device, one copy each, and stores the others; the block that was used
longest ago makes room. The last block of a prompt holds the tokens that are left. What the device asks is not in the trace.
"""
import argparse
import gzip
import json
from collections import OrderedDict
from pathlib import Path

GIB = 1 << 30
BLOCK_TOKENS = 512
TOKEN_BYTES = 131072  # Llama-3-8B in two bytes: 32 layers, 8 heads of 128, keys and values


class BadLog(ValueError):
    pass


def read_requests(path, count):
    """(ms, tokens, ids) of each request, at most `count` of them."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as lines:
        for number, line in enumerate(lines, 1):
            if number > count:
                return
            try:
                request = json.loads(line)
                found = request["timestamp"], request["input_length"], request["hash_ids"]
            except (ValueError, KeyError, TypeError) as error:
                raise BadLog(f"{path}:{number}: wanted a JSON object with timestamp, input_length and hash_ids, got {line.strip()[:60]!r}") from error
            if len(found[2]) != -(-found[1] // BLOCK_TOKENS):
                raise BadLog(f"{path}:{number}: wanted an id for each {BLOCK_TOKENS} of {found[1]} tokens, got {len(found[2])}")
            yield found


class HostCache:
    """Writes the rows of one cache. Its blocks are ordered by their last use."""

    def __init__(self, options, row):
        self.budget_bytes, self.bus_gbs, self.token_bytes = options.budget_gib * GIB, options.bus_gbs, TOKEN_BYTES // options.ranks
        self.row = row
        self.blocks = OrderedDict()  # hash id -> (id of the row, bytes)
        self.bytes = self.bytes_peak = self.hits = self.misses = self.next_id = 0

    def copy(self, block):
        self.row(f"kernel,0,{block[1] // self.bus_gbs},1")  # bytes by GB/s are ns
        self.row(f"host_record,{block[0]},0,1")

    def drop(self, key):
        block = self.blocks.pop(key)
        self.bytes -= block[1]
        self.row(f"host_free,{block[0]},0,0")

    def use(self, key, tokens):
        size = tokens * self.token_bytes
        block = self.blocks.get(key)
        if block is not None and block[1] >= size:
            self.hits += 1
        else:
            self.misses += 1
            if block is not None:  # it held fewer tokens
                self.drop(key)
            while self.blocks and self.bytes + size > self.budget_bytes:
                self.drop(next(iter(self.blocks)))
            block = self.blocks[key] = (self.next_id, size)
            self.row(f"host_alloc,{self.next_id},{size},0")
            self.next_id += 1
            self.bytes += size
            self.bytes_peak = max(self.bytes_peak, self.bytes)
        self.blocks.move_to_end(key)
        self.copy(block)


def write_rows(requests, cache, row):
    before_ms = 0
    for number, (at_ms, tokens, keys) in enumerate(requests):
        row(f"mark,step{number % 1000},0,0")
        if at_ms > before_ms:
            row(f"host,0,{(at_ms - before_ms) * 1_000_000},0")
            before_ms = at_ms
        for place, key in enumerate(keys):
            cache.use(key, min(BLOCK_TOKENS, tokens - place * BLOCK_TOKENS))
    row("sync,0,0,0")
    for key in list(cache.blocks):
        cache.drop(key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="JSON lines, plain or .gz")
    parser.add_argument("--out", type=Path, required=True, help="the trace: .csv, or .csv.gz")
    parser.add_argument("--requests", type=int, default=1_000_000_000, metavar="N", help="the first N requests alone")
    parser.add_argument("--budget-gib", type=int, default=16, metavar="N", help="what the cache asks for at most [16]")
    parser.add_argument("--ranks", type=int, default=1, metavar="N", help="tensor parallel ranks that share a token's bytes [1]")
    parser.add_argument("--bus-gbs", type=int, default=50, metavar="N", help="GB/s of copies [50]")
    options = parser.parse_args()
    opened = gzip.open(options.out, "wt", encoding="utf-8") if options.out.suffix == ".gz" else open(options.out, "w", encoding="utf-8")
    with opened as file:
        def row(text):
            file.write(text + "\n")

        cache = HostCache(options, row)
        row(f"# name: {options.log.name}\n# source: {options.log.name}, {BLOCK_TOKENS} tokens a block, {cache.token_bytes} bytes a token")
        row("op,id,size,stream")
        try:
            write_rows(read_requests(options.log, options.requests), cache, row)
        except BadLog as error:
            raise SystemExit(f"{error}; the traces of Mooncake's FAST25-release have this form") from error
    asked = cache.hits + cache.misses
    print(f"{options.out}: {asked} blocks asked, {cache.hits * 100 // max(1, asked)}% there, {cache.bytes_peak / GIB:.2f} GiB held at most")


if __name__ == "__main__":
    main()
