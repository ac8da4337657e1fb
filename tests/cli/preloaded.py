"""What a process that runs of the command line are forked from imports."""

from tests.cli.forked import preload

preload()
