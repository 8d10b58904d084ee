function amount(x, unit) {
  if (x === null || x === undefined) return "";
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let k = 0;
  while (Math.abs(x) >= 1000 && k + 1 < prefixes.length) { x /= 1000; k += 1; }
  return `${Number(x.toPrecision(3))} ${prefixes[k]}${unit}`;
}

// A table that sorts by a click on a column; rows are found by what is in any of their cells. Without an order they
// come as they are given.
function makeTable(id, columns, rows, order) {
  const table = document.getElementById(id), body = table.tBodies[0];
  let sorted = order, descending = true, wanted = "";
  const heads = columns.map((column, k) => {
    const head = document.createElement("th");
    head.textContent = column.title;
    if (column.number) head.className = "number";
    head.onclick = () => { descending = sorted === k ? !descending : Boolean(column.number); sorted = k; draw(); };
    return head;
  });
  table.tHead.insertRow().append(...heads);
  const key = (row, k) => { const v = columns[k].value(row); return v === null || v === undefined ? -Infinity : v; };
  function draw() {
    heads.forEach((head, k) => k === sorted ? head.setAttribute("aria-sort", descending ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    const shown = rows.filter(row => columns.some(c => String(c.show(row)).toLowerCase().includes(wanted)));
    if (sorted !== undefined) shown.sort((a, b) => { const x = key(a, sorted), y = key(b, sorted); return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1); });
    body.replaceChildren(...shown.map(row => {
      const line = document.createElement("tr");
      if (row.launch !== undefined) line.dataset.launch = row.launch;
      for (const column of columns) {
        const cell = line.insertCell();
        cell.textContent = column.show(row);
        // Words stay whole; what is long gets a width at which its lines can be read.
        cell.className = column.number ? "number" : cell.textContent.length > 40 ? "wide long" : "wide";
      }
      return line;
    }));
  }
  draw();
  return text => { wanted = text.toLowerCase(); draw(); };
}
const column = (title, value, show, number) => ({ title, value, show: show || value, number });
