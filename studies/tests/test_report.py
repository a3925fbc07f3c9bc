"""The report: what it says follows from the runs, and it looks right in a real browser."""

import dataclasses
import io
import json
import random
import re
from html import escape
from pathlib import Path

import pytest
from directloss_studies.harness.store import Store, _digest
from directloss_studies.harness.study import Claim, Comparison, Provenance, Run, Table
from directloss_studies.registry import STUDIES
from directloss_studies.report.forest import forest
from directloss_studies.report.markdown import _table, markdown
from directloss_studies.report.page import html
from directloss_studies.report.sections import gather, records
from directloss_studies.report.summary import with_plain
from directloss_studies.report.terminal import overview
from directloss_studies.report.verdicts import Block, blocks, counted, judge
from directloss_studies.report.words import counts_in_words
from rich.console import Console

OWN_DATA = [name for name, of in STUDIES.items() if of.prepare is None and name != "paths"]  # of average precision
BETTER = {"pos-AP": 0.3, "hinge-AP": 0.2, "x-ent": 0.1}


def gathered(folder):
    return gather(folder, STUDIES.values())


def invented(study, config, generator):
    """A result whose order of methods is known: pos-AP first, then hinge-AP, then x-ent, then the rest."""
    checkpoints, settings = 21, len(config.settings)
    step = config.iterations // 20

    def curve():
        level = 0.4 + BETTER.get(config.method, 0.0)
        return tuple(
            tuple(round(level * k / 20 + 0.01 * generator.random(), 6) for _ in range(settings))
            for k in range(checkpoints)
        )

    curves = {name: curve() for name in ("train", "validation", "test")}
    known = {field.name for field in dataclasses.fields(study.result)}
    return study.result(
        iterations=tuple(step * k for k in range(checkpoints)),
        dead=(0.25,) * settings,
        **{name: of for name, of in curves.items() if name in known},
    )


def fill(folder, preset="paper", seeds=4, names=OWN_DATA, leave_out=0):
    generator = random.Random(0)
    for name in names:
        study = STUDIES[name]
        store = Store(folder / name / preset, study)
        configs = study.configs(study.options(preset=preset, seeds=seeds), None)
        for config in configs[: len(configs) - leave_out]:
            store.write(Run(config, invented(study, config, generator), Provenance(1.5, python="3", torch="2")))
    return folder


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    return gathered(fill(tmp_path_factory.mktemp("paper")))


@pytest.fixture(scope="module")
def whole_page(sections):
    """Rendered once: it takes seconds."""
    return html(sections)


def test_sections_are_complete(sections):
    assert [section.study.name for section in sections] == OWN_DATA
    for section in sections:
        assert (section.missing, section.left_out, list(section.set_aside)) == (0, 0, [])


EXPECTED = {  # by how a claim begins
    "pos-AP reaches": "holds",
    "pos-AP withstands": "holds",
    "With a tenth": "holds",
    "The positive": "holds",
    "Training on AP": {"holds in part", "mixed"},  # holds for pos and hinge; the others are invented alike
    "On clean": "contradicted",
    "pos-AP gains": {
        "undecided",
        "contradicted",
        "holds",
    },  # invented alike from both starts: decided by chance, if at all
}


def test_verdicts_follow_from_the_runs(sections):
    for section in sections:
        for claim in section.summary.claims:
            (expected,) = [words for start, words in EXPECTED.items() if claim.says.startswith(start)]
            assert judge(claim) in (expected if isinstance(expected, set) else {expected}), claim.says


@pytest.mark.slow
def test_every_claim_and_comparison_is_in_the_page_and_in_the_markdown(sections, whole_page):
    text, page = markdown(sections), whole_page
    for section in sections:
        for block in blocks(section.summary.claims):
            counts = counts_in_words(counted(block.claims))
            assert f"**{block.says} ({block.source}): {judge(block.claims)}; {counts}**" in text
            assert f"({counts})" in page
            for claim in block.claims:
                for comparison in claim.comparisons:
                    row = f"| {claim.variant} | {comparison.name} | {comparison.mean:+.3f} |".replace("-0.", "−0.")
                    assert row in text
    assert page.count('<figure class="forest">') == sum(len(blocks(s.summary.claims)) for s in sections)


def test_figures_come_before_claims_and_claims_before_tables(sections, whole_page):
    page = whole_page
    for section in sections:
        of_this = page[page.index(f'<section id="{section.study.name}-paper">') :]
        places = [of_this.index(mark) for mark in ("<figure>", 'class="forest"', 'class="numbers"', "Made by")]
        assert places == sorted(places)


