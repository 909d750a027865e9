import numpy as np

from pfels.seeding import BLOCK, Purpose, generator, scalars


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
