// A GraphQL server of issues, made of graphql and graphql-http as they come. It counts what it
// executes; POST /control loses the answer to the next mutation (after or before it acts), GET
// /state shows all. Prints its port, and ends with its stdin.
import http from "node:http";
import { buildSchema, getDirectiveValues, GraphQLError } from "graphql";
import { createHandler } from "graphql-http";

const schema = buildSchema(`
  directive @idempotent(key: String!) on FIELD
  type Query { issue(id: ID!): Issue, issues(ref: String): [Issue!]!, reads: Int! }
  type Issue { id: ID!, title: String!, labels: [String!], ref: String, points: Int }
  input IssueInput { id: ID, title: String!, labels: [String!], ref: String, points: Int }
  input IssueUpdate { title: String, labels: [String!], points: Int }
  type IssuePayload { success: Boolean!, issue: Issue }
  type Deleted { success: Boolean! }
  type Mutation {
    issueCreate(input: IssueInput!): IssuePayload
    issueUpdate(id: ID!, input: IssueUpdate!): IssuePayload
    issueDelete(id: ID!): Deleted
    issueArchive(id: ID!): Deleted
    touch: Int
    refundCreate(order: String!, amount: Int): Refund
    refundCancel(id: ID!): Refund
  }
  type Refund { id: ID! }
`);

const world = { issues: {}, executed: [], requests: [], reads: 0, lose: "", keyed: {} };

// As Shopify has it: the key is required, and what comes again under one is not done again.
function once(field, args, info) {
  const directive = schema.getDirective("idempotent");
  const key = getDirectiveValues(directive, info.fieldNodes[0], info.variableValues)?.key;
  if (!key) throw new GraphQLError("the @idempotent directive is required");
  const said = JSON.stringify([field, args]);
  if (world.keyed[key] && world.keyed[key] !== said) throw new GraphQLError("another payload");
  if (!world.keyed[key]) execute(field, args);
  world.keyed[key] = said;
  return { id: `${field}-${key}` };
}

function execute(field, args) {
  world.executed.push({ field, args });
}

const rootValue = {
  issue: ({ id }) => world.issues[id] ?? null,
  issues: ({ ref }) => Object.values(world.issues).filter((one) => !ref || one.ref === ref),
  reads: () => ++world.reads,
  issueCreate({ input }) {
    execute("issueCreate", { input });
    if (input.title === "forbidden") {
      throw new GraphQLError("you may not", { extensions: { code: "FORBIDDEN" } });
    }
    if (input.title === "half") throw new GraphQLError("nobody knows");
    const id = input.id ?? `issue-${world.executed.length}`;
    if (world.issues[id]) {
      throw new GraphQLError("it exists", { extensions: { code: "EXISTS" } });
    }
    world.issues[id] = { ...input, id };
    return { success: true, issue: world.issues[id] };
  },
  issueUpdate({ id, input }) {
    execute("issueUpdate", { id, input });
    if (!world.issues[id]) return null;
    Object.assign(world.issues[id], input);
    return { success: true, issue: world.issues[id] };
  },
  issueDelete({ id }) {
    execute("issueDelete", { id });
    const was = delete world.issues[id];
    return { success: was };
  },
  issueArchive({ id }) {
    execute("issueArchive", { id });
    return { success: true };
  },
  refundCreate: (args, _, info) => once("refundCreate", args, info),
  refundCancel: (args, _, info) => once("refundCancel", args, info),
  touch() {
    execute("touch", {});
    return world.executed.length;
  },
};

const handler = createHandler({ schema, rootValue });

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

const server = http.createServer(async (request, response) => {
  if (request.url === "/state") return response.end(JSON.stringify(world));
  if (request.url === "/control") {
    Object.assign(world, JSON.parse(await bodyOf(request)));
    return response.end("{}");
  }
  const body = await bodyOf(request);
  world.requests.push({ method: request.method, body, headers: request.headers });
  const lose = body.includes("mutation") && world.lose;
  if (lose) world.lose = "";
  if (lose === "before") return request.socket.destroy();
  const [text, init] = await handler({ method: request.method, url: request.url,
    headers: request.headers, body: body || null, raw: request, context: {} });
  if (lose === "after") return request.socket.destroy();
  response.writeHead(init.status, init.statusText, init.headers).end(text);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
