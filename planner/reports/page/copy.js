for (const box of document.querySelectorAll(".command")) {
  const button = document.createElement("button");
  const name = "Copy the command " + box.querySelector("figcaption").textContent;
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", name);
  button.addEventListener("click", async () => {
    const code = box.querySelector("code");
    let copied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Selected";
    document.getElementById("status").textContent = copied ? "Copied to the clipboard" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.querySelector("figcaption").append(button);
}
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
