import type { Diagnostic } from '../base/index.ts';
import type { Directive } from './directive/directive.ts';
import type { Exposed } from './expose.ts';
import type { ItemFacts, ItemKind, Source } from './item-kinds.ts';
import type { Tool } from './tool/tool.ts';

/**
 * Result of the check of a signature.
 * - `bundle`: the package contains the item, which has not changed since the build.
 * - `signed`: a key that is trusted for this item signed it.
 * - `program`: the running program defined the item and vouches for it.
 * - `unsigned`: the item has no signature.
 * - `changed`: the item changed after it was signed (in the bundle: after the build).
 * - `untrusted`: the key is not trusted, was revoked, has expired or may not sign this item.
 */
export interface SignatureState {
  state: 'bundle' | 'signed' | 'program' | 'unsigned' | 'changed' | 'untrusted';
  key?: string;
  created?: string;
  reason?: string;
}

/**
 * An item, which is immutable. Its parts are computed when they are first read. A changed file gives a
 * new item.
 */
export interface ItemBase extends Readonly<ItemFacts> {
  readonly id: string;
  readonly source: Source;
  /** Name of the installed bundle. Absent for other levels. */
  readonly package?: string;
  readonly file: string;
  /** State of the signature. It is computed at every read, because a key may have been revoked. */
  readonly signature: SignatureState;
  /** Findings about the file alone. An item with an error cannot be used. */
  readonly diagnostics: readonly Diagnostic[];
  /** Items with the same id that this item hides. */
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
