"""The command line: its verbs, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

import bertlab
from bertlab import interruption
from bertlab.completion import complete_overrides, join_split_words
from bertlab.errors import RunFailed, UserError, unknown
from bertlab.messages import complain
from bertlab.secrecy import refuse_secrets

_ABOUT = """bertlab asks what each part of BERT contributes, at a size that fits your machine.

\b
  bertlab pretrain                                    train a tiny model on text that needs no download
  bertlab pretrain objective=ltr norm=batch           change what is predicted, and how states are normalised
  bertlab pretrain -m seed=1,2,3 model=tiny,mini      every combination, one after the other
  bertlab finetune task=mrpc checkpoint=RUN           what a trained model is worth on a task
  bertlab ablate --grid table5                        a table of the paper, with your numbers and their error bars
  bertlab pretrain --help                             every choice there is
"""

app = typer.Typer(
    help=_ABOUT,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

# A verb takes its words as they are: flags and overrides in any order, which bertlab.arguments tells apart.
_AS_THEY_ARE = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
_Words = Annotated[list[str] | None, typer.Argument(metavar="[FLAGS] [KEY=VALUE]...", shell_complete=complete_overrides)]

_OK, _FAILED, _MISUSED, _INTERRUPTED = 0, 1, 2, 130


def _show_version(asked: bool) -> None:
    if asked:
        print(f"bertlab {bertlab.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


def _verb(run: Callable[[list[str]], int], words: list[str] | None) -> None:
    """Run a verb and exit with its code; an interruption and a closed pipe are not errors to be explained."""
    refuse_secrets(words or [])
    try:
        code = run(words or [])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has had enough, as in `bertlab … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _OK
    raise typer.Exit(code)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def prepare(words: _Words = None) -> None:
    """Turn raw text into a vocabulary and a token store."""
    from bertlab.commands.prepare import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def pretrain(words: _Words = None) -> None:
    """Train a model on raw text; the same command again resumes it."""
    from bertlab.commands.pretrain import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def finetune(words: _Words = None) -> None:
    """Train a pre-trained model on a task: task=mrpc checkpoint=RUN."""
    from bertlab.commands.finetune import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def evaluate(words: _Words = None) -> None:
    """Measure a trained model on held-out documents: checkpoint=RUN."""
    from bertlab.commands.evaluate import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def ablate(words: _Words = None) -> None:
    """Train what tables need, and make them: --grid table5."""
    from bertlab.commands.ablate import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def report(words: _Words = None) -> None:
    """Make tables of the runs that there are, in every form: [TABLE] …"""
    from bertlab.commands.report import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def score(words: _Words = None) -> None:
    """Measure a file of predictions of a task: TASK PREDICTIONS DATA."""
    from bertlab.commands.score import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def fill(words: _Words = None) -> None:
    """Show the words that a model would put for [MASK] in a text."""
    from bertlab.commands.fill import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def nsp(words: _Words = None) -> None:
    """Show whether a model takes one sentence to follow another."""
    from bertlab.commands.nsp import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def generate(words: _Words = None) -> None:
    """Have a left-to-right model continue a text."""
    from bertlab.commands.generate import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def export(words: _Words = None) -> None:
    """Write a trained model as a folder for Hugging Face transformers."""
    from bertlab.commands.export import run

    _verb(run, words)


@app.command("import", context_settings=_AS_THEY_ARE, add_help_option=False)
def import_(words: _Words = None) -> None:
    """Take a Hugging Face folder over into bertlab's own layout."""
    from bertlab.commands.import_ import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def params(words: _Words = None) -> None:
    """Count a model's parameters, training FLOPs and memory."""
    from bertlab.commands.params import run

    _verb(run, words)


@app.command(context_settings=_AS_THEY_ARE, add_help_option=False)
def doctor(words: _Words = None) -> None:
    """Show what this machine has, and what will be used."""
    from bertlab.commands.doctor import run

    _verb(run, words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a run failed, 2 the command cannot be meant, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    join_split_words(os.environ)
    interruption.remember()
    try:
        _check_first_word(words)
        app(args=words, prog_name="bertlab")
    except UserError as error:
        complain(error)
        sys.exit(_FAILED if isinstance(error, RunFailed) else _MISUSED)
    except Exception as error:
        if interruption.came():
            sys.exit(_INTERRUPTED)
        if "_BERTLAB_COMPLETE" in os.environ:
            sys.exit(_FAILED)  # a traceback amid the user's typing helps nobody
        complain(error)
        sys.exit(_FAILED)


def _check_first_word(words: list[str]) -> None:
    """Refuse an unknown verb or option in one sentence."""
    verbs = [str(command.name or command.callback.__name__) for command in app.registered_commands if command.callback]
    flags = ["--help", "-h", "--version", "--install-completion", "--show-completion"]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        raise unknown("command", words[0], verbs)
    if words and words[0].startswith("-") and words[0] not in flags:
        raise UserError(f"{words[0]} stands before the command: write bertlab COMMAND first, where COMMAND is {' | '.join(verbs)}.")
