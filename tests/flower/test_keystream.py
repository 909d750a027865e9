"""The random bytes of exact noise: ChaCha20, under a new key of the operating system at each call."""

import numpy as np
import pytest
from scipy import stats

from pfels.flower import keystream as module
from pfels.flower.keystream import keystream
from pfels.privacy.lattice import Lattice


def test_the_bytes_are_those_of_chacha20(monkeypatch: pytest.MonkeyPatch):
    """RFC 8439, appendix A.1, test vector 1: all-zero key, nonce and counter."""
    monkeypatch.setattr(module.os, "urandom", bytes)
    expected = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert keystream(64).hex() == expected


def test_each_call_has_a_key_of_256_bits_of_its_own(monkeypatch: pytest.MonkeyPatch):
    asked, real = [], module.os.urandom
    monkeypatch.setattr(module.os, "urandom", lambda size: asked.append(size) or real(size))
    assert len({keystream(64) for _ in range(100)}) == 100
    assert asked == [32] * 100


def test_noise_from_it_is_gaussian_and_fresh():
    lattice = Lattice.for_noise(1.0)
    one, other = (lattice.real(lattice.noise(100_000, random_bytes=keystream)) for _ in range(2))
    assert stats.kstest(one, "norm").pvalue > 1e-7
    assert abs(np.corrcoef(one, other)[0, 1]) < 6 / np.sqrt(len(one))
