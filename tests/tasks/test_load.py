"""Tasks out of files of every format and kind, and what is said of files that hold something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_files import configured, load, write, write_objects, write_rows

from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.tasks.convert import may_lack_labels, placed_answers
from bertlab.tasks.examples import Answer, ChoiceExample, SpanExample, TaggingExample, TextExample
from bertlab.tasks.load import available_splits
from bertlab.tasks.rows import Reading

CONTEXT = "The cat sat. The cat ran."


class TestGlue:
    def test_cola_has_no_header_but_its_test_file_has_one(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "CoLA/train.tsv", ("gj04", "0", "*", "They sleeps."), ("gj04", "1", "", '"Quoted.'))
        write_rows(tmp_path / "CoLA/dev.tsv", ("gj04", "1", "", "They sleep."))
        write_rows(tmp_path / "CoLA/test.tsv", ("index", "sentence"), ("0", "Bill whistled."))
        data = load(configured("cola", path=str(tmp_path)), "train", "dev", "test")
        assert data.splits["train"] == [TextExample("0", "They sleeps.", None, 0), TextExample("1", '"Quoted.', None, 1)]
        assert data.splits["test"] == [TextExample("0", "Bill whistled.", None, None)]
        assert data.labels == ["0", "1"]

    def test_rows_of_mnli_without_agreement_are_left_out_and_counted_and_keep_their_numbers(self, tmp_path: Path) -> None:
        header = ("index", "sentence1", "sentence2", "label1", "label2", "gold_label")
        rows = [("0", "A", "B", "neutral", "neutral", "neutral"), ("1", "C", "D", "neutral", "entailment", "-")]
        write_rows(tmp_path / "dev_matched.tsv", header, *rows, ("2", "E", "F", "-", "-", "entailment"))
        write_rows(tmp_path / "test_mismatched.tsv", header[:3], ("0", "A", "B"))
        data = load(configured("mnli", path=str(tmp_path)), "dev", "test_mismatched")
        assert [(example.id, example.pair, example.label) for example in data.splits["dev"]] == [("0", "B", 2), ("2", "F", 1)]
        assert data.left_out == {"dev: label '-'": 1}
        assert data.splits["test_mismatched"][0].label is None
        assert available_splits(configured("mnli", path=str(tmp_path)), PathsConfig()) == ["dev", "test_mismatched"]

    def test_the_diagnostic_set_lies_in_a_folder_of_its_own(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "MNLI/dev_matched.tsv", ("sentence1", "sentence2", "gold_label"), ("A", "B", "neutral"))
        write_rows(tmp_path / "diagnostic/diagnostic.tsv", ("index", "sentence1", "sentence2"), ("0", "C", "D"))
        assert load(configured("mnli", path=str(tmp_path)), "ax").splits["ax"] == [TextExample("0", "C", "D", None)]

    def test_malformed_rows_of_qqp_are_left_out_and_counted(self, tmp_path: Path) -> None:
        header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
        write_rows(
            tmp_path / "QQP/train.tsv", header, ("1", "2", "3", "A?", "B?", "1"), ("1", "2", "3", "A?"), ("1", "2", "3", "C?", "D?", "0")
        )
        data = load(configured("qqp", path=str(tmp_path)), "train")
        assert [example.text for example in data.splits["train"]] == ["A?", "C?"]
        assert data.left_out == {"train: too few or too many columns": 1}

    def test_stsb_has_numbers(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "train.tsv", ("index", "sentence1", "sentence2", "score"), ("0", "A", "B", "3.800"))
        assert load(configured("stsb", path=str(tmp_path)), "train").splits["train"] == [TextExample("0", "A", "B", 3.8)]


class TestOnesOwn:
    def test_a_yaml_is_enough_for_a_table_of_any_names(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text('stars;"review"\n5;"Good; really"\n1;Bad\n', encoding="utf-8")
        write(tmp_path / "dev.csv", "review;stars", "Fine;5")
        task = configured("classification", path=str(tmp_path), delimiter=";", columns={"text": "review", "label": "stars"})
        data = load(task)
        assert data.labels == ["1", "5"]
        assert data.splits == {
            "train": [TextExample("0", "Good; really", None, 1), TextExample("1", "Bad", None, 0)],
            "dev": [TextExample("0", "Fine", None, 1)],
        }

    def test_labels_come_from_the_training_file_whatever_is_asked_for(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"text": "a", "label": 10}, {"text": "b", "label": 9}, {"text": "c", "label": 2})
        write_objects(tmp_path / "dev.jsonl", {"text": "a", "label": 9})
        data = load(configured("classification", path=str(tmp_path)), "dev")
        assert (data.labels, data.splits) == (["2", "9", "10"], {"dev": [TextExample("0", "a", None, 1)]})

    def test_an_empty_label_is_no_class_of_its_own(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"text": "a", "label": "x"}, {"text": "b", "label": " "}, {"text": "c", "label": "y"})
        with pytest.raises(UserError, match=r"train\.jsonl:2: 'label' is empty: .*task\.leave_out"):
            load(configured("classification", path=str(tmp_path)), "train")
        data = load(configured("classification", path=str(tmp_path), leave_out=[" "]), "train")
        assert (data.labels, data.left_out) == (["x", "y"], {"train: label ' '": 1})

    def test_labels_may_be_any_scalar_of_json(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"text": "a", "label": True}, {"text": "b", "label": "no"}, {"text": "c", "label": 1.5})
        assert load(configured("classification", path=str(tmp_path)), "train").labels == ["1.5", "no", "true"]

    def test_numbers_of_pairs(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"text": "a", "pair": "b", "label": -2}, {"text": "a", "pair": "b", "label": "1e-3"})
        columns = {"text": "text", "pair": "pair", "label": "label"}
        data = load(configured("regression", path=str(tmp_path), columns=columns), "train")
        assert [example.label for example in data.splits["train"]] == [-2.0, 0.001]

    def test_choices_in_columns_or_in_a_list_by_number_or_by_name(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"text": "t", "choices": ["x", "y", "z"], "label": 2})
        write_rows(tmp_path / "dev.tsv", ("q", "one", "two", "right"), ("t", "x", "y", "B"))
        columns = {"text": "q", "choices": ["one", "two"], "label": "right"}
        layouts = {"tsv": {"columns": columns}}
        assert load(configured("choice", path=str(tmp_path)), "train").splits["train"] == [ChoiceExample("0", "t", ("x", "y", "z"), 2)]
        data = load(configured("choice", path=str(tmp_path), layouts=layouts, labels=["A", "B"]), "dev")
        assert (data.splits["dev"], data.labels) == ([ChoiceExample("0", "t", ("x", "y"), 1)], [])

    def test_choices_may_have_a_common_beginning(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "train.tsv", ("a", "b", "c", "d", "label"), ("He sat.", "Then he", "ran.", "flew.", "0"))
        columns = {"text": "a", "choice_start": "b", "choices": ["c", "d"], "label": "label"}
        example = load(configured("choice", path=str(tmp_path), columns=columns), "train").splits["train"][0]
        assert example == ChoiceExample("0", "He sat.", ("Then he ran.", "Then he flew."), 0)

    def test_words_and_tags_in_lists_between_spaces_and_in_columns(self, tmp_path: Path) -> None:
        expected = [TaggingExample("0", ("Ann", "Lee", "ran"), (1, 2, 0))]
        labels = ["O", "B-P", "I-P"]
        write(tmp_path / "train.txt", "Ann NNP I-P", "Lee NNP I-P", "ran VBD O", "")
        write_objects(tmp_path / "dev.jsonl", {"words": ["Ann", "Lee", "ran"], "tags": ["B-P", "I-P", "O"]})
        write_rows(tmp_path / "test.tsv", ("words", "tags"), ("Ann Lee ran", "B-P I-P O"))
        data = load(configured("tagging", path=str(tmp_path)), "train", "dev", "test")
        assert data.splits == {"train": expected, "dev": expected, "test": expected}
        assert data.labels == labels

    def test_tags_that_stand_for_themselves(self, tmp_path: Path) -> None:
        write(tmp_path / "train.conll", "Ann\tNNP", "ran\tVBD")
        data = load(configured("tagging", path=str(tmp_path), scheme="none"), "train")
        assert (data.labels, data.splits["train"][0].tags) == (["NNP", "VBD"], (0, 1))

    def test_spans_with_and_without_their_place(self, tmp_path: Path) -> None:
        row = {"question": "Who?", "context": CONTEXT}
        write_objects(tmp_path / "train.jsonl", {**row, "answer": "cat", "at": 17}, {**row, "answer": ["cat", "The cat"], "at": [4, 13]})
        write_rows(tmp_path / "dev.tsv", ("question", "context", "answer"), ("Who?", CONTEXT, "cat"), ("Why?", CONTEXT, ""))
        columns = {"question": "question", "context": "context", "answer": "answer", "answer_start": "at"}
        task = configured("span", path=str(tmp_path), columns=columns, no_answer=True)
        with_places = load(task, "train").splits["train"]
        assert [example.answers for example in with_places] == [(Answer("cat", 17),), (Answer("cat", 4), Answer("The cat", 13))]
        task = configured("span", path=str(tmp_path), no_answer=True)
        assert [example.answers for example in load(task, "dev").splits["dev"]] == [(Answer("cat", 4),), ()]

    def test_ids_of_ones_own_and_dotted_names(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", {"meta": {"id": 7}, "a": {"b": {"c": "deep"}}, "label": "x"})
        columns = {"id": "meta.id", "text": "a.b.c", "label": "label"}
        data = load(configured("classification", path=str(tmp_path), columns=columns), "train")
        assert data.splits["train"] == [TextExample("7", "deep", None, 0)]

    def test_half_a_surrogate_pair_becomes_a_character_that_can_be_written(self, tmp_path: Path) -> None:
        write(tmp_path / "train.jsonl", '{"text": "a\\ud83d b \\ud83d\\ude00", "label": "x"}')
        assert load(configured("classification", path=str(tmp_path)), "train").splits["train"][0].text == "a\ufffd b 😀"


SWAG = [{"startphrase": f"He {number % 7}", "choices": ["a", "b", "c", "d"], "answer": number % 4} for number in range(40)]


class TestOneFileParted:
    def test_it_is_parted_by_content_whatever_the_order_and_it_is_said(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "a/val.jsonl", *SWAG)
        write_objects(tmp_path / "b/val.jsonl", *reversed(SWAG))
        one, other = (load(configured("swag", path=str(tmp_path / name))) for name in "ab")
        for split in ("train", "dev"):
            assert sorted((e.text, e.label) for e in one.splits[split]) == sorted((e.text, e.label) for e in other.splits[split])
        assert len(one.splits["train"]) + len(one.splits["dev"]) == len(SWAG)
        assert len(one.splits["dev"]) in (12, 13)  # three tenths of 40, and perhaps a copy of the last one
        assert not {(e.text, e.label) for e in one.splits["train"]} & {(e.text, e.label) for e in one.splits["dev"]}  # copies stay together
        assert "are dev and the other" in one.notes[0]
        assert load(configured("swag", path=str(tmp_path / "a")), "dev").splits["dev"] == one.splits["dev"]
        assert available_splits(configured("swag", path=str(tmp_path / "a")), PathsConfig()) == ["train", "dev"]

    def test_it_is_not_parted_where_both_files_are_there(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "train.jsonl", *SWAG)
        write_objects(tmp_path / "val.jsonl", *SWAG[:5])
        data = load(configured("swag", path=str(tmp_path)))
        assert ([len(data.splits[split]) for split in ("train", "dev")], data.notes) == ([40, 5], [])

    def test_the_csv_of_swag(self, tmp_path: Path) -> None:
        header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
        write(tmp_path / "train.csv", header, '0,v,1,"He sat, then",He sat,then,gold,a,b,"c ""d""",e,2')
        write(tmp_path / "val.csv", header, "0,v,1,He,He,x,gold,a,b,c,d,0")
        write(tmp_path / "test.csv", header.removesuffix(",label"), "0,v,1,He,He,x,gold,a,b,c,d")
        data = load(configured("swag", path=str(tmp_path)), "train", "dev", "test")
        assert data.splits["train"] == [ChoiceExample("0", "He sat, then", ("a", "b", 'c "d"', "e"), 2)]
        assert data.splits["test"][0].label is None

    def test_a_dev_file_makes_no_training_question_without_its_answer(self, tmp_path: Path) -> None:
        answers = [["beta"], ["zeta"], ["zeta", "beta"]]
        rows = [{"question": f"q {n}", "context": f"alpha beta {n}", "answer": answers[n % 3]} for n in range(60)]
        write_objects(tmp_path / "dev.jsonl", *rows)
        data = load(configured("span", path=str(tmp_path), held_out=0.2))
        assert all("beta" in [answer.text for answer in example.answers] for example in data.splits["train"])
        assert any(example.answers == (Answer("zeta", 0),) for example in data.splits["dev"])  # it can still be scored
        left = data.left_out["train: no answer stands in the context"]
        assert left > 0
        assert sum(map(len, data.splits.values())) + left == len(rows)

    def test_one_file_is_not_learned_from_and_measured_on(self, tmp_path: Path) -> None:
        write(tmp_path / "a.tsv", "text\tlabel", "one\tx", "two\ty")
        task = configured("classification", path=str(tmp_path), files={"train": ["a.tsv"], "dev": ["a.tsv"], "test": ["a.tsv"]})
        with pytest.raises(UserError, match="is both train and dev"):
            load(task)
        data = load(task, "dev")
        assert [note.split(": ")[1].removeprefix(str(tmp_path)) for note in data.notes] == ["/a.tsv is both dev and test"]

    def test_too_few_to_part(self, tmp_path: Path) -> None:
        write_objects(tmp_path / "val.jsonl", SWAG[0], SWAG[0])
        with pytest.raises(UserError, match="2 examples cannot be divided"):
            load(configured("swag", path=str(tmp_path)))


