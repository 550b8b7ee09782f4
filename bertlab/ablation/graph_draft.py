"""The graph of runs under construction: what several tables or cells want is one node, which is kept for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bertlab.ablation.costs import Cost, finetuning_cost, pretraining_cost
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node
from bertlab.ablation.meaning import Meanings, architecture_of, key_of, shape_of
from bertlab.ablation.table_draft import FinetuningDraft, RowDraft
from bertlab.ablation.words import merged
from bertlab.config import BudgetConfig, PretrainConfig
from bertlab.data.schedule import plan_training
from bertlab.training.identity import Identity, readable_name


@dataclass
class _Draft:
    """A node that may still be wanted by more, and for more of its weights."""

    node: Node
    keep: set[int] = field(default_factory=set)  # steps after which its weights are kept
    wanted_by: dict[str, None] = field(default_factory=dict)


class GraphDraft:
    """Nodes by their keys, in the order in which they were first wanted."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._meanings = Meanings()
        self.naive_runs, self.naive_flops = 0, 0.0  # if every table and cell had runs of its own

    def nodes(self) -> dict[str, Node]:
        """All that were drafted, as they are to be run."""
        return {key: _finished(draft) for key, draft in self._drafts.items()}

    def pretraining(self, row: RowDraft, seed: int, source: str | None, keep: Sequence[float], wanted_by: str) -> str:
        """The key of a row's pretraining.

        Args:
            row: the row.
            seed: the seed.
            source: the key of the pretraining that it goes on from.
            keep: shares of its steps after which its weights are kept.
            wanted_by: table and row, for people.
        """
        what = f"{readable_name(row.config)} ({wanted_by}), seed {seed}"
        key = self._pretraining(row.config, row.words, seed, source, what)
        total = plan_training(row.config).total_steps
        if total is not None:
            self._drafts[key].keep |= {step for share in keep if (step := step_after(share, total)) is not None}
        return key

    def single_step(self, row: RowDraft) -> str:
        """The key of a pretraining of a single step, which gives a row's architecture and vocabulary and nothing else."""
        config = replace(row.config, budget=BudgetConfig(steps=1))
        what = f"{readable_name(config)}, a single step for its architecture and vocabulary"
        return self._pretraining(config, tuple(merged(row.words, ["budget.steps=1"])), 1, None, what)

    def _pretraining(self, config: PretrainConfig, words: tuple[str, ...], seed: int, source: str | None, what: str) -> str:
        meaning = self._meanings.pretraining(replace(config, seed=seed), source)
        origin = None if source is None else self._origin(source, None)
        return self._draft(meaning, origin, Node("", PRETRAINING, words, seed, source, label=what), pretraining_cost(config))

    def finetuning(self, draft: FinetuningDraft, pretraining: PretrainConfig, source: str, step: int | None, seed: int, what: str) -> str:
        """The key of a fine-tuning.

        Args:
            draft: what is fine-tuned.
            pretraining: what gives the weights.
            source: its key.
            step: the one whose weights are taken; None: the last.
            seed: the seed.
            what: row and column, for people.
        """
        weights = source if step is None else f"{source}@{step}"
        meaning = self._meanings.finetuning(replace(draft.config, seed=seed), pretraining, weights)
        # Random weights are those of any source of the architecture.
        origin = None if meaning["pretrained"] is None else self._origin(source, step)
        at = "" if step is None else f" after step {step:,}"
        node = Node("", FINETUNING, draft.words, seed, source, step, label=f"{what}{at}, seed {seed}")
        return self._draft(meaning, origin, node, finetuning_cost(draft.config, architecture_of(pretraining)))

    def want(self, key: str, who: str) -> None:
        """Note who wants a run, as if nobody else did."""
        self._drafts[key].wanted_by[who] = None

    def is_wanted(self, key: str) -> bool:
        """Whether anybody does yet."""
        return bool(self._drafts[key].wanted_by)

    def count(self, key: str) -> None:
        """Count a run as it would be if nothing were shared."""
        self.naive_runs += 1
        self.naive_flops += self._drafts[key].node.flops

    def _origin(self, source: str, step: int | None) -> str:
        """The shape of what a run starts from."""
        return f"{self._drafts[source].node.shape}@{step}"

    def _draft(self, meaning: Identity, origin: str | None, node: Node, cost: Cost) -> str:
        """Give ``node`` its key and what follows from its meaning; it is drafted where it is new."""
        key = key_of(meaning)
        if key not in self._drafts:
            overrides, shape = (*node.overrides, f"seed={node.seed}"), shape_of(meaning, origin)
            node = replace(node, key=key, overrides=overrides, positions=cost.tokens, flops=cost.flops, shape=shape)
            self._drafts[key] = _Draft(node)
        return key


def step_after(share: float, total: int) -> int | None:
    """The step after which ``share`` of ``total`` steps are done; None for the last one, whose weights are the final ones."""
    step = max(1, round(share * total))
    return None if step >= total else step


def _finished(draft: _Draft) -> Node:
    keep = f"checkpointing.keep_at=[{','.join(map(str, sorted(draft.keep)))}]"
    overrides = (*draft.node.overrides, keep) if draft.keep else draft.node.overrides
    return replace(draft.node, overrides=overrides, wanted_by=tuple(draft.wanted_by))
