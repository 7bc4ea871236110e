// Converts the `<permissions>` of a directive to the rights of a token: grants, and lists over categories
// and names.
import { globProblem, type Outcome } from '../../base/index.ts';
import type { CapabilityCatalog } from './capability-catalog.ts';
import type { Grant } from './grant.ts';
import { type CategoryFilter, FILTER_LISTS, type ItemFilters } from './item-filter.ts';
import { mapPermission, type Permission, type PermissionWorld } from './permission-map.ts';

export interface Permissions {
  entries: Permission[];
  orchestration?: CategoryFilter & { enabled: boolean };
  knowledge?: CategoryFilter;
  directives?: CategoryFilter;
  /** How threads of the directive read untrusted text: as it is (default), or as references to it. */
  untrusted?: 'show' | 'reference';
}

interface PermissionProblem {
  permission: Permission;
  code: string;
  message: string;
  hint?: string;
}

export interface GrantedRights {
  grants: Grant[];
  /** Lists over categories and names for the token. */
  filters: ItemFilters;
  /** Maximum number of calls by full tool id, in the thread and its descendants. */
  uses: Record<string, number>;
  problems: PermissionProblem[];
}

const ORCHESTRATION_TOOLS = [
  'thread_directive',
  'wait_thread',
  'wait_all',
  'read_transcript',
  'inject_message',
  'pause_thread',
  'resume_thread',
  'terminate_thread',
];

const ORCHESTRATION: readonly Grant[] = [
  { capability: 'spawn.thread' },
  { capability: 'kernel.execute' },
  { capability: 'thread.read', scope: { subtree: 'own' } },
  { capability: 'thread.control', scope: { subtree: 'own' } },
  ...ORCHESTRATION_TOOLS.map((name) => ({
    capability: 'tool.execute',
    scope: { id: `threads/${name}` },
  })),
];

function filtersOf(permissions: Permissions): ItemFilters {
  const { orchestration, knowledge, directives } = permissions;
  const { enabled: _, ...spawnLists } = orchestration ?? { enabled: false };
  return {
    ...(Object.keys(spawnLists).length > 0 && { spawn: spawnLists }),
    ...(knowledge && { knowledge }),
    ...(directives && { directives }),
  };
}

function filterProblems(filters: ItemFilters): PermissionProblem[] {
  return Object.entries(filters).flatMap(([use, filter]: [string, CategoryFilter]) =>
    FILTER_LISTS.flatMap((list) => filter[list] ?? []).flatMap((glob) => {
      const problem = globProblem(glob);
      if (problem === undefined) return [];
      const resource = use === 'spawn' ? 'orchestration' : use;
      const permission: Permission = { verb: 'read', resource };
      const message = `\`${glob}\` in \`<${resource}>\` ${problem}`;
      return [{ permission, code: 'permission_invalid', message }];
    }),
  );
}

/** Stores the maximum number of calls. Returns a problem if another line has a different one. */
function countUses(
  { uses: count }: Permission,
  [grant]: readonly Grant[],
  uses: Map<string, number>,
): string | undefined {
  const id = grant?.scope?.id;
  if (count === undefined || id === undefined) return undefined;
  const before = uses.get(id) ?? Number(count);
  if (before !== Number(count)) {
    return `\`${id}\` has \`uses="${before}"\` in another line, and \`uses="${count}"\` here`;
  }
  uses.set(id, before);
  return undefined;
}

/**
 * Returns the rights of a directive's permissions. An entry with a problem grants nothing, and its problem
 * is part of the result. `projectRoot` is the base of `../other` in a project permission.
 */
export function grantsFromPermissions(
  permissions: Permissions,
  catalog: CapabilityCatalog,
  resolveToolId: (bare: string) => Outcome<string>,
  projectRoot?: string,
): GrantedRights {
  const world: PermissionWorld = { catalog, resolveToolId, projectRoot };
  // Every directive may read knowledge. A list that narrows it is a filter.
  const grants: Grant[] = [{ capability: 'knowledge.read' }];
  const filters = filtersOf(permissions);
  const problems = filterProblems(filters);
  const uses = new Map<string, number>();
  let orchestrates = permissions.orchestration?.enabled === true;
  for (const permission of permissions.entries) {
    const mapped = mapPermission(permission, world);
    if (Array.isArray(mapped)) {
      const twice = countUses(permission, mapped, uses);
      if (twice === undefined) grants.push(...mapped);
      else problems.push({ permission, code: 'permission_invalid', message: twice });
    } else if (mapped !== 'orchestration') {
      problems.push({ code: 'permission_invalid', ...mapped, permission });
    } else if (permissions.orchestration?.enabled === false) {
      const message = '`spawn` contradicts `<orchestration enabled="false">`, which wins';
      problems.push({ permission, code: 'permission_invalid', message });
    } else orchestrates = true;
  }
  if (orchestrates) grants.push(...ORCHESTRATION);
  const unique = new Map(grants.map((grant) => [JSON.stringify(grant), grant]));
  return {
    grants: [...unique.values()],
    filters,
    uses: Object.fromEntries(uses),
    problems,
  };
}
