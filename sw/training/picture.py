"""Learning curve of a training."""

from celosia.sw.files import png_bytes
from celosia.sw.training.state import State

_INK, _TRAINING, _VALIDATION = "#22303c", "#8fb8c7", "#c0392b"


def draw(state: State, title: str, measure: str) -> bytes:
    """Return the measure of training and validation images by epoch, PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=110)
    axes = figure.subplots(gridspec_kw={"left": 0.09, "right": 0.97, "top": 0.9, "bottom": 0.12})
    passed, shares = zip(*state.curve, strict=True) if state.curve else ((), ())
    axes.plot(passed, [100 * share for share in shares], color=_TRAINING, label="training batches")
    epochs, accuracies = zip(*state.validations, strict=True) if state.validations else ((), ())
    axes.plot(
        epochs,
        [100 * accuracy for accuracy in accuracies],
        color=_VALIDATION,
        marker="o",
        label="validation",
    )
    axes.set_title(title, color=_INK, fontsize=11)
    axes.set_xlabel("epochs", color=_INK)
    axes.set_ylabel(f"{measure}, %", color=_INK)
    axes.set_xlim(left=0)
    axes.grid(color="#ecf0f1")
    axes.legend(loc="lower right", frameon=False)
    return png_bytes(figure)
