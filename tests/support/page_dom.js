// Runs the script of a page of timed mode on a document that is just enough for it: node page_dom.js PAGE.
// Prints {texts: what each element shows, drawn: what is written on each canvas, bad: calls with a number that is none,
// tips: what pointers find}.
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");
const scripts = [...page.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
const elements = {};
const bad = [];
class Element {
  constructor(name) {
    Object.assign(this, { name, own: "", inside: [], style: {}, attributes: {}, listeners: {}, scrollTop: 0 });
    Object.assign(this, { clientWidth: 900, clientHeight: 300, width: 900, height: 300, drawn: new Set() });
    const classes = new Set();
    this.classList = { add: (...x) => x.forEach((c) => classes.add(c)), remove: (...x) => x.forEach((c) => classes.delete(c)),
      toggle: (c, on) => (on ? classes.add(c) : classes.delete(c)) };
  }
  get textContent() { return this.own + this.inside.map((x) => x.textContent).join(" "); }
  set textContent(x) { this.own = String(x); this.inside = []; }
  appendChild(x) { this.inside.push(x); return x; }
  getAttribute(k) { return k in this.attributes ? this.attributes[k] : null; }
  setAttribute(k, v) { this.attributes[k] = String(v); }
  addEventListener(k, f) { this.listeners[k] = f; }
  querySelectorAll() { return []; }
  getBoundingClientRect() { return { left: 0, top: 0 }; }
  setPointerCapture() {}
  getContext() {
    const call = (k) => (...given) => {
      if (k === "fillText") this.drawn.add(String(given[0]));
      if (given.some((x) => typeof x === "number" && !Number.isFinite(x))) bad.push(this.name + "." + k);
    };
    const measured = { measureText: (x) => ({ width: 6 * String(x).length }) };
    return new Proxy(measured, { get: (o, k) => (k in o ? o[k] : call(k)), set: (o, k, v) => { o[k] = v; return true; } });
  }
}
const byId = (id) => elements[id] || (elements[id] = new Element(id));
byId("data").own = scripts.find((s) => s[1].includes("json"))[2];
global.document = { getElementById: byId, createElement: (t) => new Element(t),
  createTextNode: (t) => { const e = new Element("text"); e.own = t; return e; } };
global.document.documentElement = byId("html");
global.getComputedStyle = () => ({ getPropertyValue: () => " #123456" });
global.window = { devicePixelRatio: 1, innerWidth: 1000, addEventListener() {}, matchMedia: () => ({ addEventListener() {} }) };
(0, eval)(scripts.find((s) => !s[1].includes("json"))[2]);
const tips = new Set();
for (const id of ["timeline", "ub"]) {
  const on = byId(id).listeners;
  for (let x = 70; x < 900; x += 3) {
    for (let y = 2; y < 300; y += 20) {
      on.pointermove({ clientX: x, clientY: y });
      tips.add(byId("tip").textContent);
    }
  }
  on.pointerdown({ clientX: 500, clientY: 30, pointerId: 1 });
  on.pointerup({ clientX: 500, clientY: 30 });
  on.wheel({ preventDefault() {}, clientX: 500, clientY: 30, deltaY: -200 });
  on.dblclick({});
}
const shown = Object.values(elements).filter((e) => !["data", "source"].includes(e.name));
const texts = Object.fromEntries(shown.map((e) => [e.name, e.textContent]));
const drawn = Object.fromEntries(shown.map((e) => [e.name, [...e.drawn]]));
process.stdout.write(JSON.stringify({ texts, drawn, bad, tips: [...tips].filter(Boolean) }));
