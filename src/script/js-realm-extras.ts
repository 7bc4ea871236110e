// `URL`, `TextEncoder` and friends inside the realm of js blocks, compiled when one is first used.
// Addresses and encodings are worked out by the host, on text.
import type { AskHost } from './js-realm-globals.ts';

type Bag = Record<PropertyKey, unknown>;

type ParamsClass = new (given?: unknown, tell?: (text: string) => void) => unknown;

export function createUrl(ask: AskHost, Params: ParamsClass): unknown {
  const { parse, stringify } = JSON;
  const TypeError_ = TypeError;
  const textOf: (value: unknown) => string = String;
  const make = (words: unknown[]): Bag | undefined => {
    const answer = ask('url', 0, stringify(words));
    return answer === '' ? undefined : (parse(answer) as Bag);
  };
  class URL {
    #parts: Bag;
    #params: unknown;
    constructor(address: unknown, base?: unknown) {
      const parts = make(base === undefined ? [textOf(address)] : [textOf(address), textOf(base)]);
      if (!parts) throw new TypeError_('Invalid URL');
      this.#parts = parts;
    }
    static canParse(address: unknown, base?: unknown): boolean {
      return (
        make(base === undefined ? [textOf(address)] : [textOf(address), textOf(base)]) !== undefined
      );
    }
    static parse(address: unknown, base?: unknown): URL | null {
      return URL.canParse(address, base) ? new URL(address, base) : null;
    }
    get searchParams(): unknown {
      this.#params ??= new Params(this.read('search'), (text) => {
        this.write('search', text, true);
      });
      return this.#params;
    }
    read(key: string): unknown {
      return this.#parts[key];
    }
    write(key: string, value: unknown, isOwn = false): void {
      const parts = make([this.#parts['href'], null, key, String(value)]);
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
  }
  const keys = 'href protocol username password host hostname port pathname search hash origin';
  for (const key of keys.split(' ')) {
    Reflect.defineProperty(URL.prototype, key, {
      configurable: true,
      enumerable: true,
      get(this: URL) {
        return this.read(key);
      },
      set(this: URL, value: unknown) {
        if (key !== 'origin') this.write(key, value);
      },
    });
  }
  const methods = URL.prototype as unknown as Bag;
  const { read, write } = URL.prototype;
  // The two are ways in for the accessors above, not methods of an address.
  for (const [key, value] of Object.entries({ read, write })) {
    Reflect.defineProperty(methods, key, { value, enumerable: false });
  }
  return URL;
}

export function createParams(): ParamsClass {
  const textOf: (value: unknown) => string = String;
  const decode = (text: string): string => {
    const spaced = text.replaceAll('+', ' ');
    try {
      return decodeURIComponent(spaced);
    } catch {
      return spaced;
    }
  };
  const encode = (text: string): string =>
    encodeURIComponent(text)
      .replaceAll('%20', '+')
      .replace(/[!'()~]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
  const read = (given: unknown): [string, string][] => {
    if (given === undefined || given === null) return [];
    if (typeof given === 'object') {
      const pairs =
        Symbol.iterator in given ? [...(given as [string, string][])] : Object.entries(given);
      return pairs.map(([key, value]) => [String(key), String(value)]);
    }
    const text = textOf(given).replace(/^\?/, '');
    return text === ''
      ? []
      : text.split('&').map((pair) => {
          const at = pair.indexOf('=');
          return at < 0
            ? [decode(pair), '']
            : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
        });
  };
  return class URLSearchParams {
    #pairs: [string, string][];
    #tell: ((text: string) => void) | undefined;
    constructor(given?: unknown, tell?: (text: string) => void) {
      this.#pairs = read(given);
      this.#tell = tell;
    }
    get size(): number {
      return this.#pairs.length;
    }
    append(key: unknown, value: unknown): void {
      this.#change([...this.#pairs, [String(key), String(value)]]);
    }
    set(key: unknown, value: unknown): void {
      const at = this.#pairs.findIndex(([name]) => name === String(key));
      if (at < 0) return this.append(key, value);
      const kept = this.#pairs.filter(([name], index) => index <= at || name !== String(key));
      this.#change(kept.map((pair, index) => (index === at ? [pair[0], String(value)] : pair)));
    }
    delete(key: unknown): void {
      this.#change(this.#pairs.filter(([name]) => name !== String(key)));
    }
    get(key: unknown): string | null {
      return this.#pairs.find(([name]) => name === String(key))?.[1] ?? null;
    }
    getAll(key: unknown): string[] {
      return this.#pairs.filter(([name]) => name === String(key)).map(([, value]) => value);
    }
    has(key: unknown): boolean {
      return this.#pairs.some(([name]) => name === String(key));
    }
    sort(): void {
      this.#change([...this.#pairs].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
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
    toString(): string {
      return this.#pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
    }
    #change(pairs: [string, string][]): void {
      this.#pairs = pairs;
      this.#tell?.(this.toString());
    }
  };
}

export function createEncodings(ask: AskHost): Bag {
  const { fromCharCode } = String;
  const bytesOf = (given: unknown): Uint8Array => {
    if (given === undefined) return new Uint8Array(0);
    if (given instanceof ArrayBuffer) return new Uint8Array(given);
    const { buffer, byteOffset, byteLength } = given as Uint8Array;
    return new Uint8Array(buffer, byteOffset, byteLength);
  };
  class TextEncoder {
    get encoding(): string {
      return 'utf-8';
    }
    encode(text: unknown = ''): Uint8Array {
      const bytes = ask('utf8', 0, String(text));
      const made = new Uint8Array(bytes.length);
      for (let at = 0; at < bytes.length; at++) made[at] = bytes.charCodeAt(at);
      return made;
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
    decode(given?: unknown): string {
      const bytes = bytesOf(given);
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

export function createClone() {
  const Error_ = Error;
  const copyOf = (
    value: object,
    clone: (part: unknown) => unknown,
    seen: Map<object, unknown>,
  ): unknown => {
    const keep = <T>(made: T): T => {
      seen.set(value, made);
      return made;
    };
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value) && 'slice' in value) return keep((value as Uint8Array).slice());
    if (value instanceof Map) {
      const made = keep(new Map<unknown, unknown>());
      for (const [key, part] of value) made.set(clone(key), clone(part));
      return made;
    }
    if (value instanceof Set) {
      const made = keep(new Set<unknown>());
      for (const part of value) made.add(clone(part));
      return made;
    }
    const made = keep(
      Array.isArray(value) ? [] : value instanceof Error_ ? new Error_(value.message) : {},
    ) as Bag;
    if (Array.isArray(value)) made['length'] = value.length;
    if (value instanceof Error_) made['name'] = value.name;
    for (const [key, part] of Object.entries(value)) made[key] = clone(part);
    return made;
  };
  return function structuredClone(value: unknown): unknown {
    const seen = new Map<object, unknown>();
    const clone = (part: unknown): unknown => {
      if (typeof part === 'function' || typeof part === 'symbol') {
        throw new Error_(`a ${typeof part} could not be cloned`);
      }
      if (typeof part !== 'object' || part === null) return part;
      return seen.has(part) ? seen.get(part) : copyOf(part, clone, seen);
    };
    return clone(value);
  };
}

const PARTS = { createUrl, createParams, createEncodings, createClone };

function assemble(parts: typeof PARTS) {
  return (ask: AskHost): Bag => {
    const URLSearchParams = parts.createParams();
    const structuredClone = parts.createClone();
    return {
      URLSearchParams,
      structuredClone,
      URL: parts.createUrl(ask, URLSearchParams),
      ...parts.createEncodings(ask),
    };
  };
}

/** A script whose value is a function that makes the further globals. */
export function extrasText(): string {
  const parts = Object.entries(PARTS).map(([name, part]) => `${name}: ${part.toString()}`);
  return `'use strict';(${assemble.toString()})({ ${parts.join(',\n')} })`;
}
