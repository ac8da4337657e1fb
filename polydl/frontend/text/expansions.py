"""What the user's macros expand to, as the compiler says it: guards for macros that are no plain integers.

`#define ALPHA 1.5f`, `#define OP(x) ((x) + ALPHA)`, `#define T float`, and `TWICE` in `#ifdef TWICE`: the translated
code holds their expansions, so it is right only where they expand to the same text.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from polydl.base.errors import ToolchainError
from polydl.base.resources import header_flags
from polydl.frontend.text import limited
from polydl.frontend.text.preprocess import HEADERS, MOST_EXPANDED, Preprocessed

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*(?:\\\n.*)*)", re.MULTILINE)
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_ANSWER = re.compile(r'^polydl_answer_(\d+) ("(?:[^"\\]|\\.)*")', re.MULTILINE)
_PLAIN = re.compile(r'"[0-9a-zA-Z+*/%<>=!&|^~?:() -]*"')
_WORD = re.compile(r"(?<![0-9A-Za-z_])[A-Za-z_]")


def condition_names(text: str) -> set[str]:
    """Identifiers that the `#if`s of a text test."""
    return {name for line in _CONDITION.findall(text) for name in _NAME.findall(line)} - {"defined"}


def expansions(
    names: Iterable[str],
    tested: Iterable[str],
    text: str,
    preprocessed: Preprocessed,
    offset: int,
    flags: Sequence[str],
    folder: str,
    cc: str,
) -> Mapping[str, str]:
    """The expansions of macros, as C string literals, by the macro's use (`ALPHA`, `OP(polydl_0)`).

    Of `names` those that `text` or the command line defines, of `tested` all. The compiler itself is asked, with the
    system's real headers. Raises ToolchainError.
    """
    defined = {*_DEFINE.findall(text), *(re.split(r"[=(]", f[2:])[0] for f in flags if f.startswith("-D"))}
    wanted = {name for name in names if name in defined and preprocessed.macro(name, offset)} | set(tested)
    calls = []
    for name in sorted(wanted):
        macro = preprocessed.macro(name, offset)
        parameters = macro.parameters if macro else None
        arguments = ", ".join(f"polydl_{i}" for i, p in enumerate(parameters or ()) if p)
        calls.append(name if parameters is None else f"{name}({arguments})")
    if not calls:
        return {}
    questions = "".join(f"polydl_answer_{i} polydl_text({call})\n" for i, call in enumerate(calls))
    asked = f"{text}\n#define polydl_text_(...) #__VA_ARGS__\n#define polydl_text(...) polydl_text_(__VA_ARGS__)\n"
    command = [cc, "-E", "-P", "-x", "c", *flags, "-iquote", folder or ".", *header_flags()]
    for headers in ((), HEADERS):
        try:
            stdin = (asked + questions).encode("utf-8", "surrogateescape")
            done = limited.run([*command, *headers, "-"], stdin, MOST_EXPANDED + 2 * len(stdin))
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"the C compiler '{cc}' cannot be asked what macros mean: {error}") from error
        found = {int(i): literal for i, literal in _ANSWER.findall(done.output.decode("utf-8", "surrogateescape"))}
        if done.code == 0 and len(found) == len(calls):
            return {call: found[i] for i, call in enumerate(calls)}
    raise ToolchainError(f"the C compiler '{cc}' does not say what the macros {', '.join(calls)} mean")


def is_plain(literal: str) -> bool:
    """Whether an expansion is arithmetic of integers, which `#if` can evaluate (it cannot a cast or an enumerator)."""
    return _PLAIN.fullmatch(literal) is not None and _WORD.search(literal) is None
