// Creates the record of one file, with the facts that lists and searches read without parsing the whole file.
import { type Clock, lastSegment } from '../../base/index.ts';
import type { ParsedDirective } from '../directive/directive.ts';
import { parseDirective } from '../directive/parse.ts';
import type { FileStamp } from '../files/folder-tree.ts';
import { aboutFile, type FileText, readItemFile, trimmed, yamlFields } from '../files/item-file.ts';
import { type Root, tick } from '../files/root.ts';
import type { Item, ItemBase, SignatureState } from '../item.ts';
import { type ItemFacts, type ItemKind, NO_VERSION, versionOf } from '../item-kinds.ts';
import { checkKnowledge, knowledgeExposed, knowledgeFacts, knowledgeText } from '../knowledge.ts';
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

/** Returns the facts of a tool file. An unreadable file still has its title. Never throws. */
function toolFacts(content: string, id: string): ItemFacts {
  const fields = yamlFields(blankSignatureLine(content), NAMES);
  const field = (name: string): string => trimmed(fields(name));
  return {
    title: lastSegment(id),
    description: field('description'),
    category: field('category'),
    tags: field('tool_type') === '' ? [] : [field('tool_type')],
    version: versionOf(field('version')),
  };
}

/** Functions of the library that a record calls. */
export interface RecordPorts {
  clock: Pick<Clock, 'now'>;
  signatureOf(record: FileRecord): SignatureState;
  shadowsOf(record: FileRecord): ItemBase['shadows'];
  /** Called for a file that was read in the tick of its last change. The next scan must call `recheck`. */
  onHastyRead(record: FileRecord): void;
}

export interface FileRecord {
  readonly kind: ItemKind;
  readonly id: string;
  readonly root: Root;
  readonly path: string;
  /** Absolute path in which links are not resolved, as a person would write it. */
  readonly file: string;
  readonly item: Item;
  readonly facts: () => ItemFacts;
  /** Returns the text of the file. Empty if the file is unreadable. */
  text(): string;
  signed(): SignedText;
  readonly subject: () => Subject;
  /**
   * Reads a file again that was read in the tick of its last change, because a second change keeps the
   * stamp. Returns a new record if the text has changed.
   */
  recheck(): FileRecord | undefined;
}

function once<T>(compute: () => T): () => T {
  let value: { done: T } | undefined;
  return () => (value ??= { done: compute() }).done;
}

/** Returns descriptors of properties that are computed at each read. */
const lazily = (parts: Readonly<Record<string, () => unknown>>): PropertyDescriptorMap =>
  Object.fromEntries(Object.entries(parts).map(([name, get]) => [name, { get, enumerable: true }]));

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
  const { text, facts, parsed, rights } = readItem(kind, id, file, content);
  const signed = once(() => readSignatureLine(text(), file));
  const own = {
    directive: { directive: () => parsed().directive },
    tool: { tool: () => parsed().tool },
    knowledge: {
      text: () => knowledgeText(stripSignatureLine(text())),
      expose: once(() => knowledgeExposed(text())),
    },
  };
  const from = root.name === undefined ? {} : { package: root.name };
  // Each file has one item object, so that items can be compared. It is created on demand.
  const item = once(
    () =>
      Object.defineProperties(
        { kind, id, source: root.source, ...from, file },
        lazily({
          ...own[kind],
          title: () => facts().title,
          description: () => facts().description,
          category: () => facts().category,
          tags: () => facts().tags,
          version: () => facts().version,
          signature: () => ports.signatureOf(record),
          diagnostics: () => parsed().diagnostics,
          shadows: () => ports.shadowsOf(record),
          body: () => signed().body,
        }),
      ) as Item,
  );

  const record: FileRecord = {
    kind,
    id,
    root,
    path,
    file,
    get item() {
      return item();
    },
    facts,
    text,
    signed,
    subject: () => ({ kind, id, version: facts().version, rights: rights() }),
    recheck() {
      if (isHasty()) ports.onHastyRead(record);
      const isSame = JSON.stringify(content()) === JSON.stringify(readItemFile(stamp.real));
      return isSame ? undefined : createRecord(root, path, stamp, ports);
    },
  };
  return record;
}

function directiveFacts({ directive, draft = directive }: ParsedDirective, id: string): ItemFacts {
  const { name, description = '', category = '', version = NO_VERSION } = draft ?? {};
  return { title: name ?? lastSegment(id), description, category, tags: [], version };
}

const PARSERS: Readonly<
  Record<ItemKind, (text: string, file: string) => ParsedDirective & ParsedTool>
> = {
  directive: parseDirective,
  tool: parseTool,
  knowledge: (text, file) => ({ diagnostics: checkKnowledge(text, file) }),
};

/** Reads a file as an item of this kind, on demand. Never throws. */
export function readItem(kind: ItemKind, id: string, file: string, content: () => FileText) {
  const text = (): string => {
    const read = content();
    return 'text' in read ? read.text : '';
  };
  const parsed = once((): ParsedDirective & ParsedTool => {
    const read = content();
    if ('text' in read) return PARSERS[kind](read.text, file);
    return { diagnostics: [aboutFile(file, read.problem.code, read.problem.message)] };
  });
  return {
    text,
    parsed,
    facts: once((): ItemFacts => {
      if (kind === 'directive') return directiveFacts(parsed(), id);
      return kind === 'tool' ? toolFacts(text(), id) : knowledgeFacts(text(), id);
    }),
    // The rights are not cached, because the tool's module can change without the tool's file.
    rights(): string {
      const { directive, tool } = parsed();
      if (tool) return toolRights(tool, file);
      return directive ? directiveRights(directive) : NO_RIGHTS;
    },
  };
}
