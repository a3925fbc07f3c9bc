"""A devkit is read as it is; whatever is damaged in it is named, and nothing in it can do harm."""

import io
import os
import struct
import time
import zlib

import pytest
from devkits import make_devkit
from directloss_studies.data import voc
from directloss_studies.data.voc import (
    ACTIONS,
    Annotation,
    DevkitError,
    find_devkit,
    is_there,
    read_actions,
    read_scenes,
    verify,
)
from directloss_studies.vision.images import ImageError, read_image
from PIL import Image

LISTS = "ImageSets/Action"
A, B, C = "2011_000002", "2010_000001", "2012_000003"


def jpeg(value, size=(20, 10)):
    file = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(file, "JPEG")
    return file.getvalue()


def png(width, height):
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(1000))
    chunks = b"".join(struct.pack(">I", len(k) - 4) + k + struct.pack(">I", zlib.crc32(k)) for k in (header, data))
    return b"\x89PNG\r\n\x1a\n" + chunks


def huge_jpeg():
    whole = jpeg(0)
    place = whole.index(b"\xff\xc0") + 5
    return whole[:place] + struct.pack(">HH", 60_000, 60_000) + whole[place + 4 :]


def box(*edges):
    inside = "".join(f"<{k}>{value}</{k}>" for k, value in zip(("xmin", "ymin", "xmax", "ymax"), edges, strict=True))
    return f"<object><name>person</name><bndbox>{inside}</bndbox></object>"


def annotation(*objects):
    return f"<annotation><filename>x.jpg</filename>{''.join(objects)}</annotation>"


@pytest.fixture
def devkit(tmp_path):
    """Three images: A with two people and, between them, a dog; B with one person; C with nobody to classify."""
    folder = tmp_path / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "Annotations", LISTS):
        (folder / name).mkdir(parents=True)
    for place, name in enumerate((A, B, C)):
        (folder / "JPEGImages" / f"{name}.jpg").write_bytes(jpeg(place))
    part = "<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>"
    first = box(1, 1, 7.5, 10).replace("<bndbox>", f"{part}<bndbox>")
    dog = box(2, 2, 3, 3).replace("person", "dog")
    (folder / "Annotations" / f"{A}.xml").write_text(annotation(first, dog, box("8.25", "2", "20", "10")))
    (folder / "Annotations" / f"{B}.xml").write_text(annotation(box(3, 4, 5, 6)))
    (folder / LISTS / "trainval.txt").write_text(f"{A}\n{B}\n{C}\n")
    for action in ACTIONS:
        (folder / LISTS / f"{action}_trainval.txt").write_text(f"{B}  1 -1\n{A}  3  1\n{A}  1 -1\n")
    (folder / LISTS / "jumping_trainval.txt").write_text(f"{A}  1  1\n\n{B}  1  0\n")
    return folder


def test_people_are_in_the_order_of_the_list_of_images_and_have_their_boxes_and_labels(devkit):
    actions = read_actions(devkit)
    assert len(actions) == 3
    assert actions.images == (A, A, B)
    assert actions.boxes.tolist() == [[1, 1, 7.5, 10], [8.25, 2, 20, 10], [3, 4, 5, 6]]
    assert list(actions.labels) == list(ACTIONS)
    assert actions.labels["jumping"].tolist() == [1, 0, 0]
    for action in list(ACTIONS)[1:]:
        assert actions.labels[action].tolist() == [-1, 1, -1]
    assert actions.paths == {name: devkit / "JPEGImages" / f"{name}.jpg" for name in (A, B)}


def test_a_devkit_is_found_from_three_places(devkit, tmp_path):
    for root in (tmp_path, devkit.parent, devkit):
        assert find_devkit(root) == devkit
        assert is_there(root)
        assert len(read_actions(root)) == 3


def test_where_no_devkit_is_the_error_says_where_it_was_looked_for(tmp_path):
    (tmp_path / "VOC2012" / "ImageSets").mkdir(parents=True)
    for root in (tmp_path, tmp_path / "VOC2012" / "ImageSets", tmp_path / "nowhere"):
        assert not is_there(root)
        with pytest.raises(
            DevkitError, match=r"does not hold a VOC2012 devkit.*`directloss data voc2012 --root DIR`"
        ) as caught:
            read_actions(root)
        assert str(caught.value).startswith(str(root))


