"""Character language model: a transformer that keeps keys and values between invocations."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from celosia_examples.training.transformer import normalised


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """Sizes of a language model.

    Each block normalises its tokens, adds their attention, normalises again, and adds two dense
    layers with GELU between them. Attention reaches over the last ``window`` tokens and knows
    their distance by a learned number, added to the score. Before the first token of a text the
    keys and values are zero.
    """

    characters: int  #: Number of different characters.
    width: int  #: Channels of a token.
    heads: int  #: Heads of attention; divides ``width``.
    hidden: int  #: Channels between the two dense layers of a block.
    blocks: int
    window: int  #: Tokens that attention reaches, the present one among them.

    def build(self, length: int) -> tuple[Any, Any]:
        """Return two untrained ``keras.Model`` that share their weights.

        ``length``: characters of a text of the first one. It takes their numbers, int32
        ``(N, length)``, gives logits of the next characters ``(N, length, characters)``. The second
        takes one character as ``(1, 1, characters)``, a one among zeros, gives logits of that
        shape, and keeps what it must know of earlier characters in variables.
        """
        keras: Any = import_module("keras")
        layers = keras.layers
        # Tokens as large as what the first block adds to them.
        initial = keras.initializers.RandomNormal(stddev=0.5)
        embedding = layers.Dense(self.width, use_bias=False, kernel_initializer=initial)
        logits = layers.Dense(self.characters)
        blocks = [
            (
                _attention(self),
                layers.Dense(self.hidden, activation="gelu"),
                layers.Dense(self.width),
            )
            for _ in range(self.blocks)
        ]

        def network(ones: Any, streaming: bool) -> Any:
            tokens = embedding(ones)
            for attention, first, second in blocks:
                x = attention(normalised(tokens), streaming=streaming)
                tokens = layers.Add()([tokens, x])
                tokens = layers.Add()([tokens, second(first(normalised(tokens)))])
            return logits(normalised(tokens))

        text = keras.Input((length,), dtype="int32")
        one = keras.Input(batch_shape=(1, 1, self.characters))
        ones = keras.ops.one_hot(text, self.characters)
        return (
            keras.Model(text, network(ones, streaming=False)),
            keras.Model(one, network(one, streaming=True)),
        )


def _attention(sizes: LanguageModel) -> Any:
    """Return a layer from tokens to their attention."""
    keras: Any = import_module("keras")
    ops, dense = keras.ops, keras.layers.Dense
    width, heads, window = sizes.width, sizes.heads, sizes.window
    channels = width // heads

    def split(x: Any) -> Any:
        """Return ``(N, heads, tokens, channels)`` of tokens."""
        return ops.transpose(ops.reshape(x, (-1, x.shape[1], heads, channels)), (0, 2, 1, 3))

    class Attention(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            shape = (1, window - 1, width)
            fixed = {"initializer": "zeros", "trainable": False}
            self.keys = self.add_weight(shape=shape, name="keys", **fixed)
            self.values = self.add_weight(shape=shape, name="values", **fixed)
            self.distance = self.add_weight(shape=(heads, window), initializer="zeros")
            self.parts = [dense(width) for _ in range(4)]
            for part in self.parts:
                part.build(input_shape)

        def call(self, inputs: Any, streaming: bool = False) -> Any:
            query, key, value, result = self.parts
            look = self.of_one if streaming else self.of_all
            keys, values, bias = look(key(inputs), value(inputs))
            scores = ops.matmul(split(query(inputs)), ops.swapaxes(split(keys), 2, 3))
            weights = ops.softmax(scores * channels**-0.5 + bias)
            seen = ops.transpose(ops.matmul(weights, split(values)), (0, 2, 1, 3))
            return result(ops.reshape(seen, (-1, inputs.shape[1], width)))

        def of_one(self, key: Any, value: Any) -> tuple[Any, Any, Any]:
            """Return keys and values of the window of one token, and the bias of the scores."""
            keys = ops.concatenate([self.keys, key], 1)
            values = ops.concatenate([self.values, value], 1)
            self.keys.assign(keys[:, 1:])
            self.values.assign(values[:, 1:])
            return keys, values, self.distance[:, None]

        def of_all(self, key: Any, value: Any) -> tuple[Any, Any, Any]:
            """Return the same of all tokens of texts; those outside its window a token ignores."""
            length = key.shape[1]
            margin = [[0, 0], [window - 1, 0], [0, 0]]
            steps = ops.arange(length + window - 1) - ops.arange(length)[:, None]
            inside = ops.logical_and(steps >= 0, steps < window)
            bias = ops.take(self.distance, ops.clip(steps, 0, window - 1), axis=1)
            return ops.pad(key, margin), ops.pad(value, margin), ops.where(inside, bias, -1e9)

    return Attention()
