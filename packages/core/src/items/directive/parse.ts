// Parses the text of a file as a directive and reports every problem that needs no other item.
import { compact, hasErrors } from '../../base/index.ts';
import { blankSignatureLine } from '../signature-line.ts';
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
import { createFindings, type Findings, type LazyOffset } from './findings.ts';
import { readGoal, readGuards, readHooks } from './hooks.ts';
import { readLimits, reportCost } from './limits.ts';
import { findAnother, type Located, locateDirective, textAround } from './locate.ts';
import { readMarkup } from './markup.ts';
import {
  type Remember,
  readDeviation,
  readExpect,
  readExpose,
  readModel,
  readName,
  readRelationships,
  readTitle,
  readVersion,
} from './metadata.ts';
import { readPermissions } from './permissions.ts';
import { readProcess } from './process.ts';
import { survey } from './survey.ts';
import { readYaml } from './yaml.ts';

const MAX_LENGTH = 8 * 1024 * 1024;

interface DirectiveSource {
  readonly root: Element;
  readonly around: string;
}

const NO_DIRECTIVE = {
  directive_missing: [
    'directive not found in this file',
    'write `<directive name="…" version="1.0.0">…</directive>`, or front matter with `name` and `version`',
  ],
  front_matter_unclosed: [
    'the front matter that starts here has no end',
    'add a line `---` after the front matter',
  ],
} as const;

/** Reads the directive in either form. Undefined, after a report, for a file without one. */
function readSource(located: Located, findings: Findings): DirectiveSource | undefined {
  const { text } = findings;
  if (located.form === 'none') {
    const [message, hint] = NO_DIRECTIVE[located.problem];
    return findings.error(located.problem, located.at, message, hint);
  }
  const { root, end } =
    located.form === 'xml'
      ? readMarkup(text, located.start, findings)
      : { root: readYaml(located.start, located.end, findings), end: located.after };
  const another = findAnother(text, end);
  if (another !== undefined) {
    const message = 'a file may contain one directive, and this is a second one';
    findings.error('directive_extra', another, message, 'move it into a file of its own');
  }
  return { root, around: textAround(text, located.lead, end) };
}

/** Stores the locations that checks across items need. */
function rememberPlaces(metadata: Element | undefined, remember: Remember): void {
  const title = childOf(metadata, 'title');
  remember('title', title && (() => sourceOf(title).offset(0)));
  const permissions = childOf(metadata, 'permissions');
  for (const use of ['orchestration', 'directives'] as const) {
    for (const list of ['allow_directives', 'deny_directives'] as const) {
      remember(`${use}.${list}`, childOf(childOf(permissions, use), list)?.at);
    }
  }
  remember('model', childOf(metadata, 'model')?.at);
  remember('model.tier', attributeOf(childOf(metadata, 'model'), 'tier')?.at);
  const spend = childOf(childOf(metadata, 'limits'), 'spend');
  remember('limits.spend', attributeOf(spend, 'currency')?.at ?? spend?.at);
  const hooks = childOf(metadata, 'hooks');
  (hooks ? elementsOf(hooks, 'hook') : []).forEach((hook, index) => {
    const target = childOf(hook, 'directive');
    const when = childOf(hook, 'when');
    remember(`hooks.${index}.when`, when ? () => sourceOf(when).offset(0) : hook.at);
    remember(`hooks.${index}.directive`, target ? () => sourceOf(target).offset(0) : hook.at);
  });
}

