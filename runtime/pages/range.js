// What a drawing along one axis shows of 0 to `end`: the wheel zooms, dragging moves, a double click shows all again, and
// each calls `draw`. `left` is where on the canvas the axis begins; there are 8 pixels behind its end.
function makeRange(canvas, end, left, draw) {
  const range = { from: 0, to: end };
  const width = () => Math.max(200, canvas.clientWidth - left - 8);
  range.at = value => left + (value - range.from) / (range.to - range.from) * width();
  range.valueAt = clientX => range.from + Math.min(1, Math.max(0, (clientX - canvas.getBoundingClientRect().left - left) / width())) * (range.to - range.from);
  canvas.addEventListener("wheel", wheel => {
    wheel.preventDefault();
    const middle = range.valueAt(wheel.clientX), factor = wheel.deltaY < 0 ? 0.8 : 1.25;
    const from = Math.max(0, middle - (middle - range.from) * factor), to = Math.min(end, middle + (range.to - middle) * factor);
    range.from = from; range.to = to;
    draw();
  });
  canvas.addEventListener("pointermove", move => {
    if (!(move.buttons & 1)) return;
    const shift = Math.max(-range.from, Math.min(end - range.to, -move.movementX * (range.to - range.from) / width()));
    range.from += shift; range.to += shift;
    draw();
  });
  canvas.addEventListener("dblclick", () => { range.from = 0; range.to = end; draw(); });
  addEventListener("resize", draw);
  return range;
}
