"""Machines as TOML: `load`, `save`, `preset`. Unknown keys, wrong types and missing figures are errors with a place."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from polydl.base.errors import InputError, InputErrors, Span
from polydl.base.records import dataclass
from polydl.model.types import TYPES, spelled
from polydl.target.model import OBSERVED, CacheLevel, Machine, Memory, Provenance, Simd, Tlb
from polydl.target.products import MEASURED

PRESETS = Path(__file__).resolve().parent / "presets"


@dataclass(frozen=True, slots=True)
class Match:
    """The processors that a preset describes."""

    vendor: str
    """`vendor_id` of /proc/cpuinfo, or `CPU implementer` on Arm."""
    family: int
    models: tuple[int, ...]
    """`model` (`CPU part` on Arm); empty for every model of the family."""


_SECTIONS: dict[str, dict[str, type]] = {
    "": {
        "name": str,
        "cores": int,
        "frequency_ghz": float,
        "call_cycles": float,
        "parallel_region_us": float,
        "base": str,
    },
    "simd": {"isa": str, "vector_bytes": int, "registers": int, "features": str},
    "memory": {"latency_ns": float, "bandwidth_gbs": float, "shared_bandwidth_gbs": float},
    "tlb": {
        "page_bytes": int,
        "l1_entries": int,
        "l2_entries": int,
        "l2_latency_cycles": float,
        "walk_cycles": float,
    },
    "cache": {
        "level": int,
        "bytes": int,
        "line_bytes": int,
        "ways": int,
        "shared_by_cores": int,
        "latency_cycles": float,
        "bandwidth_bytes_per_cycle": float,
        "shared_bandwidth_bytes_per_cycle": float,
    },
    "match": {"vendor": str, "family": int, "models": list},
}
"""Keys of each section and the type of their values; a float may be written as an integer."""
_DEFAULTS = {"simd.features": ""}
"""Of keys that may be left out."""
_MEASURED = ("register_blocks", "product_gops", "observed")
"""Tables that only a calibration fills."""
_TABLES = ("simd", "cache", "memory", "tlb", "fma_peak_gflops", *_MEASURED, "provenance", "match")
_NAMES = {str: "a string", int: "an integer", float: "a number", list: "a list of integers"}


def preset_names() -> tuple[str, ...]:
    """Names that `preset` knows."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def preset(name: str) -> Machine:
    """A machine that polydl ships a description of. Raises InputError, naming the nearest, when there is none."""
    if name not in preset_names():
        raise InputError(f"no machine preset '{name}'", hint=_nearest(name, preset_names()))
    return load(PRESETS / f"{name}.toml")


def preset_match(name: str) -> Match | None:
    """The processors that a preset describes; None for one that is chosen by its name only."""
    table = tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8")).get("match")
    return None if table is None else Match(table["vendor"], table["family"], tuple(table["models"]))


def load(path: Path, base: Machine | None = None) -> Machine:
    """The machine that a TOML file describes.

    A file with the key `base` gives the name of a preset that figures left out are taken from; otherwise they come
    from `base`; with neither, every figure must be there. Caches are matched by their level.

    Raises InputErrors (all of the file's faults, with line and column) and InputError when it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the machine file {path}: {error}") from error
    return loads(text, str(path), base)


def loads(text: str, file: str = "<machine>", base: Machine | None = None) -> Machine:
    """As `load`, from text; `file` is the name that messages use."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", _decode_span(str(error), text, file)) from error
    reader = _Reader(text, file)
    return reader.machine(document, base)


def _decode_span(message: str, text: str, file: str) -> Span:
    place = re.search(r"at line (\d+), column (\d+)", message)
    lines = text.splitlines() or [""]
    line, column = (int(place[1]), int(place[2])) if place else (len(lines), len(lines[-1]) + 1)
    return Span(file, line, column, 1, lines[min(line, len(lines)) - 1])


def _nearest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"


