"""Bounded proofs: what holds of small chains for all inputs, and that a fault would have been found."""

from __future__ import annotations

import pytest

from profiles import soak_only
from streamjoin.circuit.proof import CLAIMS, DEEPEST, Claim, design_of, prove

LOSS, ONCE, SMALL_MARGIN, NO_CROSSING = CLAIMS


CYCLES = {1: 22, 2: 14}  # by cores: enough for a fault to show


@pytest.mark.parametrize("scanners", [1, 2])
@pytest.mark.parametrize(("claim", "cores", "segment"), [(LOSS, 1, 2), (ONCE, 2, 1)], ids=["loss", "once"])
def test_a_small_chain_is_right_for_all_inputs(claim: Claim, cores: int, segment: int, scanners: int) -> None:
    proof = prove(design_of(claim, cores, segment, scanners), CYCLES[cores], claim.once)
    assert proof.holds, proof.trace


@pytest.mark.parametrize("scanners", [1, 2])
@pytest.mark.parametrize(
    ("claim", "cores", "segment"), [(SMALL_MARGIN, 1, 2), (NO_CROSSING, 2, 1)], ids=["margin", "crossing"]
)
def test_a_fault_is_found(claim: Claim, cores: int, segment: int, scanners: int) -> None:
    """And by inputs of no more cycles than are looked at above."""
    proof = prove(design_of(claim, cores, segment, scanners), DEEPEST, claim.once)
    assert not proof.holds
    assert proof.trace.count("cycle") <= CYCLES[cores]


@soak_only
@pytest.mark.parametrize(("cores", "scanners"), [(2, 2), (3, 2), (2, 1)])
@pytest.mark.parametrize(("claim", "cycles"), [(LOSS, 30), (ONCE, 20)], ids=["loss", "once"])
def test_cores_of_two_tuples(claim: Claim, cycles: int, cores: int, scanners: int) -> None:
    """For more cycles than the faults below need."""
    assert prove(design_of(claim, cores, 2, scanners), cycles, claim.once).holds


@soak_only
@pytest.mark.parametrize(("cores", "scanners"), [(2, 2), (3, 2), (2, 1)])
@pytest.mark.parametrize("claim", [SMALL_MARGIN, NO_CROSSING], ids=["margin", "crossing"])
def test_faults_of_larger_chains_are_found(claim: Claim, cores: int, scanners: int) -> None:
    assert not prove(design_of(claim, cores, 2, scanners), DEEPEST, claim.once).holds
