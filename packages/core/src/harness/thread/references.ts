// Keeps untrusted data where a model cannot read it. The model sees a name (`$r3`) with the type and the size of the
// data. It writes the name where it needs the data, and the call gets the original value with its marks and facts.
// Names are numbered in the order in which data arrives, so a thread that resumes from its journal has the same
// names.
//
// INVARIANT: data with the label `untrusted` is never shown, at any depth. Names inside an inserted value are never
// resolved: `$r1` in an untrusted text is plain text.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import {
  addMarks,
  carries,
  type Descriptor,
  EMPTY,
  elementOf,
  LIMIT_NAMES,
  makeContainer,
  makeValue,
  mergeDescriptors,
  removeLabels,
  restoreFields,
  type Value,
  withOrigin,
} from '../../flow/index.ts';
import type { Display, KeptResult, Visible } from '../../journal/index.ts';
import { fillForm } from '../../kernel/index.ts';
import { fileKind } from '../../llm/index.ts';

export interface References extends Display {
  /**
   * Returns the model's value with each reference replaced by the original value, with its marks and facts. Inside
   * a longer text the text of the value is inserted. `own`: marks of the model's own text.
   */
  resolve(written: Json, own: Descriptor): Outcome<Value>;
  /** Returns all values that have a name, in order. */
  values(): readonly Value[];
  /** Large results by their hash. They are read from the store before a thread resumes. */
  readonly wholes: Map<string, Json>;
}

const isForeign = (marks: Descriptor): boolean => carries(marks, 'untrusted');

/** Returns the type and the sizes of a file. `undefined`: the data has not exactly the form of one. */
function fileShape(data: JsonObject): JsonObject | undefined {
  const { artifact, mime, bytes } = data;
  const kind = fileKind(plainText(mime ?? ''));
  const isFile = typeof artifact === 'string' && /^sha256:[0-9a-f]{64}$/.test(artifact);
  if (!isFile || !kind || typeof mime !== 'string') return undefined;
  const sizes = { bytes: bytes ?? null, ...pickNumbers(data, ['width', 'height', 'pages']) };
  return typeof bytes === 'number' ? { type: kind, mime, ...sizes } : undefined;
}

const pickNumbers = (data: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => (typeof data[name] === 'number' ? [[name, data[name]]] : [])),
  );

/** Returns the type and the size of the data, without its text. Names of fields are text too. */
export function shapeOf(data: Json): JsonObject {
  if (typeof data === 'string') return { type: 'text', characters: data.length };
  if (Array.isArray(data)) return { type: 'list', items: data.length };
  if (isObject(data))
    return fileShape(data) ?? { type: 'object', fields: Object.keys(data).length };
  return { type: data === null ? 'nothing' : typeof data };
}

/** Codes of kernmantle that a model can see. A tool can report other codes, which an attacker can have chosen. */
const CODES: ReadonlySet<string> = new Set([
  ...'approval_denied approval_expired cancelled config_invalid conflict http_error'.split(' '),
  ...'internal_error invalid_input loop_detected mcp_connection_failed needs_input'.split(' '),
  ...'network_error not_found outcome_unknown output_invalid permission_denied'.split(' '),
  ...'quota_exceeded rate_limit response_too_large sandbox_missing spawn_failed'.split(' '),
  ...'thread_ended timeout tool_chain_failed'.split(' '),
  ...LIMIT_NAMES.map((name) => `${name}_exceeded`),
]);
const SOME_FAILURE = 'tool_failed';

// A reference is written `$r3`, `$r3.field`, `$r3[0]` or `$r3["any name"]`; `$$r3` is the text `$r3`.
const STEP = String.raw`\.[\p{L}\p{N}_-]+|\[\d+\]|\["[^"\]]+"\]`;
const NAMED = new RegExp(String.raw`(\$?)\$r(\d+)(?![\p{L}\p{N}_])((?:${STEP})*)`, 'gu');
const STEPS = new RegExp(STEP, 'gu');

/** Deepest nesting of a call. No honest call reaches it. */
const MAX_DEPTH = 200;
/** Number of characters that one call can get by reference. */
const MAX_PUT_IN = 32_000_000;

const keyOf = (step: string): string =>
  step.startsWith('.') ? step.slice(1) : step.slice(1, -1).replace(/^"|"$/g, '');

const has = (data: Json, key: string): boolean =>
  Array.isArray(data)
    ? /^\d+$/.test(key) && Number(key) < data.length
    : Object.hasOwn(data as object, key);

/** Returns the value at the path, and the rest of the path after a text. `undefined`: the path does not exist. */
function follow(root: Value, path: string): { value: Value; rest: string } | undefined {
  let [value, rest] = [root, path];
  for (const [step] of path.matchAll(STEPS)) {
    if (typeof value.data !== 'object' || value.data === null) break;
    const key = keyOf(step);
    if (!has(value.data, key)) return undefined;
    value = elementOf(value, key);
    rest = rest.slice(step.length);
  }
  return { value, rest };
}

const refuse = (message: string): Outcome<never> => fail('invalid_input', message);

/** Resolves the references in one call and counts their characters. */
class Resolving {
  readonly #values: readonly Value[];
  #size = 0;
  /** True if the call contained a reference or an escape. */
  isOther = false;

  constructor(values: readonly Value[]) {
    this.#values = values;
  }

