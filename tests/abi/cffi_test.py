# SPDX-License-Identifier: Apache-2.0
"""cffi, and with it every tool that reads plain C, reads the headers once the preprocessor is through with them; a product is computed by the functions that it finds.
usage: cffi_test.py COMPILER INCLUDE LIBRARY WORK"""
import pathlib
import subprocess
import sys

import cffi


def read(compiler, header, include, work):
    """Declarations of a header. cffi knows the types of stdint.h itself, and not what a compiler's own file says."""
    (work / "empty").mkdir(parents=True, exist_ok=True)
    (work / "empty/stdint.h").write_text("")
    command = [compiler, "-E", "-P", "-nostdinc", "-DATTILE_API=", f"-I{include}", f"-I{work / 'empty'}", f"{include}/attile/{header}"]
    ffi = cffi.FFI()
    ffi.cdef(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return ffi


def main(compiler, include, library, work):
    assert read(compiler, "attile_distributed.h", include, pathlib.Path(work)).typeof("attile_comm_options").fields
    ffi = read(compiler, "attile.h", include, pathlib.Path(work))
    attile = ffi.dlopen(library)
    context = ffi.new("attile_context **")
    options = ffi.new("attile_context_options *")
    attile.attile_context_options_init(options, ffi.sizeof("attile_context_options"))
    name = ffi.new("char[]", b"reference")
    options.backend = name
    assert attile.attile_context_create(options, context) == 0
    a, b, c = ffi.new("float[]", [1, 2, 3, 4, 5, 6]), ffi.new("float[]", [1, 0, 0, 1, 1, 1]), ffi.new("float[4]")
    order, as_it_is = 101, 111  # ATTILE_ROW_MAJOR, ATTILE_NO_TRANS: macros are gone after the preprocessor
    status = attile.attile_sgemm(context[0], order, as_it_is, as_it_is, 2, 2, 3, 1, a, 3, b, 2, 0, c, 2)
    attile.attile_context_destroy(context[0])
    assert (status, list(c)) == (0, [4, 5, 10, 11]), (status, list(c))


if __name__ == "__main__":
    main(*sys.argv[1:])
