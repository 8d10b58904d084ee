const part = id => document.getElementById(id);

function element(name, text, parent, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.append(made);
  return made;
}

function line(text, action, parent, kind = "") { element("button", text, parent, `line ${kind}`).onclick = action; }

function facts(pairs, parent) {
  const list = element("dl", undefined, parent);
  for (const [name, value] of pairs) { element("dt", name, list); element("dd", value, list); }
}

function showPairs(title, pairs, parent) {
  if (!pairs) return;
  element("h3", title, parent);
  facts(Object.entries(pairs), parent);
}

function open(view) {
  camera.before.push(camera.view);
  camera.view = view; camera.chosen = -1;
  part("path").textContent = viewNow().path;
  lookAtStart(); showScopes(); redraw();
}

function goBack() { if (camera.before.length > 1) { open(camera.before.pop()); camera.before.pop(); } }

function choose(view, box) {
  if (view !== camera.view) open(view);
  camera.chosen = box;
  const at = viewNow().boxes[box], near = Math.max(camera.scale, .75);
  camera.scale = near;
  camera.x = at[X] - canvas.clientWidth / 2 / near; camera.y = at[Y] - canvas.clientHeight / 2 / near;
  showBox(); redraw();
}

// Types and weights: of the value, and who makes and who reads it.
function showValue(name, parent) {
  const view = viewNow(), value = own(view.values, name) || {}, row = element("div", undefined, parent);
  element("b", name || "(left out)", row);
  element("span", value.type ? ` ${value.type}` : "", row);
  const texts = said => Array.isArray(said) ? said.join(", ") : said;
  if (value.weight) facts(Object.entries(value.weight).map(([key, said]) => [key, texts(said)]), row);
  if (!name) return;
  const others = side => {
    const indices = [];
    view.boxes.forEach((box, k) => { if (indices.length < 20 && k !== camera.chosen && box[side].includes(name)) indices.push(k); });
    return indices;
  };
  for (const [side, word] of [[OUTPUTS, "from"], [INPUTS, "to"]]) {
    for (const k of others(side)) line(`${word} ${titleOf(view.boxes[k])} ${view.boxes[k][NAME]}`, () => choose(camera.view, k), row);
  }
}

function showBox() {
  const view = viewNow(), box = view.boxes[camera.chosen], details = box[DETAILS], shown = part("chosen");
  shown.replaceChildren();
  element("h2", `${titleOf(box)}${box[KIND] === "node" ? "" : ` (${box[KIND]})`}`, shown);
  const about = ["domain", "index", "scope", "notes"].map(key => [key, details[key]]);
  facts([["name", box[NAME]], ...about].filter(([, value]) => value !== undefined && value !== ""), shown);
  if (details.documentation) {
    const link = element("a", "documentation of the operator", shown);
    Object.assign(link, { href: details.documentation, rel: "noopener noreferrer", target: "_blank" });
  }
  for (const [label, target] of Object.entries(details.opens || {})) line(`open ${label}`, () => open(target), shown);
  for (const finding of details.findings || []) element("pre", page.findings[finding].text, shown, page.findings[finding].severity);
  showPairs("attributes", details.attributes, shown);
  for (const [name, said] of Object.entries(details.devices || {})) {
    element("h3", `devices: ${name}`, shown);
    const stage = said.stage === null ? "none" : said.stage, devices = said.devices.join(", ") || "all";
    facts([["stage", stage], ["devices", devices], ["divides", said.divides.join("\n")]], shown);
  }
  for (const [title, names] of [["reads", box[INPUTS]], ["makes", box[OUTPUTS]]]) {
    if (names.length) element("h3", title, shown);
    for (const name of names.slice(0, 200)) showValue(name, shown);
  }
  showPairs("metadata", details.metadata, shown);
}

// Where each finding is: its first node.
function nodesOfFindings() {
  const nodes = new Map();
  page.views.forEach((view, v) => view.boxes.forEach((box, k) => {
    for (const finding of box[DETAILS].findings || []) if (!nodes.has(finding)) nodes.set(finding, [v, k]);
  }));
  return nodes;
}

