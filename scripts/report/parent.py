"""Ends this process with the program that started it: a page that nobody waits for is not made. Flows in: ALLOCMARK_PARENT, that
program's process; without it nothing is done."""

import ctypes
import os
import signal

SET_SIGNAL_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG


def end_with_parent():
    parent = os.environ.get("ALLOCMARK_PARENT", "")
    if not parent.isdigit():
        return
    ctypes.CDLL(None).prctl(SET_SIGNAL_AT_PARENTS_END, signal.SIGKILL)
    # It may have ended before.
    if os.getppid() != int(parent):
        os._exit(1)
