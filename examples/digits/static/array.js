// The systolic array, cycle by cycle: a tile of weights, and the vectors that pass through it.
//
// Cycle 0 loads the first row of weights. A row's weights move east by a column each cycle; vector p
// is in row r and column c in cycle 1 + p + r + c; its sum leaves column c in cycle 1 + p + rows + c.

import { bytes, colour, diverging, element, onColours, operator, ramp, rgb, signed }
  from "./colours.js";

const SIDE = 700; // width and height of the canvas
const WAITING = 0.26; // share of the width for activations on their way
const SUMS = 0.25; // share of the height for the accumulators
const PERIOD = 140; // milliseconds of a cycle
const CALM = 1000; // the same where less motion is preferred

const byId = (id) => document.getElementById(id);

export class ArrayView {
  constructor(core) {
    this.core = core;
    this.canvas = byId("array");
    this.cycle = 0;
    this.cell = [core.rows >> 1, core.columns >> 1];
    this.timer = null;
    byId("pass").addEventListener("change", () => this.choose(Number(byId("pass").value)));
    byId("first").addEventListener("click", () => this.go(0));
    byId("back").addEventListener("click", () => this.go(this.cycle - 1));
    byId("next").addEventListener("click", () => this.go(this.cycle + 1));
    byId("play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    byId("cycle").addEventListener("input", () => this.go(Number(byId("cycle").value)));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    onColours(() => this.draw());
    this.clear();
  }

  clear() {
    this.pause();
    this.pass = null;
    this.passes = [];
    this.enable(false);
    byId("pass").replaceChildren();
    byId("pass-facts").textContent = "";
    byId("array-state").textContent = "Draw something to fill the array.";
    byId("cell").textContent = "";
    this.draw();
  }

  enable(enabled) {
    for (const id of ["pass", "first", "back", "play", "next", "cycle"]) {
      byId(id).disabled = !enabled;
    }
  }

  show(passes) {
    const layer = this.passes[Number(byId("pass").value)]?.layer;
    this.passes = passes;
    byId("pass").replaceChildren(...passes.map((pass, n) => {
      const name = operator(this.core.timeline.layers[pass.layer].operator);
      return element("option", { value: n, textContent: `${pass.layer + 1}  ${name}` });
    }));
    const kept = Math.max(0, passes.findIndex((pass) => pass.layer === layer));
    this.enable(passes.length > 0);
    if (!passes.length) return;
    byId("pass").value = kept;
    this.choose(kept, this.pass ? this.cycle : Math.round(this.core.rows * 1.5));
  }

  choose(number, cycle = this.cycle) {
    const pass = this.passes[number];
    const { rows, columns } = this.core;
    const activations = bytes(pass.activations);
    this.pass = {
      ...pass, activations, weights: bytes(pass.weights), kept: activations.length / rows,
    };
    this.largest = this.pass.weights.reduce((most, weight) => Math.max(most, Math.abs(weight)), 1);
    this.range = [Math.min(...activations), Math.max(...activations)];
    this.most = this.greatestSum();
    this.last = 1 + this.pass.kept + rows + columns - 1;
    byId("cycle").max = this.last;
    const last = pass.first + this.pass.kept;
    byId("pass-facts").textContent = `Instruction ${pass.instruction}, a MATMUL: step `
      + `${pass.step + 1} of ${pass.steps}, tile ${pass.tile}. Vectors ${pass.first + 1} to ${last} of ${pass.vectors}.`;
    this.go(cycle);
  }

  greatestSum() {
    const { rows, columns } = this.core;
    let most = 1;
    for (let vector = 0; vector < this.pass.kept; vector++) {
      for (let column = 0; column < columns; column++) {
        most = Math.max(most, Math.abs(this.sum(vector, rows, column)));
      }
    }
    return most;
  }

  weight(row, column) {
    return this.pass.weights[row * this.core.columns + column];
  }

  activation(vector, row) {
    return this.pass.activations[vector * this.core.rows + row];
  }

  // Sum of a vector in a column over the first `rows` rows.
  sum(vector, rows, column) {
    let total = 0;
    for (let row = 0; row < rows; row++) {
      total += this.activation(vector, row) * this.weight(row, column);
    }
    return total;
  }

  play() {
    if (this.cycle >= this.last) this.go(0);
    byId("play").textContent = "Pause";
    for (const id of ["array-state", "cell"]) byId(id).setAttribute("aria-live", "off");
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.timer = setInterval(() => {
      this.go(this.cycle + 1);
      if (this.cycle >= this.last) this.pause();
    }, calm ? CALM : PERIOD);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "Play";
    for (const id of ["array-state", "cell"]) byId(id).setAttribute("aria-live", "polite");
  }

  go(cycle) {
    this.cycle = Math.min(this.last, Math.max(0, cycle));
    byId("cycle").value = this.cycle;
    byId("cycle").setAttribute("aria-valuetext", `cycle ${this.cycle} of ${this.last}`);
    this.draw();
    this.describe();
  }

  // The vector in a cell; below 0 before the first, `kept` or more after the last.
  vector(row, column) {
    return this.cycle - 1 - row - column;
  }

  isLoaded(row, column) {
    const { rows, weightRows } = this.core;
    return this.cycle >= (row % (rows / weightRows)) + column;
  }

  isActive(row, column) {
    const vector = this.vector(row, column);
    return vector >= 0 && vector < this.pass.kept;
  }

  describe() {
    const { rows, columns } = this.core;
    let [active, out] = [0, 0];
    for (let column = 0; column < columns; column++) {
      for (let row = 0; row < rows; row++) active += this.isActive(row, column);
      out += Math.min(this.pass.kept, Math.max(0, this.vector(rows - 1, column)));
    }
    byId("array-state").textContent = `Cycle ${this.cycle} of ${this.last}: ${active} of `
      + `${rows * columns} cells multiply, ${out} of ${this.pass.kept * columns} sums are complete.`;
    byId("cell").textContent = this.describeCell(...this.cell);
  }

  describeCell(row, column) {
    const where = `Row ${row + 1}, column ${column + 1}: `;
    if (!this.isLoaded(row, column)) return `${where}no weight yet.`;
    const weight = this.weight(row, column);
    if (!this.isActive(row, column)) return `${where}weight ${signed(weight)}, no activation.`;
    const vector = this.vector(row, column);
    const [activation, above] = [this.activation(vector, row), this.sum(vector, row, column)];
    return `${where}weight ${signed(weight)} × activation ${signed(activation)} + `
      + `sum from above ${signed(above)} = ${signed(above + weight * activation)}.`;
  }

  get layout() {
    const { rows, columns } = this.core;
    const side = Math.min((SIDE * (1 - WAITING)) / columns, (SIDE * (1 - SUMS)) / rows);
    return { side, left: SIDE * WAITING, bottom: side * rows };
  }

  draw() {
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, SIDE, SIDE);
    this.drawCells(context);
    if (!this.pass) return;
    this.drawWaiting(context);
    this.drawSums(context);
    this.drawChoice(context);
  }

