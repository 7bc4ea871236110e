// A scope over the values of one parameter, which a person approves in addition to the displayed value.
// It is a glob over paths of the project, over addresses, or over hosts, with a fixed prefix or owner.
// INVARIANT: a scope only ever contains values in their plain form; an ambiguous value (`..`, two
// addresses in one, credentials before a host) is in no scope.
import { globProblem, type Json, literalPrefix, matchGlob } from '../../base/index.ts';
import { isAbsolutePath, isProtectedPath, valueProblem } from './scope-match.ts';

const [MAX_LENGTH, MAX_VALUES] = [4096, 1000];
const IS_URL = /^[a-z][a-z0-9+.-]*:\/\//i;
const WILD = /[*?]/;

function pathInScope(glob: string, path: string): boolean {
  if (valueProblem('path', path) !== undefined || path.includes('\\')) return false;
  return !isAbsolutePath(path) && !isProtectedPath(path) && matchGlob(glob, path);
}

/** The text and the parsed address must both match the scope. */
function urlInScope(glob: string, text: string): boolean {
  if (/[\s\\]/.test(text) || !URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || url.hostname === '') return false;
  if (IS_URL.test(glob)) return matchGlob(glob, text) && matchGlob(glob, url.href);
  const isPlain = text.toLowerCase().startsWith(`${url.protocol}//${url.host}`);
  return isPlain && matchGlob(glob.toLowerCase(), url.hostname);
}

/** Accepts one address or name, and refuses text that a program might split into two. */
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

/** True if this value of a parameter with this role is in the scope. For a list, every element must be. */
export function valueInScope(role: string, glob: string, value: Json): boolean {
  if (typeof value === 'string') return textInScope(role, glob, value);
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_VALUES) return false;
  return value.every((one) => typeof one === 'string' && textInScope(role, glob, one));
}

/** Fixed parts of a scope that is not too wide: a folder, a host, a domain. */
const PATH_BEGINS = /^[^*?/]+\//;
const URL_BEGINS = /^[a-z][a-z0-9+.-]*:\/\/[^*?/@\\]+\//i;
const HOST_ENDS = /(?:^|\.)[a-z0-9-]+\.[a-z0-9-]+$/i;
const MAIL_ENDS = /@[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i;
const NAME_BEGINS = 3;

function isWide(role: string, glob: string, first: string): string | undefined {
  if (role === 'path') {
    return PATH_BEGINS.test(glob) && !isAbsolutePath(glob)
      ? undefined
      : 'a scope of paths must begin with a folder of the project, e.g. `reports/**`';
  }
  if (IS_URL.test(first)) {
    const says = IS_URL.test(glob) ? URL_BEGINS.test(glob) : HOST_ENDS.test(glob);
    return says
      ? undefined
      : 'a scope of addresses must name a host, e.g. `*.example.com` or `https://api.example.com/v1/**`';
  }
  const says = glob.includes('@')
    ? MAIL_ENDS.test(glob)
    : literalPrefix(glob).length >= NAME_BEGINS;
  return says
    ? undefined
    : 'a scope of names must fix their beginning or their domain, e.g. `team-*` or `*@example.com`';
}

/** Returns why this scope is invalid for the displayed value. Undefined for a valid one. */
export function scopeProblem(role: string, glob: string, value: Json): string | undefined {
  if (role !== 'path' && role !== 'destination') {
    return 'only a path or a destination has a scope';
  }
  const odd = globProblem(glob);
  if (odd !== undefined) return `\`${glob}\` ${odd}`;
  const first = Array.isArray(value) ? value[0] : value;
  const wide = WILD.test(glob) && typeof first === 'string' ? isWide(role, glob, first) : undefined;
  if (wide !== undefined) return `\`${glob}\` is too wide: ${wide}`;
  return valueInScope(role, glob, value)
    ? undefined
    : `\`${glob}\` does not cover the requested value`;
}
