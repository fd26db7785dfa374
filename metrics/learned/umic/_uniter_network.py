"""UNITER in plain PyTorch, as UMIC rates with it (Chen et al. 2020; Lee et al. 2021, section 3.1).

A BERT encoder over a caption's word pieces and an image's detected regions at once. Parameters bear
the names of the authors' checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

EPSILON = 1e-12
#: Numbers of a region's place: x1, y1, x2, y2, width, height, each a share of the image's, and area.
PLACE = 7
#: The standard deviation of fresh weights at base size. Of narrower layers it is larger, so that sums
#: over a layer's inputs are as large: attention that starts out even learns slowly.
SPREAD, BASE = 0.02, 768


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    features: int


class TextEmbeddings(nn.Module):
    """Word, position and kind of each word piece."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(shape.vocabulary, shape.hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(shape.positions, shape.hidden)
        self.token_type_embeddings = nn.Embedding(2, shape.hidden)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor) -> Tensor:
        places = self.position_embeddings.weight[: input_ids.shape[1]]
        kind = self.token_type_embeddings.weight[0]
        return self.dropout(self.LayerNorm(self.word_embeddings(input_ids) + places + kind))


class RegionEmbeddings(nn.Module):
    """What is seen in each region, and where it lies."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.img_linear = nn.Linear(shape.features, shape.hidden)
        self.img_layer_norm = nn.LayerNorm(shape.hidden, eps=EPSILON)
        self.pos_linear = nn.Linear(PLACE, shape.hidden)
        self.pos_layer_norm = nn.LayerNorm(shape.hidden, eps=EPSILON)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, places: Tensor, kind: Tensor) -> Tensor:
        seen = self.img_layer_norm(self.img_linear(features))
        where = self.pos_layer_norm(self.pos_linear(places))
        return self.dropout(self.LayerNorm(seen + where + kind))


class SelfAttention(nn.Module):
    """Attention of some states to all of a sequence's."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = dropout
        self.query = nn.Linear(shape.hidden, shape.hidden)
        self.key = nn.Linear(shape.hidden, shape.hidden)
        self.value = nn.Linear(shape.hidden, shape.hidden)

    def forward(self, asking: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            made.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for made in (self.query(asking), self.key(states), self.value(states))
        )
        rate = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
        return mixed.transpose(1, 2).flatten(-2)


class Added(nn.Module):
    """A dense layer whose output is added to what went before."""

    def __init__(self, inputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + before)


class Layer(nn.Module):
    """A layer of BERT."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(shape, dropout),
                "output": Added(shape.hidden, shape.hidden, dropout),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(shape.hidden, shape.intermediate)})
        self.output = Added(shape.intermediate, shape.hidden, dropout)

    def forward(self, asking: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        mixed = self.attention["output"](self.attention["self"](asking, states, mask), asking)
        return self.output(F.gelu(self.intermediate["dense"](mixed)), mixed)


class Encoder(nn.Module):
    """Layers of BERT."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Layer(shape, dropout) for _ in range(shape.layers)])

    def forward(self, states: Tensor, mask: Tensor, wanted: int | None) -> Tensor:
        """The last layer's first `wanted` states; the others of that layer are not computed."""
        for number, layer in enumerate(self.layer, start=1):
            asking = states[:, :wanted] if number == len(self.layer) else states
            states = layer(asking, states, mask)
        return states


