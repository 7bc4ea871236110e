import type { Diagnostic } from '../base/index.ts';
import type { Directive } from './directive/directive.ts';
import type { Exposed } from './expose.ts';
import type { ItemFacts, ItemKind, Source } from './item-kinds.ts';
import type { Tool } from './tool/tool.ts';

/**
 * - `bundle`: shipped with the package and as it was built
 * - `signed`: by a key that is trusted for it
 * - `unsigned`: no signature
 * - `changed`: not what was signed (or, in the bundle, not what was built)
 * - `untrusted`: by a key that is unknown, revoked, expired or out of its scope
 */
export interface SignatureState {
  state: 'bundle' | 'signed' | 'unsigned' | 'changed' | 'untrusted';
  key?: string;
  created?: string;
  reason?: string;
}

/**
 * An item. Its parts are computed when they are first read. An item is immutable; a changed file gives a
 * new one.
 */
export interface ItemBase extends Readonly<ItemFacts> {
  readonly id: string;
  readonly source: Source;
  /** Name of the installed bundle. Absent for other levels. */
  readonly package?: string;
  readonly file: string;
  /** Judged at every read, because a key may have been revoked. */
  readonly signature: SignatureState;
  /** Findings about the file alone. With an error the item cannot be used. */
  readonly diagnostics: readonly Diagnostic[];
  /** Items with the same id that this one hides. */
  readonly shadows: readonly { source: Source; file: string }[];
  /** The file's text without its signature line. */
  readonly body: string;
}

export type DirectiveItem = ItemBase & {
  readonly kind: 'directive';
  readonly directive?: Directive | undefined;
};
export type ToolItem = ItemBase & { readonly kind: 'tool'; readonly tool?: Tool | undefined };
type KnowledgeItem = ItemBase & {
  readonly kind: 'knowledge';
  readonly text: string;
  readonly expose?: Exposed | undefined;
};

export type Item = DirectiveItem | ToolItem | KnowledgeItem;
export type ItemOf<K extends ItemKind> = Extract<Item, { kind: K }>;
