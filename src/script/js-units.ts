// Compiled js blocks: once for each text and set of names, kept as long as their global object.
import { type Context, compileFunction } from 'node:vm';
import { type Outcome, ok } from '../base/index.ts';
import { readJsBody } from './js-body.ts';
import { isBounded } from './js-bounded.ts';

export interface Unit {
  readonly id: number;
  /** Parameters of the block itself; after them come the values of `free`. */
  readonly arity: number;
  /** Helpers, `mx` and `ctx`, as far as the block mentions them. */
  readonly free: readonly string[];
  readonly isBounded: boolean;
}

const RESERVED = new Set(
  (
    'break case catch class const continue debugger default delete do else enum export extends false ' +
    'finally for function if import in instanceof new null return super switch this throw true try ' +
    'typeof var void while with arguments eval let static yield await async'
  ).split(' '),
);

/** Script names may hold `-` or be words of JavaScript. */
export function identifier(name: string): string {
  const plain = name.replace(/[^\p{ID_Continue}$]/gu, '_').replace(/^(?=\d)/, '_');
  return RESERVED.has(plain) ? `${plain}_` : plain;
}

export function createUnits(context: Context, add: (unit: number, run: unknown) => void) {
  // By text, then by names: a block that runs again and again is found without building a long key.
  const units = new Map<string, Map<string, Outcome<Unit>>>();
  let count = 0;

  function compile(
    source: string,
    names: readonly string[],
    free: readonly string[],
  ): Outcome<Unit> {
    const body = readJsBody(source, [...names, ...free]);
    if (!body.ok) return body;
    const { code, tokens, isAsync } = body.output;
    const id = ++count;
    const parsingContext = context;
    add(id, compileFunction(code, [...names, ...free], { parsingContext }));
    const bounded = !isAsync && free.length === 0 && isBounded(source, tokens, names);
    return ok({ id, arity: names.length, free, isBounded: bounded });
  }

  return {
    /** `helpers`: names that the block may call. */
    get(source: string, parameters: readonly string[], helpers: readonly string[]): Outcome<Unit> {
      const same = units.get(source) ?? new Map<string, Outcome<Unit>>();
      const key = `${parameters.join(' ')}|${helpers.join(' ')}`;
      const known = same.get(key);
      if (known) return known;
      const names = parameters.map(identifier);
      const free = [...helpers, 'mx', 'ctx'].filter(
        (name) => source.includes(name) && !names.includes(name) && identifier(name) === name,
      );
      const made = compile(source, names, free);
      units.set(source, same.set(key, made));
      return made;
    },
  };
}

export type Units = ReturnType<typeof createUnits>;
