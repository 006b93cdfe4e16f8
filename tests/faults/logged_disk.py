"""A disk that logs every write and every flush, in order: logged_disk.py FOLDER IMAGE LOG. Shows the file IMAGE as
FOLDER/disk, by FUSE: a loop device on it is a disk with a known write cache. LOG is a sequence of entries: monotonic
time in seconds, kind, offset and length (ENTRY), then the written bytes. Ends when FOLDER is unmounted."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import time
from typing import Any

ENTRY = struct.Struct("<dBQQ")
WRITE, FLUSH = 1, 2


def main(folder: str, image: str, log_path: str) -> None:
    import mfusepy

    class Disk(mfusepy.Operations):  # type: ignore[misc]
        """A folder with one file."""

        use_ns = True

        def __init__(self) -> None:
            self.disk = os.open(image, os.O_RDWR)
            self.log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
            if path != "/disk":
                raise mfusepy.FuseOSError(errno.ENOENT)
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": os.fstat(self.disk).st_size}

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", "disk"]

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(self.disk, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            os.pwrite(self.disk, data, offset)
            os.writev(self.log, [ENTRY.pack(time.monotonic(), WRITE, offset, len(data)), data])
            return len(data)

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            os.write(self.log, ENTRY.pack(time.monotonic(), FLUSH, 0, 0))
            return 0

    mfusepy.FUSE(Disk(), folder, foreground=True, nothreads=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
