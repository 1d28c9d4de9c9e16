// Fetches facts of the core, sends drawings, and hands the answers to the parts of the page.

import { Answer } from "./answer.js";
import { ArrayView } from "./array.js";
import { Maps } from "./maps.js";
import { Pad } from "./pad.js";
import { Timeline } from "./timeline.js";

const WAIT = 250; // milliseconds without a change before an unfinished stroke is sent

const byId = (id) => document.getElementById(id);

async function answerOf(request) {
  const response = await request;
  const content = await response.json();
  if (!response.ok) throw new Error(content.error);
  return content;
}

function describe(core) {
  const device = { machine: "machine model", rtl: "simulated RTL" }[core.device] ?? core.device;
  byId("facts").textContent =
    `${core.model} on ${core.core}, ${core.rows} × ${core.columns} multipliers, ${device}`;
  const subject = { mnist: "Draw a digit", "fashion-mnist": "Draw a piece of clothing" };
  byId("draw-title").textContent = subject[core.dataset] ?? "Draw";
}

function start(core) {
  describe(core);
  const answer = new Answer(core);
  const maps = new Maps(byId("maps"), core.timeline.layers);
  const timeline = new Timeline(core);
  const array = new ArrayView(core);
  let timer = null;
  let underWay = false;
  let again = false;

  // For tests: whether an answer is still to come.
  const busy = (is) => (byId("answer").dataset.busy = is);

  function clear() {
    for (const part of [answer, maps, array]) part.clear();
    timeline.measured(null, null);
    busy(false);
  }

  async function classify() {
    clearTimeout(timer);
    timer = null;
    if (underWay) {
      again = true;
      return;
    }
    if (pad.empty) {
      clear();
      return;
    }
    underWay = true;
    try {
      const found = await answerOf(fetch("api/classify", {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream" },
        body: pad.contents(),
      }));
      if (pad.empty) {
        again = true;
      } else {
        answer.result(found);
        maps.show(found.maps);
        timeline.measured(found.cycles, found.counters);
        array.show(found.passes);
      }
    } catch (error) {
      answer.error(error instanceof TypeError ? "The server does not respond." : error.message);
    }
    underWay = false;
    busy(again || timer !== null);
    if (again) {
      again = false;
      classify();
    }
  }

  function changed(complete) {
    busy(true);
    clearTimeout(timer);
    if (complete) classify();
    else timer = setTimeout(classify, WAIT);
  }

  const pad = new Pad(byId("pad"), byId("cursor"), byId("pen"), changed);
  byId("clear").addEventListener("click", () => pad.clear());
}

answerOf(fetch("api/core")).then(start, (error) => {
  byId("facts").textContent = `The page cannot start: ${error.message}`;
});
