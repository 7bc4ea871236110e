// Reads the small parts of a directive: its name, version, model, title, relations and `expose`.
import { compact, didYouMean } from '../../base/index.ts';
import { templatePaths } from '../../expr/index.ts';
import { exposeProblems, readExposed } from '../expose.ts';
import { NO_VERSION, VERSION } from '../item-kinds.ts';
import type {
  DeviationRules,
  Directive,
  DirectiveModel,
  ExpectedCall,
  Relationships,
} from './directive.ts';
import {
  type Attribute,
  attributeOf,
  type Element,
  elementsOf,
  hasTypo,
  objectOf,
  proseOf,
  readChoice,
  readFlag,
  sourceOf,
} from './element.ts';
import { type Findings, type LazyOffset, quoted } from './findings.ts';
import { reportRetired } from './limits.ts';
import { splitList } from './permissions.ts';

const NAME = /^[a-z][a-z0-9_]*$/;
const MAX_NAME = 59;

/** Returns the file's name without `.md`. Undefined for another type of file. */
const fileStem = (file: string): string | undefined => /([^/\\]+)\.md$/.exec(file)?.[1];

/** Reports a name that is invalid or differs from the name of the file. */
function checkName({ value: name, at }: Attribute, findings: Findings): void {
  if (!NAME.test(name)) {
    const rule =
      'must start with a lower-case letter and contain only lower-case letters, digits and `_`';
    const words = name.toLowerCase().replace(/[^a-z0-9_]+/g, '_');
    const better = words.replace(/^[^a-z]+/, '');
    const hint = NAME.test(better) ? `e.g. ${quoted(better)}` : undefined;
    return findings.error('name_invalid', at, `directive name ${quoted(name)} ${rule}`, hint);
  }
  if (name.length > MAX_NAME) {
    const message = `directive name ${quoted(name)} is longer than ${MAX_NAME} characters`;
    return findings.error('name_invalid', at, message);
  }
  const stem = fileStem(findings.file);
  if (stem === undefined || stem === name) return;
  const message = `the directive is called ${quoted(name)}, but its file ${quoted(`${stem}.md`)}`;
  const hint = `rename the file to ${quoted(`${name}.md`)} or the directive to ${quoted(stem)}`;
  findings.error('name_mismatch', at, message, hint);
}

export function readName(root: Element, findings: Findings): string {
  const attribute = attributeOf(root, 'name');
  if (!attribute) {
    const stem = fileStem(findings.file) ?? 'my_directive';
    const hint = `add ${findings.words.attribute('name', stem)}`;
    if (!hasTypo(root))
      findings.error('name_missing', root.at, 'the directive has no `name`', hint);
    return stem;
  }
  checkName(attribute, findings);
  return attribute.value;
}

export function readVersion(root: Element, findings: Findings): string {
  const attribute = attributeOf(root, 'version');
  if (!attribute) {
    const hint = `add ${findings.words.attribute('version', '1.0.0')}`;
    const message = 'the directive has no `version`';
    if (!hasTypo(root)) findings.error('version_missing', root.at, message, hint);
    return NO_VERSION;
  }
  if (!VERSION.test(attribute.value)) {
    const message = `version ${quoted(attribute.value)} must have the form \`x.y.z\``;
    findings.error('version_invalid', attribute.at, message, 'e.g. `1.0.0`');
  }
  return attribute.value;
}

function readTools(element: Element, findings: Findings): 'native' | undefined {
  const attribute = attributeOf(element, 'tools');
  if (attribute?.value === 'native') return 'native';
  if (!attribute || attribute.value === '') return undefined;
  const message = `\`tools\` is \`${attribute.value}\`, but must be \`native\``;
  findings.error(
    'value_invalid',
    attribute.at,
    message,
    findings.words.attribute('tools', 'native'),
  );
  return undefined;
}

