// Where js blocks run: QuickJS, compiled to WebAssembly, in a memory of its own for every script. It is
// loaded when the first block runs.
//
// INVARIANT: code of a project never runs in this process's JavaScript, and nothing of this process is
// reachable from a block. There is one way out of a context, the function `ask`: a text, a number and a
// text go out, a text comes back. What comes out is read as data by someone who believes nothing of it.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { constants, createContext, Script } from 'node:vm';
import { fail, isObject, type Outcome, ok, plainText } from '@kernmantle/core/base';
import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core';
import { identifier, isArithmetic, readJsBody } from './block-body.ts';
import { type Calls, insideText } from './calls.ts';
import type { Part } from './data.ts';
import type { AskHost } from './globals.ts';

const PAGES = { initial: 256, maximum: 1024 };
export const MEMORY_MB = (PAGES.maximum * 64) / 1024;
/** Less than what the frames of the engine itself take of the process's stack. */
const MAX_STACK = 192 * 1024;
/** Jobs of promises between two looks at the clock. */
const JOBS = 1000;
const COMPILING_MS = 5000;

declare global {
  // Not among the types of Node.
  var WebAssembly: {
    Module: new (bytes: Uint8Array) => object;
    Memory: new (pages: typeof PAGES) => { readonly buffer: ArrayBuffer };
  };
}

/**
 * Optimising the engine takes more than most scripts do with it; a block that computes for a while still
 * gets there. V8 optimises a function when the code it has run is as long as a budget (bytes, set when a
 * module is compiled). A step of the engine's main loop counts as all of that loop, which is very long,
 * but never for more than a quarter of the budget at the time the loop itself is compiled.
 */
const setBudget = (bytes: number): void => setFlagsFromString(`--wasm-tiering-budget=${bytes}`);
const BUDGET = 1_000_000_000;
const BUDGET_OF_LOOP = 4096;

async function load() {
  setBudget(BUDGET);
  const wasm = createRequire(import.meta.url).resolve('@jitl/quickjs-wasmfile-release-sync/wasm');
  const [core, { default: found }, bytes] = await Promise.all([
    import('quickjs-emscripten-core'),
    import('@jitl/quickjs-wasmfile-release-sync'),
    readFile(wasm),
  ]);
  // Its types say that the module itself is one level further down, as it is for `require`.
  const variant = 'default' in found ? found.default : found;
  return { core, variant, wasmModule: new WebAssembly.Module(bytes) };
}

// Code only, the same for everybody; what a script has is made for it.
let loaded: ReturnType<typeof load> | undefined;

async function newMachine() {
  const { core, variant, wasmModule } = await (loaded ??= load());
  const wasmMemory = new WebAssembly.Memory(PAGES);
  // What the engine itself prints when it gives up is said by a fault.
  const emscriptenModule: object = { print() {}, printErr() {} };
  const own = core.newVariant(variant, { wasmModule, wasmMemory, emscriptenModule });
  const runtime = (await core.newQuickJSWASMModuleFromVariant(own)).newRuntime();
  runtime.setMaxStackSize(MAX_STACK);
  return { runtime, memory: wasmMemory };
}

/**
 * Runs `work` so that V8 ends it, whatever it does, when the time is over: the engine looks at the clock
 * only between steps of JavaScript, and one step may be a search in a very long text; with no memory left
 * it may not come back at all. Costs a thread for each entry. With `breaks`, Ctrl-C ends it, too.
 *
 * At the begin and at the end of an entry that breaks, Node has no listener for Ctrl-C: for a moment the
 * signal is lost or ends the process. A timer that fires a hundred times a second must not do that.
 */
function createWatch(): (work: () => void, timeout: number, breaks: boolean) => void {
  let current: (() => void) | undefined;
  const context = createContext(constants.DONT_CONTEXTIFY);
  Object.assign(context, { run: () => current?.() });
  const script = new Script('run()');
  return (work, timeout, breaks) => {
    const outer = current;
    current = work;
    const breakOnSigint = breaks && process.listenerCount('SIGINT') > 0;
    try {
      script.runInContext(context, { timeout, breakOnSigint, displayErrors: false });
    } finally {
      current = outer;
    }
  };
}

let watch: ReturnType<typeof createWatch> | undefined;
/** The engine itself ends in better order, so it goes first. */
const GRACE_MS = 200;

