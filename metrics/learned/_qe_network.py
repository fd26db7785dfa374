"""QE's network in PyTorch (Levinboim et al. 2021, equation 1); `qe.py` imports it when it trains or predicts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Of leaky ReLU below zero; the paper does not say, and this is TensorFlow's.
SLOPE = 0.2


class Bilinear(nn.Module):
    """[x; 1]ᵀ B [y; 1]."""

    def __init__(self, x_width: int, y_width: int) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.empty(x_width + 1, y_width + 1))
        nn.init.xavier_uniform_(self.b)

    def project(self, x: Tensor) -> Tensor:
        """Return [x; 1]ᵀ B."""
        return append_one(x) @ self.b


class QeNetwork(nn.Module):
    """Logits of rows, from embeddings as `Qe.load_inputs` returns them.

    Args:
        widths: of images, captions and labels, and the number of labels.
        dropout: on the inputs of every layer.
    """

    def __init__(self, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        images, texts, label_width, self.n_labels = widths
        self.drop = nn.Dropout(dropout)
        self.image = nn.Linear(images, images)
        self.text = nn.Linear(texts, texts)
        self.image_text = Bilinear(images, texts)

        if self.n_labels:
            self.label = nn.Linear(label_width, label_width)
            self.label_image = Bilinear(label_width, images)
            self.label_text = Bilinear(label_width, texts)

        self.out = nn.Linear(1 + 2 * self.n_labels, 1)

    def forward(self, images: Tensor, texts: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return logits of the rows, shape (n,)."""
        return self._logits(images, texts, labels, mask, "nd,nd->n", "nld,nd->nl")

    def all_pairs(self, images: Tensor, texts: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return logits of every image with every caption, shape (n, n)."""
        return self._logits(images, texts, labels, mask, "nd,md->nm", "nld,md->nml")

    def keep_labels(self, n_labels: int) -> QeNetwork:
        """Return a copy that reads the first labels only, and scores rows of no more labels as this one.

        Args:
            n_labels: at most those of this network.
        """
        label_width = self.label.in_features if n_labels else 0
        widths = (self.image.in_features, self.text.in_features, label_width, n_labels)
        copied = QeNetwork(widths, self.drop.p)
        weights = {name: self.state_dict()[name] for name in copied.state_dict()}

        # The output layer reads the image with the caption, then each label with the image, then with the caption.
        sizes = [1, self.n_labels, self.n_labels]
        first, label_image, label_text = weights["out.weight"].split(sizes, dim=1)
        columns = [first, label_image[:, :n_labels], label_text[:, :n_labels]]
        weights["out.weight"] = torch.cat(columns, dim=1)

        copied.load_state_dict(weights)
        return copied.to(first.device)

    def _logits(
        self,
        images: Tensor,
        texts: Tensor,
        labels: Tensor,
        mask: Tensor,
        text_product: str,
        label_product: str,
    ) -> Tensor:
        images = self._dense(self.image, images)
        texts = append_one(self._dense(self.text, texts))
        image_text = torch.einsum(text_product, self.image_text.project(images), texts)
        terms = [image_text[..., None]]

        if self.n_labels:
            labels = self._dense(self.label, labels)
            projected = self.label_image.project(labels)
            label_image = torch.einsum("nld,nd->nl", projected, append_one(images)) * mask
            # Of all pairs, an image's labels are the same with every caption.

            if image_text.ndim == 2:
                label_image = label_image[:, None].expand(*image_text.shape, -1)
                mask = mask[:, None]

            projected = self.label_text.project(labels)
            label_text = torch.einsum(label_product, projected, texts) * mask
            terms += [label_image, label_text]

        return self.out(self.drop(torch.cat(terms, dim=-1)))[..., 0]

    def _dense(self, layer: nn.Module, x: Tensor) -> Tensor:
        return self.drop(nn.functional.leaky_relu(layer(self.drop(x)), SLOPE))


def append_one(x: Tensor) -> Tensor:
    """Return [x; 1] along the last axis."""
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
