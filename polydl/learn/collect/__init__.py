"""Collecting training data: a broad sample of variants of many problems, measured into a store."""

from polydl.learn.collect.problems import Problem, channel_block, read_problems
from polydl.learn.collect.run import CollectOptions, collect

__all__ = ["CollectOptions", "Problem", "channel_block", "collect", "read_problems"]
