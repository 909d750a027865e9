"""What devices have spent: the same as adding up one by one, at a cost that does not grow with the devices."""

import time
from collections import Counter

import numpy as np
import pytest

from pfels.privacy.spent import RECENT, Columns, Spent, Tally


def columns(ids: list[int], sums: list[float], counts: list[int]) -> Columns:
    return Columns(np.array(ids, np.int64), np.array(sums), np.array(counts, np.int64))


@pytest.mark.parametrize("devices", [30, 20 * RECENT])
def test_sums_counts_and_the_worst_device_are_those_of_adding_up_one_by_one(devices: int):
    draw = np.random.default_rng(0)
    spent, sums, counts = Spent.of(columns([], [], [])), Counter[int](), Counter[int]()
    for _ in range(400):
        who = draw.choice(devices, size=int(draw.integers(0, 20)), replace=False)
        costs = draw.choice([0.25, 0.5, draw.random()], size=len(who))
        before, kept = spent, spent.columns()
        spent = spent.after(who, costs)
        assert all(np.array_equal(a, b) for a, b in zip(before.columns(), kept, strict=True))
        for device, cost in zip(who.tolist(), costs.tolist(), strict=True):
            sums[device] += cost
            counts[device] += 1
        if sums:
            worst = min(sums, key=lambda device: (-sums[device], device))
            assert spent.most == (sums[worst], counts[worst], worst)
    ids, found, times = spent.columns()
    assert ids.tolist() == sorted(sums)
    assert found.tolist() == [sums[device] for device in sorted(sums)]
    assert times.tolist() == [counts[device] for device in sorted(sums)]


def test_a_round_among_a_million_that_took_part_costs_what_one_among_ten_thousand_costs():
    def seconds(devices: int) -> float:
        ids = np.arange(devices)
        spent, best = Spent.of(Columns(ids, np.ones(devices), np.ones(devices, np.int64))), 1.0
        for t in range(100):
            who, began = np.arange(t, devices, devices // 32)[:32], time.process_time()
            spent = spent.after(who, np.ones(32))
            best = min(best, time.process_time() - began)
        return best

    assert seconds(1_000_000) < 5 * seconds(10_000)  # copying all of them takes a hundred times as long


def test_a_tally_counts_like_a_counter_and_has_no_answer_for_what_it_has_not_counted():
    draw = np.random.default_rng(0)
    values = [float(each) for each in draw.integers(0, 200, size=1000)]
    tally = Tally(Counter(values[:10]))
    for value in values[10:]:
        tally = tally.plus(value)
    assert dict(tally) == Counter(values)
    assert len(tally) == len(Counter(values))
    assert 0.5 not in tally