function showFindings() {
  const shown = part("findings"), nodes = nodesOfFindings();
  shown.querySelector("summary").textContent = `Findings (${page.findings.length})`;
  shown.hidden = !page.findings.length;
  page.findings.slice(0, 500).forEach((finding, k) => {
    const at = nodes.get(k);
    line(`${finding.severity}[${finding.code}]: ${finding.message}`, () => { if (at) choose(...at); }, shown, finding.severity);
  });
}

function showViews() {
  const shown = part("views");
  shown.querySelector("summary").textContent = `Graphs and functions (${page.views.length})`;
  shown.hidden = page.views.length < 2;
  page.views.slice(0, 1000).forEach((view, k) => line(`${view.path} (${view.boxes.length})`, () => open(k), shown));
}

function showScopes() {
  const shown = part("scopes"), scopes = viewNow().scopes.slice(0, 300).sort((a, b) => a[2] - b[2]);
  shown.replaceChildren(element("summary", `Scopes (${viewNow().scopes.length})`));
  shown.hidden = !scopes.length;
  for (const [name, left, top, right, bottom, boxes] of scopes) line(`${name} (${boxes})`, () => lookAt(left, top, right, bottom, 1), shown);
}

let texts = null;
function search(wanted) {
  const results = part("results");
  results.replaceChildren();
  if (!wanted) return;
  const textOf = box => [titleOf(box), box[NAME], ...box[INPUTS], ...box[OUTPUTS]].join("\n").toLowerCase();
  texts = texts || page.views.map(view => view.boxes.map(textOf));
  let count = 0;
  texts.forEach((list, v) => list.forEach((text, k) => {
    if (!text.includes(wanted) || ++count > 100) return;
    const box = page.views[v].boxes[k];
    line(`${titleOf(box)} ${box[NAME]}${v ? ` in ${page.views[v].path}` : ""}`, () => { results.replaceChildren(); choose(v, k); }, results);
  }));
  element("p", count > 100 ? `100 of ${count} are shown` : `${count} found`, results, "hint");
}

function addTables() {
  page.tables.forEach((table, t) => {
    const folded = element("details", undefined, part("tables")), made = element("table", undefined, folded);
    folded.open = t === 0;
    folded.prepend(element("summary", `${table.title} (${table.rows.length})`));
    made.id = `table${t}`; made.createTHead(); made.createTBody();
    const isNumber = k => table.rows.length > 0 && table.rows.every(row => typeof row[k] === "number");
    const columns = table.columns.map((title, k) => column(title, row => row[k], undefined, isNumber(k)));
    makeTable(made.id, columns, table.rows);
  });
}

function addColours() {
  const names = new Set();
  for (const view of page.views) for (const box of view.boxes) for (const name of Object.keys(box[DETAILS].devices || {})) names.add(name);
  const choices = ["operator", "scope", "findings", ...[...names].flatMap(name => [`stage ${name}`, `devices ${name}`])];
  for (const choice of choices) element("option", choice, part("colours")).value = choice;
  part("colours").onchange = event => { camera.colours = event.target.value; redraw(); };
}

function listen() {
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
  canvas.onclick = click => {
    const box = boxAt(click.clientX, click.clientY);
    if (dragged || box < 0) return;
    camera.chosen = box;
    showBox(); redraw();
  };
  canvas.ondblclick = click => {
    const box = viewNow().boxes[boxAt(click.clientX, click.clientY)];
    const [first] = Object.values((box && box[DETAILS].opens) || {});
    if (first !== undefined) open(first);
  };
  const middle = factor => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
  const toSearch = event => { event.preventDefault(); part("search").focus(); };
  const keys = { "+": () => middle(1.3), "-": () => middle(1 / 1.3), 0: lookAtAll, Escape: goBack, "/": toSearch };
  canvas.onkeydown = event => { if (own(keys, event.key)) keys[event.key](event); };
  part("closer").onclick = keys["+"]; part("farther").onclick = keys["-"]; part("all").onclick = lookAtAll;
  part("search").oninput = event => search(event.target.value.toLowerCase());
  addEventListener("resize", redraw);
}

part("title").textContent = page.title;
facts(Object.entries(page.facts), part("facts"));
showFindings(); showViews(); addTables(); addColours(); listen(); open(0);
