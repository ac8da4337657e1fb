"""The command line of polydl."""

from polydl.cli.app import app, main

__all__ = ["app", "main"]