def write_squad(path: Path, *questions: dict[str, Any], version: str = "1.1") -> None:
    write(path, json.dumps({"version": version, "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}))


class TestSquad:
    def test_every_answer_is_kept_and_questions_may_have_none(self, tmp_path: Path) -> None:
        answers = [{"text": "cat", "answer_start": 4}, {"text": "The cat", "answer_start": 13}]
        impossible = {"id": "b", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": answers}
        write_squad(tmp_path / "train-v2.0.json", {"id": "a", "question": "Who?", "answers": answers, "is_impossible": False}, impossible)
        write_squad(tmp_path / "test-v2.0.json", {"id": "c", "question": "Who?"})
        data = load(configured("squad20", path=str(tmp_path)), "train", "test")
        assert data.splits["train"] == [
            SpanExample("a", "Who?", CONTEXT, (Answer("cat", 4), Answer("The cat", 13))),
            SpanExample("b", "Why?", CONTEXT, ()),
        ]
        assert data.splits["test"][0].answers is None

    def test_an_answer_elsewhere_is_moved_and_one_that_is_nowhere_is_left_out_of_training_alone(self, tmp_path: Path) -> None:
        moved = {"id": "a", "question": "Who?", "answers": [{"text": "cat", "answer_start": 15}]}
        nowhere = {"id": "b", "question": "Who?", "answers": [{"text": "dog", "answer_start": 4}]}
        for name in ("train", "dev"):
            write_squad(tmp_path / f"{name}-v1.1.json", moved, nowhere)
        data = load(configured("squad11", path=str(tmp_path)))
        assert [example.answers for example in data.splits["train"]] == [(Answer("cat", 17),)]
        assert [example.answers for example in data.splits["dev"]] == [(Answer("cat", 17),), (Answer("dog", 0),)]
        assert data.left_out == {"train: no answer stands in the context": 1}
        assert len(data.notes) == 4

    @given(st.text("ab ", min_size=1, max_size=20), st.integers(0, 20), st.integers(1, 4), st.integers(-3, 25))
    def test_a_moved_answer_stands_where_it_is_said_as_near_as_can_be(self, context: str, begin: int, length: int, start: int) -> None:
        text = context[begin : begin + length]
        if not text:
            return
        (answer,) = placed_answers([(text, start)], context, "dev", Reading())
        places = [place for place in range(len(context)) if context.startswith(text, place)]
        assert answer.start in places
        assert abs(answer.start - start) == min(abs(place - start) for place in places)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("[]", r"has no list 'data': expected SQuAD's JSON"),
            ("{", "is not JSON"),
            ('{"data": []}', "holds no question"),
            ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\[0\]\.paragraphs\[0\] has no text 'context'"),
            ('{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "a", "question": "q"}]}]}]}', r"qas\[0\] has no 'answers'"),
            ('{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "a", "question": "q", "answers": []}]}]}]}', "use task=squad20"),
            (
                '{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "a", "question": "q",'
                ' "answers": [{"text": "c", "answer_start": "0"}]}]}]}]}',
                "answer_start is '0': expected a whole number",
            ),
        ],
        ids=["list", "json", "empty", "context", "unlabelled", "impossible", "start"],
    )
    def test_what_is_not_squad_is_said_with_its_place(self, tmp_path: Path, content: str, said: str) -> None:
        write(tmp_path / "dev-v1.1.json", content)
        with pytest.raises(UserError, match=said):
            load(configured("squad11", path=str(tmp_path)), "dev")

    def test_one_id_twice(self, tmp_path: Path) -> None:
        question = {"id": "a", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}]}
        write_squad(tmp_path / "dev-v1.1.json", question, question)
        with pytest.raises(UserError, match="the id 'a' occurs a second time"):
            load(configured("squad11", path=str(tmp_path)), "dev")


