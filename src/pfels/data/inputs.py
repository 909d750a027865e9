"""What a network's input is made of, in words: for those who feed a saved model."""

from importlib import import_module

SCALES = {
    "digits": "images of 8×8 pixels, grey values from 0 to 16 divided by 16, white on black",
    "fashion": "images of 28×28 pixels, bytes divided by 255, white on black",
    "mnist-writers": "images of 28×28 pixels, bytes divided by 255, white on black",
    "cifar10": "images of 3 colours and 32×32 pixels, (byte/255 − 0.5)/0.25",
    "femnist": "images of 28×28 pixels, bytes divided by 255, dark on white",
    "synthetic": "60 numbers, as they are drawn",
    "file": "examples as x_train has them; bytes divided by 255",
}


def described(name: str, features: str) -> str:
    """The input of a network that learned from this data set.

    >>> described("digits", "none")
    'images of 8×8 pixels, grey values from 0 to 16 divided by 16, white on black'
    """
    if features == "none":
        return SCALES[name]
    definition = f"{features} features, version {import_module(f'pfels.data.{features}').VERSION}"
    return f"{definition} (pfels.data.{features}.features, rounded to float16), of {SCALES[name]}"
