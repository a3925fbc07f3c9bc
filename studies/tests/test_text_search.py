"""Text search: the collection is read as its files mean it, and rivals are those of sentence-transformers."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from commands import call
from directloss_studies import text_search
from directloss_studies.data import cranfield
from directloss_studies.data.cranfield import LEFT_OUT, bm25, parse, read_cranfield
from directloss_studies.data.sentences import SentenceModel
from directloss_studies.data.sources import Source
from directloss_studies.data.tabular import TableError
from directloss_studies.harness.progress import no_steps
from directloss_studies.text_search import ALL, METHODS, MNR, Model, TextData, configs, hard_lists, load, loss_of, split

DOCUMENTS = ".I 1\r\n.T\r\nwings\r\n.A\r\nw.\r\n.W\r\nwings of\r\nplanes .\r\n.I 2\r\n.W\r\nheat heat\r\n.I 3\r\n.W\r\n"
QUERIES = ".I 001\r\n.W\r\nthe wings\r\n.I 004\r\n.W\r\nheat .\r\n"
JUDGEMENTS = "1 1 1 \r\n1 3 4\r\n2 2 -1\r\n2 1 3 \r\n"
MADE = TextData("made", "")


def test_numbers_of_queries_are_positions_and_the_best_grade_is_the_highest():
    found = parse(DOCUMENTS, QUERIES, JUDGEMENTS)
    assert found.documents == ["wings of planes .", "heat heat", ""]
    assert found.queries == ["the wings", "heat ."]
    assert found.grades.tolist() == [[4, 0, 1], [2, LEFT_OUT, 0]]


@pytest.mark.parametrize("wrong", ["3 1 1\n", "1 4 1\n", "1 1 5\n", "1 1\n", "x 1 1\n"])
def test_judgements_that_name_nothing_are_refused(wrong, tmp_path, monkeypatch):
    for (name, _), text in zip(cranfield.FILES.items(), (DOCUMENTS, QUERIES, wrong), strict=True):
        (tmp_path / name).write_bytes(text.encode())
        source = Source("file:///none", hashlib.sha256(text.encode()).hexdigest())
        monkeypatch.setitem(cranfield.FILES, name, source)
    with pytest.raises(TableError, match=r"judgement|cannot be read"):
        read_cranfield(tmp_path, no_steps)


def test_the_command_checks_the_files_and_fetches_those_that_are_missing(tmp_path, monkeypatch):
    folder = tmp_path / "raw"
    for (name, _), text in zip(cranfield.FILES.items(), (DOCUMENTS, QUERIES, JUDGEMENTS), strict=True):
        (tmp_path / name).write_bytes(text.encode())
        source = Source((tmp_path / name).as_uri(), hashlib.sha256(text.encode()).hexdigest())
        monkeypatch.setitem(cranfield.FILES, name, source)
    folder.mkdir()
    done = call("data", "cranfield", "--root", folder)
    assert done.returncode == 0, done.stderr
    assert "3 documents, 2 queries and 3 relevant pairs" in " ".join(done.stdout.split())
    (folder / "cranqrel").write_text("1 1 1\n")
    assert call("data", "cranfield", "--root", folder).returncode != 0


def test_bm25_counts_words_that_are_rare_and_not_the_commonest():
    scores = bm25(parse(DOCUMENTS, QUERIES, JUDGEMENTS))
    assert (scores > 0).tolist() == [[True, False, False], [False, True, False]]
    count, length, mean = 2, 2, 4 / 3  # heat heat; the mean of 2, 2 and 0 words
    expected = np.log(1 + 2.5 / 1.5) * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))
    np.testing.assert_allclose(scores[1, 1], expected, rtol=1e-6)


def test_five_folds_test_every_query_once_and_never_train_on_it():
    tested = []
    for seed in range(5):
        parts = [set(part.tolist()) for part in split(225, seed)]
        assert [len(part) for part in parts] == [135, 45, 45]
        assert len(set.union(*parts)) == 225
        tested += parts[2]
    assert len(set(tested)) == 225
    assert split(225, 5)[2].tolist() != split(225, 0)[2].tolist()


def test_lists_hold_all_relevant_documents_and_the_hardest_negatives():
    search = load(MADE)
    model = Model(search)
    cosines = model(search, torch.arange(60)).detach()
    for grades, cosine, chosen in zip(search.grades, cosines, hard_lists(search, model), strict=True):
        assert len(set(chosen.tolist())) == 64
        assert grades[chosen].sum() == grades.sum()
        left = torch.ones(len(grades), dtype=torch.bool)
        left[chosen] = False
        assert cosine[left].max() <= cosine[chosen][grades[chosen] == 0].min()


def test_a_document_that_is_left_out_is_in_no_list_and_has_no_gradient():
    search = load(MADE)
    grades = search.grades.clone()
    hidden = (grades[0] == 0).nonzero()[3]
    grades[0, hidden] = LEFT_OUT
    search = search._replace(grades=grades)
    model = Model(search)
    lists = hard_lists(search, model)
    assert hidden.item() not in lists[0].tolist()
    documents = search.documents.clone().requires_grad_()
    for method in (name for name in METHODS if name.endswith(ALL)):
        loss = loss_of(method, search._replace(documents=documents), model, torch.tensor([0]), lists, torch.Generator())
        (gradient,) = torch.autograd.grad(loss, documents)
        assert not gradient[hidden].any()
        assert gradient.any()


@pytest.mark.parametrize("method", METHODS)
def test_a_step_down_the_gradient_lowers_the_loss_of_a_batch(method):
    search = load(MADE)
    model, queries = Model(search), torch.arange(20)
    lists = hard_lists(search, model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    values = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(method, search, model, queries, lists, torch.Generator().manual_seed(0))
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert values[-1] < values[0]


def test_baselines_do_not_train():
    (untuned, words) = (
        replace(config, iterations=6)
        for config in configs(text_search.DataOptions(seeds=1))
        if config.method not in METHODS
    )
    for config in (untuned, words):
        result = text_search.run(config)
        assert len({value for row in result.ndcg for value in row}) == 1
        result.check(config)
    assert text_search.run(untuned) != text_search.run(words)


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """A small collection with right checksums, in a folder of its own."""
    for (name, _), text in zip(cranfield.FILES.items(), (DOCUMENTS, QUERIES, JUDGEMENTS), strict=True):
        (tmp_path / name).write_bytes(text.encode())
        source = Source("file:///none", hashlib.sha256(text.encode()).hexdigest())
        monkeypatch.setitem(cranfield.FILES, name, source)
    return tmp_path


class Sentences:
    """A model of 32 numbers for each token, which needs no package."""

    def __call__(self, texts, progress):
        progress(1.0)
        return np.eye(32, dtype=np.float32)[: len(texts)]

    def before_last(self, texts, most):
        return torch.ones(len(texts), min(3, most), 32), torch.ones(len(texts), min(3, most), dtype=torch.bool)

    def last_layer(self):
        torch.manual_seed(0)
        return torch.nn.TransformerEncoderLayer(32, 1, 128, 0.0, "gelu", 1e-12, batch_first=True)


def test_what_does_not_train_is_computed_once(raw, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(raw / "cache"))
    monkeypatch.setattr(text_search, "SentenceModel", Sentences)
    source, notes = text_search.prepare(text_search.DataOptions(data=raw), 1, no_steps)
    assert (source.name, notes) == ("Cranfield", [])
    assert len(source.key) == 32
    search = load(source)
    torch.testing.assert_close(search.documents, torch.eye(3, 32))
    assert search.grades.tolist() == [[4, 0, 1], [2, LEFT_OUT, 0]]
    assert search.words.shape == (2, 3)
    model = Model(search)
    expected = torch.nn.functional.normalize(Sentences().last_layer()(search.states).mean(1), dim=-1)[:, :3]
    torch.testing.assert_close(model(search, torch.arange(2)), expected)
    before = search.layer.clone()
    torch.nn.init.zeros_(next(model.layer.parameters()))
    assert torch.equal(search.layer, before)  # the next model starts from the same weights
    monkeypatch.setattr(Sentences, "__call__", None)
    assert text_search.prepare(text_search.DataOptions(data=raw), 1, no_steps)[0] == source
    with pytest.raises(ValueError, match="--data DIR"):
        text_search.prepare(text_search.DataOptions(preset="paper"), 1, no_steps)


@pytest.mark.slow
def test_the_last_layer_in_torch_is_that_of_the_model():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128, "num_hidden_layers": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = transformers.BertModel(transformers.BertConfig(vocab_size=20, **sizes)).eval()
    ids, mask = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    model = object.__new__(SentenceModel)
    model._network, model._tokenizer = network, lambda texts, **_: {"input_ids": ids, "attention_mask": mask}
    states, tokens = model.before_last(["a", "b"], 32)
    assert torch.equal(tokens, mask > 0)
    with torch.inference_mode():
        found = model.last_layer()(states, src_key_padding_mask=~tokens)
        torch.testing.assert_close(found[tokens], network(ids, mask).last_hidden_state[tokens])


@pytest.fixture(scope="module")
def losses():
    return pytest.importorskip("sentence_transformers.cross_encoder.losses")


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name"), [
    ("ListNet", "ListNetLoss"), ("LambdaLoss", "LambdaLoss"), ("RankNet", "RankNetLoss"),
])  # fmt: skip
def test_losses_on_lists_are_those_of_sentence_transformers(method, name, losses):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((3, 9), generator=generator).requires_grad_()
    grades = torch.randint(5, (3, 9), generator=generator).float()

    class Given(torch.nn.Module):
        """A cross-encoder that has these scores."""

        num_labels, device = 1, torch.device("cpu")

        def preprocess(self, pairs, **_):
            return {"places": torch.tensor([int(document) for _, document in pairs])}

        def forward(self, tokens):
            return {"scores": scores.flatten()[tokens["places"]]}

    texts = [[str(9 * row + k) for k in range(9)] for row in range(3)]
    expected = getattr(losses, name)(Given())([["q"] * 3, texts], list(grades))
    found = METHODS[method](scores, grades)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, scores)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
def test_multiple_negatives_ranking_is_that_of_sentence_transformers(losses):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    search = load(MADE)._replace(grades=torch.eye(60, 150, dtype=torch.int8))  # no document is relevant twice
    lists = torch.cat([torch.arange(60).unsqueeze(1), torch.arange(60, 150).expand(60, -1)], 1)
    model, queries = Model(search), torch.tensor([3, 50, 7, 20])
    found = loss_of(MNR, search, model, queries, lists, torch.Generator().manual_seed(3))

    draw = torch.rand((4, 91), generator=torch.Generator().manual_seed(3))
    columns = [queries, *lists[0][1:][draw[:, 1:].topk(4).indices].T]
    vectors = [model.map(search.documents[column]) for column in columns]
    anchors = model.map(model.layer(search.states[queries]).mean(1))
    loss = MultipleNegativesRankingLoss(SimpleNamespace())
    torch.testing.assert_close(found, loss.compute_loss_from_embeddings([anchors, *vectors], None))
