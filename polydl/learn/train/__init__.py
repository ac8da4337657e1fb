"""Training and judging learned rankers. Only `polydl.learn.train.nets` and `polydl.learn.train.fit` import torch."""
