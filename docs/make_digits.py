"""Write src/pfels/data/digits.npz from scikit-learn's digits: python docs/make_digits.py

They are the test set of UCI's «Optical Recognition of Handwritten Digits»: 8×8 pixels from 0 to 16. A test holds the
file to scikit-learn's arrays.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

FILE = Path(__file__).parent.parent / "src" / "pfels" / "data" / "digits.npz"


def main() -> None:
    """Write the file."""
    digits = load_digits()
    np.savez_compressed(FILE, images=digits.images.astype(np.uint8), labels=digits.target.astype(np.uint8))


if __name__ == "__main__":
    main()
