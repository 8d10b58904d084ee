"""Operators on strings, n-grams, and encoded images."""

import io

import numpy as np
from PIL import Image

from tests.differential.draw import Draw, Parts
from tests.differential.recipes.registry import recipe

PATTERNS = (r"[a-z]+", r"\d+(\.\d+)?", r".*", r"(a|b)c?", r"[^x]*", r"\w+ \w+", r"")


@recipe("StringConcat")
def string_concat(d: Draw) -> Parts:
    first, second = d.broadcast(2, 3)
    return Parts([d.tensor("string", first), d.tensor("string", second)])


@recipe("StringSplit")
def string_split(d: Draw) -> Parts:
    words = ("a b c", "x,y", "one", "a  b", ",", "a,b,c,d", " lead", "trail ", "p;q")
    shape = d.shape(0, 2, empty=False)
    x = np.asarray(np.array(words, object)[d.rng.integers(len(words), size=shape)], object).reshape(shape)
    return Parts([x], d.attributes(delimiter=d.pick([",", " ", ";", ""]), maxsplit=d.int(0, 3)), 2)


@recipe("StringNormalizer")
def string_normalizer(d: Draw) -> Parts:
    shape = d.pick([(4,), (1, 4), (1,), (6,)])
    words = ("Monday", "tuesday", "THE", "the", "a", "WeD")
    x = np.asarray(np.array(words, object)[d.rng.integers(len(words), size=shape)], object).reshape(shape)
    named = d.attributes(
        case_change_action=d.pick(["NONE", "LOWER", "UPPER"]), is_case_sensitive=d.int(0, 1), stopwords=["the", "a"]
    )
    return Parts([x], named)


@recipe("RegexFullMatch")
def regex(d: Draw) -> Parts:
    return Parts([d.tensor("string", d.shape(0, 3))], {"pattern": d.pick(PATTERNS)})


@recipe("TfIdfVectorizer")
def tf_idf(d: Draw) -> Parts:
    is_text = d.dtype("T").kind == "O"
    words = ["a", "b", "c", "d"] if is_text else [1, 2, 3, 4]
    singles = d.sample(words, d.int(1, 3))
    pairs = [d.pick(words) for _ in range(2 * d.int(1, 3))]
    pairs = [pairs[i : i + 2] for i in range(0, len(pairs), 2)]
    unique_pairs = [pair for i, pair in enumerate(pairs) if pair not in pairs[:i]]
    pool = [*singles, *(word for pair in unique_pairs for word in pair)]
    count = len(singles) + len(unique_pairs)
    low = d.int(1, 2)
    named = {
        "mode": d.pick(["TF", "IDF", "TFIDF"]),
        "min_gram_length": low,
        "max_gram_length": d.int(low, 2),
        "max_skip_count": d.int(0, 2),
        "ngram_counts": [0, len(singles)],
        "ngram_indexes": [int(i) for i in d.rng.permutation(count)],
        "pool_strings" if is_text else "pool_int64s": pool,
    }
    if d.flag() or named["mode"] != "TF":
        named["weights"] = [d.real(0.5, 2) for _ in range(count)]
    shape = (d.int(1, 6),) if d.flag() else (d.int(1, 3), d.int(1, 6))
    table = np.array(words, object if is_text else d.dtype("T"))
    return Parts([table[d.rng.integers(4, size=shape)]], named)


@recipe("ImageDecoder")
def image_decoder(d: Draw) -> Parts:
    pixels = d.tensor("uint8", (d.int(1, 6), d.int(1, 6), 3), 0, 255)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, d.pick(["PNG", "BMP", "PPM"]))
    data = np.frombuffer(stream.getvalue(), np.uint8)
    return Parts([data], d.attributes(pixel_format=d.pick(["RGB", "BGR", "Grayscale"])))
