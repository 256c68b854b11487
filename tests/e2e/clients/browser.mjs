// A real Chromium for the tests of the web UI. Reads one JSON command per line and answers each
// with one line. A page is watched from its first moment: what the content security policy stopped,
// what went wrong in scripts, and every request that left the origin.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import readline from "node:readline";
import { chromium } from "playwright-core";

const WAIT = 1000 * Number(process.env.RECOURSE_E2E_WAIT_MAX ?? "60");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  timeout: WAIT,
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars"],
});

let context = null;
let page = null;
let seen = { errors: [], foreign: [], dialogs: [] };
let told = {};  // what the server answered to GETs with JSON: path -> text

const pathOf = (url) => ((at) => at.pathname + at.search)(new URL(url));

async function note(response) {
  const isJson = /json/.test(response.headers()["content-type"] ?? "");
  if (isJson && response.request().method() === "GET") {
    told[pathOf(response.url())] = await response.text();
  }
}

function watchViolations() {
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
}

const commands = {
  // `now` stops the clock of the page; `answers` are what its GETs get in place of the server's.
  async open({ url, width = 1280, height = 800, dark = false, scale = 1, now = null,
    answers = {} }) {
    await context?.close();
    seen = { errors: [], foreign: [], dialogs: [] };
    told = {};
    context = await browser.newContext({
      viewport: { width, height }, colorScheme: dark ? "dark" : "light", deviceScaleFactor: scale,
      locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce",
    });
    context.setDefaultTimeout(WAIT);
    page = await context.newPage();
    await page.addInitScript(watchViolations);
    if (now !== null) await page.clock.setFixedTime(new Date(now));
    await page.route((at) => answers[pathOf(at)] !== undefined, (route) => (
      route.request().method() !== "GET" ? route.fallback() : route.fulfill({
        contentType: "application/json", body: answers[pathOf(route.request().url())] })));
    page.on("response", (response) => { note(response).catch(() => {}); });
    const origin = new URL(url).origin;
    page.on("request", (request) => {
      if (!/^(data:|blob:)/.test(request.url()) && new URL(request.url()).origin !== origin) {
        seen.foreign.push(request.url());
      }
    });
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("dialog", (dialog) => {
      seen.dialogs.push(dialog.message());
      dialog.dismiss();
    });
    await page.goto(url, { waitUntil: "commit", timeout: WAIT });
  },
  goto: ({ url }) => page.goto(url, { waitUntil: "commit" }),
  reload: () => page.reload({ waitUntil: "commit" }),
  click: ({ selector }) => page.locator(selector).first().click(),
  fill: ({ selector, text }) => page.locator(selector).first().fill(text),
  press: ({ keys }) => page.keyboard.press(keys),
  type: ({ text }) => page.keyboard.type(text),
  text: ({ selector }) => page.locator(selector).first().innerText(),
  count: ({ selector }) => page.locator(selector).count(),
  wait: ({ selector, state = "visible" }) => page.locator(selector).first().waitFor({ state })
    .then(() => null),
  // Asked from outside: within the page the content security policy forbids to evaluate a text.
  until: async ({ script }) => {
    const end = Date.now() + WAIT;
    while (!(await page.evaluate(script))) {
      if (Date.now() > end) throw new Error(`it did not become true: ${script}`);
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  },
  eval: ({ script }) => page.evaluate(script),
  // What axe finds in the page as it is now: a line each.
  axe: async () => {
    if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(AXE);
    return page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
      return violations.flatMap(({ id, impact, nodes }) => nodes.map((node) =>
        `${id} (${impact}) ${node.target.join(" ")}: ${node.any.concat(node.all, node.none)
          .map((check) => check.message).join("; ")}`));
    });
  },
  size: ({ width, height }) => page.setViewportSize({ width, height }),
  scheme: ({ dark }) => page.emulateMedia({ colorScheme: dark ? "dark" : "light" }),
  told: () => told,
  offline: ({ offline }) => context.setOffline(offline),
  cookies: () => context.cookies(),
  screenshot: async ({ path, full = false }) => {
    await page.screenshot({ path, fullPage: full, animations: "disabled", caret: "hide" });
  },
  seen: async () => ({ ...seen, violations: await page?.evaluate(() => window.violations) ?? [] }),
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { op, ...values } = JSON.parse(line);
  let answer;
  try {
    const value = await commands[op](values);
    answer = { value: ["goto", "reload"].includes(op) ? null : value ?? null };
  } catch (error) {
    answer = { error: String(error).slice(0, 2000) };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