@pytest.mark.slow
def test_names_of_figures_say_what_they_show(sections):
    names = [figure.name for section in sections for figure in section.summary.figures()]
    assert len(set(names)) == len(names) == 5 + 8 + 4
    for name in names:
        assert name.startswith(tuple(OWN_DATA))
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){2,}", name), name
        assert not re.search(r"-\d+$", name.removesuffix("batches-of-512")), f"{name} is a bare number"
    assert "label-noise-raw-inputs-noisy-validation" in names
    published = {path.stem for path in (Path(__file__).parents[2] / "docs" / "figures").glob("*.svg")}
    assert {name for name in published if name.startswith(tuple(OWN_DATA))} <= set(names)
    numbered = [name for name in published if re.search(r"-\d+(?!\d|-percent)", name.replace("batches-of-512", ""))]
    assert numbered == []


def shown(sections, width=100):
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
    console.print(overview(sections))
    return console.export_text()


@pytest.mark.parametrize("width", [60, 100])
def test_terminal_shows_tables_verdicts_and_what_to_take_away(sections, width):
    text = shown(sections, width)
    assert max(map(len, text.splitlines())) <= width
    assert "|---" not in text
    flat = " ".join(text.split())
    for section in sections:
        assert section.title in flat
        for block in blocks(section.summary.claims):
            if width == 100:
                assert block.says in flat
                assert counts_in_words(counted(block.claims)) in flat
        for sentence in section.takeaway:
            assert sentence in flat


def test_terminal_marks_the_best_of_a_column(sections):
    stream = io.StringIO()
    Console(width=100, file=stream, force_terminal=True, color_system="standard").print(overview(sections))
    printed = stream.getvalue()
    bold = re.findall(r"\x1b\[1m *(\d\.\d{3} ± \d\.\d{3})", printed)
    tables = [table for section in sections for table in section.summary.overview]
    best = [table.rows[row][column] for table in tables for row, column in sorted(table.best)]
    assert bold == best
    assert len(best) == 4 + 5 + 5
    for table in tables:
        assert {table.rows[row][0] for row, _ in table.best} == {"pos-AP"}


def test_the_page_begins_with_what_to_take_away(sections, whole_page):
    page = whole_page
    for section in sections:
        assert len(section.takeaway) == 3
        assert "pos-AP has the highest test AP" in section.takeaway[0]
        assert "With 4 seeds" in section.takeaway[2]
        for sentence in section.takeaway:
            assert page.index(escape(sentence)) < page.index("<section")


def test_records_are_flat_and_equal_what_the_tables_say(sections):
    flat = json.loads(records(sections))
    keys = ["experiment", "method", "noise", "variant", "class", "metric", "mean", "sd", "n"]
    assert all(list(record) == keys for record in flat)
    assert {record["experiment"] for record in flat} == set(OWN_DATA)
    assert {record["n"] for record in flat} == {4}
    text = markdown(sections)
    tested = [record for record in flat if record["metric"] == "test_ap"]
    assert len(tested) > 200
    for record in tested:
        assert f"{record['mean']:.3f} ± {record['sd']:.3f}" in text
    (dead,) = {record["mean"] for record in flat if record["metric"] == "dead_gradients"}
    assert dead == 0.25
    assert any(record["metric"] == "test_ap@500" for record in flat)


def test_grids_choices_versions_and_time_are_in_the_report(sections):
    text = markdown(sections)
    for section in sections:
        assert f"directloss reproduce {section.study.name} --preset paper --seeds 4" in text
    assert text.count("**What was tried and chosen") == 1 + 4 + 1
    assert "Share of dead iterations" in text
    assert "python 3, torch 2" in text
    assert "minutes of one core" in text


def test_usual_cross_entropy_is_chosen_among_the_settings_of_scale_one(sections):
    (section,) = [section for section in sections if section.study.name == "label-noise"]
    run = next(run for run in section.runs if run.config.method == "x-ent")
    places = tuple(float(k) for k in range(len(run.config.settings)))
    result = dataclasses.replace(run.result, train=(places,), dead=places)
    _, usual = with_plain([dataclasses.replace(run, result=result)])
    assert {setting.strength for setting in usual.config.settings} == {1.0}
    assert usual.config.method != "x-ent"
    for kept in (usual.result.train[0], usual.result.dead):
        assert tuple(run.config.settings[int(k)] for k in kept) == usual.config.settings


def test_an_unfinished_folder_says_what_is_missing_and_left_out(tmp_path):
    fill(tmp_path, "quick", 2, ["separable"], leave_out=5)
    study = STUDIES["separable"]
    store = Store(tmp_path / "separable" / "quick", dataclasses.replace(study, version=0))
    other = study.configs(study.options(seeds=1), None)[0]
    store.write(Run(other, invented(study, other, random.Random(1)), Provenance(0.0)))
    (tmp_path / "separable" / "quick" / "holiday.jpg").write_bytes(b"jpeg")
    text = markdown(gathered(tmp_path))
    assert "5 runs are missing" in text
    assert "1 runs of other settings" in text
    assert "holiday.jpg set aside" in text
    assert "too few runs to say" in text


