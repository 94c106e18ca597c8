#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the source tree to the house rules that no compiler checks: what docs/architecture.md claims (claims.py), that page's tables (rooms.py),
short files, functions and headers of kernels, licence lines, and the words of docs/glossary.md.

    check_layout.py ROOT          check the tree; exit status 1 and one line for each breach
    check_layout.py --self-test   check that the checker finds breaches
"""
import os
import re
import sys
import tempfile

import claims
import function_lengths
import rooms
from claims import ARROWS, C_FAMILY, part_of
from claims import without_comments as without_comments_and_strings

SOURCE = (".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".hip", ".f90", ".rs", ".py", ".sh")
MADE = (".o", ".obj", ".a", ".so", ".cubin", ".fatbin", ".ptx", ".sass")  # What compilers leave behind.
FOLDERS = ("backends", "bindings", "core", "examples", "include", "tests", "tools")

MAX_LINES = 450
# The public interface is one header by design: a program needs one file. Generated files are as long as what they are made from.
LONG_FILES = {"include/attile/attile.h", "include/attile/attile_backend.h", "include/attile/attile_distributed.h", "bindings/cpp/attile.hpp", "bindings/rust/attile-sys/src/bindings.rs", "bindings/fortran/src/attile_raw.f90"}

MAX_FUNCTION = 120
SHORT_FUNCTIONS = ("backends/", "core/", "tools/")
# Functions that are longer still, with the lines that they have. The list only shrinks: it gets no new line, and no number grows.
LONG_FUNCTIONS = {}

MAX_HEADER = 15  # Lines of comment that a kernel's file begins with; the rest is docs/kernels.
KERNEL = re.compile(r"backends/gpu/.+\.(cuh?|h)$|backends/cpu/.+-inl\.h$")
# Words that the field does not use, and those of docs/glossary.md that say the same.
WORDS = [
    (("backends/", "core/", "docs/"), r"(?i)copy engines?|copies' engine", "TMA"),
    (("backends/", "core/", "docs/"), r"(?i)serving (thread|warp)s?", "producer"),
    (("backends/", "core/", "docs/"), r"(?i)whole products", "unfused"),
    (("backends/", "core/", "docs/"), r"(?i)\b(in|by|takes?|taking) turns\b|\b(a|its|his|whose|each) turn\b|(?<!in )\bk?[Tt]urns?_?(?=;|\s*[=<>])", "round, stage, order or ping-pong"),
    (("backends/",), r"\bnotes?_?\b|\bnote_\w+|\w+_notes?\b|\w*Notes?\b", "work tile, row_max, row_sum or occupancy cache"),
]
WORDS = [(parts, re.compile(pattern), instead) for parts, pattern, instead in WORDS]
DMA = ("docs/ladder.md", "docs/ladder/")  # Of the engines that copy between host and device, which are called so.

FAST_MATH = re.compile(r"-ffast-math|-Ofast|-funsafe-math|--?use_fast_math")


class Tree:
    def __init__(self, root, long_functions=()):
        self.root, self.long_functions = root, dict(long_functions)
        self.files = []
        for folder in FOLDERS:
            for where, folders, names in os.walk(os.path.join(root, folder)):
                folders[:] = [f for f in folders if not f.startswith((".", "build", "__pycache__", "target", "node_modules"))]
                self.files += [os.path.relpath(os.path.join(where, n), root) for n in names]
        self.files.sort()
        self.known, self.texts = set(self.files), {}
        self.breaches = []

    def read(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def breach(self, path, text):
        self.breaches.append(f"{path}: {text}")

    def resolve(self, includer, name):
        """The file of the tree that an include means, or None for a header from elsewhere."""
        beside = os.path.normpath(os.path.join(os.path.dirname(includer), name))
        if beside in self.known:
            return beside
        found = [p for p in self.files if p == name or p.endswith("/" + name)]
        # A file's folder says what its name need not, so names repeat. Includes are written from the root of a part: of several files the one
        # that has most of its folder in common with the includer is meant, and of those the one that may be included.
        may = ARROWS.get(part_of(includer), [])
        found.sort(key=lambda p: (-len(os.path.commonpath(["/" + p, "/" + includer])), not any(p.startswith(part + "/") for part in may)))
        return found[0] if found else None

    def check(self):
        for _, check in claims.CLAIMS:
            for path, text in check(self):
                self.breach(path, text)
        for path in self.files:
            if path.endswith(SOURCE):
                text = self.read(path)
                self.check_head_and_length(path, text)
                if KERNEL.match(path):
                    self.check_header(path, text)
                if path.startswith(SHORT_FUNCTIONS):
                    self.check_functions(path, text)
                self.check_words(path, text)
            elif path.endswith(MADE):
                self.breach(path, "is compiled from other files and does not belong in the tree")
            elif path.endswith((".txt", ".cmake")) and FAST_MATH.search(re.sub(r"#.*", "", self.read(path))):
                self.breach(path, "fast-math flags break NaN, and change the host program's MXCSR")
        for where, _, names in os.walk(os.path.join(self.root, "docs")):
            for name in sorted(n for n in names if n.endswith((".md", ".txt", ".in"))):
                path = os.path.relpath(os.path.join(where, name), self.root)
                self.check_words(path, self.read(path))
        for (path, name), lines in self.long_functions.items():
            self.breach(path, f"has no function {name} of {lines} lines any more; take it off LONG_FUNCTIONS in tests/layout/check_layout.py")
        return self.breaches

    def check_words(self, path, text):
        if path.startswith(DMA):
            return
        found = [(number, word.group(0), instead) for parts, pattern, instead in WORDS if path.startswith(parts)
                 for number, line in enumerate(text.split("\n"), 1) for word in [pattern.search(line)] if word]
        for number, word, instead in found:
            self.breach(f"{path}:{number}", f"says '{word}'; the field's word is {instead} (docs/glossary.md)")

    def check_header(self, path, text):
        lines = next((n for n, line in enumerate(text.split("\n")) if not line.startswith("//")), 0)
        if lines > MAX_HEADER:
            self.breach(path, f"begins with {lines} lines of comment, at most {MAX_HEADER}; what was tried and measured belongs in docs/kernels")

    def check_head_and_length(self, path, text):
        lines = text.count("\n")
        if lines > MAX_LINES and path not in LONG_FILES:
            self.breach(path, f"has {lines} lines, at most {MAX_LINES}")
        if lines and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.split("\n", 3)[:3]):
            self.breach(path, "does not begin with its licence: SPDX-License-Identifier: Apache-2.0")

    def check_functions(self, path, text):
        try:
            if path.endswith(C_FAMILY):
                found = function_lengths.functions(without_comments_and_strings(text))
            elif path.endswith(".py"):
                found = function_lengths.python_functions(text)
            else:
                return
        except (function_lengths.CannotCount, SyntaxError) as error:
            self.breach(path, f"its functions cannot be counted: {error}")
            return
        for name, first, lines in found:
            if lines <= MAX_FUNCTION:
                continue
            listed = self.long_functions.pop((path, name), None)
            if listed is None or lines > listed:
                self.breach(f"{path}:{first}", f"{name} has {lines} lines, at most {listed or MAX_FUNCTION}")
            elif lines < listed:
                self.breach(f"{path}:{first}", f"{name} has {lines} lines now; lower its {listed} in LONG_FUNCTIONS of tests/layout/check_layout.py")


LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
# Path, contents after the licence, and a piece of the breach that must be found; None: none may be.
SELF_TEST = [
    ("include/attile/attile_backend.h", "#include <stdint.h>\n", None),
    ("core/a.h", "", None),
    ("core/a.cpp", '#include "a.h"\n#include <attile/attile_backend.h>\n// abort(); printf("x");\nconst char *s = "exit(1)";\n', None),
    ("core/b.cpp", '#include "reference_x.h"\n', "backends/reference/reference_x.h, which core must not know"),
    ("core/c.cpp", "void f() { std::abort(); }\n", "core/c.cpp:2: 'std::abort('"),
    ("core/d.cpp", "void f() { object.exit(1); pointer->abort(); snprintf(0, 0, 0); static_assert(true); my_exit(2); }\n", None),
    ("core/e.cpp", 'auto v = getenv("X");\n', "core/e.cpp:2: reads the environment"),
    ("core/posix/environment.cpp", 'auto v = std::getenv("X");\n', None),
    ("core/q.cpp", "int v = pthread_atfork(0, 0, 0);\n", "core/q.cpp:2: handles forks"),
    ("core/posix/process.cpp", "#include <unistd.h>\nint v = pthread_atfork(0, 0, 0);\n", None),
    ("core/windows/process.cpp", "#include <windows.h>\n", None),
    ("core/r.cpp", "#include <unistd.h>\n", "core/r.cpp: includes unistd.h, which is of one operating system"),
    ("tools/attile/s.cpp", "#include <sys/stat.h>\n", "tools/attile/s.cpp: includes sys/stat.h, which is of one operating system"),
    ("tests/unit/b_test.cpp", "#include <barrier>\n", "b_test.cpp: includes <barrier>, whose waits can lose a signal"),
    ("tests/unit/s_test.cpp", "#include <semaphore>\n", "s_test.cpp: includes <semaphore>"),
    ("tests/unit/w_test.cpp", "std::atomic<int> ready{0};\nvoid f() { ready.wait(0); }\n", "w_test.cpp:3: 'ready.wait(' can lose a signal"),
    ("core/w2.cpp", "struct S { std::atomic<std::pair<int, int>> left_; };\nvoid f(S *s) { s->left_.notify_all(); }\n", "core/w2.cpp:3: 'left_.notify_all('"),
    ("tests/unit/p_test.cpp", "void f(std::atomic<bool> *done) { done->wait(false); }\n", "p_test.cpp:2: 'done->wait('"),
    ("tests/unit/g_test.cpp", "std::atomic_flag up;\nvoid f() { std::atomic_flag_wait(&up, false); }\n", "g_test.cpp:3: 'std::atomic_flag_wait'"),
    ("tests/unit/ok_test.cpp", "std::atomic<int> ready{0};\nvoid f(Lock &lock) { changed.wait(lock, [] { return ready == 1; }); }  // ready.wait(0)\n", None),
    ("core/f.cpp", "#include <iostream>\n", "core/f.cpp:2: '#include <iostream>'"),
    ("core/g.cpp", "/* assert(1);\n */ int x = 1'000; void f() { assert(x); }\n", "core/g.cpp:3: 'assert('"),
    ("core/h.cpp", "#include <cuda_runtime.h>\n", "includes the vendor header cuda_runtime.h"),
    ("core/long.cpp", "\n" * 450, "has 451 lines"),
    ("backends/reference/reference_x.h", "", None),
    ("backends/reference/reference_y.cpp", '#include "a.h"\n', "core/a.h, which backends/reference must not know"),
    ("backends/cpu/gemm/z.cpp", '#include "reference_x.h"\n', "which backends/cpu must not know"),
    ("backends/gpu/compiler.h", "#include <hip/hip_runtime.h>\n", "compiler.h: includes the vendor header hip/hip_runtime.h"),
    ("backends/gpu/lane.h", "", None),
    ("backends/gpu/numeric.h", '#include "lane.h"\n#include "attention/mask.h"\n', "attention/mask.h, which backends/gpu must not know"),
    ("backends/gpu/attention/mask.h", '#include "lane.h"\n', None),
    ("backends/gpu/attention/up.h", '#include "attention/simt/k.cuh"\n', "attention/simt/k.cuh, which backends/gpu/attention must not know"),
    ("backends/gpu/attention/plan.h", '#include "attention/simt/k.cuh"\n', None),
    ("backends/gpu/attention/simt/k.cuh", '#include "attention/mask.h"\n', None),
    ("backends/gpu/attention/simt/p.cuh", '#include "attention/plan.h"\n', "attention/plan.h, which backends/gpu/attention/simt must not know"),
    ("backends/gpu/gemm/sm80/k.cuh", '#include "sm90/p.cuh"\n', "sm90/p.cuh, which backends/gpu/gemm/sm80 must not know"),
    ("backends/gpu/gemm/simt/v.cuh", "#include <cuda.h>\n", "includes the vendor header cuda.h"),
    ("backends/gpu/gemm/sm90/v.cuh", "#include <cuda.h>\n", "sm90/v.cuh: includes the vendor header cuda.h"),
    ("tests/unit/v.cpp", "#include <cuda.h>\n", "v.cpp: includes the vendor header cuda.h"),
    ("tests/device/v.cpp", "#include <cuda.h>\n", None),
    ("tools/attile/u.cpp", '#include "t_test.h"\n', "tests/unit/t_test.h, which tools must not know"),
    ("tests/unit/t_test.h", "", None),
    ("include/attile/attile.h", "#include <stddef.h>\n", "attile.h: includes <stddef.h>"),
    ("core/names.cpp", 'const char *a = "gcc";  // cuda\nconst char *b = "cuda";\n', "core/names.cpp:3: names the backend 'cuda'"),
    ("backends/gpu/gemm/sm90/s.cuh", '#include "attention/simt/k.cuh"\n', "simt/k.cuh, which backends/gpu/gemm/sm90 must not know"),
    ("backends/gpu/gemm/families.cpp", "constexpr Family<P> kList[] = {\n    {nullptr, nullptr, sm80::plan_gemm},\n};\n", "last family is not simt's"),
    ("backends/gpu/rows/families.cpp", "constexpr Family<P> kList[] = {{nullptr, nullptr, simt::plan_reduce}};\n", None),
    ("backends/gpu/sm80/kernels.h", "", None),
    ("backends/hip/hip_s.cpp", '#include "sm80/kernels.h"\n', "hip runs no kernels for tensor cores"),
    ("backends/gpu/gemm/sm90/space.h", "namespace attile::gpu::sm80 {\n}\n", "its folder's is attile::gpu::sm90"),
    ("backends/gpu/gemm/sm90/beside.h", '#include "space.h"\n', "not written from the root of backends/gpu"),
    ("core/distributed/m.cpp", "#include <mpi.h>\n", "m.cpp: includes mpi.h"),
    ("backends/comm/mpi/m.cpp", '#include <mpi.h>\n__attribute__((visibility("default"))) int ATTILE_COMM_ENTRY_SYMBOL();\n', None),
    ("backends/gpu/exports.cpp", '__attribute__((visibility("default"))) int f();\n', "exports something besides"),
    ("backends/gpu/sm90/p.cuh", '#include "cuda_device.h"\n', "cuda_device.h, which backends/gpu must not know"),
    ("backends/cuda/cuda_device.h", "", None),
    ("backends/cuda/cuda_d.cpp", '#include <cuda.h>\n#include "attention/simt/k.cuh"\n', None),
    ("backends/gpu/gemm/sm90/w.cuh", "// Loaded by the copy engine.\n", "sm90/w.cuh:2: says 'copy engine'"),
    ("backends/gpu/gemm/sm90/n.cuh", "int note_of(int turn);\n", "sm90/n.cuh:2: says 'note_of'"),
    ("backends/gpu/gemm/sm90/ok.cuh", "// Turns sums into D in turn; returns notably soon.\n" + "// Short.\n" * 13, None),
    ("backends/gpu/gemm/sm90/h.cuh", "// Long.\n" * 15, "sm90/h.cuh: begins with 16 lines of comment"),
    ("backends/cpu/gemm/h-inl.h", "// Long.\n" * 15, "gemm/h-inl.h: begins with 16 lines of comment"),
    ("core/w.cpp", "// Notes what a backend said. Two threads take turns.\n", "core/w.cpp:2: says 'take turns'"),
    ("docs/page.md", "The copy engine.\n", "docs/page.md:2: says 'copy engine'"),
    ("docs/ladder.md", "The copy engine.\n", None),
    ("examples/c/ex.c", '#include "a.h"\n', "which examples must not know"),
    ("tools/attile/t.cpp", '#include <attile/attile_backend.h>\n#include "a.h"\n', "core/a.h, which tools must not know"),
    ("core/whole.cpp", "void f() {\n" + "    g();\n" * 118 + "}\n", None),
    ("core/more.cpp", "void f() {\n" + "    g();\n" * 119 + "}\n", "core/more.cpp:2: f has 121 lines, at most 120"),
    ("backends/gpu/gemm/simt/listed.cuh", "void f() {\n" + "    g();\n" * 128 + "}\n", None),
    ("backends/gpu/gemm/simt/grown.cuh", "void f() {\n" + "    g();\n" * 129 + "}\n", "simt/grown.cuh:2: f has 131 lines, at most 130"),
    ("backends/gpu/gemm/simt/shrunk.cuh", "void f() {\n" + "    g();\n" * 127 + "}\n", "simt/shrunk.cuh:2: f has 129 lines now"),
    ("tools/long.py", "def f():\n" + "    g()\n" * 120, "tools/long.py:2: f has 121 lines"),
    ("core/open.cpp", "void f() {\n", "core/open.cpp: its functions cannot be counted"),
    ("tests/unit/long_test.cpp", "void f() {\n" + "    g();\n" * 128 + "}\n", None),
    ("tests/unit/t_test.cpp", '#include "a.h"\n#include "reference_x.h"\nvoid f() { abort(); }\n', None),
]


LONG_IN_SELF_TEST = {(f"backends/gpu/gemm/simt/{name}.cuh", "f"): 130 for name in ("listed", "grown", "shrunk")} | {("core/gone.cpp", "gone"): 130}
BODY = "    f();\n"  # A line of a function.
# What stands before, between and after the lines of a function; what it is called; how many lines it has besides.
FUNCTIONS = [
    ("int x;\nint g(int a) {\n", "}\n", "g", 2),
    ("template <class C, bool kIs = (1 > 0)>\n__global__ void ATTILE_LAUNCH_BOUNDS((C::kThreads), 2)\n    kernel(const P<C> p) {\n", "}\n", "kernel", 3),
    ("struct S : B {\n    S(int a, int b)\n        : a_{a}, b_(b),\n          c_{} {\n", "    }\n    int a_{}, b_ = 0, c_;\n};\n", "S", 4),
    ("class S final {\n  public:\n    template <int kI>\n    auto operator()(int i) const noexcept -> int {\n", "    }\n};\n", "operator()", 2),
    ("bool operator==(const S &a, const S &b) {\n", "}\n", "operator==", 2),
    ('extern "C" {\nnamespace n {\nstatic const char *f() {\n    return "}" /* } */;  // }\n', "}\n}\n}\n", "f", 3),
    ("#define M(x) {\\\n  x\n#if A\nint f() {\n#else\nint f(int) {\n#endif\n", "}\n", "f", 5),
    ("int f() {\n    const auto g = [&](int i) {\n", "    };\n    struct L { int h() { return 0; } };\n    return g(int{1});\n}\n", "f", 6),
    ("void d(int a = g(h(1)), S b = {}, bool c = x <= 2) const {\n", "}\n", "d", 2),
    ("const auto kF = [](int i) {\n", "};\n", "kF", 2),
    ("constexpr int kTable[] = {f(1), {2}};\nenum class E { kA, kB };\nunion U { int a; };\nstruct T *t(void) {\n", "}\n", "t", 2),
]


def self_test_functions():
    failures = 0
    for before, after, name, others in FUNCTIONS:
        for lines in (MAX_FUNCTION, MAX_FUNCTION + 1):
            code = without_comments_and_strings(before + BODY * (lines - others) + after)
            try:
                found = [(other, count) for other, _, count in function_lengths.functions(code)]
            except function_lengths.CannotCount as error:
                found = str(error)
            if (name, lines) not in found or len(found) != 1:
                print(f"self-test: expected {name} of {lines} lines alone, found {found} in {before!r}")
                failures += 1
    return failures


def self_test():
    failures = self_test_functions()
    with tempfile.TemporaryDirectory() as root:
        for path, text, _ in SELF_TEST:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write((LICENCE.replace("//", "#") if path.endswith(".py") else LICENCE) + text)
        with open(os.path.join(root, "core/bare.cpp"), "w", encoding="utf-8") as file:
            file.write("int x;\n")
        with open(os.path.join(root, "core/CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("# no -ffast-math\nadd_compile_options(-ffast-math)\n")
        with open(os.path.join(root, "core/kernel.cubin"), "wb") as file:
            file.write(b"\x7fELF\xff")
        breaches = Tree(root, long_functions=LONG_IN_SELF_TEST).check()
        expected = SELF_TEST + [
            ("core/gone.cpp", "", "core/gone.cpp: has no function gone"), ("core/kernel.cubin", "", "is compiled"), ("core/bare.cpp", "", "does not begin with its licence"), ("core/CMakeLists.txt", "", "fast-math"), ("core/CMakeLists.txt", "", "-z nodelete"),
                                ("backends/gpu/attention/families.cpp", "", "families.cpp: is not there"), ("backends/cuda/cuda_device.cpp", "", "it runs this set")]
        for path, _, piece in expected:
            mine = [b for b in breaches if b.startswith(path)]
            if piece is None and mine:
                print(f"self-test: false alarm: {mine}")
                failures += 1
            if piece is not None and not any(piece in b for b in breaches):
                print(f"self-test: not found: {path}: {piece}")
                failures += 1
    return failures


def check_page(tree):
    page = tree.read(rooms.PAGE)
    for name in sorted(set(re.findall(r"`([\w.-]+/[\w./-]+|[\w-]+\.(?:cpp|cuh?|h|txt|py))`", page))):
        if not any(("/" + path).endswith("/" + name) or f"/{name.rstrip('/')}/" in "/" + path for path in tree.files + rooms.docs(tree)):
            tree.breach(rooms.PAGE, f"names {name}, which is not there")
    try:
        if rooms.made(tree, page) != page:
            tree.breach(rooms.PAGE, "is not what the tree makes of it: python3 tests/layout/rooms.py .")
    except rooms.NotDescribed as reason:
        tree.breaches.append(str(reason))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(1 if self_test() else 0)
    tree = Tree(sys.argv[1], LONG_FUNCTIONS)
    breaches = tree.check()
    check_page(tree)
    for line in breaches:
        print(line)
    print(f"{len(breaches)} breaches of the layout")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