class TestColumnsOfWords:
    def test_sentences_documents_and_blank_lines_with_tabs(self, tmp_path: Path) -> None:
        lines = [
            "-DOCSTART- -X- -X- O",
            "",
            "EU NNP I-NP I-ORG",
            "rejects VBZ I-VP O",
            "",
            "Peter NNP I-NP I-PER",
            "Blackburn NNP I-NP I-PER",
        ]
        write(tmp_path / "eng.train", *lines, "", "-DOCSTART- -X- -X- O", "", "No DT O O", "")
        task = configured("conll2003", path=str(tmp_path), document_context=True)
        first, second, third = load(task, "train").splits["train"]
        assert (first.words, first.before, first.after) == (("EU", "rejects"), (), ("Peter", "Blackburn"))
        assert (second.before, second.after) == (("EU", "rejects"), ())
        assert (third.words, third.before, third.after) == (("No",), (), ())
        assert second.tags == (task.labels.index("B-PER"), task.labels.index("I-PER"))
        assert load(task, "train").notes == []
        assert all(
            not example.before + example.after for example in load(configured("conll2003", path=str(tmp_path)), "train").splits["train"]
        )

    def test_a_document_mark_ends_a_sentence_without_a_blank_line(self, tmp_path: Path) -> None:
        write(tmp_path / "train.txt", "EU\tO", "-DOCSTART-\tO", "No\tO", "yes\tO")
        first, second = load(configured("tagging", path=str(tmp_path), document_context=True), "train").splits["train"]
        assert (first.words, first.after, second.words, second.before) == (("EU",), (), ("No", "yes"), ())

    def test_context_is_bounded_by_what_a_sequence_can_hold(self, tmp_path: Path) -> None:
        write(tmp_path / "train.txt", *(line for number in range(9) for line in (f"w{number}\tO", "v\tO", "\t", "")))
        task = configured("tagging", path=str(tmp_path), document_context=True, max_length=3)
        data = load(task, "train")
        assert data.notes == ["train: sentences of a file that marks no documents: the whole file is taken as one (9)"]
        middle = data.splits["train"][4]
        assert (middle.before, middle.words, middle.after) == (("v", "w3", "v"), ("w4", "v"), ("w5", "v", "w6"))

    def test_tags_of_several_annotators(self, tmp_path: Path) -> None:
        write(tmp_path / "train.conll", "Ann\tB-person,I-group", "Lee\tI-person,O")
        data = load(configured("wnut17", path=str(tmp_path)), "train")
        assert [data.labels[tag] for tag in data.splits["train"][0].tags] == ["B-person", "I-person"]
        assert data.notes == ["train: words with several tags: the first is taken (2)"]

    @pytest.mark.parametrize(("split", "may"), [("train", False), ("dev", False), ("dev_mismatched", False), ("test", True), ("ax", True)])
    def test_only_splits_that_a_server_judges_may_lack_labels(self, split: str, may: bool) -> None:
        assert may_lack_labels(split) is may

    def test_words_alone_are_for_a_test_split(self, tmp_path: Path) -> None:
        write(tmp_path / "test.txt", "Ann", "ran")
        write(tmp_path / "train.txt", "Ann I-P")
        assert load(configured("tagging", path=str(tmp_path)), "test").splits["test"] == [TaggingExample("0", ("Ann", "ran"))]

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (["EU\tO", "rejects"], r"train\.txt:2 has 1 column, not 2 as in line 1"),
            (["EU\tO", "\tO"], r"train\.txt:2 has no word before its first tab"),
            (["", "EU\tO", "rejects\tX"], r"train\.txt:3: tag 'X' is not O, B-… or I-…: task\.scheme=none"),
            ([""], r"train\.txt holds no sentence"),
        ],
        ids=["short", "no word", "tag", "empty"],
    )
    def test_what_is_wrong_is_said_with_its_line(self, tmp_path: Path, lines: list[str], said: str) -> None:
        write(tmp_path / "train.txt", *lines)
        with pytest.raises(UserError, match=said):
            load(configured("tagging", path=str(tmp_path)), "train")

    def test_an_unknown_tag_is_said_with_the_line_of_its_word(self, tmp_path: Path) -> None:
        write(tmp_path / "eng.train", "a x x O", "", "b x x O", "c x x I-PRE")
        with pytest.raises(UserError, match=r"eng\.train:4: unknown tag 'B-PRE': expected one of 'O', .*; did you mean 'B-PER'"):
            load(configured("conll2003", path=str(tmp_path)), "train")


