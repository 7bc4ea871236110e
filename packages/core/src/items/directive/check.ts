// Checks a directive together with the other items. It reports missing hooks, tools whose needs the
// directive does not grant, and rights that an item of its level may not have.
import { type Diagnostic, didYouMean, ok } from '../../base/index.ts';
import {
  type Compared,
  comparisonsIn,
  compileExpression,
  templatePaths,
} from '../../expr/index.ts';
import { grantsFromPermissions, missingAtStart } from '../../trust/index.ts';
import { checkRights } from './check-rights.ts';
import type { Directive, DirectiveWorld, ParsedDirective } from './directive.ts';
import { checkExtends, resolveExtends } from './extends.ts';
import { type Findings } from './findings.ts';
import { hookProblems } from './hooks.ts';

function checkHooks(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  const grantsOf = ({ permissions = { entries: [] } }: Directive) =>
    grantsFromPermissions(permissions, world.catalog, (name) => {
      const tool = world.tool(name);
      return tool.ok ? ok(tool.output.id) : tool;
    }).grants;
  directive.hooks.forEach((hook, index) => {
    const { directive: name } = hook;
    if (name === '') return;
    const place = directive.places.at(`hooks.${index}.directive`);
    const hookDirective = name === directive.name ? directive : world.directive(name);
    if (!hookDirective) {
      const ambiguous = world.ambiguous?.(name);
      if (ambiguous !== undefined) {
        const hint = 'write the id of one of them';
        return findings.error('hook_directive_ambiguous', place, ambiguous, hint);
      }
      const message = `directive \`${name}\` of this hook not found`;
      const hint = didYouMean(name, world.directiveNames());
      return findings.error('hook_directive_unknown', place, message, hint);
    }
    const target = resolveExtends(hookDirective, (below) => world.directive(below));
    const { missing } = missingAtStart(grantsOf(target), grantsOf(directive), world.catalog);
    const lacking = target.hooks.length > 0 ? [] : missing;
    for (const { code, message, hint } of hookProblems(hook, target, lacking)) {
      findings.error(code, place, message, hint);
    }
  });
}

/** Limits that are never exceeded. For any other limit a reply may cost more than its reservation. */
const EXACT = ['turns', 'tool_calls', 'spawns'] as const;
const TURNED: Readonly<Record<string, string>> = { '<': '>', '>': '<', '<=': '>=', '>=': '<=' };

/** Returns whether the comparison is always or never true, if `used` is at most `most`. */
function settled(operator: string, value: number, most: number): 'always' | 'never' | undefined {
  if (operator === '>') return value >= most ? 'never' : undefined;
  if (operator === '>=' || operator === '==') return value > most ? 'never' : undefined;
  if (operator === '<') return value > most ? 'always' : undefined;
  return operator === '<=' && value >= most ? 'always' : undefined;
}

/** Returns why a comparison of used and allowed amounts has only one possible result. Else undefined. */
function checkComparison(
  { left, operator, right }: Compared,
  limits: Directive['limits'],
): string | undefined {
  for (const name of EXACT) {
    const [used, allowed] = [`cost.${name}`, `limits.${name}`];
    const isTurned = right === used;
    const [mine, other] = isTurned ? [right, left] : [left, right];
    if (mine !== used) continue;
    const most = limits?.[name];
    const how = isTurned ? (TURNED[operator] ?? operator) : operator;
    const isOwn = other === allowed;
    const verdict = isOwn
      ? settled(how, 1, 1)
      : typeof other === 'number' && most !== undefined && settled(how, other, most);
    if (!verdict) continue;
    const why = isOwn ? `\`${used}\` is never more than its limit` : `\`${name}\` ends at ${most}`;
    return `this comparison is ${verdict} true: ${why}`;
  }
  return undefined;
}

/** Reports conditions with only one possible result, which the author did not intend. */
function checkConditions({ hooks, limits, places }: Directive, findings: Findings): void {
  hooks.forEach(({ when }, index) => {
    const compiled = compileExpression(when);
    if (!compiled.ok) return;
    for (const compared of comparisonsIn(compiled.output)) {
      const message = checkComparison(compared, limits);
      if (message === undefined) continue;
      const hint =
        'use `event.name == "limit"` for a reached limit, or compare with a smaller number';
      findings.warning('condition_settled', places.at(`hooks.${index}.when`), message, hint);
    }
  });
}

function checkRelationships(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  directive.relationships.requires.forEach((name, index) => {
    if (world.directive(name) || world.tool(name).ok) return;
    const place = directive.places.at(`requires.${index}`);
    const message = `required directive or tool \`${name}\` not found`;
    const hint = didYouMean(name, world.directiveNames());
    findings.error('requires_unknown', place, message, hint);
  });
}