class Body(nn.Module):
    """The network without its heads: a vector for each pair of an image and a caption."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.embeddings = TextEmbeddings(shape, dropout)
        self.img_embeddings = RegionEmbeddings(shape, dropout)
        self.encoder = Encoder(shape, dropout)
        self.pooler = nn.ModuleDict({"dense": nn.Linear(shape.hidden, shape.hidden)})

    def forward(
        self,
        input_ids: Tensor,
        text_len: Tensor,
        features: Tensor,
        places: Tensor,
        num_bb: Tensor,
        wanted: int | None = 1,
    ) -> Tensor:
        kind = self.embeddings.token_type_embeddings.weight[1]
        texts = self.embeddings(input_ids)
        both = torch.cat([texts, self.img_embeddings(features, places, kind)], dim=1)
        # The regions follow each caption's last word piece, so that padding is at the end alone.
        total = text_len + num_bb
        step = torch.arange(int(total.max()), device=both.device).expand(len(both), -1)
        there = step < total[:, None]
        skip = texts.shape[1] - text_len[:, None]
        source = torch.where(step < text_len[:, None], step, step + skip) * there
        states = both.gather(1, source[..., None].expand(-1, -1, both.shape[2]))
        return self.encoder(states, there[:, None, None], wanted)

    def pooled(self, states: Tensor) -> Tensor:
        """What the heads take of the states."""
        return torch.tanh(self.pooler["dense"](states[:, 0]))


class Uniter(nn.Module):
    """UNITER with the heads that rate.

    `rank_output` is UMIC's: the sigmoid of its logit is the score. `itm_output` is UNITER's own, of
    pretraining: the softmax of its two logits says no match, or match.
    """

    def __init__(self, shape: Shape, dropout: float = 0.1) -> None:
        super().__init__()
        self.shape = shape
        self.uniter = Body(shape, dropout)
        self.itm_output = nn.Linear(shape.hidden, 2)
        self.rank_output = nn.Linear(shape.hidden, 1)
        spread = SPREAD * math.sqrt(BASE / shape.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=spread)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(
        self, input_ids: Tensor, text_len: Tensor, features: Tensor, places: Tensor, num_bb: Tensor
    ) -> Tensor:
        """The pooled first state of each pair.

        Args:
            input_ids: word pieces, padded, shape (n, most); the first is [CLS], the last [SEP].
            text_len: how many of them count, shape (n,).
            features: of regions, padded, shape (n, most, features).
            places: of regions, shape (n, most, 7).
            num_bb: how many regions count, shape (n,).

        Returns:
            shape (n, hidden); the heads take it.
        """
        return self.uniter.pooled(self.uniter(input_ids, text_len, features, places, num_bb))

    def start_ranking(self) -> None:
        """Where training from UNITER's weights begins: the rank logit is that of a match."""
        with torch.no_grad():
            self.rank_output.weight.copy_(self.itm_output.weight[1:])
            self.rank_output.bias.copy_(self.itm_output.bias[1:])


def logit(network: Uniter, pooled: Tensor, head: str) -> Tensor:
    """What the sigmoid makes a score of, shape (n,).

    By the head `rank` that is UMIC; by `itm`, whose softmax has two sides, the probability of a match.
    """
    if head == "rank":
        return network.rank_output(pooled)[:, 0]
    sides = network.itm_output(pooled)
    return sides[:, 1] - sides[:, 0]


#: Tensors that tell the sizes of a network.
WORDS = "uniter.embeddings.word_embeddings.weight"
POSITIONS = "uniter.embeddings.position_embeddings.weight"
REGIONS = "uniter.img_embeddings.img_linear.weight"
INNER = "uniter.encoder.layer.0.intermediate.dense.weight"


def shape_of(table: Mapping[str, Tensor], heads: int | None) -> Shape:
    """The sizes that the tensors above tell, each of two dimensions, and the layers' names.

    Args:
        table: tensors under the names of `Uniter`.
        heads: attention heads; where None, one for each 64 dimensions.
    """
    words, hidden = table[WORDS].shape
    return Shape(
        hidden=hidden,
        layers=len({k.split(".")[3] for k in table if k.startswith("uniter.encoder.layer.")}),
        heads=heads or hidden // 64,
        intermediate=len(table[INNER]),
        vocabulary=words,
        positions=len(table[POSITIONS]),
        features=table[REGIONS].shape[1],
    )
