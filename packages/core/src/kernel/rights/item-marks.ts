// Computes the marks of items. An item is a file: content that is written into it keeps its marks, and a
// caller that reads the text gets the marks back. The signature of a person removes them.
import { hash } from 'node:crypto';
import {
  asJson,
  type Diagnostic,
  fail,
  type Json,
  type Outcome,
  ok,
  pathWithin,
  withoutPlaces,
} from '../../base/index.ts';
import {
  type Descriptor,
  describe,
  EMPTY,
  fileLabels,
  type LabelRecords,
  type MaybePromise,
  mergeAll,
} from '../../flow/index.ts';
import type { Item, Library, SignatureState } from '../../items/index.ts';

const FOLDERS = { directive: 'directives', tool: 'tools', knowledge: 'knowledge' } as const;

const SIGNED: ReadonlySet<SignatureState['state']> = new Set(['signed', 'bundle', 'program']);

export const isSigned = ({ state }: SignatureState): boolean => SIGNED.has(state);

const REFUSED: { [State in SignatureState['state']]?: readonly [what: string, hint: string] } = {
  changed: ['was changed after it was signed', 'review it and sign it again'],
  untrusted: [
    'is signed by a key that is not trusted',
    'review it, then trust that key or sign it yourself',
  ],
};

/** Refuses an item whose signature is broken or made by an untrusted key. */
export function checkSignature({ kind, id, signature }: Item): Outcome<null> {
  const { state, reason = '' } = signature;
  const words = REFUSED[state];
  if (!words) return ok(null);
  const what = `${words[0]}${reason && `: ${reason}`}`;
  return fail('signature_invalid', `${kind} \`${id}\` ${what}; ${words[1]}`, { [kind]: id });
}

/** Marks of a server's description of its tool. It stays untrusted after a person has approved the tool. */
const SERVER_TEXT = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:mcp'] });

/** Marks of a text from a package or a catalog that no trusted key signed. */
export const FROM_STRANGER = describe({
  labels: ['untrusted'],
  taint: ['untrusted', 'src:network'],
});

/** True for an item of an installed package without the signature of a trusted key. */
export const isFromStranger = ({
  source,
  signature,
}: Pick<Item, 'source' | 'signature'>): boolean => source === 'installed' && !isSigned(signature);

/** Called with every item whose text goes into an answer. */
export type UsesItem = (item: Item) => void;

export interface ItemMarks {
  of(item: Item): Descriptor;
  /** Called before a text replaces an item. A failure stops the write. */
  willWrite(
    file: string,
    content: string,
    from: readonly Descriptor[],
  ): MaybePromise<Outcome<null>>;
}

export function createItemMarks(labels: LabelRecords): ItemMarks {
  return {
    of(item) {
      const own = describe({
        taint: fileLabels(labels.root, `.ai/${FOLDERS[item.kind]}/${item.id}`),
        sources: [`${item.kind}:${item.id}`],
      });
      const recorded = isSigned(item.signature)
        ? undefined
        : labels.recall(item.file, hash('sha256', item.body));
      const descriptionMarks = item.tags.includes('mcp_tool') ? SERVER_TEXT : EMPTY;
      const fetched = isFromStranger(item) ? FROM_STRANGER : EMPTY;
      return mergeAll([own, descriptionMarks, fetched, recorded ?? EMPTY]);
    },
    willWrite(file, content, from) {
      const recorded = labels.remember(file, hash('sha256', content), from);
      return recorded.ok && labels.shared ? labels.shared.keep() : recorded;
    },
  };
}

const PREFIXES: Readonly<Record<string, string>> = {
  user: '~/.ai/',
  installed: 'installed:',
  bundle: 'bundle:',
};

/** Returns the path of an item's file as the caller may see it, without the folders of this machine. */
export function shownFile(library: Pick<Library, 'roots' | 'projectRoot'>, file: string): string {
  const inProject = pathWithin(library.projectRoot, file);
  if (inProject !== file) return inProject;
  for (const { source, dir } of library.roots()) {
    const within = pathWithin(dir, file);
    if (within !== file) return `${PREFIXES[source] ?? ''}${within}`;
  }
  return file;
}

/**
 * Returns the folders that no caller may see, with their replacements. Inner folders come before outer ones.
 */
function hiddenPlaces(library: Pick<Library, 'roots' | 'projectRoot'>): [string, string][] {
  const roots = library.roots().map(({ source, dir }): [string, string] => {
    return [dir, pathWithin(library.projectRoot, dir) === dir ? (PREFIXES[source] ?? '') : ''];
  });
  const others = roots.filter(([, prefix]) => prefix !== '');
  const places: [string, string][] = [[library.projectRoot, ''], ...others];
  return places.sort(([one], [other]) => other.length - one.length);
}

/** Returns a failure without the folders of this machine. An unchanged failure stays the same object. */
export const shownFailure = <T>(
  library: Pick<Library, 'roots' | 'projectRoot'>,
  outcome: Outcome<T>,
): Outcome<T> => (outcome.ok ? outcome : withoutPlaces(outcome, hiddenPlaces(library)));

/** Returns diagnostics with the paths of files as the caller may see them. */
export const shownDiagnostics = (
  library: Pick<Library, 'roots' | 'projectRoot'>,
  found: readonly Diagnostic[],
): Json => asJson(found.map((one) => ({ ...one, file: shownFile(library, one.file) })));
