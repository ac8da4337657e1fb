"""What a C program means, found without the front end: C run as it was parsed, Scops run in their original order, and
the adversarial data on which both are compared with what polydl made of the program.

Nothing here imports `polydl.frontend`; of what it shares with it, pycparser's classes are all.
"""
