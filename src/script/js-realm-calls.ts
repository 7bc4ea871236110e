// How the host makes the realm of js blocks do something: it prepares a piece of work, then enters.
import type { AskHost, RealmGlobals } from './js-realm-globals.ts';
import type { RealmCodec } from './js-realm-values.ts';

type Bag = Record<PropertyKey, unknown>;

/** What the host may call. Arguments and results are primitive, apart from functions of the realm. */
export interface RealmCalls {
  /** A new call of the compiled function `unit`; `give` and `giveHelper` add its arguments. */
  open(job: number, unit: number): void;
  give(kind: string, text: string | number | boolean, own: string, mx: string): void;
  /** A function of the script; `unit` -1: called back. `free`: JSON of names given after arguments. */
  define(name: string, unit: number, arity: number, free: string): void;
  giveNamed(name: string): void;
  /** What `enter` is to do: `call`, `timer`, `answer`, or nothing. */
  prepare(what: string, id: number, text: string): void;
  /** Status letter and text: `u v o` a value, `p` a promise of one, `e` what was thrown. */
  enter(): string;
  addUnit(unit: number, run: unknown): void;
}

export function createHelpers(ask: AskHost, { encode, decode }: RealmCodec) {
  type Waiting = { resolve(value: unknown): void; reject(error: unknown): void };
  const { apply } = Reflect;
  const { get, set, delete: remove } = Map.prototype;
  const { slice } = String.prototype;
  const { parse } = JSON;
  const [Error_, Promise_] = [Error, Promise];
  const waiting = new Map<number, Waiting>();
  /** What came back from the host: data, or the message of a failure. */
  const open = (text: string): unknown => {
    if (text[0] === 'e') throw new Error_(apply(slice, text, [1]));
    return decode(text);
  };
  const callBack = (job: number, name: string, args: unknown[]): unknown => {
    const answer = ask('call', job, `${name}\n${encode(args)}`);
    if (answer[0] !== 'p') return open(answer);
    const ticket = +apply(slice, answer, [1]);
    return new Promise_((resolve, reject) => {
      apply(set, waiting, [ticket, { resolve, reject }]);
    });
  };
  return {
    /** `named` holds everything a call may be given by name. */
    make(
      job: number,
      named: Bag,
      name: string,
      run: unknown,
      arity: number,
      free: string,
    ): unknown {
      if (run === undefined) return (...args: unknown[]) => callBack(job, name, args);
      const words = parse(free) as string[];
      return (...args: unknown[]) => {
        const all = { __proto__: null, length: arity + words.length } as unknown as Bag;
        for (let at = 0; at < arity; at++) all[at] = args[at];
        for (let at = 0; at < words.length; at++) all[arity + at] = named[words[at] as string];
        return apply(run as () => unknown, undefined, all as unknown as unknown[]);
      };
    },
    answer(ticket: number, text: string): void {
      const promise = apply(get, waiting, [ticket]) as Waiting | undefined;
      if (!promise) return;
      apply(remove, waiting, [ticket]);
      try {
        promise.resolve(open(text));
      } catch (error) {
        promise.reject(error);
      }
    },
  };
}

export function createCalls(
  ask: AskHost,
  { encode, decode, textual }: RealmCodec,
  helpers: ReturnType<typeof createHelpers>,
  fire: RealmGlobals['fire'],
): RealmCalls {
  type Job = { id: number; unit: number; named: Bag; args: Bag & { length: number } };
  const { apply } = Reflect;
  const { get, set } = Map.prototype;
  const { stringify } = JSON;
  const String_ = String;
  const units = new Map<number, unknown>();
  const bare = (): Bag => ({ __proto__: null });
  let job: Job = { id: 0, unit: 0, named: bare(), args: { ...bare(), length: 0 } };
  let next = { what: '', id: 0, text: '' };

  const describe = (error: unknown): string => {
    const about = bare();
    try {
      const given = error as Bag | null;
      const isError = typeof given === 'object' && typeof given?.['message'] === 'string';
      about['message'] = isError ? given?.['message'] : String_(error);
      about['name'] = isError ? String_(given?.['name']) : '';
    } catch {
      about['message'] = 'something was thrown that cannot be shown';
    }
    return `e${stringify(about)}`;
  };
  const finish = async (id: number, value: unknown): Promise<void> => {
    let answer: string;
    try {
      answer = encode(await value);
    } catch (error) {
      answer = describe(error);
    }
    ask('settle', id, answer);
  };
  const call = (): string => {
    const { id, unit, args } = job;
    const run = apply(get, units, [unit]) as () => unknown;
    const value = apply(run, undefined, args as unknown as unknown[]);
    const waits =
      typeof value === 'object' && value !== null && typeof (value as Bag)['then'] === 'function';
    if (!waits) return encode(value);
    void finish(id, value);
    return 'p';
  };
  const push = (value: unknown): void => {
    job.args[job.args.length] = value;
    job.args.length += 1;
  };
  return {
    open(id, unit) {
      const args = { __proto__: null, length: 0 } as unknown as Job['args'];
      job = { id, unit, named: bare(), args };
    },
    give(kind, text, own, mx) {
      if (kind === 'plain') push(text);
      else if (kind === 'named') job.named[own] = decode(text as string);
      else if (kind === 'kept') push({ text: own, data: decode(text as string), mx: decode(mx) });
      else if (kind === 'data') push(decode(text as string));
      else push(textual(decode(text as string), own, kind === 'stage'));
    },
    define(name, unit, arity, free) {
      const run = unit < 0 ? undefined : apply(get, units, [unit]);
      job.named[name] = helpers.make(job.id, job.named, name, run, arity, free);
    },
    giveNamed: (name) => push(job.named[name]),
    prepare(what, id, text) {
      next = { what, id, text };
    },
    enter() {
      const { what, id, text } = next;
      next = { what: '', id: 0, text: '' };
      try {
        if (what === 'call') return call();
        if (what === 'timer') fire(id);
        if (what === 'answer') helpers.answer(id, text);
        return 'u';
      } catch (error) {
        return describe(error);
      }
    },
    addUnit(unit, run) {
      apply(set, units, [unit, run]);
    },
  };
}
