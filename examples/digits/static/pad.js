// The drawing area: strokes of mouse and finger, and a pen that keys move from square to square.

import { colour, onColours } from "./colours.js";

const CANVAS = 280; // side of what is sent, in the units of all points here
const SQUARE = 10;
const PEN = 22;

export class Pad {
  // `changed` is called with true when a stroke has ended.
  constructor(canvas, cursor, status, changed) {
    Object.assign(this, { canvas, cursor, status, changed });
    this.ink = Object.assign(document.createElement("canvas"), { width: CANVAS, height: CANVAS });
    this.strokes = [];
    this.pen = { column: 14, row: 6, down: false };
    this.drawing = false;
    canvas.addEventListener("pointerdown", (event) => this.start(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => this.end());
    }
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.showCursor(canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => {
      this.lift();
      this.showCursor(false);
    });
    onColours(() => this.redraw());
  }

  get empty() {
    return !this.strokes.length;
  }

  // The ink of each pixel, 0 to 255, row by row.
  contents() {
    const { data } = this.ink.getContext("2d").getImageData(0, 0, CANVAS, CANVAS);
    return data.filter((_, n) => n % 4 === 3);
  }

  clear() {
    this.strokes = [];
    this.pen.down = false;
    this.redraw();
    this.showPen("");
    this.changed(true);
  }

  redraw() {
    for (const canvas of [this.canvas, this.ink]) {
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
    }
    for (const stroke of this.strokes) stroke.forEach((_, n) => this.segment(stroke, n));
  }

  segment(stroke, n) {
    const [x, y] = stroke[n];
    const [fromX, fromY] = stroke[Math.max(0, n - 1)];
    for (const canvas of [this.canvas, this.ink]) {
      const context = canvas.getContext("2d");
      const scale = canvas.width / CANVAS;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      Object.assign(context, { lineWidth: PEN, lineCap: "round", strokeStyle: colour("ink") });
      context.beginPath();
      context.moveTo(fromX, fromY);
      context.lineTo(x, y + (n ? 0 : 0.01));
      context.stroke();
      context.setTransform(1, 0, 0, 1, 0, 0);
    }
  }

  add(point) {
    const stroke = this.strokes.at(-1);
    stroke.push(point);
    this.segment(stroke, stroke.length - 1);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = CANVAS / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  start(event) {
    if (event.button) return;
    this.lift();
    this.showCursor(false);
    this.canvas.setPointerCapture(event.pointerId);
    this.drawing = true;
    this.strokes.push([]);
    this.add(this.point(event));
  }

  move(event) {
    if (!this.drawing) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length ? events : [event]) this.add(this.point(each));
    this.changed(false);
  }

  end() {
    if (!this.drawing) return;
    this.drawing = false;
    this.changed(true);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const steps = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
    }[event.key];
    if (steps) this.step(steps, event.shiftKey ? 4 : 1);
    else if (event.key === " ") this.togglePen();
    else if (event.key === "Escape" && this.pen.down) this.lift();
    else if (event.key === "Delete" || event.key === "Backspace") this.clear();
    else return;
    event.preventDefault();
    this.showCursor(true);
  }

  get penPoint() {
    return [(this.pen.column + 0.5) * SQUARE, (this.pen.row + 0.5) * SQUARE];
  }

  step([right, down], count) {
    const last = CANVAS / SQUARE - 1;
    this.pen.column = Math.min(last, Math.max(0, this.pen.column + right * count));
    this.pen.row = Math.min(last, Math.max(0, this.pen.row + down * count));
    if (this.pen.down) {
      this.add(this.penPoint);
      this.changed(false);
    }
    const place = `row ${this.pen.row + 1}, column ${this.pen.column + 1}`;
    this.showPen(`Pen ${this.pen.down ? "down" : "up"}, ${place}`);
  }

  togglePen() {
    if (this.pen.down) {
      this.lift();
      return;
    }
    this.pen.down = true;
    this.strokes.push([]);
    this.add(this.penPoint);
    this.showPen("Pen down");
    this.changed(false);
  }

  lift() {
    if (!this.pen.down) return;
    this.pen.down = false;
    this.showPen("Pen up");
    this.changed(true);
  }

  showPen(text) {
    this.status.textContent = text;
    this.cursor.classList.toggle("down", this.pen.down);
  }

  showCursor(visible) {
    this.cursor.hidden = !visible;
    const share = (index) => `${(100 * index * SQUARE) / CANVAS}%`;
    this.cursor.style.left = share(this.pen.column);
    this.cursor.style.top = share(this.pen.row);
  }
}
