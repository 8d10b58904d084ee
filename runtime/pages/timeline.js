// What pages with a timeline share: shapes, the facts at their head, and the timeline itself.
const percent = x => x === null || x === undefined ? "" : (100 * x).toFixed(1) + " %";

function svg(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

function showFacts(facts) {
  for (const [name, value] of facts) {
    const fact = document.createElement("span"), shown = document.createElement("b");
    shown.textContent = value;
    fact.append(shown, name);
    document.getElementById("facts").append(fact);
  }
}

// Boxes on lines along time from 0 to `end`, which can be zoomed. Lines have a name and may have a title; boxes have line,
// start, length, fill, text, and may have opacity and click.
function drawTimeline({ lines, boxes, end, left, timeText }) {
  const canvas = document.getElementById("timeline"), row = 24;
  canvas.setAttribute("height", lines.length * row + 24);
  const range = makeRange(canvas, end, left, draw);
  function draw() {
    const { at, from, to } = range;
    canvas.replaceChildren();
    lines.forEach((line, k) => {
      const label = svg("text", { x: 4, y: k * row + 16 }, canvas, line.name);
      if (line.title) svg("title", {}, label, line.title);
    });
    for (let k = 0; k <= 5; k++) {
      const time = from + (to - from) * k / 5;
      svg("text", { x: at(time) - (k === 5 ? 60 : 0), y: lines.length * row + 16 }, canvas, timeText(time));
    }
    for (const box of boxes) {
      const a = Math.max(from, box.start), b = Math.min(to, box.start + box.length);
      if (b <= a) continue;
      const shown = { x: at(a), y: box.line * row + 3, width: Math.max(.5, at(b) - at(a)), height: row - 5, fill: box.fill, opacity: box.opacity || 1 };
      const made = svg("rect", shown, canvas);
      svg("title", {}, made, box.text);
      made.onmouseenter = () => { document.getElementById("hovered").textContent = box.text; };
      if (box.click) made.onclick = box.click;
    }
  }
  draw();
}
