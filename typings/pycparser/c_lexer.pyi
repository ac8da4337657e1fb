"""The lexer of pycparser, as far as it is used here."""

from collections.abc import Callable

class Token: ...

class CLexer:
    token: Callable[[], Token | None]
    def __init__(self, **options: object) -> None: ...
