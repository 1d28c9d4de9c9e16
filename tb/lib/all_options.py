"""Cores with all options, which tests share: to build one takes longer than most of its tests."""

OPTIONS = ",activation_weights=true,softmax=true,elementwise_products=true"
NANO_WITH_ALL = "nano" + OPTIONS
#: `edge` with them.
EDGE_WITH_ALL = "transformer"