  #there(): string {
    const { length } = this.#values;
    if (length === 0) return 'none exists yet';
    return length === 1 ? '`$r1` exists' : `\`$r1\` to \`$r${length}\` exist`;
  }

  #find(number: string, path: string): Outcome<{ value: Value; rest: string }> {
    const root = this.#values[Number(number) - 1];
    const as = `write \`$$r${number}\` for the text itself`;
    if (!root) return refuse(`reference \`$r${number}\` not found; ${this.#there()}; ${as}`);
    const target = follow(root, path);
    if (!target) {
      const { type, ...size } = shapeOf(root.data);
      const much = Object.entries(size).map(([of, count]) => `${plainText(count)} ${of}`);
      return refuse(
        `\`$r${number}${path}\` not found; \`$r${number}\` is a value of type ${plainText(type)} with ${much.join('')}`,
      );
    }
    this.#size += target.value.text.length;
    return this.#size > MAX_PUT_IN
      ? refuse(`a call can get at most ${MAX_PUT_IN} characters by reference`)
      : ok(target);
  }

  #text(written: string): Outcome<Value> {
    let [text, marks, end] = ['', EMPTY, 0];
    for (const match of written.matchAll(NAMED)) {
      const [all, escape, number = '', path = ''] = match;
      this.isOther = true;
      text += written.slice(end, match.index);
      end = match.index + all.length;
      if (escape !== '') {
        text += all.slice(1);
        continue;
      }
      const resolved = this.#find(number, path);
      if (!resolved.ok) return resolved;
      const { value, rest } = resolved.output;
      if (all === written && rest === '') return ok(withOrigin(value, { reference: written }));
      text += value.text + rest;
      marks = mergeDescriptors(marks, value.meta.descriptor);
    }
    return ok(makeValue(text + written.slice(end), { descriptor: marks }));
  }

  value(written: Json, depth = 0): Outcome<Value> {
    if (depth > MAX_DEPTH) return refuse(`a call can have at most ${MAX_DEPTH} levels`);
    if (typeof written === 'string') return this.#text(written);
    if (typeof written !== 'object' || written === null) return ok(makeValue(written));
    const parts = new Map<string, Value>();
    for (const [name, item] of Object.entries(written)) {
      const part = this.value(item, depth + 1);
      if (!part.ok) return part;
      parts.set(name, part.output);
    }
    return ok(makeContainer(Array.isArray(written) ? [...parts.values()] : parts));
  }
}

const asObject = (value: Json | undefined): JsonObject => (isObject(value) ? value : {});

/** Creates the references of a thread. `shortened` returns the preview of a large result, and else `undefined`. */
export function createReferences(
  shortened: (content: Json) => Json | undefined = () => undefined,
): References {
  const values: Value[] = [];
  const wholes = new Map<string, Json>();

  function refer(value: Value): JsonObject {
    values.push(value);
    return { reference: `$r${values.length}`, ...shapeOf(value.data) };
  }

  function show(value: Value): Visible {
    const { data } = value;
    const { descriptor, elements } = value.meta;
    if (!isForeign(descriptor)) return { content: data, marks: descriptor };
    const around = elements && mergeDescriptors(elements.own, elements.shape);
    if (!around || isForeign(around) || typeof data !== 'object' || data === null) {
      return { content: refer(value), marks: EMPTY };
    }
    let marks = around;
    const part = (key: string | number): Json => {
      const item = show(elementOf(value, key));
      marks = mergeDescriptors(marks, item.marks);
      return item.content;
    };
    if (Array.isArray(data)) return { content: data.map((_, at) => part(at)), marks };
    const content: JsonObject = {};
    for (const name of Object.keys(data)) setOwn(content, name, part(name));
    return { content, marks };
  }

  /** Shows a failure with a code of kernmantle. Its detail becomes a reference, because it can quote any text. */
  function showFault(content: Json, descriptor: Descriptor): Visible {
    const error = getOwn(content, 'error');
    const code = plainText(getOwn(error, 'code') ?? '');
    const detail = makeValue(getOwn(error, 'detail') ?? content, { descriptor });
    const fault = { code: CODES.has(code) ? code : SOME_FAILURE, detail: refer(detail) };
    return { content: { ok: false, error: fault }, marks: EMPTY };
  }

  /** Shows the directive with names in place of the inputs that are not shown. */
  function showOpening(
    content: Json,
    marks: Descriptor,
    given: ReadonlyMap<string, Value>,
  ): Visible {
    const names: JsonObject = {};
    const inputs: JsonObject = { ...asObject(getOwn(getOwn(content, 'directive'), 'inputs')) };
    for (const [name, value] of given) {
      const reference = refer(value);
      setOwn(inputs, name, reference);
      setOwn(names, name, reference.reference ?? null);
    }
    const directive = fillForm({ ...asObject(getOwn(content, 'directive')), inputs }, names);
    const opening = { ...asObject(content), directive };
    return { content: opening, marks: removeLabels(marks, ['untrusted']) };
  }

  function result({ content, marks, isError, facts, given }: KeptResult, whole = content): Visible {
    if (given) return showOpening(content, marks, given);
    if (!isForeign(marks)) return { content, marks };
    if (isError) return showFault(whole, marks);
    const value = restoreFields(whole, marks, facts);
    const visible = show(value);
    const preview = shortened(visible.content);
    if (preview === undefined) return visible;
    const { artifact = null, bytes = null } = asObject(content);
    const message = 'shortened; all of it is in the reference';
    return { ...visible, content: { artifact, bytes, ...refer(value), preview, message } };
  }

  return {
    show,
    result,
    resolve(written, own) {
      const call = new Resolving(values);
      const resolved = call.value(written);
      if (!resolved.ok) return resolved;
      return ok(
        call.isOther ? addMarks(resolved.output, own) : makeValue(written, { descriptor: own }),
      );
    },
    values: () => values,
    wholes,
  };
}