class _Reader:
    """Turns a parsed document into a Machine, gathering what is wrong with it."""

    def __init__(self, text: str, file: str) -> None:
        self.lines = text.splitlines()
        self.file = file
        self.errors: list[InputError] = []
        self.unknown_base = False

    def machine(self, document: dict[str, Any], base: Machine | None) -> Machine:
        top = self._section("", {k: v for k, v in document.items() if k not in _TABLES}, 1)
        if isinstance(top.get("base"), str):
            if top["base"] in preset_names():
                base = preset(top["base"])
            else:
                self.unknown_base = True
                self._fault(f"no machine preset '{top['base']}'", "base", 1, _nearest(top["base"], preset_names()))
        given = set(top) - {"base"}
        figures: dict[str, Any] = dict(_DEFAULTS) if base is None else _figures(base)
        figures.update((k, v) for k, v in top.items() if k != "base")
        for name in ("simd", "memory", "tlb"):
            table = self._table(document, name)
            found = self._section(name, table, self._line_of(f"[{name}]"))
            given |= {f"{name}.{key}" for key in found}
            figures.update((f"{name}.{key}", value) for key, value in found.items())
        if "match" in document:
            self._section("match", self._table(document, "match"), self._line_of("[match]"))
        levels = self._caches(document, figures, given)
        peaks = dict(base.fma_peak_gflops) if base is not None else {}
        for name, value in self._table(document, "fma_peak_gflops").items():
            start = self._line_of("[fma_peak_gflops]")
            element = spelled(name)
            if element is None:
                self._fault(f"'{name}' is no element type", name, start, _nearest(name, tuple(t.c for t in TYPES)))
            elif self._typed(value, float):
                peaks[element.c] = float(value)
                given.add(f"fma_peak_gflops.{element.c}")
            else:
                self._fault(f"'{name}' must be a number", name, start)
        blocks = {**(base.register_blocks if base is not None else {}), **dict(self._blocks(document))}
        products = {**(base.product_gops if base is not None else {}), **dict(self._products(document))}
        observed = {**(base.observed if base is not None else {}), **dict(self._observed(document))}
        given |= {f"{name}.{key}" for name in _MEASURED for key in self._table(document, name)}
        provenance = dict(base.provenance) if base is not None else {}
        provenance.update(dict.fromkeys(sorted(given), Provenance.FILE))
        provenance.update(self._provenance(document))
        if not self.unknown_base:
            self._require(figures, levels, peaks)
        if self.errors:
            raise InputErrors(self.errors)
        built = _build(figures, levels, peaks, blocks, provenance)
        return replace(built, product_gops=products, observed=observed)

    def _table(self, document: Mapping[str, Any], name: str) -> dict[str, Any]:
        table = document.get(name, {})
        if isinstance(table, dict):
            return table
        self._fault(f"'{name}' must be a table [{name}]", name, 1)
        return {}

    def _section(self, name: str, table: dict[str, Any], start: int) -> dict[str, Any]:
        """The known, well-typed keys of one section; numbers that should be floats made so."""
        known = _SECTIONS[name]
        found = {}
        for key, value in table.items():
            if key not in known:
                allowed = (*known, *_TABLES) if name == "" else tuple(known)
                self._fault(
                    f"unknown key '{key}'" + (f" in [{name}]" if name else ""), key, start, _nearest(key, allowed)
                )
            elif not self._typed(value, known[key]):
                self._fault(f"'{key}' must be {_NAMES[known[key]]}", key, start)
            elif known[key] in (int, float) and not value > 0 and name != "match":
                self._fault(f"'{key}' must be positive", key, start)
            else:
                found[key] = float(value) if known[key] is float else value
        return found

    @staticmethod
    def _typed(value: object, wanted: type) -> bool:
        if isinstance(value, bool):
            return False
        if wanted is list:
            return isinstance(value, list) and all(isinstance(item, int) for item in value)
        return isinstance(value, (int, float) if wanted is float else wanted)

    def _caches(self, document: dict[str, Any], figures: dict[str, Any], given: set[str]) -> list[int]:
        """Levels of the caches, their figures put under `cache.LEVEL.key`."""
        levels = sorted({int(key.split(".")[1]) for key in figures if key.startswith("cache.")})
        tables = document.get("cache", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._fault("caches must be tables [[cache]], one a level", "cache", 1)
            return levels
        starts = [i for i, line in enumerate(self.lines, 1) if re.match(r"\s*\[\[\s*cache\s*\]\]", line)]
        starts += [1] * (len(tables) - len(starts))  # caches may be written inline
        seen: set[int] = set()
        for table, start in zip(tables, starts, strict=False):
            found = self._section("cache", table, start)
            level = found.get("level")
            if level is None:
                self._fault("this cache has no 'level'", "[[cache]]", start)
                continue
            if level in seen:
                self._fault(f"two caches of level {level}", "level", start)
            seen.add(level)
            given |= {f"cache.{level}.{key}" for key in found}
            figures.update((f"cache.{level}.{key}", value) for key, value in found.items())
        return sorted({*levels, *seen})

    def _blocks(self, document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        """Register blocks and what they reach."""
        start = self._line_of("[register_blocks]")
        for name, value in self._table(document, "register_blocks").items():
            if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", name):
                self._fault(f"'{name}' is no register block", name, start, 'rows and vectors: "6x2"')
            elif not self._typed(value, float) or not 0 < value <= 1:
                self._fault(f"'{name}' must be a fraction of the FMA peak, above 0 and at most 1", name, start)
            else:
                yield name, float(value)

    def _products(self, document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        """Peaks of inner products."""
        start = self._line_of("[product_gops]")
        for name, value in self._table(document, "product_gops").items():
            if name not in MEASURED:
                self._fault(f"no inner product '{name}'", name, start, _nearest(name, tuple(MEASURED)))
            elif not self._typed(value, float) or not value > 0:
                self._fault(f"'{name}' must be a number above 0: 10^9 operations per second", name, start)
            else:
                yield name, float(value)

    def _observed(self, document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        """Figures for people."""
        start = self._line_of("[observed]")
        for name, value in self._table(document, "observed").items():
            if name not in OBSERVED:
                self._fault(f"unknown key '{name}' in [observed]", name, start, _nearest(name, tuple(OBSERVED)))
            elif not self._typed(value, float) or value < 0:
                self._fault(f"'{name}' must be a number, at least 0", name, start)
            else:
                yield name, float(value)

    def _provenance(self, document: dict[str, Any]) -> Iterator[tuple[str, Provenance]]:
        start = self._line_of("[provenance]")
        values = tuple(item.value for item in Provenance)
        for key, value in self._table(document, "provenance").items():
            if value in values:
                yield key, Provenance(value)
            else:
                self._fault(f"'{value}' is not a provenance", key, start, f"one of {', '.join(values)}")

    def _require(self, figures: Mapping[str, Any], levels: list[int], peaks: Mapping[str, float]) -> None:
        wanted = [key for key in _SECTIONS[""] if key != "base"]
        wanted += [f"{name}.{key}" for name in ("simd", "memory", "tlb") for key in _SECTIONS[name]]
        wanted += [f"cache.{level}.{key}" for level in levels for key in _SECTIONS["cache"]]
        missing = [key for key in wanted if key not in figures]
        hint = 'give them all, or name a preset to start from: base = "epyc-zen4"'
        if missing:
            self._fault(f"missing: {', '.join(missing)}", None, 1, hint)
        if not levels:
            self._fault("missing: a [[cache]]", None, 1, hint)
        if not peaks:
            self._fault("missing: a figure in [fma_peak_gflops]", None, 1, hint)

    def _line_of(self, header: str) -> int:
        for number, line in enumerate(self.lines, 1):
            if line.replace(" ", "").startswith(header):
                return number
        return 1

    def _fault(self, reason: str, key: str | None, start: int, hint: str | None = None) -> None:
        """Record an error at the first line from `start` on that sets `key`."""
        line, column, length = start, 1, 1
        if key is not None:
            pattern = re.compile(
                rf"(^|[\s{{,]|\"|\[)({re.escape(key)})\b" if key[0] != "[" else rf"()({re.escape(key)})"
            )
            for number, text in enumerate(self.lines[start - 1 :], start):
                match = pattern.search(text.split("#", 1)[0])
                if match:
                    line, column, length = number, match.start(2) + 1, len(key)
                    break
        shown = self.lines[line - 1] if line <= len(self.lines) else ""
        self.errors.append(InputError(reason, Span(self.file, line, column, length, shown), hint))


def _figures(machine: Machine) -> dict[str, Any]:
    """Every figure of a machine by its key: `cores`, `memory.latency_ns`, `cache.1.bytes`."""
    figures: dict[str, Any] = {key: getattr(machine, key) for key in _SECTIONS[""] if key != "base"}
    for name in ("simd", "memory", "tlb"):
        part = getattr(machine, name)
        figures.update((f"{name}.{item.name}", getattr(part, item.name)) for item in fields(part))
    for cache in machine.caches:
        figures.update((f"cache.{cache.level}.{item.name}", getattr(cache, item.name)) for item in fields(cache))
    return figures


def _build(
    figures: Mapping[str, Any],
    levels: list[int],
    peaks: dict[str, float],
    blocks: dict[str, float],
    provenance: dict[str, Provenance],
) -> Machine:
    def part(prefix: str, keys: Mapping[str, type]) -> dict[str, Any]:
        return {key: figures[f"{prefix}.{key}"] for key in keys}

    return Machine(
        name=figures["name"],
        cores=figures["cores"],
        frequency_ghz=figures["frequency_ghz"],
        call_cycles=figures["call_cycles"],
        parallel_region_us=figures["parallel_region_us"],
        simd=Simd(**part("simd", _SECTIONS["simd"])),
        caches=tuple(CacheLevel(**part(f"cache.{level}", _SECTIONS["cache"])) for level in levels),
        memory=Memory(**part("memory", _SECTIONS["memory"])),
        tlb=Tlb(**part("tlb", _SECTIONS["tlb"])),
        fma_peak_gflops=peaks,
        register_blocks=blocks,
        provenance=provenance,
    )


def dumps(machine: Machine) -> str:
    """TOML text that `loads` reads back as the same machine."""
    figures = _figures(machine)
    lines = [f"{key} = {_value(figures[key])}" for key in _SECTIONS[""] if key != "base"]
    for name in ("simd", "memory", "tlb"):
        lines += ["", f"[{name}]"]
        given = [key for key in _SECTIONS[name] if figures[f"{name}.{key}"] != _DEFAULTS.get(f"{name}.{key}")]
        lines += [f"{key} = {_value(figures[f'{name}.{key}'])}" for key in given]
    for cache in machine.caches:
        lines += ["", "[[cache]]"]
        lines += [f"{key} = {_value(figures[f'cache.{cache.level}.{key}'])}" for key in _SECTIONS["cache"]]
    lines += ["", "[fma_peak_gflops]"]
    lines += sorted(f"{_value(element)} = {_value(peak)}" for element, peak in machine.fma_peak_gflops.items())
    for name in _MEASURED:
        if table := getattr(machine, name):
            lines += ["", f"[{name}]"]
            lines += [f"{_value(key)} = {_value(value)}" for key, value in sorted(table.items())]
    lines += ["", "[provenance]"]
    lines += [f"{_value(key)} = {_value(source.value)}" for key, source in sorted(machine.provenance.items())]
    return "\n".join(lines) + "\n"


def save(machine: Machine, path: Path) -> None:
    """Write a machine as TOML; folders are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(machine), encoding="utf-8")


def _value(value: str | int | float) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04X}" for c in escaped) + '"'
    return repr(value)
