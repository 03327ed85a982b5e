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
    const isNew = last !== null && last !== message.data;
    last = message.data;
    if (!isNew) return;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const wasOpen = [...document.querySelectorAll("main details")].map((part) => part.open);
    page.querySelectorAll("main details").forEach((part, i) => {
      if (i < wasOpen.length) part.open = wasOpen[i];
    });
    document.querySelector("main").replaceWith(page.querySelector("main"));
    document.title = page.title;
  };
}