def test_provenance_depends_on_pixels_and_boxes_and_on_nothing_else(tmp_path):
    one = make_devkit(tmp_path / "one", 4)
    provenance = read_actions(one).provenance()
    shares = []
    assert read_actions(make_devkit(tmp_path / "other", 4)).provenance(shares.append) == provenance
    assert shares == [0.25, 0.5, 0.75, 1.0]
    devkit = find_devkit(one)
    (devkit / "JPEGImages" / "unlisted.jpg").write_bytes(b"")
    path = devkit / LISTS / "jumping_trainval.txt"
    path.write_text(path.read_text().replace(" -1\n", "  1\n"))
    image = next((devkit / "JPEGImages").glob("2010*"))
    os.utime(image, (0, 0))
    assert read_actions(one).provenance() == provenance
    whole = image.read_bytes()
    image.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    assert read_actions(one).provenance() != provenance
    image.write_bytes(whole)
    assert read_actions(one).provenance() == provenance
    path = devkit / "Annotations" / f"{image.stem}.xml"
    path.write_text(path.read_text().replace("<ymax>", "<ymax>1"))
    assert read_actions(one).provenance() != provenance


def test_verify_says_which_counts_are_not_official(devkit, tmp_path, monkeypatch):
    with pytest.raises(DevkitError) as caught:
        verify(tmp_path)
    text = "2 images instead of 4588, 3 boxes instead of 6278, 1 jumping instead of 5670"
    assert str(caught.value) == f"{tmp_path} is readable, but it is not the official VOC2012 action task: {text}."
    monkeypatch.setattr(voc, "OFFICIAL", {"images": 2, "boxes": 4, "jumping": 1})
    with pytest.raises(DevkitError, match=r"task: 3 boxes instead of 4\.$"):
        verify(tmp_path)
    monkeypatch.setattr(voc, "OFFICIAL", {"images": 2, "boxes": 3, "jumping": 1})
    shares = []
    counts = verify(tmp_path, shares.append)
    assert shares == [0.5, 1.0]
    assert counts == {"images": 2, "boxes": 3} | dict.fromkeys(ACTIONS, 3) | {"jumping": 1}


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHS}]>{annotation("&l9;")}'
EXTERNAL = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>{annotation(box("&x;", 1, 2, 2))}'
READING = f"{LISTS}/reading_trainval.txt"
XML = f"Annotations/{B}.xml"
DAMAGE = {
    "no list of images": (f"{LISTS}/trainval.txt", None, "is missing"),
    "no list of an action": (READING, None, "is missing"),
    "no annotation": (XML, None, "is missing"),
    "no image": (f"JPEGImages/{B}.jpg", None, "is missing"),
    "list cut short": (READING, f"{A}  1 -1\n{B}  1", "line 2: .* has fewer than 3 columns"),
    "image above": (READING, f"../{A}  1  1\n", f"line 1: '../{A}' is not an image name"),
    "image in a folder": (f"{LISTS}/trainval.txt", f"{A}\n{B}\na/{C}\n", f"line 3: 'a/{C}' is not an image name"),
    "absolute image": (f"{LISTS}/trainval.txt", "/etc/passwd\n", "line 1: '/etc/passwd' is not an image name"),
    "binary list": (READING, b"\xff\xfe\x00\x01\n", "has fewer than 3 columns"),
    "object 0": (READING, f"{B}  0  1\n", None),
    "object too large": (READING, f"{B}  2  1\n", None),
    "label 2": (READING, f"\n{B}  1  2\n", r"line 2: '2' is not a label \(−1, 0 or 1\)"),
    "nobody on a list": (READING, "\n", "lists no person"),
    "two labels": (READING, f"{B}  1  1\n{B}  1 -1\n", f"object 1 of {B} has two labels"),
    "no person": (
        XML,
        annotation(box(1, 1, 2, 2).replace("person", "horse")),
        "object 1 must be a person; got 'horse'",
    ),
    "image not on the list": (READING, "2012_000009  1  1\n", "2012_000009 is not on the list trainval.txt"),
    "not well-formed": (XML, annotation()[:-5], "is not an annotation: ParseError"),
    "deep": (XML, "<a>" * 50_000, "is not an annotation: ParseError"),
    "entity bomb": (XML, BOMB, "is not an annotation: EntitiesForbidden"),
    "external entity": (XML, EXTERNAL, "is not an annotation: EntitiesForbidden"),
    "oversized": (XML, annotation(box(1, 1, 2, 2)) + " " * (1 << 20), "bytes, more than 1048576: not read"),
    "no box": (XML, annotation("<object/>"), "object 1 has no box of four numbers"),
    "edge nan": (XML, annotation(box("nan", 1, 2, 2)), "the box .nan, 1.0, 2.0, 2.0. of object 1 is empty"),
    "inverted": (XML, annotation(box(5, 1, 2, 2)), "the box .5.0, 1.0, 2.0, 2.0. of object 1 is empty"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_list_or_annotation_is_named(case, devkit, tmp_path):
    name, content, message = DAMAGE[case]
    path = devkit / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if message is None:  # it is the annotation that shows the fault of the list
        path, message = devkit / XML, "has 1 objects; the lists name number [02]"
    start = time.monotonic()
    with pytest.raises(DevkitError, match=message) as caught:
        read_actions(tmp_path)
    assert str(path) in str(caught.value)
    assert "root:" not in str(caught.value)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", [f"{LISTS}/trainval.txt", XML, f"JPEGImages/{B}.jpg"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/nowhere/at/all", path)])
