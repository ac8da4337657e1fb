"""Training and judging learned rankers. Only `polydl.train.nets` and `polydl.train.fit` import torch."""
