// What a directive is checked against, as a port: the library answers it, tests write it by hand.
import type { Outcome, Severity } from '../../base/index.ts';
import type { CapabilityCatalog } from '../../trust/index.ts';
import type { Source } from '../item-kinds.ts';
import type { Directive } from './directive.ts';

/** The other items and data a directive is checked against. */
export interface DirectiveWorld {
  directive(name: string): Directive | undefined;
  tool(id: string): Outcome<{ id: string; requires: readonly string[] }>;
  directiveNames(): Iterable<string>;
  toolIds(): Iterable<string>;
  readonly catalog: CapabilityCatalog;
  readonly source: Source;
  /** Signed core items alone may hold system-only capabilities. */
  readonly signedCore: boolean;
  readonly currencies: readonly string[];
  readonly tiers: readonly string[];
}

export type Report = (
  severity: Severity,
  code: string,
  place: string | { line: number; column: number },
  message: string,
  hint?: string,
) => void;
