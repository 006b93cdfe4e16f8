// The senders of the chosen burst: one bar per sender. Names come from the wire: they are only ever set as text.

const PATTERNS = {
  "single-source": "One sender made it.", incast: "Incast: their first frames fall together.",
  "many-sources": "Several senders that did not begin together.", unknown: "No sender of it is known.",
  canary: "mburst canary sent it to measure what is detected.",
};

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = seen(text);
  return made;
}

function senderRow(name, part, count, widest, equal, address) {
  const row = element("li");
  row.dataset.share = part;
  const bar = element("span", "track");
  const fill = element("span", "fill");
  fill.style.width = `${100 * part / widest}%`;
  bar.append(fill);
  if (equal && equal / widest <= 1) {
    const line = element("span", "equal");
    line.style.left = `${100 * equal / widest}%`;
    bar.append(line);
  }
  const who = element("span", "who", name);
  if (address !== name) who.title = address;
  row.append(who, bar, element("span", "amount", `${bytes(count)} · ${share(part)}`));
  return row;
}

function showSenders(aside, burst, onShow) {
  aside.replaceChildren();
  aside.append(element("h4", "", `Burst ${burst.number}`));
  aside.append(element("p", "when", `${burst.clock} UTC · ${duration(burst.end - burst.start)} · ${bytes(burst.bytes)}`));
  const facts = [PATTERNS[burst.pattern] ?? burst.pattern];
  if (burst.sources > 1) {
    const spread = burst.fanIn > 1 && burst.spread !== null ? `, first frames within ${duration(burst.spread)}` : "";
    facts.push(`${burst.fanIn.toLocaleString("en")} of ${burst.sources.toLocaleString("en")} senders carried it${spread}.`);
  }
  if (burst.services) facts.push(`${burst.services}.`);
  if (burst.effective > 1) facts.push(`As concentrated as ${threeDigits(burst.effective)} equal senders.`);
  aside.append(element("p", "", facts.join(" ")));
  const widest = Math.max(...burst.top.map((sender) => sender[2]), 1e-9);
  const list = element("ol", "bars");
  const half = burst.sources ? 1 / burst.sources / 2 : 0;
  for (const [name, count, part, address] of burst.top) list.append(senderRow(name, part, count, widest, half, address));
  aside.append(list);
  const left = burst.sources - burst.top.length;
  const listed = burst.top.reduce((sum, sender) => sum + sender[2], 0);
  const [before, them] = burst.top.length ? ["and ", "more"] : ["", left > 1 ? "senders" : "sender"];
  const rest = `${before}${left.toLocaleString("en")} ${them} with ${share(Math.max(0, 1 - listed))}`;
  if (left > 0) aside.append(element("p", "quiet", rest));
  if (half) aside.append(element("p", "quiet", "The line is half an equal share: senders beyond it are the fan-in."));
  const button = element("button", "", "Show it in the figure");
  button.type = "button";
  button.addEventListener("click", onShow);
  aside.append(button);
}
