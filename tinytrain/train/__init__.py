"""From a forward graph to a training graph: head, scheme, autodiff."""

from tinytrain.train.autodiff import differentiate
from tinytrain.train.head import attach_loss
from tinytrain.train.options import TrainOptions
from tinytrain.train.scheme import Scheme, SchemeTable, parse_scheme
from tinytrain.train.training import Training

__all__ = [
    "Scheme",
    "SchemeTable",
    "TrainOptions",
    "Training",
    "attach_loss",
    "differentiate",
    "parse_scheme",
]
