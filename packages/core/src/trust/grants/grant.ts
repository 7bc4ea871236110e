// Decides whether a grant covers the need of a call. Tokens, ceilings and deny lists use no other
// decision. A form that is not understood is refused.
import { getOwn, lastSegment, matchGlob } from '../../base/index.ts';
import {
  type CapabilityCatalog,
  type CapabilityInfo,
  isNameOrPattern,
  isNamePattern,
  SCOPE_FIELDS,
  type ScopeField,
} from './capability-catalog.ts';
import {
  fieldMatches,
  isAbsolutePath,
  isProtectedPath,
  patternProblem,
  type Stance,
  valueProblem,
} from './scope-match.ts';

/**
 * Globs that narrow a grant. An absent optional field does not narrow. `subtree` is `own` (the thread
 * and its descendants) or `any`.
 */
export type Scope = { [Field in ScopeField]?: string };

export interface Grant {
  capability: string;
  scope?: Scope;
}

/** Returns the globs over paths in these grants, for any right. */
export const grantGlobs = (grants: readonly Grant[]): string[] =>
  grants.flatMap(({ scope }) => scope?.path ?? []);

/** The need of an actual call, with resolved values. */
export interface Need {
  capability: string;
  scope?: Scope;
  /** For `tool.execute`: true if the tool is signed. Absent: false. */
  signed?: boolean;
}

/** Size of the cache of allowed needs, because calls repeat the same few. */
export const MAX_REMEMBERED = 500;

/** Returns a key for caches. INVARIANT: two needs have the same text only if every grant decides both alike. */
export function needText({ capability, scope, signed }: Need): string {
  // Each value begins with its length, so that no value can look like another field.
  let text = `${capability.length} ${capability}${signed === true ? ' signed' : ''}`;
  for (const field in scope) {
    const value: unknown = scope[field as ScopeField];
    const valueText =
      typeof value === 'string' ? `${value.length} ${value}` : JSON.stringify([value]);
    text += ` ${field.length} ${field} ${valueText}`;
  }
  return text;
}

/** Fields that a grant must contain. A missing one is a mistake and does not mean "any value". */
const REQUIRED: ReadonlySet<string> = new Set(['path', 'id', 'subtree']);
/** The only capability whose paths are outside of the project. */
const OUTSIDE = 'project.use';

/** Returns why no grant can cover this need. Undefined if the grants decide. */
export function needProblem(need: Need, catalog: CapabilityCatalog): string | undefined {
  if (!catalog.get(need.capability)) return `\`${need.capability}\` is not a capability`;
  for (const [field, value] of Object.entries(need.scope ?? {})) {
    const problem = valueProblem(field, value);
    if (problem !== undefined) return problem;
  }
  const path = need.scope?.path;
  if (need.capability === 'fs.write' && path !== undefined && isProtectedPath(path)) {
    return '`fs.write` cannot change `.ai`; change items through `execute` with `create`, `update` or `delete`';
  }
  return undefined;
}

