"""Checkpoints: as often as asked for, and no more often than they are worth."""

import pytest

from pfels.experiment import pace as module


@pytest.mark.parametrize(("every", "seconds", "expected"), [(3, 0.1, 4), (3, 2.0, 1), (1, 2.0, 12)])
def test_slow_checkpoints_take_at_most_a_twentieth_of_the_time_unless_every_round_is_asked_for(
    every: int, seconds: float, expected: int, monkeypatch: pytest.MonkeyPatch
):
    """Twelve rounds of a second each."""
    clock = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    pace, saved = module.Pace(every), 0
    for done in range(1, 13):
        clock[0] += 1.0
        if pace.due(done):
            saved += 1
            with pace.saving():
                clock[0] += seconds
    assert saved == expected
