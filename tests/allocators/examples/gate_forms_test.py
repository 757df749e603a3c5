#!/usr/bin/env python3
"""The gate in its three forms, each as its reader uses it: the script, the steps of the GitHub Action as the service would run them, and the
test of CTest. Each passes the example plugin against itself and fails a build that takes too much memory.

Usage: gate_forms_test.py ALLOCMARK EXAMPLE.so FAULTY.so
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CI = Path(__file__).resolve().parents[3] / "allocators/examples/ci"
CELLS = ["--rounds", "2"]  # behind the libraries, where the action and the test put options
RUN_OPTIONS = ["--", "--workload", "gpt2_train_ckpt", "--capacity", "1.05x", "--allow-debug", "--min-effect", "300%"]


def action_steps(text):
    """The scripts of the action's steps, in order: the blocks below `run: |`."""
    scripts = []
    for found in re.finditer(r"^( +)run: \|\n((?:\1  .*\n|\n)+)", text, re.M):
        scripts.append(re.sub(rf"^{found[1]}  ", "", found[2], flags=re.M))
    return scripts


def by_shell(allocmark, base, new, folder):
    history = folder / "history.jsonl"
    words = [str(CI / "gate.sh"), "--out", str(folder / "results"), base, new, "--history", str(history), *CELLS, *RUN_OPTIONS]
    done = subprocess.run(words, env={**os.environ, "ALLOCMARK": allocmark, "GITHUB_ACTIONS": "true"}, capture_output=True, text=True)
    # A finding stands beside the library, and what passed is in the history.
    assert (f"::error file={new},title=allocmark gate::rounding" in done.stdout) == (done.returncode != 0), done.stdout
    assert history.exists() == (done.returncode == 0)
    return done


def by_action(allocmark, base, new, folder):
    text = (CI / "action/action.yml").read_text()
    options = " ".join(CELLS + RUN_OPTIONS)
    values = {"inputs.base": base, "inputs.new": new, "inputs.functions": "my_malloc,my_free,trim:my_trim", "inputs.options": options,
              "inputs.allocmark": allocmark, "github.action_path": str(CI / "action")}
    summary = folder / "summary.md"
    first = None
    for script in action_steps(text):
        script = re.sub(r"\$\{\{ *([a-z_.]+) *\}\}", lambda found: values[found[1]], script)
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "ALLOCMARK": allocmark, "GITHUB_STEP_SUMMARY": str(summary)})
        first = first or done
    assert "passed" in summary.read_text() or "FAILED" in summary.read_text(), summary.read_text()
    return first


def by_ctest(allocmark, base, new, folder):
    options = ";".join(CELLS + RUN_OPTIONS)
    subprocess.run(["cmake", "-S", str(CI / "ctest"), "-B", str(folder / "build"), f"-DALLOCMARK={allocmark}", f"-DBASE={base}", f"-DNEW={new}",
                    "-DFUNCTIONS=my_malloc,my_free,trim:my_trim", f"-DOPTIONS={options}"], check=True, capture_output=True)
    return subprocess.run(["ctest", "--test-dir", str(folder / "build"), "--output-on-failure"], capture_output=True, text=True)


def main():
    allocmark, example, faulty = sys.argv[1:4]
    failures = 0
    for form in (by_shell, by_action, by_ctest):
        for new, good in ((example, True), (faulty, False)):
            with tempfile.TemporaryDirectory() as name:
                done = form(allocmark, example, new, Path(name))
            text = done.stdout + done.stderr
            right = (done.returncode == 0) == good and (good or "rounding" in text)
            failures += 0 if right else 1
            print(f"{'ok' if right else 'FAILED'}: {form.__name__}: {'the same' if good else 'takes more'}: {done.returncode}")
            if not right:
                print(text[-3000:])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
