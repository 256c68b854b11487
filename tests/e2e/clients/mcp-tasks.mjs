// Tasks of the MCP fixture server, in the forms of both eras, which its SDK leaves to extensions:
// calls of task_write become tasks that end when their gate is opened, with what `ends` says.
//   tasks/get     the status, and since 2026-07-28 the result or the error with it
//   tasks/result  of 2025-11-25: the result, as soon as the task has ended
//   tasks/cancel
// A task belongs to its session. World settings: task_poll, task_ttl (ms); task_auth: what the
// Authorization of every request about tasks must be.
import { randomUUID } from "node:crypto";

const METHODS = ["tasks/get", "tasks/result", "tasks/cancel"];
const UNKNOWN = { code: -32602, message: "Failed to retrieve task: Task not found" };

// What the call of a task comes to.
function endOf({ ends = "completed", mark }, number) {
  const order = { id: `task-${number}`, status: "done", mark };
  const content = [{ type: "text", text: JSON.stringify(order) }];
  switch (ends) {
    case "tool_error":
      return { status: "completed", result: { content: [{ type: "text", text: "no luck" }],
        isError: true } };
    case "failed":
      return { status: "failed", error: { code: -32603, message: "it broke" } };
    case "refused":
      return { status: "failed", error: { code: -32602, message: "no such item" } };
    case "cancelled":
      return { status: "cancelled" };
    default:
      return { status: "completed", result: { content, structuredContent: order } };
  }
}

export class Tasks {
  constructor(world) {
    this.world = world;
    this.tasks = new Map(); // id -> { session, created, end: { status, result | error } }
  }

  forget() {
    this.tasks.clear();
  }

  create(session, args) {
    const id = randomUUID();
    const task = { session, created: new Date().toISOString(), end: { status: "working" } };
    this.tasks.set(id, task);
    const number = this.world.execute("task_write", args);
    this.world.pass(args.gate ?? "task_write").then(() => {
      if (task.end.status === "working") task.end = endOf(args, number);
      this.world.changed();
    });
    return id;
  }

  state(id, isLegacy) {
    const { created, end } = this.tasks.get(id);
    const { task_poll: poll, task_ttl: ttl } = this.world.settings;
    const pace = isLegacy ? { ttl, pollInterval: poll } : { ttlMs: ttl, pollIntervalMs: poll };
    return { taskId: id, status: end.status, createdAt: created, lastUpdatedAt: created, ...pace };
  }

  // The response to a message about tasks; undefined: it is not.
  async answer(message, { isLegacy, session, authorization }) {
    const { method, params = {} } = message ?? {};
    const starts = method === "tools/call" && params.name === "task_write" &&
      (!isLegacy || params.task);
    if (!starts && !METHODS.includes(method)) return undefined;
    const { task_auth: wanted } = this.world.settings;
    if (!starts && wanted && authorization !== wanted) return { status: 401 };
    const own = isLegacy ? {} : { resultType: "complete" };
    if (starts) {
      const task = this.state(this.create(session, params.arguments ?? {}), isLegacy);
      return { result: isLegacy ? { task } : { resultType: "task", ...task } };
    }
    const task = this.tasks.get(params.taskId);
    if (!task || task.session !== session) return { error: UNKNOWN };
    if (method === "tasks/cancel") {
      task.end = { status: "cancelled" };
      return { result: isLegacy ? this.state(params.taskId, true) : own };
    }
    if (method === "tasks/result") return this.result(params.taskId, task);
    const { result, error } = isLegacy ? {} : task.end;
    return { result: { ...own, ...this.state(params.taskId, isLegacy),
      ...(result ? { result } : {}), ...(error ? { error } : {}) } };
  }

  async result(id, task) {
    await this.world.until(() => task.end.status !== "working", 600_000);
    const { result, error } = task.end;
    if (error) return { error };
    if (!result) return { error: { code: -32603, message: `Task ${id} has no result stored` } };
    const _meta = { "io.modelcontextprotocol/related-task": { taskId: id } };
    return { result: { ...result, _meta } };
  }
}
