"""Cutting documents into sequences `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]` (Devlin et al. 2018, section 3.1 and appendix A.2).

Every sequence is a function of the sampler's key and of its place in an endless stream. A document of n tokens gives ceil(n / room)
chunks a pass, whatever the chance, which is why no plan of an epoch is needed: a prefix sum over the documents finds any chunk.
Where the cuts fall is drawn anew for each pass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np

from bertlab.arrays import Floats, Int64s
from bertlab.data.epochs import EpochOrder
from bertlab.data.mapping import let_go
from bertlab.data.ragged import offsets_of
from bertlab.data.randomness import below, derive, mix, uniform
from bertlab.errors import UserError

if TYPE_CHECKING:
    from bertlab.data.store import TokenStore


# Spans are found for aligned blocks of places: a NumPy call costs as much for a handful of sequences as for some hundreds.
_BLOCK = 512
FOUR = 4  # neighbours in the stream of which half exchange their second segments
_NEARBY = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4])  # sentences about a start, the preferred ones first
_NO_FIT = np.iinfo(np.int64).max
_MAPPED_AT_MOST = 1 << 30  # bytes; of a larger store what was read is let go of after every block
_WEIGHTED_TRIES = 4  # of finding another document by its share of the corpus before any other one is taken


@dataclass(frozen=True)
class Sequences:
    """B sequences with T tokens, laid flat: sequence b is ``tokens[offsets[b]:offsets[b + 1]]``."""

    tokens: Int64s  # (T,)
    segments: Int64s  # (T,) 0 in [CLS] A [SEP], 1 in B [SEP]
    positions: Int64s  # (T,) place within the sequence
    offsets: Int64s  # (B + 1,)
    places: Int64s  # (B,) place in the stream: what randomness about a sequence is keyed by
    next_sentence: Int64s | None  # (B,) 0: B follows A, 1: B is from another document

    @property
    def lengths(self) -> Int64s:
        """(B,) tokens of each sequence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Spans:
    """What n sequences are cut from; all (n,) int64, positions in the store's tokens."""

    row: Int64s  # the document of A, as a row of the sampler's documents
    start: Int64s  # of A
    split: Int64s  # end of A
    second_start: Int64s  # of B
    second_end: Int64s
    label: Int64s  # 0: B follows A, 1: B is from another document

    def part(self, first: int, end: int) -> Self:
        """Those from ``first`` to ``end``."""
        return type(self)(*(getattr(self, f.name)[first:end] for f in fields(self)))


def usable_documents(document_offsets: Int64s, documents: Int64s, *, pair: bool) -> Int64s:
    """Those of the ``documents`` with text enough for a sequence, or for a pair of segments."""
    sizes = document_offsets[documents + 1] - document_offsets[documents]
    return documents[sizes >= (2 if pair else 1)]


