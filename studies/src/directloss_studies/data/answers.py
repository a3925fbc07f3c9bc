"""Answers of people as tables: whether two names mean one product, and whether a tweet is hate speech.

Three people answered each question about products (Wang et al., VLDB 2012). The files, the right answers and some more
are in the GitHub repository zhydhkcws/crowd_truth_infer, which names no licence for them. Three people or more judged
each tweet (Davidson et al., ICWSM 2017; MIT); here the majority is taken as right. Nothing of them is part of
directloss, and a table holds numbers only, no text.
"""

import ast
import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..harness.files import distrusted, write_whole
from ..harness.progress import Progress, Steps
from .sentences import SentenceModel
from .sources import Source, read_sources
from .tabular import TableError

__all__ = ["SHARES", "convert_answers"]

GITHUB = "https://raw.githubusercontent.com"
PRODUCTS = f"{GITHUB}/zhydhkcws/crowd_truth_infer/8d216471071f09b9e474ee19f8d692447f982f88/datasets/d_jn-product"
TWEETS = f"{GITHUB}/t-davidson/hate-speech-and-offensive-language/cb50f7e9eb855a99abc51423bf40df0e26d6fe30/data"
PRODUCT_FILES = {
    name: Source(f"{PRODUCTS}/{name}", digest)
    for name, digest in (
        ("data_product", "647605cba6cbe2a6f65c86452028495c8ae44a8becfb73d51d67bb11e4462a4d"),
        ("truth.csv", "9a5757c726ef1a32b05f6a675924c483b24d602c61b1a2d087ab3d84f90b3766"),
        ("answer.csv", "ca69e3f2cba3d6f9c3b3ecc2f8d2a81afcd747d0b91aa5ab18608a5715e26adc"),
    )
}
TWEET_FILES = {
    "labeled_data.csv": Source(
        f"{TWEETS}/labeled_data.csv", "fcb8bc7c68120ae4af04a5b9acd58585513ede11e1548ebf36a5c2040b6f6281"
    )
}
LONGEST = 1 << 14  # characters of a product
SHARES = "answer_shares.json"


class Product(NamedTuple):
    """What a shop says of a product."""

    name: str
    description: str
    price: str


class Answers(NamedTuple):
    """Of each item: the right answer, the number of people who answered, and how many of them said yes."""

    right: NDArray[np.bool_]
    votes: NDArray[np.int64]
    yes: NDArray[np.int64]

    def single(self) -> NDArray[np.bool_]:
        """The answer of one person for each item, drawn with a fixed seed."""
        return np.random.default_rng(0).random(len(self.votes)) * self.votes < self.yes


