// Bursts as they end, the newest first, and the senders of the chosen one. Names come from the wire: they are only set
// as text.

const SHOWN_BURSTS = 100;
const PATTERN_WORDS = { "single-source": "single source", "many-sources": "many sources", incast: "incast", canary: "canary", unknown: "sender not known" };

class BurstList {
  constructor(section, onChoose, onShow) {
    this.list = section.querySelector(".ended");
    this.none = section.querySelector(".none");
    this.aside = section.querySelector(".fanin");
    this.onChoose = onChoose;
    this.onShow = onShow;
    this.clear();
  }

  // Reset to the state before the first data of a lane, with or without a link speed: its bursts are unknown.
  clear(link) {
    this.rows = [];
    this.chosen = null;
    this.list.replaceChildren();
    this.aside.replaceChildren();
    this.none.hidden = true;
    this.none.textContent = link ? "None since this page was opened or in the time shown." : "The link's speed is not known, so no burst can be detected.";
  }

  add(bursts) {
    for (const burst of bursts) {
      const row = this.row(burst);
      const at = this.rows.findIndex((other) => other.burst.start <= burst.start);
      if (at >= 0 && this.rows[at].burst.start === burst.start && this.rows[at].burst.recording_id === burst.recording_id) continue;
      if (at < 0) {
        this.rows.push({ burst, row });
        this.list.append(row);
      } else {
        this.list.insertBefore(row, this.rows[at].row);
        this.rows.splice(at, 0, { burst, row });
      }
    }
    for (const { row } of this.rows.splice(SHOWN_BURSTS)) row.remove();
    this.none.hidden = this.rows.length > 0;
    if (!this.chosen && this.rows.length) this.choose(this.rows[0].burst);
  }

  row(burst) {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    const all = burst.sources ? `${burst.sources.toLocaleString("en")} sender${burst.sources > 1 ? "s" : ""}` : "";
    const senders = burst.services || burst.top.slice(0, 2).map((sender) => sender[0]).join(", ") || all;
    const more = burst.services || senders === all ? 0 : burst.sources - Math.min(2, burst.top.length);
    button.append(element("span", "clock", burst.clock), element("span", "lasted", duration(burst.end - burst.start)),
      element("span", "peak", `peak ${share(burst.peak)}`), element("span", "size", bytes(burst.bytes)),
      element("span", "pattern", PATTERN_WORDS[burst.pattern] ?? burst.pattern),
      element("span", "from", senders + (more > 0 ? ` and ${more.toLocaleString("en")} more` : "")));
    if (burst.quality.includes("drops")) {
      const lacking = burst.quality.includes("gap") ? "samples missing in it" : "packets lost in it";
      button.append(element("span", "lossy", lacking));
    }
    button.addEventListener("click", () => this.choose(burst));
    item.append(button);
    return item;
  }

  choose(burst) {
    this.chosen = burst;
    for (const { burst: other, row } of this.rows) row.firstChild.setAttribute("aria-pressed", String(other === burst));
    showSenders(this.aside, { ...burst, number: burst.clock }, () => this.onShow(burst));
    this.onChoose(burst);
  }
}
