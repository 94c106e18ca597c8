// Snippets are pulled from the middle of programs: their common indentation is taken off.
document.addEventListener("DOMContentLoaded", () => {
  for (const fragment of document.querySelectorAll("div.fragment")) {
    const lines = [...fragment.querySelectorAll("div.line")].filter((line) => line.textContent.trim() !== "");
    const common = Math.min(...lines.map((line) => /^\s*/.exec(line.textContent)[0].length));
    if (!(common > 0 && common < Infinity)) continue;
    for (const line of lines) {
      const words = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
      for (let left = common; left > 0 && words.nextNode();) {
        const taken = Math.min(left, words.currentNode.data.length);
        words.currentNode.data = words.currentNode.data.slice(taken);
        left -= taken;
      }
    }
  }
});
