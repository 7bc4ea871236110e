// Reads permissions, and writes them in both forms for hints and for printed directives.
import { compact, globProblem } from '../../base/index.ts';
import {
  type CategoryFilter,
  FILTER_LISTS,
  formatPermission,
  PERMISSION_FIELDS,
  type Permission,
  type Permissions,
  permissionFor,
  type Scope,
} from '../../trust/index.ts';
import {
  attributeOf,
  childOf,
  type Element,
  elementsOf,
  hasTypo,
  proseOf,
  readChoice,
  readFlag,
} from './element.ts';
import { type Findings, type Form, quoted } from './findings.ts';

/** Returns a scalar that YAML parses as this text. */
const yamlText = (text: string): string =>
  /^[A-Za-z_][\w/.-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off)$/i.test(text)
    ? text
    : JSON.stringify(text);

function permissionText(permission: Permission, form: Form): string {
  if (form === 'xml') return formatPermission(permission);
  const fields = PERMISSION_FIELDS.flatMap((name) => {
    const value = permission[name];
    return value === undefined ? [] : [`${name}: ${yamlText(value)}`];
  });
  return `- ${permission.verb}: { ${fields.join(', ')} }`;
}

/** Returns the line for `<permissions>` that grants this capability. Undefined if no line can. */
export function grantLine(
  capability: string,
  form: Form,
  endpoint?: Pick<Scope, 'host' | 'method'>,
): string | undefined {
  if (capability === 'spawn.thread') {
    return form === 'xml'
      ? '<orchestration enabled="true"/>'
      : '- orchestration: { enabled: true }';
  }
  const permission = permissionFor({ capability, scope: { path: '**', ...endpoint } });
  return permission && permissionText(permission, form);
}

/** Attributes that must be valid globs. `trust` decides which grants the entries give. */
const GLOBS = ['path', 'id'] as const;

/** Returns the entries of lists such as `a,b` and `a, b` in one or several tags. */
export const splitList = (elements: readonly Element[]): { text: string; at: Element }[] =>
  elements.flatMap((element) =>
    proseOf(element)
      .split(/[,\s]+/)
      .filter((text) => text !== '')
      .map((text) => ({ text, at: element })),
  );

/** Returns the missing part of a permission, with a valid one as an example. Undefined for a complete one. */
function shapeProblem(permission: Permission): [message: string, example: Permission] | undefined {
  const { verb, resource, path, id, action } = permission;
  if (resource === '') {
    return ['has no `resource`', { verb, resource: 'filesystem', path: 'src/**' }];
  }
  if (resource === 'filesystem' && path === undefined) {
    return ['for the filesystem has no `path`', { ...permission, path: 'src/**' }];
  }
  if (resource === 'tool' && id === undefined && action === undefined) {
    return ['for a tool has no `id`', { ...permission, id: 'shell/bash' }];
  }
  return undefined;
}

function readEntry(element: Element, findings: Findings): Permission {
  const value = (name: string): string | undefined =>
    attributeOf(element, name)?.value.trim() || undefined;
  const permission = compact<Permission>({
    verb: element.name as Permission['verb'],
    ...Object.fromEntries(PERMISSION_FIELDS.map((name) => [name, value(name)])),
    resource: value('resource') ?? '',
    ...findings.position(element.at),
  });
  const problem = hasTypo(element) ? undefined : shapeProblem(permission);
  if (problem) {
    const [lack, example] = problem;
    const hint = `e.g. \`${permissionText(example, findings.words.form)}\``;
    const message = `this ${quoted(element.name)} permission ${lack}`;
    findings.error('permission_invalid', element.at, message, hint);
    return permission;
  }
  for (const name of GLOBS) {
    const glob = permission[name];
    // Another check, which has the level of the item, checks paths out of the project.
    const isOutside = name === 'path' && permission.resource === 'project';
    const wrong = glob === undefined || isOutside ? undefined : globProblem(glob);
    if (wrong === undefined) continue;
    const place = attributeOf(element, name)?.at ?? element.at;
    findings.error('glob_invalid', place, `\`${name}\` ${quoted(glob as string)} ${wrong}`);
    return permission;
  }
  return permission;
}

function readFilter(element: Element, findings: Findings): CategoryFilter {
  const filter: CategoryFilter = {};
  for (const name of FILTER_LISTS) {
    const elements = elementsOf(element, name);
    if (elements.length === 0) continue;
    const entries = splitList(elements);
    for (const { text, at } of entries) {
      const wrong = globProblem(text);
      if (wrong !== undefined) findings.error('glob_invalid', at.at, `${quoted(text)} ${wrong}`);
    }
    filter[name] = entries.map(({ text }) => text);
  }
  return filter;
}

export function readPermissions(element: Element, findings: Findings): Permissions {
  const { words } = findings;
  const entries = elementsOf(element)
    .filter(({ name }) => name === 'read' || name === 'write' || name === 'execute')
    .map((entry) => readEntry(entry, findings));
  const orchestration = childOf(element, 'orchestration');
  if (orchestration && !attributeOf(orchestration, 'enabled') && !hasTypo(orchestration)) {
    const message = `${words.tag('orchestration')} has no \`enabled\``;
    const hint = `add ${words.attribute('enabled', 'true')} or ${words.attribute('enabled', 'false')}`;
    findings.error('permission_invalid', orchestration.at, message, hint);
  }
  const filterOf = (name: string): CategoryFilter | undefined => {
    const child = childOf(element, name);
    return child && readFilter(child, findings);
  };
  return compact<Permissions>({
    entries,
    orchestration: orchestration && {
      enabled: readFlag(orchestration, 'enabled', findings) ?? false,
      ...readFilter(orchestration, findings),
    },
    knowledge: filterOf('knowledge'),
    directives: filterOf('directives'),
    untrusted: readChoice(element, 'untrusted', ['show', 'reference'], findings),
  });
}
