// The answer: guess, bars, picture that the model saw, and costs of the run.

import { bytes, count, element, onColours, percent, ramp } from "./colours.js";

const byId = (id) => document.getElementById(id);

export class Answer {
  constructor(core) {
    this.core = core;
    this.values = core.classes.map((name) => {
      const fill = element("span", { className: "fill" });
      const value = element("span", { className: "value", textContent: "" });
      const track = element("span", { className: "track" }, fill);
      const item = element("li", {}, element("span", { textContent: name }), track, value);
      byId("bars").append(item);
      return { item, fill, value };
    });
    onColours(() => this.drawPicture());
    this.clear();
  }

  clear() {
    this.show("?", "Nothing is drawn yet.", "waiting");
    this.bars(this.core.classes.map(() => 0), -1);
    for (const { value } of this.values) value.textContent = "–";
    this.picture = new Uint8Array(28 * 28);
    this.drawPicture();
    byId("picture").setAttribute("aria-label", "Empty picture");
    this.costs(null);
  }

  error(line) {
    this.show("!", line, "error");
  }

  // `cycles` is null on a device without clock.
  result({ probabilities, picture, cycles }) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    const name = this.core.classes[best];
    this.show(name, `${percent(probabilities[best])} sure`, "");
    this.bars(probabilities, best);
    this.picture = bytes(picture, Uint8Array);
    this.drawPicture();
    byId("picture").setAttribute("aria-label", "Your drawing as 28 by 28 pixels");
    this.costs(cycles);
  }

  show(guess, text, state) {
    byId("guess").textContent = guess;
    byId("guess").classList.toggle("word", guess.length > 2);
    byId("sure").textContent = text;
    byId("result").className = `result ${state}`;
  }

  bars(probabilities, best) {
    probabilities.forEach((share, n) => {
      const { item, fill, value } = this.values[n];
      item.classList.toggle("best", n === best);
      fill.style.transform = `scaleX(${share})`;
      value.textContent = percent(share);
    });
  }

  drawPicture() {
    const shade = ramp("empty", "ink");
    const context = byId("picture").getContext("2d");
    const image = context.createImageData(28, 28);
    this.picture.forEach((ink, n) => image.data.set([...shade(ink / 255), 255], 4 * n));
    context.putImageData(image, 0, 0);
  }

  costs(measured) {
    const { timeline, macs, rows, columns } = this.core;
    const cycles = measured ?? timeline.cycles;
    const facts = [
      [measured ? "Cycles, measured" : "Cycles, estimated", count(cycles)],
      ["Multiplications", count(macs)],
      ["Multipliers in use", percent(macs / (cycles * rows * columns))],
    ];
    byId("costs").replaceChildren(
      ...facts.map(([name, value]) => element("div", {},
        element("dt", { textContent: name }), element("dd", { textContent: value }))),
    );
  }
}
