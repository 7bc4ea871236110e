// Generates words that differ from a member of a set by one typing mistake.
import * as fc from 'fast-check';

/** One character added, removed or changed. */
export const misspelt = (members: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom(...members),
      fc.nat(),
      fc.constantFrom('add', 'drop', 'change'),
      fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz'.split('')),
    )
    .map(([word, at, how, letter]) => {
      const place = at % word.length;
      const rest = word.slice(how === 'add' ? place : place + 1);
      return word.slice(0, place) + (how === 'drop' ? '' : letter) + rest;
    });
