#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the raw Fortran layer and the typed operations from attile.h and attile_distributed.h, and what their tests compare.

    generate_raw.py FOLDER write DIR     attile_constants.f90, attile_types.f90, attile_raw.f90, attile_operations.f90, attile_rank_operations.f90 in DIR
    generate_raw.py FOLDER check DIR     exit status 1 if those in DIR are not what would be written
    generate_raw.py FOLDER layout DIR    layout_of_c.c and layout_of_fortran.f90: size, offsets and constants as either language sees them
    generate_raw.py FOLDER names         the exported functions, one a line

FOLDER holds the headers. Every declaration of them is translated or the generator fails; nothing is passed over in silence.
"""
import pathlib
import re
import sys

SPDX = "! SPDX-License-Identifier: Apache-2.0\n"
HEADERS = ("attile.h", "attile_distributed.h")
MADE = "! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.\n"
SCALARS = {  # C type: Fortran type, what a component starts as
    "int32_t": ("integer(c_int32_t)", "0_c_int32_t"),
    "uint32_t": ("integer(c_int32_t)", "0_c_int32_t"),
    "int64_t": ("integer(c_int64_t)", "0_c_int64_t"),
    "uint64_t": ("integer(c_int64_t)", "0_c_int64_t"),
    "double": ("real(c_double)", "0.0_c_double"),
}
DATA = {"void", "float", "double"}  # pointers to these may be the device's: an address is all that can be said


class Untranslatable(Exception):
    pass


def squeeze(text):
    return " ".join(text.split())


class Headers:
    """The declarations of the headers: constants, structs, callbacks, functions; each with its documentation where it is short."""

    def __init__(self, folder):
        self.comments = {}  # name of a constant: its trailing comment
        self.constants, self.structs, self.opaque, self.callbacks, self.functions = [], [], [], [], []
        for name in HEADERS:
            self.read((pathlib.Path(folder) / name).read_text(encoding="utf-8"))

    def read(self, text):
        for name, comment in re.findall(r"^#define (ATTILE_\w+)[ \t]+\S+[ \t]*/\*\*< (.*?) \*/", text, re.M):
            self.comments[name] = comment
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
        body = code[code.index('extern "C" {') + len('extern "C" {'):]
        body = body[body.index("#endif") + len("#endif"):body.rindex("#ifdef __cplusplus")]
        for line in re.findall(r"^#.*$", body, re.M):
            match = re.fullmatch(r"#define (ATTILE_\w+)[ \t]+\(?(-?\d+|0x[0-9A-Fa-f]+)u?\)?[ \t]*", line)
            if not match:
                raise Untranslatable(line)
            self.constants.append((match.group(1), int(match.group(2), 0)))
        self.declarations(re.sub(r"^#.*$", "", body, flags=re.M))

    def declarations(self, code):
        for text in self.statements(code):
            struct = re.fullmatch(r"typedef struct (\w+) \{(.*)\} (\w+)", text)
            opaque = re.fullmatch(r"typedef struct (\w+) (\w+)", text)
            callback = re.fullmatch(r"typedef void \(\*(\w+)\)\((.*)\)", text)
            function = re.fullmatch(r"ATTILE_API (.*?)\b(attile_\w+)\((.*)\)", text)
            if struct and struct.group(1) == struct.group(3):
                fields = [squeeze(field) for field in struct.group(2).split(";") if field.strip()]
                self.structs.append((struct.group(1), [self.field(field) for field in fields]))
            elif opaque and opaque.group(1) == opaque.group(2):
                self.opaque.append(opaque.group(1))
            elif callback:
                self.callbacks.append((callback.group(1), self.parameters(callback.group(2)), text))
            elif function:
                result, name, parameters = squeeze(function.group(1)), function.group(2), function.group(3)
                self.functions.append((name, result, self.parameters(parameters), text.replace("ATTILE_API ", "")))
            else:
                raise Untranslatable(text)

    @staticmethod
    def statements(code):
        depth, start = 0, 0
        for i, letter in enumerate(code):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == ";" and depth == 0:
                yield squeeze(code[start:i])
                start = i + 1
        if code[start:].strip():
            raise Untranslatable(squeeze(code[start:]))

    @staticmethod
    def parameters(text):
        if text.strip() == "void":
            return []
        parts, depth, start = [], 0, 0
        for i, letter in enumerate(text):
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                parts.append(squeeze(text[start:i]))
                start = i + 1
        parts.append(squeeze(text[start:]))
        result = []
        for part in parts:
            pointer_to_function = re.fullmatch(r".*\(\*(\w+)\)\(.*\)", part)
            plain = re.fullmatch(r"(.*?)(\w+)", part)
            if pointer_to_function:
                result.append(("function", pointer_to_function.group(1)))
            elif plain and plain.group(1).strip():
                result.append((squeeze(plain.group(1)).replace(" *", "*"), plain.group(2)))
            else:
                raise Untranslatable(part)
        return result

    def field(self, text):
        function = re.fullmatch(r"\w+ \(\*(\w+)\)\([^()]*\)", text)
        if function:
            return "function", function.group(1), None
        match = re.fullmatch(r"(.*?)(\w+)(?:\[(\d+)\])?", text)
        if not match:
            raise Untranslatable(text)
        ctype, name, extent = squeeze(match.group(1)).replace(" *", "*"), match.group(2), match.group(3)
        return ctype, name, extent

    def struct_names(self):
        return [name for name, _ in self.structs]

    # What a struct's component becomes.
    def component(self, ctype, name, extent):
        shape = f"({extent})" if extent else ""
        if ctype in SCALARS:
            kind, zero = SCALARS[ctype]
            return f"{kind} :: {name}{shape} = {zero}"
        if ctype == "char" and extent:
            return f"character(kind=c_char) :: {name}{shape} = c_null_char"
        if ctype in self.struct_names() and not extent:
            return f"type({ctype}) :: {name}"
        if ctype == "function":
            return f"type(c_funptr) :: {name} = c_null_funptr"
        if ctype.endswith("*") and not extent:
            return f"type(c_ptr) :: {name} = c_null_ptr"
        raise Untranslatable(f"component {ctype} {name}")

    # What a parameter becomes. Pointers to structs and scalars are optional: an absent argument is NULL.
    def dummy(self, ctype, name):
        const = ctype.startswith("const ")
        intent = "in" if const else "inout"
        bare = ctype.removeprefix("const ")
        if bare in SCALARS:
            return f"{SCALARS[bare][0]}, value :: {name}"
        if ctype == "function" or bare in [c for c, _, _ in self.callbacks]:
            return f"type(c_funptr), value :: {name}"
        base = bare.rstrip("*")
        stars = len(bare) - len(base)
        if stars == 1 and (base in DATA or base in self.opaque):
            return f"type(c_ptr), value :: {name}"
        if stars == 2 and (base in DATA or base in self.opaque):
            return f"type(c_ptr), intent({intent}), optional :: {name}"
        if stars == 1 and base in self.struct_names():
            return f"type({base}), intent({intent}), optional :: {name}"
        if stars == 1 and base == "char":
            return f"character(kind=c_char), intent({intent}), optional :: {name}(*)"
        if stars == 1 and base in SCALARS:  # const: an array of them; else: one result
            return f"{SCALARS[base][0]}, intent({intent}), optional :: {name}" + ("(*)" if const else "")
        raise Untranslatable(f"parameter {ctype} {name}")

    def result(self, ctype):
        if ctype == "const char *":
            return "type(c_ptr)"
        if ctype in SCALARS:
            return SCALARS[ctype][0]
        raise Untranslatable(f"result {ctype}")


def comment(text, indent):
    """A text as comment lines of at most 118 columns."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(indent) + len(line) + len(word) > 114:
            lines.append(line)
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    return "".join(f"{indent}! {part}\n" for part in lines)


