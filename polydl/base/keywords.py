"""Says in the words of the Python API what a hint says in those of the command line."""

from __future__ import annotations

import re

_SHORT = {"-D": "defines", "-U": "undefines", "-I": "include_dirs", "--size": "sizes"}
"""Options whose fields have other names than they."""
_VALUES = re.compile(r"(-D|--size) ([A-Za-z_]\w*)=([\w.…]+)")
_OFF = re.compile(r"(?<![\w-])--no-([a-z][a-z-]+)")
_LONG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
_SHORTENED = re.compile(r"(?<![\w-])(-D|-U|-I|--size)(?![\w-])")


def in_python(hint: str) -> str:
    """A hint with keywords where it has options.

    >>> in_python("give it with --size n=512, or --no-run ranks without it")
    'give it with sizes={"n": 512}, or run=False ranks without it'
    """
    text = _VALUES.sub(lambda m: f'{_SHORT[m[1]]}={{"{m[2]}": {m[3]}}}', hint)
    text = _SHORTENED.sub(lambda m: f"{_SHORT[m[1]]}=", text)
    text = _OFF.sub(lambda m: f"{m[1].replace('-', '_')}=False", text)
    return _LONG.sub(lambda m: f"{m[1].replace('-', '_')}=", text)
