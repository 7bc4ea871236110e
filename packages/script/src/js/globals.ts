// Adds globals of js blocks that the engine lacks: console, timers, URLs, encodings, clones and locales. The
// text of these functions is compiled inside of the context, so they use only what exists there and `ask`.
// The functions at the end run in the host. They convert text to text and keep no state.
import type { Bag, Codec } from './data.ts';

/** Asks the host. A question is a kind, a number and a text. The answer is a text. */
export type AskHost = (kind: string, id: number, text: string) => string;

/** Adds globals to the global object. Returns the function that fires a timer. */
export function addGlobals(ask: AskHost, encode: Codec['encode']): (timer: number) => void {
  type Timer = { run: () => void; args: unknown[]; repeats: boolean };
  const { apply, defineProperty } = Reflect;
  // oxlint-disable-next-line no-eval -- of the context, for our own text
  const evaluate = eval;
  const [Error_, String_, TypeError_] = [Error, String, TypeError];
  const { slice } = String.prototype;
  const hidden = { writable: true, configurable: true, enumerable: false };
  const put = (key: string, value: unknown): void => {
    defineProperty(globalThis, key, { __proto__: null, ...hidden, value } as PropertyDescriptor);
  };

  const textOf = (value: unknown): string => {
    if (typeof value === 'function') return '[function]';
    if (typeof value !== 'object' || value === null || value instanceof Error_) {
      return String_(value);
    }
    try {
      return apply(slice, encode(value), [1]);
    } catch {
      return String_(value);
    }
  };
  const printer =
    (kind: string) =>
    (...values: unknown[]): void => {
      let line = '';
      for (let at = 0; at < values.length; at++) line += (at === 0 ? '' : ' ') + textOf(values[at]);
      ask(kind, 0, line);
    };
  const [log, warn] = [printer('log'), printer('warn')];
  put('console', { log, info: log, debug: log, warn, error: warn, trace: warn });

  const timers = { __proto__: null } as unknown as Record<number, Timer>;
  let lastId = 0;
  const start =
    (repeats: boolean) =>
    (run: unknown, ms: unknown, ...args: unknown[]): number => {
      if (typeof run !== 'function') throw new TypeError_('a timer needs a function');
      const id = ++lastId;
      const refused = ask('timer', id, `${repeats ? 'r' : 'o'}${+(ms as number) || 0}`);
      if (refused !== '') throw new Error_(refused);
      timers[id] = { run: run as () => void, args, repeats };
      return id;
    };
  const stop = (id: unknown): void => {
    if (typeof id !== 'number' || !timers[id]) return;
    delete timers[id];
    ask('clear', id, '');
  };
  put('setTimeout', start(false));
  put('setInterval', start(true));
  put('clearTimeout', stop);
  put('clearInterval', stop);
  put('queueMicrotask', async (run: () => void) => {
    await Promise.resolve();
    run();
  });
  put('global', globalThis);
  Reflect.deleteProperty(globalThis, 'SharedArrayBuffer');

  // Most blocks never use these, so they are compiled at their first use.
  let further: Bag | undefined;
  for (const key of ['URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'structuredClone']) {
    const get = (): unknown => {
      further ??= (evaluate(ask('further', 0, '')) as (ask: AskHost) => Bag)(ask);
      put(key, further[key]);
      return further[key];
    };
    const set = (value: unknown): void => put(key, value);
    defineProperty(globalThis, key, { configurable: true, enumerable: false, get, set });
  }
  return (id) => {
    const timer = timers[id];
    if (!timer) return;
    if (!timer.repeats) delete timers[id];
    apply(timer.run, undefined, timer.args);
  };
}

/** Adds the functions that depend on a locale. The host computes them, because the engine has no locale data. */
export function addLocales(ask: AskHost): void {
  const { stringify } = JSON;
  const [String_, Number_, RangeError_] = [String, Number, RangeError];
  const { slice } = String.prototype;
  const { apply, defineProperty } = Reflect;
  const askHost = (what: string, subject: unknown, locales: unknown, options: unknown): string => {
    const answer = ask(what, 0, stringify([subject, locales, options]));
    if (answer[0] === 'e') throw new RangeError_(apply(slice, answer, [1]));
    return apply(slice, answer, [1]);
  };
  const put = (target: object, key: string, value: unknown): void => {
    defineProperty(target, key, { value, writable: true, configurable: true, enumerable: false });
  };
  put(
    String.prototype,
    'localeCompare',
    function (this: unknown, other: unknown, locales: unknown, options: unknown): number {
      const pair = [String_(this), String_(other)];
      return Number_(askHost('localeCompare', pair, locales, options));
    },
  );
  const methods = ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString'];
  for (const key of methods) {
    put(Date.prototype, key, function (this: unknown, locales: unknown, options: unknown): string {
      return askHost(key, Number_(this), locales, options);
    });
  }
  put(Number.prototype, 'toLocaleString', function (this: unknown, l: unknown, o: unknown): string {
    return askHost('numberToLocale', String_(this), l, o);
  });
}

type ParamsClass = new (init?: unknown, tell?: (text: string) => void) => unknown;

function createUrl(ask: AskHost, Params: ParamsClass): unknown {
  const { parse, stringify } = JSON;
  const TypeError_ = TypeError;
  const textOf: (value: unknown) => string = String;
  const make = (words: unknown[]): Bag | undefined => {
    const answer = ask('url', 0, stringify(words));
    return answer === '' ? undefined : (parse(answer) as Bag);
  };
  const parsedUrl = (address: unknown, base: unknown): Bag | undefined =>
    make(base === undefined ? [textOf(address)] : [textOf(address), textOf(base)]);
  return class URL {
    #parts: Bag;
    #params: unknown;
    constructor(address: unknown, base?: unknown) {
      const parts = parsedUrl(address, base);
      if (!parts) throw new TypeError_('Invalid URL');
      this.#parts = parts;
    }
    static canParse(address: unknown, base?: unknown): boolean {
      return parsedUrl(address, base) !== undefined;
    }
    static parse(address: unknown, base?: unknown): URL | null {
      return URL.canParse(address, base) ? new URL(address, base) : null;
    }
    static {
      const keys = 'href protocol username password host hostname port pathname search hash origin';
      for (const key of keys.split(' ')) {
        Reflect.defineProperty(URL.prototype, key, {
          configurable: true,
          enumerable: true,
          get(this: URL) {
            return this.#parts[key];
          },
          set(this: URL, value: unknown) {
            if (key !== 'origin') this.#write(key, value);
          },
        });
      }
    }
    get searchParams(): unknown {
      this.#params ??= new Params(this.#parts['search'], (text) => {
        this.#write('search', text, true);
      });
      return this.#params;
    }
    #write(key: string, value: unknown, isOwn = false): void {
      const parts = make([this.#parts['href'], null, key, textOf(value)]);
      if (parts) this.#parts = parts;
      else if (key === 'href') throw new TypeError_('Invalid URL');
      if (!isOwn) this.#params = undefined;
    }
    toString(): string {
      return this.#parts['href'] as string;
    }
    toJSON(): string {
      return this.toString();
    }
  };
}

