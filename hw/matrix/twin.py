"""Behavioural twin of a shared array, for simulation: loops over memories instead of cells."""

from celosia.hw.matrix.array import SystolicArray

_TEXT = """\
module {name}(activations, weights, load, clk, rst, sums, switch);
  input clk, rst, switch;
  input [{rows} * 8 - 1:0] activations;
  input [{segments} * {columns} * 8 - 1:0] weights;
  input [{rows} - 1:0] load;
  output reg [{columns} * {bits} - 1:0] sums = 0;

  // Of cell (r, c), index r * {columns} + c: registers as in SingleCell and Product.
  reg signed [7:0] act [0:{cells} - 1];
  reg signed [7:0] shadow [0:{cells} - 1];
  reg signed [7:0] active [0:{cells} - 1];
  reg signed [15:0] product [0:{cells} - 1];
  reg signed [{bits} - 1:0] sum [0:{cells} - 1];
  reg [{columns} - 1:0] switches [0:{rows} - 1];
  reg [{columns} - 1:0] loads [0:{rows} - 1];
  // Inputs of row r come r cycles later; weights two cycles later.
  reg [{rows} * 8 - 1:0] history [0:{rows} - 1];
  reg [{rows} - 1:0] begun = 0;
  reg [{segments} * {columns} * 8 - 1:0] late = 0, latest = 0;
  reg [{columns} * {bits} - 1:0] packed_sums;
  reg [{columns} - 1:0] selected;
  integer r, c, first, now = 0;

  initial begin
    for (r = 0; r < {rows}; r = r + 1) begin
      switches[r] = 0; loads[r] = 0; history[r] = 0;
    end
    for (r = 0; r < {cells}; r = r + 1) begin
      act[r] = 0; shadow[r] = 0; active[r] = 0; product[r] = 0; sum[r] = 0;
    end
  end

  always @(posedge clk) begin
    history[now] = activations;
    for (r = {rows} - 1; r >= 0; r = r - 1) begin
      first = r * {columns};
      if (r == 0)
        for (c = 0; c < {columns}; c = c + 1) sum[c] = product[c];
      else
        for (c = 0; c < {columns}; c = c + 1)
          sum[first + c] = sum[first - {columns} + c] + product[first + c];
      for (c = 0; c < {columns}; c = c + 1)
        product[first + c] = act[first + c] * active[first + c];
      selected = switches[r];
      if (selected != 0)
        for (c = 0; c < {columns}; c = c + 1)
          if (selected[c]) active[first + c] = shadow[first + c];
      selected = loads[r];
      if (selected != 0)
        for (c = 0; c < {columns}; c = c + 1)
          if (selected[c]) shadow[first + c] = latest[((r / {each}) * {columns} + c) * 8 +: 8];
      for (c = {columns} - 1; c > 0; c = c - 1) act[first + c] = act[first + c - 1];
      act[first] = history[(now - r) & ({rows} - 1)][r * 8 +: 8];
      switches[r] = {{switches[r], r == 0 ? switch : begun[r > 0 ? r - 1 : 0]}};
      loads[r] = {{loads[r], load[r]}};
    end
    begun = {{begun, switch}};
    latest = late;
    late = weights;
    now = (now + 1) & ({rows} - 1);
    for (c = 0; c < {columns}; c = c + 1)
      packed_sums[c * {bits} +: {bits}] = sum[{cells} - {columns} + c];
    sums <= packed_sums;
  end
endmodule
"""


def twin(array: SystolicArray, name: str) -> str:
    """Return the module ``name`` with the ports and the timing of an array, for simulation alone.

    All kinds of cells have the same timing. Rows are a power of two, as in every ``Config``.
    """
    return _TEXT.format(
        name=name,
        rows=array.rows,
        columns=array.columns,
        segments=array.weight_rows,
        each=array.rows // array.weight_rows,
        bits=array.sum_bits,
        cells=array.rows * array.columns,
    )
