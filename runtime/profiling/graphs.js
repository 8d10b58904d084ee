// Kernels beside the ONNX nodes that they came from: what is chosen in one graph is marked in the other. Gives the two
// graphs, and a function that marks launches by their ordinals.
function showGraphs(graphs, chooseRows) {
  if (!graphs) { part("graphsSection").hidden = true; return { shown: [], markLaunches: () => {} }; }
  const views = [graphs.kernels, graphs.nodes], links = [graphs.links, graphs.nodes.boxes.map(() => [])];
  graphs.links.forEach((nodes, kernel) => nodes.forEach(node => links[1][node].push(kernel)));
  const shares = sharesOfBoxes(), largest = shares.map(list => Math.max(1e-9, ...list));
  const marked = [new Set(), new Set()], shown = [0, 1].map(side => makeGraph(part(["kernelGraph", "nodeGraph"][side]), {
    views: [views[side]],
    fill: (view, box, k) => fillOf(side, k),
    isMarked: k => marked[side].has(k),
    click: k => choose(side, k < 0 ? [] : [k]),
    keys: { Escape: () => choose(side, []) },
  }));
  const launchOf = k => views[0].boxes[k][DETAILS].launch;

  // The share of a call of each kernel and step on the host; a node has those of the kernels that were built around it.
  function sharesOfBoxes() {
    const byLaunch = new Map(profile.kernels.map(kernel => [kernel.launch, kernel])), byNode = new Map(profile.host.map(step => [step.node, step]));
    const ofKernels = views[0].boxes.map(box => {
      const details = box[DETAILS], timed = details.launch === undefined ? byNode.get((details.nodes || [])[0]) : byLaunch.get(details.launch);
      // Of several variants the one that ran.
      if (timed && timed.kernel) details.operator = `${timed.kernel} ${timed.kind}`;
      return timed ? timed.share : 0;
    });
    const ofNodes = views[1].boxes.map(() => 0);
    graphs.links.forEach((nodes, kernel) => { if (nodes.length) ofNodes[nodes[0]] += ofKernels[kernel]; });
    return [ofKernels, ofNodes];
  }

  function fillOf(side, k) {
    if (!links[side][k].length && !shares[side][k]) return "#ececec";
    return `hsl(28 92% ${(96 - 38 * Math.sqrt(shares[side][k] / largest[side])).toFixed(1)}%)`;
  }

  // Marks boxes of one side and those that they are linked with, and brings both into view.
  function choose(side, boxes) {
    const others = boxes.flatMap(k => links[side][k]);
    marked[side].clear(); marked[1 - side].clear();
    for (const k of boxes) marked[side].add(k);
    for (const k of others) marked[1 - side].add(k);
    shown[1 - side].lookAtBoxes(others);
    shown[side].redraw(); shown[1 - side].redraw();
    chooseRows(new Set([...marked[0]].map(launchOf)));
    tell();
  }

  function tell() {
    const told = part("linked"), textOf = (side, k) => `${titleOf(views[side].boxes[k])} ${views[side].boxes[k][NAME]}`;
    told.replaceChildren();
    if (!marked[0].size && !marked[1].size) return element("p", "A click on a kernel marks its nodes, one on a node its kernels. Grey nodes have no kernel: they were computed when the model was compiled, became sizes, or do nothing.", told, "hint");
    for (const [side, word] of [[0, "kernel"], [1, "node"]]) {
      for (const k of [...marked[side]].slice(0, 50)) line(`${word}: ${textOf(side, k)}${shares[side][k] ? `, ${percent(shares[side][k])} of a call` : ""}`, () => goTo(side, k), told);
    }
    if (!marked[0].size) element("p", "No kernel came of this node.", told, "hint");
  }

  function goTo(side, k) { choose(side, [k]); shown[side].lookAtBoxes([k]); }

  function search(wanted) {
    const results = part("graphResults");
    results.replaceChildren();
    if (!wanted) return;
    const { shown: matches, count } = searchBoxes(views, wanted);
    for (const [side, k] of matches) {
      const box = views[side].boxes[k];
      line(`${side ? "node" : "kernel"}: ${titleOf(box)} ${box[NAME]}`, () => { results.replaceChildren(); goTo(side, k); }, results);
    }
    element("p", count > 100 ? `100 of ${count} are shown` : `${count} found`, results, "hint");
  }

  part("graphSearch").oninput = event => search(event.target.value.toLowerCase());
  shown.forEach((graph, side) => {
    const buttons = part(["kernelButtons", "nodeButtons"][side]);
    for (const [text, title, act] of [["+", "zoom in (+)", () => graph.zoomMiddle(1.3)], ["\u2212", "zoom out (-)", () => graph.zoomMiddle(1 / 1.3)], ["all", "show all (0)", graph.lookAtAll]]) {
      Object.assign(element("button", text, buttons), { title, onclick: act });
    }
    graph.lookAtStart(); graph.redraw();
  });
  tell();
  function markLaunches(launches) {
    const boxes = views[0].boxes.flatMap((box, k) => launches.has(box[DETAILS].launch) ? [k] : []);
    choose(0, boxes);
    shown[0].lookAtBoxes(boxes);
  }
  return { shown, markLaunches };
}
