# SPDX-License-Identifier: Apache-2.0
"""What docs/architecture.md claims of the tree, each with the check that holds it. rooms.py writes the sentences into that page."""
import os
import re

# A part of the tree and what it may include besides itself. The longest matching prefix of a file's path decides. Arrows only point down.
ARROWS = {
    "include": [],
    "core": ["include"],
    "backends/reference": ["include"],
    "backends/cpu": ["include"],
    "backends/comm": ["include"],
    "backends/gpu": ["include"],
    "backends/cuda": ["include", "backends/gpu"],
    "backends/hip": ["include", "backends/gpu"],
    "bindings": ["include"],
    "examples": ["include", "bindings/cpp"],
    "tools": ["include"],
    "tests": ["include", "core", "backends", "bindings", "tools"],
}
# Inside gpu: families of kernels, and the families that each may include.
FAMILIES = {"simt": (), "narrow": (), "exact": ("mma",), "mma": (), "sm80": ("mma",), "sm90": ("mma",)}
GPU = re.compile(r"backends/gpu/(?:.+/)?(simt|narrow|exact|mma|sm80|sm90)/")
OPERATIONS = ("attention", "attention_backward", "gemm", "quantize", "rows")
# Who else may not include what: path, target.
FLOOR = (r"backends/gpu/[^/]+$", r"backends/gpu/.+/")
KERNELS = (r"backends/gpu/.+\.cuh$", r"backends/gpu/host/|backends/gpu/.+/(plan|run)\.h$")
SHARED = (r"backends/gpu/(?!mma/|sm80/|sm90/)[^/]+/(?!plan\.|run\.|families\.|[^/]+\.cu$)[^/]+$", r"backends/gpu/[^/]+/(simt|narrow|exact|mma|sm80|sm90)/")

