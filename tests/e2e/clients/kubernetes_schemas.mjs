// Checks Kubernetes objects (a JSON array on stdin) against the schemas of their API versions, as
// strictly as `kubectl apply --validate=strict`; prints a JSON array of what is wrong.
//
// The validators of kubernetes-models let unknown fields pass. They read every field that they
// know, though, so each object is handed to them in a Proxy: what nobody read, nobody knows.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
// Custom resources stand in packages of their own.
const PACKAGES = { "monitoring.coreos.com": "@kubernetes-models/prometheus-operator" };

// The model of a kind; undefined if the API version has no such kind.
function modelOf({ apiVersion, kind }) {
  const home = PACKAGES[String(apiVersion).split("/")[0]] ?? "kubernetes-models";
  try {
    return require(`${home}/${apiVersion}/${kind}`)[kind];
  } catch {
    return undefined;
  }
}

// What the schema says against it.
function complaints(Model, object) {
  try {
    Model.prototype.validate.call(object);
    return [];
  } catch (error) {
    return error.message.split("\n");
  }
}

// Wraps values so that the fields which nobody reads are known.
class Watch {
  #wrapped = new Map();
  #unread = [];

  wrap(value, path = "") {
    if (value === null || typeof value !== "object") return value;
    if (!this.#wrapped.has(value)) this.#wrapped.set(value, this.#proxy(value, path));
    return this.#wrapped.get(value);
  }

  unread() {
    return this.#unread.flatMap((fields) => fields());
  }

  #proxy(value, path) {
    const read = new Set();
    const fields = () => Object.keys(value).filter((key) => !read.has(key));
    this.#unread.push(() => fields().map((key) => `${path}/${key}`));
    return new Proxy(value, {
      get: (target, key) => {
        if (typeof key === "symbol" || !Object.hasOwn(target, key)) return target[key];
        read.add(key);
        return this.wrap(target[key], `${path}/${key}`);
      },
      // A map of free keys, such as labels, is walked.
      ownKeys: (target) => {
        for (const key of Object.keys(target)) read.add(key);
        return Reflect.ownKeys(target);
      },
    });
  }
}

function wrongWith(object) {
  const name = `${object.kind} ${object.metadata?.name}`;
  const Model = modelOf(object);
  if (!Model) return [`${name}: ${object.apiVersion} has no such kind`];
  const watch = new Watch();
  return [
    ...complaints(Model, watch.wrap(object)).map((said) => `${name}: ${said}`),
    ...watch.unread().map((field) => `${name}: ${field} is unknown`),
  ];
}

const objects = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(objects.flatMap(wrongWith), null, 1));
