"""The programs of this folder, and how each is run."""

from __future__ import annotations

from pathlib import Path

from tests.programs.corpus import catalogue

PROGRAMS = catalogue(Path(__file__).parent)
MEASURED = (
    "embedding", "csr_matvec", "particles_struct", "gather_matmul", "embedding_bag", "csr_matmat", "csr_pointers",
    "csr_row_pointers", "histogram", "scatter_rows", "struct_matrix_product", "struct_by_value", "struct_bodies",
    "struct_forces", "struct_mixed", "struct_pixels", "struct_grid", "gaussian_separable", "count_over",
    "complex_pairs", "complex_struct", "quantised_linear", "game_of_life", "gray_scott", "bilinear",
    "ell_matvec", "scatter_add_rows", "quantized_rows", "bsr_layer", "sampled_products", "edge_softmax",
    "neighbours_max", "neighbours_mean", "expert_rows", "paged_scores", "paged_values", "csc_matvec", "coo_matvec",
    "bcsc_matmat", "csr_residual",
)  # fmt: skip
"""Programs that `optimize` compiles, checks and times, one for each kind of data that it makes: subscripts, rows of
different lengths, structures, values behind members, types and constants of the file. tests/programs has no data for
these."""
COMPARED = {name: entry for name, entry in PROGRAMS.items() if name not in MEASURED}
"""Programs whose variants tests/programs runs beside the original, all in one file."""
