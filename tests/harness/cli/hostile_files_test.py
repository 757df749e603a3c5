#!/usr/bin/env python3
"""Files that were made to hurt, given to every command that reads or writes files. Usage: hostile_files_test.py PATH_OF_ALLOCMARK

Each row has a command line, the exit codes that it may give, and words that it must say. No row may take more than 20 s
or 512 MiB of memory (of address space twice as much), end by a signal, or print a control character.
"""
import gzip
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from many_cells import cell_id
from outside import answer_of

DEEP = "[" * 100_000

# Exit codes, command line, words. {W} is the folder of the files, {R} a run's folder.
READERS = [
    ("trace summary {F}", "26"),
    ("trace validate {F}", "26"),
    ("trace convert {F} {W}/out.csv --force", "26"),
    ("run -w file:{F} -a null -d sim:h200 --allow-debug --passes 1 --out {W}/out", "236"),
    ("run -w comb:count=5 -a null -d sim:h200 --allow-debug --calibration {F} --out {W}/out", "26"),
    ("compare {R} {F}", "26"),
    ("compare {F} {R}", "26"),
    ("compare {R} {W}/other --policy {F}", "26"),
    ("compare {R} {W}/other --calibration {F}", "26"),
    ("report {F}", "26"),
    ("check {F}", "126"),
    ("reproduce {F}", "26"),
    ("bundle {F} --out {W}/out.tar --force", "26"),
    ("bundle {R} --baseline {F} --out {W}/out.tar --force", "26"),
    ("parity comb:count=5 {F}", "126"),
    ("parity {F} tests/golden/caching/gpt2_train_amp.tar.gz", "126"),
    ("fidelity {F} -w comb:count=5", "236"),
    ("fidelity gpt2_train_amp -w file:{F}", "236"),
    ("qualify -d sim:h200 --seconds 1 --thresholds {F}", "26"),
    ("qualify -d sim:h200 --seconds 1 --baseline {F}", "26"),
    ("why {F}", "26"),
    ("advise {F} --search-only --conf unset", "26"),
    ("fit file:{F} --conf unset", "26"),
    ("ranks file:{F} file:{W}/good.csv -d sim:h200", "26"),
    ("threads file:{F} --threads 1 --passes 1 -d sim:h200", "26"),
    ("simcheck --on sim:h200 --against sim:h200 --seeds 0 --allocator native file:{F}", "26"),
    ("export {F} {W}/out.json --force", "26"),
    ("capture --finish --out {F}", "026"),
    ("merge {F}", "236"),
    ("merge {W}/nodes --expect {F}", "0236"),
]
# Files that have a name of their own in a folder: command, folder, file.
IN_FOLDERS = [
    ("compare {X}", "ab", "rounds.jsonl"),
    ("compare {X}", "ab", "interleaved.json"),
    ("compare {X}", "ab", "placements.json"),
    ("report {X} --no-html", "ab", "A/results.jsonl"),
    ("bundle {X}/B --baseline {X} --out {W}/out.tar --force", "ab", "rounds.jsonl"),
    ("run --for 2s --resume --no-html --out {X}", "soak", "soak/*.jsonl"),
    ("merge {X}", "nodes", "n1/qualify.json"),
    ("bundle {X} --out {W}/out.tar --force", "run", "plan.json"),
    ("report {X} --no-html", "run", "conditions.json"),
]
WRITERS = [
    ("trace generate comb:count=5 {F} --force", "026"),
    ("trace convert {W}/good.csv {F} --force", "026"),
    ("compare {R} {W}/other --format json --out {F} --force", "0136"),
    ("bundle {R} --out {F} --force", "0126"),
    ("profile -d sim:h200 --repeats 1 --out {F} --force", "06"),
]
# Of single commands: command, codes, words.
ROWS = [
    ("run -w comb:count=5 -a null -d sim:h200 --timeout -1", "2", "--timeout"),
    ("run -w comb:count=5 -a null -d sim:h200 --timeout 99999999999", "2", "--timeout"),
    ("run -w comb:count=5 -a null -d sim:h200 --timeout 1e30", "2", "--timeout"),
    ("check {W}/bomb.tar.gz", "1", "times its size"),
    ("check {W}/bomb.tar.zst", "1", "times its size"),
    ("parity comb:count=5 {W}/bomb.tar.gz", "2", "times its size"),
    ("parity comb:count=5 {W}/bomb.txt.gz", "2", "times its size"),
    ("check {W}/holes.tar", "6", "too large"),
    ("reproduce {W}/bomb.tar.gz", "2", "times its size"),
    ("check {W}/up.tar", "1", "../evil"),
    ("check {W}/root.tar", "1", "/etc/evil"),
    ("check {W}/escape.tar", "1", "\\x1b"),
    ("check {W}/nameless.tar", "1", "an empty name"),
    ("check {W}/tail.tar", "1", "bytes follow its end"),
    ("check {W}/device.tar", "1", "not a file"),
    ("check {W}/pipes", "1", "not a file"),
    ("compare {R} {W}/other --policy {W}/twice.json", "2", "a key is there twice"),
    ("compare {R} {W}/other --policy {W}/deep.json", "2", "nests more than 64 deep"),
    ("qualify -d sim:h200 --seconds 1 --thresholds {W}/deep.json", "2", "nests more than 64 deep"),
    ("merge {W}/node", "3", "not JSON near"),
    ("why {W}/lists.pickle.gz", "2", "stack grows too high"),
    ("why {W}/held.pickle.gz", "2", "too much that is no record"),
    ("why {W}/texts.pickle.gz", "2", "too many different texts"),
    ("why {W}/bomb.pickle.gz", "2", "times its size"),
    ("trace summary {W}/view.sqlite", "2", "is no table"),
    ("trace summary {W}/live.csv.gz", "2", "too many blocks are live at once"),
    ("trace summary {W}/live_rmm.csv.gz", "2", "too many blocks are live at once"),
    ("run -w file:{W}/no\udcff.csv -a null -d sim:h200 --allow-debug --out {W}/out", "2", "not UTF-8"),
    ("ranks file:{W}/good.csv file:{W}/no\udcff.csv -d sim:h200", "2", "not UTF-8"),
    ("run -w comb:count=5 -a null -d sim:{W}/profile.json --allow-debug --out {W}/out", "2", "type must be number"),
    # The simulated GPU reads these two as it should; what the program takes from them itself is wrong.
    ("run -w comb:count=5 -a null -d sim:{W}/profile_twice.json --allow-debug --out {W}/out", "2", "a key is there twice"),
    ("run -w comb:count=5 -a null -d sim:{W}/profile_words.json --allow-debug --out {W}/out", "2", "type must be number"),
    ("trace validate {W}/pipe", "6", "nobody opened"),
    ("run --workload file:{W}/pipe --out {W}/never", "2", "can be read once"),
    ("trace generate comb:count=5 /dev/full", "6", "No space left"),
    ("trace generate comb:count=5 {W}/full.csv --force", "6", "No space left"),
]
OPENERS = ["file:{W}/secret", "comb:count=4 then file:{W}/secret", "file:{W}/secret beside comb:count=4", "comb:count=4 then file:{W}/pipe",
           "file:{W}/secret+kernels:off", "colocate:a=file:{W}/secret", "train:{W}/secret.json,batch=1", "serve:{W}/pipe.json,requests=2",
           "comb:count=4 then infer:{W}/secret.json,batch=1", "train:gpt2-124m,dp=2,deepspeed={W}/secret", "train:gpt2-124m,dp=2,deepspeed={W}/pipe",
           "comb:count=4 beside train:gpt2-124m,deepspeed={W}/secret.json"]


