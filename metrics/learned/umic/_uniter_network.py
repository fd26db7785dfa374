"""UNITER in plain PyTorch, as UMIC scores with it (Chen et al. 2020; Lee et al. 2021, section 3.1).

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
#: Numbers of a region's box: x1, y1, x2, y2, width, height, each a share of the image's, and area.
BOX_WIDTH = 7
#: The standard deviation of random weights at base size. In narrower layers it is larger, so that sums
#: over a layer's inputs are as large: attention that starts out even learns slowly.
BASE_DEVIATION, BASE_HIDDEN = 0.02, 768


@dataclass(frozen=True)
class UniterSizes:
    """The sizes of a network."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    features: int


class TextEmbeddings(nn.Module):
    """Embeddings of a caption's word pieces: word, position and type."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.vocabulary, sizes.hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(sizes.positions, sizes.hidden)
        self.token_type_embeddings = nn.Embedding(2, sizes.hidden)
        self.LayerNorm = nn.LayerNorm(sizes.hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = self.position_embeddings.weight[: input_ids.shape[1]]
        text_type = self.token_type_embeddings.weight[0]
        states = self.word_embeddings(input_ids) + positions + text_type

        return self.dropout(self.LayerNorm(states))


class RegionEmbeddings(nn.Module):
    """Embeddings of an image's regions: features, box and type."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.img_linear = nn.Linear(sizes.features, sizes.hidden)
        self.img_layer_norm = nn.LayerNorm(sizes.hidden, eps=EPSILON)
        self.pos_linear = nn.Linear(BOX_WIDTH, sizes.hidden)
        self.pos_layer_norm = nn.LayerNorm(sizes.hidden, eps=EPSILON)
        self.LayerNorm = nn.LayerNorm(sizes.hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, boxes: Tensor, image_type: Tensor) -> Tensor:
        content = self.img_layer_norm(self.img_linear(features))
        position = self.pos_layer_norm(self.pos_linear(boxes))
        return self.dropout(self.LayerNorm(content + position + image_type))


