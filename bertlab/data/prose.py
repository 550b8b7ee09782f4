"""The prose of a docstring: what remains when code, signatures, markup and lists of parameters are taken out.

Docstrings are written in reStructuredText, Markdown, and the conventions of numpydoc, Google and Sphinx, often in several at once and
seldom strictly, so this goes by the look of lines rather than by a grammar. First the lines that are no prose are left out, what remains
is joined to paragraphs, inline markup is unwrapped, and of each paragraph the sentences that read as English are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bertlab.data.sentences import split_sentences

MIN_WORDS = 4  # of a sentence

# Sections whose content is a list or code, whether underlined (numpydoc) or followed by a colon (Google).
_LISTS = re.compile(
    r"(args|arguments?|parameters?|params?|other parameters|returns?|yields?|receives|raises|throws|warns|attributes|methods|members|"
    r"keyword args|keyword arguments|kwargs|keywords|(code |usage )?examples?( usage)?|example usage|usage|see also|references?|"
    r"bibliography|shapes?|inputs?|outputs?|variables|constants|class variables|instance variables|properties|functions|classes|"
    r"exceptions|todo|authors?|copyright|license|supported types|signature|options|synopsis|fields|flags|environment variables|"
    r"call signatures?|doctests?|tests?|testing)"
    r"(?P<colon>\s*::?)?(?P<same>\s+\S.*)?$",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"([=\-~^#*+\"'`.:_])\1{2,}$")
_DIRECTIVE = re.compile(r"\.\.\s+([\w:-]+)::(\s+(?P<text>.*))?$")
_PROSE_DIRECTIVES = {"note", "warning", "tip", "important", "hint", "caution", "attention", "danger", "admonition", "topic"}
_PROSE_SECTIONS = re.compile(
    r"(notes?|warnings?|tips?|important|remarks?|caution|hint|description|details|overview|background)\s*:{1,2}$", re.IGNORECASE
)
_FIELD = re.compile(r":[\w*]+(\s+[^:]*)?:(\s|$)|@\w+\b")
_DOCTEST = re.compile(r"(>>>|Traceback \(|[\w.]+(Error|Exception|Warning): |In \[\d*\]:|Out\[\d*\]:|\$ |% )")
_GRID = re.compile(r"\+[-=+]{3,}|\|.*\|$")  # a line of a table with drawn cells
_COLUMNS = re.compile(r"[=-]{2,}(\s+[=-]{2,})+$")  # the upper edge of a table whose columns are told by the gaps in it
_BULLET = re.compile(r"([-*+•–o]|#\.|\(?(\d{1,3}|[a-z])[.)])\s+(?=\S)")
_FENCE = re.compile(r"(```|~~~)")


_ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`(?P<text>[^`]*)`")
_TARGET = re.compile(r"\s*<[^<>`]*>(?=$|`)")
_MARKED = re.compile(r"``(?P<code>[^`]+)``|`(?P<text>[^`]+)`_{0,2}")
_MARKDOWN_LINK = re.compile(r"\[(?P<text>[^\[\]]+)\](\([^()\s]*\)|\[[^\[\]]*\])")
_FOOTNOTE = re.compile(r"\s?\[[#*]?\w{1,12}\]_?(?=[\s.,;:)]|$)")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])(?P<text>[^*]*[^\s*])\1(?![\w*])")
_CALL = re.compile(r"(?<=\w)\(\)")
_LINK = re.compile(r"(?<![\w_])([A-Za-z][A-Za-z-]+)__?(?=[\s.,;:)]|$)")

_BROKEN_WORD = re.compile(r"(?<=[a-z])- (?=[a-z])(?!and |or |to )")  # at a hyphen, by the end of a line
_NO_PROSE = re.compile(r"[`\\{}<>|=@#$^~\[\]*]|->|::|\.\.\.\.|https?:|www\.| --? ?$|^\S+ --? |\"\"\"")
_WORD = re.compile(r"[\"'(“‘]*([A-Za-z]+(['’/-][A-Za-z]+)*|\d+([.,]\d+)*%?|[–—-]{1,2})[.,;:!?)\"'”’…]*$")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a an the this that these those it its they their he his she her you your we our i is are was were be been being has have had
        do does did will would can could may might must should shall not no of to in on at by for from with without as into than if when
        where which who whose what how and or but so because while there then also only other any all each such over under between after
        before about using given""",
    )
)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of prose in a docstring whose indentation is cleaned, in order; each has at least one sentence of four words."""
    found = (_readable(" ".join(lines), whole=indent > 0) for indent, lines in _joined(_prose_lines(text.expandtabs().split("\n"))))
    return [paragraph for paragraph in found if paragraph]


# ---- lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _prose_lines(lines: list[str]) -> Iterator[str]:
    """The lines outside of everything that is marked as something else than prose; a blank line stands for what is left out."""
    position = 0
    while position < len(lines):
        line = lines[position].rstrip()
        end, replacement = _left_out(lines, position, _indent(line), line.lstrip()) if line else (position + 1, [""])
        yield from replacement
        position = end


def _left_out(lines: list[str], position: int, indent: int, text: str) -> tuple[int, list[str]]:
    """Where the block ends that starts at ``position``, and the lines that stand for it: of prose the line itself."""
    following = lines[position + 1].strip() if position + 1 < len(lines) else ""
    section = _LISTS.match(text)
    if _FENCE.match(text):
        return _after(lines, position + 1, text[:3]), [""]
    if _DOCTEST.match(text) or _COLUMNS.match(text):
        return _blank_end(lines, position), [""]
    if text.startswith(".."):
        return _explicit_markup(lines, position, indent, text)
    if _UNDERLINE.match(following) and not _UNDERLINE.match(text):
        return (_next_heading(lines, position + 2) if section else position + 2), [""]
    if _UNDERLINE.match(text) or _GRID.match(text) or _PROSE_SECTIONS.match(text):
        return position + 1, [""]
    if _FIELD.match(text):
        return _indented_end(lines, position + 1, indent), [""]
    if section and section["colon"]:
        end = _indented_end(lines, position + 1, indent)
        return (min(end, _blank_end(lines, position)) if section["same"] else end), [""]
    if text.endswith("::"):  # a literal block follows; the sentence that announces it stays
        return _indented_end(lines, position + 1, indent), [" " * indent + text[:-1], ""]
    return position + 1, [" " * indent + text]


def _explicit_markup(lines: list[str], position: int, indent: int, text: str) -> tuple[int, list[str]]:
    """A directive, a comment or a target of links: left out with what is indented below it, unless its content is prose."""
    directive = _DIRECTIVE.match(text)
    if directive and directive[1] in _PROSE_DIRECTIVES:
        own = directive["text"] if directive[1] not in ("admonition", "topic") else None
        return position + 1, ["", " " * (indent + 3) + own if own else ""]
    if text.startswith("..."):  # an ellipsis
        return position + 1, [""]
    return _indented_end(lines, position + 1, indent), [""]


def _after(lines: list[str], position: int, fence: str) -> int:
    while position < len(lines) and not lines[position].lstrip().startswith(fence):
        position += 1
    return position + 1


def _blank_end(lines: list[str], position: int) -> int:
    while position < len(lines) and lines[position].strip():
        position += 1
    return position


def _indented_end(lines: list[str], position: int, indent: int) -> int:
    while position < len(lines) and (not lines[position].strip() or _indent(lines[position]) > indent):
        position += 1
    return position


def _next_heading(lines: list[str], position: int) -> int:
    while position < len(lines) and not (
        lines[position].strip() and position + 1 < len(lines) and _UNDERLINE.match(lines[position + 1].strip())
    ):
        position += 1
    return position


def _joined(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of each paragraph or item of a list, without indentation and bullets, and how far it is indented."""
    paragraph: list[str] = []
    indent = 0
    item = False
    for line in lines:
        text = line.strip()
        bullet = _BULLET.match(text)
        goes_on = text and paragraph and not bullet and (item or abs(_indent(line) - indent) <= 1)
        if not goes_on and paragraph:
            yield indent, paragraph
            paragraph = []
        if not text:
            continue
        if not paragraph:
            indent, item = _indent(line), bool(bullet)
        paragraph.append(text[bullet.end() :] if bullet else text)
    if paragraph:
        yield indent, paragraph


