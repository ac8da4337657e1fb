"""What the hardware is: detection, presets, TOML, calibration."""

from polydl.target.calibrate import calibrate
from polydl.target.detect import calibration_path, detect
from polydl.target.machine_files import dumps, load, loads, preset, preset_names, save
from polydl.target.model import CacheLevel, Machine, Memory, Provenance, Simd, Tlb
from polydl.target.narrower import length_flags, narrowed, narrowing_flags

__all__ = [
    "CacheLevel",
    "Machine",
    "Memory",
    "Provenance",
    "Simd",
    "Tlb",
    "calibrate",
    "calibration_path",
    "detect",
    "dumps",
    "length_flags",
    "load",
    "loads",
    "narrowed",
    "narrowing_flags",
    "preset",
    "preset_names",
    "save",
]
