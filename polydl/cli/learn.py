"""The commands that make rankers: collect, train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli.answer import print_json
from polydl.cli.arguments import Cluster, For, Json, takes_options
from polydl.options import Options


@takes_options
def collect(
    *,
    layers: Annotated[list[Path], typer.Option("--layers", metavar="CSV", help="Layers or matrix sizes; repeatable.")],
    store: Annotated[Path, typer.Option("--store", metavar="SQLITE", help="Where the measurements go.")],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Variants measured of each size.")] = 72,
    images: Annotated[int | None, typer.Option("--images", min=1, help="Default: as many as threads.")] = None,
    most: Annotated[float, typer.Option("--most-gflop", min=0.0, help="Leave larger sizes out.")] = 1e9,
    workload: Annotated[list[str], typer.Option("--workload", metavar="NAME", help="Only these networks.")] = [],
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="fp32|bf16|half|u8s8|s8s8|s16", help="Types of the factors.")
    ] = "fp32",
    options: Options,
    scratch: Annotated[
        Path | None, typer.Option("--scratch", metavar="DIR", help="Build in this folder instead of a temporary one.")
    ] = None,
    prepare_only: Annotated[bool, typer.Option("--prepare-only", help="Build in --scratch, measure nothing.")] = False,
    cluster: Cluster = None,
    for_: For = "",
) -> None:
    """Measure many variants of many sizes to train rankers on; continues where it was interrupted."""
    if for_ and cluster is None:
        raise InputError("--for without --cluster", hint="it chooses among the machines of a cluster")
    if cluster is not None and (prepare_only or scratch is not None):
        raise InputError("--scratch and --cluster together", hint="leave it out: workers build in their own folders")
    from polydl.learn.collect.collect_command import Selection, collect_here
    from polydl.learn.collect.run import CollectOptions

    selection = Selection(tuple(layers), images, tuple(workload), dtype)
    collecting = CollectOptions(
        count=samples, space=options.space, seed=options.seed, isa=options.isa, most_operations=most * 1e9,
        scratch=scratch, prepare_only=prepare_only,
    )  # fmt: skip
    if cluster is None:
        collect_here(selection, store, collecting, options.threads)
    else:
        from polydl.cli import on_cluster

        on_cluster.collect(selection, store, collecting, options.threads, cluster, for_)


def train(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Store (SQLite) or its export (Parquet).")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE.safetensors",
            help="The weights; a model card and the training curve are written beside.",
        ),
    ],
    kind: Annotated[str, typer.Option("--kind", metavar="dnn|dnn-paper", help="Which ranker.")] = "dnn",
    finetune: Annotated[
        Path | None, typer.Option("--finetune", metavar="FILE.safetensors", help="Start from these weights.")
    ] = None,
    exclude: Annotated[
        list[str], typer.Option("--exclude", metavar="NETWORK", help="Do not train on this network.")
    ] = [],
    epochs: Annotated[int | None, typer.Option("--epochs", min=1)] = None,
    members: Annotated[int | None, typer.Option("--members", min=1, help="Networks in the ensemble.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Train a ranker on measurements that `polydl collect` made."""
    from polydl.learn.train.train_command import train_command

    train_command(data, out, kind=kind, finetune=finetune, seed=seed, epochs=epochs, members=members, exclude=exclude)


def evaluate(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Store (SQLite) or its export (Parquet).")],
    model: Annotated[
        list[Path], typer.Option("--model", metavar="FILE.safetensors", help="Evaluate these weights; repeatable.")
    ] = [],
    workload: Annotated[list[str], typer.Option("--workload", metavar="NETWORK", help="Only these networks.")] = [],
    json_: Json = False,
) -> None:
    """Evaluate rankers on measurements: how fast are the variants that each of them would choose?"""
    from polydl.learn.train.train_command import evaluate_command, show_evaluation

    found = evaluate_command(data, model, workload)
    if json_:
        print_json(found)
    else:
        show_evaluation(found)
