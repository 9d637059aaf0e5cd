// The recording of the last minutes as a file, and the command that reads it.
import { $, element, printable } from "./operator/text.js";

function save(name, content) {
  const link = element("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // by then, the browser has read it
}

async function download() {
  const answer = await fetch("/-/recording?last=5m");
  if (!answer.ok) throw new Error((await answer.json()).error);
  const [, name] = /filename="?([\w.-]+)/.exec(answer.headers.get("Content-Disposition"));
  save(name, await answer.blob());
  return [`${name} is in your downloads. There, type:`, element("code", `weirlab advise ${name} --report advice.html`)];
}

$("record").onclick = async () => {
  $("record").disabled = true;
  let failed = false;
  try {
    $("recorded").replaceChildren(...await download());
  } catch (error) {
    failed = true;
    $("recorded").textContent = `No recording: ${printable(error.message)}`;
  }
  $("recorded").classList.toggle("failed", failed);
  $("recorded").hidden = false;
  $("record").disabled = false;
  $("record").focus();
};
