"""Random small models, drawn from a seed: ``cases.case`` and models of some kinds of operators."""
