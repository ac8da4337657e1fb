"""Element-wise operators into heavy ones, and loops into loops (PolyDL, algorithm 3)."""
