"""A command as its user sees it: exit code, words, time and memory, within limits. For tests that try to break it."""
import os
import resource
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

SECONDS_MAX = 20
CPU_SECONDS_MAX = 10
MEMORY_MAX = 512 << 20
ADDRESS_SPACE_MAX = 1 << 30
# Cells are processes with a GPU's address space; what these commands hold themselves is measured all the same.
STARTS_CELLS = {"run", "fidelity", "qualify", "profile", "bundle", "check", "why", "advise", "fit", "ranks", "threads", "simcheck"}


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_MAX, ADDRESS_SPACE_MAX))


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Answer:
    def __init__(self, code, output, memory_bytes, late, cpu_s=0.0):
        self.code, self.output, self.memory_bytes, self.late, self.cpu_s = code, output, memory_bytes, late, cpu_s

    def hangs(self):
        return self.late or self.cpu_s > CPU_SECONDS_MAX

    def crashes(self):
        return not self.hangs() and self.code < 0

    def problem(self, codes):
        """What no input may do, in words; empty where it did not."""
        if self.hangs():
            return f"took more than {CPU_SECONDS_MAX} s of processor time, or {SECONDS_MAX} s"
        if self.memory_bytes > MEMORY_MAX:
            return f"took {self.memory_bytes >> 20} MiB"
        if self.code < 0 or str(self.code) not in codes:
            return f"exit code {self.code}, wanted one of {', '.join(codes)}"
        if any(byte < 32 and byte not in b"\n\t" for byte in self.output.replace(b"\r\n", b"\n")):
            return "prints control characters"
        return "prints a library's words" if b"json.exception" in self.output else ""


def answer_of(program, command, environment=None, bounded=None, before=no_core):
    bounded = command[0] not in STARTS_CELLS if bounded is None else bounded

    def prepare():
        before()
        if bounded:
            limits()

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [program, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(environment or {})}, preexec_fn=prepare
        )
        late = threading.Event()

        def end():
            late.set()
            process.kill()

        killer = threading.Timer(SECONDS_MAX, end)
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = 0
        output.seek(0)
        return Answer(os.waitstatus_to_exitcode(status), output.read(), used.ru_maxrss << 10, late.is_set(), used.ru_utime + used.ru_stime)


class ForkServer:
    """A program that is loaded once and forks for each run (fork_server.c): ten times as many runs in the same time. One run at a time."""

    SECONDS_MAX = 60  # machines are shared; a program that works without end is found by its processor time before

    def __init__(self, program, folder):
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        library = folder / "fork_server.so"
        source = Path(__file__).resolve().parent / "fork_server.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.output = folder / "output"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": str(library)}, bufsize=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def answer_of(self, command, environment=None):
        bounded = command[0] not in STARTS_CELLS
        changes = [f"{name}={value}" for name, value in (environment or {}).items()]
        texts = [os.fsencode(word) for word in (self.output, *command, *changes)]
        space_mib = ADDRESS_SPACE_MAX >> 20 if bounded else 0
        request = struct.pack("4I", self.SECONDS_MAX * 1000, space_mib, len(command), len(changes))
        self.process.stdin.write(request + b"".join(struct.pack("I", len(text)) + text for text in texts))
        answer = self.process.stdout.read(16)
        assert len(answer) == 16, "the program that forks is gone"
        status, late, memory_kib, cpu_ms = struct.unpack("4I", answer)
        return Answer(os.waitstatus_to_exitcode(status), self.output.read_bytes(), memory_kib << 10, bool(late), cpu_ms / 1000)


class Tally:
    """How many tries of each kind there were and what became of them, as a table."""

    def __init__(self):
        self.rows = {}

    def add(self, kind, answer, problem):
        row = self.rows.setdefault(kind, {"tries": 0, "crashes": 0, "hangs": 0, "other": 0, "bytes": 0})
        row["tries"] += 1
        row["bytes"] = max(row["bytes"], answer.memory_bytes)
        if problem:
            row["crashes" if answer.crashes() else "hangs" if answer.hangs() else "other"] += 1

    def markdown(self):
        lines = ["| kind | tries | crashes | hangs | other faults | most memory, MiB |", "| :-- | --: | --: | --: | --: | --: |"]
        rows = sorted(self.rows.items())
        total = {name: sum(row[name] for _, row in rows) for name in ("tries", "crashes", "hangs", "other")}
        total["bytes"] = max((row["bytes"] for _, row in rows), default=0)
        for kind, row in [*rows, ("**all**", total)]:
            lines.append(f"| {kind} | {row['tries']:,} | {row['crashes']} | {row['hangs']} | {row['other']} | {row['bytes'] / 2**20:.0f} |")
        return "\n".join(lines) + "\n"

