// Runs js blocks in QuickJS, compiled to WebAssembly, with a separate memory for every script. The engine
// is loaded at the first block. INVARIANT: code of a project never runs in this process's JavaScript, and a
// block can never reach an object of this process. The function `ask` is the only way out of a context: it
// passes two texts and a number and returns a text. The host reads everything that a block passes as
// untrusted data.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { constants, createContext, Script } from 'node:vm';
import { fail, isObject, type Outcome, ok, plainText } from '@kernmantle/core/base';
import type { QuickJSContext, QuickJSHandle } from 'quickjs-emscripten-core';
import { identifier, isArithmetic, readJsBody } from './block-body.ts';
import { type Calls, insideText } from './calls.ts';
import type { Primitive } from './data.ts';
import type { AskHost } from './globals.ts';

const PAGES = { initial: 256, maximum: 1024 };
export const MEMORY_MB = (PAGES.maximum * 64) / 1024;
/** Maximum stack of a block in bytes. It is smaller than the process's stack, which the engine's frames use. */
const MAX_STACK = 192 * 1024;
/** Number of promise jobs between two checks of the clock. */
const JOBS = 1000;
const COMPILING_MS = 5000;

declare global {
  // The types of Node do not declare `WebAssembly`.
  var WebAssembly: {
    Module: new (bytes: Uint8Array) => object;
    Memory: new (pages: typeof PAGES) => { readonly buffer: ArrayBuffer };
  };
}

/**
 * Optimising the engine takes longer than most scripts run. V8 optimises a function after it has run code
 * of a given length (a budget in bytes, set when a module is compiled). One step of the engine's main loop
 * counts as the whole loop, but at most as a quarter of the budget at the time when the loop is compiled. A
 * block that computes for a while still reaches the budget.
 */
const setBudget = (bytes: number): void => setFlagsFromString(`--wasm-tiering-budget=${bytes}`);
const BUDGET = 1_000_000_000;
const BUDGET_OF_LOOP = 4096;

async function load() {
  setBudget(BUDGET);
  const wasm = createRequire(import.meta.url).resolve('@jitl/quickjs-wasmfile-release-sync/wasm');
  const [core, { default: packageModule }, bytes] = await Promise.all([
    import('quickjs-emscripten-core'),
    import('@jitl/quickjs-wasmfile-release-sync'),
    readFile(wasm),
  ]);
  // The types describe the module as `require` returns it, one level deeper.
  const variant = 'default' in packageModule ? packageModule.default : packageModule;
  return { core, variant, wasmModule: new WebAssembly.Module(bytes) };
}

// The loaded code is shared by all scripts. Memory and runtime are created for each script.
let loaded: ReturnType<typeof load> | undefined;

async function newMachine() {
  const { core, variant, wasmModule } = await (loaded ??= load());
  const wasmMemory = new WebAssembly.Memory(PAGES);
  // The engine prints nothing, because a fault reports its failures.
  const emscriptenModule: object = { print() {}, printErr() {} };
  const own = core.newVariant(variant, { wasmModule, wasmMemory, emscriptenModule });
  const runtime = (await core.newQuickJSWASMModuleFromVariant(own)).newRuntime();
  runtime.setMaxStackSize(MAX_STACK);
  return { runtime, memory: wasmMemory };
}

/**
 * Runs `work` until the time limit. V8 stops it then even if the engine does not return, because the engine
 * checks the clock only between JavaScript steps and a step can be long. Each entry costs a thread. With
 * `breaks`, Ctrl-C stops it too. At the start and end of such an entry Node briefly has no listener for
 * Ctrl-C, so the signal can be lost or end the process. Therefore a frequent timer must not use it.
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
/** Milliseconds by which the engine's time limit is below V8's, because the engine stops more cleanly. */
const GRACE_MS = 200;

/** Reason why a context cannot be used any longer. */
export type Broken = 'time' | 'interrupt' | 'memory';

type Entered = { readonly said: string } | { readonly broken: Broken };

/** A compiled block. There is one for each source text and set of names. */
export interface Unit {
  readonly id: number;
  /** The function of the block, and its wrapper from `createCalls`. */
  readonly run: QuickJSHandle;
  readonly call: QuickJSHandle;
  /** Number of parameters. The values of `free` follow them. */
  readonly arity: number;
  /** Names of the helpers, and `mx` and `ctx`, that the block mentions. */
  readonly free: readonly string[];
  /** True if the block cannot take long with plain values. */
  readonly isBrief: boolean;
}

export class JsContext {
  readonly vm: QuickJSContext;
  readonly memory: { readonly buffer: ArrayBuffer };
  /** The `Calls` object of the context. `taken` has the functions that were read from it. */
  readonly calls: QuickJSHandle;
  readonly taken = new Map<string, QuickJSHandle>();
  // The index is by text and then by names, so that finding a repeated block needs no long key.
  readonly units = new Map<string, Map<string, Outcome<Unit>>>();
  unitCount = 0;
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
    const question: unknown = JSON.parse(vm.getString(text));
    const answer = ask(vm.getString(kind), vm.getNumber(id), String(question));
    return vm.newString(JSON.stringify(answer));
  });
  // V8 compiles a function at its first run, so the main loop is compiled here.
  setBudget(BUDGET_OF_LOOP);
  const evaluated = vm.evalCode(insideText(), 'inside.js');
  setBudget(BUDGET);
  const factory = vm.unwrapResult(evaluated);
  const calls = vm.unwrapResult(vm.callFunction(factory, vm.undefined, host));
  const js = new JsContext(vm, memory, calls);
  runtime.setInterruptHandler(() => {
    if (performance.now() > js.deadline) js.broken = 'time';
    return js.broken !== undefined;
  });
  return js;
}

