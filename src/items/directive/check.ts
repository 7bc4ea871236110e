// What is wrong with a directive among the others: hooks that do not exist, tools whose needs it does
// not grant, rights that items of its place may not have.
import { type Diagnostic, nearest } from '../../base/index.ts';
import { checkRights } from './check-rights.ts';
import type { Directive, DirectiveWorld, ParsedDirective, Report } from './directive.ts';
import { checkExtends } from './extends.ts';

export type { DirectiveWorld } from './directive.ts';

function suggestion(name: string, names: Iterable<string>): string | undefined {
  const near = nearest(name, names);
  return near === undefined ? undefined : `did you mean \`${near}\``;
}

function checkHooks(directive: Directive, world: DirectiveWorld, report: Report): void {
  directive.hooks.forEach((hook, index) => {
    if (hook.directive === '') return;
    const place = `hooks.${index}.directive`;
    const target = hook.directive === directive.name ? directive : world.directive(hook.directive);
    if (!target) {
      report(
        'error',
        'hook_directive_unknown',
        place,
        `this hook runs directive \`${hook.directive}\`, which does not exist`,
        suggestion(hook.directive, world.directiveNames()),
      );
    } else if (!target.outputs.some(({ name }) => name === 'action')) {
      report(
        'error',
        'hook_action_missing',
        place,
        `directive \`${hook.directive}\` cannot be a hook: it declares no output \`action\``,
        'add `<action type="string">retry|continue|skip|fail|abort</action>` to its outputs',
      );
    }
  });
}

function checkRelationships(directive: Directive, world: DirectiveWorld, report: Report): void {
  directive.relationships.requires.forEach((name, index) => {
    if (world.directive(name) || world.tool(name).ok) return;
    report(
      'error',
      'requires_unknown',
      `requires.${index}`,
      `this directive requires \`${name}\`, which does not exist`,
      suggestion(name, world.directiveNames()),
    );
  });
}

function checkModel({ model }: Directive, world: DirectiveWorld, report: Report): void {
  if (model?.tier === undefined || world.tiers.includes(model.tier)) return;
  report(
    'error',
    'tier_unknown',
    'model.tier',
    `there is no tier \`${model.tier}\``,
    suggestion(model.tier, world.tiers) ?? `known tiers: ${world.tiers.join(', ')}`,
  );
}

function checkCurrency({ limits }: Directive, world: DirectiveWorld, report: Report): void {
  const currency = limits?.spend_currency;
  if (currency === undefined || world.currencies.includes(currency)) return;
  report(
    'error',
    'currency_unknown',
    'limits.spend',
    `the price table has no rate for \`${currency}\``,
    `it knows ${world.currencies.join(', ') || 'no currency'}; add a rate to .ai/config/pricing.yaml`,
  );
}

/** Checks across items, for a directive with errors of its own too. In file order. */
export function checkDirective(
  parsed: Pick<ParsedDirective, 'directive' | 'draft'> & Partial<ParsedDirective>,
  world: DirectiveWorld,
): Diagnostic[] {
  const directive = parsed.draft ?? parsed.directive;
  if (!directive) return [];
  const { places } = directive;
  const found: Diagnostic[] = [];
  const report: Report = (severity, code, place, message, hint) => {
    const { line, column } = typeof place === 'string' ? places.at(place) : place;
    const text = places.line(line);
    found.push({
      file: places.file,
      line,
      column,
      code,
      severity,
      message,
      ...(hint === undefined ? {} : { hint }),
      ...(text.length > 2000 ? {} : { text }),
    });
  };
  checkModel(directive, world, report);
  checkCurrency(directive, world, report);
  checkHooks(directive, world, report);
  checkRelationships(directive, world, report);
  checkExtends(directive, world, report);
  checkRights(directive, world, report, parsed.diagnostics ?? []);
  return found.sort((a, b) => a.line - b.line || a.column - b.column);
}
