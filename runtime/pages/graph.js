// A graph on a canvas, of which only what can be seen is drawn.
// A box is [kind, name, inputs, outputs, details, x, y, width], an edge [source, target, value, x0, y0, x1, y1, ...].
const KIND = 0, NAME = 1, INPUTS = 2, OUTPUTS = 3, DETAILS = 4, X = 5, Y = 6, WIDTH = 7;
const WIDEST = 240, MOST_SEGMENTS = 20000, MOST_LONG = 2000, MOST_SCOPES = 200;
const FILLS = { input: "#dfe7ef", output: "#dfe7ef", outer: "#ececec" };
const CHOSEN = "#d5503a";
// Names of a model may be those of what every object inherits.
const own = (object, name) => object && Object.hasOwn(object, name) ? object[name] : undefined;
const titleOf = box => box[DETAILS].operator || box[NAME];

// The rows of a view are its index: boxes of a row from left to right, and the parts of edges that begin in it.
function indexOf(view) {
  if (view.index) return view.index;
  const rows = [], segments = [], long = [], pitch = view.row_height;
  const at = (list, k) => list[k] || (list[k] = []);
  view.boxes.forEach((box, k) => at(rows, Math.round(box[Y] / pitch)).push(k));
  for (const row of rows) if (row) row.sort((a, b) => view.boxes[a][X] - view.boxes[b][X]);
  for (const edge of view.edges) {
    for (let k = 3; k + 3 < edge.length; k += 2) {
      const part = [edge[k], edge[k + 1], edge[k + 2], edge[k + 3], edge[0], edge[1]];
      if (Math.abs(part[3] - part[1]) > 1.5 * pitch || part[3] < part[1]) long.push(part);
      else at(segments, Math.floor(part[1] / pitch)).push(part);
    }
  }
  const left = view.boxes.reduce((x, box) => Math.min(x, box[X]), 0) - WIDEST / 2;
  const right = view.boxes.reduce((x, box) => Math.max(x, box[X]), 0) + WIDEST / 2;
  view.index = { rows, segments, long, left, right, bottom: rows.length * pitch };
  return view.index;
}

function hue(text) {
  let sum = 7;
  for (let k = 0; k < text.length; k++) sum = (sum * 31 + text.charCodeAt(k)) % 3607;
  return (sum * 137) % 360;
}

function firstFrom(view, row, x) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (view.boxes[row[middle]][X] < x) low = middle + 1; else high = middle;
  }
  return low;
}

function fitText(text, width, size) {
  const room = Math.max(1, Math.floor(width / (size * 0.56)));
  return text.length > room ? text.slice(0, room - 1) + "\u2026" : text;
}

function write(context, text, x, y, size, colour, align, weight = 400) {
  context.font = `${weight} ${size}px system-ui, sans-serif`;
  context.fillStyle = colour; context.textAlign = align;
  context.fillText(text, x, y);
}

