"""A command as its user sees it: exit code, words, time and memory, within limits. For tests that try to break it."""
import os
import resource
import subprocess
import tempfile
import threading

SECONDS_MAX = 20
MEMORY_MAX = 512 << 20
ADDRESS_SPACE_MAX = 1 << 30
# Cells are processes with a GPU's address space; what these commands hold themselves is measured all the same.
STARTS_CELLS = {"run", "fidelity", "qualify", "profile", "bundle", "check", "why", "advise", "fit", "ranks", "threads", "simcheck"}


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_MAX, ADDRESS_SPACE_MAX))


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Answer:
    def __init__(self, code, output, memory_bytes, late):
        self.code, self.output, self.memory_bytes, self.late = code, output, memory_bytes, late

    def problem(self, codes):
        """What no input may do, in words; empty where it did not."""
        if self.late:
            return f"took more than {SECONDS_MAX} s"
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
        return Answer(os.waitstatus_to_exitcode(status), output.read(), used.ru_maxrss << 10, late.is_set())
