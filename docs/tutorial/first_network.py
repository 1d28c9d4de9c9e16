"""Train a small network on MNIST for an epoch, and save it as ``digits.keras``."""

import sys

import keras
from keras import layers

from celosia.sw.data import load_mnist

try:
    (x, y), (test_x, test_y) = load_mnist("train"), load_mnist("test")
except FileNotFoundError as error:
    sys.exit(f"first_network.py: {error}")
keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ]
)
optimiser = keras.optimizers.Adam(3e-3)
model.compile(optimiser, "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[..., None] / 255, y, batch_size=250, epochs=1, verbose=0)
accuracy = model.evaluate(test_x[..., None] / 255, test_y, verbose=0)[1]
print(f"{model.count_params()} parameters, {accuracy:.2%} of the test images right")
model.save("digits.keras")
