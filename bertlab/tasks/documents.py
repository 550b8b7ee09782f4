"""The words around a sentence, in its document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from bertlab.tasks.examples import TaggingExample


def with_context(sentences: Sequence[TaggingExample], documents: Sequence[int], most: int) -> Iterator[TaggingExample]:
    """The sentences with up to ``most`` words of their document before and after each: a sequence has room for no more.

    Args:
        sentences: in the order of the file.
        documents: of each sentence, the number of its document; sentences of one document stand together.
        most: words on either side.
    """
    for _, members in groupby(zip(documents, sentences, strict=True), key=lambda pair: pair[0]):
        document = [sentence for _, sentence in members]
        words = [word for sentence in document for word in sentence.words]
        begin = 0
        for sentence in document:
            end = begin + len(sentence.words)
            yield replace(sentence, before=tuple(words[max(begin - most, 0) : begin]), after=tuple(words[end : end + most]))
            begin = end