/** Warns about a missing tool, which may be added later. Until then a run that expects its call fails. */
function checkExpected(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  directive.expect.forEach(({ tool, succeeds }, index) => {
    if (world.tool(tool).ok) return;
    const then = succeeds === 'last' ? ', so every run ends `failed` now' : '';
    const message = `tool \`${tool}\` not found${then}`;
    const hint = didYouMean(tool, world.toolIds());
    findings.warning('tool_unknown', directive.places.at(`expect.${index}`), message, hint);
  });
}

/** Checks the paths of a title if its inputs may come from extended directives. */
function checkTitle(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  if (directive.title === undefined || directive.relationships.extends.length === 0) return;
  const { inputs } = resolveExtends(directive, (name) => world.directive(name));
  const names = inputs.map(({ name }) => name);
  for (const { path } of templatePaths(directive.title)) {
    const [, name = ''] = path;
    if (names.includes(name)) continue;
    const message = `the title names the input \`${name}\`, which is not declared`;
    findings.error('title_invalid', directive.places.at('title'), message, didYouMean(name, names));
  }
}

/**
 * Warns about a missing directive, which may be added later. Until then its name matches no directive.
 */
function checkLists(directive: Directive, world: DirectiveWorld, findings: Findings): void {
  const { permissions, places } = directive;
  for (const use of ['orchestration', 'directives'] as const) {
    for (const list of ['allow_directives', 'deny_directives'] as const) {
      for (const name of permissions?.[use]?.[list] ?? []) {
        const isKnown =
          world.directive(name) !== undefined || world.ambiguous?.(name) !== undefined;
        if (/[*?]/.test(name) || name === directive.name || isKnown) continue;
        const message = `directive \`${name}\` not found, so its name in \`${list}\` has no effect now`;
        const hint = didYouMean(name, world.directiveNames());
        findings.warning('directive_unknown', places.at(`${use}.${list}`), message, hint);
      }
    }
  }
}

/** Warns only about an id that resembles an existing one, because ids of models are an open set. */
function checkModelId({ model, places }: Directive, world: DirectiveWorld, findings: Findings) {
  for (const field of ['model_id', 'fallback_id'] as const) {
    const id = model?.[field]?.toLowerCase();
    const modelIds = world.models ?? [];
    if (id === undefined || modelIds.some((one) => one.toLowerCase() === id)) continue;
    const hint = didYouMean(id, modelIds);
    const message = `model \`${id}\` not found in any tier, price or provider`;
    if (hint !== undefined) findings.warning('model_unknown', places.at('model'), message, hint);
  }
}

function checkModel({ model, places }: Directive, { tiers }: DirectiveWorld, findings: Findings) {
  if (model?.tier === undefined || tiers.includes(model.tier)) return;
  const tierHint = didYouMean(model.tier, tiers) ?? `use ${tiers.join(', ')}`;
  const hint = `${tierHint}; tiers are defined in \`tiers\` of \`~/.ai/config/models.yaml\``;
  const message = `tier \`${model.tier}\` not found`;
  findings.error('tier_unknown', places.at('model.tier'), message, hint);
}

function checkCurrency(directive: Directive, { currencies }: DirectiveWorld, findings: Findings) {
  const currency = directive.limits?.spend_currency;
  if (currency === undefined || currencies.includes(currency)) return;
  const currencyList = currencies.join(', ') || 'no currency';
  const message = `the price table has no rate for \`${currency}\``;
  const hint = `use ${currencyList}, or add a rate to .ai/config/pricing.yaml`;
  findings.error('currency_unknown', directive.places.at('limits.spend'), message, hint);
}

/** Checks a directive, also one with errors, together with other items. Returns findings in file order. */
export function checkDirective(
  parsed: Pick<ParsedDirective, 'directive' | 'draft'> & Partial<ParsedDirective>,
  world: DirectiveWorld,
): Diagnostic[] {
  const directive = parsed.draft ?? parsed.directive;
  if (!directive) return [];
  const findings = directive.places.findings();
  checkModel(directive, world, findings);
  checkModelId(directive, world, findings);
  checkLists(directive, world, findings);
  checkTitle(directive, world, findings);
  checkExpected(directive, world, findings);
  checkCurrency(directive, world, findings);
  checkHooks(directive, world, findings);
  checkConditions(directive, findings);
  checkRelationships(directive, world, findings);
  checkExtends(directive, world, findings);
  checkRights(directive, world, findings, parsed.diagnostics ?? []);
  return findings.list();
}
