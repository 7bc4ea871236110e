// Applies `extends`: a directive without a part uses that part of the directive that it extends. Permissions
// and limits are never inherited, so the executed file must contain them.
import { compact, didYouMean, mergeDeep } from '../../base/index.ts';
import type { Directive, DirectiveWorld } from './directive.ts';
import { type Findings } from './findings.ts';

const MAX_CHAIN = 16;
const MAX_LINEAGE = 1000;

type Lookup = (name: string) => Directive | undefined;

function byName<T extends { readonly name: string }>(own: readonly T[], below: readonly T[]): T[] {
  const names = new Set(own.map(({ name }) => name));
  return [...own, ...below.filter(({ name }) => !names.has(name))];
}

/** INVARIANT: permissions, limits and `expose` always come from `own` alone. */
function layOver(own: Directive, below: Directive): Directive {
  const isEmpty = own.process.steps.length === 0 && own.process.script === undefined;
  return compact<Directive>({
    ...own,
    description: own.description || below.description,
    category: own.category || below.category,
    title: own.title ?? below.title,
    model: own.model ?? below.model,
    hooks: [...own.hooks, ...below.hooks],
    guards: [...own.guards, ...below.guards],
    deviation_rules: own.deviation_rules ?? below.deviation_rules,
    inputs: byName(own.inputs, below.inputs),
    process: isEmpty ? below.process : own.process,
    outputs: byName(own.outputs, below.outputs),
    success: own.success ?? below.success,
    failure: own.failure ?? below.failure,
    context: mergeDeep(below.context, own.context),
    success_criteria: [...new Set([...own.success_criteria, ...below.success_criteria])],
    goal: {
      ...below.goal,
      ...own.goal,
      criteria: [...(own.goal?.criteria ?? []), ...(below.goal?.criteria ?? [])],
    },
    expect: [...own.expect, ...below.expect],
    opaque: [...own.opaque, ...below.opaque],
  });
}

/** Yields these directives and all that they extend, each once and the nearest first. */
function* lineage(names: readonly string[], lookup: Lookup, most: number) {
  const visited = new Set<string>();
  const queue = [...names];
  for (let name = queue.shift(); name !== undefined && visited.size < most; name = queue.shift()) {
    if (visited.has(name)) continue;
    visited.add(name);
    const found = lookup(name);
    yield { name, found };
    queue.unshift(...(found?.relationships.extends ?? []));
  }
}

/**
 * Returns the directive merged with all directives that it extends, the nearest first. Missing and
 * circular names are left out, because `checkDirective` reports both.
 */
export function resolveExtends(directive: Directive, lookup: Lookup): Directive {
  let result = directive;
  for (const { name, found } of lineage(directive.relationships.extends, lookup, MAX_CHAIN)) {
    if (found && name !== directive.name) result = layOver(result, found);
  }
  return result;
}

export function checkExtends(
  directive: Directive,
  world: DirectiveWorld,
  findings: Findings,
): void {
  const own = directive.name;
  const lookup: Lookup = (name) => world.directive(name);
  directive.relationships.extends.forEach((name, index) => {
    const place = directive.places.at(`extends.${index}`);
    if ([...lineage([name], lookup, MAX_LINEAGE)].some((one) => one.name === own)) {
      const message = `\`${own}\` extends \`${name}\`, which leads back to \`${own}\``;
      findings.error('extends_cycle', place, message);
    } else if (!world.directive(name)) {
      const message = `extended directive \`${name}\` not found`;
      const hint = didYouMean(name, world.directiveNames());
      findings.error('extends_unknown', place, message, hint);
    }
  });
}