def continued(head, names, tail, indent):
    """head(name, name, ...)tail over as many lines as needed."""
    lines, line = [], f"{indent}{head}("
    for i, name in enumerate(names):
        piece = name + (", " if i + 1 < len(names) else f"){tail}")
        if len(line) + len(piece) > 116:
            lines.append(line + "&")
            line = indent + "    "
        line += piece
    if not names:
        line += f"){tail}"
    return "\n".join(lines + [line]) + "\n"


def public(names, most):
    """Lines that make names public, at most so many on each and none too long for a compiler."""
    lines = []
    for name in names:
        if lines and len(lines[-1]) < most and len(", ".join([*lines[-1], name])) <= 116:
            lines[-1].append(name)
        else:
            lines.append([name])
    return [f"  public :: {', '.join(line)}\n" for line in lines]


def constants_file(header):
    out = [SPDX, "! The constants of the headers, under the same names.\n", MADE]
    out += ["module attile_constants\n", "  use, intrinsic :: iso_c_binding, only: c_int32_t\n", "  implicit none (type, external)\n", "  private\n\n"]
    for name, value in header.constants:
        if name in header.comments:
            out.append(comment(header.comments[name], "  ").replace("  ! ", "  !> ", 1))
        out.append(f"  integer(c_int32_t), parameter, public :: {name} = {value}_c_int32_t\n")
    out.append("end module attile_constants\n")
    return "".join(out)


