"use strict";
// The page of `allocmark why`: light and dark, and the line to paste.
const root = document.documentElement;
if (matchMedia("(prefers-color-scheme: dark)").matches) root.dataset.theme = "dark";
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
});
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(button.dataset.text).then(() => { button.textContent = "copied"; });
  });
}
