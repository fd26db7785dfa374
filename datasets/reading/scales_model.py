"""The model of the file of scales beside a table of ratings, which `rating_scales` shows."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, RootModel, model_validator

from ..schema import Scale, on_scale
from .yaml_model import VISIBLE, Text, YamlModel, fault, number

#: How far the ends of a scale may lie from 0.
_FARTHEST = 1e9
_ShortText = Annotated[str, Field(max_length=500), VISIBLE]


class ScaleFields(YamlModel):
    """The scale of a dimension."""

    low: Annotated[float, number(-_FARTHEST, _FARTHEST)]
    high: Annotated[float, number(-_FARTHEST, _FARTHEST)]
    step: Annotated[float, number(0, _FARTHEST)] | None = None

    @property
    def scale(self) -> Scale:
        """The scale that the fields say."""
        return Scale(self.low, self.high, self.step)

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        low = self.low
        high = self.high
        step = self.step
        if low >= high:
            raise fault(f"{high:g} is not above low, {low:g}", below="high")
        if step is not None and not (step and on_scale(self.scale, high)):
            message = f"steps of {step:g} do not lead from {low:g} to {high:g}"
            raise fault(message, below="step")

        return self


class ScalesByDimension(RootModel[dict[str, ScaleFields]]):
    """The scale of each dimension."""

    @property
    def scales(self) -> dict[str, Scale]:
        """The scales by dimension."""
        return {dimension: fields.scale for dimension, fields in self.root.items()}


class Conditions(YamlModel):
    """The conditions of collecting judgements that the papers report; texts that are missing are empty."""

    countries: _ShortText = ""
    approval_rate: _ShortText = ""
    tasks: _ShortText = ""
    pay: _ShortText = ""
    qualification: _ShortText = ""
    training: _ShortText = ""
    raters: _ShortText = ""

    @property
    def texts(self) -> dict[str, str]:
        """The texts that are there, by name."""
        return {name: text for name, text in self if text}


class ScalesFile(YamlModel):
    """The whole file."""

    scales: ScalesByDimension = Field(default_factory=lambda: ScalesByDimension({}))
    totals: list[Text] = Field(default_factory=list)
    faults: list[Text] = Field(default_factory=list)
    conditions: Conditions = Field(default_factory=Conditions)
