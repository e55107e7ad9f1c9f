// Live updates. Everything works without this: it asks for the same page again and puts its newer parts in place, and counts
// down to expiries. It never answers a request, and never replaces a form that somebody has begun to fill in.
(() => {
  "use strict";
  const root = document.documentElement;
  const period = 2000;
  const skew = Date.parse(root.dataset.now) - Date.now();
  let tag = root.dataset.tag;
  let failures = 0;

  const left = (seconds) => {
    if (seconds <= 0) return "expired";
    const days = Math.floor(seconds / 86400);
    const hours = Math.floor(seconds / 3600) % 24;
    const minutes = Math.floor(seconds / 60) % 60;
    if (days > 0) return `in ${days} d ${hours} h`;
    if (hours > 0) return `in ${hours} h ${minutes} min`;
    if (minutes > 0) return `in ${minutes} min ${Math.floor(seconds % 60)} s`;
    return `in ${Math.floor(seconds)} s`;
  };

  const count = () => {
    for (const time of document.querySelectorAll("time[data-until]")) {
      const seconds = (Date.parse(time.dateTime) - Date.now() - skew) / 1000;
      time.textContent = left(seconds);
    }
  };

  const say = (text) => {
    const news = document.getElementById("news");
    if (news) news.textContent = text;
  };

  const begun = (part) =>
    part.contains(document.activeElement) && document.activeElement.matches("textarea, input, select") ||
    [...part.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);

  // A form that somebody has begun stays, unable to be sent once what it was shown for has changed.
  const freeze = (part) => {
    for (const button of part.querySelectorAll("button[type=submit]")) button.disabled = true;
    const stale = part.querySelector("[data-stale]");
    if (stale && stale.hidden) {
      stale.hidden = false;
      say(stale.textContent);
    }
  };

  const ids = (part) => new Set([...part.querySelectorAll("[data-id]")].map((entry) => entry.dataset.id));

  const swap = (old, fresh) => {
    const known = ids(old);
    const focused = document.activeElement && document.activeElement.id;
    old.replaceWith(fresh);
    for (const entry of fresh.querySelectorAll("[data-id]")) {
      if (!known.has(entry.dataset.id)) entry.classList.add("fresh");
    }
    if (focused && !document.activeElement.id) {
      const again = document.getElementById(focused);
      if (again) again.focus({ preventScroll: true });
    }
    if (fresh.dataset.news && fresh.dataset.news !== old.dataset.news) say(fresh.dataset.news);
  };

  const update = (page) => {
    document.title = page.title;
    for (const fresh of page.querySelectorAll("[data-live]")) {
      const old = document.querySelector(`[data-live="${fresh.dataset.live}"]`);
      if (!old || old.innerHTML === fresh.innerHTML) continue;
      if (!old.querySelector("form")) swap(old, document.adoptNode(fresh));
      else if (old.dataset.seen === fresh.dataset.seen) continue;
      else if (begun(old)) freeze(old);
      else swap(old, document.adoptNode(fresh));
    }
    count();
  };

  const ask = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, {
        headers: { "if-none-match": tag },
        cache: "no-store",
        redirect: "manual",
      });
      failures = 0;
      if (answer.status === 304) return;
      if (answer.type === "opaqueredirect" || answer.status === 401) {
        location.reload();
        return;
      }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      tag = page.documentElement.dataset.tag;
      update(page);
    } catch {
      failures += 1;
      if (failures === 3) say("The page cannot reach Holdpoint; what you see may be old.");
    }
  };

  const round = async () => {
    await ask();
    setTimeout(round, Math.min(period * 2 ** failures, 30000));
  };

  // A second click sends nothing.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  // Back in the history: what the browser kept is old.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });

  count();
  setInterval(count, 1000);
  if (tag) setTimeout(round, period);
})();