def test_what_is_no_file_is_named_and_not_waited_for(name, make, devkit):
    (devkit / name).unlink()
    make(devkit / name)
    with pytest.raises(DevkitError, match=f"{devkit / name} is missing"):
        read_actions(devkit)


IMAGES = {
    "cut in the header": jpeg(9)[:100],
    "cut in the pixels": jpeg(9, (200, 200))[:-200],
    "empty": b"",
    "text": b"<html>404</html>",
    "gif": b"GIF89a\x01\x00\x01\x00\x00\x00\x00;",
    "png cut": png(20, 10)[:-20],
    "png bomb": png(100_000, 100_000),
    "smaller png bomb": png(12_000, 10_000),
    "jpeg bomb": huge_jpeg(),
}


@pytest.mark.parametrize("case", IMAGES)
def test_a_damaged_or_dangerous_image_is_named(case, devkit):
    path = devkit / "JPEGImages" / f"{B}.jpg"
    path.write_bytes(IMAGES[case])
    for read in (lambda: read_image(path), lambda: verify(devkit)):
        with pytest.raises(ImageError, match=f"{path} is not a whole image: .*{'bomb' if 'bomb' in case else ''}"):
            read()


def test_an_image_is_read_in_rgb_whatever_it_was(tmp_path):
    for mode in ("L", "CMYK", "RGB"):
        Image.new(mode, (5, 4)).save(tmp_path / "x.jpg", "JPEG")
        image = read_image(tmp_path / "x.jpg")
        assert (image.mode, image.size) == ("RGB", (5, 4))


@pytest.fixture
def scenes(devkit):
    """The same devkit for the detection task: A is on the list twice, B shows nothing that counts, C is not listed."""
    (devkit / "ImageSets" / "Main").mkdir()
    (devkit / "ImageSets" / "Main" / "train.txt").write_text(f"{B}\n\n{A}  1\n{A} -1\n")
    hard = box(8.25, 2, 20, 10).replace("<bndbox>", "<difficult> 1\n</difficult><bndbox>")
    easy = box(1, 1, 7.5, 10).replace("<bndbox>", "<difficult>0</difficult><truncated>1</truncated><bndbox>")
    dog = box(2, 2, 3, 3).replace("person", " dog\n")
    (devkit / "Annotations" / f"{A}.xml").write_text(
        annotation(hard, dog, box(1, 1, 9, 9).replace("son", "sona"), easy)
    )
    (devkit / "Annotations" / f"{B}.xml").write_text(annotation())
    return devkit


def test_scenes_are_those_of_the_list_in_its_order_with_what_is_of_the_twenty_classes(scenes, tmp_path):
    first, second = read_scenes(tmp_path, "train")
    assert (first.name, first.path, first.annotations) == (B, scenes / "JPEGImages" / f"{B}.jpg", ())
    assert second.name == A
    assert second.annotations == (
        Annotation("person", (8.25, 2, 20, 10), True),
        Annotation("dog", (2, 2, 3, 3), False),
        Annotation("person", (1, 1, 7.5, 10), False),
    )


SCENES = {
    "no list": ("ImageSets/Main/train.txt", None, "is missing"),
    "empty list": ("ImageSets/Main/train.txt", " \n", "lists no image"),
    "image above": ("ImageSets/Main/train.txt", f"../{A}\n", "is not an image name"),
    "no image": (f"JPEGImages/{A}.jpg", None, "is missing"),
    "no box of what is no class": (f"Annotations/{A}.xml", annotation("<object><name>ufo</name></object>"), "no box"),
}


@pytest.mark.parametrize("case", SCENES)
def test_what_is_wrong_with_a_scene_is_named(case, scenes, tmp_path):
    name, content, message = SCENES[case]
    path = scenes / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(DevkitError, match=message) as caught:
        read_scenes(tmp_path, "train")
    assert str(path) in str(caught.value)
