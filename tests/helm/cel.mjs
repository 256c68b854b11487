// Evaluates CEL as an API server does for ValidatingAdmissionPolicies and matchConditions. A line
// of stdin is a JSON array of
// { variables: [{name, expression}], expressions: [...], bindings: {...} };
// the line of stdout after it: what the expressions of each of them give, or "error: ...".
import { createInterface } from "node:readline";
import { run } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";

// Whole numbers of Kubernetes' objects are integers.
const withIntegers = (value) => {
  if (Number.isInteger(value)) return BigInt(value);
  if (Array.isArray(value)) return value.map(withIntegers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withIntegers(one)]));
};

function evaluate({ variables = [], expressions, bindings }) {
  const known = { ...withIntegers(bindings), variables: {} };
  const value = (expression) => run(expression, known, { funcs: strings });
  for (const { name, expression } of variables) known.variables[name] = value(expression);
  return expressions.map((expression) => {
    try {
      const given = value(expression);
      return given instanceof Error ? `error: ${given.message}` : given;
    } catch (error) {
      return `error: ${error.message}`;
    }
  });
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  console.log(JSON.stringify(JSON.parse(line).map(evaluate)));
}
