"""What the kinds of features share: colours as brightness and hue, and groups of features at fixed norms.

Everything is computed from one image. Groups are brought to norms that do not depend on the image, and mostly to mean
zero, since a small network learns fastest from features of about equal size around zero.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

NORM = 6.0  # of an example's features
TINY, FAINT = 1e-30, 1e-4  # no division by zero; rounding errors of a group without contrast stay small
LEAST = 0.35  # below every weight: the norm of the groups is smaller only if none has contrast


def scaled(x: Tensor) -> Tensor:
    """Images (n, …), each divided by its maximum: no contrast is too high or too low for squares."""
    return x / x.abs().flatten(1).amax(1).clamp_(min=TINY).view(-1, *[1] * (x.dim() - 1))


def opponents(x: Tensor) -> Tensor:
    """Colours (n, 3, …) as brightness and two hues, an orthogonal transform; one colour is brightness already."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    hues = (red - blue) / math.sqrt(2), (2 * green - red - blue) / math.sqrt(6)
    return torch.stack([(red + green + blue) / math.sqrt(3), *hues], 1)


def centred(x: Tensor) -> Tensor:
    """Vectors around their own means."""
    x = x.flatten(1)
    return x - x.mean(1, keepdim=True)


def joined(groups: Sequence[tuple[float, Tensor]]) -> Tensor:
    """Groups of features (n, …), each at the norm of its weight, as vectors of norm 6.

    A group without contrast stays near zero, such as the hues of a grey image, and so does an image without contrast.
    """
    parts = [weight * F.normalize(group.flatten(1), eps=FAINT) for weight, group in groups]
    return NORM * F.normalize(torch.cat(parts, 1), eps=LEAST)
