"""`data.features`: public functions of one image, the same everywhere, computed once."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pfels.data import feature_cache, features, hog, scattering
from pfels.data.examples import Dataset, Examples
from pfels.errors import InputError
from pfels.experiment import link
from pfels.experiment.setup import build, federate
from pfels.runtime.threads import one_thread_each
from tests.conftest import small

KINDS = {"hog": hog.features, "scattering": scattering.features}
SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8), (3, 12, 40)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own; one thread, as where features are computed."""
    monkeypatch.setenv("PFELS_DATA", str(tmp_path / "cache"))
    with one_thread_each():
        yield tmp_path / "cache" / "features"


def pictures(n: int, *shape: int, seed: int = 0) -> Tensor:
    """Smooth random images in [0, 1]."""
    noise = torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.avg_pool2d(noise, 3, 1, 1)


def tiny(n: int = 12, *shape: int) -> Dataset:
    x = (255 * pictures(n + 4, *(shape or (1, 8, 8)))).byte()
    y = torch.arange(n + 4) % 3
    return Dataset(Examples(x[:n], y[:n]), Examples(x[n:], y[n:]), classes=3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_features_have_the_shape_that_is_known_without_computing_them(kind, shape):
    x = KINDS[kind](pictures(3, *shape))
    assert x.shape[1:] == features.shape_of(kind, shape)
    assert x.isfinite().all()


def test_features_of_the_known_data_sets_are_few():
    assert features.shape_of("hog", (1, 28, 28)) == (441,)
    assert features.shape_of("hog", (3, 32, 32)) == (704,)
    assert features.shape_of("scattering", (1, 28, 28)) == (3_969,)
    assert features.shape_of("scattering", (3, 32, 32)) == (15_552,)
    assert features.shape_of("none", (5,)) == (5,)


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_an_image_do_not_depend_on_the_other_images(kind):
    """So there is no statistic of private data in them, and they cost no privacy."""
    x = pictures(40, 3, 32, 32)
    alone = torch.cat([KINDS[kind](x[i : i + 1]) for i in (0, 17, 39)])
    others = 1000 * pictures(40, 3, 32, 32, seed=1)
    others[[0, 17, 39]] = x[[0, 17, 39]]
    for batch in (x, others):
        torch.testing.assert_close(KINDS[kind](batch)[[0, 17, 39]], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_has_the_same_norm_and_a_constant_image_has_none(kind):
    x = pictures(5, 3, 32, 32) * torch.tensor([1.0, 1e-3, 1e20, 1e-20, 3.0]).view(-1, 1, 1, 1)
    norms = KINDS[kind](x).norm(dim=1)
    torch.testing.assert_close(norms, norms.new_full((5,), 6.0), rtol=1e-5, atol=0)
    for colours in (1, 3):
        for value in (0.0, 0.3, 1.0):
            assert KINDS[kind](torch.full((1, colours, 28, 28), value)).norm() < 0.2  # of 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_grey_image_has_no_hue_and_the_same_norm(kind):
    grey = pictures(3, 1, 32, 32)
    x = KINDS[kind](grey.expand(-1, 3, -1, -1))
    torch.testing.assert_close(x.norm(dim=1), torch.full((3,), 6.0), rtol=1e-5, atol=0)
    once = KINDS[kind](grey)
    assert torch.cosine_similarity(x[:, : once.shape[1]], once).min() > 0.998
    assert x[:, once.shape[1] :].abs().max() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_contrast_does_not_change_features(kind):
    x = pictures(4, 1, 28, 28)
    torch.testing.assert_close(KINDS[kind](x), KINDS[kind](7.3 * x), rtol=1e-4, atol=1e-5)


def stripes(degrees: float, side: int = 32) -> Tensor:
    """A wave whose gradient points in this direction."""
    down, across = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    angle = np.deg2rad(degrees)
    return torch.sin(0.5 * (across * np.cos(angle) + down * np.sin(angle))).float()[None, None]


@pytest.mark.parametrize("k", range(8))
def test_a_gradient_falls_into_the_bin_of_its_orientation(k):
    """The inner cells; where two orientations are opposite they are the same."""
    for degrees in (22.5 * k, 22.5 * k + 180):
        inner = hog._histograms(stripes(degrees))[0, :, 2:-2, 2:-2]
        assert (inner.argmax(0) == k).all()
        assert inner[k].sum() > 0.8 * inner.sum()
    between = hog._histograms(stripes(22.5 * k + 11.25))[0, :, 2:-2, 2:-2].sum((1, 2))
    assert sorted(between.topk(2).indices.tolist()) == sorted([k, (k + 1) % 8])


def test_of_three_colours_the_strongest_gradient_counts():
    weak, strong = 0.3 * stripes(0), stripes(90)
    mixed = hog._histograms(torch.cat([weak, strong, weak], 1))
    torch.testing.assert_close(mixed[:, :, 2:-2, 2:-2].argmax(1), torch.full((1, 4, 4), 4))


def test_scattering_keeps_the_mean_and_sees_nothing_else_in_a_constant_image():
    maps = scattering.scatter(torch.full((1, 32, 32), 0.7))
    torch.testing.assert_close(maps[:, 0], torch.full((1, 8, 8), 0.7))
    assert maps[:, 1:].abs().max() < 1e-6


def test_scattering_adds_no_energy():
    """Wavelets and averages together keep or lose energy, so images are no nearer than their coefficients.

    The wavelets' spectra and the average's add up to at most 1 (Littlewood-Paley), counting both ends of a direction;
    an average every 4 pixels stands for 16 of them.
    """
    fine, coarse = (torch.stack([scattering._morlet(40, 40, scale=j, direction=k) for k in range(8)]) for j in (0, 1))
    power = (fine.square() + coarse.square()).sum(0)
    mirrored = power.flip(0, 1).roll((1, 1), (0, 1))
    assert ((power + mirrored) / 2).max() < 1.2
    assert fine[:, 0, 0].abs().max() == coarse[:, 0, 0].abs().max() == 0
    x = pictures(20, 32, 32) - 0.5
    y = pictures(20, 32, 32, seed=1) - 0.5
    distance = (scattering.scatter(x) - scattering.scatter(y)).square().flatten(1).sum(1) * 16
    assert (distance < (x - y).square().flatten(1).sum(1)).all()


@pytest.mark.parametrize("k", range(8))
def test_a_wave_is_strongest_in_the_wavelet_of_its_direction(k):
    """Directions run from 67.5° down in steps of 22.5°, measured from the downward axis."""
    down, across = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    theta = np.pi / 8 * (3 - k)
    for scale, first in ((0, 1), (1, 9)):
        wave = torch.cos(0.75 * np.pi / 2**scale * (down * np.cos(theta) + across * np.sin(theta))).float()
        maps = scattering.scatter(wave[None])[0, first : first + 8, 2:-2, 2:-2].mean((1, 2))
        assert maps.argmax() == k
        assert maps.argmax() + first == scattering.scatter(wave[None])[0, 1:17, 2:-2, 2:-2].mean((1, 2)).argmax() + 1


def test_order_two_is_by_the_direction_at_scale_one_then_at_scale_two():
    """A fast wave whose strength is a slow wave: order one sees the fast one, order two the slow one in it."""
    down, across = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    fast, slow = torch.cos(0.5 * np.pi * down), 1 + torch.cos(0.375 * np.pi * across)  # directions 3 and 7
    second = scattering.scatter((fast * slow)[None].float())[0, 17:, 2:-2, 2:-2].mean((1, 2)).view(8, 8)
    assert second[3].argmax() == 7
    assert second[3, 7] > 100 * second[7, 3]


def test_scattering_of_a_shift_by_a_cell_is_the_shifted_scattering():
    x = pictures(3, 36, 36)
    here, there = scattering.scatter(x[:, :32, :32]), scattering.scatter(x[:, 4:, 4:])
    inner = (here[:, :, 4:7, 4:7] - there[:, :, 3:6, 3:6]).abs().amax((1, 2, 3))
    assert (inner < 0.02 * here.abs().amax((1, 2, 3))).all()  # the rest is the reflection at the border


def test_features_are_of_the_values_that_devices_see():
    data = tiny(6, 3, 16, 16)
    scaled = replace(data, train=replace(data.train, centre=0.5, spread=0.25))
    got, _ = features.extract(scaled, "hog").train.take(torch.arange(6))
    wanted = hog.features(scaled.train.take(torch.arange(6))[0])
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-6)  # float16
    assert got.dtype == torch.float32


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches whose features are computed from now on."""
    sizes: list[int] = []
    plain = hog.features

    def counted(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return plain(x)

    monkeypatch.setattr(hog, "features", counted)
    return sizes


def test_features_are_computed_once_and_read_back_bit_for_bit(monkeypatch, folder):
    sizes, data = counting(monkeypatch), tiny()
    first = features.extract(data, "hog")
    again = features.extract(data, "hog")
    assert sum(sizes) == 16
    assert torch.equal(first.train.x, again.train.x)
    assert torch.equal(again.train.y, data.train.y)
    assert len(list(folder.glob("hog-*.npy"))) == 2
    for path in folder.glob("hog-*.npy"):
        assert np.load(path, allow_pickle=False).shape in ((12, 36), (4, 36))  # readable by anyone


def test_other_images_another_scale_and_another_version_are_computed_anew(monkeypatch):
    sizes, data = counting(monkeypatch), tiny()
    features.extract(data, "hog")
    changed = data.train.x.clone()
    changed[3, 0, 4, 4] ^= 1
    features.extract(replace(data, train=replace(data.train, x=changed)), "hog")
    features.extract(replace(data, train=replace(data.train, spread=0.5)), "hog")
    monkeypatch.setattr(hog, "VERSION", hog.VERSION + 1)
    features.extract(data, "hog")
    assert sizes == [4, 12, 12, 12, 4, 12]


# Of each version of a definition: a few features of a coloured image and of a grey one.
PINNED: dict[tuple[str, int], list[float]] = {
    ("hog", 4): [-0.3849, -0.3849, 0.0608, 0.6417, -0.6116, 0.2443, -0.4142, -0.4584, 0.3687, 0.0741, -0.8709, 0.0],
    ("scattering", 2): [0.2155, -0.198, 0.167, -0.0666, 0.0302, 0.016, -0.0237, -0.24, 0.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_that_changes_has_another_version(kind):
    """The cache cannot tell otherwise, and would return features of the old definition."""
    place = torch.arange(3 * 16 * 16, dtype=torch.float32).view(1, 3, 16, 16)
    coloured = torch.sin(0.37 * place) * torch.cos(0.011 * place)
    x = KINDS[kind](torch.cat([coloured, coloured[:, :1].expand(-1, 3, -1, -1)]))
    some = x[:, :: x.shape[1] // 5].flatten()
    pinned = PINNED[kind, {"hog": hog, "scattering": scattering}[kind].VERSION]
    torch.testing.assert_close(some, torch.tensor(pinned), rtol=0, atol=1e-4)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "foreign", "longer", "folder"])
def test_a_damaged_file_is_noticed_and_replaced(damage, monkeypatch, folder):
    data = tiny()
    wanted = features.extract(data, "hog").train.x.clone()
    path = max(folder.glob("hog-*.npy"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    if damage == "foreign":  # sound, of the right shape, but made from other images
        features.extract(replace(data, train=replace(data.train, x=255 - data.train.x)), "hog")
        (other,) = (p for p in folder.glob("hog-*.npy") if p != path and p.stat().st_size == len(content))
        other.replace(path)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        flipped = bytearray(content)
        flipped[-100] ^= 1
        contents = {"truncated": content[:-7], "flipped": bytes(flipped), "empty": b"", "text": b"hello\n" * 200}
        path.write_bytes(contents.get(damage, content + b"\0"))
    sizes = counting(monkeypatch)
    assert torch.equal(features.extract(data, "hog").train.x, wanted)
    assert 12 in sizes
    assert damage == "folder" or path.read_bytes() == content


@pytest.mark.parametrize("obstacle", ["file in place of the cache", "full disk", "no locks"])
def test_without_a_cache_that_can_be_written_features_are_computed_in_memory(obstacle, monkeypatch, folder):
    wanted = hog.features(tiny().train.take(torch.arange(12))[0]).half()
    if obstacle == "file in place of the cache":
        folder.parent.write_text("not a folder")
    elif obstacle == "full disk":
        monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left")))
    else:
        monkeypatch.setattr(feature_cache.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks")))
    for _ in range(2):
        assert torch.equal(features.extract(tiny(), "hog").train.x, wanted)
    assert not folder.is_dir() or not list(folder.iterdir())


def test_an_interrupt_leaves_nothing_behind_and_what_a_kill_left_is_deleted(monkeypatch, folder):
    folder.mkdir(parents=True)
    (folder / ".hog-0-0.npy.1.partial").write_bytes(b"half a file")

    def interrupted(x: Tensor) -> Tensor:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hog, "features", interrupted)
        with pytest.raises(KeyboardInterrupt):
            features.extract(tiny(), "hog")
    assert list(folder.iterdir()) == []
    assert features.extract(tiny(), "hog").shape == (36,)


def test_processes_that_compute_at_once_get_the_same_features():
    program = (
        "import hashlib, torch\n"
        "from pfels.data import features\n"
        "from pfels.data.examples import Dataset, Examples\n"
        "x = torch.randint(0, 256, (2000, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))\n"
        "data = Dataset(Examples(x, torch.zeros(2000, dtype=torch.int64)), None, classes=1)\n"
        "print(hashlib.sha256(features.extract(data, 'hog').train.x.numpy().tobytes()).hexdigest())\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    hashes = {process.communicate(timeout=100)[0] for process in together}
    assert [process.returncode for process in together] == [0, 0]
    assert len(hashes) == 1
    assert len(hashes.pop()) == 65


def test_a_table_larger_than_a_batch_is_complete_and_in_order(monkeypatch):
    monkeypatch.setattr(feature_cache, "BATCH", 5)
    data = tiny(12)
    got = features.extract(data, "hog").train.x
    torch.testing.assert_close(got, hog.features(data.train.take(torch.arange(12))[0]).half())


VECTORS = r'data\.features = "hog": needs images, but an example has shape \((60|5),\); use none'
SIDES = r'data\.features = "{}": needs images of 1 or 3 colours with sides of 8, 12, 16, … pixels, but they are {}; use'


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "size"), [((1, 30, 28), "1×30×28"), ((2, 8, 8), "2×8×8"), ((1, 8, 4), "1×8×4")])
def test_unsuitable_images_are_refused(kind, shape, size):
    with pytest.raises(InputError, match=SIDES.format(kind, size)):
        features.shape_of(kind, shape)


def own_file(path: Path, *shape: int) -> str:
    x, y = np.random.default_rng(0).random((20, *shape)).astype(np.float32), np.arange(20) % 2
    np.savez(path, x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    return str(path)


def test_data_without_images_are_refused_before_training(tmp_path):
    own = {"data__name": "file", "data__path": own_file(tmp_path / "own.npz", 5), "data__devices": 4, "cohort__size": 2}
    for where in ({"data__name": "synthetic"}, own):
        config = small(data__features="hog", **where)
        for step in (link.example, link.link_of, federate, build):
            with pytest.raises(InputError, match=VECTORS):
                step(config)


def test_networks_that_need_images_are_refused():
    config = small(data__features="hog", model__name="cnn")
    for step in (link.model_dimension, build):
        with pytest.raises(InputError, match=r"model\.name = 'cnn': needs images, but .* \(36,\); use mlp or linear"):
            step(config)


def test_a_plan_knows_the_features_without_computing_them(folder):
    config = small(data__features="hog", model__name="linear")
    assert link.example(config) == ((36,), 10)
    assert link.model_dimension(config) == 370
    assert not folder.exists()
    assert build(config).network.dimension == 370


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_a_shifted_image_are_nearer_than_its_pixels(kind):
    """The point of both: an image that moves by one pixel stays much the same."""
    x = pictures(30, 1, 29, 29)
    here, there = x[..., :-1, :-1], x[..., 1:, 1:]

    def moved(f: Callable[[Tensor], Tensor]) -> float:
        """The distance of an image to itself, one pixel further, relative to that of another image."""
        return float(((f(here) - f(there)).norm(dim=1) / (f(here) - f(here.roll(1, 0))).norm(dim=1)).mean())

    assert moved(KINDS[kind]) < 0.85 * moved(lambda x: x.flatten(1))


def test_wrong_features_are_one_line_and_nothing_is_written(pfels, tmp_path):
    done = pfels("run", "demo", "-s", "data.name=synthetic", "-s", "data.features=hog", "--out", "here")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == 'error: data.features = "hog": needs images, but an example has shape (60,); use none'
    assert not (tmp_path / "here").exists()
    done = pfels("plan", "demo", "-s", "data.features=hogg")
    assert done.returncode == 2
    assert "data.features = 'hogg': must be one of none, hog, scattering" in done.stderr