export function readModel(element: Element, findings: Findings): DirectiveModel {
  reportRetired(element, findings);
  const value = (name: string) => attributeOf(element, name)?.value || undefined;
  const model = compact<DirectiveModel>({
    tier: value('tier'),
    model_id: value('model_id'),
    fallback_id: value('fallback_id'),
    tools: readTools(element, findings),
    context: proseOf(element),
  });
  if (model.tier === undefined && model.model_id === undefined && !hasTypo(element)) {
    const { words } = findings;
    const message = `${words.tag('model')} names neither a \`tier\` nor a \`model_id\``;
    const hint = `e.g. ${words.attribute('tier', 'balanced')}`;
    findings.error('model_missing', element.at, message, hint);
  }
  return model;
}

/** Reads a title. `inputs` are the declared inputs, or undefined if an extended directive may declare others. */
export function readTitle(
  element: Element,
  inputs: readonly string[] | undefined,
  findings: Findings,
): string | undefined {
  const { text, offset } = sourceOf(element);
  const paths = new Map(templatePaths(text).map(({ path, offset: at }) => [at, path]));
  for (let at = text.indexOf('${'); at !== -1; at = text.indexOf('${', at + 1)) {
    const [root, name] = paths.get(at) ?? [];
    const isPath = root === 'inputs' && name !== undefined;
    if (isPath && (inputs?.includes(name) ?? true)) continue;
    const message = isPath
      ? `the title names the input ${quoted(name)}, which is not declared`
      : 'a title may contain only paths of `inputs`, such as `${inputs.topic}`';
    const hint = isPath ? didYouMean(name, inputs ?? []) : undefined;
    findings.error('title_invalid', offset(at), message, hint);
  }
  return text === '' ? undefined : proseOf(element);
}

/** Returns the calls in these `expect` elements. */
export function readExpect(
  elements: readonly (Element | undefined)[],
  findings: Findings,
  remember: Remember,
): ExpectedCall[] {
  const expected: ExpectedCall[] = [];
  for (const call of elements.flatMap((element) => (element ? elementsOf(element, 'call') : []))) {
    const tool = attributeOf(call, 'tool')?.value.trim() ?? '';
    const succeeds = readChoice(call, 'succeeds', ['always', 'last'], findings);
    for (const name of ['tool', 'succeeds']) {
      if (attributeOf(call, name)?.value.trim() || hasTypo(call)) continue;
      const hint = `e.g. ${findings.words.attribute(name, name === 'tool' ? 'fs/read_file' : 'last')}`;
      findings.error('expect_incomplete', call.at, `this call has no \`${name}\``, hint);
    }
    if (tool === '' || succeeds === undefined) continue;
    remember(`expect.${expected.length}`, attributeOf(call, 'tool')?.at);
    expected.push({ tool, succeeds });
  }
  return expected;
}

export function readDeviation(element: Element, findings: Findings): DeviationRules {
  return compact<DeviationRules>({
    auto_fix: readFlag(element, 'auto_fix', findings),
    ask_first: readFlag(element, 'ask_first', findings),
    escalate: readFlag(element, 'escalate', findings),
    text: proseOf(element),
  });
}

export function readExpose(element: Element, findings: Findings): Directive['expose'] {
  const settings = objectOf(element);
  for (const { code, message, hint } of exposeProblems('directive', settings)) {
    findings.error(code, element.at, message, hint);
  }
  return readExposed('directive', settings);
}

export function readRelationships(element: Element | undefined, remember: Remember): Relationships {
  const names = (relation: keyof Relationships): string[] => {
    const list = element ? splitList(elementsOf(element, relation)) : [];
    list.forEach(({ at }, index) => remember(`${relation}.${index}`, at.at));
    return list.map(({ text }) => text);
  };
  return {
    requires: names('requires'),
    suggests: names('suggests'),
    extends: names('extends'),
    related: names('related'),
  };
}

/** Stores the location of a part for checks across items. */
export type Remember = (key: string, place: LazyOffset | undefined) => void;
