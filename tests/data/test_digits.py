"""The digits that come with the package."""

import numpy as np
from sklearn.datasets import load_digits

from pfels.data.datasets import load


def test_they_are_those_of_scikit_learn():
    found, expected = load("digits"), load_digits()
    x = np.concatenate([found.test.x.numpy(), found.train.x.numpy()])[:, 0]
    y = np.concatenate([found.test.y.numpy(), found.train.y.numpy()])
    order = np.random.Generator(np.random.Philox(key=1797)).permutation(1797)
    assert np.array_equal(x * 16, expected.images[order])
    assert np.array_equal(y, expected.target[order])
