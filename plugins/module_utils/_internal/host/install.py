# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build the program for hosts from its sources, and install it where `entry_point` finds it.

`entry_point` runs this file directly from the sources, so it imports nothing from the collection.
"""

from __future__ import annotations

import io
import marshal
import os
import tempfile
import time
import zipfile

MONTH = 30 * 86400


def build(sources: bytes) -> bytes:
    """Return the program: the length of its index, the index, and then, without gaps, code and sources.

    The index contains where the sources begin, and by module name whether it is a package and the range of its code.
    The code is compiled by the Python that runs it, whose version is in the program's name.
    """
    modules = {}
    codes = b""
    with zipfile.ZipFile(io.BytesIO(sources)) as archive:
        for path in archive.namelist():
            name = path[: -len(".py")].replace("/", ".")
            is_package = name.endswith(".__init__")
            code = marshal.dumps(compile(archive.read(path), path, "exec", dont_inherit=True))
            modules[name[: -len(".__init__")] if is_package else name] = (
                is_package,
                len(codes),
                len(codes) + len(code),
            )
            codes += code
    known = marshal.dumps((len(codes), modules))
    return b"%08x" % len(known) + known + codes + sources


def keep(path: str, content: bytes) -> str:
    """Install a program, and remove those that were not used for a month. Return why this failed, if it did."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, 0o755, exist_ok=True)
        number, aside = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                os.fchmod(number, 0o644)
                file.flush()
                os.fsync(number)
            os.replace(aside, path)
        except BaseException:
            os.unlink(aside)
            raise
        for name in os.listdir(folder):
            other = os.path.join(folder, name)
            if other != path and os.lstat(other).st_mtime < time.time() - MONTH:
                os.unlink(other)
    except OSError as error:
        return str(error)
    return ""
