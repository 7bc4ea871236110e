import type { listen as listenNow } from './listen.ts';

export { createTokenStore } from './tokens.ts';

/** Serves a project over HTTP; the server's code is loaded when it is asked for. */
export const listen = async (
  ...given: Parameters<typeof listenNow>
): ReturnType<typeof listenNow> => await (await import('./listen.ts')).listen(...given);