def types_file(header):
    out = [SPDX, "! The structs of the headers, under the same names and with the same components in the same order.\n", MADE]
    out += ["! A variable begins as all zero; the operation's _init procedure stamps its size. uint32_t and uint64_t are signed here.\n"]
    out += ["module attile_types\n", "  use, intrinsic :: iso_c_binding\n", "  implicit none (type, external)\n", "  private\n"]
    for name, fields in header.structs:
        out.append(f"\n  ! struct {name}\n  type, bind(c), public :: {name}\n")
        for ctype, field, extent in fields:
            declared = header.component(ctype, field, extent)
            hint = f"  ! {ctype.replace('*', ' *')}" if ctype.endswith("*") else ""
            before = out[-1]
            tensors = "    type(attile_tensor) :: "
            if declared.startswith(tensors.strip()) and before.startswith(tensors) and len(before) < 100:  # Neighbours share a line.
                out[-1] = f"{before.rstrip()}, {declared[len(tensors) - 4:]}\n"
            else:
                out.append(f"    {declared}{hint}\n")
        out.append(f"  end type {name}\n")
    out.append("end module attile_types\n")
    return "".join(out)


def procedure(header, name, parameters, result, binding, indent):
    inner = indent + "  "
    kind = "function" if result else "subroutine"
    tail = (" result(answer)" if result else "") + (f' bind(c, name="{name}")' if binding else " bind(c)")
    out = [continued(f"{kind} {name}", [p for _, p in parameters], tail, indent)]
    types = sorted({t for ctype, _ in parameters for t in header.struct_names() if ctype.removeprefix("const ").rstrip("*") == t})
    imported = sorted(set(re.findall(r"\bc_(?:int32_t|int64_t|double|char|ptr|funptr)\b",
                                     " ".join([header.dummy(*p) for p in parameters] + [result or ""]))))
    if imported or types:
        out.append(f"{inner}import :: {', '.join(imported + types)}\n")
    out.append(f"{inner}implicit none\n")
    out += [f"{inner}{header.dummy(ctype, parameter)}\n" for ctype, parameter in parameters]
    if result:
        out.append(f"{inner}{result} :: answer\n")
    out.append(f"{indent}end {kind} {name}\n")
    return "".join(out)


def raw_file(header):
    out = [SPDX, "! Every function of the headers, under its own name, with the C prototype above it. Nothing is added, nothing is checked here:\n"]
    out += ["! module attile is the layer to use; this is for what that leaves out.\n", MADE]
    out += ["! An absent optional argument is NULL. Texts end with c_null_char. Data are type(c_ptr), for they may lie on a device.\n"]
    out += ["module attile_raw\n", "  use, intrinsic :: iso_c_binding\n", "  use attile_types\n", "  implicit none (type, external)\n", "  private\n"]
    names = [name for name, *_ in header.callbacks + header.functions]
    out += public(names, 4)
    out.append("\n  abstract interface\n")
    for name, parameters, prototype in header.callbacks:
        out += [comment(prototype + ";", "    "), procedure(header, name, parameters, None, False, "    ")]
    out.append("  end interface\n\n  interface\n")
    for name, result, parameters, prototype in header.functions:
        translated = None if result == "void" else header.result(result)
        out += [comment(prototype + ";", "    "), procedure(header, name, parameters, translated, True, "    ")]
    out.append("  end interface\nend module attile_raw\n")
    return "".join(out)


