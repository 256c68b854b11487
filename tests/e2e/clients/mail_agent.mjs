// The agent of mail_agent.py, in JavaScript, with nothing but fetch.
//   node mail_agent.mjs URL JSON           prints {"status": ..., "told": [...], "result": ...}
const [url, mail] = process.argv.slice(2);
const TRIES = 3000;
const told = [];
const pause = () => new Promise((resolve) => { setTimeout(resolve, 200); });

// The first answer that is more than "not yet".
async function patiently(place, request = {}) {
  for (let n = 0; n < TRIES; n += 1) {
    let answer;
    let text;
    try {
      answer = await fetch(place, request);
      text = await answer.text();
    } catch {
      told.push("broken");
      await pause();
      continue;
    }
    told.push(answer.status);
    if (![409, 429, 503].includes(answer.status) || !answer.headers.has("retry-after")) {
      return { status: answer.status, headers: answer.headers, json: JSON.parse(text) };
    }
    await pause();
  }
  throw new Error("the server never had an answer");
}

async function sendMail() {
  const headers = { "content-type": "application/json" };
  let answer = await patiently(url, { method: "POST", headers, body: mail });
  if (answer.status !== 202) return { status: answer.status, result: answer.json };
  const place = new URL(answer.headers.get("location"), url);
  while ((answer = await patiently(place)).headers.has("retry-after")) await pause();
  if (answer.json.message?.includes("make the same call again")) return sendMail();
  return { status: answer.json.http_status, result: answer.json.answer ?? answer.json };
}

console.log(JSON.stringify({ ...await sendMail(), told }));
