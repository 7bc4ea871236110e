// A scope over the values of one parameter: what a person allows beyond the one value they were shown. It
// is a glob over paths of the project, over addresses, or over hosts, and it says where it begins or whom
// it belongs to. INVARIANT: only values in their one plain form are in a scope; what could be read in two
// ways (`..`, two addresses in one, credentials before a host) is in none.
import { globProblem, type Json, literalPrefix, matchGlob } from '../../base/index.ts';
import { isAbsolutePath, isProtectedPath, valueProblem } from './scope-match.ts';

const [MAX_LENGTH, MAX_VALUES] = [4096, 1000];
const IS_URL = /^[a-z][a-z0-9+.-]*:\/\//i;
const WILD = /[*?]/;

function pathInScope(glob: string, path: string): boolean {
  if (valueProblem('path', path) !== undefined || path.includes('\\')) return false;
  return !isAbsolutePath(path) && !isProtectedPath(path) && matchGlob(glob, path);
}

/** As it is written and as it is understood: whoever is reached must be in both. */
function urlInScope(glob: string, text: string): boolean {
  if (/[\s\\]/.test(text) || !URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || url.hostname === '') return false;
  if (IS_URL.test(glob)) return matchGlob(glob, text) && matchGlob(glob, url.href);
  const isPlain = text.toLowerCase().startsWith(`${url.protocol}//${url.host}`);
  return isPlain && matchGlob(glob.toLowerCase(), url.hostname);
}

/** One address or name: nothing that a program might take for two. */
function nameInScope(glob: string, name: string): boolean {
  const isOne = /^[^\s,;:<>()[\]"'\\|&%]+$/u.test(name) && !/\p{C}/u.test(name);
  return isOne && name.split('@').length <= 2 && matchGlob(glob, name);
}

function textInScope(role: string, glob: string, text: string): boolean {
  if (text === '' || text.length > MAX_LENGTH) return false;
  if (role === 'path') return pathInScope(glob, text);
  if (role !== 'destination') return false;
  return IS_URL.test(text) ? urlInScope(glob, text) : nameInScope(glob, text);
}

/** Is this value of a parameter with this role in the scope? Of a list, every one. */
export function valueInScope(role: string, glob: string, value: Json): boolean {
  if (typeof value === 'string') return textInScope(role, glob, value);
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_VALUES) return false;
  return value.every((one) => typeof one === 'string' && textInScope(role, glob, one));
}

/** Says where: a folder, a host, a domain. */
const PATH_BEGINS = /^[^*?/]+\//;
const URL_BEGINS = /^[a-z][a-z0-9+.-]*:\/\/[^*?/@\\]+\//i;
const HOST_ENDS = /(?:^|\.)[a-z0-9-]+\.[a-z0-9-]+$/i;
const MAIL_ENDS = /@[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i;
const NAME_BEGINS = 3;

function isWide(role: string, glob: string, first: string): string | undefined {
  if (role === 'path') {
    return PATH_BEGINS.test(glob) && !isAbsolutePath(glob)
      ? undefined
      : 'a scope of paths begins with a folder of the project, e.g. `reports/**`';
  }
  if (IS_URL.test(first)) {
    const says = IS_URL.test(glob) ? URL_BEGINS.test(glob) : HOST_ENDS.test(glob);
    return says
      ? undefined
      : 'a scope of addresses names a host, e.g. `*.example.com` or `https://api.example.com/v1/**`';
  }
  const says = glob.includes('@')
    ? MAIL_ENDS.test(glob)
    : literalPrefix(glob).length >= NAME_BEGINS;
  return says
    ? undefined
    : 'a scope of names says how they begin or whose they are, e.g. `team-*` or `*@example.com`';
}

/** Why a person cannot give this scope for the value they were shown; undefined when they can. */
export function scopeProblem(role: string, glob: string, shown: Json): string | undefined {
  if (role !== 'path' && role !== 'destination') {
    return 'only a path or a destination has a scope';
  }
  const odd = globProblem(glob);
  if (odd !== undefined) return `\`${glob}\` ${odd}`;
  const first = Array.isArray(shown) ? shown[0] : shown;
  const wide = WILD.test(glob) && typeof first === 'string' ? isWide(role, glob, first) : undefined;
  if (wide !== undefined) return `\`${glob}\` is too wide: ${wide}`;
  return valueInScope(role, glob, shown)
    ? undefined
    : `\`${glob}\` does not cover what is asked about`;
}