# ---- sentences


def _readable(text: str, whole: bool) -> str:
    """The sentences of a paragraph that read as English; none at all of one that must be kept or left out as a ``whole``."""
    if _NO_PROSE.match(text):
        return ""
    sentences = split_sentences(_BROKEN_WORD.sub("-", _unwrapped(text)))
    kept = [sentence for sentence in sentences if is_prose(sentence)]
    if not kept or (whole and len(kept) < len(sentences)):
        return ""
    if kept[-1][-1].isalnum():  # a summary line without its full stop
        kept[-1] += "."
    return " ".join(kept)


def _unwrapped(text: str) -> str:
    """``text`` without the marks of reStructuredText and Markdown around words."""
    if "`" in text:
        text = _ROLE.sub(_role_text, text)
        text = _MARKED.sub(lambda match: match["code"] or _TARGET.sub("", match["text"]), text)
    if "[" in text:
        text = _FOOTNOTE.sub("", _MARKDOWN_LINK.sub(lambda match: match["text"], text))
    if "*" in text:
        text = _EMPHASIS.sub(lambda match: match["text"], text)
    return _LINK.sub(r"\1", _CALL.sub("", text))


def _role_text(match: re.Match[str]) -> str:
    text = match["text"]
    if text.startswith("~"):
        return text.rpartition(".")[2]
    return _TARGET.sub("", text).lstrip("!")


def is_prose(sentence: str) -> bool:
    """Whether a sentence reads as English: at least four words, most of them plain, some of them the commonest, begun and ended as one.

    One that begins with a small letter, as with the name of a function, must be longer and have its full stop.
    """
    words = sentence.split()
    if len(words) < MIN_WORDS or sentence[-1] in ",;-" or _NO_PROSE.search(sentence):
        return False
    if sentence.count("(") != sentence.count(")"):
        return False
    if not sentence.lstrip("\"'(“‘")[:1].isupper() and (len(words) < 8 or sentence[-1] != "."):
        return False
    plain = sum(1 for word in words if _WORD.match(word))
    common = sum(1 for word in words if word.lower() in _COMMON)
    return plain >= 0.75 * len(words) and common >= max(1, len(words) // 8)
