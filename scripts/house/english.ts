// The figures of plain English that `walls.mjs` does not have: retired names, words that error texts avoid, long
// sentences, and variables that are named after how their value was obtained.
import { readFileSync } from 'node:fs';
import { commentsOf, type Figure, type Place, type Source } from './walls.mjs';

/** Names that got a better one, by the folder in which they are retired. An empty key: everywhere. */
const RETIRED = JSON.parse(
  readFileSync(new URL('./retired.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, readonly string[]>>;
const PARTICIPLES = 'told asked given made known kept seen left held heard begun said shown';
const DECLARES = 'const|let|function\\*?|interface|type|class|enum';
const AVOIDED = /\bis no |\bthere is no |\bnobody\b|\bmeanwhile\b|\bany more\b|\bstands\b/;
const FAILURE = /\bfail\(\s*'[a-z_]+',\s*(?:'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)/g;
const MAX_WORDS = 30;

const lineOf = (text: string, index: number): number => text.slice(0, index).split('\n').length;

/** Every match in a file as a place. A comment line declares nothing. */
const placesOf = ({ path, package: own, text }: Source, pattern: RegExp): Place[] =>
  [...text.matchAll(pattern)]
    .filter(({ 0: match }) => !/^\s*(?:\/\/|\*|\/\*)/.test(match))
    .map((match) => ({
      package: own,
      text: `${path}:${lineOf(text, match.index + match[0].search(/\S/))} ${match[0].trim()}`,
    }));

/** Declarations of a retired name: of a variable, function or type, and members of types and classes. */
function retiredIn(file: Source): Place[] {
  const names = Object.entries(RETIRED).flatMap(([folder, list]) =>
    file.path.startsWith(folder) ? list : [],
  );
  const either = [...new Set(names)].join('|');
  return placesOf(
    file,
    new RegExp(
      `^.*\\b(?:${DECLARES})\\s+(?:${either})\\b|^\\s*(?:readonly\\s+|async\\s+|#)*(?:${either})\\??[:(].*;$`,
      'gm',
    ),
  );
}

const failuresOf = ({ path, package: own, text }: Source): Place[] =>
  [...text.matchAll(FAILURE)]
    .filter((match) => AVOIDED.test(match[1] ?? match[2] ?? ''))
    .map((match) => ({ package: own, text: `${path}:${lineOf(text, match.index)} ${match[0]}` }));

const longSentences = (file: Source): Place[] =>
  commentsOf(file)
    .filter(({ isDoc }) => isDoc)
    .flatMap(({ path, package: own, line, lines }) =>
      lines
        .join(' ')
        .split(/(?<=[.!?;:])\s+/)
        .filter((sentence) => sentence.split(/\s+/).length > MAX_WORDS)
        .map((sentence) => ({ package: own, text: `${path}:${line} ${sentence}` })),
    );

export const englishFigures = (files: readonly Source[]): Figure[] => [
  { id: 'l', name: 'retired names', target: '0', places: files.flatMap(retiredIn) },
  {
    id: 'm',
    name: 'error texts with avoided words',
    target: '<= 20',
    places: files.flatMap(failuresOf),
  },
  {
    id: 'n',
    name: `sentences over ${MAX_WORDS} words`,
    target: '<= 50',
    places: files.flatMap(longSentences),
  },
  {
    id: 'o',
    name: 'variables named by a participle',
    target: 'ratchet',
    places: files.flatMap((file) =>
      placesOf(
        file,
        new RegExp(`^.*\\b(?:const|let) (?:${PARTICIPLES.replaceAll(' ', '|')})\\b`, 'gm'),
      ),
    ),
  },
];
