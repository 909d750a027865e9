"""arrays"""

import numpy as np
from numpy.typing import NDArray

Gains = NDArray[np.complex128]
Reals = NDArray[np.float64]
Ids = NDArray[np.int64]
