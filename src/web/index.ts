import { join } from 'node:path';
import type { listen as listenNow } from './listen.ts';
import { createTokenStore, type TokenStore } from './tokens.ts';

/** The tokens of a project. They lie in the user's folder: a project may be shared, who may come in is not. */
export const openTokens = (place: { home: string; project: string }): TokenStore =>
  createTokenStore(join(place.home, 'web-tokens.jsonl'), place.project);

/** Serves a project over HTTP; the server's code is loaded when it is asked for. */
export const listen = async (
  ...given: Parameters<typeof listenNow>
): ReturnType<typeof listenNow> => await (await import('./listen.ts')).listen(...given);
