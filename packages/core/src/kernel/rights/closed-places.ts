// Removes closed paths from every right over files, however a path is written: the user's own folder with
// its keys (a project may be the home folder), the project's items, which change only through `execute`,
// and the files of the runtime. File tools, scripts, MCP and, as globs, the sandbox use the same list.
import { hash } from 'node:crypto';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { type Clock, createFreshness, fail, isInside, type Outcome } from '../../base/index.ts';
import { RECORD_NAMES } from '../../items/index.ts';
import type { Authority } from '../call.ts';
import type { Verifier } from '../primitive.ts';
import { realOf } from './project-path.ts';

/** Records in an `.ai` folder are closed to reading too. */
const IN_ITEMS = new RegExp(
  `(?:^|/)\\.ai/(?:${RECORD_NAMES.join('|').replaceAll('.', '\\.')})(?:/|$)`,
  'i',
);
/**
 * Output that did not fit into the result of a call. Only the caller learns its random name. The name
 * contains the thread, so that another thread that learns the name cannot read the file.
 */
const LONG_OUTPUT = /(?:^|\/)outputs\/[0-9a-f]{16}(?:\.([0-9a-f]{16}))?\.(?:stdout|stderr)\.txt$/;

const tagOf = (thread: string | undefined): string =>
  thread === undefined ? '' : hash('sha256', thread).slice(0, 16);

/**
 * Returns the file name for output of a caller's process. Without a thread it belongs to a person or a client.
 */
export const longOutputName = (random: string, thread: string | undefined, stream: string) =>
  `${[random, tagOf(thread), stream].filter((part) => part !== '').join('.')}.txt`;

const isOthersOutput = (path: string, thread: string | undefined): boolean => {
  const match = LONG_OUTPUT.exec(path);
  return match !== null && (match[1] ?? '') !== tagOf(thread);
};

const plain = (path: string): string => path.replaceAll('\\', '/');

/** True for a path that belongs to the runtime in any project. `path` must be free of links. */
export const isProtectedPath = (path: string): boolean =>
  IN_ITEMS.test(plain(path)) && !LONG_OUTPUT.test(plain(path));

/** True if the path itself was refused, not for lack of a right. */
export const isClosed = (answer: Outcome<unknown>): boolean =>
  !answer.ok && answer.error.detail.closed === true;

interface ClosedPlaces {
  project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  home: string;
  /** Text after the path in the refusal of a record. It states how to read the record instead. */
  whyKept: string;
}

const WHY_ITEMS = 'belongs to the items of the project; they change through `execute`';

/**
 * Returns a function that removes the closed paths from every right over files. Their location is read every 20
 * ms at most, because a search checks thousands of files. The same authority gives the same result.
 */
export function createKeepOut(
  { project, home, whyKept }: ClosedPlaces,
  clock: Clock,
): (authority: Authority, thread?: string) => Authority {
  const freshness = createFreshness(clock);
  const listed = { home, items: join(project, '.ai') };
  let real = { home: '', items: '', isHomeNear: true, isUsual: false };
  const cache = new WeakMap<Authority, { thread: string | undefined; made: Authority }>();

  function places() {
    if (freshness.isRecent()) return real;
    freshness.begin();
    // A folder that does not exist yet has no link that leads to it either.
    const now = realOf(listed.home) ?? listed.home;
    const items = realOf(listed.items) ?? listed.items;
    const isHomeNear =
      now === real.home ? real.isHomeNear : isInside(now, project) || isInside(project, now);
    real = { home: now, items, isHomeNear, isUsual: items === listed.items };
    return real;
  }

  function refusal(
    capability: string,
    path: string,
    { filtered = [] }: Authority,
    thread: string | undefined,
  ) {
    const { home: own, items, isHomeNear, isUsual } = places();
    // Scopes of files are relative to the project and free of links.
    const isNear = isHomeNear || !isUsual || isAbsolute(path) || /\.ai(?:\/|$)/i.test(path);
    if (capability === 'fs.read' && !isNear) return undefined;
    const place = resolve(project, path);
    if (isInside(place, own)) return 'is in the folder that holds your keys';
    const isItem = isInside(place, items);
    if (capability === 'fs.write' && isItem) return WHY_ITEMS;
    const within = isItem
      ? `.ai/${plain(relative(items, place))}`
      : plain(relative(project, place));
    if (isProtectedPath(within) || isOthersOutput(within, thread)) return whyKept;
    const folder = isItem ? within.split('/')[1] : undefined;
    return folder !== undefined && filtered.includes(folder)
      ? `contains ${folder} that the lists of the directive exclude; use \`search\` and \`load\``
      : undefined;
  }

  const closed = (filtered: readonly string[]): string[] => {
    const { home: own, items } = places();
    const records = [...RECORD_NAMES, ...filtered].map((name) => join(items, name));
    if (isInside(project, own)) return ['**'];
    return [own, items, ...records]
      .filter((place) => isInside(place, project))
      .flatMap((place) => [relative(project, place), `${relative(project, place)}/**`].map(plain));
  };

  return (authority, thread) => {
    const before = cache.get(authority);
    if (before && before.thread === thread) return before.made;
    const { globs, filtered = [] } = authority;
    const check: Verifier = (need) => {
      const path = need.scope?.path;
      // For reading, the path is checked first: a closed path is closed whatever was granted.
      const answer = need.capability === 'fs.read' ? undefined : authority.check(need);
      if (answer?.ok === false) return answer;
      const reason =
        path !== undefined && need.capability.startsWith('fs.')
          ? refusal(need.capability, path, authority, thread)
          : undefined;
      if (reason === undefined) return answer ?? authority.check(need);
      return fail('permission_denied', `\`${path}\` ${reason}`, {
        // No right reaches the path, so none is missing.
        missing: '',
        rule: 'closed_place',
        attempted: path ?? '',
        closed: true,
      });
    };
    if (globs) check.globs = () => [...globs(), ...closed(filtered)];
    const narrowed: Authority = { ...authority, check, ...(check.globs && { globs: check.globs }) };
    cache.set(authority, { thread, made: narrowed });
    return narrowed;
  };
}
