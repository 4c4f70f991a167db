# SPDX-License-Identifier: Apache-2.0
"""Finds private names outside of lockstep::detail, and types defined twice.

Two types of one name in two layers are undefined behaviour, and no compiler or
linker says so. So what a header under src/ declares is in lockstep::detail, and
a source under src/ defines its own types there or in an anonymous namespace.

This is a scan for braces, not a parser of C++: it knows what is declared at the
scope of a namespace, and skips all that is within other braces.
"""
import re

# Comments, lines for the preprocessor, texts and characters.
NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|^[ \t]*#(?:\\\n|[^\n])*"
    r'|R"\(.*?\)"|"(?:\\.|[^"\\])*"|'
    r"'(?:\\.|[^'\\])'", re.DOTALL | re.MULTILINE)

NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*)$")
TYPE = re.compile(
    r"(?:template ?<.*> )?(?:class|struct|union|enum(?: class)?) "
    r"(?:alignas\(\w+\) )?([\w:]+)(?: final)?(?: :.*)?\{$")
# A short name for a nested class that is defined here is no type of its own.
ALIAS = re.compile(r"typedef |using (?!Impl = \w+::Impl;)\w+ =")
MACRO = re.compile(r"[A-Z][A-Z0-9_]*\(.*\);$")


def code_of(text):
    """The text with blanks for what is no code; its lines stay lines."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def declarations(text):
    """What is declared at the scope of a namespace, up to its `{` or `;`.

    Gives the number of its line, the names of the namespaces around it (an
    anonymous one has the name ""), and its words.
    """
    code = code_of(text)
    namespaces = []  # per open namespace its names: namespace a::b has two
    depth = 0  # of other braces
    begin = 0
    for mark in re.finditer(r"[{};]", code):
        words = code[begin:mark.start()].split()
        start = mark.start() - len(code[begin:mark.start()].lstrip())
        begin = mark.end()
        opened = NAMESPACE.match(" ".join(words))
        if mark.group() == "}" and depth > 0:
            depth -= 1
        elif mark.group() == "}":
            namespaces.pop()
        elif depth == 0 and opened and mark.group() == "{":
            namespaces.append(opened.group(1).split("::"))
        else:
            if depth == 0 and words:
                yield (code.count("\n", 0, start) + 1, sum(namespaces, []),
                       " ".join(words) + mark.group())
            depth += mark.group() == "{"


def may_stand_in_header(words):
    """Nested classes of public classes, and macros."""
    found = TYPE.match(words)
    return found and "::" in found.group(1) or MACRO.match(words)


def makes_type(words):
    found = TYPE.match(words)
    return found and "::" not in found.group(1) or ALIAS.match(words)


def misplaced_names(path):
    """The lines of a private file with a name that is not where it belongs."""
    is_header = path.suffix == ".h"
    for line, namespaces, words in declarations(path.read_text()):
        if namespaces[:2] == ["lockstep", "detail"]:
            continue
        if is_header and not may_stand_in_header(words):
            yield line, words
        if not is_header and "" not in namespaces and makes_type(words):
            yield line, words


def defined_types(path):
    """The full names of the types that the whole program sees."""
    for line, namespaces, words in declarations(path.read_text()):
        found = TYPE.match(words)
        if found and "" not in namespaces:
            yield line, "::".join(namespaces + [found.group(1)])
