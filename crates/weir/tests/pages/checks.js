// What is wrong with the page as it is laid out now: a list of sentences. Run by the test through the DevTools protocol.
(() => {
  const wrong = [];
  const say = (what, element, more) => {
    const words = (element.textContent || "").trim().slice(0, 60);
    wrong.push(`${what}: <${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> "${words}" ${more || ""}`);
  };
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) wrong.push(`the page is ${root.scrollWidth} wide in ${window.innerWidth}`);

  // Texts: elements that hold words themselves.
  const own = (element) => [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.body.querySelectorAll("*")].filter(
    (element) => own(element).length && seen(element) && !element.closest("title, desc, caption, defs"));
  const boxes = texts.map((element) => {
    if (element.tagName === "text") return { element, rects: [element.getBoundingClientRect()] };
    const rects = own(element).flatMap((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [...range.getClientRects()];
    });
    return { element, rects };
  });

  // Cut: outside of the picture, the window, or a box that hides what is too much.
  for (const { element, rects } of boxes) {
    const picture = element.closest("svg");
    if (element.closest(".scroll")) continue;
    for (const rect of rects) {
      if (rect.left < -0.5 || rect.right > window.innerWidth + 0.5) say("outside of the window", element, `${rect.left} to ${rect.right}`);
      if (!picture) continue;
      const frame = picture.getBoundingClientRect();
      if (rect.left < frame.left - 1 || rect.right > frame.right + 1 || rect.top < frame.top - 1 || rect.bottom > frame.bottom + 1)
        say("cut by its picture", element, `${rect.left - frame.left} to ${rect.right - frame.left} of ${frame.width}`);
    }
    const box = element.closest("figure, .card, .facts div");
    if (box && !picture) {
      const frame = box.getBoundingClientRect();
      for (const rect of rects) if (rect.right > frame.right + 0.5) say("sticks out of its box", element);
    }
    const style = getComputedStyle(element);
    if (style.overflowX === "hidden" && element.scrollWidth > element.clientWidth + 1) say("cut", element);
  }

  // Overlapping: two texts, neither inside the other, that share more than a hair.
  const flat = boxes.flatMap(({ element, rects }) => rects.map((rect) => ({ element, rect })))
    .filter(({ element }) => !element.closest(".scroll"))
    .sort((a, b) => a.rect.top - b.rect.top);
  for (let i = 0; i < flat.length; i++) {
    const a = flat[i];
    for (let j = i + 1; j < flat.length && flat[j].rect.top < a.rect.bottom - 3; j++) {
      const b = flat[j];
      if (a.element === b.element) continue;
      const across = Math.min(a.rect.right, b.rect.right) - Math.max(a.rect.left, b.rect.left);
      const down = Math.min(a.rect.bottom, b.rect.bottom) - b.rect.top;
      if (across > 1 && down > 3) say("overlaps", a.element, `with "${b.element.textContent.trim().slice(0, 40)}"`);
    }
  }

  // Contrast: 4.5 for every text, 3 for the surfaces that carry meaning.
  const parse = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((value) => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      const parts = parse(colour);
      if (parts.length === 3 || parts[3] > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  for (const { element } of boxes) {
    const style = getComputedStyle(element);
    const picture = element.closest("svg");
    const ratio = contrast(picture ? style.fill : style.color, ground(picture ? picture.parentElement : element));
    if (ratio < 4.5) say("too faint", element, ratio.toFixed(2));
  }
  const probe = document.querySelector("figure") || document.querySelector("main") || document.body;
  for (const surface of document.querySelectorAll("pattern .ground, .bar:not(.track):not(.outline), .stream, .line:not(.under):not(.faint)")) {
    const style = getComputedStyle(surface);
    const ratio = contrast(surface.matches(".line") ? style.stroke : style.fill, ground(probe));
    if (ratio < 3) say("surface too faint", surface, `${surface.parentElement.id} ${ratio.toFixed(2)}`);
  }

  // Names, headings, landmarks, tables.
  const name = (element) => (element.getAttribute("aria-label")
    || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => (document.getElementById(id) || {}).textContent || "").join(" ")).trim();
  if (!root.lang) wrong.push("no language");
  if (!document.title.trim()) wrong.push("no title");
  for (const picture of document.querySelectorAll("svg:not([aria-hidden])")) {
    if (picture.getAttribute("role") !== "img" || !name(picture)) say("picture without a name", picture);
    if (!picture.querySelector(":scope > title") || !picture.querySelector(":scope > desc")) say("picture without words", picture);
  }
  for (const group of document.querySelectorAll("[role=group]")) if (!name(group)) say("group without a name", group);
  for (const element of document.querySelectorAll("summary, th, figcaption h3")) if (!element.textContent.trim()) say("empty", element);
  for (const id of [...document.querySelectorAll("[id]")].map((element) => element.id).filter((id, at, all) => all.indexOf(id) !== at)) wrong.push(`two elements are called ${id}`);
  for (const landmark of ["body > header", "body > main", "body > footer"]) if (document.querySelectorAll(landmark).length !== 1) wrong.push(`not one ${landmark}`);
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")].filter(seen);
  if (headings.filter((heading) => heading.tagName === "H1").length !== 1) wrong.push("not one h1");
  headings.reduce((before, heading) => {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) say("heading skips a level", heading);
    if (!heading.textContent.trim()) say("empty heading", heading);
    return level;
  }, 0);
  for (const table of document.querySelectorAll("table")) if (!table.caption || !table.querySelector("th[scope=col]")) say("table without heads", table);
  for (const list of document.querySelectorAll("ul, ol")) if ([...list.children].some((child) => child.tagName !== "LI")) say("list with something else in it", list);
  for (const list of document.querySelectorAll("dl")) if ([...list.children].some((child) => !child.querySelector("dt") || !child.querySelector("dd"))) say("odd definition list", list);
  for (const scroll of document.querySelectorAll(".scroll")) if (scroll.tabIndex !== 0) say("cannot be reached by keyboard", scroll);
  if (document.querySelector("script, iframe, object, embed, link, img, [onload], [onclick], [onerror], [style], a[href]")) wrong.push("something that has no business here");
  return [...new Set(wrong)].slice(0, 40);
})()
