"""Vision transformer of ordinary Keras layers, in forms that quantise well."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def vision_transformer(
    *, patch: int, width: int, heads: int, hidden: int, blocks: int
) -> Callable[[Any], Any]:
    """Return a function from images to logits.

    The patches are the tokens. A learned vector is added to each of them. A block normalises the
    tokens, adds their attention, normalises again, and adds two dense layers with GELU between
    them. The mean of the normalised tokens gives the logits.

    Normalisation has neither gain nor offset: the weights and the bias of the dense layer after it
    include them, and int8 rounds two times less.

    Parameters
    ----------
    patch : int
        Rows and columns of a patch; divides those of the images.
    width : int
        Channels of a token.
    heads : int
        Heads of attention; divides `width`.
    hidden : int
        Channels between the two dense layers of a block.
    blocks : int
        Number of blocks.

    Returns
    -------
    Callable
        Function from a Keras tensor ``(N, rows, columns, channels)`` to one of ``(N, 10)``.
    """

    def network(images: Any) -> Any:
        layers: Any = import_module("keras").layers
        # Tokens as large as what the first block adds to them.
        patches = layers.Conv2D(width, patch, patch, kernel_initializer="he_normal")(images)
        tokens = _positions(layers.Reshape((-1, width))(patches))
        for _ in range(blocks):
            x = normalised(tokens)
            x = layers.MultiHeadAttention(heads, width // heads)(x, x)
            tokens = layers.Add()([tokens, x])
            x = layers.Dense(hidden, activation="gelu")(normalised(tokens))
            tokens = layers.Add()([tokens, layers.Dense(width)(x)])
        return layers.Dense(10)(layers.GlobalAveragePooling1D()(normalised(tokens)))

    return network


def normalised(tokens: Any) -> Any:
    """Return a Keras tensor with rows of mean 0 and deviation 1, without gain and offset."""
    layers: Any = import_module("keras").layers
    return layers.LayerNormalization(center=False, scale=False)(tokens)


def _positions(tokens: Any) -> Any:
    """Return the tokens plus a learned vector each."""
    keras: Any = import_module("keras")

    class Positions(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            initial = keras.initializers.RandomNormal(stddev=0.5)
            self.table = self.add_weight(shape=input_shape[1:], initializer=initial)

        def call(self, inputs: Any) -> Any:
            return inputs + self.table

    return Positions()(tokens)
