"""Library of five standard cells in the Liberty format, as a text."""

#: A gate of a library: name, area, leakage, inputs, function, groups of its output.
_GATE = """
  cell ({name}) {{ area : {area}; cell_leakage_power : {area};
    {inputs}
    pin (Y) {{ direction : output; function : "{function}"; max_capacitance : 100; {groups} }}
  }}"""
_INPUT = "pin ({name}) {{ direction : input; capacitance : 1; }}"
_INDICES = 'index_1 ("0.1, 0.5, 1"); index_2 ("1, 41, 100");'
_DELAY = " ".join(
    f'{kind}(table) {{ {_INDICES} values ("0.2, 1.0, 2.18", "0.3, 1.1, 2.28", "0.4, 1.2, 2.38"); }}'
    for kind in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
)
_ARC = 'timing() {{ related_pin : "{name}"; timing_sense : {sense}; {delay} }}'
_POWER = 'internal_power() { related_pin : "A"; rise_power(scalar) { values ("3"); } }'


def _gate(name: str, area: int, inputs: str, function: str, more: str = "") -> str:
    sense = "negative_unate" if "!" in function else "positive_unate"
    arcs = " ".join(_ARC.format(name=one, sense=sense, delay=_DELAY) for one in inputs)
    pins = " ".join(_INPUT.format(name=one) for one in inputs)
    return _GATE.format(name=name, area=area, inputs=pins, function=function, groups=more + arcs)


_FLOP = """
  cell (FLOP) { area : 5; cell_leakage_power : 4;
    ff (IQ, IQN) { next_state : "D"; clocked_on : "CK"; }
    pin (D) { direction : input; capacitance : 1;
      timing() { related_pin : "CK"; timing_type : setup_rising;
        rise_constraint(scalar) { values ("0.1"); } fall_constraint(scalar) { values ("0.1"); } } }
    pin (CK) { direction : input; capacitance : 1; clock : true;
      internal_power() { rise_power(scalar) { values ("6"); } fall_power(scalar) { values ("4"); } }
    }
    pin (Q) { direction : output; function : "IQ"; max_capacitance : 100;
      timing() { related_pin : "CK"; timing_type : rising_edge; timing_sense : non_unate; DELAY } }
  }""".replace("DELAY", _DELAY)
LIBRARY = f"""
library (tiny) {{
  delay_model : table_lookup;
  time_unit : "1ns"; voltage_unit : "1V"; leakage_power_unit : "1nW"; current_unit : "1mA";
  pulling_resistance_unit : "1kohm";
  capacitive_load_unit (1, ff); default_max_transition : 1; nom_voltage : 2.0;
  operating_conditions (typical) {{ voltage : 2.0; }}
  lu_table_template (table) {{
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    {_INDICES}
  }}
  {_gate("INV", 1, "A", "!A")}
  {_gate("BUF", 2, "A", "A")}
  {_gate("NAND", 2, "AB", "!(A * B)", _POWER)}
  {_gate("NOR", 2, "AB", "!(A + B)")}
  {_FLOP}
}}
"""