  shade(activation) {
    const [low, high] = this.range;
    return (activation - low) / (high - low || 1);
  }

  drawCells(context) {
    const { rows, columns } = this.core;
    const { side, left } = this.layout;
    const inner = side > 8 ? 1 : 0;
    const tint = this.pass && diverging(this.largest);
    const shade = ramp("empty", "ink");
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [x, y] = [left + column * side, row * side];
        const loaded = this.pass && this.isLoaded(row, column);
        context.fillStyle = loaded ? rgb(tint(this.weight(row, column))) : colour("empty");
        context.fillRect(x + inner, y + inner, side - 2 * inner, side - 2 * inner);
        if (!loaded || !this.isActive(row, column)) continue;
        const share = this.shade(this.activation(this.vector(row, column), row));
        context.fillStyle = rgb(shade(share));
        context.fillRect(x + side * 0.28, y + side * 0.28, side * 0.44, side * 0.44);
      }
    }
  }

  // Activations on their way into the rows, skewed by a cycle a row.
  drawWaiting(context) {
    const { side, left } = this.layout;
    const pitch = side / 2;
    const shade = ramp("empty", "ink");
    for (let row = 0; row < this.core.rows; row++) {
      for (let vector = 0; vector < this.pass.kept; vector++) {
        const ahead = 1 + vector + row - this.cycle;
        const x = left - (ahead + 0.5) * pitch;
        if (ahead < 1 || x < 0) continue;
        context.fillStyle = rgb(shade(this.shade(this.activation(vector, row))));
        context.fillRect(x, row * side + side / 4, pitch - 2, side / 2);
      }
    }
  }

  // Rows of the accumulators, a vector each, filled from the left as columns finish.
  drawSums(context) {
    const { rows, columns } = this.core;
    const { side, left, bottom } = this.layout;
    const top = bottom + 14;
    const height = Math.min(side / 2, (SIDE - top) / this.pass.kept);
    const tint = diverging(this.most);
    for (let vector = 0; vector < this.pass.kept; vector++) {
      for (let column = 0; column < columns; column++) {
        const complete = this.vector(rows - 1, column) > vector;
        context.fillStyle = complete ? rgb(tint(this.sum(vector, rows, column))) : colour("empty");
        context.fillRect(left + column * side + 1, top + vector * height, side - 2, height - 1);
      }
    }
    context.fillStyle = colour("muted");
    context.font = "15px system-ui, sans-serif";
    context.textAlign = "right";
    context.fillText("accumulators", left - 10, top + 14);
  }

  drawChoice(context) {
    const { side, left } = this.layout;
    const [row, column] = this.cell;
    context.strokeStyle = colour("ink");
    context.lineWidth = 3;
    context.strokeRect(left + column * side, row * side, side, side);
  }

  select(row, column) {
    const { rows, columns } = this.core;
    if (!this.pass) return;
    this.cell = [
      Math.min(rows - 1, Math.max(0, row)), Math.min(columns - 1, Math.max(0, column)),
    ];
    this.draw();
    this.describe();
  }

  click(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = SIDE / box.width;
    const { side, left } = this.layout;
    const row = Math.floor(((event.clientY - box.top) * scale) / side);
    const column = Math.floor(((event.clientX - box.left) * scale - left) / side);
    if (row < this.core.rows && column >= 0) this.select(row, column);
  }

  key(event) {
    const steps = {
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    }[event.key];
    if (!steps || event.ctrlKey || event.altKey || event.metaKey) return;
    this.select(this.cell[0] + steps[0], this.cell[1] + steps[1]);
    event.preventDefault();
  }
}