def tar_of(entries, path, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, kind, data in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size = kind, len(data)
            archive.addfile(entry, io.BytesIO(data))


def make_packed(work):
    """Small files that unpack to much, or hold much at once."""
    head = b"\x80\x04"
    for name, text in {
        "lists.pickle": head + b"]" * (2 << 20),
        "held.pickle": head + b"]" + b"K\x01a" * (5 << 20),
        "bomb.pickle": head + b"]" + b"\x94" * (80 << 20),
        "texts.pickle": head + b"]" + b"".join(b"X\x10\x00\x00\x00%016da" % i for i in range(1_500_000)) + b".",
        "live.csv": b"op,id,size,stream\n" + b"".join(b"alloc,%d,512,0\n" % i for i in range(2_200_000)),
        "live_rmm.csv": b"Thread,Time,Action,Pointer,Size,Stream\n" + b"".join(b"1,0,allocate,0x%x,512,0\n" % (i + 1) for i in range(2_200_000)),
    }.items():
        (work / f"{name}.gz").write_bytes(gzip.compress(text, 1))
    with sqlite3.connect(work / "view.sqlite") as database:
        database.execute(
            "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
            "SELECT x AS start, x*512 AS address, 512 AS bytes, 0 AS memoryOperationType, 2 AS memKind FROM c WHERE x<0"
        )
    database.close()


def make_folders(work, program):
    """What IN_FOLDERS takes a file out of."""
    def call(*words):
        subprocess.run([program, *words], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    one = ("-w", "comb:count=40", "-d", "sim:h200", "--allow-debug", "--no-html", "-q", "--out")
    call("run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "--rounds", "2", "--rounds-max", "2", *one, work / "ab")
    call("run", "--for", "2s", "-a", "caching", *one, work / "soak")
    call("qualify", "-d", "sim:h200", "--seconds", "1", "--node", "n1", "--out", work / "nodes/n1")


def make_files(work, program):
    (work / "good.csv").write_text("op,id,size,stream\nalloc,1,512,0\nfree,1,0,0\n")
    (work / "secret").write_text("root:secret-of-this-machine:1::::::\n")
    (work / "secret.json").write_text('{"model_type": "secret-of-this-machine"}')
    (work / "pipes").mkdir()
    for name in ("pipe", "pipe.json", "pipes/results.jsonl"):
        os.mkfifo(work / name)
    with open(work / "holes.csv", "wb") as file:
        file.truncate(1 << 42)
    for name in ("holes.tar", "holes.json"):
        with open(work / name, "wb") as file:
            file.truncate(1 << 36)
    (work / "deep.json").write_text(DEEP + "]" * 100_000)
    (work / "objects.json").write_text('{"a":' * 100_000)
    (work / "deep.csv").write_text(DEEP)
    (work / "wide.json").write_text("{" + ",".join(f'"k{i}":0' for i in range(200_000)) + "}")
    (work / "node").mkdir()
    (work / "node" / "qualify.json").write_bytes(b'{"kind": 0.29\x87}')
    (work / "profile.json").write_text('{"schema": [3]}')
    profile = re.sub(r'"host_reference_ns":[\d.]+,', "", Path("harness/simcuda/profiles/h200.json").read_text())
    for name, about in (("twice", '"note":1,"note":2'), ("words", '"host_reference_ns":"fast"')):
        (work / f"profile_{name}.json").write_text(re.sub(r'"about": *{', '"about": {' + about + ",", profile, count=1))
    (work / "twice.json").write_text('{"effect_min":0.1,"effect_min":0.2}')
    (work / "controls.csv").write_bytes(b"\x1b[31m\x07\xe2\x80\xae,\r\n")
    (work / "empty").write_bytes(b"")
    (work / "zeros.csv.gz").write_bytes(gzip.compress(bytes(1 << 20) * 4))
    with gzip.open(work / "bomb.txt.gz", "wb", 1) as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
    # One file of 400 MiB of zeros, which holes are.
    os.truncate(work / "empty", 400 << 20)
    subprocess.run(["tar", "cf", work / "bomb.tar", "--transform", "s,^,allocmark-bundle/,", "-C", work, "empty"], check=True)
    os.truncate(work / "empty", 0)
    subprocess.run(["gzip", "-k", work / "bomb.tar"], check=True)
    subprocess.run(["zstd", "-q", "--rm", work / "bomb.tar", "-o", work / "bomb.tar.zst"], check=True)
    for name, entry in {
        "up": ("../evil/", tarfile.DIRTYPE, b""),
        "root": ("/etc/evil/", tarfile.DIRTYPE, b""),
        "escape": ("allocmark-bundle/\x1b[31m", tarfile.DIRTYPE, b""),
        "nameless": ("", tarfile.REGTYPE, b"x"),
        "device": ("allocmark-bundle/null", tarfile.CHRTYPE, b""),
    }.items():
        tar_of([entry], work / f"{name}.tar")
    (work / "tail.tar").write_bytes((work / "up.tar").read_bytes() + b"more")
    (work / "full.csv").symlink_to("/dev/full")
    (work / "link.csv").symlink_to("good.csv")
    (work / "null.csv").symlink_to("/dev/null")
    (work / "round.csv").symlink_to("round.csv")
    for name in ("run", "other"):
        command = [program, "run", "-w", "comb:count=20", "-a", "caching", "-d", "sim:h200", "--allow-debug", "--out", work / name, "-q"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    make_packed(work)
    make_folders(work, program)


def bundles_with(work, program):
    """A sound bundle, and such with each workload of OPENERS in the place of its own."""
    subprocess.run([program, "bundle", work / "run", "--out", work / "sound.tar"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    for number, workload in enumerate(OPENERS):
        with tarfile.open(work / "sound.tar") as archive:
            files = [(entry.name, tarfile.REGTYPE, archive.extractfile(entry).read()) for entry in archive]
        text = workload.replace("{W}", str(work))
        tar_of([(name, kind, of_workload(data, text)) for name, kind, data in files], work / f"opener{number}.tar")
        yield f"check {{W}}/opener{number}.tar", "13"


def of_workload(data, text):
    """A file of the bundle with another workload, under the name that a cell of it has."""
    def renamed(value):
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if isinstance(value, dict) and value.get("workload") == "comb:count=20":
            value = value | {"workload": text}
            return value | {"cell_id": cell_id(value)} if "cell_id" in value else value
        return {name: renamed(item) for name, item in value.items()} if isinstance(value, dict) else value

    try:
        return "".join(json.dumps(renamed(json.loads(line))) + "\n" for line in data.splitlines()).encode()
    except ValueError:
        pass
    try:
        return json.dumps(renamed(json.loads(data))).encode()
    except ValueError:
        return data.replace(b"comb:count=20", text.encode())


class Table:
    def __init__(self, program, work):
        self.program, self.work, self.tried, self.failed, self.memory = program, work, 0, 0, 0

    def try_one(self, words, codes, wanted="", unwanted="\x1b"):
        text = words.replace("{W}", str(self.work)).replace("{R}", str(self.work / "run")).replace("{X}", str(self.work / "folder"))
        command = shlex.split(text)
        subprocess.run(["rm", "-rf", self.work / "out"], check=True)
        answer = answer_of(self.program, command)
        self.memory = max(self.memory, answer.memory_bytes)
        problem, output = answer.problem(codes), answer.output
        if not problem and wanted.encode() not in output:
            problem = f"does not say '{wanted}'"
        if not problem and unwanted.encode() in output:
            problem = f"says '{unwanted}'"
        self.tried += 1
        if problem:
            self.failed += 1
            print(f"allocmark {text}\n    {problem}\n    {output[-300:]!r}")


def main(program):
    if not shutil.which("zstd"):
        print("zstd is missing: nothing was tried (Debian: apt-get install zstd)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_files(work, program)
        table = Table(program, work)
        inputs = ["/dev/zero", "/dev/null", "{W}", "{W}/none", "{W}/secret", "{W}/holes.csv", "{W}/holes.json", "{W}/deep.json",
                  "{W}/objects.json", "{W}/deep.csv",
                  "{W}/wide.json", "{W}/controls.csv", "{W}/empty", "{W}/zeros.csv.gz", "{W}/pipes"]
        for file in inputs:
            for command, codes in READERS:
                table.try_one(command.replace("{F}", file), codes)
            for command, folder, place in IN_FOLDERS:
                shutil.rmtree(work / "folder", ignore_errors=True)
                shutil.copytree(work / folder, work / "folder")
                target = next((work / "folder").glob(place))
                target.unlink()
                target.symlink_to(file.replace("{W}", str(work)))
                table.try_one(command, "012346")
        for command, codes in WRITERS:
            for file in ["/dev/null", "/dev/full", "{W}", "{W}/none/x.csv", "{W}/round.csv", "{W}/null.csv", "{W}/link.csv"]:
                table.try_one(command.replace("{F}", file), codes)
        for command, codes in bundles_with(work, program):
            table.try_one(command, codes, wanted="Do the workloads still give these events?", unwanted="secret-of-this-machine")
            table.try_one(command, codes, wanted="cells-consistent", unwanted="results.jsonl cannot be used")
            table.try_one(command, codes, unwanted=str(work / "secret.json") + ":")
        # Silent while a pipe that nobody writes to is given up, and open all the while.
        silent = subprocess.Popen([program, "why", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for command, codes, wanted in ROWS:
            table.try_one(command, codes, wanted)
        if silent.poll() is not None or b"2.00 GiB" not in silent.communicate(b"CUDA out of memory. Tried to allocate 2.00 GiB\n")[0]:
            table.failed += 1
            print("a silent pipe was not waited for")
        if not Path("/dev/null").is_char_device() or not (work / "null.csv").is_symlink() or not (work / "link.csv").is_symlink():
            table.failed += 1
            print("a device or link was replaced")
        print(f"tried {table.tried}, held {table.tried - table.failed}, failed {table.failed}; most memory {table.memory >> 20} MiB")
        return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
