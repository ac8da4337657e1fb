"""Optimizing and collecting on the workers of a Dask cluster (`--cluster ADDRESS`).

    polydl here ─ pool ─▶ Dask scheduler ─▶ worker ─ remote ─▶ a process of its own: job
         ◀─ one JSON document for each job, stored or written as it comes ─◀

C text, options and results travel as JSON. A job is everything that polydl does for one problem on one machine: rank
for that machine, compile with its compiler, check, time. So its result is that of the same command run there.
`docs/cluster.md` is for users.
"""
