"""``bertlab score`` from its words to its JSON: every form of file, and what is said of files that do not fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertlab import cli
from bertlab.tasks.examples import Prediction
from bertlab.tasks.predictions import write_predictions

Call = Callable[..., tuple[int, Any, str]]

MRPC = [("1", "a", "b"), ("0", "c", "d"), ("1", "e", "f"), ("0", "g", "h")]
SENTENCES = [[("EU", "I-ORG"), ("rejects", "O")], [("Peter", "I-PER"), ("Blackburn", "I-PER")]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Score from a folder of its own; the JSON where all went well, else the text of standard output."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["score", *words])
        captured = capsys.readouterr()
        code = int(ended.value.code or 0)
        return code, json.loads(captured.out) if code == 0 and captured.out.startswith("{") else captured.out, captured.err

    return run


def write(name: str, *lines: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def write_mrpc(folder: str = "glue_data/MRPC") -> str:
    rows = ["\t".join([label, "1", "2", one, two]) for label, one, two in MRPC]
    return write(f"{folder}/dev.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows)


def write_squad(name: str = "dev.json", version: str = "1.1") -> str:
    answers = {"a": ["the cat"], "b": ["dogs", "two dogs"]}
    questions: list[dict[str, Any]] = [
        {"id": key, "question": "q", "answers": [{"text": text, "answer_start": 0} for text in texts]} for key, texts in answers.items()
    ]
    if version == "v2.0":
        questions.append({"id": "c", "question": "q", "answers": [], "is_impossible": True})
    return write(name, json.dumps({"version": version, "data": [{"paragraphs": [{"context": "the cat, two dogs", "qas": questions}]}]}))


def columns(sentences: list[list[tuple[str, ...]]], joint: str = " ") -> list[str]:
    return [line for sentence in sentences for line in [*(joint.join(row) for row in sentence), ""]]


class TestTables:
    TABLE = ("index\tprediction", "0\t1", "1\t1", "2\t1", "3\t0")

    def test_a_table_against_a_file_and_against_the_download(self, call: Call) -> None:
        expected = {"task": "mrpc", "examples": 4, "accuracy": 0.75, "f1": 0.8}
        file = write_mrpc()
        for data in (file, "glue_data", "glue_data/MRPC"):
            code, found, err = call("mrpc", write("MRPC.tsv", *self.TABLE), data)
            assert (code, err) == (0, "")
            assert expected.items() <= found.items()

    def test_the_order_of_its_rows_says_nothing(self, call: Call) -> None:
        file = write_mrpc()
        shuffled = write("b.tsv", self.TABLE[0], *reversed(self.TABLE[1:]))
        assert call("mrpc", shuffled, file) == call("mrpc", write("a.tsv", *self.TABLE), file)

    def test_commas_separate_where_the_name_says_so(self, call: Call) -> None:
        file = write_mrpc()
        expected = call("mrpc", write("a.tsv", *self.TABLE), file)
        assert call("mrpc", write("a.csv", *(line.replace("\t", ",") for line in self.TABLE)), file) == expected
        assert call("mrpc", write("b.csv", *(line.replace("\t", ";") for line in self.TABLE)), file, "task.delimiter=';'") == expected

    @pytest.mark.parametrize("words", [(), ("partial=true",)])
    def test_a_first_example_is_not_lost_as_the_header(self, call: Call, words: tuple[str, ...]) -> None:
        code, _, err = call("mrpc", write("p.tsv", "0\t0", *self.TABLE[2:]), write_mrpc(), *words)
        assert code == 2
        assert "p.tsv:1 is taken for the header, but begins with '0', an example's index: add a header" in err

    def test_numbers(self, call: Call) -> None:
        write("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore", "0\ta\tb\t1.0", "1\ta\tb\t3.0", "2\ta\tb\t2.0")
        found = call("stsb", write("STS-B.tsv", "index\tprediction", "0\t10", "1\t30", "2\t20"), ".")[1]
        assert found == {"task": "stsb", "examples": 3, "pearson": 1.0, "spearman": 1.0}

    def test_ones_own_task_with_its_own_configuration(self, call: Call) -> None:
        write(
            "mine/task/stars.yaml", "name: stars", "columns: {text: review, label: stars}", "metrics: [accuracy]", "files: {dev: [d.csv]}"
        )
        write("data/d.csv", "stars,review", "good,a", "bad,b", "fair,c")
        predictions = write("p.json", json.dumps({"0": "good", "1": "bad", "2": "bad"}))
        found = call("stars", predictions, "data", "--config-dir", "mine")[1]
        assert found["accuracy"] == pytest.approx(2 / 3)
        found = call("classification", predictions, "data/d.csv", "task.columns.text=review", "task.columns.label=stars")[1]
        assert (found["task"], found["accuracy"]) == ("classification", pytest.approx(2 / 3))


class TestAnswers:
    def test_v1(self, call: Call) -> None:
        code, found, _ = call("squad11", write("p.json", json.dumps({"a": "A cat!", "b": "two big dogs"})), write_squad())
        assert (code, found) == (0, {"task": "squad11", "examples": 2, "exact": 0.5, "f1": (1 + 0.8) / 2})

    def test_v1_with_missing_answers_is_refused_unless_partial(self, call: Call) -> None:
        predictions, data = write("p.json", json.dumps({"a": "cat", "zz": "x"})), write_squad()
        code, _, err = call("squad11", predictions, data)
        assert code == 2
        assert "p.json lacks 1 of 2 examples (b), and has 1 that are not among them (zz); partial=true scores it anyway" in err
        assert call("squad11", predictions, data, "partial=true")[1] == {"task": "squad11", "examples": 2, "exact": 0.5, "f1": 0.5}

    def test_v2_with_probabilities(self, call: Call) -> None:
        predictions = write("p.json", json.dumps({"a": "cat", "b": "", "c": "cat"}))
        null = write("na.json", json.dumps({"a": 0.1, "b": 0.2, "c": 0.9}))
        data = write_squad(version="v2.0")
        plain = call("squad20", predictions, data)[1]
        assert (plain["exact"], plain["has_answer_exact"], plain["no_answer_exact"]) == (pytest.approx(1 / 3), 0.5, 0.0)
        assert "best_f1" not in plain
        found = call("squad20", predictions, data, f"na_prob={null}")[1]
        assert found["exact"] == plain["exact"]
        assert (found["best_exact"], found["best_exact_threshold"]) == (pytest.approx(2 / 3), 0.1)
        assert call("squad20", predictions, data, f"na_prob={null}", "na_prob_threshold=0.5")[1]["exact"] == pytest.approx(2 / 3)

    def test_partial_leaves_out_what_v2_lacks(self, call: Call) -> None:
        found = call("squad20", write("p.json", json.dumps({"c": ""})), write_squad(version="v2.0"), "partial=true")[1]
        assert (found["examples"], found["exact"]) == (1, 1.0)


class TestWords:
    def test_columns_against_the_data_and_by_themselves(self, call: Call) -> None:
        data = write(
            "eng.testa", "-DOCSTART- -X- O O", "", *columns([[(word, "X", "X", tag) for word, tag in words] for words in SENTENCES])
        )
        said = [["B-ORG", "O"], ["I-PER", "B-PER"]]
        rows = [
            [(word, tag, guess) for (word, tag), guess in zip(words, tags, strict=True)]
            for words, tags in zip(SENTENCES, said, strict=True)
        ]
        expected = {"task": "conll2003", "examples": 2, "f1": 0.4, "precision": 1 / 3, "recall": 0.5, "accuracy": 0.75}
        by_itself = write("both.txt", *columns(rows))
        alone = write("said.txt", *columns([[(row[0], row[2]) for row in sentence] for sentence in rows], "\t"))
        for words in ([by_itself], [by_itself, data], [alone, data], [alone, "."]):
            code, found, err = call("conll2003", *words)
            assert (code, err) == (0, "")
            assert found == pytest.approx(expected)

    def test_of_several_tags_the_first_counts_on_both_sides(self, call: Call) -> None:
        """WNUT 2017 has words with two, where its annotators disagree."""
        rows = [("Apple", "B-corporation,B-product", "B-corporation"), ("Ann", "B-person", "B-person,B-group"), ("ran", "O", "O")]
        alone = call("wnut17", write("both.txt", *columns([rows])))[1]
        assert (alone["f1"], alone["accuracy"]) == (1.0, 1.0)
        data = write("emerging.dev.conll", *columns([[row[:2] for row in rows]], "\t"))
        assert call("wnut17", "both.txt", data)[1] == alone

    def test_sentences_have_no_ids(self, call: Call) -> None:
        data = write("eng.testa", *columns([list(words) for words in SENTENCES]))
        assert "columns of words do not have" in call("conll2003", write("said.txt", "EU O"), data, "partial=true")[2]

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (
                ["EU O", "reject O", "", "Peter O", "Blackburn O"],
                "said.txt:2 has the word 'reject' where the data has 'rejects' (sentence 0)",
            ),
            (["EU O", "rejects O", "", "Peter O"], "said.txt:4: the sentence has 1 word, but 2 in the data"),
            (["EU O", "rejects O"], "said.txt holds a different number of sentences (1) than the data (2)"),
            (["EU O", "rejects X", "", "Peter O", "Blackburn O"], "said.txt:2 has the tag 'X': expected O, B-… or I-…"),
        ],
        ids=["word", "words", "sentences", "tag"],
    )
    def test_what_does_not_fit_is_said_with_its_line(self, call: Call, lines: list[str], said: str) -> None:
        data = write("eng.testa", *columns([list(words) for words in SENTENCES]))
        code, out, err = call("conll2003", write("said.txt", *lines), data)
        assert (code, out) == (2, "")
        assert said in err


class TestOurOwn:
    PREDICTIONS = (Prediction("0", "1", "1"), Prediction("1", "1", "0"), Prediction("2", "1", "1"), Prediction("3", "0", "0"))

    def test_predictions_that_say_what_is_right_need_no_data(self, call: Call) -> None:
        write_predictions(Path("predictions.jsonl"), self.PREDICTIONS)
        alone = call("mrpc", "predictions.jsonl")[1]
        assert (alone["accuracy"], alone["f1"]) == (0.75, 0.8)
        assert call("mrpc", "predictions.jsonl", write_mrpc())[1] == alone

    def test_the_data_counts_where_it_is_given(self, call: Call) -> None:
        write_predictions(Path("predictions.jsonl"), [Prediction(p.id, p.prediction, "0") for p in self.PREDICTIONS])
        assert call("mrpc", "predictions.jsonl", write_mrpc())[1]["accuracy"] == 0.75

    def test_an_answer_that_the_threshold_hides_counts_for_the_best_one(self, call: Call) -> None:
        rows = [("a", "", ["the cat"], 1.0, "cat"), ("b", "", ["dogs", "two dogs"], -1.0, "cat"), ("c", "", [], -2.0, "cat")]
        write_predictions(Path("p.jsonl"), [Prediction(name, said, gold, [margin], best) for name, said, gold, margin, best in rows])
        alone = call("squad20", "p.jsonl")[1]
        assert (alone["exact"], alone["best_exact"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
        assert call("squad20", "p.jsonl", write_squad(version="v2.0"))[1] == alone

    @pytest.mark.parametrize(
        ("classes", "second"), [(("-1", "1"), "1"), (("9", "10"), "10"), (("-2", "-10"), "-2"), (("no", "yes"), "yes")]
    )
    def test_of_two_classes_f1_is_that_of_the_second_here_and_in_the_run(self, call: Call, classes: tuple[str, str], second: str) -> None:
        first = next(label for label in classes if label != second)
        rows = [(first, second), (second, second), (second, second), (first, first)]  # right, predicted
        write_predictions(Path("predictions.jsonl"), [Prediction(str(n), said, gold) for n, (gold, said) in enumerate(rows)])
        data = write("d.csv", "text,label", *(f"x,{gold}" for gold, _ in rows))
        for words in ([], [data, "task.columns.text=text", "task.columns.label=label"]):
            assert call("classification", "predictions.jsonl", *words)[1]["f1"] == pytest.approx(0.8)  # of the other it is 2/3

    def test_a_probe_and_a_task_of_unnamed_classes(self, call: Call) -> None:
        write_predictions(Path("predictions.jsonl"), self.PREDICTIONS)
        assert call("classification", "predictions.jsonl")[1]["accuracy"] == 0.75


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "needs a task's name and a file of predictions"),
            (["mrpc"], "needs a task's name and a file of predictions"),
            (["mrcp", "p.tsv", "glue_data"], "Unknown task 'mrcp': did you mean mrpc"),
            (["mrcp", "nothing.tsv", "nothing"], "Unknown task 'mrcp': did you mean mrpc"),
            (["mrpc", "nothing.tsv", "glue_data"], "There is no file 'nothing.tsv'"),
            (["mrpc", "p.tsv", "glue_data", "more"], "does not know what to do with 'more'"),
            (["mrpc", "p.tsv", "glue_data", "splt=dev"], "Unknown key 'splt': did you mean split"),
            (["mrpc", "p.tsv", "glue_data", "split=text"], "has no split 'text'"),
            (["mrpc", "p.tsv", "glue_data", "task.clumns.label=x"], "Unknown key 'task.clumns.label'"),
            (["mrpc", "p.tsv", "glue_data", "partial=yes"], "partial takes true or false, not 'yes'"),
            (["mrpc", "p.tsv", "glue_data", "na_prob=p.tsv"], "na_prob is for questions that may have no answer"),
            (["mrpc", "p.tsv", "glue_data", "-m"], "score takes no flags"),
            (["mrpc", "p.tsv"], "does not have the right answers: give the task's file or folder after it"),
            (["mrpc", "p.tsv", "glue_data"], "p.tsv:3 predicts the unknown label 'yes': expected one of '0', '1'"),
            (["mrpc", "twice.tsv", "glue_data"], "twice.tsv:3: the index 0 occurs a second time"),
            (["mrpc", "few.tsv", "glue_data"], "few.tsv lacks 3 of 4 examples (1, 2, 3)"),
            (["mrpc", "many.tsv", "glue_data"], "many.tsv has an id that is not among the 4 examples (4)"),
            (["mrpc", "commas.tsv", "glue_data"], "its prediction last, separated by tabs (by commas in a file named .csv)"),
            (["mrpc", "tabs.csv", "glue_data"], "its prediction last, separated by ',' (task.delimiter)"),
            (["stsb", "p.tsv", "STS-B"], "p.tsv:3 has 'yes': expected a number"),
        ],
        ids=str,
    )
    def test_it_is_one_sentence_and_exit_code_2(self, call: Call, words: list[str], said: str) -> None:
        write_mrpc()
        write("p.tsv", "index\tprediction", "0\t1", "1\tyes", "2\t1", "3\t0")
        write("commas.tsv", "index,prediction", "0,1")
        write("tabs.csv", "index\tprediction", "0\t1")
        write("few.tsv", "index\tprediction", "0\t1")
        write("many.tsv", "index\tprediction", *(f"{number}\t1" for number in range(5)))
        write("twice.tsv", "index\tprediction", "0\t1", "0\t1")
        write("STS-B/dev.tsv", "sentence1\tsentence2\tscore", *["a\tb\t1"] * 4)
        code, out, err = call(*words)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"scores": ["x"]}, "has the scores ['x']: expected a list of numbers"),
            ({"scores": 5}, "has the scores 5"),
            ({"scores": {"k": 1}}, "has the scores {'k': 1}"),
            ({"scores": [math.nan]}, "has the scores [nan]"),
            ({"answer": 5}, "has the answer 5: expected a text"),
        ],
        ids=str,
    )
    def test_what_our_own_rows_have_beside_is_checked_with_the_data_and_without(
        self, call: Call, changed: dict[str, Any], said: str
    ) -> None:
        row = {"id": "c", "prediction": "", "gold": [], "scores": [0.5], "answer": "cat"} | changed
        write("p.jsonl", json.dumps(row))
        for words in (["partial=true", write_squad(version="v2.0")], []):
            code, out, err = call("squad20", "p.jsonl", *words)
            assert (code, out) == (2, "")
            assert said in err

    @pytest.mark.parametrize("choice", ["7", "-3", "1e30", "0.5", "nan", "x"])
    def test_a_choice_is_one_of_those_that_there_are(self, call: Call, choice: str) -> None:
        data = write("d.jsonl", json.dumps({"q": "a", "c": ["b", "d"], "right": 1}))
        columns = ["task.columns.text=q", "task.columns.choices=[c]", "task.columns.label=right", "task.format=jsonl"]
        code, _, err = call("choice", write("p.tsv", "index\tprediction", f"0\t{choice}"), data, *columns)
        assert code == 2
        assert "expected the number of a choice, 0 to 1" in err

    def test_tags_of_our_own_rows_are_checked(self, call: Call) -> None:
        write_predictions(Path("p.jsonl"), [Prediction("0", ["PER", "O"], ["B-PER", "O"])])
        assert "has the tag 'PER': expected O, B-… or I-…" in call("conll2003", "p.jsonl")[2]

    def test_help(self, call: Call) -> None:
        code, out, _ = call("--help")
        assert code == 0
        assert out.startswith("bertlab score TASK PREDICTIONS [DATA] [KEY=VALUE]...\n")
        assert "na_prob_threshold" in out
        assert "  squad11 " in out
