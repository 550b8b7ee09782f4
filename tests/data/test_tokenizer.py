from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from bertlab.config import CorpusConfig
from bertlab.data.lines import Part
from bertlab.data.pieces import Piece
from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, given_vocabulary, normalizer, wordpiece
from bertlab.data.vocabulary_training import (
    CharacterCounter,
    Characters,
    SampleTask,
    TrainingTask,
    choose_alphabet,
    merge_characters,
    sample_piece,
    train_wordpiece,
)
from bertlab.errors import UserError

HARD_TEXT = [
    "Naïve café Ångström coöperate — résumé, İstanbul ǅ ß ﬁ ﬀ ½ ² Ⅷ ①",
    "日本語とEnglishの混在 中文字符 한국어 조선글 𠀀𠀁",
    "👩‍👩‍👧‍👦 family 🇫🇷 flags 😀😀 ☃",
    "control\u0000\u0001\u0008 \u200b\u200d\u2060\ufeff soft\u00adhyphen \ufffd replaced",
    "spaces\u00a0\u2003\u3000\u2028\u2029 tabs\tand\r\nlines\x0b\x0c\x85",
    "w" * 100 + " " + "w" * 101 + " " + "日" * 150,
    "http://example.org/a_b-c?d=e&f=%20 user@host.com C++ don't “quoted” ‘single’ … $5.00 #tag ~tilde `tick` ^hat",
    "العربية עברית ไทยไม่มีช่องว่าง हिन्दी Ελληνικά Σίσυφος Русский ЙЁ",
    "",
    "   ",
    "unaffable UNAFFABLE UnAfFaBlE antidisestablishmentarianism floccinaucinihilipilification",
]


# BertTokenizerLegacy (in Python) lowercases a capital sigma at a word's end to ς where the Rust tokenizers give σ, and it alone
# composes accents first.
NOT_FOR_LEGACY = ["ΣΊΣΥΦΟΣ", "e\u0301 as two code points, x\u0336 struck, \u0302 alone"]


@pytest.fixture(scope="module", params=["uncased", "cased"])
def published(request: pytest.FixtureRequest, shared_data: Path) -> tuple[Path, bool]:
    return shared_data / "vocab" / f"bert-base-{request.param}-vocab.txt", request.param == "uncased"


@pytest.mark.parametrize("implementation", ["BertTokenizer", "BertTokenizerLegacy"])
def test_published_vocabulary_tokenises_as_transformers_does(published: tuple[Path, bool], implementation: str) -> None:
    import transformers

    path, lowercase = published
    if not hasattr(transformers, implementation):
        pytest.skip(f"this version of transformers has no {implementation}")
    theirs = getattr(transformers, implementation)(str(path), do_lower_case=lowercase)
    ours = given_vocabulary(str(path), lowercase)
    for text in HARD_TEXT + ([] if implementation == "BertTokenizerLegacy" else NOT_FOR_LEGACY):
        expected = theirs(text)["input_ids"]
        assert ours.tokenizer.encode(text).ids == expected, text
        assert [ours.cls, *ours.plain_encoder().encode(text, add_special_tokens=False).ids, ours.sep] == expected, text


def test_published_vocabulary_is_described_rightly(published: tuple[Path, bool]) -> None:
    path, lowercase = published
    vocabulary = given_vocabulary(str(path), lowercase)
    tokens = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert vocabulary.size == len(tokens) == (30522 if lowercase else 28996)
    names = [tokens[i] for i in (vocabulary.pad, vocabulary.unknown, vocabulary.cls, vocabulary.sep, vocabulary.mask)]
    assert names == list(SPECIAL_TOKENS)
    reserved = {i for i, token in enumerate(tokens) if token in SPECIAL_TOKENS or token.startswith("[unused")}
    assert set(vocabulary.ordinary) == set(range(len(tokens))) - reserved
    assert np.all(np.diff(vocabulary.ordinary) > 0)
    assert [i for i, token in enumerate(tokens) if token[:2] == "##" and len(token) > 2] == list(np.flatnonzero(~vocabulary.starts_word))


