"""Measuring on many machines: the workers of a Dask cluster (`--cluster ADDRESS`).

    polydl here ─ pool ─▶ Dask scheduler ─▶ worker ─ remote ─▶ a process of its own: job
         ◀─ one JSON document a job, stored or written as it comes ─◀

What travels is C text, options and results, all JSON. A job is everything that polydl does for one problem on one
machine (rank for that machine, compile with its compiler, check, time), so that what comes back is what the same
command says when it is run there. `docs/cluster.md` is for users.
"""
