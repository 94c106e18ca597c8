# SPDX-License-Identifier: Apache-2.0
"""How many lines each function of a source has: of C, C++ and CUDA by its braces, of Python by its syntax tree.

A function counts from the line where its declaration begins, behind `template <...>`, to that of its last brace. Lambdas and local classes count
as lines of the function that they stand in; members of a class are functions of their own; so is a lambda that initialises a variable outside of
functions. Text comes without comments and with empty literals.
"""
import ast
import re

# What may stand between a parameter list and the body.
TRAILING = re.compile(r"\)\s*((const|volatile|noexcept(\s*\([^()]*\))?|override|final|mutable|try|&&?|->[^;{}]*|__\w+__\s*\(\(.*\)\)|ATTILE_\w+)\s*)*$", re.S)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b|\bextern\s*(\"[^\"]*\")?\s*$")
# Names before a bracket that is no parameter list.
NOT_A_NAME = ("__", "ATTILE_", "alignas", "decltype", "noexcept", "requires")


class CannotCount(Exception):
    """The braces of a source do not balance, so that its functions cannot be told apart."""


def first_branches(code):
    """The text, line for line, without preprocessor lines and what stands behind #else and #elif: alternatives need not balance by themselves."""
    lines, in_other, continued = [], [], False
    for line in code.split("\n"):
        directive = not continued and re.match(r"\s*#\s*(\w+)", line)
        if directive:
            word = directive.group(1)
            if word in ("if", "ifdef", "ifndef"):
                in_other.append(False)
            elif word in ("else", "elif") and in_other:
                in_other[-1] = True
            elif word == "endif" and in_other:
                in_other.pop()
        skipped = directive or continued
        continued = bool(skipped) and line.endswith("\\")
        lines.append("" if skipped or any(in_other) else line)
    return "\n".join(lines)


def without_template_head(text):
    """What stands behind `template <...>`; a comparison in round brackets is no angle bracket."""
    while True:
        found = re.match(r"\s*template\s*<", text)
        if not found:
            return text
        angles, rounds, at = 1, 0, found.end()
        while at < len(text) and angles:
            rounds += {"(": 1, ")": -1}.get(text[at], 0)
            if rounds == 0 and text[at - 1] != "-":
                angles += {"<": 1, ">": -1}.get(text[at], 0)
            at += 1
        text = text[at:]


def without_initialisers(head):
    """A constructor's head without what it initialises."""
    rounds = 0
    for at, letter in enumerate(head):
        rounds += {"(": 1, ")": -1}.get(letter, 0)
        is_single = letter == ":" and head[at + 1 : at + 2] != ":" and head[at - 1 : at] != ":"
        if is_single and rounds == 0 and re.search(r"(\)|noexcept)\s*$", head[:at]):
            return head[:at]
    return head


def name_of(head):
    """The name before the first bracket outside all others, or of the variable that a lambda initialises."""
    lambda_of = re.search(r"(\w+)\s*=\s*\[", head)
    if lambda_of:
        return lambda_of.group(1)
    rounds = 0
    for at, letter in enumerate(head):
        if letter == "(" and rounds == 0:
            name = re.search(r"(operator\s*(\(\s*\)|[^\s\w(]+|\w+)|~?\w+)\s*$", head[:at])
            if name and not name.group(1).startswith(NOT_A_NAME) and not re.search(r"operator\s*$", head[:at]):
                return re.sub(r"\s+", " ", name.group(1))
        rounds += {"(": 1, ")": -1}.get(letter, 0)
    return "lambda"


def kind_of(head):
    """What a brace opens by the text before it: a function, a scope that may hold functions, or something else."""
    text = without_initialisers(without_template_head(head).strip())
    outside = re.sub(r"operator\s*[=!<>+\-*/|&^%]*=", "", text)  # Without what is in brackets: default arguments, attributes.
    while True:
        shorter = re.sub(r"\([^()]*\)|<[^<>()]*>", "", outside)
        if shorter == outside:
            break
        outside = shorter
    if "=" in outside:
        return "function" if re.search(r"=\s*\[[^\]]*\]", text) else "other"
    if TRAILING.search(text):
        return "function"
    return "scope" if SCOPE.search(text) else "other"


def functions(code):
    """(name, first line, lines) of each function of a C-family source."""
    code = first_branches(code)
    found, open_kinds, start = [], [], 0  # Kinds of the braces that are open, each with where its head begins.
    for at, letter in enumerate(code):
        inside = any(kind == "function" for kind, _ in open_kinds)
        if letter == "{":
            head = without_template_head(code[start:at])
            initialises = without_initialisers(head) != head and re.search(r"[\w>]\s*$", head)  # A member: `: member_{1} {`
            kind = "other" if inside or initialises else kind_of(head)
            open_kinds.append((kind, start))
            if kind != "other":
                start = at + 1
        elif letter == "}":
            if not open_kinds:
                raise CannotCount(f"line {code.count(chr(10), 0, at) + 1} closes a brace that nothing opens")
            kind, begin = open_kinds.pop()
            if kind == "function":
                whole = without_template_head(code[begin:at]).lstrip()
                last = code.count("\n", 0, at) + 1
                lines = whole.count("\n") + 1
                found.append((name_of(whole[: whole.index("{")]), last - lines + 1, lines))
            if kind != "other":
                start = at + 1
        elif letter == ";" and not inside and (not open_kinds or open_kinds[-1][0] == "scope"):
            start = at + 1
        elif letter == ":" and not inside and re.search(r"\b(public|private|protected)\s*$", code[start:at]):
            start = at + 1
    if open_kinds:
        raise CannotCount("a brace is never closed")
    return found


def python_functions(text):
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1) for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
