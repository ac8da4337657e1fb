"""The lexer of pycparser, as far as it is used here."""

from collections.abc import Callable

class Token:
    lineno: int
    column: int
    filename: str

class CLexer:
    token: Callable[[], Token | None]
    _match_token: Callable[[], Token | None]
    _lexdata: str
    _pos: int
    _keyword_map: dict[str, str]
    def __init__(self, **options: object) -> None: ...
    def _make_token(self, kind: str, value: str, position: int) -> Token: ...