// A context in units of the page, as large as its canvas is now, and empty. Setting a size clears the canvas and takes
// its memory anew.
function clearedContext(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, context = canvas.getContext("2d");
  if (canvas.width !== width * ratio) canvas.width = width * ratio;
  if (canvas.height !== height * ratio) canvas.height = height * ratio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Texts of all boxes of some views that have the wanted text in a title, name, input or output: [view, box], the first
// hundred, and how many there are.
function searchBoxes(views, wanted) {
  const textOf = box => box.text || (box.text = [titleOf(box), box[NAME], ...box[INPUTS], ...box[OUTPUTS]].join("\n").toLowerCase());
  const shown = [];
  let count = 0;
  views.forEach((view, v) => view.boxes.forEach((box, k) => {
    if (textOf(box).includes(wanted) && ++count <= 100) shown.push([v, k]);
  }));
  return { shown, count };
}

// The graph of views on a canvas, the first view to begin with. `fill` gives the colour of a box that is a node,
// `outline` that of its edge or nothing, `isMarked` whether a box, by its index, is one that the reader has chosen;
// `click` and `doubleClick` are called with the index of a box, which is -1 beside all boxes; `keys` are more keys.
function makeGraph(canvas, { views, fill, outline = () => undefined, isMarked, click, doubleClick = () => {}, keys = {} }) {
  const camera = { view: 0, x: 0, y: 0, scale: 1 }, context = canvas.getContext("2d");
  const viewNow = () => views[camera.view];

  function drawScopes(view, seen) {
    let drawn = 0;
    context.lineWidth = 1;
    for (const [name, left, top, right, bottom] of view.scopes) {
      const width = (right - left) * camera.scale, height = (bottom - top) * camera.scale;
      const hidden = bottom < seen.top || top > seen.bottom || right < seen.left || left > seen.right;
      if (hidden || width < 40 || height < 24) continue;
      if (++drawn > MOST_SCOPES) break;
      const x = (left - seen.left) * camera.scale, y = (top - seen.top) * camera.scale;
      context.fillStyle = `hsla(${hue(name)}, 60%, 50%, .05)`;
      context.strokeStyle = `hsla(${hue(name)}, 60%, 35%, .4)`;
      if (camera.scale < .4) context.fillRect(x - 4, y - 4, width + 8, height + 8);
      context.strokeRect(x - 4, y - 4, width + 8, height + 8);
      if (camera.scale >= .4) continue;
      // Beside the boxes, where nothing covers it; those within it begin lower.
      const parts = name.split("/"), line = Math.max(y, 0) - 2 + 13 * parts.length;
      write(context, fitText(parts.at(-1), 300, 12), x - 8, line, 12, `hsl(${hue(name)} 60% 28%)`, "right");
    }
  }

  function drawEdges(view, index, seen, first, last) {
    const crosses = part => Math.max(part[0], part[2]) >= seen.left && Math.min(part[0], part[2]) <= seen.right;
    const at = (x, y) => [(x - seen.left) * camera.scale, (y - seen.top) * camera.scale];
    const parts = [], marked = [];
    const add = part => (isMarked(part[4]) || isMarked(part[5]) ? marked : parts).push(part);
    for (let r = Math.max(0, first - 1); r <= last && parts.length < MOST_SEGMENTS; r++) {
      for (const part of index.segments[r] || []) if (crosses(part)) add(part);
    }
    let long = 0;
    for (const part of index.long) {
      const below = Math.max(part[1], part[3]), above = Math.min(part[1], part[3]);
      if (below < seen.top || above > seen.bottom || !crosses(part)) continue;
      if (++long > MOST_LONG) break;
      add(part);
    }
    for (const [list, colour, width] of [[parts, "#98a2ad", 1], [marked, CHOSEN, 2]]) {
      context.strokeStyle = colour; context.lineWidth = width; context.beginPath();
      for (const part of list) {
        const [x0, y0] = at(part[0], part[1]), [x1, y1] = at(part[2], part[3]), bend = (y1 - y0) / 2;
        context.moveTo(x0, y0);
        if (camera.scale > .25 && x0 !== x1) context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
        else context.lineTo(x1, y1);
      }
      context.stroke();
    }
    return parts.length + marked.length;
  }

  // `room`: how far from the middle of a box the text below it may go, in units of the page.
  function drawBox(view, k, seen, height, room) {
    const box = view.boxes[k], details = box[DETAILS], scale = camera.scale, marked = isMarked(k);
    // However far away, a box is two pixels wide, else nothing would be seen of a deep graph.
    const width = Math.max(2, box[WIDTH] * scale), x = (box[X] - seen.left) * scale - width / 2, y = (box[Y] - seen.top) * scale;
    const isNode = box[KIND] === "node";
    context.fillStyle = marked && height < 5 ? CHOSEN : isNode ? fill(view, box, k) : FILLS[box[KIND]];
    context.fillRect(x, y, width, height);
    if (height < 5) return;
    const edge = marked ? CHOSEN : outline(box);
    context.strokeStyle = edge || "#6b7680";
    context.lineWidth = edge ? 2.5 : 1;
    context.strokeRect(x, y, width, height);
    if (details.opens && Object.keys(details.opens).length) context.strokeRect(x + 3, y + 3, width - 6, height - 6);
    if (height < 11) return;
    const isLarge = height > 26, size = Math.min(14, 13 * scale), small = size * .78;
    const named = isLarge && isNode && box[NAME], middle = x + width / 2;
    write(context, fitText(titleOf(box), width - 6, size), middle, y + height * (named ? .42 : .62), size, "#111", "center", isNode ? 600 : 400);
    if (named) write(context, fitText(box[NAME], width - 6, small), middle, y + height * .78, small, "#555", "center");
    const value = own(view.values, box[OUTPUTS][0]);
    if (!isLarge || !value || !value.type) return;
    write(context, fitText(value.type, room * scale, small), middle + 5, y + height + size, small, "#3a5f86", "left");
  }

  // Draws what can be seen and nothing else: rows and boxes nearer than a pixel are drawn once, marked ones always.
  function draw() {
    clearedContext(canvas);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    const view = viewNow(), index = indexOf(view), pitch = view.row_height, scale = camera.scale;
    const seen = { left: camera.x, top: camera.y, right: camera.x + width / scale, bottom: camera.y + height / scale };
    const first = Math.max(0, Math.floor(seen.top / pitch)), last = Math.min(index.rows.length - 1, Math.ceil(seen.bottom / pitch));
    const step = Math.max(1, Math.floor(1.5 / (pitch * scale))), tall = Math.max(1.5, view.box_height * scale);
    drawScopes(view, seen);
    const segments = pitch * scale > 6 ? drawEdges(view, index, seen, first, last) : 0;
    let boxes = 0;
    for (let r = first; r <= last; r += step) {
      const row = index.rows[r] || [];
      let before = -Infinity;
      for (let k = firstFrom(view, row, seen.left - WIDEST / 2); k < row.length; k++) {
        const x = view.boxes[row[k]][X];
        if (x > seen.right + WIDEST / 2) break;
        if ((x - before) * scale < 2 && !isMarked(row[k])) continue;
        before = x; boxes++;
        const next = k + 1 < row.length ? view.boxes[row[k + 1]][X] - x - 12 : Infinity;
        drawBox(view, row[k], seen, tall, Math.min(260, next));
      }
    }
    Object.assign(canvas.dataset, { view: view.path, boxes, segments, scale: scale.toPrecision(3) });
  }

  let waiting = false;
  function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; graph.draw(); }); } }

  // No farther than where all can be seen at once.
  function fitting(left, top, right, bottom) {
    return Math.min(canvas.clientWidth / (right - left + 80), canvas.clientHeight / (bottom - top + 80));
  }

  function farthest() { const index = indexOf(viewNow()); return Math.min(.1, fitting(index.left, 0, index.right, index.bottom)); }

  function zoom(factor, x, y) {
    const scale = Math.min(3, Math.max(farthest(), camera.scale * factor)), change = 1 / camera.scale - 1 / scale;
    camera.x += x * change; camera.y += y * change; camera.scale = scale;
    redraw();
  }

  const zoomMiddle = factor => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);

  function lookAt(left, top, right, bottom, closest) {
    const width = canvas.clientWidth, height = canvas.clientHeight;
    camera.scale = Math.min(closest, fitting(left, top, right, bottom));
    camera.x = (left + right) / 2 - width / 2 / camera.scale;
    camera.y = (top + bottom) / 2 - height / 2 / camera.scale;
    redraw();
  }

  function lookAtAll() { const index = indexOf(viewNow()); lookAt(index.left, 0, index.right, index.bottom, 1.2); }

  // A deep graph begins at its first boxes, at a size that can be read.
  function lookAtStart() {
    lookAtAll();
    if (camera.scale >= .45) return;
    const view = viewNow(), first = (indexOf(view).rows[0] || [0])[0];
    camera.scale = .75; camera.x = view.boxes[first][X] - canvas.clientWidth / 2 / camera.scale; camera.y = -30 / camera.scale;
  }

  // Some boxes in the middle, at a size that can be read if they lie near each other.
  function lookAtBoxes(list) {
    const view = viewNow(), boxes = list.map(k => view.boxes[k]);
    if (!boxes.length) return;
    const xs = boxes.map(box => box[X]), ys = boxes.map(box => box[Y]), scale = Math.max(camera.scale, .75);
    lookAt(Math.min(...xs) - WIDEST / 2, Math.min(...ys), Math.max(...xs) + WIDEST / 2, Math.max(...ys) + view.box_height, scale);
  }

  function boxAt(clientX, clientY) {
    const view = viewNow(), index = indexOf(view), area = canvas.getBoundingClientRect();
    const x = camera.x + (clientX - area.left) / camera.scale, y = camera.y + (clientY - area.top) / camera.scale;
    const row = index.rows[Math.floor(y / view.row_height)] || [];
    for (let k = firstFrom(view, row, x - WIDEST / 2); k < row.length && view.boxes[row[k]][X] <= x + WIDEST / 2; k++) {
      const box = view.boxes[row[k]];
      if (Math.abs(x - box[X]) <= box[WIDTH] / 2 && y - box[Y] <= view.box_height) return row[k];
    }
    return -1;
  }

  let dragged = false;
  canvas.onpointerdown = () => { dragged = false; };
  canvas.onpointermove = move => {
    if (!(move.buttons & 1) || (!move.movementX && !move.movementY)) return;
    dragged = true; camera.x -= move.movementX / camera.scale; camera.y -= move.movementY / camera.scale;
    redraw();
  };
  canvas.onwheel = wheel => {
    wheel.preventDefault();
    const area = canvas.getBoundingClientRect();
    zoom(Math.exp(-wheel.deltaY / 500), wheel.clientX - area.left, wheel.clientY - area.top);
  };
  canvas.onclick = event => { if (!dragged) click(boxAt(event.clientX, event.clientY)); };
  canvas.ondblclick = event => doubleClick(boxAt(event.clientX, event.clientY));
  const allKeys = { "+": () => zoomMiddle(1.3), "-": () => zoomMiddle(1 / 1.3), 0: lookAtAll, ...keys };
  canvas.onkeydown = event => { if (own(allKeys, event.key)) allKeys[event.key](event); };
  addEventListener("resize", redraw);

  const graph = { camera, context, viewNow, isMarked, draw, redraw, zoomMiddle, lookAt, lookAtAll, lookAtStart, lookAtBoxes, boxAt };
  return graph;
}
