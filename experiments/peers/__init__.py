"""What polydl is compared with. Each peer makes contenders of `bench.py` for a problem."""