class SelfAttention(nn.Module):
    """Multi-head attention of some states of a sequence to all of them."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.dropout = dropout
        self.query = nn.Linear(sizes.hidden, sizes.hidden)
        self.key = nn.Linear(sizes.hidden, sizes.hidden)
        self.value = nn.Linear(sizes.hidden, sizes.hidden)

    def forward(self, queries: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        query = self._split_heads(self.query(queries))
        key = self._split_heads(self.key(states))
        value = self._split_heads(self.value(states))

        rate = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)

        return mixed.transpose(1, 2).flatten(-2)

    def _split_heads(self, projected: Tensor) -> Tensor:
        """Return states head by head, shape (n, heads, states, width of a head)."""
        return projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class ResidualLayer(nn.Module):
    """A dense layer whose output is added to the states before it."""

    def __init__(self, inputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + before)


class BertLayer(nn.Module):
    """A layer of BERT."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(sizes, dropout),
                "output": ResidualLayer(sizes.hidden, sizes.hidden, dropout),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(sizes.hidden, sizes.intermediate)})
        self.output = ResidualLayer(sizes.intermediate, sizes.hidden, dropout)

    def forward(self, queries: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        attended = self.attention["self"](queries, states, mask)
        mixed = self.attention["output"](attended, queries)

        return self.output(F.gelu(self.intermediate["dense"](mixed)), mixed)


class BertEncoder(nn.Module):
    """Layers of BERT."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(sizes, dropout) for _ in range(sizes.layers)])

    def forward(self, states: Tensor, mask: Tensor, n_states: int | None) -> Tensor:
        """Return the last layer's first `n_states` states; that layer computes no others."""
        for number, layer in enumerate(self.layer, start=1):
            # Nobody reads the other states of the last layer.
            queries = states[:, :n_states] if number == len(self.layer) else states
            states = layer(queries, states, mask)

        return states


class UniterBody(nn.Module):
    """UNITER without its heads: states of pairs of a caption and an image."""

    def __init__(self, sizes: UniterSizes, dropout: float) -> None:
        super().__init__()
        self.embeddings = TextEmbeddings(sizes, dropout)
        self.img_embeddings = RegionEmbeddings(sizes, dropout)
        self.encoder = BertEncoder(sizes, dropout)
        self.pooler = nn.ModuleDict({"dense": nn.Linear(sizes.hidden, sizes.hidden)})

    def forward(
        self,
        input_ids: Tensor,
        text_len: Tensor,
        features: Tensor,
        boxes: Tensor,
        num_bb: Tensor,
        n_states: int | None = 1,
    ) -> Tensor:
        """Return the first `n_states` states of each pair; for the other arguments see `Uniter`."""
        image_type = self.embeddings.token_type_embeddings.weight[1]
        texts = self.embeddings(input_ids)
        padded = torch.cat([texts, self.img_embeddings(features, boxes, image_type)], dim=1)

        # Move the regions next to each caption's last word piece, so that all padding is at the end.
        total = text_len + num_bb
        step = torch.arange(int(total.max()), device=padded.device).expand(len(padded), -1)
        mask = step < total[:, None]
        skip = texts.shape[1] - text_len[:, None]
        source = torch.where(step < text_len[:, None], step, step + skip) * mask
        states = padded.gather(1, source[..., None].expand(-1, -1, padded.shape[2]))

        return self.encoder(states, mask[:, None, None], n_states)

    def pool(self, states: Tensor) -> Tensor:
        """Return the input of the heads, from the first state."""
        return torch.tanh(self.pooler["dense"](states[:, 0]))


class Uniter(nn.Module):
    """UNITER with the heads that score pairs.

    `rank_output` is UMIC's: the sigmoid of its logit is the score. `itm_output` is UNITER's own, of
    pretraining: the softmax of its two logits says no match, or match.
    """

    def __init__(self, sizes: UniterSizes, dropout: float = 0.1) -> None:
        super().__init__()
        self.sizes = sizes
        self.uniter = UniterBody(sizes, dropout)
        self.itm_output = nn.Linear(sizes.hidden, 2)
        self.rank_output = nn.Linear(sizes.hidden, 1)

        deviation = BASE_DEVIATION * math.sqrt(BASE_HIDDEN / sizes.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(
        self, input_ids: Tensor, text_len: Tensor, features: Tensor, boxes: Tensor, num_bb: Tensor
    ) -> Tensor:
        """Return the input of the heads for each pair, shape (n, hidden).

        Args:
            input_ids: word pieces, padded, shape (n, longest); the first is [CLS], the last [SEP].
            text_len: their number, shape (n,).
            features: of regions, padded, shape (n, most regions, features).
            boxes: of regions, shape (n, most regions, 7).
            num_bb: the number of regions, shape (n,).
        """
        return self.uniter.pool(self.uniter(input_ids, text_len, features, boxes, num_bb))

    def start_ranking(self) -> None:
        """Copy the logit of a match into the rank head, where training from UNITER's weights begins."""
        with torch.no_grad():
            self.rank_output.weight.copy_(self.itm_output.weight[1:])
            self.rank_output.bias.copy_(self.itm_output.bias[1:])


def compute_logit(network: Uniter, pooled: Tensor, head: str) -> Tensor:
    """Compute the logit whose sigmoid is the score, shape (n,).

    With the head `rank` that is UMIC; with `itm`, a softmax of two, the probability of a match.
    """
    if head == "rank":
        return network.rank_output(pooled)[:, 0]
    logits = network.itm_output(pooled)

    return logits[:, 1] - logits[:, 0]


#: Matrices from whose shapes the sizes of a network are read.
WORDS = "uniter.embeddings.word_embeddings.weight"
POSITIONS = "uniter.embeddings.position_embeddings.weight"
REGIONS = "uniter.img_embeddings.img_linear.weight"
INTERMEDIATE = "uniter.encoder.layer.0.intermediate.dense.weight"


def read_sizes(tensors: Mapping[str, Tensor], heads: int | None) -> UniterSizes:
    """Read the sizes of a network from the shapes of the matrices above and the layers' names.

    Args:
        tensors: under the names of `Uniter`.
        heads: attention heads; if None, one for each 64 dimensions.
    """
    words, hidden = tensors[WORDS].shape
    layers: set[str] = set()
    for name in tensors:
        # As in uniter.encoder.layer.11.output.dense.weight.
        if name.startswith("uniter.encoder.layer."):
            layers.add(name.split(".")[3])

    return UniterSizes(
        hidden=hidden,
        layers=len(layers),
        heads=heads or hidden // 64,
        intermediate=len(tensors[INTERMEDIATE]),
        vocabulary=words,
        positions=len(tensors[POSITIONS]),
        features=tensors[REGIONS].shape[1],
    )
