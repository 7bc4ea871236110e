// Hot: answers that are there already are used at once, because a promise for each costs more than most.
import type { Outcome } from './outcome.ts';

/**
 * Goes on with an answer that may be there already, and then at once: a tick for every answer, whether
 * anybody waits or not, costs more than most answers do.
 */
export const whenReady = <T, U>(
  answer: T | Promise<T>,
  next: (answer: T) => U | Promise<U>,
): U | Promise<U> => (answer instanceof Promise ? answer.then(next) : next(answer));

/** An answer of somebody else's code: his promises may be of another realm, or of his own making. */
export const heard = <T>(
  answer: Outcome<T> | Promise<Outcome<T>>,
): Outcome<T> | Promise<Outcome<T>> =>
  answer instanceof Promise || typeof answer.ok === 'boolean' ? answer : Promise.resolve(answer);

/** What `work` throws, at once or later, is for `caught`. */
export function shielded<T>(
  work: () => T | Promise<T>,
  caught: (thrown: unknown) => T | Promise<T>,
): T | Promise<T> {
  try {
    const answer = work();
    return answer instanceof Promise ? answer.catch(caught) : answer;
  } catch (thrown) {
    return caught(thrown);
  }
}

/** Visits one after the other until a visit answers something; that is the answer. */
export function inTurn<T, U>(
  items: readonly T[],
  visit: (item: T, at: number) => U | undefined | Promise<U | undefined>,
): U | undefined | Promise<U | undefined> {
  for (let at = 0; at < items.length; at++) {
    const answer = visit(items[at] as T, at);
    if (answer instanceof Promise) return restInTurn(items, visit, at, answer);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Once a visit waits, so may the others: a loop, so that a long list makes no long chain. */
async function restInTurn<T, U>(
  items: readonly T[],
  visit: (item: T, at: number) => U | undefined | Promise<U | undefined>,
  first: number,
  waiting: Promise<U | undefined>,
): Promise<U | undefined> {
  let answer: U | undefined = await waiting;
  for (let at = first + 1; at < items.length && answer === undefined; at++) {
    const next = visit(items[at] as T, at);
    answer = next instanceof Promise ? await next : next;
  }
  return answer;
}