/** Why nothing more can be done in a context. */
export type Broken = 'time' | 'interrupt' | 'memory';

type Entered = { readonly said: string } | { readonly broken: Broken };

/** A block, compiled once for each text and set of names. */
export interface Unit {
  readonly id: number;
  /** Its function, and the one that wraps it (`createCalls`). */
  readonly run: QuickJSHandle;
  readonly call: QuickJSHandle;
  /** Parameters of the block itself; after them come the values of `free`. */
  readonly arity: number;
  /** Helpers, `mx` and `ctx`, as far as the block mentions them. */
  readonly free: readonly string[];
  /** With plain values for all parameters it cannot take long. */
  readonly isBrief: boolean;
}

export class JsContext {
  readonly vm: QuickJSContext;
  readonly memory: { readonly buffer: ArrayBuffer };
  /** The object of the `Calls`, and those that were taken from it. */
  readonly calls: QuickJSHandle;
  readonly taken = new Map<string, QuickJSHandle>();
  // By text, then by names: a block that runs again and again is found without building a long key.
  readonly units = new Map<string, Map<string, Outcome<Unit>>>();
  unitCount = 0;
  /** Entries inside of one another. */
  depth = 0;
  deadline = Infinity;
  broken: Broken | undefined;

  constructor(vm: QuickJSContext, memory: JsContext['memory'], calls: QuickJSHandle) {
    this.vm = vm;
    this.memory = memory;
    this.calls = calls;
  }
}

export async function openContext(ask: AskHost): Promise<JsContext> {
  const { runtime, memory } = await newMachine();
  const vm = runtime.newContext();
  const host = vm.newFunction('ask', (kind, id, text) => {
    const said: unknown = JSON.parse(vm.getString(text));
    const answer = ask(vm.getString(kind), vm.getNumber(id), String(said));
    return vm.newString(JSON.stringify(answer));
  });
  // Functions are compiled when they first run: the main loop now.
  setBudget(BUDGET_OF_LOOP);
  const evaluated = vm.evalCode(insideText(), 'inside.js');
  setBudget(BUDGET);
  const made = vm.unwrapResult(evaluated);
  const calls = vm.unwrapResult(vm.callFunction(made, vm.undefined, host));
  const js = new JsContext(vm, memory, calls);
  runtime.setInterruptHandler(() => {
    if (performance.now() > js.deadline) js.broken = 'time';
    return js.broken !== undefined;
  });
  return js;
}

/** All the memory that there may be has been taken. It never shrinks, and may stop growing before. */
export const isFull = ({ memory }: JsContext): boolean =>
  memory.buffer.byteLength > (PAGES.maximum - 64) * 65_536;

