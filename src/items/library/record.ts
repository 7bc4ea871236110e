// What is shown and searched of a tool without parsing its whole file.
import type { Clock, Diagnostic } from '../../base/index.ts';
import type { ParsedDirective } from '../directive/directive.ts';
import { parseDirective } from '../directive/parse.ts';
import type { FileStamp } from '../files/folder-tree.ts';
import { aboutFile, type FileText, readItemFile, yamlFields } from '../files/item-file.ts';
import { lastSegment } from '../files/item-place.ts';
import { type Root, tick } from '../files/root.ts';
import type { Item, ItemBase, SignatureState } from '../item.ts';
import { type ItemKind, NO_VERSION, VERSION } from '../item-kinds.ts';
import { checkKnowledge, type ItemFacts, knowledgeFacts, knowledgeText } from '../knowledge.ts';
import { directiveRights, NO_RIGHTS, type Subject, toolRights } from '../signature.ts';
import {
  blankSignatureLine,
  readSignatureLine,
  type SignedText,
  stripSignatureLine,
} from '../signature-line.ts';
import { type ParsedTool, parseTool } from '../tool/parse.ts';

const NAMES: ReadonlySet<string> = new Set(
  'tool_id tool_type description category version'.split(' '),
);

/** Never throws; a file that cannot be read at all still has its name. */
function toolFacts(content: string, id: string): ItemFacts {
  const given = yamlFields(blankSignatureLine(content), NAMES);
  const field = (name: string): string => {
    const found = given(name);
    return typeof found === 'string' ? found.trim() : '';
  };
  const version = field('version');
  return {
    title: lastSegment(id),
    description: field('description'),
    category: field('category'),
    tags: field('tool_type') === '' ? [] : [field('tool_type')],
    version: VERSION.test(version) ? version : NO_VERSION,
  };
}

// One file of the library and the item made of it. Everything costly waits until it is asked for:
// ten thousand files are listed, a handful is ever parsed. Nothing here runs or expands anything.

export interface RecordPorts {
  clock: Pick<Clock, 'now'>;
  signatureOf(record: FileRecord): SignatureState;
  shadowsOf(record: FileRecord): ItemBase['shadows'];
  /** A file was read in the tick of its last change: `recheck` it at the next look. */
  onHastyRead(record: FileRecord): void;
}

export interface FileRecord {
  readonly kind: ItemKind;
  readonly id: string;
  readonly root: Root;
  /** Relative to the root. */
  readonly path: string;
  /** Absolute, as a person would write it. */
  readonly file: string;
  readonly item: Item;
  readonly facts: () => ItemFacts;
  /** The file's text, empty when it cannot be read. */
  text(): string;
  signed(): SignedText;
  readonly subject: () => Subject;
  /**
   * A file that was read in the tick of its last change may have been changed again and kept its
   * stamp: reads it once more, and answers with a new record when it did.
   */
  recheck(): FileRecord | undefined;
}

function once<T>(compute: () => T): () => T {
  let value: { done: T } | undefined;
  return () => (value ??= { done: compute() }).done;
}

