// Reads `<process>`, which contains steps for a model or one script for the interpreter.
import { compact } from '../../base/index.ts';
import type { DirectiveProcess, DirectiveScript, Step } from './directive.ts';
import {
  attributeOf,
  childOf,
  dedent,
  type Element,
  elementsOf,
  hasTypo,
  proseOf,
  readChoice,
  sourceOf,
  textIn,
} from './element.ts';
import { type Findings, quoted } from './findings.ts';

const MODES = ['free', 'plan'] as const;
const OPAQUE = ['template', 'example', 'raw'];

const textOf = (element: Element | undefined): string | undefined => proseOf(element) || undefined;

/** Returns the content of an opaque element as it is written. */
const verbatim = (element: Element): string =>
  element.yaml ? `\n${textIn(element)}\n` : textIn(element);

/** Returns a step's own text, including its opaque parts. Undefined if it is empty. */
function stepText(step: Element): string | undefined {
  const parts = step.children.flatMap((child) => {
    if (child.kind === 'text') return [child.text];
    return OPAQUE.includes(child.name) ? [verbatim(child)] : [];
  });
  return dedent(parts.join(''), step.yaml === true) || undefined;
}

function readStep(step: Element, findings: Findings): Step {
  const name = attributeOf(step, 'name')?.value.trim() ?? '';
  if (name === '' && !hasTypo(step)) {
    const hint = `add ${findings.words.attribute('name', 'verify')}`;
    findings.error('step_name_missing', step.at, 'this step has no name', hint);
  }
  return compact<Step>({
    name,
    description: textOf(childOf(step, 'description')),
    action: textOf(childOf(step, 'action')),
    condition: textOf(childOf(step, 'condition')),
    text: stepText(step),
  });
}

function readScript(script: Element, findings: Findings): DirectiveScript {
  const { offset } = sourceOf(script);
  const text = proseOf(script);
  if (text === '') findings.error('script_empty', script.at, 'the script is empty');
  return { text, ...findings.position(offset(0)) };
}

export function readProcess(element: Element, findings: Findings): DirectiveProcess {
  const steps = elementsOf(element, 'step');
  const script = childOf(element, 'script');
  if (script && steps[0]) {
    const message = 'a process is either steps or one script, not both';
    const hint = 'move the steps into the script, or the script into a directive of its own';
    findings.error('process_mixed', script.at, message, hint);
  }
  const mode = readChoice(element, 'mode', MODES, findings) ?? 'free';
  if (script && mode === 'plan') {
    const message = 'the mode `plan` has no effect on a script';
    findings.warning('process_mode', script.at, message, 'remove the mode');
  }
  const names = new Set<string>();
  const read = steps.map((step) => {
    const value = readStep(step, findings);
    if (value.name !== '' && names.has(value.name)) {
      findings.warning('step_duplicate', step.at, `two steps are called ${quoted(value.name)}`);
    }
    names.add(value.name);
    return value;
  });
  return compact<DirectiveProcess>({
    mode,
    steps: read,
    script: script && readScript(script, findings),
  });
}
