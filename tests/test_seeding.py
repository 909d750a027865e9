import hashlib
import hmac

import numpy as np
import pytest

from pfels.seeding import BLOCK, Purpose, Secret, generator, scalars

SECRET = Secret(bytes(range(32)))
ADDRESSES = [(purpose, t, device) for purpose in Purpose for t in range(8) for device in range(8)]


def exponential(g: np.random.Generator, n: int) -> np.ndarray:
    return g.exponential(1.0, n)


def test_an_address_gives_the_same_numbers_whenever_it_is_asked():
    first = generator(7, Purpose.GAIN, round=3, device=5).normal(size=4)
    generator(7, Purpose.GAIN, round=4, device=5).normal(size=100)
    assert np.array_equal(first, generator(7, Purpose.GAIN, round=3, device=5).normal(size=4))


def test_addresses_that_differ_in_one_part_give_different_numbers():
    base = {"seed": 1, "purpose": Purpose.GAIN, "round": 2, "device": 3}
    others = [base | {"seed": 2}, base | {"purpose": Purpose.MASK}, base | {"round": 3}, base | {"device": 2}]
    drawn = [generator(a["seed"], a["purpose"], round=a["round"], device=a["device"]).random() for a in [base, *others]]
    assert len(set(drawn)) == 5


def test_streams_of_neighbouring_addresses_are_uncorrelated():
    n = 20_000
    a, b = (generator(0, Purpose.GAIN, round=t).normal(size=n) for t in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(n)


def test_a_devices_number_does_not_depend_on_who_else_is_asked():
    everyone = np.arange(3 * BLOCK)
    whole = scalars(exponential, 0, Purpose.GAIN, devices=everyone, round=4)
    some = np.array([5, BLOCK - 1, BLOCK, 2 * BLOCK + 17])
    assert np.array_equal(scalars(exponential, 0, Purpose.GAIN, devices=some, round=4), whole[some])
    assert np.array_equal(scalars(exponential, 0, Purpose.GAIN, devices=some[::-1], round=4), whole[some[::-1]])


def test_numbers_of_all_devices_follow_the_law_they_are_drawn_from():
    n = 100_000
    drawn = scalars(exponential, 3, Purpose.GAIN, devices=np.arange(n))
    assert abs(drawn.mean() - 1) < 5 / np.sqrt(n)
    assert len(np.unique(drawn)) == n


def state(seed: int | Secret, purpose: Purpose, t: int, device: int) -> tuple[int, ...]:
    """The key of an address's generator, and the part of its counter that no draw changes."""
    found = generator(seed, purpose, round=t, device=device).bit_generator.state["state"]
    return (*found["key"].tolist(), *found["counter"][2:].tolist())


def test_whoever_finds_one_key_of_a_number_as_seed_has_all_draws_and_of_a_secret_only_that_one():
    """Index sets are public, and Philox is not made to hide its key: what follows from one key must be one stream."""
    assert state(5, Purpose.MASK, 3, 0)[0] == 5
    words = [word for address in ADDRESSES for word in state(SECRET, *address)]
    assert len(set(words)) == 4 * len(ADDRESSES)


def test_every_bit_of_a_secret_changes_every_word_of_a_key_and_the_label():
    whole, label = state(SECRET, Purpose.COHORT, 3, 0), SECRET.label
    for bit in range(256):
        key = bytearray(SECRET.key)
        key[bit // 8] ^= 1 << bit % 8
        other = Secret(bytes(key))
        assert not set(state(other, Purpose.COHORT, 3, 0)) & set(whole)
        assert other.label != label


def test_bits_of_the_keys_of_a_secret_are_balanced():
    words = np.array([state(SECRET, *address) for address in ADDRESSES], dtype=np.uint64)
    bits = np.unpackbits(words.view(np.uint8), axis=1)
    n = len(ADDRESSES)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(n)  # five standard errors for each of 256 bits


def test_the_draws_of_a_secret_stay_what_they_are():
    """A deployment continues under a newer version: HMAC-SHA256 of (purpose, round, device), each of eight bytes."""
    message = b"".join(n.to_bytes(8, "little") for n in (Purpose.COHORT, 3, 7))
    digest = hmac.new(SECRET.key, message, hashlib.sha256).digest()
    words = tuple(int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8))
    assert state(SECRET, Purpose.COHORT, 3, 7) == words
    counter = words[2] << 128 | words[3] << 192
    same = np.random.Generator(np.random.Philox(key=words[0] | words[1] << 64, counter=counter))
    assert np.array_equal(generator(SECRET, Purpose.COHORT, round=3, device=7).random(8), same.random(8))


def test_a_secret_does_not_show_in_its_repr_and_has_32_bytes():
    assert repr(SECRET) == "Secret()"
    with pytest.raises(ValueError, match="31 bytes; it must have 32"):
        Secret(bytes(31))
    assert Secret.drawn() != Secret.drawn()
    assert 0 <= SECRET.label < 2**63
