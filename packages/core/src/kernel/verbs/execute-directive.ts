// Executes a directive, which returns its content to the caller. The kernel starts no thread and calls no
// model. Inputs are checked and filled into the texts, and the answer states whether a harness can run
// the directive as a thread.
import {
  didYouMean,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  setOwn,
} from '../../base/index.ts';
import { type Input, makeValue, mergeAll, type Value } from '../../flow/index.ts';
import {
  canSpawn,
  type Directive,
  fillDirectiveText,
  type Item,
  type Library,
  resolveExtends,
} from '../../items/index.ts';
import type { Authority, ExecuteRequest, Kind, MadeCall, PreparedCall } from '../call.ts';
import { leftOut } from '../rights/authority.ts';
import {
  checkSignature,
  type ItemMarks,
  isSigned,
  shownDiagnostics,
} from '../rights/item-marks.ts';
import { misfit, type ValidationError, validate } from '../tool/parameters.ts';
import { riskTier } from '../tool/plan.ts';
import { givenValue, inputsOf } from '../tool/run-tool.ts';
import { MODIFY_ACTIONS, type Modifier } from './modify.ts';

type DirectiveItem = Extract<Item, { kind: 'directive' }>;

/** Converts text inputs of a command line or a model to the declared type. */
function coerce(value: Json, type: string): Json {
  if (typeof value !== 'string') return value;
  if ((type === 'integer' || type === 'number') && /^-?\d+(\.\d+)?$/.test(value))
    return Number(value);
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

/** Returns the declared inputs with defaults. Fails with `invalid_input` and lists every problem. */
export function checkInputs(directive: Directive, values: JsonObject): Outcome<JsonObject> {
  const inputs: JsonObject = {};
  const errors: ValidationError[] = [];
  const names = directive.inputs.map(({ name }) => name);
  for (const name of Object.keys(values)) {
    if (names.includes(name)) continue;
    const hint = didYouMean(name, names) ?? `declared: ${names.join(', ') || 'none'}`;
    const where =
      name === 'inputs' ? '; pass inputs in `parameters` or in `inputs`, not in both' : '';
    errors.push({ field: name, error: `unknown input; ${hint}${where}` });
  }
  for (const input of directive.inputs) {
    const value = getOwn(values, input.name) ?? input.default;
    if (value === undefined) {
      const error = `required, but missing: ${input.description || input.type}`;
      if (input.required) errors.push({ field: input.name, error });
      continue;
    }
    const typed = coerce(value, input.type);
    const wrong = input.type === 'any' ? [] : validate(typed, { type: input.type });
    for (const { error } of wrong) errors.push({ field: input.name, error });
    setOwn(inputs, input.name, typed);
  }
  if (errors.length === 0) return ok(inputs);
  const missing = errors.filter(({ error }) => error.startsWith('required'));
  return misfit(`inputs of directive \`${directive.name}\``, errors, {
    missing_inputs: missing.map(({ field }) => field),
  });
}

/** Fills the inputs into every string of a part. */
function fillAll(part: Json, inputs: JsonObject): Json {
  if (typeof part === 'string') return fillDirectiveText(part, inputs);
  if (Array.isArray(part)) return part.map((item) => fillAll(item, inputs));
  if (part === null || typeof part !== 'object') return part;
  const filled: JsonObject = {};
  for (const [key, value] of Object.entries(part)) setOwn(filled, key, fillAll(value, inputs));
  return filled;
}

const PLACES = new Set(['line', 'column', 'places']);

/** Returns the texts of `template`, `example` and `raw` by tag, without filling in inputs. */
function wordForWord({ opaque }: Directive): JsonObject {
  const texts: Record<string, string[]> = {};
  for (const { tag, text } of opaque) (texts[tag] ??= []).push(text);
  return texts;
}

const FILLED = ['description', 'process', 'context', 'success_criteria', 'deviation_rules'];

/** Fills these inputs into the texts of a directive's form. Unknown names stay as written. */
export function fillForm(form: JsonObject, inputs: JsonObject): JsonObject {
  const filled: JsonObject = { ...form };
  for (const part of FILLED) filled[part] = fillAll(form[part] ?? null, inputs);
  return filled;
}

/** Returns the directive for a model: the task and its bounds, without locations and file paths. */
export function readyForm(directive: Directive, inputs: JsonObject): JsonObject {
  const form = {
    name: directive.name,
    version: directive.version,
    description: directive.description,
    inputs,
    process: directive.process,
    context: directive.context,
    outputs: directive.outputs,
    success_criteria: directive.success_criteria,
    deviation_rules: directive.deviation_rules ?? null,
    ...wordForWord(directive),
    permissions: directive.permissions ?? null,
    limits: directive.limits ?? null,
    model: directive.model ?? null,
  };
  // The copy through JSON has no undefined and no shared objects. Locations in the file are of no use to
  // a model.
  const plain = JSON.parse(
    JSON.stringify(form, (key, value: Json) => (PLACES.has(key) ? undefined : value)),
  ) as JsonObject;
  return fillForm(plain, inputs);
}

/** Returns the answer, with the next step that this caller can take. */
function readyAnswer(
  directive: Directive,
  inputs: JsonObject,
  { authority, caller }: MadeCall,
): JsonObject {
  const { can_spawn_thread, missing } = canSpawn(directive);
  const ready = { status: 'ready', directive: readyForm(directive, inputs) };
  if (!can_spawn_thread) {
    const message = `follow the process here; it cannot run as a thread: it has no ${missing.join(', ')}`;
    return { ...ready, can_spawn_thread, missing_for_thread: [...missing], message };
  }
  if (!authority.holds('spawn.thread').ok) {
    const message = 'follow the process here; you have no `spawn.thread` to run it as a thread';
    return { ...ready, can_spawn_thread: false, message };
  }
  const echo = caller.surface === 'mcp' ? { inputs } : {};
  const parameters = JSON.stringify({ directive_name: directive.name, ...echo });
  return {
    ...ready,
    can_spawn_thread,
    spawn_instructions: `to run it as its own thread: execute tool threads/thread_directive with ${parameters}`,
    message: 'follow the process here, or spawn it as a thread with its own limits and permissions',
  };
}

/** Checks declared outputs. Undeclared ones are returned under `extra`. An agent has a schema for all of them. */
export function checkOutputs(directive: Directive, values: JsonObject): Outcome<JsonObject> {
  const whole = directive.agent?.output;
  if (whole) {
    const wrong = validate(values, whole);
    return wrong.length > 0 ? misfit(`outputs of \`${directive.name}\``, wrong) : ok(values);
  }
  const outputs: JsonObject = {};
  const extra: JsonObject = {};
  const errors: ValidationError[] = [];
  for (const [name, value] of Object.entries(values)) {
    const declared = directive.outputs.find((output) => output.name === name);
    if (!declared) {
      setOwn(extra, name, value);
      continue;
    }
    const schema: JsonObject = { type: declared.type };
    if (declared.enum) schema.enum = [...declared.enum];
    for (const { error } of validate(value, schema)) errors.push({ field: name, error });
    setOwn(outputs, name, value);
  }
  for (const { name, required } of directive.outputs) {
    if (required && !Object.hasOwn(values, name)) {
      errors.push({ field: name, error: 'required, but missing' });
    }
  }
  if (errors.length > 0) return misfit(`outputs of \`${directive.name}\``, errors);
  return ok({ ...outputs, ...(Object.keys(extra).length > 0 ? { extra } : {}) });
}

/** A directive, and every item that it consists of: its own file and those that it extends. */
interface Loaded {
  item: DirectiveItem;
  directive: Directive;
  items: readonly DirectiveItem[];
}

/** Returns the inputs that the guards passed on, under their original names. */
function passedOn(inputs: readonly Input[], values: readonly Value[]): JsonObject {
  const passed: JsonObject = {};
  for (const [at, { name }] of inputs.entries()) setOwn(passed, name, values[at]?.data ?? null);
  return passed;
}

/**
 * `parameters: {inputs: {…}}` means the inputs inside, each with the marks of the whole. A directive
 * that declares an input `inputs` gets the object itself.
 */
function unwrapped(request: ExecuteRequest, { inputs: declared }: Directive): ExecuteRequest {
  const { inputs, ...others } = request.parameters ?? {};
  const isOwn = declared.some(({ name }) => name === 'inputs');
  if (isOwn || !isObject(inputs) || Object.keys(others).length > 0) return request;
  const whole = givenValue(request, 'inputs');
  if (!whole) return { ...request, parameters: inputs };
  const { descriptor } = whole.meta;
  const values = Object.entries(inputs).map(([name, value]) => [
    name,
    makeValue(value, { descriptor }),
  ]);
  return { ...request, parameters: inputs, values: Object.fromEntries(values) };
}

export function directiveKind(library: Library, modify: Modifier, marks: ItemMarks): Kind {
  function load(id: string): Outcome<Loaded> {
    const resolved = library.find('directive', id);
    if (!resolved.ok) return resolved;
    const item = resolved.output;
    const items = [item];
    const below = (name: string): Directive | undefined => {
      const other = library.find('directive', name);
      if (!other.ok) return undefined;
      items.push(other.output);
      return other.output.directive;
    };
    const directive = item.directive && resolveExtends(item.directive, below);
    for (const each of items) {
      const signature = checkSignature(each);
      if (!signature.ok) return signature;
    }
    if (directive) return ok({ item, directive, items });
    return fail('invalid_item', `directive \`${item.id}\` has errors`, {
      diagnostics: shownDiagnostics(library, item.diagnostics),
    });
  }

  function gate({ item, items }: Loaded, authority: Authority): Outcome<null> {
    if (!authority.sees('directive', item.category, item.id)) {
      const message = `directive \`${item.id}\` is not among those this thread may use`;
      return leftOut(authority, 'directive', item, message);
    }
    const allowed = authority.allowsDirective(items.every((each) => isSigned(each.signature)));
    return allowed.ok ? authority.check({ capability: 'kernel.execute' }) : allowed;
  }

  function run(original: ExecuteRequest, loaded: Loaded): Outcome<PreparedCall> {
    const { item, directive, items } = loaded;
    const request = unwrapped(original, directive);
    const checked = checkInputs(directive, request.parameters ?? {});
    if (!checked.ok) return checked;
    const inputs = inputsOf(request, checked.output);
    return ok({
      op: {
        type: 'directive',
        name: item.id,
        opLabels: ['op:directive', `op:directive:${item.id}`],
        tier: riskTier(['kernel.execute'], 'read', library.capabilities().catalog),
      },
      inputs,
      gate: (authority) => gate(loaded, authority),
      body(values, call) {
        const again = checkInputs(directive, passedOn(inputs, values));
        if (!again.ok) return again;
        const descriptor = mergeAll(items.map((each) => marks.of(each)));
        return ok(makeValue(readyAnswer(directive, again.output, call), { descriptor }));
      },
    });
  }

  function giveBack(request: ExecuteRequest, { directive }: Loaded): PreparedCall {
    const inputs = inputsOf(request, request.parameters ?? {});
    return {
      op: { type: 'return', name: directive.name, opLabels: ['op:return'] },
      inputs,
      body(values) {
        const outputs = checkOutputs(directive, passedOn(inputs, values));
        if (!outputs.ok) return outputs;
        return ok(
          makeValue({ status: 'returned', directive: directive.name, outputs: outputs.output }),
        );
      },
    };
  }

  return {
    name: 'directive',
    actions: ['run', 'return', ...MODIFY_ACTIONS],
    prepare(request) {
      const { action } = request;
      if (action !== 'run' && action !== 'return') return modify(request);
      const loaded = load(request.item_id);
      if (!loaded.ok) return loaded;
      return action === 'run' ? run(request, loaded.output) : ok(giveBack(request, loaded.output));
    },
  };
}
