"""What several commands take: fields of `Options` as parameters of commands, and the arguments that are none."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from polydl.base.flags import Option, options_of
from polydl.cli import completion
from polydl.cli.answer import Style, answering
from polydl.cli.compile_commands import flags_for
from polydl.options import Options

File = Annotated[
    Path,
    typer.Argument(metavar="FILE.c", show_default=False, readable=False, autocompletion=completion.files(".c")),
]
CompileCommands = Annotated[
    Path | None,
    typer.Option("--compile-commands", metavar="DIR|FILE", help="Take -D, -I, -std… from this compile_commands.json."),
]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="OUT.c", show_default=False, help="Default: FILE.polydl.c.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Measure on the workers of this Dask scheduler.")
]
For = Annotated[
    str,
    typer.Option("--for", metavar="FINGERPRINT", help="Of the cluster, only machines whose fingerprint begins so."),
]
Format = Annotated[Style, typer.Option("--format", help="Diagnostics for people, as gcc writes them, or as SARIF.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

At = Annotated[
    list[str],
    typer.Option("--at", metavar="N=V,…", show_default=False, help="Say what the output runs at these sizes."),
]

Command = Callable[..., None]


def takes_options(command: Command) -> Command:
    """The command with the options of polydl.options in place of its parameter `options`.

    Options are those that polydl/options.py gives to the command with the function's name; `--compile-commands` joins
    them where the function has a parameter `file`. A parameter `answer` becomes `--format` and `--json`; what is wrong
    in the options is then reported as what is wrong in the file is.
    """
    name = command.__name__
    own = inspect.signature(command, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for parameter in own.values():
        if parameter.name == "options":
            parameters += [_parameter(option) for option in options_of(Options, name)]
            if "file" in own and "compile_commands" not in own:
                parameters.append(_keyword("compile_commands", CompileCommands, None))
        elif parameter.name == "answer":
            parameters += [_keyword("format_", Format, Style.TEXT), _keyword("json_", Json, False)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        ours = {name: value for name, value in values.items() if name in own}
        # A parameter of the command's own can have the name of another command's option.
        options = {option.name for option in options_of(Options)}
        rest = {name: value for name, value in values.items() if name not in own or name not in options}
        if "answer" not in own:
            command(**ours, options=read_options(rest))
            return
        with answering(values["file"], values["format_"], as_json=values["json_"]) as answer:
            command(**ours, options=read_options(rest), answer=answer)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def read_options(parameters: Mapping[str, Any]) -> Options:
    """The options among the parameters of a command, by their names, some or all. Raises InputError."""
    values = {o.name: o.value(parameters[o.name]) for o in options_of(Options) if o.name in parameters}
    if parameters.get("compile_commands") is not None:
        values["preprocessor_flags"] = flags_for(parameters["file"], parameters["compile_commands"])
    return Options(**values, command=shlex.join(["polydl", *sys.argv[1:]]))


def _parameter(option: Option) -> inspect.Parameter:
    """An option as a parameter of a function that typer reads."""
    flag = option.flag
    text = flag.off if option.negated else flag.help
    info = typer.Option(
        *option.names,
        metavar=flag.metavar,
        help=text if flag.least is None else f"{text.rstrip('.')} (at least {flag.least}).",
        autocompletion=completion.words_or_files(flag.words, flag.suffix),
    )
    return _keyword(option.name, Annotated[_type(option), info], _default(option))


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _type(option: Option) -> Any:
    """What the command line holds for an option: a switch, a number, a text, or a list of texts."""
    if isinstance(option.default, tuple | dict):
        return list[str]
    if option.flag.read is not None:
        return str
    kind = next((kind for kind in (bool, int, float) if option.type.startswith(kind.__name__)), str)
    return kind | None if option.default is None else kind


def _default(option: Option) -> Any:
    if isinstance(option.default, tuple | dict):
        return []
    if option.flag.read is not None:
        return f"{option.default:g}"
    return False if option.negated else option.default