def test_nothing_is_concluded_while_a_run_is_missing(tmp_path):
    fill(tmp_path, "quick", 3, ["synthetic"])
    store = Store(tmp_path / "synthetic" / "quick", STUDIES["synthetic"])
    for path, run in store.runs().items():
        if run.config.method == "per-01" and run.config.seed == 2:
            path.unlink()
    (section,) = gathered(tmp_path)
    assert section.missing == 1
    assert {judge(claim) for claim in section.summary.claims} == {"too few runs to say"}
    assert "1 run is missing, so nothing is concluded yet." in section.takeaway
    of_runs = STUDIES["synthetic"].summarise(section.runs).claims  # whose own words are other
    assert len({judge(claim) for claim in of_runs}) > 1
    assert [(claim.says, claim.variant, claim.comparisons) for claim in section.summary.claims] == [
        (claim.says, claim.variant, claim.comparisons) for claim in of_runs
    ]


def test_claims_do_not_wait_for_methods_that_stand_beside(tmp_path, monkeypatch):
    fill(tmp_path, "quick", 3, ["synthetic"])
    store = Store(tmp_path / "synthetic" / "quick", STUDIES["synthetic"])
    next(path for path, run in store.runs().items() if run.config.method == "per-01").unlink()
    monkeypatch.setitem(vars(STUDIES["synthetic"]), "beside", ("per-01",))
    (section,) = gathered(tmp_path)
    assert section.missing == 1
    assert {judge(claim) for claim in section.summary.claims} != {"too few runs to say"}
    assert "1 run is missing, of methods that no claim is about." in section.takeaway


def rewrite(path, part, **changes):
    """Change a result on disk, with a right checksum."""
    content = json.loads(path.read_text())
    del content["sha256"]
    content[part] |= changes
    path.write_text(json.dumps({**content, "sha256": _digest(content)}))


def test_control_characters_in_results_are_shown_as_words(tmp_path):
    fill(tmp_path, "quick", 1, ["separable"])
    folder = tmp_path / "separable" / "quick"
    rewrite(min(folder.glob("*.json")), "made", python="\x1b[31m3\x9b|\n\x00\u202e<b>$", torch="2")
    sections = gathered(tmp_path)
    page, text = html(sections), markdown(sections)
    assert r"python \x1b[31m3\x9b|\n\x00\u202e<b>$, torch 2" in text
    assert "\\x1b[31m3\\x9b|\n\\x00\\u202e&lt;b&gt;$, torch 2" in page
    for made in (page, text):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", made)


def test_cells_of_tables_stay_cells():
    text = _table(Table("a\nb", ["x|y"], [["1\n2|3"]]))
    assert text.splitlines() == [r"**a\nb**", "", r"| x\|y |", "|---|", r"| 1\n2\|3 |"]


def test_a_dollar_in_a_name_is_not_mathematics():
    one = Comparison("a$\\frac$", (0.1, 0.2, 0.3), 3)
    assert r"a$\frac$" in forest("forest", Block("says", "us", [Claim("says", "$\\frac$", [one])])).svg


def test_report_is_the_same_for_the_same_runs(tmp_path):
    fill(tmp_path, "quick", 3, ["label-noise"])
    assert html(gathered(tmp_path)) == html(gathered(tmp_path))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.slow
def test_page_is_whole_in_a_browser(browser, sections, whole_page, tmp_path, width):
    page_file = tmp_path / "report.html"
    page_file.write_text(whole_page)
    page = browser.new_page(viewport={"width": width, "height": 800})
    complaints, requests = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert complaints == []
    assert requests == [page_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    expected = 5 + 8 + 4
    boxes = page.evaluate("""[...document.querySelectorAll('figure')].map(figure => {
        const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect();
        const cut = [...svg.querySelectorAll('text')].filter(text => {
            const t = text.getBoundingClientRect();
            return t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 || t.bottom > box.bottom + 1;
        }).map(text => text.textContent);
        return {forest: figure.className == 'forest', cut,
            width: box.width, left: box.left, right: box.right, height: box.height,
            paths: svg.querySelectorAll('path').length, alt: figure.querySelector('[role=img]').ariaLabel,
            caption: figure.querySelector('figcaption').textContent};
    })""")
    forests = sum(len(blocks(section.summary.claims)) for section in sections)
    assert len(boxes) == expected + forests
    assert sum(box["forest"] for box in boxes) == forests
    for box in boxes:
        assert box["width"] > 0.8 * min(width, 500), box
        assert 0 <= box["left"] < box["right"] <= width
        assert box["height"] > (80 if box["forest"] else 150)
        assert box["paths"] > 10
        assert box["cut"] == []
        assert len(box["alt"]) > 50
        assert box["caption"]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    overlapping = page.evaluate("""[...document.querySelectorAll('h2, h3, figure, .scroll, p')].filter((a, i, all) =>
        all.slice(i + 1, i + 3).some(b => { const x = a.getBoundingClientRect(), y = b.getBoundingClientRect();
            return x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1; }))
        .map(element => element.textContent.slice(0, 40))""")
    assert overlapping == []
    page.close()