def test_special_tokens_in_a_text_stay_text(published: tuple[Path, bool]) -> None:
    path, lowercase = published
    vocabulary = given_vocabulary(str(path), lowercase)
    special = {vocabulary.pad, vocabulary.cls, vocabulary.sep, vocabulary.mask}
    text = "a [MASK] b[SEP]c [CLS][PAD] [UNK] [mask]"
    assert special & set(vocabulary.tokenizer.encode(text, add_special_tokens=False).ids)
    encoder = vocabulary.plain_encoder()
    encoding = encoder.encode(text, add_special_tokens=False)
    assert not special & set(encoding.ids)
    assert vocabulary.unknown not in encoding.ids
    brackets = encoder.token_to_id("["), encoder.token_to_id("]")
    assert [sum(i == bracket for i in encoding.ids) for bracket in brackets] == [6, 6]


def small_vocabulary(*words: str, lowercase: bool = True) -> Vocabulary:
    return Vocabulary(wordpiece([*SPECIAL_TOKENS, *words], lowercase), "a test")


def test_save_and_load_keep_everything(tmp_path: Path) -> None:
    vocabulary = small_vocabulary("paris", "##ian", "e", "ö", lowercase=False)
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert loaded.fingerprint == vocabulary.fingerprint
    assert loaded.tokenizer.encode("parisian ö Paris").tokens == ["[CLS]", "paris", "##ian", "ö", "[UNK]", "[SEP]"]
    assert list(loaded.ordinary) == [5, 6, 7, 8]
    assert list(loaded.starts_word) == [True] * 6 + [False, True, True]


def test_fingerprint_tells_vocabularies_apart() -> None:
    fingerprints = [
        small_vocabulary("a", "b").fingerprint,
        small_vocabulary("b", "a").fingerprint,
        small_vocabulary("a", "b", "c").fingerprint,
        small_vocabulary("a", "b", lowercase=False).fingerprint,
    ]
    assert len(set(fingerprints)) == 4


def test_padding_and_truncation_of_a_given_tokenizer_are_not_applied(tmp_path: Path) -> None:
    tokenizer = wordpiece([*SPECIAL_TOKENS, "a"], True)
    tokenizer.enable_padding(length=10)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = given_vocabulary(str(tmp_path), True)
    assert vocabulary.plain_encoder().encode("a a a a a a", add_special_tokens=False).ids == [5] * 6
    assert vocabulary.fingerprint == small_vocabulary("a").fingerprint


def hugging_face_folder(folder: Path, words: list[str], **config: object) -> Path:
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_hugging_face_folder_says_itself_whether_it_is_lowercased(tmp_path: Path) -> None:
    cased = hugging_face_folder(tmp_path / "cased", ["Paris", "paris"], do_lower_case=False)
    uncased = hugging_face_folder(tmp_path / "uncased", ["Paris", "paris"], do_lower_case=True)
    silent = hugging_face_folder(tmp_path / "silent", ["Paris", "paris"])
    assert given_vocabulary(str(cased), True).tokenizer.encode("Paris").tokens[1] == "Paris"
    assert given_vocabulary(str(uncased), False).tokenizer.encode("Paris").tokens[1] == "paris"
    assert given_vocabulary(str(silent), False).tokenizer.encode("Paris").tokens[1] == "Paris"


def test_tokenizer_json_of_a_folder_goes_before_its_vocab_txt(tmp_path: Path) -> None:
    folder = hugging_face_folder(tmp_path / "both", ["paris"], do_lower_case=False)
    small_vocabulary("##x", "Paris", lowercase=True).save(folder / "tokenizer.json")
    assert given_vocabulary(str(folder), True).tokenizer.encode("Paris").ids[1] == 6


def test_unusual_tokens_of_a_vocab_txt_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIAL_TOKENS, "\u2028", "\x85", "x"]).encode() + b"\r\n\r\n")
    assert given_vocabulary(str(path), True).tokenizer.token_to_id("x") == 7


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n", r"vocab.txt lacks the special token \[MASK\]"),
        ("word\nother\n", r"lacks the special tokens \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\na\n", r"vocab.txt:8 repeats the token 'a' of line 6"),
        ("[PAD]\n[UNK]\n\n[CLS]\n[SEP]\n[MASK]\n", r"vocab.txt:3 is empty"),
        (b"\xff\xfe\x00\x01", r"not UTF-8"),
    ],
)
def test_wrong_vocab_txt_is_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message):
        given_vocabulary(str(path), True)