def convert_answers(root: Path, steps: Steps) -> str:
    """Write the tables product, product14 (14 good columns of it) and tweets; and the shares of wrong labels."""
    model = SentenceModel()
    product_texts = read_sources(root, PRODUCT_FILES, steps("fetching products"))
    tweet_texts = read_sources(root, TWEET_FILES, steps("fetching tweets"))
    with distrusted(f"The products in {root} cannot be read", TableError):
        pairs, product = _questions(*product_texts[1:])
        inputs = _pair_columns(_products(product_texts[0]), pairs, model, steps("columns of products"))
    given = {"single": product.single(), "majority": 2 * product.yes > product.votes}
    _write(root / "product.npz", inputs, product.right, given)
    _write(root / "product14.npz", inputs[:, -14:], product.right, given)
    with distrusted(f"The tweets in {root} cannot be read", TableError):
        texts, tweets = _tweets(*tweet_texts)
        columns = model(texts, steps("columns of tweets"))
    _write(root / "tweets.npz", columns, tweets.right, {"single": tweets.single()})
    kinds = [*(("product", product, *some) for some in given.items()), ("tweets", tweets, "single", tweets.single())]
    records = [record for name, of, kind, labels in kinds for record in _shares(name, of.right, kind, labels)]
    write_whole(root / SHARES, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    return (
        f"{root} holds product.npz and product14.npz ({len(pairs)} pairs of products, no licence named) and tweets.npz "
        f"({len(texts)} tweets, MIT). {SHARES} says how many labels are wrong."
    )


def _products(text: str) -> dict[int, Product]:
    """By number. A line is a Python list of number, name, description and price; the first one names them."""
    products = {}
    for line in text.splitlines()[1:]:
        if not line.strip():
            continue
        if len(line) > LONGEST:
            raise TableError(f"A line of data_product has {len(line)} characters; at most {LONGEST} are read.")
        number, *rest = ast.literal_eval(line)
        name, description, price = (str(part or "") for part in rest)
        products[int(number)] = Product(name, description, price)
    return products


def _questions(truth: str, answers: str) -> tuple[list[tuple[int, int]], Answers]:
    """The two products of each question, and its answers.

    A question is called A_B_TRUTH: A and B are numbers of products, and the third part must not be used.
    """
    right = {row["question"]: _bit(row["truth"]) for row in _rows(truth)}
    given: dict[str, list[int]] = {question: [] for question in right}
    for row in _rows(answers):
        given[row["question"]].append(_bit(row["answer"]))
    pairs = [(int(first), int(second)) for first, second, _ in (question.split("_") for question in right)]
    counts = np.array([(len(some), sum(some)) for some in given.values()])
    return pairs, _checked(np.array([*right.values()]) == 1, counts)


def _tweets(text: str) -> tuple[list[str], Answers]:
    """Tweets without names and addresses, and whether people said that they are hate speech."""
    rows = list(_rows(text))
    counts = np.array([(int(row["count"]), int(row["hate_speech"])) for row in rows])
    texts = [row["tweet"] for row in rows]
    for pattern, word in ((r"&#?\w+;", " "), (r"https?://\S+", "http"), (r"@\w+", "@user"), (r"\s+", " ")):
        texts = [re.sub(pattern, word, tweet) for tweet in texts]
    return [tweet.strip() for tweet in texts], _checked(np.array([int(row["class"]) == 0 for row in rows]), counts)


def _rows(text: str) -> Any:
    return csv.DictReader(io.StringIO(text))


def _bit(text: str) -> int:
    if text not in ("0", "1"):
        raise TableError(f"An answer must be 0 or 1; got {text[:20]!r}.")
    return int(text)


def _checked(right: NDArray[np.bool_], counts: NDArray[np.int64]) -> Answers:
    votes, yes = counts.reshape(-1, 2).T
    if not len(right) or (votes < 1).any() or (yes < 0).any() or (yes > votes).any():
        raise TableError("Each item needs one answer or more, and no more answers with yes than there are.")
    return Answers(right, votes, yes)


def _pair_columns(
    products: dict[int, Product], pairs: list[tuple[int, int]], model: SentenceModel, progress: Progress
) -> NDArray[np.float32]:
    """(pairs, 782): |a − b| and a·b of the vectors of names, two cosines, and twelve columns of `_overlaps`."""
    row = {number: k for k, number in enumerate(products)}
    texts = [f"{product.name}. {product.description}" for product in products.values()]
    name = model([product.name for product in products.values()], lambda share: progress(share / 3))
    whole = model(texts, lambda share: progress((1 + 2 * share) / 3))
    a, b = np.array([(row[first], row[second]) for first, second in pairs]).T
    cosines = [(vectors[a] * vectors[b]).sum(1, keepdims=True) for vectors in (name, whole)]
    overlaps = [_overlaps(products[first], products[second]) for first, second in pairs]
    return np.concatenate([np.abs(name[a] - name[b]), name[a] * name[b], *cosines, overlaps], axis=1, dtype=np.float32)


def _overlaps(a: Product, b: Product) -> list[float]:
    """Words, codes (words with a digit) and letters that two products share; and their prices."""
    texts = [f"{product.name}. {product.description}" for product in (a, b)]
    (words, other_words), (all_words, other_all) = map(_words, (a.name, b.name)), map(_words, texts)
    codes, other_codes = map(_codes, texts)
    letters = [{name[k : k + 3] for k in range(len(name) - 2)} for name in (a.name.lower(), b.name.lower())]
    prices = _price(a), _price(b)
    known = all(0 < price < math.inf for price in prices)
    return [
        _jaccard(words, other_words), _contained(words, other_words), len(words & other_words),
        _jaccard(all_words, other_all), _contained(all_words, other_all), _jaccard(_codes(a.name), _codes(b.name)),
        len(codes & other_codes), _contained(codes, other_codes), _jaccard(*letters),
        abs(len(words) - len(other_words)), float(known), abs(math.log(prices[0] / prices[1])) if known else 0.0,
    ]  # fmt: skip


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _codes(text: str) -> set[str]:
    return {word for word in _words(re.sub(r"[-/]", "", text)) if len(word) > 2 and re.search(r"\d", word)}


def _price(product: Product) -> float:
    return float(re.sub(r"[^0-9.]", "", product.price) or "nan")


def _jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / max(len(a | b), 1)


def _contained(a: set[str], b: set[str]) -> float:
    return len(a & b) / max(min(len(a), len(b)), 1)


def _write(path: Path, inputs: NDArray[Any], right: NDArray[np.bool_], given: dict[str, NDArray[np.bool_]]) -> None:
    buffer = io.BytesIO()
    noisy: dict[str, Any] = {f"noisy_{kind}": labels for kind, labels in given.items()}
    np.savez_compressed(buffer, X=inputs, y=right, **noisy)
    write_whole(path, buffer.getvalue())


def _shares(name: str, right: NDArray[np.bool_], kind: str, labels: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Flat records, as those of CIFAR-10N; the class is the table."""
    values = {
        "positives": np.mean(right),
        "wrong": np.mean(right != labels),
        "positives missed": np.mean(~labels[right]),
        "positive labels that are wrong": np.mean(~right[labels]),
    }
    names = {"experiment": "tables", "method": "labels", "noise": 0.0, "variant": f"human {kind}", "class": name}
    return [{**names, "metric": m, "mean": round(float(v), 6), "sd": None, "n": len(right)} for m, v in values.items()]