HEADER = ("text", "label")
MISTAKES: dict[str, tuple[str, list[str], dict[str, Any], str]] = {
    "column": ("train.tsv", ["sentence\tlabel", "a\tx"], {}, r"train\.tsv has no column 'text': its columns are 'sentence', 'label'"),
    "near": ("train.tsv", ["texts\tlabel", "a\tx"], {}, r"did you mean task\.columns\.text='texts'"),
    "numbers": ("train.tsv", ["a\tx"], {"header": False}, r"its columns are '0', '1' \(numbers, for task\.header is false\)"),
    "label": (
        "train.tsv",
        ["text\tlabel", "a\tx", "b\ty"],
        {"labels": ["x", "z"]},
        r"train\.tsv:3: unknown label 'y': expected one of 'x', 'z'",
    ),
    "no label": ("train.tsv", ["text\tlabel", "a\t"], {"labels": ["x", "z"]}, r"train\.tsv:2: unknown label ''"),
    "lacks": ("train.jsonl", ['{"text": "a", "label": 1}', "", '{"text": "a"}'], {}, r"train\.jsonl:3 has no 'label': it has 'text'"),
    "null": ("train.jsonl", ['{"text": null, "label": 1}'], {}, r"train\.jsonl:1: 'text' holds nothing: expected a text"),
    "list": ("train.jsonl", ['{"text": "a", "label": [1]}'], {}, r"train\.jsonl:1: 'label' holds \[1\]: expected a label"),
    "no object": ("train.jsonl", ["[1]"], {}, r"train\.jsonl:1 holds a list: expected an object"),
    "no json": ("train.jsonl", ["text: a"], {}, r"train\.jsonl:1 is not JSON"),
    "left out": ("train.tsv", ["text\tlabel", "a\t-"], {"leave_out": ["-"], "labels": ["x"]}, "every row of train was left out"),
    "number": (
        "train.tsv",
        ["text\tlabel", "a\t1", "b\thigh"],
        {"kind": "regression"},
        r"train\.tsv:3: 'label' holds 'high': expected a number",
    ),
    "nan": ("train.tsv", ["text\tlabel", "a\tnan"], {"kind": "regression"}, "expected a number"),
    "unnamed": (
        "train.tsv",
        ["text\tlabel", "a\tx"],
        {"columns": {"label": None}},
        r"name the column of its label with task\.columns\.label",
    ),
    "doubled": ("train.tsv", ["id\ttext\tlabel", "1\ta\tx", "1\tb\tx"], {"columns": {"id": "id"}}, "two rows have the id '1'"),
    "suffix": ("train.dat", ["a"], {"files": {"train": ["train.dat"]}}, r"train\.dat: its suffix does not tell its format"),
    "kind": ("train.tsv", ["text\tlabel", "a\tx"], {"kind": "clasification"}, "did you mean classification"),
    "words": (
        "train.jsonl",
        ['{"words": ["a", 1], "tags": ["O", "O"]}'],
        {"kind": "tagging", "columns": {"words": "words", "tags": "tags"}},
        "expected a list of words",
    ),
    "tags": (
        "train.jsonl",
        ['{"words": ["a", "b"], "tags": ["O"]}'],
        {"kind": "tagging", "columns": {"words": "words", "tags": "tags"}},
        "has 2 words and 1 tags",
    ),
    "choices": (
        "train.jsonl",
        ['{"text": "a", "c": "b", "label": 0}'],
        {"kind": "choice", "columns": {"choices": ["c"]}},
        "expected a list of choices",
    ),
    "one choice": (
        "train.jsonl",
        ['{"text": "a", "c": ["b"], "label": 0}'],
        {"kind": "choice", "columns": {"choices": ["c"]}},
        "expected two texts or more",
    ),
    "no choices": ("train.jsonl", ['{"text": "a", "label": 0}'], {"kind": "choice"}, r"name in task\.columns\.choices"),
    "which": (
        "train.jsonl",
        ['{"text": "a", "c": ["b", "d"], "label": 2}'],
        {"kind": "choice", "columns": {"choices": ["c"]}},
        "the right choice is '2', but there are 2",
    ),
    "letter": (
        "train.jsonl",
        ['{"text": "a", "c": ["b", "d"], "label": "B"}'],
        {"kind": "choice", "columns": {"choices": ["c"]}},
        "expected the right choice's number, from 0",
    ),
    "no answer": (
        "train.jsonl",
        ['{"question": "q", "context": "c", "answer": ""}'],
        {"kind": "span", "columns": {"question": "question", "context": "context", "answer": "answer"}},
        r"train\.jsonl:1 has no answer: .*task\.no_answer=true",
    ),
    "starts": (
        "train.jsonl",
        ['{"question": "q", "context": "c", "answer": ["c", "c"], "at": 0}'],
        {"kind": "span", "columns": {"question": "question", "context": "context", "answer": "answer", "answer_start": "at"}},
        "has 2 answers and 1 places where they start",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_with_its_file_and_line(tmp_path: Path, mistake: str) -> None:
    file, lines, changed, said = MISTAKES[mistake]
    write(tmp_path / file, *lines)
    with pytest.raises(UserError, match=said):
        load(configured("classification", path=str(tmp_path), **changed), "train")


class TestFingerprint:
    def test_it_heeds_the_examples_and_nothing_else(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "a/train.tsv", HEADER, ("one", "x"), ("two", "y"))
        write_objects(tmp_path / "b/train.jsonl", {"label": "x", "text": "one", "more": 1}, {"text": "two", "label": "y"})
        write_rows(tmp_path / "c/train.tsv", HEADER, ("one", "x"), ("two", "x"))
        one, same, other = (load(configured("classification", path=str(tmp_path / name), labels=["x", "y"]), "train") for name in "abc")
        assert one.fingerprint == same.fingerprint != other.fingerprint

    def test_the_order_of_labels_and_the_way_of_reading_count(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "train.tsv", HEADER, ("one", "x"), ("two", "y"))
        found = {
            load(configured("classification", path=str(tmp_path), **changed), "train").fingerprint
            for changed in ({}, {"labels": ["y", "x"]}, {"columns": {"pair": "text"}}, {"leave_out": ["y"]})
        }
        assert len(found) == 4