function createParams(ask: AskHost): ParamsClass {
  type Pairs = [string, string][];
  const { parse, stringify } = JSON;
  const textOf: (value: unknown) => string = String;
  /** Asks the host for the result of a method and for the pairs after it. */
  const askParams = (pairs: unknown, method: string, words: unknown[]): [Pairs, unknown] =>
    parse(ask('params', 0, stringify([pairs, method, words.map(textOf)]))) as [Pairs, unknown];
  const read = (source: unknown): unknown => {
    if (typeof source !== 'object' || source === null) return textOf(source ?? '');
    const pairs = Symbol.iterator in source ? [...(source as Pairs)] : Object.entries(source);
    return pairs.map((pair) => [textOf(pair[0]), textOf(pair[1])]);
  };
  return class URLSearchParams {
    #pairs: Pairs;
    #tell: ((text: string) => void) | undefined;
    constructor(init?: unknown, tell?: (text: string) => void) {
      [this.#pairs] = askParams(read(init), 'toString', []);
      this.#tell = tell;
    }
    static {
      const put = (key: string, value: unknown): void => {
        const hidden = { writable: true, configurable: true, enumerable: false };
        Reflect.defineProperty(URLSearchParams.prototype, key, { ...hidden, value });
      };
      for (const key of ['get', 'getAll', 'has', 'toString']) {
        put(key, function (this: URLSearchParams, ...words: unknown[]) {
          return askParams(this.#pairs, key, words)[1];
        });
      }
      for (const key of ['append', 'set', 'delete', 'sort']) {
        put(key, function (this: URLSearchParams, ...words: unknown[]) {
          [this.#pairs] = askParams(this.#pairs, key, words);
          this.#tell?.(textOf(this));
        });
      }
    }
    get size(): number {
      return this.#pairs.length;
    }
    forEach(run: (value: string, key: string, all: unknown) => void): void {
      for (const [key, value] of this.#pairs) run(value, key, this);
    }
    keys(): Iterator<string> {
      return this.#pairs.map(([key]) => key)[Symbol.iterator]();
    }
    values(): Iterator<string> {
      return this.#pairs.map(([, value]) => value)[Symbol.iterator]();
    }
    entries(): Iterator<[string, string]> {
      return this.#pairs.map(([key, value]): [string, string] => [key, value])[Symbol.iterator]();
    }
    [Symbol.iterator](): Iterator<[string, string]> {
      return this.entries();
    }
  };
}

function createEncodings(ask: AskHost): Bag {
  const { fromCharCode } = String;
  const bytesOf = (source: unknown): Uint8Array => {
    if (source === undefined) return new Uint8Array(0);
    if (source instanceof ArrayBuffer) return new Uint8Array(source);
    const { buffer, byteOffset, byteLength } = source as Uint8Array;
    return new Uint8Array(buffer, byteOffset, byteLength);
  };
  class TextEncoder {
    get encoding(): string {
      return 'utf-8';
    }
    encode(text: unknown = ''): Uint8Array {
      const bytes = ask('utf8', 0, String(text));
      const result = new Uint8Array(bytes.length);
      for (let at = 0; at < bytes.length; at++) result[at] = bytes.charCodeAt(at);
      return result;
    }
  }
  class TextDecoder {
    #name: string;
    constructor(name: unknown = 'utf-8', options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
      const { fatal, ignoreBOM } = options;
      this.#name = `${name as string}\n${fatal ? 'f' : ''}${ignoreBOM ? 'b' : ''}`;
      this.decode();
    }
    get encoding(): string {
      return (this.#name.split('\n')[0] as string).toLowerCase();
    }
    decode(bytesSource?: unknown): string {
      const bytes = bytesOf(bytesSource);
      let text = '';
      for (let at = 0; at < bytes.length; at += 4096) {
        text += fromCharCode(...bytes.subarray(at, at + 4096));
      }
      const answer = ask('decode', 0, `${this.#name}\n${text}`);
      if (answer[0] === 'e') throw new TypeError(answer.slice(1));
      return answer.slice(1);
    }
  }
  return { TextEncoder, TextDecoder };
}

function createClone() {
  const Error_ = Error;
  const copyOf = (
    value: object,
    clone: (part: unknown) => unknown,
    clones: Map<object, unknown>,
  ): unknown => {
    const keep = <T>(copy: T): T => {
      clones.set(value, copy);
      return copy;
    };
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value) && 'slice' in value) return keep((value as Uint8Array).slice());
    if (value instanceof Map) {
      const map = keep(new Map<unknown, unknown>());
      for (const [key, part] of value) map.set(clone(key), clone(part));
      return map;
    }
    if (value instanceof Set) {
      const set = keep(new Set<unknown>());
      for (const part of value) set.add(clone(part));
      return set;
    }
    const target = keep(
      Array.isArray(value) ? [] : value instanceof Error_ ? new Error_(value.message) : {},
    ) as Bag;
    if (Array.isArray(value)) target['length'] = value.length;
    if (value instanceof Error_) target['name'] = value.name;
    for (const [key, part] of Object.entries(value)) target[key] = clone(part);
    return target;
  };
  return function structuredClone(value: unknown): unknown {
    const allClones = new Map<object, unknown>();
    const clone = (part: unknown): unknown => {
      if (typeof part === 'function' || typeof part === 'symbol') {
        throw new Error_(`a ${typeof part} could not be cloned`);
      }
      if (typeof part !== 'object' || part === null) return part;
      return allClones.has(part) ? allClones.get(part) : copyOf(part, clone, allClones);
    };
    return clone(value);
  };
}

const FURTHER = { createUrl, createParams, createEncodings, createClone };

function assemble(parts: typeof FURTHER) {
  return (ask: AskHost): Bag => {
    const URLSearchParams = parts.createParams(ask);
    return {
      URLSearchParams,
      structuredClone: parts.createClone(),
      URL: parts.createUrl(ask, URLSearchParams),
      ...parts.createEncodings(ask),
    };
  };
}

type GlobalFunction = (...args: never[]) => unknown;

export function scriptOf(
  assemble: GlobalFunction,
  parts: Readonly<Record<string, GlobalFunction>>,
): string {
  const texts = Object.entries(parts).map(([name, part]) => `${name}: ${part.toString()}`);
  return `'use strict';(${assemble.toString()})({ ${texts.join(',\n')} })`;
}

const URL_PARTS = 'href protocol username password host hostname port pathname search hash'.split(
  ' ',
);

/** Reads `[address]`, `[address, base]` or `[address, null, part, value]`. Returns '' if the URL is invalid. */
function url(text: string): string {
  const [address, base, part, value] = JSON.parse(text) as (string | null | undefined)[];
  if (!URL.canParse(address ?? '', base ?? undefined)) return '';
  const result = new URL(address ?? '', base ?? undefined);
  if (part === 'href' && !URL.canParse(value ?? '')) return '';
  if (part && URL_PARTS.includes(part)) Reflect.set(result, part, value ?? '');
  const parts: Bag = {};
  for (const name of [...URL_PARTS, 'origin']) parts[name] = Reflect.get(result, name);
  return JSON.stringify(parts);
}

const PARAMS = ['get', 'getAll', 'has', 'toString', 'append', 'set', 'delete', 'sort'];

/** Reads `[text or pairs, method, words]`. Returns the pairs after the method, and its result. */
function params(text: string): string {
  const [pairs, method, words] = JSON.parse(text) as [string, string, string[]];
  const result = new URLSearchParams(pairs);
  const run: unknown = PARAMS.includes(method) ? result[method as 'get'] : undefined;
  const value: unknown = typeof run === 'function' ? Reflect.apply(run, result, words) : null;
  return JSON.stringify([[...result], value ?? null]);
}

/** Decodes bytes. The lines of `text` are the name of the encoding, the flags, and the bytes as characters. */
function decode(text: string): string {
  const [name = '', flags = ''] = text.split('\n', 2);
  const bytes = Buffer.from(text.slice(name.length + flags.length + 2), 'latin1');
  try {
    const options = { fatal: flags.includes('f'), ignoreBOM: flags.includes('b') };
    return `v${new TextDecoder(name, options).decode(bytes)}`;
  } catch {
    return `ethe bytes or the encoding \`${name}\` are not valid`;
  }
}

type Options = Intl.NumberFormatOptions & Intl.DateTimeFormatOptions & Intl.CollatorOptions;
type Locale = string | string[] | undefined;

/** Reads `[value, locales, options]`. Returns `v` and the result, or `e` and the reason of the failure. */
const localized =
  (work: (value: unknown, locale: Locale, options: Options) => string | number) =>
  (text: string): string => {
    const [value, locales, options] = JSON.parse(text) as [unknown, unknown, Options | null];
    const isLocale = typeof locales === 'string' || Array.isArray(locales);
    try {
      return `v${work(value, isLocale ? (locales as Locale) : undefined, options ?? {})}`;
    } catch (error) {
      return `e${error instanceof Error ? error.message : ''}`;
    }
  };

const DATES = ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString'] as const;

/** Answers of the host by kind of question. */
export const ANSWERS: ReadonlyMap<string, (text: string) => string> = new Map([
  ['url', url],
  ['params', params],
  ['decode', decode],
  ['utf8', (text) => Buffer.from(text, 'utf8').toString('latin1')],
  ['further', () => scriptOf(assemble, FURTHER)],
  ...DATES.map((key): [string, (text: string) => string] => [
    key,
    localized((ms, locale, options) => new Date(Number(ms ?? NaN))[key](locale, options)),
  ]),
  ['numberToLocale', localized((text, at, options) => Number(text).toLocaleString(at, options))],
  [
    'localeCompare',
    localized((pair, locale, options) => {
      const [one, other] = Array.isArray(pair) ? pair.map(String) : [];
      return (one ?? '').localeCompare(other ?? '', locale, options);
    }),
  ],
]);