VENDOR_HEADER = re.compile(r"^(cuda|cublas|cudnn|curand|nv|cooperative_groups|mma\.h|cub/|thrust/|hip/|hip_|rocblas|hipblas|sm_\d)")
# Besides the devices: the ladder's programs, which are CUDA programs, and tests of the devices, their runtimes and the vendor's own formula.
VENDOR_ALLOWED = ("backends/cuda/", "backends/hip/", "examples/ladder/", "tests/device/", "tests/hip/", "tests/tools/occupancy_header_test.cpp")
MPI_ALLOWED = ("backends/comm/mpi/", "examples/distributed/", "tests/distributed/mpi/")
C_FAMILY = (".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".hip")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
BACKEND_NAMES = re.compile(r"(?i)(?<![a-z])(cuda|hip|cpu|reference)(?![a-z])")

# Only whole words followed by a parenthesis; members and other namespaces' functions of the same name do not count.
FATAL = "abort|exit|_exit|_Exit|quick_exit|terminate|assert|raise|kill|__trap|trap"
PRINTING = "printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|fputc|perror|psignal"
HOOKS = "atexit|at_quick_exit|on_exit|set_terminate|signal|sigaction"
FORBIDDEN_CALL = re.compile(r"(?<![\w.>])(?:std::)?(" + "|".join([FATAL, PRINTING, HOOKS]) + r")\s*\(")
FORBIDDEN_WORD = re.compile(r"\bstd::(cout|cerr|clog)\b|\bRTLD_(GLOBAL|DEEPBIND)\b|#\s*include\s*<(iostream|cassert|assert\.h)>")
UNLOADING = re.compile(r"\bdlclose\s*\(")  # Of the core: what backends load for themselves is theirs.
ENVIRONMENT = re.compile(r"(?<![\w.>])(?:std::)?(secure_getenv|getenv|setenv|putenv|unsetenv|GetEnvironmentVariable[AW])\s*\(|\benviron\b")
ENVIRONMENT_READERS = ("core/posix/environment.cpp", "core/windows/environment.cpp")
FORK_HANDLING = re.compile(r"(?<![\w.>])pthread_atfork\s*\(")
FORK_HANDLER = "core/posix/process.cpp"
SYSTEM_HEADER = re.compile(r"^(unistd|dlfcn|pthread|sched|fcntl|link|spawn|signal|regex|windows|io|psapi|shellapi)\.h$|^sys/|^linux/")
SYSTEM_FOLDERS = re.compile(r"/(posix|windows)/|_(posix|windows)\.cpp$|^backends/cpu/amx/amx\.cpp$")  # that file asks Linux for AMX
# Waits that GCC makes of its own where a system has no futexes.
WAIT_HEADER = ("barrier", "latch", "semaphore")
ATOMIC_NAME = re.compile(r"\b(?:std::atomic\s*<[^;(){}=]*>|std::atomic_\w+)\s*[&*]?\s*(\w+)\s*[;,={()[]")
ATOMIC_WAIT = re.compile(r"(?<!\w)std::atomic_(?:flag_)?(?:wait|notify)\w*")
PORTABLE = ("core/", "backends/reference/", "backends/cpu/", "backends/cuda/", "backends/gpu/", "tools/attile/", "tools/cases/")

CLAIMS = []  # A sentence, and a function of the tree that yields breaches: a path and what is wrong there.


def claim(sentence):
    def add(check):
        CLAIMS.append((sentence, check))
        return check
    return add


def part_of(path):
    return max((part for part in ARROWS if path.startswith(part + "/")), key=len, default="")


def order(folder):
    return list(ARROWS).index(part_of(folder + "/"))


def without_comments(text, keep_strings=False):
    """The same text, line for line, with comments blanked out, and the contents of literals unless they are to be kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", found)
        return found if keep_strings else found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]

    # Digit separators (48'000) are not character literals.
    return pattern.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def code_files(tree, *parts):
    return [p for p in tree.files if p.endswith(C_FAMILY) and p.startswith(parts or "")]


def includes(tree, path):
    """The files of the tree that a file includes; a header from elsewhere is None."""
    for bracket, name in INCLUDE.findall(tree.read(path)):
        yield bracket, name, tree.resolve(path, name)


def never(tree, path_pattern, target_pattern):
    source, goal = re.compile(path_pattern), re.compile(target_pattern)
    for path in filter(source.match, code_files(tree, "backends/gpu/")):
        for _, _, target in includes(tree, path):
            if target and goal.match(target):
                yield path, f"includes {target}, which {os.path.dirname(path)} must not know"


@claim("Arrows only point down: a folder includes what its row says, and nothing else of the tree.")
def arrows(tree):
    for path in code_files(tree):
        part = part_of(path)
        for _, _, target in includes(tree, path):
            if target and not any(target.startswith(p + "/") for p in ARROWS.get(part, []) + [part]):
                yield path, f"includes {target}, which {part or 'this folder'} must not know"


@claim("The public headers need the C library's `<stdint.h>` and nothing else.")
def public_headers(tree):
    for path in code_files(tree, "include/"):
        for _, name, target in includes(tree, path):
            if target is None and name != "stdint.h":
                yield path, f"includes <{name}>; the public headers need <stdint.h> alone"


@claim("The core's code names no backend: the table of those that are built in and the order of `auto` come from CMake.")
def core_names_no_backend(tree):
    for path in code_files(tree, "core/"):
        for number, line in enumerate(without_comments(tree.read(path), keep_strings=True).split("\n"), 1):
            if not INCLUDE.match(line):
                for found in BACKEND_NAMES.finditer(line):
                    yield f"{path}:{number}", f"names the backend '{found.group(0)}'; the core knows none"


@claim("A vendor's headers are included in `cuda` and `hip` alone; besides, by the ladder's CUDA programs and by tests of the devices.")
def vendor_headers(tree):
    for path in code_files(tree):
        for _, name, target in includes(tree, path):
            if target is None and VENDOR_HEADER.match(name) and not path.startswith(VENDOR_ALLOWED):
                yield path, f"includes the vendor header {name}"


@claim("In `gpu`, the headers at the root know none of the folders.")
def ground_floor(tree):
    yield from never(tree, *FLOOR)


@claim("Kernels (`.cuh`) know neither plans nor the host's side.")
def kernels(tree):
    yield from never(tree, *KERNELS)


@claim("What the families of an operation share knows none of them, but in its plan, its launches and its list of families.")
def shared(tree):
    yield from never(tree, *SHARED)


@claim("A family includes no other, but `sm80`, `sm90` and `exact` what is in `mma`.")
def families(tree):
    for path in code_files(tree, "backends/gpu/"):
        mine = GPU.match(path)
        for _, _, target in includes(tree, path) if mine else ():
            other = GPU.match(target or "")
            if other and other.group(1) not in (mine.group(1), *FAMILIES[mine.group(1)]):
                yield path, f"includes {target}, which {os.path.dirname(path)} must not know"


@claim("Each operation has one list of its families, `families.cpp`, and SIMT's, which every device runs, is the last of each list.")
def family_lists(tree):
    for operation in OPERATIONS:
        path = f"backends/gpu/{operation}/families.cpp"
        if path not in tree.known:
            yield path, "is not there: each operation has one list of its families"
            continue
        for body in re.findall(r"Family<\w+> \w+\[\] = \{(.*?)\};", without_comments(tree.read(path)), re.S) or [""]:
            if not re.search(r"\{nullptr, nullptr, simt::plan_\w+\},?\s*$", body):
                yield path, "has a list whose last family is not simt's, which every device runs"
    for path in code_files(tree, "backends/gpu/"):
        if path.endswith("/families.cpp") and path.split("/")[2] not in OPERATIONS:
            yield path, "is a list of families of no operation"


@claim("`cuda` names both sets of kernels for tensor cores, `hip` names none.")
def kernel_sets(tree):
    sets = ("backends/gpu/sm80/kernels.h", "backends/gpu/sm90/kernels.h")
    used = {target for path in code_files(tree, "backends/cuda/") for _, _, target in includes(tree, path)}
    for missing in [s for s in sets if s in tree.known and s not in used]:
        yield "backends/cuda/cuda_device.cpp", f"does not include {missing}: it runs this set"
    for path in code_files(tree, "backends/hip/"):
        for _, _, target in includes(tree, path):
            if target and GPU.match(target) and GPU.match(target).group(1) != "simt":
                yield path, f"includes {target}; hip runs no kernels for tensor cores"


@claim("Namespaces are as folders are: `attile::cpu`; `attile::gpu`, and in it `simt`, `narrow`, `exact`, `mma`, `sm80` and `sm90`.")
def namespaces(tree):
    for path in code_files(tree, "backends/cpu/", "backends/gpu/"):
        family = GPU.match(path)
        expected = "attile::" + path.split("/")[1] + ("::" + family.group(1) if family else "")
        for found in re.findall(r"^namespace (attile[\w:]*)", tree.read(path), re.M):
            if found != expected:
                yield path, f"has the namespace {found}, its folder's is {expected}"


@claim("Includes within `gpu`, and within `cpu`, are written from its root.")
def from_the_root(tree):
    made = set()  # Headers that the build writes, by the lists of instances.
    for path in tree.known:
        if path.endswith("/instances.cmake"):
            made.update(re.findall(r"^attile_gpu_family\((\S+\.h)", tree.read(path), re.M))
    for path in code_files(tree, "backends/cpu/", "backends/gpu/"):
        root = "/".join(path.split("/")[:2])
        for bracket, name, _ in includes(tree, path):
            if bracket == '"' and f"{root}/{name}" not in tree.known and name not in made:
                yield path, f'includes "{name}", which is not written from the root of {root}'


@claim("MPI's header is included by its transport alone; besides, by programs and tests that are ranks of MPI.")
def mpi_header(tree):
    for path in code_files(tree):
        if not path.startswith(MPI_ALLOWED) and any(target is None and name == "mpi.h" for _, name, target in includes(tree, path)):
            yield path, "includes mpi.h, which is the transport's of MPI"


@claim("What is of one operating system is in folders, or files, `posix` and `windows`: in the core, the reference, cpu and CUDA backends and the "
       "program no other file includes a header of a system.")
def one_home_of_systems(tree):
    for path in code_files(tree, *PORTABLE):
        if SYSTEM_FOLDERS.search(path):
            continue
        for _, name, target in includes(tree, path):
            if target is None and SYSTEM_HEADER.search(name):
                yield path, f"includes {name}, which is of one operating system"


@claim("A backend exports one symbol, its entry, and so does a transport.")
def one_symbol(tree):
    for path in code_files(tree, "backends/"):
        for line in without_comments(tree.read(path)).split("\n"):
            if re.search(r'visibility\("|\bATTILE_ENTRY_EXPORT\b', line) and not re.search("ATTILE_(BACKEND|COMM)_ENTRY_SYMBOL", line):
                yield path, "exports something besides the backend's entry"


@claim("The core and the backends neither end the process, nor print, nor register what runs at its end; only the core's `environment.cpp` reads "
       "the environment, only `core/posix/process.cpp` handles forks; the core unloads nothing, and libattile is linked with `-z nodelete`.")
def guests(tree):
    for path in code_files(tree, "core/", "backends/"):
        for number, line in enumerate(without_comments(tree.read(path)).split("\n"), 1):
            where = f"{path}:{number}"
            for match in list(FORBIDDEN_CALL.finditer(line)) + list(FORBIDDEN_WORD.finditer(line)):
                yield where, f"'{match.group(0).strip()}' has no place in a library that lives in another program"
            if path.startswith("core/") and UNLOADING.search(line):
                yield where, "unloads a library; backends are never closed"
            if path not in ENVIRONMENT_READERS and ENVIRONMENT.search(line):
                yield where, f"reads the environment; only the core's environment.cpp may"
            if path != FORK_HANDLER and FORK_HANDLING.search(line):
                yield where, f"handles forks; only {FORK_HANDLER} may"
    if "core/CMakeLists.txt" in tree.known and "-z,nodelete" not in re.sub(r"#.*", "", tree.read("core/CMakeLists.txt")):
        yield "core/CMakeLists.txt", "does not link libattile with -z nodelete"


@claim("No thread waits by `std::barrier`, `std::latch`, a semaphore of `std` or a `std::atomic`: on Windows these can lose a signal "
       "([windows](windows.md)); tests have `tests/support/barrier.h`.")
def lost_signals(tree):
    for path in code_files(tree):
        text = without_comments(tree.read(path))
        for _, name, target in includes(tree, path):
            if target is None and name in WAIT_HEADER:
                yield path, f"includes <{name}>, whose waits can lose a signal on Windows"
        atomics = set(ATOMIC_NAME.findall(text))
        wait = re.compile(r"\b(%s)(?:\[[^]]*\])?(?:\.|->)(?:wait|notify_one|notify_all)\s*\(" % "|".join(sorted(atomics))) if atomics else None
        for number, line in enumerate(text.split("\n"), 1):
            for found in [ATOMIC_WAIT.search(line), wait and wait.search(line)]:
                if found:
                    yield f"{path}:{number}", f"'{found.group(0).strip()}' can lose a signal on Windows"
