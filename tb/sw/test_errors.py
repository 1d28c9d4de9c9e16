"""Tests of the errors of the compiler: fields, and the one line made of them."""

import pickle

from celosia.sw.layers.errors import CompileError, UndefinedError


def test_text_is_made_of_the_fields() -> None:
    error = CompileError("wanted 1, got 2", layer="batch", place=3, hint="take 1")
    assert str(error) == "batch: wanted 1, got 2: take 1"
    assert (error.layer, error.reason, error.place) == ("batch", "wanted 1, got 2", 3)
    assert str(CompileError("wanted 1, got 2")) == "wanted 1, got 2"


def test_at_adds_what_is_missing_only() -> None:
    unnamed = CompileError("wanted a: b")
    assert unnamed.at("layer", 4) is unnamed
    assert (str(unnamed), unnamed.place) == ("layer: wanted a: b", 4)
    assert (str(unnamed.at("other", 5)), unnamed.place) == ("layer: wanted a: b", 4)
    assert unnamed.reason == "wanted a: b"
    assert isinstance(UndefinedError("wanted c").at("x"), UndefinedError)


def test_errors_cross_processes() -> None:
    error = UndefinedError("wanted c", layer="x", place=0)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.place) == (UndefinedError, "x: wanted c", 0)
