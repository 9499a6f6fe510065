"""Bounded proofs: what holds of small chains for all inputs, and that a fault would have been found."""

from __future__ import annotations

import pytest

from profiles import soak_only
from streamjoin.circuit.proof import CLAIMS, DEEPEST, Claim, design_of, prove

LOSS, ONCE, SMALL_MARGIN, NO_CROSSING = CLAIMS


@pytest.mark.parametrize(
    ("claim", "cores", "segment", "cycles"), [(LOSS, 1, 2, 22), (ONCE, 2, 1, 13)], ids=["loss", "once"]
)
def test_a_small_chain_is_right_for_all_inputs(claim: Claim, cores: int, segment: int, cycles: int) -> None:
    proof = prove(design_of(claim, cores, segment), cycles, claim.once)
    assert proof.holds, proof.trace


@pytest.mark.parametrize(
    ("claim", "cores", "segment"), [(SMALL_MARGIN, 1, 2), (NO_CROSSING, 2, 1)], ids=["margin", "crossing"]
)
def test_a_fault_is_found(claim: Claim, cores: int, segment: int) -> None:
    """And by inputs of no more cycles than are looked at above."""
    proof = prove(design_of(claim, cores, segment), DEEPEST, claim.once)
    assert not proof.holds
    assert proof.trace.count("cycle") <= {1: 22, 2: 13}[cores]


@soak_only
@pytest.mark.parametrize(("claim", "cycles"), [(LOSS, 30), (ONCE, 18)], ids=["loss", "once"])
def test_two_cores_of_two_tuples(claim: Claim, cycles: int) -> None:
    assert prove(design_of(claim, 2, 2), cycles, claim.once).holds


@soak_only
@pytest.mark.parametrize(("claim", "cycles"), [(LOSS, 20), (ONCE, 12)], ids=["loss", "once"])
def test_three_cores_of_two_tuples(claim: Claim, cycles: int) -> None:
    assert prove(design_of(claim, 3, 2), cycles, claim.once).holds


@soak_only
@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("claim", [SMALL_MARGIN, NO_CROSSING], ids=["margin", "crossing"])
def test_faults_of_larger_chains_are_found(claim: Claim, cores: int) -> None:
    assert not prove(design_of(claim, cores, 2), DEEPEST, claim.once).holds
