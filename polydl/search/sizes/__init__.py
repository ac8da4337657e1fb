"""Code for the sizes that were not tuned: one search over the values of a function's integer parameters.

    find.py ─▶ space (blocks.py: contractions in blocks;  searched.py: variants that were searched for the tuned size)
             ─▶ points.py: sizes at which they are estimated ─▶ choose.py: a few of them ─▶ dispatch.py: which when

`tree.py` says to people what was chosen, `curve.py` runs the output at several sizes.
"""
