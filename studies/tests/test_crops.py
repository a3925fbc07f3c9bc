"""Crops against values worked out by hand: context, warping, borders, fractions."""

import numpy as np
import pytest
import torch
from directloss_studies.vision.crops import MEAN, crop, normalised, window
from PIL import Image

FILL = [round(255 * value) for value in MEAN]


def assert_window(box, side, source, target):
    found = window(box, side, side)
    assert found.source == pytest.approx(source)
    assert found.target == target


def picture(values):
    """A grey image from rows of values."""
    return Image.fromarray(np.repeat(np.asarray(values, np.uint8)[..., None], 3, axis=2))


def test_sixteen_pixels_of_context_at_227():
    # 195 pixels become 195 of 227: one for one, and 16 more on either side
    assert_window((51, 101, 245, 295), 500, (34, 84, 261, 311), (0, 0, 227, 227))


def test_both_sides_are_warped_each_for_itself():
    # 390 × 195 pixels: the width shrinks to half, so 16 pixels of the square are 32 of the image
    assert_window((101, 101, 490, 295), 600, (68, 84, 522, 311), (0, 0, 227, 227))


def test_a_box_over_the_whole_image_keeps_its_pixels_inside_a_frame_of_the_mean():
    values = np.arange(25).reshape(5, 5) * 10
    square = crop(picture(values), (1, 1, 5, 5), size=7, context=1)
    assert square.shape == (3, 7, 7)
    for channel in range(3):
        assert square[channel, 1:6, 1:6].tolist() == values.tolist()
        frame = square[channel].clone()
        frame[1:6, 1:6] = FILL[channel]
        assert (frame == FILL[channel]).all()


def test_a_box_at_the_corner():
    # columns and rows 6 to 10 of ten, size 14, context 2: edges 4 to 11, one of the seven pixels outside
    values = np.tile(np.arange(10) * 20, (10, 1))
    square = crop(picture(values), (6, 6, 10, 10), size=14, context=2)
    # twice as large: a quarter of a pixel to either side of each centre, beyond the window too, held at the border
    row = [75, 85, 95, 105, 115, 125, 135, 145, 155, 165, 175, 180]
    assert square[0, 3].tolist() == [*row, FILL[0], FILL[0]]
    assert (square[0, 12:] == FILL[0]).all()
    assert (square[0, :12, :12] == square[0, 0, :12]).all()


def test_shrinking_averages():
    values = np.zeros((40, 40))
    values[:, ::2] = 200
    square = crop(picture(values), (1, 1, 40, 40), size=10, context=0)
    inner = square[0, 2:8, 2:8]
    assert ((inner > 90) & (inner < 110)).all()


def test_the_least_box_and_one_that_leaves_the_image():
    assert crop(picture(np.full((9, 9), 7)), (9, 9, 9, 9), size=5, context=1)[0, 2, 2] == 7
    square = crop(picture(np.full((9, 9), 7)), (5, 5, 14, 14), size=10, context=0)
    assert (square[0, :5, :5] == 7).all()
    assert (square[0, 5:] == FILL[0]).all()
    with pytest.raises(ValueError, match=r"The box \(20, 20, 30, 30\) lies outside of an image of 9 × 9 pixels"):
        crop(picture(np.zeros((9, 9))), (20, 20, 30, 30))


def test_the_mean_becomes_zero():
    mean = torch.tensor(FILL, dtype=torch.uint8).view(3, 1, 1).expand(3, 4, 4)
    assert normalised(mean).abs().max() < 0.01
    white = normalised(torch.full((3, 1, 1), 255, dtype=torch.uint8)).flatten()
    torch.testing.assert_close(white, torch.tensor([0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225]))
