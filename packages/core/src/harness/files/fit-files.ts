// Chooses the files of a request: the newest ones that the model accepts and that fit. The others are told as text with
// the id of their artifact, which the model can read again. A conversation without files is returned as it is.
import type { Json } from '../../base/index.ts';
import { fileValue } from '../../journal/index.ts';
import type { Block, FileBlock, FileSource, Message, ResolvedModel } from '../../llm/index.ts';
import type { Thread } from '../thread/thread.ts';
import { accepts, type FileLimits, fileLimits, fileTokens } from './file-limits.ts';

type TextBlock = Extract<Block, { type: 'text' }>;
type Left = 'unsupported' | 'older' | 'missing';

const MESSAGES: Readonly<Record<Left, string>> = {
  unsupported: 'not shown, because this model does not accept this type',
  older: 'left out of this request; read it with execute and item_type artifact to see it again',
  missing: 'not shown, because the artifact is missing',
};

const fileText = (file: FileBlock, why: Left): TextBlock => ({
  type: 'text',
  text: JSON.stringify({ ...fileValue(file), message: MESSAGES[why] } satisfies Json),
});

/** The messages of a request, and the files that it contains. */
interface FittedFiles {
  readonly messages: readonly Message[];
  readonly files: readonly FileBlock[];
  /** Estimated number of tokens that the files cost. */
  readonly tokens: number;
}

const NONE: ReadonlySet<string> = new Set();
/** Messages whose files were left out, by message and by the reasons. A writer caches texts by message. */
const written = new WeakMap<Message, Map<string, Message>>();

const isOf = (block: Block): boolean =>
  block.type === 'file' || (block.type === 'tool_result' && block.files !== undefined);

/** Fills a request from its end. After the first file that does not fit, all older ones are left out. */
class Filling {
  readonly files: FileBlock[] = [];
  tokens = 0;
  #bytes = 0;
  #pages = 0;
  #isFull = false;
  readonly #model: ResolvedModel;
  readonly #limits: FileLimits;
  readonly #missing: ReadonlySet<string>;

  constructor(model: ResolvedModel, limits: FileLimits, missing: ReadonlySet<string>) {
    [this.#model, this.#limits, this.#missing] = [model, limits, missing];
  }

  #left(file: FileBlock): Left | undefined {
    if (!accepts(this.#model, file)) return 'unsupported';
    if (this.#missing.has(file.sha256)) return 'missing';
    const { request_files, request_bytes, pdf_pages } = this.#limits;
    const { bytes, pages = 0 } = file;
    this.#isFull ||=
      this.files.length >= request_files ||
      this.#bytes + bytes > request_bytes ||
      this.#pages + pages > pdf_pages;
    if (this.#isFull) return 'older';
    this.#bytes += bytes;
    this.#pages += pages;
    this.tokens += fileTokens(file, this.#model);
    this.files.push(file);
    return undefined;
  }

  /** Returns the message with texts in place of the files that are left out. */
  message(message: Message): Message {
    if (!message.content.some(isOf)) return message;
    const reasons: string[] = [];
    const fit = <T extends Block>(block: T): T | TextBlock => {
      const why = block.type === 'file' ? this.#left(block) : undefined;
      reasons.push(why ?? '');
      return block.type === 'file' && why ? fileText(block, why) : block;
    };
    const content = message.content.toReversed().map((block) => {
      if (block.type !== 'tool_result' || !block.files) return fit(block);
      return { ...block, files: block.files.toReversed().map(fit).toReversed() };
    });
    const key = reasons.join();
    const before = written.get(message) ?? new Map<string, Message>();
    const same = before.get(key) ?? { ...message, content: content.toReversed() };
    written.set(message, before.set(key, same));
    return same;
  }
}

/** Chooses the files of the next request of this conversation. `missing`: hashes of files without an artifact. */
export function fitFiles(
  { ports, talk: { conversation, model } }: Pick<Thread, 'ports' | 'talk'>,
  missing = NONE,
): FittedFiles {
  const messages = conversation.messages();
  if (!conversation.hasFiles()) return { messages, files: [], tokens: 0 };
  const filling = new Filling(model, fileLimits(ports, model), missing);
  const fitted = messages.toReversed().map((message) => filling.message(message));
  return { messages: fitted.toReversed(), files: filling.files, tokens: filling.tokens };
}

/** Hashes of the files of a conversation, and whether this process has found their artifacts. */
const looked = new WeakMap<object, Map<string, boolean>>();

/** Returns the messages of the next request, and its files. A replay reads no bytes. */
export async function requestFiles(
  thread: Pick<Thread, 'ports' | 'place' | 'talk'>,
): Promise<{ messages: readonly Message[]; files?: FileSource }> {
  const { messages, files: chosen } = fitFiles(thread);
  const { store, replay } = thread.ports;
  if (chosen.length === 0 || replay) return { messages };
  const read = (sha256: string) => store.artifact(thread.place.id, `sha256:${sha256}`);
  const { conversation } = thread.talk;
  const found = looked.get(conversation) ?? new Map<string, boolean>();
  looked.set(conversation, found);
  for (const { sha256 } of chosen) {
    if (!found.has(sha256)) found.set(sha256, (await read(sha256)).ok);
  }
  const missing = new Set([...found].flatMap(([sha256, isThere]) => (isThere ? [] : [sha256])));
  const fitted = missing.size === 0 ? { messages, files: chosen } : fitFiles(thread, missing);
  const files: FileSource = {
    sizes: new Map(fitted.files.map(({ sha256, bytes }) => [sha256, bytes])),
    async read(sha256) {
      const bytes = await read(sha256);
      if (bytes.ok) return bytes.output;
      // The next try tells the file as text.
      found.set(sha256, false);
      throw new Error(bytes.error.detail.message);
    },
  };
  return { messages: fitted.messages, files };
}

/** True if this model accepts every file that the present model of the thread gets. */
export const acceptsFiles = (
  thread: Pick<Thread, 'ports' | 'talk'>,
  model: ResolvedModel,
): boolean => fitFiles(thread).files.every((file) => accepts(model, file));
