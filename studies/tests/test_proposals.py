"""Selective search: the same boxes every time, inside the image, kept; and how many objects they hit."""

import io
import math

import numpy as np
import pytest
from directloss_studies.vision import proposals as module
from directloss_studies.vision.images import ImageError
from directloss_studies.vision.proposals import proposals, propose, recall, search
from joblib.externals.loky import get_reusable_executor
from PIL import Image


def picture(width=120, height=90, seed=0):
    """Coloured rectangles on noise."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 60, (height, width, 3))
    for _ in range(5):
        left, top = random.integers(0, width * 2 // 3), random.integers(0, height * 2 // 3)
        across, down = random.integers(20, 50, 2)
        pixels[top : top + down, left : left + across] = random.integers(60, 256, 3)
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(folder))
    return folder


@pytest.fixture
def images(tmp_path):
    paths = [tmp_path / f"{seed}.png" for seed in range(3)]
    for seed, path in enumerate(paths):
        picture(seed=seed).save(path)
    return paths


@pytest.fixture
def searches(monkeypatch):
    """The sizes of the images that were searched."""
    sizes = []

    def searched(image, seed, side):
        sizes.append(image.size)
        return search(image, seed, side)

    monkeypatch.setattr(module, "search", searched)
    return sizes


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def rows(boxes):
    return [tuple(row) for row in boxes.tolist()]


def assert_boxes(boxes, width, height):
    assert boxes.ndim == 2
    assert boxes.shape[1] == 4
    assert len(set(rows(boxes))) == len(boxes) > 0
    assert (boxes[:, :2] >= 1).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    assert (boxes[:, :2] <= boxes[:, 2:]).all()


@pytest.mark.parametrize(("width", "height"), [(120, 90), (30, 80), (500, 40)])
def test_boxes_lie_in_the_image_and_are_not_small(width, height):
    for side, smallest in ((300, 12), (500, 20), (2000, 20)):
        boxes = search(picture(width, height), side=side)
        assert boxes.dtype == np.int32
        assert_boxes(boxes, width, height)
        assert (boxes[:, 2:] - boxes[:, :2] + 1 >= smallest).all()


def test_a_rectangle_is_found_to_the_pixel():
    image = Image.new("RGB", (120, 90), (10, 20, 30))
    image.paste((250, 240, 10), (31, 21, 81, 61))
    boxes = rows(search(image))
    assert (32, 22, 81, 61) in boxes
    assert (1, 1, 120, 90) in boxes


def test_a_large_image_is_searched_shrunk_and_its_boxes_are_scaled_back():
    image = picture(1000, 180)
    boxes = search(image, side=500)
    shrunk = search(image.resize((500, 90), Image.Resampling.BILINEAR), side=500)
    assert_boxes(boxes, 1000, 180)
    assert rows(boxes) == rows(shrunk * 2 - [1, 1, 0, 0])
    assert (boxes[:, 2:] - boxes[:, :2] + 1 >= 40).all()
    assert len(boxes) > 10


def test_what_is_too_small_is_one_box():
    for size in ((1, 1), (19, 19), (19, 300), (300, 19)):
        assert search(Image.new("RGB", size, "red"), side=500).tolist() == [[1, 1, *size]]
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (11, 30, 3)).astype(np.uint8))
    assert search(noise).tolist() == [[1, 1, 30, 11]]
    assert search(Image.new("RGB", (3000, 30))).tolist() == [[1, 1, 3000, 30]]  # three pixels high when shrunk
    assert search(Image.new("RGB", (4000, 1))).tolist() == [[1, 1, 4000, 1]]  # less than one


@pytest.mark.parametrize("size", [(20, 20), (120, 90), (600, 40)])
def test_one_colour_is_one_box(size):
    assert search(Image.new("RGB", size, (90, 160, 20))).tolist() == [[1, 1, *size]]


def test_a_file_is_searched_once(images, cache, searches, monkeypatch):
    first = propose(images[0])
    assert first.dtype == np.int32
    assert rows(first) == rows(search(picture()))
    assert searches == [(120, 90)]
    assert len(files(cache)) == 1

    def never(image, seed, side):
        raise AssertionError("searched again")

    monkeypatch.setattr(module, "search", never)
    again = propose(images[0])
    assert again.dtype == np.int32
    assert rows(again) == rows(first)
    with pytest.raises(AssertionError, match="searched again"):
        propose(images[1])
    with pytest.raises(AssertionError, match="searched again"):
        propose(images[0], seed=7)
    assert len(files(cache)) == 1


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archive(array):
    file = io.BytesIO()
    np.savez(file, boxes=array)
    return file.getvalue()


BOXES = np.array([[1, 1, 30, 30], [5, 5, 40, 40]], dtype=np.int32)
DAMAGED = {
    "empty": lambda content: b"",
    "boxes cut": lambda content: content[:-7],
    "zeros": lambda content: bytes(len(content)),
    "byte of a box changed": lambda content: content[:-4] + bytes([content[-4] ^ 1]) + content[-3:],
    "archive": lambda content: archive(BOXES),
    "pickled": lambda content: saved(np.array([None, "box"], dtype=object)),
}


@pytest.mark.parametrize("damage", list(DAMAGED))
def test_a_damaged_file_is_computed_again(damage, images, cache, searches):
    first = propose(images[0])
    (kept,) = files(cache)
    content = kept.read_bytes()
    kept.write_bytes(DAMAGED[damage](content))
    assert rows(propose(images[0])) == rows(first)
    assert len(searches) == 2
    assert files(cache) == [kept]
    assert kept.read_bytes() == content


def test_an_image_that_is_missing_or_broken_is_named_and_nothing_of_it_is_kept(images, cache):
    path = images[0]
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(ImageError, match=r"0\.png cannot be read: No such file or directory\."):
        propose(path)
    for content in (b"", b"no image", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ImageError, match=r"0\.png is not a whole image"):
            propose(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ImageError, match=r"0\.png cannot be read: Is a directory\."):
        propose(path)
    assert files(cache) == []


@pytest.mark.slow
def test_other_processes_find_the_same_and_name_what_is_broken(images, tmp_path, monkeypatch):
    get_reusable_executor().shutdown(wait=True)  # older processes know another cache
    found = []
    for jobs in (1, 2):
        cache = tmp_path / f"cache {jobs}"
        monkeypatch.setenv("DIRECTLOSS_CACHE", str(cache))
        found.append([rows(boxes) for boxes in proposals(images, jobs=jobs, seed=3)])
        assert len(files(cache)) == 3
        images[1].rename(tmp_path / "away")
        with pytest.raises(ImageError, match=r"1\.png cannot be read"):
            proposals(images, jobs=jobs, seed=3)
        (tmp_path / "away").rename(images[1])
        assert len(files(cache)) == 3
    get_reusable_executor().shutdown(wait=True)  # nor shall later ones know this one
    assert found[0] == found[1] == [rows(search(picture(seed=k), 3)) for k in range(3)]
    assert len(found[0][0]) != len(found[0][1])


def test_boxes_come_in_the_order_of_the_paths(images, cache, searches):
    forward, backward = proposals(images, jobs=1), proposals(images[::-1], jobs=1)
    assert [rows(boxes) for boxes in forward] == [rows(boxes) for boxes in backward[::-1]]
    assert len(searches) == 3
    assert proposals([], jobs=1) == []


def boxes(*rows):
    return np.array(rows, dtype=float).reshape(-1, 4)


def test_recall_by_hand():
    found = [boxes((1, 1, 10, 10), (50, 50, 60, 60)), boxes(), boxes((1, 1, 10, 10))]
    truths = [boxes((1, 1, 10, 10), (21, 1, 30, 10)), boxes((1, 1, 10, 10)), boxes()]
    assert recall(found, truths) == pytest.approx(1 / 3)
    assert recall(found[:1], truths[:1]) == 0.5
    assert recall(found[1:2], truths[1:2]) == 0
    assert recall([boxes((1, 1, 10, 10), (21, 1, 30, 9))], truths[:1]) == 1


def test_recall_of_no_objects_is_no_number():
    assert math.isnan(recall([boxes((1, 1, 10, 10))], [boxes()]))
    assert math.isnan(recall([], []))
