import { fail, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';

/** The smallest script there is, until the language stands: `/return { … }` with inputs put in. */
export function returnScript(text: string, inputs: JsonObject): Outcome<Json> {
  const body = /^\s*\/return\s+(\{[\s\S]*\})\s*$/.exec(text)?.[1];
  if (body === undefined) {
    return fail('hook_failed', 'only scripts of the form `/return { … }` can run in this version');
  }
  const filled = body.replace(/"@(\w+)"/g, (whole, name: string) =>
    Object.hasOwn(inputs, name) ? JSON.stringify(inputs[name]) : whole,
  );
  try {
    return ok(JSON.parse(filled) as Json);
  } catch (error) {
    return fail('hook_failed', `the script's \`/return\` is not JSON: ${(error as Error).message}`);
  }
}
