// `extends`: the named directive's parts lie below the own ones. What a thread may do and use is never
// inherited: permissions and limits stand in the file that is run.
import { compact, mergeDeep } from '../../base/index.ts';
import type { Directive, DirectiveWorld } from './directive.ts';
import { type Findings, suggestion } from './findings.ts';

const MAX_CHAIN = 16;

type Lookup = (name: string) => Directive | undefined;

function byName<T extends { readonly name: string }>(own: readonly T[], below: readonly T[]): T[] {
  const names = new Set(own.map(({ name }) => name));
  return [...own, ...below.filter(({ name }) => !names.has(name))];
}

/** INVARIANT: permissions, limits and `expose` come from `own` alone. */
function layOver(own: Directive, below: Directive): Directive {
  const isEmpty = own.process.steps.length === 0 && own.process.script === undefined;
  return compact<Directive>({
    ...own,
    description: own.description || below.description,
    category: own.category || below.category,
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
    opaque: [...own.opaque, ...below.opaque],
  });
}

/**
 * The directive with everything it extends laid below it, nearest first. What does not exist and what
 * would go round in a circle is left out; `checkDirective` reports both.
 */
export function resolveExtends(directive: Directive, lookup: Lookup): Directive {
  const seen = new Set([directive.name]);
  let result = directive;
  const queue = [...directive.relationships.extends];
  while (queue.length > 0 && seen.size <= MAX_CHAIN) {
    const next = queue.shift() ?? '';
    if (seen.has(next)) continue;
    seen.add(next);
    const below = lookup(next);
    if (!below) continue;
    result = layOver(result, below);
    queue.unshift(...below.relationships.extends);
  }
  return result;
}

/** Does following `extends` from here lead back to the directive? */
function leadsBack(start: string, name: string, lookup: Lookup): boolean {
  const seen = new Set<string>();
  const queue = [start];
  for (let next = queue.pop(); next !== undefined && seen.size <= 1000; next = queue.pop()) {
    if (next === name) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    queue.push(...(lookup(next)?.relationships.extends ?? []));
  }
  return false;
}

export function checkExtends(
  directive: Directive,
  world: DirectiveWorld,
  findings: Findings,
): void {
  const own = directive.name;
  directive.relationships.extends.forEach((name, index) => {
    const place = directive.places.at(`extends.${index}`);
    if (leadsBack(name, own, (other) => world.directive(other))) {
      const message = `\`${own}\` extends \`${name}\`, which leads back to \`${own}\``;
      findings.error('extends_cycle', place, message);
    } else if (!world.directive(name)) {
      const message = `this directive extends \`${name}\`, which does not exist`;
      const hint = suggestion(name, world.directiveNames());
      findings.error('extends_unknown', place, message, hint);
    }
  });
}
