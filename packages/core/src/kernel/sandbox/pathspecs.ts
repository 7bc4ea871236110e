// Git tells about files that are gone or hidden, from its history. A tool that asks it is held to what
// its caller may read by pathspecs, which git applies to the working tree, the index and every commit.
import { fail, matchGlob, type Outcome, ok } from '../../base/index.ts';
import { RECORD_NAMES } from '../../items/index.ts';
import { type AccessQuestion, createJudge } from './places.ts';

const magic = (kind: string, glob: string): string => `:(${kind})${glob}`;

const notHeld = (what: string): Outcome<never> =>
  fail(
    'permission_denied',
    `${what}; grant \`fs.read\` for what git is to show, or name paths that may be read`,
    { missing: 'fs.read' },
  );

/** Of projects within the project too, which no glob of a right names. */
const RECORDS = RECORD_NAMES.map((name) => `**/.ai/${name}/**`);

/** Of `docs/**` also `docs` itself, as rights read it. */
function excluded(glob: string): string[] {
  const itself = glob.replace(/(?:\/\*\*)+$/, '');
  return [...new Set([itself, glob])].map((one) => magic('exclude,top,glob,icase', one));
}

/** What to give git in place of the paths that a caller gave. */
export function pathspecsOf(
  question: AccessQuestion,
  given: readonly string[],
): Outcome<readonly string[]> {
  if (!question.globs) return notHeld('git cannot be held to a part of the project here');
  const globs = [...new Set(question.globs)].filter((glob) => !glob.startsWith('/'));
  const { mayRead } = question;
  const judge = createJudge(question);
  const isOpen = (glob: string) => judge.samplesOf(glob).every(mayRead);
  const open = globs.filter(isOpen);
  // What covers something open gives rights, and others narrow them: nothing is denied by it.
  const shut = globs.filter(
    (glob) => !isOpen(glob) && !open.some((one) => matchGlob(glob, judge.sampleOf(one))),
  );
  const without = [...new Set([...shut, ...RECORDS].flatMap(excluded))];
  if (judge.folder('') !== 'none') return ok([...given, ...without]);
  const paths = given.map((path) => path.replace(/^(\.\/)+|\/+$/g, ''));
  const refused = paths.find(
    (path) => judge.folder(path) === 'none' && !(open.includes(path) && mayRead(path)),
  );
  if (refused !== undefined) return notHeld(`\`${refused}\` may not be read`);
  if (open.length === 0) return notHeld('no file of the project may be read');
  return ok([
    ...(paths.length > 0
      ? paths.map((path) => magic('top,literal', path))
      : open.map((glob) => magic('top,glob', glob))),
    ...without,
  ]);
}
