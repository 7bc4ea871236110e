// From the text of a file to a directive, with everything that can be said about it on its own.
import { compact, hasErrors } from '../../base/index.ts';
import { blankSignatureLine } from '../signature.ts';
import type { Directive, DirectivePlaces, ParsedDirective } from './directive.ts';
import {
  attributeOf,
  childOf,
  type Element,
  elementsOf,
  objectOf,
  proseOf,
  sourceOf,
} from './element.ts';
import { outcomeText, readInputs, readOutputs, reportUnknownInputs } from './fields.ts';
import { createFindings, type Findings, type Form, type Place, WORDS } from './findings.ts';
import { readGuards, readHooks } from './hooks.ts';
import { readLimits, reportCost } from './limits.ts';
import { findAnother, locateDirective, textAround } from './locate.ts';
import { readMarkup } from './markup.ts';
import {
  type Remember,
  readDeviation,
  readExpose,
  readModel,
  readName,
  readRelationships,
  readVersion,
} from './metadata.ts';
import { readPermissions } from './permissions.ts';
import { readProcess } from './process.ts';
import { survey } from './survey.ts';
import { readYaml } from './yaml.ts';

const MAX_LENGTH = 8 * 1024 * 1024;

interface Source {
  readonly root: Element;
  readonly form: Form;
  readonly around: string;
}

function reportAnother(text: string, from: number, findings: Findings): void {
  const at = findAnother(text, from);
  if (at === undefined) return;
  findings.error(
    'directive_extra',
    at,
    'a file holds one directive; this is a second one',
    'move it into a file of its own',
  );
}

/** Finds the directive in either form; undefined when there is none. */
function readSource(text: string, findings: Findings): Source | undefined {
  const located = locateDirective(text);
  if (located.form === 'xml') {
    const { root, end } = readMarkup(text, located.start, findings);
    reportAnother(text, end, findings);
    return { root, form: 'xml', around: textAround(text, located.lead, end) };
  }
  if (located.form === 'yaml') {
    const root = readYaml(text, located.start, located.end, findings);
    reportAnother(text, located.after, findings);
    return { root, form: 'yaml', around: textAround(text, located.lead, located.after) };
  }
  if (located.problem === 'missing') {
    findings.error(
      'directive_missing',
      located.at,
      'this file holds no directive',
      'write `<directive name="…" version="1.0.0">…</directive>`, or front matter with `name` and `version`',
    );
  } else {
    findings.error(
      'front_matter_unclosed',
      located.at,
      'the front matter that starts here has no end',
      'add a line `---` after it',
    );
  }
  return undefined;
}

/** Places that checks across items will need. */
function rememberPlaces(root: Element, metadata: Element | undefined, remember: Remember): void {
  remember('name', attributeOf(root, 'name')?.at);
  const model = childOf(metadata, 'model');
  for (const name of ['tier', 'fallback_id'])
    remember(`model.${name}`, attributeOf(model, name)?.at);
  const spend = childOf(childOf(metadata, 'limits'), 'spend');
  remember('limits.spend', attributeOf(spend, 'currency')?.at ?? spend?.at);
  remember('permissions', childOf(metadata, 'permissions')?.at);
  const hooks = childOf(metadata, 'hooks');
  (hooks ? elementsOf(hooks, 'hook') : []).forEach((hook, index) => {
    const target = childOf(hook, 'directive');
    remember(`hooks.${index}.directive`, target ? () => sourceOf(target).offset(0) : hook.at);
  });
}

function build({ root, form, around }: Source, findings: Findings): Directive {
  const words = WORDS[form];
  const known = new Map<string, Place>();
  const remember: Remember = (key, place) => {
    if (place !== undefined) known.set(key, place);
  };
  const places: DirectivePlaces = {
    file: findings.file,
    form,
    at: (key) => findings.position(known.get(key) ?? root.at),
    line: (number) => findings.line(number),
  };
  const metadata = childOf(root, 'metadata');
  const part = (name: string) => childOf(metadata, name);
  const text = (name: string) => proseOf(part(name));
  rememberPlaces(root, metadata, remember);
  const cost = part('cost');
  if (cost) reportCost(cost, findings, words);
  const [inputs, outputs] = [childOf(root, 'inputs'), childOf(root, 'outputs')];
  return compact<Directive>({
    name: readName(root, findings, words),
    version: readVersion(root, findings, words),
    description: text('description'),
    category: text('category'),
    author: text('author') || undefined,
    model: readModel(part('model'), findings, words),
    limits: readLimits(part('limits'), findings, words),
    permissions: readPermissions(part('permissions'), findings, words),
    hooks: readHooks(part('hooks'), findings, words),
    guards: readGuards(part('guards'), findings),
    relationships: readRelationships(part('relationships'), remember),
    deviation_rules: readDeviation(part('deviation_rules'), findings),
    expose: readExpose(part('expose'), findings),
    inputs: readInputs(inputs, findings, words),
    process: readProcess(childOf(root, 'process'), findings, words),
    outputs: readOutputs(outputs, findings, words),
    success: outcomeText(outputs, 'success'),
    failure: outcomeText(outputs, 'failure'),
    context: objectOf(childOf(root, 'context')),
    success_criteria: elementsOf(childOf(root, 'success_criteria') ?? root, 'criterion').map(
      proseOf,
    ),
    opaque: elementsOf(root)
      .filter(({ name }) => /^(template|example|raw)$/.test(name))
      .map((element) => ({ tag: element.name, text: proseOf(element) })),
    around,
    places,
  });
}

/** Texts in which inputs are filled in, with the place of each character. */
function filledTexts(root: Element): { text: string; place: (index: number) => number }[] {
  const steps = elementsOf(childOf(root, 'process') ?? root, 'step');
  const parts = steps.flatMap((step) => [
    step,
    ...elementsOf(step).filter(({ name }) => /^(description|action|condition)$/.test(name)),
  ]);
  return parts.map((element) => {
    const { text, offset } = sourceOf(element);
    return { text, place: offset };
  });
}

/** Never throws. Every mistake is collected; `directive` is there when none of them is an error. */
export function parseDirective(content: string, file: string): ParsedDirective {
  if (content.length > MAX_LENGTH) {
    const findings = createFindings('', file);
    findings.error('too_large', 0, `a directive may be at most ${MAX_LENGTH} characters long`);
    return { diagnostics: findings.list() };
  }
  const text = blankSignatureLine(content);
  const findings = createFindings(text, file);
  const nul = text.indexOf('\0');
  if (nul !== -1) findings.error('nul_byte', nul, 'the file holds a NUL byte; is it really text');
  const source = readSource(text, findings);
  if (!source) return { diagnostics: findings.list() };
  survey(source.root, findings, WORDS[source.form]);
  const draft = build(source, findings);
  if (draft.relationships.extends.length === 0) {
    reportUnknownInputs(
      filledTexts(source.root),
      draft.inputs.map(({ name }) => name),
      findings,
    );
  }
  const diagnostics = findings.list();
  return hasErrors(diagnostics) ? { draft, diagnostics } : { directive: draft, draft, diagnostics };
}
