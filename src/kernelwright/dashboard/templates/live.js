"use strict";
// Takes the page's content anew whenever the store says something new; what is unfolded stays so.
const address = document.body.dataset.events;
if (address) {
  const source = new EventSource(address);
  const brand = document.querySelector(".brand");
  let last = null;
  source.onopen = () => brand.classList.remove("stale");
  source.onerror = () => brand.classList.add("stale");
  source.onmessage = async (message) => {
    if (last === message.data) return;
    last = message.data;
    // The first message too: the store may have gone on between the page and the connection.
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const wasOpen = new Map(
      [...document.querySelectorAll("main details[data-key]")].map((part) => [part.dataset.key, part.open]),
    );
    page.querySelectorAll("main details[data-key]").forEach((part) => {
      if (wasOpen.has(part.dataset.key)) part.open = wasOpen.get(part.dataset.key);
    });
    document.querySelector("main").replaceWith(page.querySelector("main"));
    document.title = page.title;
    brand.dataset.seen = message.data;
  };
}
