// What the MCP fixture server remembers and what a test tells it: executions, requests, gates,
// faults, settings. All of it is bounded, and forgotten by `reset`.
const KEPT_MAX = 10_000;
const WAIT_MAX_MS = 300_000 * Number(process.env.RECOURSE_E2E_PATIENCE ?? "1");
const SETTINGS = { answer: "sse", events: true, page_size: 0, resume: true,
  task_poll: 50, task_ttl: 3_600_000, task_auth: "" };

export class World {
  constructor() {
    this.streams = 0;
    this.waiters = new Set();
    this.reset();
  }

  reset() {
    this.settings = { ...SETTINGS };
    this.executions = [];
    this.cancelled = [];
    this.requests = [];
    this.gates = new Map();
    this.waiting = new Map();
    this.passed = new Map();
    this.faults = [];
    this.definitions = new Map();
    this.changed();
  }

  changed() {
    for (const waiter of this.waiters) waiter();
  }

  // True as soon as `condition` holds; false when it does not in time.
  until(condition, milliseconds) {
    if (condition()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const finish = (value) => {
        clearTimeout(timer);
        this.waiters.delete(look);
        resolve(value);
      };
      const look = () => { if (condition()) finish(true); };
      const timer = setTimeout(() => finish(false), Math.min(milliseconds, WAIT_MAX_MS));
      this.waiters.add(look);
    });
  }

  remember(list, entry) {
    if (list.length === KEPT_MAX) list.shift();
    list.push(entry);
    this.changed();
  }

  // The effect of a tool: what must happen at most once. Gives its number, from 1.
  execute(tool, args) {
    this.remember(this.executions, { tool, arguments: args });
    return this.count(tool);
  }

  addStreams(more) {
    this.streams += more;
    this.changed();
  }

  count(tool) {
    return this.executions.filter((execution) => execution.tool === tool).length;
  }

  // Passes once a test has opened the gate once more than others have passed it.
  async pass(gate) {
    this.waiting.set(gate, (this.waiting.get(gate) ?? 0) + 1);
    this.changed();
    await this.until(() => (this.gates.get(gate) ?? 0) > 0, WAIT_MAX_MS);
    this.gates.set(gate, (this.gates.get(gate) ?? 0) - 1);
    this.passed.set(gate, (this.passed.get(gate) ?? 0) + 1);
    this.waiting.set(gate, this.waiting.get(gate) - 1);
    this.changed();
  }

  takeFault(tool) {
    const armed = this.faults.find((entry) => entry.tool === tool);
    if (!armed) return undefined;
    armed.times -= 1;
    if (armed.times === 0) this.faults.splice(this.faults.indexOf(armed), 1);
    return armed.fault;
  }

  counts() {
    const tools = {};
    for (const { tool } of this.executions) tools[tool] = (tools[tool] ?? 0) + 1;
    return { tools, executions: this.executions, cancelled: this.cancelled,
      requests: this.requests.length, streams: this.streams };
  }

  // One command of a test; `sessions` are the server's own to end.
  async control({ op, ...values }, server) {
    switch (op) {
      case "reset":
        server.endSessions();
        server.tasks.forget();
        this.reset();
        return {};
      case "set":
        Object.assign(this.settings, values);
        return {};
      case "arm":
        this.faults.push({ tool: values.tool, fault: values.fault, times: values.times ?? 1 });
        return {};
      case "open":
        this.gates.set(values.gate, (this.gates.get(values.gate) ?? 0) + (values.count ?? 1));
        this.changed();
        return {};
      case "define":
        this.definitions.set(values.tool, values.patch);
        server.toolsChanged();
        return {};
      case "forget_sessions":
        server.endSessions();
        return {};
      case "forget_tasks":
        server.tasks.forget();
        return {};
      case "await":
        return { seen: await this.until(() => this.measure(values) >= (values.count ?? 1),
          1000 * values.seconds) };
      default:
        throw new Error(`unknown op ${op}`);
    }
  }

  measure({ what, name }) {
    switch (what) {
      case "executions": return this.count(name);
      case "cancelled": return this.cancelled.filter((entry) => entry.tool === name).length;
      case "waiting": return this.waiting.get(name) ?? 0;
      case "passed": return this.passed.get(name) ?? 0;
      case "streams": return this.streams;
      case "requests": return this.requests.filter((request) => request.rpc === name).length;
      default: throw new Error(`unknown measure ${what}`);
    }
  }
}
