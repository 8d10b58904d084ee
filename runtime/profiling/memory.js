// The arena over the launches, with what is outside of it in bands of their own below.
function showMemory(memory, nameOf, choose) {
  const canvas = part("memory"), left = 104, sizeOf = x => amount(x, "B");
  if (!memory || !memory.launches) { part("memorySection").hidden = true; return; }
  const arena = memory.uses.map(use => ({ ...use, base: use.offset, end: use.last + 1, fill: `hsl(${(use.first * 47) % 360} 55% 72%)` }));
  const bands = [
    { name: "arena", height: 250, items: arena, most: memory.arena_bytes },
    stacked("inputs, outputs", 70, memory.held.filter(each => each.kind !== "weight")),
    stacked("weights read", 70, memory.held.filter(each => each.kind === "weight")),
  ].filter(band => band.items.length);
  let top = 18;
  for (const band of bands) { band.top = top; top += band.height + 22; }
  canvas.style.height = `${top + 6}px`;
  const unknown = memory.held.filter(each => each.bytes === null).length;
  part("memoryNote").textContent = [
    `Each bar is a value in a slot of the arena, from the launch that makes it to the last one that reads it; ${sizeOf(memory.peak_bytes)} of ${sizeOf(memory.arena_bytes)} are in use at most, in launch ${memory.peak_launch}.`,
    memory.open_segments || unknown ? `Left out, for only data decides their sizes: arenas ${memory.open_segments}, values outside of arenas ${unknown}.` : "",
  ].join(" ");

  // Where something lies outside of the arena is not of the plan: bars stand on those beside which they are in use.
  function stacked(name, height, held) {
    const heights = new Array(memory.launches).fill(0), colours = { input: "#8fb3de", output: "#93c9a1", between: "#d9c37c", weight: "#b9a6d3" };
    const items = held.filter(each => each.bytes).map(each => {
      let base = 0;
      for (let k = each.first; k <= each.last; k++) base = Math.max(base, heights[k]);
      heights.fill(base + each.bytes, each.first, each.last + 1);
      return { ...each, base, end: each.last + 1, fill: colours[each.kind] };
    });
    return { name, height, items, most: items.reduce((most, item) => Math.max(most, item.base + item.bytes), 0) };
  }

  let hovered = null;
  const range = makeRange(canvas, memory.launches, left, () => redraw());
  const yOf = (band, bytes) => band.top + band.height * (1 - bytes / Math.max(1, band.most));

  function drawItem(context, band, item) {
    const from = Math.max(item.first, range.from), to = Math.min(item.end, range.to);
    if (to <= from) return 0;
    const x = range.at(from), y = yOf(band, item.base + item.bytes), width = Math.max(1, range.at(to) - x), height = Math.max(1, yOf(band, item.base) - y);
    context.fillStyle = item.fill;
    context.fillRect(x, y, width, height);
    const shares = hovered && item.slot !== undefined && item.slot === hovered.slot;
    if (shares || item === hovered || (width > 4 && height > 4)) {
      context.strokeStyle = item === hovered ? CHOSEN : shares ? "#3a3a3a" : "#fff";
      context.lineWidth = item === hovered ? 2.5 : 1;
      context.strokeRect(x, y, width, height);
    }
    if (width > 50 && height > 13) write(context, fitText(labelOf(item), width - 8, 11), x + 4, y + Math.min(height / 2 + 4, 14), 11, "#222", "left");
    return 1;
  }

  function drawPeak(context, band) {
    const launch = memory.peak_launch;
    if (launch + 1 <= range.from || launch >= range.to) return;
    const x = range.at(Math.max(range.from, Math.min(range.to, launch + .5))), y = yOf(band, memory.peak_bytes);
    context.strokeStyle = CHOSEN; context.lineWidth = 1.5; context.setLineDash([5, 3]);
    context.beginPath(); context.moveTo(x, band.top - 4); context.lineTo(x, band.top + band.height); context.stroke();
    context.setLineDash([]);
    const atRight = x > canvas.clientWidth - 180;
    write(context, `peak: ${sizeOf(memory.peak_bytes)} in use`, x + (atRight ? -4 : 4), band.top - 5, 11, CHOSEN, atRight ? "right" : "left", 600);
    return y;
  }

  function draw() {
    const context = clearedContext(canvas), width = canvas.clientWidth;
    let drawn = 0;
    for (const band of bands) {
      context.fillStyle = "#fff";
      context.fillRect(left, band.top, width - left - 8, band.height);
      for (const item of band.items) drawn += drawItem(context, band, item);
      write(context, sizeOf(band.most), left - 6, band.top + 10, 11, "#333", "right");
      write(context, "0", left - 6, band.top + band.height, 11, "#333", "right");
      write(context, band.name, left - 6, band.top + band.height / 2 + 4, 11, "#333", "right", 600);
    }
    if (bands[0].items === arena) drawPeak(context, bands[0]);
    for (let k = 0; k <= 6; k++) {
      const launch = Math.min(memory.launches, Math.round(range.from + (range.to - range.from) * k / 6)), x = range.at(launch);
      if (x >= left - 1) write(context, k ? String(launch) : `launch ${launch}`, x, top - 4, 11, "#333", k === 6 ? "right" : "left");
    }
    Object.assign(canvas.dataset, { drawn, from: range.from.toPrecision(4), to: range.to.toPrecision(4) });
  }

  let waiting = false;
  function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } }

  const labelOf = item => item.name || (item.node ? nodeName(item.node) : "scratch memory");
  const nodeName = node => (/node \d+ "(.*)" \(/s.exec(node) || ["", node])[1];

  function itemAt(event) {
    const area = canvas.getBoundingClientRect(), y = event.clientY - area.top, x = event.clientX - area.left;
    if (x < left) return null;
    const launch = range.valueAt(event.clientX), band = bands.find(each => y >= each.top - 1 && y <= each.top + each.height + 1);
    if (!band) return null;
    const bytes = (1 - (y - band.top) / band.height) * band.most, near = band.most / band.height;
    const isIn = slack => item => launch >= item.first && launch < item.end && bytes >= item.base - slack && bytes < item.base + item.bytes + slack;
    // What is lower than a pixel can be pointed at, too.
    return band.items.find(isIn(0)) || band.items.find(isIn(near)) || null;
  }

  function textOf(item) {
    const span = item.first === item.last ? `launch ${item.first}` : `launches ${item.first} to ${item.last}`;
    if (item.slot === undefined) return `${item.kind === "between" ? "between native calls" : item.kind} ${item.name}: ${sizeOf(item.bytes)} (${item.bytes} bytes), used in ${span}`;
    const others = memory.uses.filter(use => use.slot === item.slot).length - 1;
    const made = item.node ? `${item.node}, made by ${nameOf(item.first)}` : `scratch memory of ${nameOf(item.first)}`;
    return `${made}: ${sizeOf(item.bytes)} (${item.bytes} bytes) at offset ${item.offset}, ${span}; ${item.slot}${others ? `, which ${others} other value${others > 1 ? "s" : ""} ha${others > 1 ? "ve" : "s"} at other times` : ", its alone"}`;
  }

  canvas.addEventListener("pointermove", event => {
    const item = itemAt(event);
    if (item === hovered) return;
    hovered = item;
    part("memoryHovered").textContent = item ? textOf(item) : "\u00a0";
    redraw();
  });
  canvas.addEventListener("click", event => { const item = itemAt(event); if (item) choose(item.first); });
  draw();
}
