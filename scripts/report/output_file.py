"""The one way in which Python writes a file under a name that a person gave; base/output_file.h says the same for C++.
scripts/record/record_pytorch.py, which users copy to other machines, has the same functions; output_file_test.py holds them equal."""
import contextlib
import errno
import fcntl
import os
import stat
import time


def descriptor_of(path):
    """The open descriptor that it names (/dev/stdout, /dev/fd/N), by links or not; None for any other path."""
    for _ in range(40):
        folder, name = os.path.split(os.path.abspath(path))
        if name.isdigit() and (folder == "/dev/fd" or (folder.startswith("/proc/") and folder.endswith("/fd"))):
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def open_pipe(path, wait_s=15):
    """A device or a pipe, which opens once somebody reads it."""
    for attempts_left in range(int(wait_s * 50), -1, -1):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            return descriptor
        except OSError as error:
            if error.errno != errno.ENXIO or attempts_left == 0:
                raise
            time.sleep(0.02)
    raise AssertionError("the loop returns or raises")


def open_part(target):
    """(name, descriptor) of the file beside it, empty and locked: a new one, or what a writer that was killed left behind. Where another
    process writes it, or it is no plain file of this user's own, one with this process's number in its name."""
    folder, name = os.path.split(target)
    part, flags = os.path.join(folder, f".{name}.part"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    while True:
        try:
            descriptor = os.open(part, flags, 0o666)
        except OSError:
            break
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode) or opened.st_uid != os.geteuid() or opened.st_nlink > 1:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its writer may have given it its name, or taken it away, before it was locked here.
            if os.path.exists(part) and os.path.samestat(os.lstat(part), opened):
                os.ftruncate(descriptor, 0)
                return part, descriptor
            os.close(descriptor)
        except OSError:
            os.close(descriptor)
            break
    part = os.path.join(folder, f".{name}.{os.getpid()}.part")
    return part, os.open(part, flags | os.O_EXCL, 0o666)


def write_file(path, data):
    """Writes bytes as allocmark's own files are written. A regular file is replaced whole or not at all: its bytes go to a file beside it, to
    the disk, and then take its name. A link stays, and the file that it leads to is replaced. A device, a pipe and an open descriptor are
    written straight through."""
    path = os.fspath(path)
    descriptor = descriptor_of(path)
    is_there = os.path.exists(path)
    if descriptor is not None or (is_there and not os.path.isfile(path) and not os.path.isdir(path)):
        with open(open_pipe(path) if descriptor is None else os.dup(descriptor), "wb") as file:
            file.write(data)
        return
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    part, descriptor = open_part(target)
    with open(descriptor, "wb") as file:
        try:
            if is_there:
                os.fchmod(descriptor, os.stat(target).st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
