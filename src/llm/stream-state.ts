// What differs between the protocols' streams, as the reader sees it.
import type { JsonObject, Outcome } from '../base/index.ts';
import type { Drafts } from './draft.ts';
import type { Stop } from './message.ts';
import type { Reported } from './usage.ts';

export interface StreamState {
  readonly drafts: Drafts;
  take(event: JsonObject, name: string | undefined): Outcome<null>;
  /**
   * The short way for an event that differs from the one before in nothing but its piece of text.
   * Undefined for every other; what it takes, `take` would have taken just so.
   */
  takeAlike?(data: string): Outcome<null> | undefined;
  /** Is this the text, not JSON, that ends the stream? */
  isEndText(data: string): boolean;
  /** Did the end marker arrive? */
  isDone(): boolean;
  end(): { stop: Stop | undefined; model: string; reported: Reported; isFinal: boolean };
}

/** Every piece of text is shown as it comes. */
export type CreateState = (onText: (piece: string) => void, maxCharacters?: number) => StreamState;
