// Matches one scope field against the actual value of a call. Values are resolved (real path, host of
// the request, full tool id). A value that is not in its normal form is refused and never repaired, so
// that the rule and the operating system cannot interpret it differently.
import { globProblem, lastSegment, matchGlob } from '../../base/index.ts';
import type { ScopeField } from './capability-catalog.ts';

/**
 * `grant` gives a right, `ceiling` caps one, `deny` removes one. Patterns that allow match narrowly;
 * patterns that deny match widely.
 */
export type Stance = 'grant' | 'ceiling' | 'deny';

const MAX_VALUE = 4096;
export const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const CONTROL = /[\u0000-\u001f\u007f]/;

/** True for absolute paths of any system. No relative path has such a form. */
export const isAbsolutePath = (path: string): boolean => /^([/\\]|~(\/|$)|[A-Za-z]:)/.test(path);

/** True if no part is empty, `.` or `..`. */
const isNormal = (path: string): boolean => !/(?:^|\/)\.{0,2}(?:\/|$)/.test(path);

const isNormalPath = (path: string): boolean =>
  path === '.' || isNormal(path.startsWith('/') ? path.slice(1) : path);

/**
 * INVARIANT: a write never reaches a folder called `.ai`, whatever the glob: items, keys, policies and
 * records change only through their own operations. Spellings that some file systems treat as `.ai`
 * (case, trailing dots and blanks, invisible characters, streams, short names) count too.
 */
export function isProtectedPath(path: string): boolean {
  return path.split('/').some((part) => {
    const plain = part
      .replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, '')
      .toLowerCase();
    return /^\.ai[. ]*(:.*)?$/.test(plain) || /^ai~\d+$/.test(plain);
  });
}

const plainHost = (host: string): string =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

/** Returns why a value of an actual call cannot be matched. Undefined for a valid one. */
export function valueProblem(field: string, value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return `\`${field}\` must be a text`;
  if (value.length > MAX_VALUE) return `\`${field}\` is longer than ${MAX_VALUE} characters`;
  if (CONTROL.test(value)) return `\`${field}\` contains a control character`;
  switch (field) {
    case 'path':
      return isNormalPath(value) ? undefined : `path \`${value}\` is not in its normal form`;
    case 'id':
      return isNormal(value) ? undefined : `id \`${value}\` is not in its normal form`;
    case 'host':
      return /^[a-z0-9._:-]+$/.test(plainHost(value))
        ? undefined
        : `\`${value}\` is not a host name`;
    case 'method':
      return /^[A-Za-z]+$/.test(value) ? undefined : `\`${value}\` is not a method`;
    case 'subtree':
      return value === 'own' || value === 'any' ? undefined : '`subtree` must be `own` or `any`';
    default:
      return `\`${field}\` is not a field of a scope`;
  }
}

/** Returns why a pattern in a grant is invalid. Undefined for a valid one. */
export function patternProblem(field: ScopeField, pattern: unknown): string | undefined {
  if (typeof pattern !== 'string') return `\`${field}\` must be a text`;
  if (field === 'path' && pattern.includes('\\')) return `path \`${pattern}\` must use \`/\``;
  const glob = globProblem(pattern);
  if (glob !== undefined) return `${field} \`${pattern}\` ${glob}`;
  switch (field) {
    case 'path':
      return isNormalPath(pattern)
        ? undefined
        : `path \`${pattern}\` may not end in \`/\` or contain empty or \`.\` segments`;
    case 'id':
      return isNormal(pattern) ? undefined : `id \`${pattern}\` may not contain empty segments`;
    case 'host':
      return /^[a-z0-9._:*?-]+$/.test(plainHost(pattern))
        ? undefined
        : `host \`${pattern}\` must be a host name or a glob of one, in ASCII and without a path`;
    case 'method':
      return HTTP_METHODS.some((method) => matchGlob(pattern.toUpperCase(), method))
        ? undefined
        : `method \`${pattern}\` must be one of ${HTTP_METHODS.join(', ')}`;
    case 'subtree':
      return valueProblem('subtree', pattern);
  }
}

function matchPath(glob: string, path: string, stance: Stance): boolean {
  if (isAbsolutePath(glob) !== isAbsolutePath(path)) return false;
  const [pattern, text] =
    stance === 'deny' ? [glob.toLowerCase(), path.toLowerCase()] : [glob, path];
  if (text !== '.') return matchGlob(pattern, text);
  // Only a pattern for every depth covers the root itself; `*` does not.
  return pattern === '.' || (/^\*\*(\/|$)/.test(pattern) && matchGlob(pattern, ''));
}

/** Tools that act below the harness. A permission must name them, because no glob matches them. */
const NAMED_ONLY = new Set(['threads/safety_harness', 'threads/spawn_thread']);

function matchToolId(pattern: string, id: string, signed: boolean, stance: Stance): boolean {
  const isBare = !pattern.includes('/');
  if (stance === 'deny') {
    const [glob, text] = [pattern.toLowerCase(), id.toLowerCase()];
    return matchGlob(glob, text) || (isBare && matchGlob(glob, lastSegment(text)));
  }
  // A person can add an unsigned tool with any last segment, but a full id is unique.
  const matchesLast = isBare && signed && matchGlob(pattern, lastSegment(id));
  if (!/[*?]/.test(pattern)) return pattern === id || (stance === 'ceiling' && matchesLast);
  if (stance === 'grant' && NAMED_ONLY.has(id)) return false;
  return isBare ? matchesLast : matchGlob(pattern, id);
}

/** True if the pattern covers the value. Both must have passed their checks. */
export function fieldMatches(
  field: ScopeField,
  pattern: string,
  value: string,
  signed: boolean,
  stance: Stance,
): boolean {
  switch (field) {
    case 'path':
      return matchPath(pattern, value, stance);
    case 'id':
      return matchToolId(pattern, value, signed, stance);
    case 'host':
      return matchGlob(plainHost(pattern), plainHost(value));
    case 'method':
      return matchGlob(pattern.toUpperCase(), value.toUpperCase());
    case 'subtree':
      // Denying `any` leaves `own`; granting it gives both.
      return pattern === value || (pattern === 'any' && stance !== 'deny');
  }
}
