"""Packages of PyPI that a test needs: from Python itself, else from the environment that tests/scripts/report/install.sh makes."""
import importlib
import os
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parents[2] / "build" / "report-venv"


def need(hint, *names):
    """The modules. Starts the test again in that environment where it has them and Python has not; else the test is skipped."""
    try:
        modules = [importlib.import_module(name) for name in names]
    except ImportError as error:
        python = ENVIRONMENT / "bin" / "python3"
        if python.exists() and Path(sys.prefix) != ENVIRONMENT:
            os.execv(python, [str(python), *sys.argv])
        print(f"{Path(sys.argv[0]).stem}: skipped: {error} (PyPI: {hint})")
        sys.exit(77)
    return modules if len(modules) > 1 else modules[0]
