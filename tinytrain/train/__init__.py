"""From a forward graph to a training graph: head, scheme, autodiff."""

from tinytrain.train.autodiff import differentiate
from tinytrain.train.head import attach_loss
from tinytrain.train.options import TrainOptions
from tinytrain.train.scheme import Scheme, parse_scheme

__all__ = ["Scheme", "TrainOptions", "attach_loss", "differentiate", "parse_scheme"]