/** Returns why the scope of a grant is invalid. `fields` are the fields that it may contain. */
function scopeProblem(
  { capability, scope = {} }: Grant,
  fields: readonly string[],
): string | undefined {
  for (const [field, pattern] of Object.entries(scope)) {
    if (!fields.includes(field)) return `\`${capability}\` has no scope field \`${field}\``;
    const problem = patternProblem(field as ScopeField, pattern);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Returns why a grant in a token is invalid. Undefined for a valid one. */
export function grantProblem(grant: Grant, catalog: CapabilityCatalog): string | undefined {
  const { capability, scope } = grant;
  if (!isNameOrPattern(capability)) return `\`${capability}\` is not a valid name of a capability`;
  const info = isNamePattern(capability) ? undefined : catalog.get(capability);
  if (!info && !isNamePattern(capability)) {
    const near = catalog.suggest(capability);
    return `\`${capability}\` is not a capability${near ? `; did you mean \`${near}\`?` : ''}`;
  }
  const problem = scopeProblem(grant, info ? info.scope : SCOPE_FIELDS);
  if (problem !== undefined) return problem;
  const absent = info?.scope.find((field) => REQUIRED.has(field) && !scope?.[field as ScopeField]);
  if (absent !== undefined) return `\`${capability}\` needs a \`${absent}\``;
  if (capability === OUTSIDE && !isAbsolutePath(scope?.path ?? '')) {
    return `\`${OUTSIDE}\` needs the absolute path of the other project`;
  }
  return undefined;
}

/**
 * Returns the declared names for a pattern. A placeholder is replaced by the pattern's name at its position.
 */
function namesFor(pattern: string, catalog: CapabilityCatalog): string[] {
  const server = (pattern.split('.')[1] ?? '').replaceAll('*', '') || 'x';
  const names = catalog.names().map((name) => name.replace(/<[a-z]+>/, server));
  return names.filter((name) => matchGlob(pattern, name));
}

/** Returns why an entry of a ceiling never matches a call. Undefined if it can. */
export function ceilingProblem(grant: Grant, catalog: CapabilityCatalog): string | undefined {
  const { capability } = grant;
  const isPattern = isNamePattern(capability);
  const names = isPattern ? namesFor(capability, catalog) : [capability];
  const infos = names.flatMap((name) => catalog.get(name) ?? []);
  if (!isNameOrPattern(capability) || infos.length === 0) {
    const near = catalog.suggest(capability);
    return `\`${capability}\` is not a capability${near ? `; did you mean \`${near}\`?` : ''}`;
  }
  const fields = infos.flatMap((info) => info.scope);
  return scopeProblem(grant, fields);
}

/** Returns all needs of a call: a path outside of the project also needs the right to leave it. */
export function companionsOf(need: Need): Need[] {
  const path = need.scope?.path;
  const leaves = path !== undefined && need.capability !== OUTSIDE && isAbsolutePath(path);
  return leaves ? [need, { capability: 'fs.absolute' }] : [need];
}

/** True for a right that a project's item may not declare. */
export function isSystemGrant(grant: Grant, catalog: CapabilityCatalog): boolean {
  const { capability, scope } = grant;
  const outside = scope?.path !== undefined && isAbsolutePath(scope.path);
  return (
    catalog.isSystem(capability) || (outside && capability !== OUTSIDE) || scope?.subtree === 'any'
  );
}

function patternCovers(pattern: string, info: CapabilityInfo, stance: Stance): boolean {
  if (!isNamePattern(pattern) || !isNameOrPattern(pattern)) return false;
  // INVARIANT: a wildcard never gives a system-only capability; in a denial it does match one.
  return (stance === 'deny' || info.tier !== 'system') && matchGlob(pattern, info.name);
}

/** True if the grant omits an optional field, which then covers every value. */
function isOpen(grant: Grant, field: ScopeField, value: unknown, stance: Stance): boolean {
  // All threads need an explicit grant.
  if (field === 'subtree' && value === 'any') return false;
  return stance === 'ceiling' || !REQUIRED.has(field) || isNamePattern(grant.capability);
}

/** True if this grant covers this valid need, without implied capabilities. */
function covers(grant: Grant, need: Need, catalog: CapabilityCatalog, stance: Stance): boolean {
  const inDoubt = stance === 'deny';
  const info = catalog.get(need.capability);
  if (!info) return inDoubt;
  const { capability } = grant;
  if (capability !== info.name) {
    if (!capability.includes('*') || !patternCovers(capability, info, stance)) return false;
  }
  for (const field in grant.scope) if (!info.scope.includes(field)) return inDoubt;
  for (const name of info.scope) {
    const field = name as ScopeField;
    const [pattern, value] = [getOwn(grant.scope, field), getOwn(need.scope, field)];
    if (pattern === undefined) {
      if (inDoubt || isOpen(grant, field, value, stance)) continue;
      return false;
    }
    if (typeof pattern !== 'string' || typeof value !== 'string') {
      if (inDoubt) continue;
      return false;
    }
    // An invalid glob is literal. A literal allows less than a glob, but it may not weaken a denial.
    if (inDoubt && patternProblem(field, pattern) !== undefined) continue;
    if (!fieldMatches(field, pattern, value, need.signed === true, stance)) return false;
  }
  return true;
}

/**
 * True if one of these grants covers a valid need. A capability that implies the needed one on the same
 * scope is sufficient: the right to write includes the right to read.
 */
export function grantsCover(
  grants: readonly Grant[],
  need: Need,
  catalog: CapabilityCatalog,
  stance: 'grant' | 'ceiling' = 'grant',
): boolean {
  for (const grant of grants) if (covers(grant, need, catalog, stance)) return true;
  return catalog.impliedBy(need.capability).some((capability) => {
    const wider = { ...need, capability };
    return (
      needProblem(wider, catalog) === undefined &&
      grants.some((grant) => covers(grant, wider, catalog, stance))
    );
  });
}

/** True if these grants cover a need that may be invalid. An invalid need is never covered. */
export const grantsAllow = (
  grants: readonly Grant[],
  need: Need,
  catalog: CapabilityCatalog,
): boolean => needProblem(need, catalog) === undefined && grantsCover(grants, need, catalog);

/** True if this entry of a deny list removes the needed right. True in doubt. */
export const grantDenies = (entry: Grant, need: Need, catalog: CapabilityCatalog): boolean =>
  needProblem(need, catalog) !== undefined || covers(entry, need, catalog, 'deny');

/** True if the grant gives this capability with any scope. */
export function grantHolds(
  grant: Grant,
  capability: string,
  catalog: CapabilityCatalog,
  stance: Stance = 'grant',
): boolean {
  const names = stance === 'deny' ? [capability] : [capability, ...catalog.impliedBy(capability)];
  return names.some((name) => {
    const info = catalog.get(name);
    const { capability: pattern } = grant;
    return info !== undefined && (pattern === info.name || patternCovers(pattern, info, stance));
  });
}

const shownTool = (id: string): string => (/[*?]/.test(id) ? id : lastSegment(id));

/**
 * Returns the name that conditions use: `tool.bash` for the right to call `shell/bash`, else the capability.
 */
export function grantName(grant: Grant): string {
  const id = grant.scope?.id;
  return grant.capability === 'tool.execute' && id !== undefined
    ? `tool.${shownTool(id)}`
    : grant.capability;
}
