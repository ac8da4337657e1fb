"""What the hardware is: detection, presets, TOML, calibration."""

from polydl.machine.calibrate import calibrate
from polydl.machine.detect import calibration_path, detect
from polydl.machine.files import dumps, load, loads, preset, preset_names, save
from polydl.machine.model import CacheLevel, Machine, Memory, Provenance, Simd, Tlb

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
    "load",
    "loads",
    "preset",
    "preset_names",
    "save",
]
