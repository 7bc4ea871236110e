// Defines the functions that the engine calls inside of a context. Their text is compiled there before any
// block, so they use only built-ins of the context and their arguments.
import {
  type Bag,
  type Codec,
  createArguments,
  createDecoder,
  createEncoder,
  createTextual,
} from './data.ts';
import { type AskHost, addGlobals, addLocales, scriptOf } from './globals.ts';

type Guarded = (work: () => string) => string;

/** Calls into a context. Each returns a letter and a text: `u v o` value, `p` promise, `e` error, `m` unknown. */
export interface Calls {
  /** Adds the function of a block. `free` is the JSON of the names that follow its arguments. */
  add(id: number, run: unknown, free: string): unknown;
  /** Starts the list of names for the next call. */
  open(): void;
  name(name: string, text: string): void;
  /** Adds a function of the script to that list. `unit` 0 means that the host is called. */
  define(
    job: number,
    name: string,
    unit: number,
    arity: number,
    shape: string,
    parts: string,
  ): void;
  fire(timer: number): string;
  answer(ticket: number, text: string): string;
}

/** Creates a function that catches every exception of `work`. Without memory even its description can fail. */
function createGuarded(): Guarded {
  const { stringify } = JSON;
  const String_ = String;
  const describe = (error: unknown): string => {
    let message = 'the thrown value has no description';
    let name = '';
    try {
      const isObject = typeof error === 'object' && error !== null;
      // The message is read once, because a getter could return a different value each time.
      const text = isObject ? (error as Bag)['message'] : undefined;
      if (typeof text === 'string') name = String_((error as Bag)['name']);
      message = typeof text === 'string' ? text : String_(error);
    } catch {}
    return `e${stringify({ __proto__: null, message, name })}`;
  };
  return (work) => {
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
}

/** Creates the calls of functions of the script. A call that does not end at once returns a promise. */
function createCallbacks(ask: AskHost, { encode, decode }: Codec) {
  type Waiting = { resolve(value: unknown): void; reject(error: unknown): void };
  const { apply } = Reflect;
  const [Error_, Promise_] = [Error, Promise];
  const { slice } = String.prototype;
  const waiting = { __proto__: null } as unknown as Record<number, Waiting>;
  const open = (text: string): unknown => {
    if (text[0] === 'e') throw new Error_(apply(slice, text, [1]));
    return decode(text);
  };
  return {
    call(job: number, name: string, args: unknown[]): unknown {
      const answer = ask('call', job, `${name}\n${encode(args)}`);
      if (answer[0] !== 'p') return open(answer);
      const ticket = +apply(slice, answer, [1]);
      return new Promise_((resolve, reject) => {
        waiting[ticket] = { resolve, reject };
      });
    },
    answer(ticket: number, text: string): string {
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

interface Inner {
  readonly ask: AskHost;
  readonly codec: Codec;
  readonly guarded: Guarded;
  readonly argumentsOf: ReturnType<typeof createArguments>;
  readonly callbacks: ReturnType<typeof createCallbacks>;
  fire(timer: number): void;
}

function createCalls({ ask, codec, guarded, argumentsOf, callbacks, fire }: Inner): Calls {
  type Unit = { run: (...args: unknown[]) => unknown; free: string[] };
  const { apply } = Reflect;
  const { parse } = JSON;
  const { freeze, values } = Object;
  const { encode, decode } = codec;
  /** Freezes `mx` and `ctx`, which blocks may only read. */
  const frozen = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    for (const part of values(value)) frozen(part);
    return freeze(value);
  };
  const bare = (): Bag => ({ __proto__: null });
  const units = bare() as Record<number, Unit>;
  let named = bare();
  const finish = async (job: number, value: unknown): Promise<void> => {
    let answer: string;
    try {
      answer = encode(await value);
    } catch (error) {
      answer = guarded(() => {
        throw error;
      });
    }
    ask('settle', job, answer);
  };
  return {
    add(id, run, free) {
      const unit = { run: run as Unit['run'], free: parse(free) as string[] };
      units[id] = unit;
      return (job: number, shape: string, ...parts: unknown[]): string =>
        guarded(() => {
          const value = apply(unit.run, undefined, argumentsOf(shape, parts, unit.free, named));
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
      named[name] = frozen(decode(text));
    },
    define(job, name, id, arity, shape, parts) {
      const [unit, all] = [units[id], named];
      if (!unit) {
        named[name] = (...args: unknown[]) => callbacks.call(job, name, args);
        return;
      }
      named[name] = (...args: unknown[]) => {
        const { run, free } = unit;
        const captured = argumentsOf(shape, parse(parts) as unknown[], free, all);
        const allValues = {
          __proto__: null,
          length: arity + captured.length,
        } as unknown as unknown[];
        for (let at = 0; at < arity; at++) allValues[at] = args[at];
        for (let at = 0; at < captured.length; at++) allValues[arity + at] = captured[at];
        return apply(run, undefined, allValues);
      };
    },
    fire: (timer) =>
      guarded(() => {
        fire(timer);
        return 'u';
      }),
    answer: callbacks.answer,
  };
}

const PARTS = {
  createEncoder,
  createDecoder,
  createTextual,
  createGuarded,
  createArguments,
  createCallbacks,
  createCalls,
  addGlobals,
  addLocales,
};

function assemble(parts: typeof PARTS) {
  return (host: AskHost): Calls => {
    const { parse, stringify } = JSON;
    // The text is passed as JSON, because the border of the engine ends a text at NUL and cannot represent
    // half of a surrogate pair.
    const ask: AskHost = (kind, id, text) => parse(host(kind, id, stringify(text))) as string;
    const codec = {
      encode: parts.createEncoder(),
      decode: parts.createDecoder(),
      textual: parts.createTextual(),
    };
    parts.addLocales(ask);
    return parts.createCalls({
      ask,
      codec,
      guarded: parts.createGuarded(),
      argumentsOf: parts.createArguments(codec),
      callbacks: parts.createCallbacks(ask, codec),
      fire: parts.addGlobals(ask, codec.encode),
    });
  };
}

/** Returns a script whose value is a function from the host's `ask` to the `Calls`. */
export const insideText = (): string => scriptOf(assemble, PARTS);
