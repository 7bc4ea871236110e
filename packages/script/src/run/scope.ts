// Stores names with their values. A scope is a map with a parent. Only `+=` and a repeated `let` change an entry.
import type { Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';

type BindingKind = 'var' | 'exe' | 'let' | 'parameter' | 'loop' | 'import' | 'ambient';

interface BoundName {
  value: Value;
  readonly kind: BindingKind;
  /** True for a parameter without an argument. In text it stays unchanged; elsewhere it is undefined. */
  readonly isMissing: boolean;
  /** Location of the binding as `file:line`, for errors that name both locations. */
  readonly place: string;
}

/** Kind of a scope. `file` has the names of a file. `arm` is the block of a `when` arm, where `let` may hide names. */
export type ScopeKind = 'file' | 'function' | 'block' | 'arm' | 'branch';

export class VariableScope {
  readonly kind: ScopeKind;
  readonly parent: VariableScope | undefined;
  readonly #cells = new Map<string, BoundName>();

  constructor(kind: ScopeKind, parent: VariableScope | undefined) {
    this.kind = kind;
    this.parent = parent;
  }

  find(name: string): BoundName | undefined {
    return this.#cells.get(name) ?? this.parent?.find(name);
  }

  own(name: string): BoundName | undefined {
    return this.#cells.get(name);
  }

  names(): string[] {
    return [...this.#cells.keys()];
  }

  bind(name: string, kind: BindingKind, value: Value, place = '', isMissing = false): void {
    this.#cells.set(name, { value, kind, isMissing, place });
  }

  /** Binds a name of `var`, `exe` or an import. Fails with `invalid_input` if it exists. */
  define(name: string, kind: BindingKind, value: Value, place: string): void {
    const taken = this.#cells.get(name);
    if (taken) {
      raise('invalid_input', `\`@${name}\` is already defined at ${taken.place}`, {
        name,
        hint: 'use another name, or `+=` to add to it',
      });
    }
    this.bind(name, kind, value, place);
  }

  /** Binds a name of `let`. Except in an arm, it fails with `invalid_input` if it hides a variable or function. */
  let(name: string, value: Value, place: string): void {
    const isOwn = this.kind === 'arm' || this.#cells.has(name);
    const outer = isOwn ? undefined : this.parent?.find(name);
    if (outer && outer.kind !== 'import' && outer.kind !== 'ambient' && outer.kind !== 'loop') {
      raise('invalid_input', `\`let @${name}\` would hide the \`@${name}\` of ${outer.place}`, {
        name,
        hint: 'use another name',
      });
    }
    this.bind(name, 'let', value, place);
  }

  /** Returns the entry that `+=` changes. Fails in a parallel branch if the name belongs to the code outside. */
  rebindable(name: string): BoundName {
    const own = this.#cells.get(name);
    if (own) return own;
    if (this.kind === 'branch' && this.parent?.find(name)) {
      const message = `\`@${name}\` is shared by parallel branches and cannot be changed here`;
      const hint = 'let the branch return its part and combine the results';
      return raise('invalid_input', message, { name, hint });
    }
    if (this.parent) return this.parent.rebindable(name);
    return raise('not_found', `\`@${name}\` is not defined, so nothing can be added to it`, {
      name,
    });
  }
}
