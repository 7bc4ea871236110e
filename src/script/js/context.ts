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
import type { QuickJSHandle } from 'quickjs-emscripten-core';
import { type Failure, fail, isObject, type Outcome, ok, plainText } from '../../base/index.ts';
import type { BlockCode } from './block-body.ts';
import { type Codec, createDecoder, createEncoder, createTextual } from './data.ts';
import { type AskHost, addGlobals, addLocales } from './globals.ts';

/** A compiled block: its function, and the one that wraps it (`createCalls`). */
export interface Entry {
  readonly run: QuickJSHandle;
  readonly call: QuickJSHandle;
}

const PAGES = { initial: 256, maximum: 1024 };
export const MEMORY_MB = (PAGES.maximum * 64) / 1024;
/** Less than what the frames of the engine itself take of the process's stack. */
const MAX_STACK = 192 * 1024;
/** Jobs of promises between two looks at the clock. */
const JOBS = 1000;

declare global {
  // Not among the types of Node.
  var WebAssembly: {
    Module: new (bytes: Uint8Array) => object;
    Memory: new (pages: typeof PAGES) => { readonly buffer: ArrayBuffer };
  };
}

type Bag = Record<PropertyKey, unknown>;

interface Calls {
  /** A function of a block, made callable; `free`: JSON of the names given after its arguments. */
  add(id: number, run: unknown, free: string): unknown;
  /** Begins the list of what a call is given by name. */
  open(): void;
  name(name: string, text: string): void;
  /** A function of the script; `unit` 0: called back. */
  define(job: number, name: string, unit: number, arity: number): void;
  fire(timer: number): string;
  answer(ticket: number, text: string): string;
}

/**
 * Compiled inside, before any block. What is called from outside answers a letter and a text: `u v o` a
 * value, `p` a promise of one, `e` what was thrown, `m` when not even that could be said.
 */
function createCalls(ask: AskHost, codec: Codec, fire: (timer: number) => void): Calls {
  type Run = (...args: unknown[]) => unknown;
  type Unit = { run: Run; free: string[] };
  type Waiting = { resolve(value: unknown): void; reject(error: unknown): void };
  const { apply } = Reflect;
  const { parse, stringify } = JSON;
  const [Error_, Promise_, String_] = [Error, Promise, String];
  const { slice } = String.prototype;
  const { encode, decode, textual } = codec;
  const bare = (): Bag => ({ __proto__: null });
  const units = bare() as Record<number, Unit>;
  const waiting = bare() as Record<number, Waiting>;
  let named = bare();

  const describe = (error: unknown): string => {
    let message = 'something was thrown that cannot be shown';
    let name = '';
    try {
      const isObject = typeof error === 'object' && error !== null;
      // Read once: it may be a getter that says something else each time.
      const said = isObject ? (error as Bag)['message'] : undefined;
      if (typeof said === 'string') name = String_((error as Bag)['name']);
      message = typeof said === 'string' ? said : String_(error);
    } catch {}
    return `e${stringify({ __proto__: null, message, name })}`;
  };
  /** Nothing leaves as an exception: with no memory left there may be no room to describe it. */
  const guarded = (work: () => string): string => {
    try {
      return work();
    } catch (error) {
      try {
        return describe(error);
      } catch {
        return 'm';
      }
    }
  };
  const finish = async (job: number, value: unknown): Promise<void> => {
    let answer: string;
    try {
      answer = encode(await value);
    } catch (error) {
      answer = guarded(() => describe(error));
    }
    ask('settle', job, answer);
  };
  /** `shape`: a letter for each argument, which says how many of `parts` it is made of and how. */
  const argumentsOf = (shape: string, parts: unknown[], free: string[]): unknown[] => {
    const args = { __proto__: null, length: shape.length + free.length } as unknown as unknown[];
    let next = 0;
    for (let at = 0; at < shape.length; at++) {
      const kind = shape[at];
      const part = parts[next++];
      if (kind === 'p') args[at] = part;
      else if (kind === 'd') args[at] = decode(part as string);
      else if (kind === 'k') {
        const text = parts[next++];
        args[at] = { text, data: decode(part as string), mx: decode(parts[next++] as string) };
      } else args[at] = textual(decode(part as string), parts[next++] as string, kind === 's');
    }
    for (let at = 0; at < free.length; at++) args[shape.length + at] = named[free[at] as string];
    return args;
  };
  const open = (text: string): unknown => {
    if (text[0] === 'e') throw new Error_(apply(slice, text, [1]));
    return decode(text);
  };
  const callBack = (job: number, name: string, args: unknown[]): unknown => {
    const answer = ask('call', job, `${name}\n${encode(args)}`);
    if (answer[0] !== 'p') return open(answer);
    const ticket = +apply(slice, answer, [1]);
    return new Promise_((resolve, reject) => {
      waiting[ticket] = { resolve, reject };
    });
  };
  return {
    add(id, run, free) {
      const unit = { run: run as Run, free: parse(free) as string[] };
      units[id] = unit;
      return (job: number, shape: string, ...parts: unknown[]): string =>
        guarded(() => {
          const value = apply(unit.run, undefined, argumentsOf(shape, parts, unit.free));
          if (typeof value !== 'object' || value === null) return encode(value);
          if (typeof (value as Bag)['then'] !== 'function') return encode(value);
          void finish(job, value);
          return 'p';
        });
    },
    open() {
      named = bare();
    },
    name(name, text) {
      named[name] = decode(text);
    },
    define(job, name, id, arity) {
      const [unit, all] = [units[id], named];
      if (!unit) {
        named[name] = (...args: unknown[]) => callBack(job, name, args);
        return;
      }
      named[name] = (...args: unknown[]) => {
        const { run, free } = unit;
        const given = { __proto__: null, length: arity + free.length } as unknown as unknown[];
        for (let at = 0; at < arity; at++) given[at] = args[at];
        for (let at = 0; at < free.length; at++) given[arity + at] = all[free[at] as string];
        return apply(run, undefined, given);
      };
    },
    fire: (timer) =>
      guarded(() => {
        fire(timer);
        return 'u';
      }),
    answer(ticket, text) {
      const promise = waiting[ticket];
      delete waiting[ticket];
      try {
        promise?.resolve(open(text));
      } catch (error) {
        promise?.reject(error);
      }
      return 'u';
    },
  };
}