class SequenceSampler:
    """The endless stream of sequences of one length from a set of documents."""

    def __init__(
        self,
        store: TokenStore,
        documents: Int64s,
        length: int,
        key: np.uint64,
        *,
        pair: bool,
        next_sentence: bool = False,
        short_probability: float = 0.0,
        weighted: bool = True,
    ) -> None:
        """``documents``: (D,) numbers; ``length`` counts [CLS] and [SEP]; not ``weighted`` ignores the sources' weights.

        Raises:
            UserError: where the length leaves no room, or there are too few documents.
        """
        if next_sentence and not pair:
            raise ValueError("next-sentence labels need pairs of segments")
        self._room = length - (3 if pair else 2)
        if self._room < 2:
            least = length - self._room + 2
            raise UserError(f"A sequence of length {length} leaves no room for text beside [CLS] and [SEP]: set it to {least} or more.")
        self._pair, self._next_sentence, self._short_probability = pair, next_sentence, short_probability
        self._cls, self._sep = store.vocabulary.cls, store.vocabulary.sep
        # Plain views: indexing a memmap object itself costs microseconds a call more.
        self._tokens = np.asarray(store.tokens)
        self._sentences = np.asarray(store.sentence_offsets)
        self._document_sentences = np.asarray(store.document_sentences)
        self._document_offsets = np.asarray(store.document_offsets)
        self._documents = self._usable(np.sort(documents))
        self._order = self._order_of(store, key, weighted)
        self._pass_key, self._coin_key = derive(int(key), "pass"), derive(int(key), "coin")
        self._cut_keys = np.array([derive(int(key), "cut", n) for n in range(5)], np.uint64)[:, None]
        self._other_keys = np.array([derive(int(key), "other", n) for n in range(2 * _WEIGHTED_TRIES + 2)], np.uint64)[:, None]
        self._blocks: dict[int, Spans] = {}

    def _usable(self, documents: Int64s) -> Int64s:
        usable = usable_documents(self._document_offsets, documents, pair=self._pair)
        if not usable.size:
            raise UserError("The corpus has no text to sample from here: every document is empty. Look at what `bertlab prepare` reported.")
        if self._next_sentence and usable.size < 2:
            raise UserError(
                "Next-sentence prediction takes its false next sentences from another document, but there is only one here (of the "
                f"{documents.size} in this part of the corpus): add documents, change corpus.held_out, or use objective=mlm."
            )
        return usable

    def _order_of(self, store: TokenStore, key: np.uint64, weighted: bool) -> EpochOrder:
        sizes = self._document_offsets[self._documents + 1] - self._document_offsets[self._documents]
        if weighted:
            edges = [(source.first_document, source.end_document) for source in store.sources]
            rows = [(int(first), int(end)) for first, end in np.searchsorted(self._documents, edges)]
            weights = [float(source.weight) for source in store.sources]
        else:
            rows, weights = [(0, self._documents.size)], [1.0]
        return EpochOrder(-(-sizes // self._room), rows, weights, derive(int(key), "order"))

    @property
    def epoch_length(self) -> int:
        """Sequences in an epoch."""
        return self._order.length

    def draw(self, first: int, count: int) -> Sequences:
        """The sequences at the places [first, first + count) of the stream, which goes on over epochs without end."""
        return self._gather(self.spans(first, count), np.arange(first, first + count))

    def spans(self, first: int, count: int) -> Spans:
        """What these places' sequences are cut from."""
        end = first + count
        blocks = range(first // _BLOCK, (end - 1) // _BLOCK + 1)
        self._blocks = {n: self._blocks[n] if n in self._blocks else self._find(n * _BLOCK, _BLOCK) for n in blocks}
        parts = [self._blocks[n].part(max(first - n * _BLOCK, 0), end - n * _BLOCK) for n in blocks]
        if len(parts) == 1:
            return parts[0]
        return Spans(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Spans)))

    def _find(self, first: int, count: int) -> Spans:
        if self._tokens.nbytes + self._sentences.nbytes > _MAPPED_AT_MOST:
            let_go(self._tokens)
            let_go(self._sentences)
        places = np.arange(first, first + count)
        draws = uniform(mix(self._cut_keys, places))  # (5, n)
        row, start, end = self._cut(places, draws[:3])
        if not self._pair:
            return Spans(row, start, end, end, end, np.zeros_like(row))
        start, split, end = self._split(row, start, end, draws[3:])
        spans = Spans(row, start, split, split.copy(), end, np.zeros_like(row))
        if self._next_sentence:
            self._exchange(spans, places)
        return spans

    def _cut(self, places: Int64s, draws: Floats) -> tuple[Int64s, Int64s, Int64s]:
        """The chunk of its document that each place takes: (row, start, end).

        A pass parts a document of n tokens into m = ceil(n / room) chunks at the multiples of the room, all shifted to the left by
        an offset in [0, m * room - n]: each token is in exactly one chunk, and each shift keeps the number of chunks.
        """
        place = self._order.locate(places)
        document = self._documents[place.rows]
        first, end = self._document_offsets[document], self._document_offsets[document + 1]
        slack = (first - end) % self._room  # m * room - n
        shift = below(mix(mix(self._pass_key, place.passes), document), slack + 1)
        chunk_start = first + place.chunks * self._room - shift
        start, end = np.maximum(chunk_start, first), np.minimum(chunk_start + self._room, end)
        # The paper's short sequences, cut from either side alike so that no part of a document is preferred.
        size = np.where(draws[0] < self._short_probability, 2 + (draws[1] * (self._room - 1)).astype(np.int64), self._room)
        surplus = np.maximum(end - start - size, 0)
        at_front = draws[2] < 0.5
        return place.rows, start + surplus * at_front, end - surplus * ~at_front

    def _split(self, row: Int64s, start: Int64s, end: Int64s, draws: Floats) -> tuple[Int64s, Int64s, Int64s]:
        """Where A ends and B begins: (start, split, end), at a start of a sentence wherever the document has one within."""
        after = self._first_sentence(row, start + 1)  # that starts past the chunk's start
        inside = self._first_sentence(row, end) - after
        split = self._sentences[after + (draws[0] * np.maximum(inside, 0)).astype(np.int64)]
        lacking = np.flatnonzero(inside <= 0)
        if lacking.size:
            start, end = start.copy(), end.copy()
            start[lacking], split[lacking], end[lacking] = self._move_window(
                row[lacking], start[lacking], end[lacking], after[lacking], draws[1, lacking]
            )
        return start, split, end

    def _move_window(self, row: Int64s, start: Int64s, end: Int64s, after: Int64s, proportion: Floats) -> tuple[Int64s, Int64s, Int64s]:
        """The same for chunks within one sentence: the window moves to the nearest start of a sentence of the document.

        The start of the document itself does not count, as nothing precedes it. A document of a single sentence is split at a token.
        """
        document = self._documents[row]
        first, last = self._document_offsets[document], self._document_offsets[document + 1]
        size = np.maximum(end - start, 2)
        before_split = np.clip(np.rint(proportion * size).astype(np.int64), 1, size - 1)
        has_left = after - 1 > self._document_sentences[document]
        has_right = after < self._document_sentences[document + 1]
        left, right = self._sentences[after - 1], self._sentences[np.minimum(after, self._sentences.size - 1)]
        takes_right = has_right & (~has_left | (right - end < start - left))
        split = np.where(takes_right, right, left)
        has_any = has_left | has_right
        start = np.clip(np.where(has_any, split - before_split, start), first, last - size)
        return start, np.where(has_any, split, start + before_split), start + size

    def _exchange(self, spans: Spans, places: Int64s) -> None:
        """Gives half of the sequences a B from another document, in place.

        Of four neighbours in the stream one pair, by the toss of a coin, exchanges: each gets what starts at the other's split, as
        long as its own B was, so that lengths tell nothing about the label. Exactly half of every four are exchanged.
        """
        coin = mix(self._coin_key, places >> 2) & np.uint64(1)
        chosen = np.flatnonzero(((places >> 1) & 1) == coin)
        partner = chosen ^ 1  # blocks start at a multiple of four
        size = (spans.second_end - spans.second_start)[chosen]
        row = spans.row[partner]
        start = spans.split[partner]
        late = np.flatnonzero(start + size > self._document_offsets[self._documents[row] + 1])
        start[late] = self._latest_start(row[late], size[late])
        unfit = np.flatnonzero((start < 0) | (row == spans.row[chosen]))
        row[unfit], start[unfit] = self._from_elsewhere(spans.row[chosen[unfit]], size[unfit], places[chosen[unfit]])
        end = np.minimum(start + size, self._document_offsets[self._documents[row] + 1])
        closed = np.flatnonzero(spans.second_end[chosen] == self._document_offsets[self._documents[spans.row[chosen]] + 1])
        room = self._room - (spans.split - spans.start)[chosen]
        start[closed], end[closed] = self._whole_sentences(row[closed], start[closed], end[closed], size[closed], room[closed])
        spans.second_start[chosen], spans.second_end[chosen], spans.label[chosen] = start, end, 1

    def _first_sentence(self, row: Int64s, token: Int64s) -> Int64s:
        """The number of the document's first sentence that starts at ``token`` or later; that of the next document when none does.

        A bisection within the document: one through all sentences would read parts of the file all over.
        """
        document = self._documents[row]
        low, high = self._document_sentences[document], self._document_sentences[document + 1]
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            is_later = (self._sentences[middle] < token) & (low < high)
            low, high = np.where(is_later, middle + 1, low), np.where(is_later, high, middle)
        return low

    def _latest_start(self, row: Int64s, size: Int64s) -> Int64s:
        """The last start of a sentence that ``size`` tokens of the document follow; -1 when there is none.

        The document's own start is not taken: a true B never has it. A document of a single sentence gives any token.
        """
        document = self._documents[row]
        latest = self._document_offsets[document + 1] - size
        sentence = self._first_sentence(row, latest + 1) - 1
        first = self._document_sentences[document]
        single = self._document_sentences[document + 1] - first == 1
        possible = np.where(single, latest > self._document_offsets[document], sentence > first)
        return np.where(possible, np.where(single, latest, self._sentences[sentence]), -1)

    def _random_start(self, row: Int64s, size: Int64s, draw: Floats) -> Int64s:
        """A random start of a sentence but the first that ``size`` tokens of the document follow; -1 when there is none."""
        document = self._documents[row]
        begin, first = self._document_offsets[document], self._document_sentences[document]
        latest = self._document_offsets[document + 1] - size
        single = self._document_sentences[document + 1] - first == 1
        choices = np.where(single, latest - begin, self._first_sentence(row, latest + 1) - 1 - first)
        choice = 1 + (draw * np.maximum(choices, 0)).astype(np.int64)
        sentence = np.minimum(first + choice, self._sentences.size - 1)
        return np.where(choices >= 1, np.where(single, begin + choice, self._sentences[sentence]), -1)

    def _from_elsewhere(self, own_row: Int64s, size: Int64s, places: Int64s) -> tuple[Int64s, Int64s]:
        """(row, start) of a B of ``size`` tokens from any document but the own: by documents' shares of the corpus if that soon
        finds one with room, else from any other document, and then as long as that one allows.
        """
        draws = uniform(mix(self._other_keys, places))  # (2 * tries + 2, n)
        # The last resort comes first, and better finds replace it.
        count = self._documents.size
        row = (own_row + 1 + (draws[-1] * (count - 1)).astype(np.int64)) % count
        start = self._random_start(row, size, draws[-2])
        start = np.where(start < 0, self._longest_start(row), start)
        pending = np.arange(own_row.size)
        for chunk_draw, start_draw in zip(draws[0:-2:2], draws[1:-2:2], strict=True):
            if not pending.size:
                break
            found, _ = self._order.rows_of((chunk_draw[pending] * self._order.chunks).astype(np.int64))
            found_start = self._random_start(found, size[pending], start_draw[pending])
            fit = (found_start >= 0) & (found != own_row[pending])
            row[pending[fit]], start[pending[fit]] = found[fit], found_start[fit]
            pending = pending[~fit]
        return row, start

    def _longest_start(self, row: Int64s) -> Int64s:
        """The start of a document's second sentence (of a single one: its second token)."""
        document = self._documents[row]
        first = self._document_sentences[document]
        single = self._document_sentences[document + 1] - first == 1
        return np.where(single, self._document_offsets[document] + 1, self._sentences[first + 1])

    def _whole_sentences(self, row: Int64s, start: Int64s, end: Int64s, size: Int64s, room: Int64s) -> tuple[Int64s, Int64s]:
        """(start, end) of whole sentences of nearly ``size`` tokens, at most ``room``; as given when there are none about ``start``.

        It is for B whose own, true B ends its document. Others end within a sentence, or with one by chance, as exchanged ones do;
        but without this a model could tell the true ones of short documents by their final full stop. Of some starts near the given
        one that is taken from which the end of a sentence fits best, lest the lengths tell the label instead.
        """
        document = self._documents[row]
        first, last = self._document_sentences[document] + 1, self._document_sentences[document + 1]  # starts that may be taken, and end
        sentence = np.clip(self._first_sentence(row, start) + _NEARBY[:, None], first, np.maximum(last - 1, first))  # (nearby, n)
        starts = self._sentences[sentence]
        after = self._first_sentence(np.broadcast_to(row, starts.shape), starts + size)
        ends = self._sentences[np.stack([after, np.maximum(after - 1, sentence)])]  # (2, nearby, n): the ends about the one sought
        sizes = ends - starts
        misfit = np.where((sizes > 0) & (sizes <= room), np.abs(sizes - size), _NO_FIT).reshape(2 * _NEARBY.size, row.size)
        best = misfit.argmin(axis=0), np.arange(row.size)
        fits = (misfit[best] < _NO_FIT) & (first < last)
        starts = np.tile(starts, (2, 1))
        return np.where(fits, starts[best], start), np.where(fits, ends.reshape(misfit.shape)[best], end)

    def _gather(self, spans: Spans, places: Int64s) -> Sequences:
        """Reads the spans' tokens and sets [CLS] and [SEP] around them, all sequences at once."""
        count, segments = places.size, 2 if self._pair else 1
        # A piece is [CLS] A [SEP] or B [SEP]; read with its special tokens as if they were the store's neighbouring tokens.
        source = np.empty((count, segments), np.int64)
        sizes = np.empty((count, segments), np.int64)
        source[:, 0], sizes[:, 0] = spans.start - 1, spans.split - spans.start + 2
        if self._pair:
            source[:, 1], sizes[:, 1] = spans.second_start, spans.second_end - spans.second_start + 1
        pieces = offsets_of(sizes.ravel())  # (count * segments + 1,)
        offsets = pieces[::segments]
        flat = np.arange(pieces[-1])
        tokens = self._tokens.take(flat + np.repeat(source.ravel() - pieces[:-1], sizes.ravel()), mode="clip").astype(np.int64)
        tokens[offsets[:-1]] = self._cls
        tokens[pieces[1:] - 1] = self._sep
        positions = flat - np.repeat(offsets[:-1], np.diff(offsets))
        segment_ids = np.repeat(np.tile(np.arange(segments), count), sizes.ravel())
        return Sequences(tokens, segment_ids, positions, offsets, places, spans.label if self._next_sentence else None)
