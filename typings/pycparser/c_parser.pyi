"""The parser of pycparser, as far as it is used here."""

from collections.abc import Callable
from typing import NoReturn

from pycparser.c_ast import FileAST
from pycparser.c_lexer import CLexer

class Coord:
    file: str
    line: int
    column: int | None
    def __init__(self, file: str, line: int, column: int | None = None) -> None: ...

class ParseError(Exception): ...

class CParser:
    def __init__(
        self, lex_optimize: bool = True, lexer: Callable[..., CLexer] = ..., *, dialect: str = "legacy"
    ) -> None: ...
    def parse(self, text: str, filename: str = "", debug: bool = False) -> FileAST: ...
    def _parse_error(self, msg: str, coord: Coord | str | None) -> NoReturn: ...