def test_what_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        given_vocabulary(str(tmp_path / "nowhere"), True)
    with pytest.raises(UserError, match=r"neither tokenizer\.json nor vocab\.txt"):
        given_vocabulary(str(tmp_path), True)
    with pytest.raises(UserError, match=r"needs tokenizer\.path"):
        given_vocabulary("", True)
    (tmp_path / "config.json").write_text('{"hidden_size": 768}')
    with pytest.raises(UserError, match=r"not a tokenizer\.json"):
        given_vocabulary(str(tmp_path / "config.json"), True)
    Tokenizer(models.BPE(dict.fromkeys(SPECIAL_TOKENS, 0), [])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="holds a BPE tokenizer"):
        given_vocabulary(str(tmp_path), True)


@pytest.mark.parametrize("change", [{"unk_token": "word"}, {"vocab": {"[PAD]": 0, "word": 1}}])
def test_words_that_a_vocabulary_lacks_have_their_token(change: dict[str, Any], tmp_path: Path) -> None:
    """The library would raise at the first such word of a text."""
    whole = json.loads(wordpiece([*SPECIAL_TOKENS, "word"], True).to_str())
    whole["model"].update(change)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(whole))
    with pytest.raises(UserError, match=r"tokenizer\.json does not have \[UNK\] in its vocabulary for words that it lacks"):
        given_vocabulary(str(path), True)


# Training


def sampled(tmp_path: Path, text: str, lowercase: bool = True, share: int = 1 << 40) -> tuple[Path, Characters]:
    """The sample that is drawn of ``text``, one document a paragraph."""
    source = tmp_path / "source.txt"
    source.write_text(text, encoding="utf-8")
    piece = Piece("sentences", CorpusConfig(kind="sentences", path=str(source)), (Part(str(source)),))
    task = SampleTask(piece, share, tmp_path / "sample.txt", tmp_path / "kept.jsonl", lowercase)
    characters = sample_piece(task, lambda _: None).characters
    return tmp_path / "sample.txt", characters


def trained(tmp_path: Path, text: str, vocab_size: int, lowercase: bool = True) -> list[str]:
    """The vocabulary trained on ``text``, in the order of ids."""
    path, characters = sampled(tmp_path, text, lowercase)
    alphabet = choose_alphabet(characters, vocab_size)
    tokenizer = Tokenizer.from_str(train_wordpiece(TrainingTask([path], alphabet, vocab_size, lowercase), lambda _: None))
    ids = tokenizer.get_vocab()
    assert sorted(ids.values()) == list(range(len(ids)))
    return sorted(ids, key=ids.__getitem__)


