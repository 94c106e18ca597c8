#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold bindings/fortran/coverage.md to the headers and to the sources, and the generator to its promise to fail.

    check_coverage.py FOLDER_OF_HEADERS BINDING_DIR
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def coverage(headers, binding):
    """One line for each thing that is wrong with the table."""
    names = subprocess.run([sys.executable, "-B", binding / "generate_raw.py", headers, "names"], check=True, capture_output=True, text=True)
    rows = re.findall(r"^\| (attile_\w+) \| (yes|no) \| (yes|no) \| (.*) \|$", (binding / "coverage.md").read_text(), re.M)
    raw = (binding / "src/attile_raw.f90").read_text()
    made = {"attile_raw.f90", "attile_types.f90", "attile_constants.f90"}
    written = "\n".join(p.read_text() for p in (binding / "src").iterdir() if p.suffix in (".f90", ".inc") and p.name not in made)
    if [row[0] for row in rows] != names.stdout.split():
        yield "the table's functions are not the headers', in their order"
    for name, is_raw, typed, remark in rows:
        has_raw = f'bind(c, name="{name}")' in raw
        has_typed = bool(re.search(rf"^\s*interface {name}$|only:.*\b{name} => ", written, re.M)) and f"{name}" in written
        # `only: raw_x => attile_x` takes a name from the raw layer; `only: attile_x => x` gives one to the typed one.
        if (is_raw == "yes") != has_raw:
            yield f"{name}: raw is {is_raw} in the table and {has_raw} in the sources"
        if (typed == "yes") != has_typed:
            yield f"{name}: typed is {typed} in the table and {has_typed} in the sources"
        if not remark:
            yield f"{name}: no remark"


UNKNOWN = [  # declarations that no rule of the generator covers
    "ATTILE_API float attile_new(void);",
    "ATTILE_API int32_t attile_new(struct other *x);",
    "ATTILE_API int32_t attile_new(int32_t x[4]);",
    "ATTILE_API int32_t attile_new(unsigned x);",
    "typedef struct attile_new { int32_t a, b; } attile_new;",
    "typedef struct attile_new { int32_t a : 3; } attile_new;",
    "typedef struct attile_new { char text; } attile_new;",
    "typedef struct attile_new { void (*call)(void (*other)(int32_t)); } attile_new;",
    "typedef enum attile_new { ATTILE_A } attile_new;",
    "#define ATTILE_NEW (1 << 3)\n",
    "#define ATTILE_NEW 1.5\n",
    "#define ATTILE_NEW(x) 1\n",
    "int attile_new;",
]


def generator(headers, binding):
    """One line for each declaration that the generator lets pass."""
    texts = {path.name: path.read_text() for path in headers.iterdir()}
    for number, declaration in enumerate(UNKNOWN):
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in texts.items():
                pathlib.Path(scratch, name).write_text(text)
            name = ("attile.h", "attile_distributed.h")[number % 2]
            where = texts[name].rindex("#ifdef __cplusplus")
            pathlib.Path(scratch, name).write_text(texts[name][:where] + declaration + "\n" + texts[name][where:])
            run = subprocess.run([sys.executable, "-B", binding / "generate_raw.py", scratch, "write", scratch], capture_output=True, text=True)
            if run.returncode == 0 or "cannot translate" not in run.stderr:
                yield f"the generator passes over {declaration!r}: {run.stderr}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    headers, binding = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    breaches = list(coverage(headers, binding)) + list(generator(headers, binding))
    print("\n".join(breaches))
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
