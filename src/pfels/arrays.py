"""Array types shared by all packages."""

import numpy as np
from numpy.typing import NDArray

Gains = NDArray[np.complex128]  # complex channel gains, one per device
Reals = NDArray[np.float64]
DeviceIds = NDArray[np.int64]
Rounds = NDArray[np.int64]