def raw_files(header):
    return {"attile_constants.f90": constants_file(header), "attile_types.f90": types_file(header), "attile_raw.f90": raw_file(header),
            "attile_operations.f90": operations_file(header, IN_CONTEXT), "attile_rank_operations.f90": operations_file(header, OVER_RANKS)}


SHORT = {"attention_backward": "backward", "attention_merge": "merge", "attention_merge_backward": "merge_backward",  # Of an operation's procedures;
         "attention_distributed": "attention", "attention_backward_distributed": "backward"}  # others are called as they are.
OPERATIONS_HEAD = """! The operations {where}on argument structs, and their queries: for what arrays cannot say (device memory, float16, paged
! keys) and for asking first. Each comes as `call attile_OP_init(args)`, then components of args, then `call
! attile_OP({owner}, args)` or `call attile_OP_query({owner}, args, support)`. Tensors in args are in C's order of axes;
! attile_tensor_of and attile_matrix_of make them.
"""
IN_CONTEXT = {"module": "attile_operations", "where": "", "owner": "ctx", "owners": "context", "answer": "support", "among": lambda name: not name.endswith("_distributed")}
OVER_RANKS = {"module": "attile_rank_operations", "where": "over ranks ", "owner": "comm", "owners": "comm", "answer": "distributed_support", "among": lambda name: name.endswith("_distributed")}
OPERATION_INTERFACES = """  !> Zero the arguments,{also} and stamp their size.
  interface attile_{name}_init
    module procedure {short}_init
  end interface attile_{name}_init
  !> Run with these arguments.
  interface attile_{name}
    module procedure {short}
  end interface attile_{name}
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_{name}_query
    module procedure {short}_query
  end interface attile_{name}_query
"""
OPERATION_PROCEDURES = """
  subroutine {short}_init(args)
    type(attile_{name}_args), intent(out) :: args
    call raw_{short}_init(args, c_sizeof(args))
  end subroutine {short}_init

  subroutine {short}({owner}, args, stat, errmsg)
    type(attile_{owners}), intent(in) :: {owner}
    type(attile_{name}_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_{short}({owner}%handle(), args), stat, errmsg)
  end subroutine {short}

  subroutine {short}_query({owner}, args, support, stat, errmsg)
    type(attile_{owners}), intent(in) :: {owner}
    type(attile_{name}_args), intent(in) :: args
    type(attile_{answer}), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_{short}_query({owner}%handle(), args, support), stat, errmsg)
  end subroutine {short}_query
"""


def operations_file(header, part):
    """The typed layer's operations: the same three procedures for each struct of arguments that has an init, a call and a query."""
    functions = {name for name, *_ in header.functions}
    operations = [name for name in (struct[len("attile_"):-len("_args")] for struct, _ in header.structs if struct.endswith("_args"))
                  if {f"attile_{name}_init", f"attile_{name}", f"attile_{name}_query"} <= functions and part["among"](name)]
    operations = [{**part, "name": name, "short": SHORT.get(name, name), "also": " alpha 1," if name == "gemm" else ""} for name in operations]
    uses = [f"raw_support_init => attile_{part['answer']}_init, &\n"]
    for operation in operations:
        lines = ["   "]
        for piece in ("raw_{short}_init => attile_{name}_init,", "raw_{short} => attile_{name},", "raw_{short}_query => attile_{name}_query,"):
            piece = " " + piece.format(**operation)
            if len(lines[-1] + piece) > 130:
                lines.append("   ")
            lines[-1] += piece
        uses += [line + " &\n" for line in lines]
    uses[-1] = uses[-1].replace(", &", "")
    text = [SPDX, OPERATIONS_HEAD.format(**part), MADE, f"module {part['module']}\n", "  use, intrinsic :: iso_c_binding\n",
            f"  use attile_{part['owners']}s, only: attile_{part['owners']}\n",
            "  use attile_errors, only: conclude\n", "  use attile_raw, only: ", *uses, "  use attile_types\n", "  implicit none (type, external)\n",
            "  private\n"]
    for operation in operations:
        text += public([name.format(**operation) for name in ("attile_{name}_init", "attile_{name}", "attile_{name}_query")], 3)
    text += ["\n"] + [OPERATION_INTERFACES.format(**operation) for operation in operations] + ["contains\n"]
    text += [OPERATION_PROCEDURES.format(**operation) for operation in operations] + [f"end module {part['module']}\n"]
    return "".join(text)