/** True if the memory has nearly reached its maximum. It never shrinks. */
export const isFull = ({ memory }: JsContext): boolean =>
  memory.buffer.byteLength > (PAGES.maximum - 64) * 65_536;

/** Returns the reason of a failed entry. `instanceof` would not work, because the error is of another context. */
function brokenReason(error: unknown): Broken {
  const code = isObject(error) ? error['code'] : undefined;
  if (code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return 'time';
  // Any other error is a WebAssembly trap or a stack overflow, after which the state is unknown.
  return code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? 'interrupt' : 'memory';
}

/** Runs pending promise jobs. Promises continue only inside of entries, so every step has a time limit. */
function runPendingJobs(js: JsContext): void {
  const { runtime } = js.vm;
  while (js.broken === undefined && runtime.hasPendingJob()) {
    const done = runtime.executePendingJobs(JOBS);
    if (done.error) done.error.dispose();
    if (performance.now() > js.deadline) js.broken = 'time';
  }
}

/** Enters the context. The outermost entry sets the time limit for nested ones. `breaks` lets Ctrl-C stop it. */
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
  let answer = '';
  const step = (): void => {
    answer = work();
    runPendingJobs(js);
  };
  js.deadline = performance.now() + ms;
  js.depth = 1;
  try {
    watch ??= createWatch();
    watch(step, Math.ceil(ms) + GRACE_MS, breaks);
  } catch (error) {
    js.broken ??= brokenReason(error);
  } finally {
    js.depth = 0;
    js.deadline = Infinity;
  }
  if (answer === 'm') js.broken ??= 'memory';
  return js.broken ? { broken: js.broken } : { said: answer };
}

function apply({ vm }: JsContext, called: QuickJSHandle, parts: readonly Primitive[]) {
  const handles = parts.map((part) => {
    if (typeof part === 'number') return vm.newNumber(part);
    if (typeof part === 'string') return vm.newString(part);
    return part ? vm.true : vm.false;
  });
  const result = vm.callFunction(called, vm.undefined, handles);
  for (const handle of handles) handle.dispose();
  return result;
}

/** Calls a compiled block with a job number, the shape of its arguments and their parts. */
export function enter(js: JsContext, called: QuickJSHandle, parts: readonly Primitive[]): string {
  const result = apply(js, called, parts);
  const answer = result.error ? 'm' : js.vm.getString(result.value);
  (result.error ?? result.value).dispose();
  return answer;
}

/** Calls a block that has only operators. Returns its plain value; `undefined` if the result is of another kind. */
export function enterPlain(
  js: JsContext,
  { run }: Unit,
  parts: readonly Primitive[],
): Primitive | undefined {
  try {
    const result = apply(js, run, parts);
    const handle = result.error ?? result.value;
    const kind = result.error ? 'error' : js.vm.typeof(handle);
    const isText = kind === 'string';
    const value = isText ? js.vm.getString(handle) : js.vm.getNumber(handle);
    handle.dispose();
    return isText || kind === 'number' ? value : undefined;
  } catch (error) {
    js.broken ??= brokenReason(error);
    return undefined;
  }
}

function functionOf({ vm, calls, taken }: JsContext, name: keyof Calls): QuickJSHandle {
  const handle = taken.get(name) ?? vm.getProp(calls, name);
  taken.set(name, handle);
  return handle;
}

export const callInside = (
  js: JsContext,
  name: Exclude<keyof Calls, 'add'>,
  parts: readonly Primitive[],
): string => enter(js, functionOf(js, name), parts);

/** Compiles a block into a function. `code` was already parsed by V8. */
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
    // V8 accepts this syntax, but QuickJS does not.
    const about: unknown = run.error.consume((error) => vm.dump(error));
    const message = isObject(about) ? about['message'] : about;
    return fail('invalid_input', `the js block does not parse: ${plainText(message)}`);
  }
  const [number, words] = [vm.newNumber(id), vm.newString(JSON.stringify(free))];
  const added = vm.callFunction(functionOf(js, 'add'), vm.undefined, number, run.value, words);
  for (const part of [number, words]) part.dispose();
  return added.error
    ? fail('internal_error', 'the js block could not be prepared')
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
  let compiled = missing as ReturnType<typeof compile>;
  within(js, COMPILING_MS, () => {
    compiled = compile(js, id, code.output, all, free);
    return 'u';
  });
  if (!compiled.ok) return compiled;
  const isBrief = free.length === 0 && isArithmetic(source, names);
  return ok({ id, ...compiled.output, arity: names.length, free, isBrief });
}

/** Returns the compiled block. `helpers` has the names that it may call. */
export function unitOf(
  js: JsContext,
  source: string,
  parameters: readonly string[],
  helpers: readonly string[],
): Outcome<Unit> {
  const same = js.units.get(source) ?? new Map<string, Outcome<Unit>>();
  const key = `${parameters.join(' ')}|${helpers.join(' ')}`;
  const cached = same.get(key);
  if (cached) return cached;
  const names = parameters.map(identifier);
  const free = [...helpers, 'mx', 'ctx'].filter(
    (name) => source.includes(name) && !names.includes(name) && identifier(name) === name,
  );
  const unit = makeUnit(js, source, names, free);
  js.units.set(source, same.set(key, unit));
  return unit;
}
