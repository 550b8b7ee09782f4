from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from bertlab.data import builtin
from bertlab.data.documents import Problem, ReadingReport
from bertlab.data.lines import Part
from bertlab.data.prose import is_prose, paragraphs

MODULE = '''
"""A module that shows what docstrings hold.

It is written by hand, and everything in it that is not prose
must disappear.  Some of it is ``inline code``, some is a
:class:`~package.module.Role`, some a `link <https://example.org>`_ and some is *emphasis*
or **strong emphasis**; see [the manual](https://example.org/x) too [1]_.

Usage is as follows::

    >>> this = "is no prose"
    This would be prose if it were not the output of the example above.

.. note:: The content of a note is prose, however it was marked.

.. code-block:: python

    print("The content of a block of code is never prose, even when it reads so.")

.. [1] A footnote that is a reference to a book of the author's.

=====  =====
Table  Cells
The rows of a table are not prose at all.
=====  =====

Heading of a section
--------------------
The section has a paragraph of its own.

* The first item of this list is a sentence that is long enough.
* short item

```python
The inside of a fence is not prose, as it is the code of someone.
```
"""

def numpy_style(x, y):
    """numpy_style(x, y) -> int

    Return the sum of the two numbers that are given

    Parameters
    ----------
    x : int
        The number that comes first in the sum of the two.
    y : int
        The number that comes second in the sum of the two.

    Returns
    -------
    int
        The result is what you would think that it is.

    Notes
    -----
    The algorithm is the one that is taught in the schools of most countries.

    Examples
    --------
    This is an example that is not to be read as prose.
    """

class Google:
    """Keeps the things that are given to it.

    Args:
        things (list): The things that are to be kept by this object.
            They can be of any kind that you like.

    Returns: the things that were kept by it.

    Note:
        The things are kept for as long as the object lives.
    """

    async def sphinx_style(self, a):
        """Does what the caller of the method wants it to do.

        :param a: The thing that is wanted, of which there must be one.
            It goes on in this line as a part of the parameter.
        :returns: The thing that was wanted by the one who called.
        """
        try:
            pass
        except ValueError:
            def nested():
                """A function within another one has a docstring too."""

add_docstr(numpy_style, r"""
other(x) -> y

Documentation may be attached by a call of a function as well.
""")

def repeated():
    """Keeps the things that are given to it."""
'''

EXPECTED = [
    "A module that shows what docstrings hold.",
    "It is written by hand, and everything in it that is not prose must disappear. Some of it is inline code, some is a Role, some a link "
    "and some is emphasis or strong emphasis; see the manual too.",
    "Usage is as follows:",
    "The content of a note is prose, however it was marked.",
    "The section has a paragraph of its own.",
    "The first item of this list is a sentence that is long enough.",
    "Return the sum of the two numbers that are given.",
    "The algorithm is the one that is taught in the schools of most countries.",
    "Keeps the things that are given to it.",
    "The things are kept for as long as the object lives.",
    "Does what the caller of the method wants it to do.",
    "A function within another one has a docstring too.",
    "Documentation may be attached by a call of a function as well.",
]


def read(*files: Path) -> tuple[list[list[str]], ReadingReport]:
    report = ReadingReport()
    return [document.blocks for document in builtin.read_builtin(tuple(Part(str(file)) for file in files), report)], report


def test_only_prose_is_left_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    documents, report = read(tmp_path / "module.py")
    assert documents == [EXPECTED]
    assert not report.counts


def test_repeated_paragraphs_short_modules_and_broken_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MODULE)
    (tmp_path / "b.py").write_text(
        MODULE.replace("taught in the schools of most", "not taught in the schools of all of these many") + "\nif x:"
    )
    (tmp_path / "c.py").write_text(MODULE.replace("taught in the schools of most", "not taught in the schools of all of these many"))
    (tmp_path / "d.py").write_text('"""This module has too few words to be a document."""')
    (tmp_path / "e.py").write_bytes(b'"""\xff"""')
    (tmp_path / "f.py").write_text("'''" + "(" * 100_000)
    documents, report = read(*sorted(tmp_path.iterdir()))
    assert documents == [EXPECTED]  # c repeats all but one paragraph, and that alone is too short
    assert report.counts == {Problem.SYNTAX: 3}


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'{MODULE}\nopen({str(tmp_path / "ran")!r}, "w")')
    read(tmp_path / "a.py")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("sentence", "prose"),
    [
        ("Return the name of the file that is open.", True),
        ("The value must be at least 3.5, or 10% of the range.", True),
        ("iterable may be either a sequence or an iterator of the items.", True),
        ("find the module", False),
        ("Return x = y when the two are the same.", False),
        ("The index of a[i] in the list of all.", False),
        ("Foo bar baz qux quux corge.", False),
        ("name -- the name of the file that is to be opened.", False),
        ("See https://example.org for the whole of the text.", False),
        ("The file (see above is open.", False),
    ],
)
def test_which_sentences_read_as_english(sentence: str, prose: bool) -> None:
    assert is_prose(sentence) is prose


def test_hyphens_at_line_ends_are_joined() -> None:
    assert paragraphs("This is a well-\nknown way of the pre- and post-war years.") == [
        "This is a well-known way of the pre- and post-war years."
    ]


def words(documents: list[list[str]]) -> int:
    return sum(len(block.split()) for blocks in documents for block in blocks)


def test_python_itself_gives_a_corpus() -> None:
    topics, standard = builtin.groups()[:2]
    documents, _ = read(*(Path(part.path) for part in (*topics, *standard)))
    assert words(documents) > 200_000
    assert len(documents) > 300
    text = [block for blocks in documents for block in blocks]
    assert len(set(text)) == len(text)
    for mark in (">>>", "::", ":param", "``", "http://", "https://", " = ", "->", "{", "\\", "====", "\n", "  "):
        assert not [block for block in text if mark in block]
    # English, not code: the commonest words have about the share that they have everywhere (6% in newspapers).
    tokens = [token.lower() for block in text for token in block.split()]
    assert 0.05 < tokens.count("the") / len(tokens) < 0.12


def test_groups_cover_dependencies_without_their_tests() -> None:
    files = [part.path for group in builtin.groups() for part in group]
    assert len(set(files)) == len(files)
    assert not [file for file in files if "/tests/" in file or "/test/" in file or Path(file).name.startswith("test_")]
    for library in ("torch/nn/functional.py", "sympy/core/expr.py", "networkx/classes/graph.py", "numpy/lib/_function_base_impl.py"):
        assert any(file.endswith(library) for file in files)
    assert files == [part.path for group in builtin.groups.__wrapped__() for part in group]
    assert inspect.getsourcefile(pytest) not in files  # what only developers have


def test_fingerprint_is_the_same_in_every_process() -> None:
    command = "from bertlab.data.builtin import fingerprint; print(fingerprint())"
    told = {subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert told == {builtin.fingerprint() + "\n"}