export function createRecord(
  root: Root,
  path: string,
  stamp: FileStamp,
  ports: RecordPorts,
): FileRecord {
  const { kind, id } = stamp.place;
  const file = path === 'AGENTS.md' ? stamp.real : `${root.dir}/${path}`;
  const isHasty = (): boolean => ports.clock.now() - stamp.changed < tick(stamp.changed);

  const content = once((): FileText => {
    if (isHasty()) ports.onHastyRead(record);
    return readItemFile(stamp.real);
  });
  const text = (): string => {
    const read = content();
    return 'text' in read ? read.text : '';
  };
  const signed = once(() => readSignatureLine(text(), file));
  const problems = (): Diagnostic[] => {
    const read = content();
    if ('text' in read) return [];
    return [aboutFile(file, read.problem.code, read.problem.message)];
  };
  const parts = PARTS[kind](id, file, text, problems);

  const base = {
    id,
    source: root.source,
    ...(root.name === undefined ? {} : { package: root.name }),
    file,
    get title() {
      return parts.facts().title;
    },
    get description() {
      return parts.facts().description;
    },
    get category() {
      return parts.facts().category;
    },
    get tags() {
      return parts.facts().tags;
    },
    get version() {
      return parts.facts().version;
    },
    get signature() {
      return ports.signatureOf(record);
    },
    get diagnostics() {
      return parts.diagnostics();
    },
    get shadows() {
      return ports.shadowsOf(record);
    },
    get body() {
      return signed().body;
    },
  };

  const record: FileRecord = {
    kind,
    id,
    root,
    path,
    file,
    // Without reading any getter.
    item: Object.defineProperties(parts.own, Object.getOwnPropertyDescriptors(base)) as Item,
    facts: parts.facts,
    text,
    signed,
    subject: () => ({ kind, id, version: parts.facts().version, rights: parts.rights() }),
    recheck() {
      if (isHasty()) ports.onHastyRead(record);
      const isSame = JSON.stringify(content()) === JSON.stringify(readItemFile(stamp.real));
      return isSame ? undefined : createRecord(root, path, stamp, ports);
    },
  };
  return record;
}

interface Parts {
  facts(): ItemFacts;
  diagnostics(): readonly Diagnostic[];
  rights(): string;
  /** What only this kind has. */
  readonly own: object;
}

function directiveFacts({ directive, draft = directive }: ParsedDirective, id: string): ItemFacts {
  const { name, description = '', category = '', version = NO_VERSION } = draft ?? {};
  return { title: name ?? lastSegment(id), description, category, tags: [], version };
}

/** What a text would be known by as an item. Never throws. */
export function factsOf(kind: ItemKind, text: string, id: string): ItemFacts {
  if (kind === 'directive') return directiveFacts(parseDirective(text, id), id);
  return kind === 'tool' ? toolFacts(text, id) : knowledgeFacts(text, id);
}

/** Without a text there are `problems` instead. */
type MakeParts = (
  id: string,
  file: string,
  text: () => string,
  problems: () => Diagnostic[],
) => Parts;

const PARTS: Readonly<Record<ItemKind, MakeParts>> = {
  directive(id, file, text, problems) {
    const parsed = once((): ParsedDirective => {
      const unreadable = problems();
      return unreadable.length > 0 ? { diagnostics: unreadable } : parseDirective(text(), file);
    });
    return {
      facts: once(() => directiveFacts(parsed(), id)),
      diagnostics: () => parsed().diagnostics,
      rights() {
        const { directive } = parsed();
        return directive ? directiveRights(directive) : NO_RIGHTS;
      },
      own: {
        kind: 'directive',
        get directive() {
          return parsed().directive;
        },
      },
    };
  },
  tool(id, file, text, problems) {
    const parsed = once((): ParsedTool => {
      const unreadable = problems();
      return unreadable.length > 0 ? { diagnostics: unreadable } : parseTool(text(), file);
    });
    return {
      facts: once(() => toolFacts(text(), id)),
      diagnostics: () => parsed().diagnostics,
      // Not kept: the module it names may change while the tool's file does not.
      rights() {
        const { tool } = parsed();
        return tool ? toolRights(tool, file) : NO_RIGHTS;
      },
      own: {
        kind: 'tool',
        get tool() {
          return parsed().tool;
        },
      },
    };
  },
  knowledge: (id, file, text, problems) => ({
    facts: once(() => knowledgeFacts(text(), id)),
    diagnostics: once(() => [...problems(), ...checkKnowledge(text(), file)]),
    rights: () => NO_RIGHTS,
    own: {
      kind: 'knowledge',
      get text() {
        return knowledgeText(stripSignatureLine(text()));
      },
    },
  }),
};
