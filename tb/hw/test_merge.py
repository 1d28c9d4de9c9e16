"""Equal modules made one, and wires that nothing reads."""

from celosia.hw.verilog.merge import merged

TEXT = """\
module \\top.a (i, o);
  input i;
  output o;
  assign o = ~i;
endmodule

module \\top.b (i, o);
  input i;
  output o;
  assign o = ~i;
endmodule

module \\top.c (i, o);
  input i;
  output o;
  assign o = i;
endmodule

module top(i, x, y, z);
  input [1:0] i;
  output x, y, z;
  (* init = 1'h0 *)
  wire [1:0] \\i.both ;
  wire \\i.one ;
  assign \\i.both  = i;
  assign \\i.one  = \\i.both [1];
  \\top.a  a (
    .i(i[0]), .o(x)
  );
  \\top.b  \\b$1  (
    .i(i[0]), .o(y)
  );
  \\top.c  c (
    .i(i[0]), .o(z)
  );
endmodule
"""


def test_modules_that_differ_in_their_names_are_one():
    text = merged(TEXT)
    assert "module \\top.a (" in text and "module \\top.b" not in text and "module \\top.c" in text
    assert "  \\top.a  a (" in text and "  \\top.a  \\b$1  (" in text and "  \\top.c  c (" in text


def test_parents_of_equal_modules_may_be_equal():
    parents = "".join(
        f"module p{n}(i, o);\n  input i;\n  output o;\n"
        f"  \\top.{part}  part (\n    .i(i), .o(o)\n  );\nendmodule\n"
        for n, part in enumerate("abc")
    )
    text = merged(TEXT + parents)
    assert "module p0(" in text and "module p1(" not in text and "module p2(" in text


def test_a_wire_that_is_only_read_by_one_that_nothing_reads_goes_too():
    text = merged(TEXT)
    assert "both" not in text and "one" not in text and "(* init" not in text
    assert text.count("output") == 3 and "assign o = ~i;" in text


def test_nothing_else_changes():
    text = merged(TEXT)
    assert merged(text) == text
