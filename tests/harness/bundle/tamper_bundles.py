"""Sound runs, what a change makes of one of them, and which rules of `allocmark check` find it. For tamper_test.py."""
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

ROOM = "allocmark-bundle/"
KEY = ("workload", "allocator", "conf", "capacity", "seed", "device", "on_oom", "cell_id", "workload_definition",
       "workload_files", "conf_definition")


def reserved(rule, text):
    """A reservation as a finding; empty for how quiet the machine was, which differs from run to run."""
    return "" if rule == "machine-quiet" and "not known" not in text else f"{rule}: {text}"


def leave_out(folder, unwanted):
    """Takes cells out of a run that no case changes: in every case they would be simulated again. check cannot know of them."""
    results, plan = folder / "results.jsonl", folder / "plan.json"
    head, *cells = results.read_text().splitlines()
    results.write_text("".join(line + "\n" for line in [head, *(line for line in cells if not unwanted(json.loads(line)))]))
    planned = json.loads(plan.read_text())
    for cell in planned["cells"]:
        if unwanted(cell):
            (folder / "timelines" / f"{cell['cell_id']}.json").unlink()
    planned["cells"] = [cell for cell in planned["cells"] if not unwanted(cell)]
    plan.write_text(json.dumps(planned))


class Bundles:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.without_pages = {"PATH": ""}  # of the programs that python3 is looked for among
        subprocess.run([program, "trace", "generate", "comb:count=40", work / "own.csv"], check=True, stdout=subprocess.DEVNULL)
        command = [program, "run", "-w", "comb:count=200", "-w", "churn:live_bytes=64MiB,events=3000",
                   "-w", "serve:gpt2-124m,requests=3,layers=1,generated_max=8,context_max=64", "-a", "caching", "-a", "native",
                   "-a", "async", "-d", "sim:h200", "--capacity", "1.05x", "--capacity", "0.9x", "--timeline", "--allow-debug", "--no-html", "-q",
                   "--out", work / "run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        changed = {("churn", allocator, "1.05x") for allocator in ("caching", "native", "async")} | {("serve", "native", "1.05x")}
        leave_out(work / "run", lambda cell: (cell["workload"].split(":")[0], cell["allocator"], cell["capacity"]) not in changed
                  and not cell["workload"].startswith("comb"))
        small = [program, "run", "-w", "churn:live_bytes=64MiB,events=3000", "-a", "caching", "-a", "native", "-d", "sim:h200",
                 "--capacity", "1.05x", "--allow-debug", "--no-html", "-q", "--out"]
        for name in ("base", "now"):
            subprocess.run([*small, work / name], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*small, work / "one_pass", "--passes", "1"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "run", "-w", f"file:{work}/own.csv", "-a", "caching", "-d", "sim:h200", "--allow-debug", "--no-html",
                        "-q", "--out", work / "own"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([program, "run", "-w", "churn:live_bytes=64MiB,events=3000", "-a", "host_caching", "-a", "cupy_pinned", "-a", "host_caching@2.13",
                        "-d", "sim:h200", "--capacity", "1.05x", "--allow-debug", "-q", "--out", work / "pinned"], check=True, stdout=subprocess.DEVNULL)
        self.sound = self.work / "sound.tar"
        self.kept = self.judge_folder(work / "run", self.sound, pages=True)
        (work / "run/report.html").unlink()
        command = [program, "run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "-w", "churn:live_bytes=64MiB,events=3000", "-d", "sim:h200",
                   "--allow-debug", "--rounds", "4", "--rounds-max", "4", "--no-html", "-q", "--out"]
        for name in ("turns", "older"):
            subprocess.run([*command, work / name], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def judge(self, path):
        """Names of rules that are broken or were not checked, and what is reserved."""
        run = subprocess.run([self.program, "check", path, "--rerun", "--seconds", "600", "--format", "json"], capture_output=True, check=False)
        rules = json.loads(run.stdout)["rules"]
        found = {rule["rule"] for rule in rules if rule["outcome"] in ("BROKEN", "not checked")}
        return found | {reserved(rule["rule"], text) for rule in rules for text in rule["reservations"]} - {""}

    def judge_folder(self, folder, archive, more=(), pages=False):
        """What bundle says of its own file: the rules of check, which simulates cells as small as these again in any case. A page
        would be made of what was changed, takes as long as all rules, and no rule but page-of-results looks at it."""
        archive.unlink(missing_ok=True)
        run = subprocess.run([self.program, "bundle", folder, "--out", archive, *more], capture_output=True, text=True, check=False,
                             env=None if pages else os.environ | self.without_pages)
        if not archive.exists() or run.returncode not in (0, 1, 3):
            return {f"refused: {run.stderr.strip()[-200:]}"}
        if "not simulated again in this time" in run.stdout:  # a busy machine, which is no finding
            return self.judge(archive)
        found, name = set(), ""
        for line in run.stdout.splitlines():
            rule = re.match(r"(ok|BROKEN|not checked|-)\s+([a-z-]+)\s", line)
            name = rule[2] if rule else name
            if rule and rule[1] in ("BROKEN", "not checked"):
                found.add(name)
            if line.startswith("      reservation: "):
                found.add(reserved(name, line.removeprefix("      reservation: ")))
        return found - {""}

    def with_pinned(self, change):
        return self.with_results(change, "pinned")

    def with_results(self, change, run="run"):
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / run, folder)
        lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        before = {id(line): line.get("cell_id") for line in lines}
        change(lines)
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        # The plan has the same cells, under their new names.
        now = {before[id(line)]: line for line in lines[1:]}
        plan = json.loads((folder / "plan.json").read_text())
        cells = [cell for cell in plan["cells"] if cell["cell_id"] in now]
        plan["cells"] = [cell | {name: value for name, value in now[cell["cell_id"]].items() if name in KEY} for cell in cells]
        (folder / "plan.json").write_text(json.dumps(plan))
        for timeline in (folder / "timelines").glob("*"):
            if timeline.stem in now:
                timeline.rename(timeline.with_stem(now[timeline.stem]["cell_id"]))
        return self.judge_folder(folder, self.work / "changed.tar")

    def with_folder(self, change):
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "run", folder)
        change(folder)
        return self.judge_folder(folder, self.work / "changed.tar")

    def with_turns(self, change):
        """Of an A/B run the sound one may be too short for some rules: what is broken besides counts."""
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "turns", folder)
        change(folder)
        return self.judge_folder(folder / "B", self.work / "changed.tar", ("--baseline", folder))

    def with_base(self, change):
        """The run that another one is compared with."""
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "base", folder)
        lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        change(lines)
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.judge_folder(self.work / "now", self.work / "changed.tar", ("--baseline", folder))

    def with_base_folder(self, change):
        """Its other files; `change` is given a folder beside which `one_pass` lies, another baseline."""
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "base", folder)
        change(folder)
        return self.judge_folder(self.work / "now", self.work / "changed.tar", ("--baseline", folder))

    def with_base_files(self, change):
        return self.with_files(change, self.work / "sound_base.tar")

    def with_files(self, change, sound=None):
        with tarfile.open(sound or self.sound) as archive:
            files = {entry.name[len(ROOM):]: archive.extractfile(entry).read() for entry in archive}
        change(files)
        files["SHA256SUMS"] = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in sorted(files.items()) if name != "SHA256SUMS").encode()
        path = self.work / "files.tar"
        with tarfile.open(path, "w") as archive:
            for name, text in sorted(files.items()):
                entry = tarfile.TarInfo(ROOM + name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        return self.judge(path)
