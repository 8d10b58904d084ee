// Elements by their id, new ones with a text, and lines of text that do something when they are clicked.
const part = id => document.getElementById(id);

function element(name, text, parent, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.append(made);
  return made;
}

function line(text, action, parent, kind = "") { element("button", text, parent, `line ${kind}`).onclick = action; }
