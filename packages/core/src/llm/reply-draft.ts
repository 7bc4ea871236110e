// Assembles a reply. Pieces are appended and never searched, so the work is linear in the input. The size
// and the number of the parts are bounded.
import { type Failure, fail, type JsonObject } from '../base/index.ts';
import type { Stop } from './message.ts';
import type { Reported } from './usage.ts';

export type DraftKind = 'text' | 'thinking' | 'tool_call' | 'other';
export type DraftField = 'text' | 'seal';

export interface Draft {
  readonly kind: DraftKind;
  /** Text, thought, or the arguments of a call as JSON text. */
  text: string;
  id: string;
  name: string;
  /** Data of the seal. Empty: there is none. */
  seal: string;
  /** True if the seal is the thought itself. */
  isRedacted: boolean;
  /** Arguments that arrived as a JSON object. Absent: they arrived as text. */
  given?: JsonObject;
  isClosed: boolean;
  /** True if a later block started, so that this one is complete. */
  isFollowed: boolean;
}

const MAX_BLOCKS = 1024;
/** Maximum length of the name or id of a call. No provider allows more. */
const MAX_NAME = 512;
const MAX_REPLY = 16 * 1024 * 1024;
const MAX_SEAL = 1024 * 1024;
const MAX_SEALS = 4 * MAX_SEAL;

const tooMuch = (what: string): Failure =>
  fail('response_too_large', `the reply ${what}`, { sent: true });

/** Collects the content of a reply. INVARIANT: after a fault, content is never added. */
export class ReplyDraft {
  readonly blocks: Draft[] = [];
  /** Blocks that may still grow, by the provider's index. */
  readonly open = new Map<number, Draft>();
  model = '';
  stop: Stop | undefined;
  reported: Reported = {};
  /** True after the final report. Earlier counts are preliminary. */
  isFinal = false;
  isDone = false;
  /** True after the event that starts the message, in protocols that have one. */
  isStarted = false;
  isRefused = false;
  /** The call that the last delta extended. */
  latest: Draft | undefined;
  fault: Failure | undefined;
  /** Target of the last delta, and the JSON with which another delta like it starts. */
  usual: { draft: Draft; to: DraftField; before: string } | undefined;
  #size = 0;
  #sealed = 0;
  readonly #most: number;
  readonly #onText: ((piece: string) => void) | undefined;

  constructor(most: number | undefined, onText: ((piece: string) => void) | undefined) {
    this.#most = most ?? MAX_REPLY;
    this.#onText = onText;
  }

  /** Begins a block of the reply. Returns undefined after a fault. */
  begin(kind: DraftKind, id = '', name = ''): Draft | undefined {
    const { blocks } = this;
    if (blocks.length >= MAX_BLOCKS) this.fault ??= tooMuch(`has more than ${MAX_BLOCKS} blocks`);
    if (id.length > MAX_NAME || name.length > MAX_NAME) {
      this.fault ??= tooMuch(`has a call with a name or id of more than ${MAX_NAME} characters`);
    }
    if (this.fault) return undefined;
    const last = blocks.at(-1);
    if (last?.isClosed) last.isFollowed = true;
    const state = { isRedacted: false, isClosed: false, isFollowed: false };
    const draft: Draft = { kind, text: '', id, name, seal: '', ...state };
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
    if (field === 'seal') this.#measure(draft.seal.length, piece);
    else if (draft.kind === 'text') this.#onText?.(piece);
  }

  #measure(length: number, piece: string): void {
    this.#sealed += Buffer.byteLength(piece);
    if (length > MAX_SEAL) {
      this.fault = tooMuch(`has a seal of more than ${MAX_SEAL} characters`);
    } else if (this.#sealed > MAX_SEALS) {
      this.fault = tooMuch(`has seals of more than ${MAX_SEALS} bytes`);
    }
  }

  /** Returns the number of bytes that the model wrote, for estimates. */
  bytes(): number {
    let sum = 0;
    for (const { text, name, seal, isRedacted, given: value } of this.blocks) {
      sum += Buffer.byteLength(text) + Buffer.byteLength(name);
      if (isRedacted) sum += Buffer.byteLength(seal);
      if (value) sum += Buffer.byteLength(JSON.stringify(value));
    }
    return sum;
  }
}

/** Reads the answers of one protocol, streamed or whole, into a draft. */
export interface ReplyProtocol {
  /** Reads an event from its text, on the fast path. Returns false if the event must be parsed. */
  takeText(reply: ReplyDraft, data: string): boolean;
  take(reply: ReplyDraft, event: JsonObject, name: string | undefined): void;
  /** Completes the draft at the end of a stream. */
  finish?(reply: ReplyDraft): void;
  /** Reads an answer that was not streamed. Returns the name of the missing part if it is invalid. */
  takeBody(reply: ReplyDraft, body: JsonObject): string | undefined;
}

/** Maps a provider's stop reason. A reason without an entry counts as a regular end. */
export const stopIn = (stops: Readonly<Record<string, Stop>>, reason: unknown): Stop | undefined =>
  typeof reason !== 'string' ? undefined : Object.hasOwn(stops, reason) ? stops[reason] : 'end';
