"use strict";
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});
document.addEventListener("click", async (click) => {
  const button = click.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // A page opened from disk may have no clipboard: select the text instead.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
});
