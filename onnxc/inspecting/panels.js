const LINES = { error: "#b00020", warning: "#c98a00" };
const canvas = document.getElementById("canvas");
const graph = makeGraph(canvas, {
  views: page.views,
  fill: (view, box) => colouring(box),
  outline: box => box[DETAILS].findings && LINES[page.findings[box[DETAILS].findings[0]].severity],
  isMarked: k => k === camera.chosen,
  click: box => { if (box >= 0) { camera.chosen = box; showBox(); redraw(); } },
  doubleClick: k => {
    const box = viewNow().boxes[k], [first] = Object.values((box && box[DETAILS].opens) || {});
    if (first !== undefined) open(first);
  },
  keys: { Escape: () => goBack(), "/": event => { event.preventDefault(); part("search").focus(); } },
});
const { camera, context, viewNow, redraw } = graph;
Object.assign(camera, { chosen: -1, colours: "operator", before: [] });

const colourOf = text => `hsl(${hue(text)} 62% 82%)`;

// Operators have hues that are far from each other, the most frequent first: names alone may come to the same hue.
const operatorColours = (() => {
  const counts = new Map();
  for (const view of page.views) for (const box of view.boxes) {
    if (box[KIND] === "node") counts.set(titleOf(box), (counts.get(titleOf(box)) || 0) + 1);
  }
  const ordered = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return new Map(ordered.map(([name], k) => [name, `hsl(${(190 + k * 137.5) % 360} 62% ${82 - 8 * (k % 2)}%)`]));
})();

// What a node is filled with, by what the reader chose to see in colours.
function colouring(box) {
  const details = box[DETAILS], by = camera.colours;
  if (by === "operator") return operatorColours.get(titleOf(box));
  if (by === "scope") return colourOf(details.scope || "");
  if (by === "findings") return details.findings ? "#f4b4b4" : "#eeeeee";
  const [what, name] = [by.slice(0, by.indexOf(" ")), by.slice(by.indexOf(" ") + 1)];
  const said = own(details.devices, name);
  if (!said) return "#eeeeee";
  if (what === "stage") return said.stage === null ? "#eeeeee" : `hsl(${(said.stage * 67) % 360} 62% 80%)`;
  return said.devices.length ? colourOf(`devices ${said.devices.join(",")}`) : "#eeeeee";
}

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
  graph.lookAtStart(); showScopes(); redraw();
}

function goBack() { if (camera.before.length > 1) { open(camera.before.pop()); camera.before.pop(); } }

function choose(view, box) {
  if (view !== camera.view) open(view);
  camera.chosen = box;
  graph.lookAtBoxes([box]);
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
  for (const [name, left, top, right, bottom, boxes] of scopes) line(`${name} (${boxes})`, () => graph.lookAt(left, top, right, bottom, 1), shown);
}

function search(wanted) {
  const results = part("results");
  results.replaceChildren();
  if (!wanted) return;
  const { shown, count } = searchBoxes(page.views, wanted);
  for (const [v, k] of shown) {
    const box = page.views[v].boxes[k];
    line(`${titleOf(box)} ${box[NAME]}${v ? ` in ${page.views[v].path}` : ""}`, () => { results.replaceChildren(); choose(v, k); }, results);
  }
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
  part("closer").onclick = () => graph.zoomMiddle(1.3); part("farther").onclick = () => graph.zoomMiddle(1 / 1.3); part("all").onclick = graph.lookAtAll;
  part("search").oninput = event => search(event.target.value.toLowerCase());
}

part("title").textContent = page.title;
facts(Object.entries(page.facts), part("facts"));
showFindings(); showViews(); addTables(); addColours(); listen(); open(0);
