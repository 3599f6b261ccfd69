"""The built-in demonstration: a small digit classifier, and data from a sensor that was turned."""
