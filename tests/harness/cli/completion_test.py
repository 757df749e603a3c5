#!/usr/bin/env python3
"""Completions in the shells themselves, as somebody types. Usage: completion_test.py PATH_OF_ALLOCMARK

Each row is typed in every shell that is installed, up to the tab key, and the words must be offered. Skipped (77) where
neither zsh nor fish is installed; bash is everywhere.
"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = [
    ("allocmark ", ("qualify", "compare")),
    ("allocmark run --c", ("--capacity", "--conf")),
    ("allocmark run -w gpt2_ck", ("gpt2_ckpt_attention", "gpt2_ckpt_every2")),
    ("allocmark run --allocator c", ("caching", "cub")),
    ("allocmark list ", ("allocators", "cards")),
    ("allocmark report --format ", ("markdown", "csv")),
    ("allocmark trace ", ("summary", "validate")),
]
WAIT_S = 60
CLEAR_LINE = "\x15"
BASH = """source {script}
read -ra COMP_WORDS <<<"$1"; [[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _allocmark; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


class Zsh:
    """One that believes that somebody sits before it."""

    def __init__(self, folder):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.line_count = 0
        self.run(f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=10000; stty cols 200; unsetopt list_ambiguous")

    def run(self, command):
        """Waits for the prompt behind it: a key that comes before the prompt may be lost."""
        self.line_count += 1
        self.send(f"{command}; PS1='li''ne {self.line_count}> '\n".encode())
        self.read_until((f"line {self.line_count}> ",))

    def send(self, data):
        os.write(self.fd, data)

    def read_until(self, words):
        seen, end = "", time.monotonic() + WAIT_S
        while time.monotonic() < end and not all(word in seen for word in words):
            if select.select([self.fd], [], [], 0.2)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def offers(self, typed, words):
        self.run(f"{CLEAR_LINE}:")
        self.send(typed.encode() + b"\t")
        return self.read_until(words)

    def end(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def script_of(program, shell, path):
    path.write_bytes(subprocess.run([program, "completion", shell], check=True, capture_output=True).stdout)
    return path


def main(program):
    shells = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
    if not {"zsh", "fish"} & set(shells):
        print("neither zsh nor fish is installed: nothing was tried")
        return 77
    os.environ["PATH"] = f"{Path(program).resolve().parent}:{os.environ['PATH']}"
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scripts = {shell: script_of(program, shell, folder / ("_allocmark" if shell == "zsh" else f"allocmark.{shell}")) for shell in shells}
        zsh = Zsh(folder) if "zsh" in shells else None
        for typed, words in ROWS:
            for shell in shells:
                if shell == "zsh":
                    offered = zsh.offers(typed, words)
                elif shell == "fish":
                    offered = subprocess.run(["fish", "--no-config", "-c", f"source {scripts[shell]}; complete -C '{typed}'"],
                                             capture_output=True, text=True).stdout
                else:
                    offered = subprocess.run(["bash", "-c", BASH.format(script=scripts[shell]), "bash", typed], capture_output=True, text=True).stdout
                missing = [word for word in words if word not in offered]
                failed += bool(missing)
                if missing:
                    print(f"{shell}: '{typed}' does not offer {', '.join(missing)}: {offered[-300:]!r}")
        if zsh:
            zsh.end()
    print(f"tried {len(ROWS)} lines in {', '.join(shells)}, failed {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
