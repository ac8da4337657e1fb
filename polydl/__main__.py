"""`python -m polydl`."""

from polydl.cli import main

main()