def layout_files(header):
    """A C table and a Fortran program that goes through the same list; the test compares them."""
    entries = []  # label, C expression, Fortran expression
    declared = []
    for name, fields in header.structs:
        variable = f"v{len(declared)}"
        declared.append(f"  type({name}), target :: {variable}\n")
        entries.append((f"sizeof {name}", f"sizeof({name})", f"c_sizeof({variable})"))
        for _, field, extent in fields:
            element = f"{field}(1)" if extent else field
            where = f"address(c_loc({variable}%{element})) - address(c_loc({variable}))"
            entries.append((f"offsetof {name}.{field}", f"offsetof({name}, {field})", where))
            entries.append((f"sizeof {name}.{field}", f"sizeof((({name} *)0)->{field})", f"c_sizeof({variable}%{field})"))
    entries += [(name, name, name) for name, _ in header.constants]
    c = ["/* Made by generate_raw.py layout. */\n", "#include <attile/attile_distributed.h>\n", "#include <stddef.h>\n",
         "int64_t attile_layout_of_c(int64_t i);\n", "int64_t attile_layout_of_c(int64_t i) {\n", "    static const int64_t table[] = {\n"]
    c += [f"        (int64_t)({expression}), /* {label} */\n" for label, expression, _ in entries]
    c += ["    };\n", "    return i >= 0 && i < (int64_t)(sizeof table / sizeof table[0]) ? table[i] : -1;\n", "}\n"]
    f = ["! Made by generate_raw.py layout.\n", "program layout_of_fortran\n", "  use, intrinsic :: iso_c_binding\n",
         "  use attile_constants\n", "  use attile_types\n", "  implicit none\n", "  interface\n",
         "    function of_c(i) result(value) bind(c, name='attile_layout_of_c')\n", "      import :: c_int64_t\n",
         "      integer(c_int64_t), value :: i\n", "      integer(c_int64_t) :: value\n", "    end function of_c\n", "  end interface\n"]
    f += declared + ["  integer(c_int64_t) :: i = 0\n", "  integer :: wrong = 0\n"]
    f += [f"  call compare('{label}', &\n    int({expression}, c_int64_t))\n" for label, _, expression in entries]
    f += ["  if (of_c(i) /= -1) error stop 'C has more entries'\n", "  print '(i0, a, i0, a)', i, ' compared, ', wrong, ' differ'\n",
          "  if (wrong > 0) error stop 1\n", "contains\n",
          "  function address(pointer) result(value)\n", "    type(c_ptr), intent(in) :: pointer\n", "    integer(c_intptr_t) :: value\n",
          "    value = transfer(pointer, value)\n", "  end function address\n", "  subroutine compare(label, value)\n",
          "    character(len=*), intent(in) :: label\n", "    integer(c_int64_t), intent(in) :: value\n",
          "    if (value /= of_c(i)) then\n", "      print '(a, 2(1x, i0))', label, value, of_c(i)\n", "      wrong = wrong + 1\n", "    end if\n",
          "    i = i + 1\n", "  end subroutine compare\n", "end program layout_of_fortran\n"]
    return {"layout_of_c.c": "".join(c), "layout_of_fortran.f90": "".join(f)}


def main(arguments):
    if len(arguments) < 2 or arguments[1] not in ("write", "check", "layout", "names") or len(arguments) != (2 if arguments[1] == "names" else 3):
        sys.exit(__doc__)
    try:
        header = Headers(arguments[0])
        if arguments[1] == "names":
            print("\n".join(name for name, *_ in header.functions))
            return 0
        files = layout_files(header) if arguments[1] == "layout" else raw_files(header)
    except Untranslatable as what:
        sys.exit(f"generate_raw.py: cannot translate: {what}")
    directory = pathlib.Path(arguments[2])
    stale = [name for name, text in files.items() if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != text]
    if arguments[1] == "check":
        for name in stale:
            print(f"{directory / name} is not what generate_raw.py makes of {arguments[0]}")
        return 1 if stale else 0
    for name in stale:
        (directory / name).write_text(files[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
