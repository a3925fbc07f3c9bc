"""Segmentation: shapes and wrong masks, the losses beside their definitions, and the study from data to report."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from directloss_studies.data.shapes import move_masks, textured_shapes
from directloss_studies.harness.study import Provenance, Run
from directloss_studies.methods import PLAIN
from directloss_studies.report.verdicts import Verdict, judge
from directloss_studies.segmentation.config import Result, SegmentationOptions
from directloss_studies.segmentation.losses import LOSSES, cross_entropy, dice, lovasz_hinge
from directloss_studies.segmentation.network import UNet
from directloss_studies.segmentation.study import configs, prepare, run, sets_of
from directloss_studies.segmentation.summary import METHODS, RULES, summarise
from directloss_studies.segmentation.training import Part, image_ious, pooled_iou
from directloss_studies.sweep import Setting
from directloss_studies.vision.images import ImageError, read_palette
from PIL import Image


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def ious(one, other):
    return (one & other).sum((-1, -2)) / (one | other).sum((-1, -2))


# Data.


def test_shapes_have_a_grain_of_their_own():
    images, masks = textured_shapes(100, 48, generator())
    assert images.shape == (100, 3, 48, 48)
    assert masks.shape == (100, 48, 48)
    assert masks.any(-1).any(-1).all()
    assert 0.05 < masks.float().mean() < 0.25
    again = textured_shapes(100, 48, generator())
    assert torch.equal(images, again[0])
    assert torch.equal(masks, again[1])
    steps = images.diff(dim=-1).square().mean(1)
    inside, outside = masks[..., 1:] & masks[..., :-1], ~(masks[..., 1:] | masks[..., :-1])
    assert steps[inside].mean() > 1.5 * steps[outside].mean()
    assert abs(images.mean(1)[masks].mean()) < 0.2  # the mean colour gives nothing away


def test_moved_masks_lose_the_share_and_hardly_more():
    _, masks = textured_shapes(100, 48, generator())
    assert torch.equal(move_masks(masks, 0.0, generator()), masks)
    moved = move_masks(masks, 0.2, generator())
    assert (ious(moved, masks) <= 0.8).all()
    assert ious(moved, masks).mean() > 0.65
    assert (moved.sum((1, 2)) <= masks.sum((1, 2))).all()
    empty = torch.zeros((1, 8, 8), dtype=torch.bool)
    assert not move_masks(empty, 0.2, generator()).any()
    with pytest.raises(ValueError, match="share must be at least 0 and less than 1; got 20"):
        move_masks(masks, 20, generator())


# Losses.


def problem(pixels=7, seed=0):
    scores = torch.randn((1, pixels), generator=generator(seed), dtype=torch.float64)
    return (
        scores,
        torch.rand((1, pixels), generator=generator(seed + 1)) < 0.4,
        torch.ones((1, pixels), dtype=torch.bool),
    )


def jaccard_loss(target, wrong):
    """Of the prediction that is wrong at these pixels."""
    found = target ^ wrong
    union = int((found | target).sum())
    return 1 - int((found & target).sum()) / union if union else 0.0


@pytest.mark.parametrize("seed", range(20))
def test_lovasz_hinge_is_the_extension_of_the_jaccard_loss(seed):
    scores, target, mask = problem(seed=seed)
    hinge = (1 - torch.where(target, scores, -scores)[0]).relu()
    expected, below = 0.0, sorted({0.0, *hinge.tolist()})
    for low, high in itertools.pairwise(below):  # the integral over levels of the loss of the pixels above
        expected += (high - low) * jaccard_loss(target[0], hinge >= high)
    assert lovasz_hinge(scores, target, mask, 1.0).item() == pytest.approx(expected)
    assert lovasz_hinge(scores, target, mask, 1.0) >= jaccard_loss(target[0], (scores[0] > 0) != target[0])


def test_dice_of_certain_pixels_is_one_minus_f1():
    from sklearn.metrics import f1_score

    for seed in range(10):
        scores, target, mask = problem(12, seed)
        expected = f1_score(target[0], scores[0] > 0)
        assert 1 - dice(1e4 * scores, target, mask, 1e-9).item() == pytest.approx(expected, abs=1e-6)


def test_a_weight_of_two_counts_foreground_twice():
    scores, target, mask = problem()
    twice = [torch.cat([of, of[target][None]], dim=1) for of in (scores, target, mask)]
    once, double = cross_entropy(scores, target, mask, 2.0), cross_entropy(twice[0], twice[1], twice[2], 1.0)
    assert (once * mask.sum()).item() == pytest.approx((double * twice[2].sum()).item())


def test_sums_are_those_of_their_parts():
    scores, target, mask = problem(40)
    cross = cross_entropy(scores, target, mask, 1.0)
    both = LOSSES["Dice + x-ent"].loss(scores, target, mask, 3.0)
    torch.testing.assert_close(both, cross + dice(scores, target, mask, 3.0))
    added = torch.stack([LOSSES["x-ent + central-IoU"].loss(scores, target, mask, 3.0) for _ in range(200)]) - cross
    assert added.std() > 0  # its scores are noisy
    noisy = torch.stack([scores + torch.rand_like(scores).logit() for _ in range(800)]).squeeze(1)
    rows = noisy, target.expand(800, -1), mask.expand(800, -1)
    assert added.mean().item() == pytest.approx(LOSSES["central-IoU"].loss(*rows, 3.0).mean().item(), abs=0.03)


@pytest.mark.parametrize("method", [method for method in LOSSES if method != "x-ent + central-IoU"])  # draws noise
def test_pixels_that_do_not_count_change_nothing(method):
    loss = LOSSES[method].loss
    scores, target, mask = problem(30, seed=4)
    mask = torch.rand(mask.shape, generator=generator(5)) < 0.7
    scores = 0.2 * scores  # small beside the strength, so that every loss has a gradient
    sliced = [of[mask][None] for of in (scores, target, mask)]
    scores, sliced[0] = scores.requires_grad_(), sliced[0].requires_grad_()
    whole, part = loss(scores, target, mask, 5.0), loss(sliced[0], sliced[1], sliced[2], 5.0)
    assert whole.shape == (1,)
    torch.testing.assert_close(whole, part)
    gradients = torch.autograd.grad(whole.sum(), scores) + torch.autograd.grad(part.sum(), sliced[0])
    assert (gradients[0][~mask] == 0).all()
    torch.testing.assert_close(gradients[0][mask], gradients[1][0])
    assert gradients[1].any()


@pytest.mark.parametrize("method", ["hinge-IoU", "x-ent", "Dice", "Dice + x-ent", "Lovász hinge"])
def test_surrogates_lead_to_the_right_mask(method):
    scores, target, mask = (of.repeat(4, 1) for of in problem(60))
    scores = scores.clone().requires_grad_()
    part = Part(scores, target[:, None], mask[:, None])
    before = image_ious(scores.detach()[:, None] > 0, part).mean()
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        LOSSES[method].loss(scores, target, mask, LOSSES[method].strengths[0]).sum().backward()
        optimizer.step()
    assert image_ious(scores.detach()[:, None] > 0, part).mean() > max(0.95, before)


# Network and metric.


def test_u_net_scores_every_pixel_and_draws_from_its_generator_alone():
    state = torch.random.get_rng_state()
    one, other = (UNet((4, 4, 8), generator(3)) for _ in range(2))
    assert (torch.random.get_rng_state() == state).all()
    images = torch.randn((2, 3, 16, 16), generator=generator())
    assert one(images).shape == (2, 16, 16)
    assert torch.equal(one(images), other(images))
    moved = images.clone()
    moved[:, :, 8, 8] += 1
    assert (one.eval()(moved) != one(images))[:, 8, 8].all()


def test_iou_by_hand():
    masks = torch.tensor([[[1, 1, 0, 0]], [[0, 0, 0, 0]], [[1, 0, 0, 0]]]).bool()
    found = torch.tensor([[[1, 0, 1, 1]], [[0, 0, 0, 0]], [[0, 0, 0, 0]]]).bool()
    valid = torch.tensor([[[1, 1, 1, 0]], [[1, 1, 1, 1]], [[1, 1, 1, 1]]]).bool()
    part = Part(torch.zeros(3, 3, 1, 4), masks, valid)
    assert image_ious(found, part).tolist() == pytest.approx([1 / 3, 1.0, 0.0])
    assert pooled_iou(found, part) == pytest.approx(1 / 4)


# The study.


def small(method="x-ent", noise=0.0, damage="pixels", **changes):
    (config,) = [c for c in configs(SegmentationOptions(seeds=1)) if c.method == method and c.noise == 0]
    return dataclasses.replace(config, **{"noise": noise, "damage": damage, "samples": 16, "held_out": 8, **changes})


def test_methods_share_data_and_damage_and_the_test_is_clean():
    for damage in ("pixels", "borders"):
        ours, theirs, clean = (
            sets_of(small(method, noise, damage))
            for method, noise in (("pos-IoU", 0.2), ("x-ent", 0.2), ("x-ent", 0.0))
        )
        for name in ours:
            assert all(torch.equal(one, other) for one, other in zip(ours[name], theirs[name], strict=True))
            assert torch.equal(ours[name].images, clean[name].images)
            same = torch.equal(ours[name].masks, clean[name].masks)
            assert same == (name in ("validation", "test")), name
        wrong = (ours["train"].masks != clean["train"].masks).float().mean()
        assert abs(wrong - 0.2) < 0.02 if damage == "pixels" else wrong > 0.01


def test_without_damage_both_validations_are_one_and_what_does_not_fit_is_refused():
    config = small(iterations=3)
    result = run(config)
    assert result.iterations == (1, 3)
    assert result.validation == result.noisy_validation
    assert result.only([1]).test == tuple(row[1:] for row in result.test)
    with pytest.raises(ValueError, match="pooled must be IoU, from 0 to 1"):
        dataclasses.replace(result, pooled=((2.0, 0.0), (0.0, 0.0))).check(config)


@pytest.mark.parametrize("method", ["central-IoU", "x-ent"])
def test_methods_learn_to_find_shapes(method):
    result = run(small(method, samples=64, held_out=32, settings=(Setting(1.0, 0.02, 0.0),), iterations=60))
    assert result.test[-1][0] > 0.6
    assert result.dead[0] < 0.5


def invented(config, level):
    def curve(value):
        return tuple(tuple(value * k / 2 + 0.001 * config.seed for _ in config.settings) for k in (1, 2))

    dead = (0.0,) * len(config.settings)
    same = curve(level)
    return Run(config, Result((50, 100), curve(0.5), curve(level), dead, same, same, same, None), Provenance(1.0))


def test_summary_says_which_loss_wins():
    levels = dict(zip(LOSSES, (0.6, 0.5, 0.45, 0.4, 0.55, 0.3, 0.35, 0.7), strict=True))
    runs = [
        invented(config, levels[config.method] - 0.3 * config.noise - 0.002 * (config.seed - 10) * len(config.method))
        for of in configs(SegmentationOptions(preset="paper"))
        for config in ([of, dataclasses.replace(of, damage="borders")] if of.noise else [of])
    ]
    summary = summarise(runs)
    verdicts = {claim.says: judge(claim) for claim in summary.claims}
    assert verdicts["pos-IoU reaches a higher test IoU than Dice"] == Verdict.HOLDS
    assert verdicts["pos-IoU reaches a higher test IoU than Lovász hinge"] == Verdict.CONTRADICTED
    assert "Lovász hinge has the highest test IoU" in summary.headline
    assert {claim.variant for claim in summary.claims} == {"shapes"}
    names = [comparison.name for comparison in summary.claims[0].comparisons]
    assert names == [
        f"pos-IoU − x-ent, {masks}" for masks in ("right masks", "20 % wrong pixels", "20 % moved borders")
    ]
    for table in summary.overview:
        assert [row[0] for row in table.rows] == list(METHODS)
        assert table.header == ["method", "0 %", "20 %"]
        assert all("±" in cell for row in table.rows for cell in row[1:])
        assert (list(LOSSES).index("Lovász hinge"), 1) in table.best
    clean = {
        record.variant: record.mean
        for record in summary.records
        if (record.method, record.noise, record.metric) == ("Dice", 0.0, "test_iou")
    }
    assert len(clean) == 2 * len(RULES)  # right masks stand beside both kinds of damage
    (gain,) = [
        record
        for record in summary.records
        if record.metric == "pos-IoU_minus_this" and record.method == PLAIN and record.noise == 0.2
        and record.variant == f"shapes, moved borders: {RULES[0].name}"
    ]  # fmt: skip
    assert gain.n == 5


# VOC2012.


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A devkit in which green is foreground, and every mask has a rim that is not to be used."""
    folder = tmp_path_factory.mktemp("segmentation")
    devkit = folder / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "Annotations", "SegmentationClass", "ImageSets/Segmentation"):
        (devkit / name).mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"2007_{number:06d}" for number in range(130)]
    for name in names:
        pixels, labels = random.integers(0, 99, (90, 120, 3), dtype=np.uint8), np.zeros((90, 120), dtype=np.uint8)
        top, left = random.integers(5, 40, 2)
        labels[top - 4 : top + 44, left - 4 : left + 64] = 255
        labels[top : top + 40, left : left + 60] = random.integers(1, 21)
        pixels[top : top + 40, left : left + 60, 1] += 150
        Image.fromarray(pixels).save(devkit / "JPEGImages" / f"{name}.jpg", quality=90)
        Image.fromarray(labels).convert("P").save(devkit / "SegmentationClass" / f"{name}.png")
    (devkit / "ImageSets" / "Segmentation" / "trainval.txt").write_text("\n".join(names))
    patch = pytest.MonkeyPatch()
    patch.setenv("DIRECTLOSS_CACHE", str(folder / "cache"))
    yield folder
    patch.undo()


