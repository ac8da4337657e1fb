"""Changes of C's text that keep its meaning, for programs that exist: `for` to `while`, `a[i]` to `*(a + i)`, …

Each works on lines as people and `whole_programs` write them, and returns None where it finds nothing to change. What
it makes is C of the same meaning or does not compile, which is to be asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

Mutation = Callable[[str, Random], str | None]
_TYPE = (
    r"(?:const\s+)?(?:unsigned char|signed char|unsigned short|unsigned int|unsigned|int|long|short|char|float|double"
    r"|\w+_t)"
)
_DECLARED = re.compile(
    rf"(?<![\w*])({_TYPE})\s+((?:\*\s*)?(?:const\s+|restrict\s+|__restrict\s+)*)(\w+)\s*(?=[\[=;,)]|\))(\[[^\]]*\])?(?!\[)"
)
_FOR = re.compile(rf"for \((({_TYPE}) (\w+) = [^;()]+); ([^;]+); ([^;()]+)\) \{{")
_STATEMENT = re.compile(
    rf"^([ \t]*)(?![ \t]|{_TYPE}\b)([\w\[\]().+\-*/% ]*[\w\])]\s*[-+*/]?=[^=][^;{{}}]*;)$", re.MULTILINE
)
_ELEMENT = re.compile(r"(?<![\w.>\])])(\w+)\[([^\[\]]+)\](?!\s*\[)")


def rename(text: str, rng: Random) -> str | None:
    """One variable or parameter, everywhere."""
    names = sorted({found[3] for found in _DECLARED.finditer(_functions(text))} - {"n", "main"})
    if not names:
        return None
    old, new = rng.choice(names), f"other_{rng.randrange(100)}"
    lines = [
        line if re.match(r"\s*#(?!pragma)", line) else re.sub(rf"(?<![\w.])(?<!->)\b{old}\b", new, line)
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def declare(text: str, rng: Random) -> str | None:
    """A variable that nothing uses."""
    places = [found.end() for found in re.finditer(r"\)\s*\{", text)]
    if not places:
        return None
    place = rng.choice(places)
    kind = rng.choice(("int", "float", "double"))
    return f"{text[:place]} {kind} unused_{rng.randrange(100)} = {rng.randrange(3)};{text[place:]}"


def to_while(text: str, rng: Random) -> str | None:
    """A `for` loop as a `while` loop in a block."""
    found = [one for one in _FOR.finditer(text) if (end := _closing(text, one.end() - 1)) and
             not re.search(r"\bcontinue\b", text[one.end() : end])]  # fmt: skip
    if not found:
        return None
    one = rng.choice(found)
    end = _closing(text, one.end() - 1)
    body = text[one.end() : end]
    return f"{text[: one.start()]}{{ {one[1]}; while ({one[4]}) {{{body} {one[5]}; }} }}{text[end + 1 :]}"


def block(text: str, rng: Random) -> str | None:
    """Braces around a statement."""
    return _one(_STATEMENT, text, rng, lambda found: f"{found[1]}{{ {found[2]} }}")


def through_pointer(text: str, rng: Random) -> str | None:
    """`*(a + i)` for an element."""
    statements = list(_STATEMENT.finditer(text))
    rng.shuffle(statements)
    for statement in statements:
        changed = _one(_ELEMENT, statement[2], rng, lambda found: f"(*({found[1]} + ({found[2]})))")
        if changed is not None:
            return text[: statement.start(2)] + changed + text[statement.end(2) :]
    return None


def step(text: str, rng: Random) -> str | None:
    """`i += 1` for `i++`."""
    return _one(re.compile(r"; (\w+)\+\+\)"), text, rng, lambda found: f"; {found[1]} += 1)")


def reorder(text: str, rng: Random) -> str | None:
    """Two declarations, the other one first."""
    simple = rf"([ \t]*{_TYPE} \w+ = -?[\d.]+f?;\n)"
    return _one(re.compile(simple + simple), text, rng, lambda found: found[2] + found[1])


def outline(text: str, rng: Random) -> str | None:
    """A statement as a call of a function that does it."""
    inside = _functions(text)
    kinds = {found[3]: (found[1], bool(found[4]) or "*" in found[2]) for found in _DECLARED.finditer(inside)}
    for found in sorted(_STATEMENT.finditer(text), key=lambda one: rng.random()):
        names = sorted(set(re.findall(r"(?<![\w.])[a-zA-Z_]\w*", re.sub(r"\d\w*", "0", found[2]))))
        target = re.match(r"(\w+)\[", found[2])
        if target is None or not all(name in kinds or name.isupper() for name in names) or "]" + "[" in found[2]:
            continue
        used = [name for name in names if name in kinds]
        name = f"outlined_{rng.randrange(100)}"
        parameters = ", ".join(f"{kinds[one][0]} {'*' if kinds[one][1] else ''}{one}" for one in used)
        start = text.rindex("\n\n", 0, found.start()) if "\n\n" in text[: found.start()] else -1
        start = _function_start(text, found.start()) if start < 0 or "{" not in text[start : found.start()] else start
        made = f"\nstatic void {name}({parameters}) {{ {found[2]} }}\n"
        call = f"{found[1]}{name}({', '.join(used)});"
        return text[:start] + made + text[start : found.start()] + call + text[found.end() :]
    return None


MUTATIONS: dict[str, Mutation] = {
    "rename": rename, "declare": declare, "to_while": to_while, "block": block, "through_pointer": through_pointer,
    "step": step, "reorder": reorder, "outline": outline,
}  # fmt: skip


def mutants(text: str, rng: Random, count: int) -> Iterator[tuple[str, str]]:
    """What was done, and the text, for one to three changes at once."""
    for _ in range(count):
        done, changed = [], text
        for name in rng.sample(sorted(MUTATIONS), rng.choice((1, 1, 2, 3))):
            after = MUTATIONS[name](changed, rng)
            if after is not None and after != changed:
                done.append(name)
                changed = after
        if done:
            yield " ".join(done), changed


def _functions(text: str) -> str:
    """What stands from the first function on, without what is in front of it."""
    found = re.search(r"^[\w ]+\*?\w+\([^;{}]*\)\s*\{", text, re.MULTILINE)
    return text[found.start() :] if found else ""


def _function_start(text: str, place: int) -> int:
    """Where the function begins in which a place is: behind the last brace at the start of a line, or the last line of
    the preprocessor."""
    ends = [
        found.end() for found in re.finditer(r"^(\}.*|#.*)\n", text[:place], re.MULTILINE) if "pragma" not in found[0]
    ]
    return ends[-1] if ends else 0


def _one(pattern: re.Pattern[str], text: str, rng: Random, change: Callable[[re.Match[str]], str]) -> str | None:
    found = list(pattern.finditer(text))
    if not found:
        return None
    one = rng.choice(found)
    return text[: one.start()] + change(one) + text[one.end() :]


def _closing(text: str, opening: int) -> int:
    """The brace that closes one; 0: none does."""
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place
    return 0