/** Not `instanceof`: the error belongs to the context of the watch. */
function whyEnded(error: unknown): Broken {
  const code = isObject(error) ? error['code'] : undefined;
  if (code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return 'time';
  // Everything else is a trap of WebAssembly, or no stack: the state inside is unknown.
  return code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? 'interrupt' : 'memory';
}

/** Promises go on inside of entries only, so every step has its time limit. */
function runPendingJobs(js: JsContext): void {
  const { runtime } = js.vm;
  while (js.broken === undefined && runtime.hasPendingJob()) {
    const done = runtime.executePendingJobs(JOBS);
    if (done.error) done.error.dispose();
    if (performance.now() > js.deadline) js.broken = 'time';
  }
}

/** What is outermost sets the time limit of all that is done inside of it. `breaks`: by Ctrl-C. */
export function within(js: JsContext, ms: number, work: () => string, breaks = false): Entered {
  if (js.depth === 0) return outermost(js, ms, work, breaks);
  js.depth += 1;
  try {
    return { said: work() };
  } finally {
    js.depth -= 1;
  }
}

function outermost(js: JsContext, ms: number, work: () => string, breaks: boolean): Entered {
  let said = '';
  const step = (): void => {
    said = work();
    runPendingJobs(js);
  };
  js.deadline = performance.now() + ms;
  js.depth = 1;
  try {
    watch ??= createWatch();
    watch(step, Math.ceil(ms) + GRACE_MS, breaks);
  } catch (error) {
    js.broken ??= whyEnded(error);
  } finally {
    js.depth = 0;
    js.deadline = Infinity;
  }
  if (said === 'm') js.broken ??= 'memory';
  return js.broken ? { broken: js.broken } : { said };
}

function apply({ vm }: JsContext, called: QuickJSHandle, parts: readonly Part[]) {
  const handles = parts.map((part) => {
    if (typeof part === 'number') return vm.newNumber(part);
    if (typeof part === 'string') return vm.newString(part);
    return part ? vm.true : vm.false;
  });
  const result = vm.callFunction(called, vm.undefined, handles);
  for (const handle of handles) handle.dispose();
  return result;
}

/** Calls a compiled block: a job, the shape of its arguments, and what they are made of. */
export function enter(js: JsContext, called: QuickJSHandle, parts: readonly Part[]): string {
  const result = apply(js, called, parts);
  const said = result.error ? 'm' : js.vm.getString(result.value);
  (result.error ?? result.value).dispose();
  return said;
}

/** The same for a block that is all operators: plain values in, one out, or undefined. */
export function enterPlain(js: JsContext, { run }: Unit, parts: readonly Part[]): Part | undefined {
  try {
    const result = apply(js, run, parts);
    const handle = result.error ?? result.value;
    const kind = result.error ? 'error' : js.vm.typeof(handle);
    const isText = kind === 'string';
    const value = isText ? js.vm.getString(handle) : js.vm.getNumber(handle);
    handle.dispose();
    return isText || kind === 'number' ? value : undefined;
  } catch (error) {
    js.broken ??= whyEnded(error);
    return undefined;
  }
}

function functionOf({ vm, calls, taken }: JsContext, name: keyof Calls): QuickJSHandle {
  const found = taken.get(name) ?? vm.getProp(calls, name);
  taken.set(name, found);
  return found;
}

export const callInside = (
  js: JsContext,
  name: Exclude<keyof Calls, 'add'>,
  parts: readonly Part[],
): string => enter(js, functionOf(js, name), parts);

/** Makes a function of the block; its parts have been parsed before, one by one. */
function compile(
  js: JsContext,
  id: number,
  code: string,
  names: readonly string[],
  free: readonly string[],
): Outcome<Pick<Unit, 'run' | 'call'>> {
  const { vm } = js;
  const run = vm.evalCode(`(function (${names.join(', ')}\n) {\n${code}\n})`, 'block.js');
  if (run.error) {
    // Something V8 could read and QuickJS cannot.
    const about: unknown = run.error.consume((error) => vm.dump(error));
    const message = isObject(about) ? about['message'] : about;
    return fail('invalid_input', `the js block does not parse: ${plainText(message)}`);
  }
  const [number, words] = [vm.newNumber(id), vm.newString(JSON.stringify(free))];
  const added = vm.callFunction(functionOf(js, 'add'), vm.undefined, number, run.value, words);
  for (const part of [number, words]) part.dispose();
  return added.error
    ? fail('internal_error', 'the js block could not be made ready')
    : ok({ run: run.value, call: added.value });
}

function makeUnit(
  js: JsContext,
  source: string,
  names: readonly string[],
  free: readonly string[],
): Outcome<Unit> {
  const all = [...names, ...free];
  const code = readJsBody(source, all);
  if (!code.ok) return code;
  const id = ++js.unitCount;
  const missing = fail('internal_error', 'the js block could not be compiled');
  let made = missing as ReturnType<typeof compile>;
  within(js, COMPILING_MS, () => {
    made = compile(js, id, code.output, all, free);
    return 'u';
  });
  if (!made.ok) return made;
  const isBrief = free.length === 0 && isArithmetic(source, names);
  return ok({ id, ...made.output, arity: names.length, free, isBrief });
}

/** `helpers`: names that the block may call. */
export function unitOf(
  js: JsContext,
  source: string,
  parameters: readonly string[],
  helpers: readonly string[],
): Outcome<Unit> {
  const same = js.units.get(source) ?? new Map<string, Outcome<Unit>>();
  const key = `${parameters.join(' ')}|${helpers.join(' ')}`;
  const known = same.get(key);
  if (known) return known;
  const names = parameters.map(identifier);
  const free = [...helpers, 'mx', 'ctx'].filter(
    (name) => source.includes(name) && !names.includes(name) && identifier(name) === name,
  );
  const made = makeUnit(js, source, names, free);
  js.units.set(source, same.set(key, made));
  return made;
}
