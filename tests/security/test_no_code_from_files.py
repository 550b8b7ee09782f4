from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import bertlab
from bertlab import cli
from bertlab.ablation.grid import load_grid
from bertlab.arguments import Arguments
from bertlab.composition import compose, compose_all
from bertlab.errors import UserError
from bertlab.run_files.folder import RunFolder
from bertlab.run_files.weight_files import read_weights
from bertlab.schemas import FINETUNE, PRETRAIN
from bertlab.yaml_files import refuse_code

PACKAGE = Path(bertlab.__file__).parent

# Calls by which data become code. What is allowed stands with its keyword.
FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "marshal.loads",
    "shelve.open",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "os.system",
    "os.popen",
    "joblib.load",
    "hydra.utils.instantiate",
    "instantiate",
    "hydra.utils.call",
    "torch.hub.load",
}
SAFE_LOADER = Path("ablation/report/configuration.py")  # its yaml.load is given the safe loader, in C where there is one


def calls() -> list[tuple[Path, ast.Call, str]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                found.append((path.relative_to(PACKAGE), node, ast.unparse(node.func)))
    assert len(found) > 1000
    return found


def test_nothing_in_the_package_makes_code_of_data() -> None:
    for path, node, name in calls():
        where = f"{path}:{node.lineno}"
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if path == SAFE_LOADER and name == "yaml.load":
            assert ast.unparse(node.args[1]) == "_LOADER", where
            continue
        assert name not in FORBIDDEN, where
        if name == "torch.load":
            assert keywords["weights_only"] == "True", where
        if name == "yaml.compose":
            assert keywords["Loader"] == "yaml.SafeLoader", where
        assert keywords.get("allow_pickle", "False") == "False", where
        assert keywords.get("shell", "False") == "False", where
        assert keywords.get("trust_remote_code", "False") == "False", where


def test_the_loader_of_reports_is_the_safe_one() -> None:
    import yaml

    from bertlab.ablation.report import configuration

    assert configuration._LOADER in (yaml.SafeLoader, yaml.CSafeLoader)


class Canary:
    """What, unpickled, writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "sang")


def test_weights_with_code_in_them_are_not_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    torch.save({"bert.pooler.bias": torch.zeros(2), "x": Canary(canary)}, tmp_path / "pytorch_model.bin")
    torch.load(tmp_path / "pytorch_model.bin", weights_only=False)
    assert canary.exists()  # it would sing
    canary.unlink()
    with pytest.raises(UserError, match="holds more than tensors"):
        read_weights(tmp_path / "pytorch_model.bin")
    assert not canary.exists()


# Files of choices by which Hydra, or logging on its behalf, would call a function; {canary} is a file that the call would write.
CALLBACK = "{{_target_: canary_module.sing, path: {canary}}}"
LOGGING = "{{version: 1, handlers: {{h: {{(): canary_module.sing, path: {canary}}}}}, root: {{handlers: [h]}}}}"
CHOICES = {
    "a callback": ("scale/evil.yaml", "# @package _global_\nhydra:\n  callbacks:\n    c: " + CALLBACK),
    "logging": ("scale/evil.yaml", "# @package _global_\nhydra:\n  job_logging: " + LOGGING),
    "a launcher's argument": ("scale/evil.yaml", "# @package _global_\nhydra: {{launcher: {{x: " + CALLBACK + "}}}}"),
    "an escaped key": ("scale/evil.yaml", '# @package _global_\n"hy\\x64ra":\n  callbacks:\n    c: ' + CALLBACK),
    "a merged key": ("scale/evil.yaml", "# @package _global_\na: &a {{hydra: {{callbacks: {{c: " + CALLBACK + "}}}}}}\n<<: *a"),
    "a package": ("scale/evil.yaml", "# @package hydra.callbacks\nc: " + CALLBACK),
    "an indented package": ("scale/evil.yaml", "  # @package hydra.job_logging\n<<: " + LOGGING),
    "a second package": ("scale/evil.yaml", "# @package _global_\n# @package hydra.job_logging\n<<: " + LOGGING),
    "a package after the file": ("scale/hydra.yaml", "# @package _name_\njob_logging: " + LOGGING),
    "a date that there is not": ("scale/evil.yaml", "# @package _global_\nd: 2001-99-99\nhydra: {{callbacks: {{c: " + CALLBACK + "}}}}"),
    "a group of Hydra's": ("hydra/callbacks/evil.yaml", "c: " + CALLBACK),
}


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ``canary_module.sing`` writes."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "canary_module.py").write_text("def sing(path, *args, **kwargs):\n    open(path, 'w').write('sang')\n    return object()\n")
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "canary"


def written(tmp_path: Path, name: str, text: str, canary: Path) -> Path:
    path = tmp_path / "choices" / name
    path.parent.mkdir(parents=True)
    path.write_text(text.format(canary=canary))
    return tmp_path / "choices"


@pytest.mark.parametrize("way", CHOICES)
def test_a_foreign_file_of_choices_calls_nothing(way: str, tmp_path: Path, canary: Path) -> None:
    name, text = CHOICES[way]
    folder = written(tmp_path, name, text, canary)
    with pytest.raises(UserError, match=r"(evil|hydra)\.yaml:\d+: .*Hydra's own configuration"):
        refuse_code(folder)
    words = ["scale=evil"] if name.startswith("scale") else ["+hydra/callbacks=evil"]
    for arguments in (Arguments(words, config_dir=folder), Arguments(["scale=smoke"], config_dir=folder)):  # also where nobody chose it
        with pytest.raises(UserError, match="Hydra's own configuration"):
            compose(PRETRAIN, arguments)
    with pytest.raises(UserError, match="Hydra's own configuration"):
        compose_all(PRETRAIN, [["scale=smoke"]], folder)
    assert not canary.exists()


@pytest.mark.parametrize(("bound", "said"), [("LARGEST_FILE", "is larger than"), ("MOST_VALUES", "holds more than")])
def test_a_file_that_is_too_large_to_be_looked_at_is_refused(
    bound: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra would read it, and call what it names."""
    folder = written(tmp_path, *CHOICES["a package"], tmp_path / "canary")
    monkeypatch.setattr(f"bertlab.yaml_files.{bound}", 2)
    with pytest.raises(UserError, match=rf"evil\.yaml: .*{said}"):
        refuse_code(folder)


@pytest.mark.filterwarnings("ignore:Callback")  # Hydra finds that what it has called is none
def test_the_canary_would_sing(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check it is Hydra that calls what a file names: what the test above shows is ours."""
    monkeypatch.setattr("bertlab.composition.refuse_code", lambda folder: None)
    folder = written(tmp_path, *CHOICES["a callback"], canary)
    compose(PRETRAIN, Arguments(["scale=evil"], config_dir=folder))
    assert canary.exists()


@pytest.mark.parametrize("entry", ["override /hydra/launcher: x", "/hydra/callbacks: evil", "a@hydra.callbacks: b", "/../../other: evil"])
def test_a_file_of_choices_does_not_choose_for_hydra_or_from_elsewhere(entry: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(f"defaults:\n  - {entry}\n")
    with pytest.raises(UserError, match=r"mine\.yaml:2"):
        refuse_code(tmp_path)


def test_a_file_behind_a_link_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "evil.yml").write_text("hydra: {}")
    (tmp_path / "choices").mkdir()
    (tmp_path / "choices" / "scale").symlink_to(tmp_path / "outside")
    (tmp_path / "choices" / "again").symlink_to(tmp_path / "choices")  # which has no end
    with pytest.raises(UserError, match=r"evil\.yml:1"):
        refuse_code(tmp_path / "choices")


def test_another_folder_of_choices_cannot_be_smuggled_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.main(["pretrain", f"hydra.searchpath=[file://{tmp_path}]"])
    assert "--config-dir" in capsys.readouterr().err


@pytest.mark.parametrize(
    "word",
    ["hydra.callbacks.c._target_=os.system", "+hydra.callbacks.c=1", "++hydra.job_logging=1", "hydra/launcher=x", "model._target_=x"],
)
def test_a_table_of_somebody_else_says_nothing_of_hydra(word: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"rows: {{a: {{pretrain: ['{word}']}}}}\ncolumns: {{p: {{held_out: perplexity}}}}\nbaseline: a\n")
    with pytest.raises(UserError, match=r"t\.yaml: rows\.a\.pretrain: .*cannot stand in a file"):
        load_grid(str(tmp_path / "t.yaml"))


def test_a_task_file_with_a_target_is_refused(tmp_path: Path, canary: Path) -> None:
    folder = written(tmp_path, "task/evil.yaml", "_target_: canary_module.sing\npath: {canary}\nname: evil\n", canary)
    with pytest.raises(UserError, match="_target_"):
        compose(FINETUNE, Arguments(["task=evil", "checkpoint=x"], config_dir=folder))
    assert not canary.exists()


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:canary_module.sing [{canary}]",
        "hydra: {{callbacks: {{c: 1}}}}",
        "_target_: canary_module.sing\npath: {canary}",
    ],
)
def test_a_foreign_config_yaml_calls_nothing(text: str, tmp_path: Path, canary: Path) -> None:
    run = RunFolder(tmp_path)
    run.config.write_text(text.format(canary=canary))
    for read in (run.read_config, run.read_finetune_config):
        with pytest.raises(UserError, match=r"config\.yaml"):
            read()
    assert not canary.exists()


@pytest.mark.parametrize("text", ["defaults: null", "defaults: {model: tiny}", "defaults: tiny"])
def test_what_a_file_chooses_in_turn_is_a_list(text: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml:1: defaults takes a list"):
        compose(PRETRAIN, Arguments(["model=mine"], config_dir=tmp_path))
