// A reply while it is being put together. Pieces are appended, never searched, so the work is linear
// in what arrives; what is held is bounded in size and number.
import { fail, type JsonObject, type Outcome, ok } from '../base/index.ts';

export type DraftKind = 'text' | 'thinking' | 'tool_call' | 'other';

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
  /** Can no more be added? */
  isClosed: boolean;
  /** Did something begin after it was closed? Then its author had finished it. */
  isFollowed: boolean;
}

export interface Drafts {
  readonly list: readonly Draft[];
  begin(kind: DraftKind, first?: Partial<Pick<Draft, 'id' | 'name' | 'given'>>): Outcome<Draft>;
  append(draft: Draft, field: 'text' | 'signature' | 'redacted', piece: string): Outcome<null>;
  /** Bytes of everything the model wrote, for estimates. */
  bytes(): number;
}

const MAX_BLOCKS = 1024;
/** Longer than any provider allows for the name or id of a call. */
const MAX_NAME = 512;
export const MAX_REPLY = 16 * 1024 * 1024;

const byteLength = (text: string): number => Buffer.byteLength(text);

export function createDrafts(maxCharacters = MAX_REPLY): Drafts {
  const list: Draft[] = [];
  let size = 0;
  const tooMuch = (what: string) => fail('response_too_large', `the reply ${what}`, { sent: true });

  return {
    list,
    begin(kind, { id = '', name = '', given } = {}) {
      if (list.length >= MAX_BLOCKS) return tooMuch(`has more than ${MAX_BLOCKS} blocks`);
      if (id.length > MAX_NAME || name.length > MAX_NAME) {
        return tooMuch(`names a call with more than ${MAX_NAME} characters`);
      }
      const last = list.at(-1);
      if (last?.isClosed) last.isFollowed = true;
      const draft: Draft = {
        kind,
        text: '',
        id,
        name,
        signature: '',
        redacted: '',
        isClosed: false,
        isFollowed: false,
        ...(given && { given }),
      };
      list.push(draft);
      return ok(draft);
    },
    append(draft, field, piece) {
      size += piece.length;
      if (size > maxCharacters) return tooMuch(`is longer than ${maxCharacters} characters`);
      draft[field] += piece;
      return ok(null);
    },
    bytes: () =>
      list.reduce(
        (sum, { text, name, redacted, given }) =>
          sum +
          byteLength(text) +
          byteLength(name) +
          byteLength(redacted) +
          (given ? byteLength(JSON.stringify(given)) : 0),
        0,
      ),
  };
}
