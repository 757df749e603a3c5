"""The raw results of a published folder: raw/NAME.jsonl.xz as `allocmark run` wrote them. A folder flows in; cells by name and key flow out."""

import json
import lzma
import subprocess
import tempfile
from pathlib import Path


class PublishError(Exception):
    """A problem of the input, worded for the person who publishes."""


class Raw:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.files = {}
        for path in sorted((self.folder / "raw").glob("*.jsonl.xz")):
            self.files[path.name.removesuffix(".jsonl.xz")] = None
        if not self.files:
            raise PublishError(f"{self.folder}/raw: wanted NAME.jsonl.xz files, got none; measure first: publish.py measure --out {folder}")

    def _read(self, name):
        if self.files[name] is None:
            environment, cells, rounds = None, {}, []
            with lzma.open(self.folder / "raw" / f"{name}.jsonl.xz", "rt") as file:
                for number, text in enumerate(file, 1):
                    try:
                        line = json.loads(text)
                    except ValueError as error:
                        raise PublishError(f"{name}.jsonl.xz, line {number}: {error}") from None
                    if line["kind"] == "environment":
                        environment = line
                    elif line["kind"] == "round":
                        rounds.append(line)
                    else:
                        cells[line["cell_id"]] = line  # a later line of a cell counts
            self.files[name] = (environment, list(cells.values()), rounds)
        return self.files[name]

    def has(self, name):
        return name in self.files

    def names(self, prefix=""):
        return [name for name in self.files if name.startswith(prefix)]

    def environment(self, name):
        return self._read(name)[0]

    def cells(self, *names):
        """The cells of these files; of a cell that is in several the first one."""
        found = {}
        for name in names:
            if name in self.files:
                for cell in self._read(name)[1]:
                    found.setdefault(key_of(cell), cell)
        return list(found.values())

    def rounds(self, name):
        """The lines of a run in which two sides took turns."""
        return self._read(name)[2]

    def profile(self):
        path = self.folder / "raw" / "profile.json"
        return json.loads(path.read_text()) if path.is_file() else None


def reported(binary, environment, cells, form):
    """What `allocmark report --format FORM` prints about these cells."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(line) for line in [environment, *cells]]
        (Path(folder) / "results.jsonl").write_text("\n".join(lines) + "\n")
        run = subprocess.run([binary, "report", folder, "--format", form], capture_output=True, text=True)
    if run.returncode != 0:
        raise PublishError(f"{binary} report failed: {run.stderr.strip()}")
    return run.stdout


def key_of(cell):
    """What names a cell besides the device: the same experiment on another one has the same key."""
    return tuple(cell[name] for name in ("workload", "allocator", "conf", "capacity", "seed", "on_oom"))


def is_measured(cell):
    return cell is not None and cell["status"] in ("ok", "oom_stopped")
