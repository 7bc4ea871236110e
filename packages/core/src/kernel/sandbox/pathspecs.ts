// Restricts git with pathspecs. Git reveals deleted and hidden files from its history, so a tool that calls it
// is restricted to readable paths. Git applies pathspecs to the working tree, the index and every commit.
import { fail, matchGlob, type Outcome, ok } from '../../base/index.ts';
import { RECORD_NAMES } from '../../items/index.ts';
import { type AccessQuestion, createJudge } from './places.ts';

const magic = (kind: string, glob: string): string => `:(${kind})${glob}`;

const unrestricted = (what: string): Outcome<never> =>
  fail(
    'permission_denied',
    `${what}; grant \`fs.read\` for the paths that git must show, or name readable paths`,
    { missing: 'fs.read' },
  );

/** Records of projects inside of the project, which no glob of a right names. */
const RECORDS = RECORD_NAMES.map((name) => `**/.ai/${name}/**`);

/** Returns exclusions of a glob. `docs/**` excludes `docs` itself too, as rights do. */
function excluded(glob: string): string[] {
  const itself = glob.replace(/(?:\/\*\*)+$/, '');
  return [...new Set([itself, glob])].map((one) => magic('exclude,top,glob,icase', one));
}

/**
 * Returns the pathspecs that replace the paths of the caller. Fails with `permission_denied` if git
 * cannot be restricted to the readable paths.
 */
export function pathspecsOf(
  question: AccessQuestion,
  callerPaths: readonly string[],
): Outcome<readonly string[]> {
  if (!question.globs) return unrestricted('git cannot be restricted to parts of the project');
  const globs = [...new Set(question.globs)].filter((glob) => !glob.startsWith('/'));
  const { mayRead } = question;
  const judge = createJudge(question);
  const isOpen = (glob: string) => judge.samplesOf(glob).every(mayRead);
  const open = globs.filter(isOpen);
  // A closed glob that covers something open is a narrowed right, so it excludes nothing.
  const shut = globs.filter(
    (glob) => !isOpen(glob) && !open.some((one) => matchGlob(glob, judge.sampleOf(one))),
  );
  const without = [...new Set([...shut, ...RECORDS].flatMap(excluded))];
  if (judge.folder('') !== 'none') return ok([...callerPaths, ...without]);
  const paths = callerPaths.map((path) => path.replace(/^(\.\/)+|\/+$/g, ''));
  const refused = paths.find(
    (path) => judge.folder(path) === 'none' && !(open.includes(path) && mayRead(path)),
  );
  if (refused !== undefined) return unrestricted(`\`${refused}\` may not be read`);
  if (open.length === 0) return unrestricted('no file of the project may be read');
  return ok([
    ...(paths.length > 0
      ? paths.map((path) => magic('top,literal', path))
      : open.map((glob) => magic('top,glob', glob))),
    ...without,
  ]);
}
