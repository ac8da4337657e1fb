"""The blocks of README.md and docs/ run as printed."""