const PARTS = { createEncoder, createDecoder, createTextual, addGlobals, addLocales, createCalls };

function assemble(parts: typeof PARTS) {
  return (host: AskHost): Calls => {
    const { parse, stringify } = JSON;
    // As JSON: the border cuts a text at its first NUL and has no word for half a character.
    const ask: AskHost = (kind, id, text) => parse(host(kind, id, stringify(text))) as string;
    const codec = {
      encode: parts.createEncoder(),
      decode: parts.createDecoder(),
      textual: parts.createTextual(),
    };
    parts.addLocales(ask);
    return parts.createCalls(ask, codec, parts.addGlobals(ask, codec.encode));
  };
}

function insideText(): string {
  const parts = Object.entries(PARTS).map(([name, part]) => `${name}: ${part.toString()}`);
  return `'use strict';(${assemble.toString()})({ ${parts.join(',\n')} })`;
}

// ---- the host

async function load() {
  // Optimising the engine takes more than most scripts do with it; a block that computes for a while
  // still gets there. Read when a module is compiled, and of no meaning to anything else.
  setFlagsFromString('--wasm-tiering-budget=1000000000');
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
 * Runs `work` so that V8 ends it, whatever it does, when the time is over or a person presses Ctrl-C:
 * the engine looks at the clock only between steps of JavaScript, and one step may be a search in a very
 * long text; with no memory left it may not come back at all. Costs a thread for each entry.
 */
function createWatch(): (work: () => void, timeout: number) => void {
  let current: (() => void) | undefined;
  const context = createContext(constants.DONT_CONTEXTIFY);
  const take = new Script('(run) => { globalThis.run = run }').runInContext(context) as (
    run: () => void,
  ) => void;
  take(() => current?.());
  const script = new Script('run()');
  return (work, timeout) => {
    const outer = current;
    current = work;
    const breakOnSigint = process.listenerCount('SIGINT') > 0;
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

export type Entered = { readonly said: string } | { readonly broken: Broken };

export interface JsContext {
  compile(code: BlockCode): Outcome<Entry>;
  /** What is outermost sets the time limit of all that is done inside of it. */
  within(ms: number, work: () => string): Entered;
  /** Calls a compiled block: a job, the shape of its arguments, and what they are made of. */
  enter(entry: Entry, parts: readonly Part[]): string;
  /** The same for a block that is all operators: plain values in, one out, or undefined. */
  enterPlain(entry: Entry, parts: readonly Part[]): Part | undefined;
  call(name: Exclude<keyof Calls, 'add'>, parts: readonly Part[]): string;
  isEntered(): boolean;
  /** All the memory that there may be has been taken. */
  isFull(): boolean;
}

export type Part = string | number | boolean;

const COMPILING_MS = 5000;

/** Something V8 could read and QuickJS cannot. */
function syntaxFault(about: unknown): Failure {
  const message = isObject(about) ? about['message'] : about;
  return fail('invalid_input', `the js block does not parse: ${plainText(message)}`);
}

/** Not `instanceof`: the error belongs to the context of the watch. */
function whyEnded(error: unknown): Broken {
  const code = isObject(error) ? error['code'] : undefined;
  if (code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return 'time';
  // Everything else is a trap of WebAssembly, or no stack: the state inside is unknown.
  return code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? 'interrupt' : 'memory';
}

export async function openContext(ask: AskHost): Promise<JsContext> {
  const { runtime, memory } = await newMachine();
  const context = runtime.newContext();
  let depth = 0;
  let deadline = Infinity;
  let broken: Broken | undefined;
  runtime.setInterruptHandler(() => {
    if (performance.now() > deadline) broken = 'time';
    return broken !== undefined;
  });

  const host = context.newFunction('ask', (kind, id, text) => {
    const said: unknown = JSON.parse(context.getString(text));
    const answer = ask(context.getString(kind), context.getNumber(id), String(said));
    return context.newString(JSON.stringify(answer));
  });
  const made = context.unwrapResult(context.evalCode(insideText(), 'inside.js'));
  const calls = context.unwrapResult(context.callFunction(made, context.undefined, host));
  const functions = new Map<string, QuickJSHandle>();
  const functionOf = (name: string): QuickJSHandle => {
    const known = functions.get(name);
    if (known) return known;
    const found = context.getProp(calls, name);
    functions.set(name, found);
    return found;
  };

  const handleOf = (part: Part): QuickJSHandle => {
    if (typeof part === 'number') return context.newNumber(part);
    if (typeof part === 'string') return context.newString(part);
    return part ? context.true : context.false;
  };
  function invoke(called: QuickJSHandle, parts: readonly Part[]): string {
    const handles = parts.map(handleOf);
    const result = context.callFunction(called, context.undefined, handles);
    for (const handle of handles) handle.dispose();
    if (result.error) {
      result.error.dispose();
      return 'm';
    }
    const said = context.getString(result.value);
    result.value.dispose();
    return said;
  }
  function plainOf({ run }: Entry, parts: readonly Part[]): Part | undefined {
    const handles = parts.map(handleOf);
    const result = context.callFunction(run, context.undefined, handles);
    for (const handle of handles) handle.dispose();
    const handle = result.error ?? result.value;
    const kind = result.error ? 'error' : context.typeof(handle);
    const isText = kind === 'string';
    const value = isText ? context.getString(handle) : context.getNumber(handle);
    handle.dispose();
    return isText || kind === 'number' ? value : undefined;
  }
  function enterPlain(entry: Entry, parts: readonly Part[]): Part | undefined {
    try {
      return plainOf(entry, parts);
    } catch (error) {
      broken ??= whyEnded(error);
      return undefined;
    }
  }
  /** Promises go on inside of entries only, so every step has its time limit. */
  function settle(): void {
    while (broken === undefined && runtime.hasPendingJob()) {
      const done = runtime.executePendingJobs(JOBS);
      if (done.error) done.error.dispose();
      if (performance.now() > deadline) broken = 'time';
    }
  }
  function outermost(ms: number, work: () => string): Entered {
    let said = '';
    const step = (): void => {
      said = work();
      settle();
    };
    deadline = performance.now() + ms;
    depth = 1;
    try {
      watch ??= createWatch();
      watch(step, Math.ceil(ms) + GRACE_MS);
    } catch (error) {
      broken ??= whyEnded(error);
    } finally {
      depth = 0;
      deadline = Infinity;
    }
    if (said === 'm') broken ??= 'memory';
    return broken ? { broken } : { said };
  }
  function within(ms: number, work: () => string): Entered {
    if (depth === 0) return outermost(ms, work);
    depth += 1;
    try {
      return { said: work() };
    } finally {
      depth -= 1;
    }
  }
  /** Makes a function of the block; its parts have been parsed before, one by one. */
  function compile({ id, code, names, free }: BlockCode): Outcome<Entry> {
    const run = context.evalCode(`(function (${names.join(', ')}\n) {\n${code}\n})`, 'block.js');
    if (run.error) return syntaxFault(run.error.consume((error) => context.dump(error)));
    const [number, words] = [context.newNumber(id), context.newString(JSON.stringify(free))];
    const parts = [number, run.value, words];
    const added = context.callFunction(functionOf('add'), context.undefined, parts);
    for (const part of [number, words]) part.dispose();
    return added.error
      ? fail('internal_error', 'the js block could not be made ready')
      : ok({ run: run.value, call: added.value });
  }

  return {
    compile(code) {
      let made: Outcome<Entry> = fail('internal_error', 'the js block could not be compiled');
      within(COMPILING_MS, () => {
        made = compile(code);
        return 'u';
      });
      return made;
    },
    within,
    enter: ({ call }, parts) => invoke(call, parts),
    enterPlain,
    call: (name, parts) => invoke(functionOf(name), parts),
    isEntered: () => depth > 0,
    // It never shrinks, and may stop growing a little before.
    isFull: () => memory.buffer.byteLength > (PAGES.maximum - 64) * 65_536,
  };
}
