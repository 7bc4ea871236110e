// What a directive's script came to: its declared outputs, checked, or why there are none.
import { fail, isObject, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Directive, DirectiveItem, Library } from '../items/index.ts';
import { checkOutputs } from '../kernel/index.ts';
import type { ScriptAnswer } from './script-port.ts';

export function scriptOutputs(
  directive: Directive,
  { outputs, fault }: Pick<ScriptAnswer, 'outputs' | 'fault'>,
): Outcome<JsonObject> {
  if (fault) return { ok: false, error: fault };
  if (outputs !== undefined) {
    return isObject(outputs.data)
      ? checkOutputs(directive, outputs.data)
      : fail('invalid_input', `\`/return\` of \`${directive.name}\` gives no object`);
  }
  if (directive.outputs.length === 0) return ok({});
  const names = directive.outputs.map(({ name }) => name).join(', ');
  return fail(
    'invalid_input',
    `the script of \`${directive.name}\` ended without \`/return\`; it declares the outputs ${names}`,
  );
}

/** The file that the script stands in: the directive's own, or one that it extends. */
export function scriptFile(library: Library, item: DirectiveItem, { process }: Directive): string {
  if (item.directive?.process === process) return item.file;
  const owner = library
    .all()
    .find((one) => one.kind === 'directive' && one.directive?.process === process);
  return owner?.file ?? item.file;
}
