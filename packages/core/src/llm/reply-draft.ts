// A reply while it is being put together. Pieces are appended, never searched, so the work is linear
// in what arrives; what is held is bounded in size and number.
import { type Failure, fail, type JsonObject } from '../base/index.ts';
import type { Stop } from './message.ts';
import type { Reported } from './usage.ts';

export type DraftKind = 'text' | 'thinking' | 'tool_call' | 'other';
export type DraftField = 'text' | 'signature' | 'redacted';

export interface Draft {
  readonly kind: DraftKind;
  /** Text, thought, or the arguments of a call as JSON text. */
  text: string;
  id: string;
  name: string;
  signature: string;
  redacted: string;
  /** Arguments that came as a value instead of text. */
  given?: JsonObject;
  isClosed: boolean;
  /** Did something begin after it was closed? Then its author had finished it. */
  isFollowed: boolean;
}

const MAX_BLOCKS = 1024;
/** Longer than any provider allows for the name or id of a call. */
const MAX_NAME = 512;
const MAX_REPLY = 16 * 1024 * 1024;

const tooMuch = (what: string): Failure =>
  fail('response_too_large', `the reply ${what}`, { sent: true });

/** What has come so far. INVARIANT: after a fault nothing more is added. */
export class ReplyDraft {
  readonly blocks: Draft[] = [];
  /** Blocks that may still grow, by the index that the provider gave them. */
  readonly open = new Map<number, Draft>();
  model = '';
  stop: Stop | undefined;
  reported: Reported = {};
  /** Did the final report arrive? Counts before it are only so far. */
  isFinal = false;
  isDone = false;
  /** Did its first event arrive, where there is one? */
  isStarted = false;
  isRefused = false;
  /** The call that was added to last. */
  latest: Draft | undefined;
  fault: Failure | undefined;
  /** What the last delta added to, and how one more like it begins. */
  usual: { draft: Draft; to: DraftField; before: string } | undefined;
  #size = 0;
  readonly #most: number;
  readonly #onText: ((piece: string) => void) | undefined;

  constructor(most: number | undefined, onText: ((piece: string) => void) | undefined) {
    this.#most = most ?? MAX_REPLY;
    this.#onText = onText;
  }

  /** Undefined when there is a fault. */
  begin(kind: DraftKind, id = '', name = ''): Draft | undefined {
    const { blocks } = this;
    if (blocks.length >= MAX_BLOCKS) this.fault ??= tooMuch(`has more than ${MAX_BLOCKS} blocks`);
    if (id.length > MAX_NAME || name.length > MAX_NAME) {
      this.fault ??= tooMuch(`names a call with more than ${MAX_NAME} characters`);
    }
    if (this.fault) return undefined;
    const last = blocks.at(-1);
    if (last?.isClosed) last.isFollowed = true;
    const [text, signature, redacted] = ['', '', ''];
    const state = { isClosed: false, isFollowed: false };
    const draft: Draft = { kind, text, id, name, signature, redacted, ...state };
    blocks.push(draft);
    return draft;
  }

  append(draft: Draft, field: DraftField, piece: string): void {
    if (piece === '' || this.fault) return;
    this.#size += piece.length;
    if (this.#size > this.#most) {
      this.fault = tooMuch(`is longer than ${this.#most} characters`);
      return;
    }
    draft[field] += piece;
    if (draft.kind === 'text') this.#onText?.(piece);
  }

  /** Bytes of everything the model wrote, for estimates. */
  bytes(): number {
    let sum = 0;
    for (const { text, name, redacted, given } of this.blocks) {
      sum += Buffer.byteLength(text) + Buffer.byteLength(name) + Buffer.byteLength(redacted);
      if (given) sum += Buffer.byteLength(JSON.stringify(given));
    }
    return sum;
  }
}

/** A provider's way to stream and to answer. Both put what they read into the draft. */
export interface ReplyProtocol {
  /** An event as text, where that is enough; false for every other. */
  takeText(reply: ReplyDraft, data: string): boolean;
  take(reply: ReplyDraft, event: JsonObject, name: string | undefined): void;
  /** Whatever is known only at the end of a stream. */
  finish?(reply: ReplyDraft): void;
  /** An answer that was not streamed; what it lacks is named when it cannot be read. */
  takeBody(reply: ReplyDraft, body: JsonObject): string | undefined;
}

/** A table says what a provider's word means; one it does not know ends the reply in order. */
export const stopIn = (stops: Readonly<Record<string, Stop>>, reason: unknown): Stop | undefined =>
  typeof reason !== 'string' ? undefined : Object.hasOwn(stops, reason) ? stops[reason] : 'end';