function build({ root, around }: DirectiveSource, findings: Findings): Directive {
  const { text: content, file, words } = findings;
  const locations = new Map<string, LazyOffset>();
  const remember: Remember = (key, place) => {
    if (place !== undefined) locations.set(key, place);
  };
  const places: DirectivePlaces = {
    at: (key) => locations.get(key) ?? root.at,
    findings: () => createFindings(content, file, words.form, Number.POSITIVE_INFINITY),
  };
  const metadata = childOf(root, 'metadata');
  /** Reads a part of the directive. Undefined if the part is absent. */
  const read = <T>(element: Element | undefined, how: (part: Element, into: Findings) => T) =>
    element && how(element, findings);
  const part = (name: string) => childOf(metadata, name);
  const text = (name: string) => proseOf(part(name));
  rememberPlaces(metadata, remember);
  read(part('cost'), reportCost);
  const [inputs, outputs] = [childOf(root, 'inputs'), childOf(root, 'outputs')];
  const declared = read(inputs, readInputs) ?? [];
  const relationships = readRelationships(part('relationships'), remember);
  const names = relationships.extends.length > 0 ? undefined : declared.map(({ name }) => name);
  const returned = read(outputs, readOutputs) ?? [];
  const hooks = read(part('hooks'), readHooks) ?? [];
  // A directive that this one extends can declare more outputs and hooks.
  const isWhole = relationships.extends.length === 0;
  const goalContext = {
    outputs: isWhole && returned.length > 0 ? returned.map(({ name }) => name) : undefined,
    hasHooks: !isWhole || hooks.length > 0,
  };
  return compact<Directive>({
    name: readName(root, findings),
    version: readVersion(root, findings),
    description: text('description'),
    category: text('category'),
    author: text('author') || undefined,
    title: read(part('title'), (element, into) => readTitle(element, names, into)),
    model: read(part('model'), readModel),
    limits: read(part('limits'), readLimits),
    permissions: read(part('permissions'), readPermissions),
    hooks,
    guards: read(part('guards'), readGuards) ?? [],
    relationships,
    deviation_rules: read(part('deviation_rules'), readDeviation),
    expose: read(part('expose'), readExpose),
    inputs: declared,
    process: read(childOf(root, 'process'), readProcess) ?? { mode: 'free', steps: [] },
    outputs: returned,
    success: outcomeText(outputs, 'success'),
    failure: outcomeText(outputs, 'failure'),
    context: objectOf(childOf(root, 'context')),
    success_criteria: elementsOf(childOf(root, 'success_criteria') ?? root, 'criterion').map(
      proseOf,
    ),
    goal: read(childOf(root, 'success_criteria'), (part, into) =>
      readGoal(part, goalContext, into),
    ),
    expect: readExpect([part('expect'), childOf(root, 'expect')], findings, remember),
    opaque: elementsOf(root)
      .filter(({ name }) => /^(template|example|raw)$/.test(name))
      .map((element) => ({ tag: element.name, text: proseOf(element) })),
    around,
    places,
  });
}

/** Returns the texts whose placeholders are filled with inputs, with the location of each character. */
function filledTexts(root: Element) {
  const steps = elementsOf(childOf(root, 'process') ?? root, 'step');
  const parts = steps.flatMap((step) => [
    step,
    ...elementsOf(step).filter(({ name }) => /^(description|action|condition)$/.test(name)),
  ]);
  return parts.map(sourceOf);
}

/** Parses a directive and collects every problem. Never throws. With an error the result has no `directive`. */
export function parseDirective(content: string, file: string): ParsedDirective {
  if (content.length > MAX_LENGTH) {
    const findings = createFindings('', file);
    findings.error('too_large', 0, `a directive may be at most ${MAX_LENGTH} characters long`);
    return { diagnostics: findings.list() };
  }
  const text = blankSignatureLine(content);
  const located = locateDirective(text);
  const findings = createFindings(text, file, located.form === 'yaml' ? 'yaml' : 'xml');
  const nul = text.indexOf('\0');
  if (nul !== -1) findings.error('nul_byte', nul, 'the file has a NUL byte, so it is not text');
  const source = readSource(located, findings);
  if (!source) return { diagnostics: findings.list() };
  survey(source.root, findings);
  const draft = build(source, findings);
  if (draft.relationships.extends.length === 0) {
    const names = draft.inputs.map(({ name }) => name);
    reportUnknownInputs(filledTexts(source.root), names, findings);
  }
  const diagnostics = findings.list();
  return hasErrors(diagnostics) ? { draft, diagnostics } : { directive: draft, draft, diagnostics };
}
