"""Rows of numbers played to Verilog modules."""

import pytest
from icarus import Player

pytestmark = pytest.mark.usefixtures("icarus")

VERILOG = """
module sums #(parameter MORE = 0) (input clk, input [3:0] a, input b0, b1, output [3:0] sum, odd);
    reg [3:0] held {begins};
    always @(posedge clk) begin
        held <= a + {{b1, b0}} + MORE;
        if (a == 9) $display("nine");
    end
    assign sum = held;
    assign odd = b0;
endmodule
"""


def sums(folder, *, begins="= 0", odd_bits=4):
    return Player(
        "sums",
        folder,
        {"a": 4, "b": 2},
        {"sum": 4, "odd": odd_bits},
        clocks=["clk"],
        single="b",
        parameters={"MORE": 5},
        verilog=VERILOG.format(begins=begins),
    )


def test_rows_are_played_one_a_cycle(tmp_path):
    rows = [(1, 2), (-1, 3), (20, 0), (0, 0)]
    assert sums(tmp_path).play(rows) == [[0, 0], [8, 1], [7, 0], [9, 0]]


def test_output_of_a_module_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="^sums: wanted zeros and ones, got nine$"):
        sums(tmp_path).play([(9, 0), (0, 0)])


def test_outputs_without_a_value_are_refused(tmp_path):
    with pytest.raises(RuntimeError, match="^sums: wanted zeros and ones, got 0000xxxx$"):
        sums(tmp_path, begins="").play([(1, 0)])


def test_a_module_that_means_two_things_is_refused(tmp_path):
    """An initial value is an event in Verilog alone."""
    text = "module m (input a, output b); reg c = 0, d = 1; always @* d = c; "
    text += "assign b = d; endmodule"
    with pytest.raises(RuntimeError, match="^m: wanted the same in both languages$"):
        Player("m", tmp_path, {"a": 1}, {"b": 1}, verilog=text).play([(0,)])


def test_ports_of_another_width_are_refused(tmp_path):
    with pytest.raises(RuntimeError, match="expects 4 bits, got 3"):
        sums(tmp_path, odd_bits=3).play([(1, 0)])