def prose(words: int, seed: int = 0) -> str:
    """Made-up text with a skewed distribution over words of rare and frequent letters."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxzéßж日"))
    weights = 1 / np.arange(1, len(letters) + 1)
    lexicon = ["".join(random.choice(letters, random.integers(2, 9), p=weights / weights.sum())) for _ in range(3000)]
    ranks = np.minimum(random.zipf(1.3, words) - 1, len(lexicon) - 1)
    return "\n".join(" ".join(lexicon[r] for r in ranks[i : i + 20]) + "." for i in range(0, words, 20))


def test_trained_vocabulary_has_exactly_the_size_asked_for(tmp_path: Path) -> None:
    text = prose(20_000)
    for size in (60, 100, 1000):
        tokens = trained(tmp_path, text, size)
        assert len(tokens) == size
        assert tuple(tokens[:5]) == SPECIAL_TOKENS


def test_vocabulary_of_a_small_text_has_all_pieces_that_occur_twice(tmp_path: Path) -> None:
    tokens = trained(tmp_path, "tea tea\n\nsun sun sun\n\nonce", 1000)
    assert {"tea", "sun"} <= set(tokens)
    assert "once" not in tokens
    singles = {t.removeprefix("##") for t in tokens[5:]} & set("abcdefghijklmnopqrstuvwxyz")
    assert singles == set("teasunoc")
    assert "##t" not in tokens  # t only ever begins a word here
    assert tokens[5:] == [*sorted("teasunoc"), *(f"##{c}" for c in sorted("eaunc")), *tokens[5 + 8 + 5 :]]


def test_most_frequent_pair_is_merged_first(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ab ab ab ab cd cd cd ef ef " * 3)
    alphabet = [*"abcdef", "##b", "##d", "##f"]
    for extra, expected in ((1, ["ab"]), (2, ["ab", "cd"]), (3, ["ab", "cd", "ef"])):
        task = TrainingTask([tmp_path / "text"], alphabet, 5 + len(alphabet) + extra, True)
        ids = Tokenizer.from_str(train_wordpiece(task, lambda _: None)).get_vocab()
        assert sorted(ids, key=ids.__getitem__)[5 + len(alphabet) :] == expected


def test_case_and_accents(tmp_path: Path) -> None:
    text = "Été Été été Zoë Zoë " * 3
    assert {"ete", "zoe"} <= set(trained(tmp_path, text, 200))
    cased = set(trained(tmp_path, text, 200, lowercase=False))
    assert {"Été", "Zoë", "##té"} <= cased
    assert not {"ete", "zoe"} & cased


TRAIN = """
import sys
from pathlib import Path
from typing import Any
sys.path.insert(0, {tests!r})
from test_tokenizer import prose, sampled
from bertlab.data.vocabulary_training import TrainingTask, choose_alphabet, train_wordpiece
import os
folder = Path({folder!r}) / str(os.getpid())
folder.mkdir()
path, characters = sampled(folder, prose(60_000))
sys.stdout.write(train_wordpiece(TrainingTask([path], choose_alphabet(characters, 2000), 2000, True), lambda _: None))
"""


def test_training_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    script = TRAIN.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    results = set()
    for seed, threads in (("1", "1"), ("2", "2"), ("3", "1")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
        results.add(hashlib.sha256(done.stdout).hexdigest())
        assert len(json.loads(done.stdout)["model"]["vocab"]) == 2000
    assert len(results) == 1


@settings(max_examples=60)
@given(st.lists(st.text(alphabet=st.sampled_from("abé日 。.,-\n\u0301_x9\u00a0ßж"), max_size=30), max_size=4))
def test_characters_are_counted_as_the_pre_tokeniser_sees_them(texts: list[str]) -> None:
    counter = CharacterCounter()
    continuing: set[str] = set()
    counts: dict[str, int] = {}
    for text in texts:
        clean = normalizer(False).normalize_str(text)
        counter.add(clean)
        for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(clean):
            continuing |= set(word[1:])
            for character in word:
                counts[character] = counts.get(character, 0) + 1
    found = counter.result()
    assert dict(zip(map(chr, found.points), found.counts, strict=True)) == counts
    assert {chr(p) for p in found.points[found.continuing]} == continuing


def test_alphabet_keeps_the_most_frequent_characters_with_ties_by_code_point() -> None:
    def characters(counts: dict[str, int], continuing: str) -> Characters:
        points = sorted(counts)
        return Characters(
            np.array([ord(c) for c in points]), np.array([counts[c] for c in points]), np.array([c in continuing for c in points])
        )

    merged = merge_characters([characters({"z": 3, "a": 1, "b": 2}, "z"), characters({"a": 1, "c": 2, "q": 1}, "a")])
    assert choose_alphabet(merged, 5 + 3 * 3) == ["a", "b", "z", "##a", "##z"]  # z: 3, then a, b, c with 2 each: a and b
    assert choose_alphabet(merged, 5 + 3 * 2) == ["a", "z", "##a", "##z"]


def test_large_corpus_is_sampled_evenly_and_within_bounds(tmp_path: Path) -> None:
    documents = [f"document{number:05d} " + "x" * (number % 7) for number in range(10_000)]
    path, _ = sampled(tmp_path, "\n\n".join(documents), share=20_000)
    taken = [int(word.removeprefix("document")) for word in path.read_text().split() if word.startswith("document")]
    assert path.stat().st_size <= 20_100
    assert len(taken) * len("document00000 xxx") > 8_000  # not less than half of what fits
    gaps = set(np.diff(taken))
    assert len(gaps) == 1  # evenly spread
    assert max(taken) > 9_900 - gaps.pop()


def test_small_corpus_is_taken_whole_and_overlong_words_are_left_out(tmp_path: Path) -> None:
    path, _ = sampled(tmp_path, f"One two.\n\n{'q' * 101} Three {'w' * 100}")
    assert path.read_text().split() == ["one", "two.", "three", "w" * 100]


def test_tokenizer_that_cleans_up_otherwise_is_refused(tmp_path: Path) -> None:
    tokenizer = wordpiece([*SPECIAL_TOKENS, "a"], True)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="differently from BERT"):
        given_vocabulary(str(tmp_path), True)
    tokenizer = wordpiece([*SPECIAL_TOKENS, "a"], True)
    tokenizer.add_tokens(["covid19"])
    assert Vocabulary(tokenizer, "a test").size == 7
    tokenizer.add_tokens(["new york"])
    with pytest.raises(UserError, match="'new york'"):
        Vocabulary(tokenizer, "a test")
