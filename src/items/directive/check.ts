// What is wrong with a directive among the others: hooks that do not exist, tools whose needs it does
// not grant, rights that items of its place may not have.
import type { Diagnostic } from '../../base/index.ts';
import { checkRights } from './check-rights.ts';
import type { Directive, DirectiveWorld, ParsedDirective } from './directive.ts';
import { checkExtends } from './extends.ts';
import { type Findings, suggestion } from './findings.ts';

function checkHooks(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  directive.hooks.forEach(({ directive: name }, index) => {
    if (name === '') return;
    const place = directive.places.at(`hooks.${index}.directive`);
    const target = name === directive.name ? directive : world.directive(name);
    if (!target) {
      const message = `this hook runs directive \`${name}\`, which does not exist`;
      const hint = suggestion(name, world.directiveNames());
      findings.error('hook_directive_unknown', place, message, hint);
    } else if (!target.outputs.some((output) => output.name === 'action')) {
      const message = `directive \`${name}\` cannot be a hook: it declares no output \`action\``;
      const hint =
        'add `<action type="string">retry|continue|skip|fail|abort</action>` to its outputs';
      findings.error('hook_action_missing', place, message, hint);
    }
  });
}

function checkRelationships(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  directive.relationships.requires.forEach((name, index) => {
    if (world.directive(name) || world.tool(name).ok) return;
    const place = directive.places.at(`requires.${index}`);
    const message = `this directive requires \`${name}\`, which does not exist`;
    const hint = suggestion(name, world.directiveNames());
    findings.error('requires_unknown', place, message, hint);
  });
}

function checkModel({ model, places }: Directive, { tiers }: DirectiveWorld, findings: Findings) {
  if (model?.tier === undefined || tiers.includes(model.tier)) return;
  const hint = suggestion(model.tier, tiers) ?? `known tiers: ${tiers.join(', ')}`;
  const message = `there is no tier \`${model.tier}\``;
  findings.error('tier_unknown', places.at('model.tier'), message, hint);
}

function checkCurrency(directive: Directive, { currencies }: DirectiveWorld, findings: Findings) {
  const currency = directive.limits?.spend_currency;
  if (currency === undefined || currencies.includes(currency)) return;
  const known = currencies.join(', ') || 'no currency';
  const message = `the price table has no rate for \`${currency}\``;
  const hint = `it knows ${known}; add a rate to .ai/config/pricing.yaml`;
  findings.error('currency_unknown', directive.places.at('limits.spend'), message, hint);
}

/** Checks across items, for a directive with errors of its own too. In file order. */
export function checkDirective(
  parsed: Pick<ParsedDirective, 'directive' | 'draft'> & Partial<ParsedDirective>,
  world: DirectiveWorld,
): Diagnostic[] {
  const directive = parsed.draft ?? parsed.directive;
  if (!directive) return [];
  const findings = directive.places.findings();
  checkModel(directive, world, findings);
  checkCurrency(directive, world, findings);
  checkHooks(directive, world, findings);
  checkRelationships(directive, world, findings);
  checkExtends(directive, world, findings);
  checkRights(directive, world, findings, parsed.diagnostics ?? []);
  return findings.list();
}
