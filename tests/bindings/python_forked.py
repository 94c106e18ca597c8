# SPDX-License-Identifier: Apache-2.0
"""Checks in a child of fork()."""
import os
import traceback


def failure_in_child(check):
    """What check() raises in a child of this process, or how the child ended; nothing if all is well."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            check()
        except BaseException:
            text = traceback.format_exc()
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return text or (f"the child ended with {status}" if status else "")
