// How one field of a scope meets the actual value of a call. Values come resolved (real path, host
// of the request, full tool id); what is not in its one normal form is refused, never repaired, so
// that two spellings of one place cannot be told apart by a rule and confused by the system.
import { globProblem, lastSegment, matchGlob } from '../../base/index.ts';
import type { ScopeField } from './capability-catalog.ts';

/**
 * `grant` gives a right, `ceiling` caps one, `deny` takes one away. What allows matches narrowly,
 * what denies matches widely.
 */
export type Stance = 'grant' | 'ceiling' | 'deny';

const MAX_VALUE = 4096;
export const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Also what is absolute on other systems: no relative path ever looks like this. */
export const isAbsolutePath = (path: string): boolean => /^([/\\]|~(\/|$)|[A-Za-z]:)/.test(path);

/** No part of it is empty, `.` or `..`. */
const isNormal = (path: string): boolean => !/(?:^|\/)\.{0,2}(?:\/|$)/.test(path);

const isNormalPath = (path: string): boolean =>
  path === '.' || isNormal(path.startsWith('/') ? path.slice(1) : path);

/**
 * INVARIANT: no write reaches a folder called `.ai`, whatever the glob: items, keys, policies and
 * records change only through their own doors. Spellings that some file systems take for `.ai`
 * (case, trailing dots and blanks, invisible characters, streams, short names) count as `.ai`.
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

/** Why a value of an actual call cannot be judged; undefined when it can. */
export function valueProblem(field: string, value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return `\`${field}\` must be a text`;
  if (value.length > MAX_VALUE) return `\`${field}\` is longer than ${MAX_VALUE} characters`;
  if (CONTROL.test(value)) return `\`${field}\` holds a control character`;
  switch (field) {
    case 'path':
      return isNormalPath(value) ? undefined : `path \`${value}\` is not in its normal form`;
    case 'id':
      return isNormal(value) ? undefined : `id \`${value}\` is not in its normal form`;
    case 'host':
      return /^[a-z0-9._:-]+$/.test(plainHost(value)) ? undefined : `\`${value}\` is no host name`;
    case 'method':
      return /^[A-Za-z]+$/.test(value) ? undefined : `\`${value}\` is no method`;
    case 'subtree':
      return value === 'own' || value === 'any' ? undefined : '`subtree` must be `own` or `any`';
    default:
      return `\`${field}\` is no field of a scope`;
  }
}

/** Why a pattern in a grant cannot be used; undefined when it can. */
export function patternProblem(field: ScopeField, pattern: unknown): string | undefined {
  if (typeof pattern !== 'string') return `\`${field}\` must be a text`;
  if (field === 'path' && pattern.includes('\\')) return `path \`${pattern}\` must use \`/\``;
  const glob = globProblem(pattern);
  if (glob !== undefined) return `${field} \`${pattern}\` ${glob}`;
  switch (field) {
    case 'path':
      return isNormalPath(pattern)
        ? undefined
        : `path \`${pattern}\` may not end in \`/\` or hold empty or \`.\` segments`;
    case 'id':
      return isNormal(pattern) ? undefined : `id \`${pattern}\` may not hold empty segments`;
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
  // The root itself: only what covers every depth covers it, `*` does not.
  return pattern === '.' || (/^\*\*(\/|$)/.test(pattern) && matchGlob(pattern, ''));
}

/** Tools that act below the harness: a glob never reaches them, a permission must name them. */
const NAMED_ONLY = new Set(['threads/safety_harness', 'threads/spawn_thread']);

function matchToolId(pattern: string, id: string, signed: boolean, stance: Stance): boolean {
  const isBare = !pattern.includes('/');
  if (stance === 'deny') {
    const [glob, text] = [pattern.toLowerCase(), id.toLowerCase()];
    return matchGlob(glob, text) || (isBare && matchGlob(glob, lastSegment(text)));
  }
  // Anyone can add an unsigned tool whose last segment fits; a full id is a place in the project.
  const matchesLast = isBare && signed && matchGlob(pattern, lastSegment(id));
  if (!/[*?]/.test(pattern)) return pattern === id || (stance === 'ceiling' && matchesLast);
  if (stance === 'grant' && NAMED_ONLY.has(id)) return false;
  return isBare ? matchesLast : matchGlob(pattern, id);
}

/** Does the pattern cover the value? Both have passed their problem checks. */
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
      // Taking `any` away leaves `own`; giving it gives both.
      return pattern === value || (pattern === 'any' && stance !== 'deny');
  }
}
