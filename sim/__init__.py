"""Machine model, estimator and simulated RTL."""