def test_voc_masks_come_small_and_without_their_rims(place):
    options = SegmentationOptions(data="voc2012", root=place)
    source, notes = prepare(options)
    assert notes == []
    assert prepare(options) == (source, [])
    config = dataclasses.replace(
        next(c for c in configs(options, source) if c.method == "x-ent"), iterations=30, samples=40, held_out=20
    )
    sets = sets_of(config)
    for part in sets.values():
        assert part.images.shape[1:] == (3, config.size, config.size)
        share = part.masks.float().mean()
        assert abs(share - 40 * 60 / (90 * 120)) < 0.02
        assert not (part.masks & ~part.valid).any()
        assert 0.05 < (~part.valid).float().mean() < 0.12
    seen = [
        tuple(image.flatten()[:50].tolist()) for name in ("train", "validation", "test") for image in sets[name].images
    ]
    assert len(set(seen)) == 100  # no image is in two sets
    assert run(config).test[-1][0] > 0.8


def test_bad_data_is_refused_in_words(place, tmp_path):
    with pytest.raises(ValueError, match="--data 'coco' is unknown"):
        prepare(SegmentationOptions(data="coco"))
    with pytest.raises(ValueError, match="add --root DIR"):
        prepare(SegmentationOptions(data="voc2012"))
    with pytest.raises(ValueError, match="does not hold a VOC2012 devkit"):
        prepare(SegmentationOptions(data="voc2012", root=tmp_path))
    with pytest.raises(ValueError, match="Name the data"):
        run(configs(SegmentationOptions(data="voc2012"))[0])
    source, _ = prepare(SegmentationOptions(data="voc2012", root=place))
    with pytest.raises(ValueError, match="900 images with foreground are needed; the devkit has 130"):
        run(dataclasses.replace(configs(SegmentationOptions(data="voc2012"), source)[0], samples=600, held_out=100))
    Image.new("RGB", (4, 4)).save(tmp_path / "colours.png")
    with pytest.raises(ImageError, match=r"one number a pixel .* got mode RGB"):
        read_palette(tmp_path / "colours.png")
