// Calls the file functions in a test project.
import type { JsonObject, Outcome } from '@kernmantle/core/base';
import { fileFunctions } from '../../packages/core/src/kernel/file-tools/file-tools.ts';
import type {
  PrimitiveCall,
  PrimitiveResult,
  Verifier,
} from '../../packages/core/src/kernel/primitive.ts';

export async function callFileTool(
  projectRoot: string,
  name: string,
  parameters: JsonObject,
  verify: Verifier,
  signal: AbortSignal = new AbortController().signal,
  more: Pick<PrimitiveCall, 'holds'> = {},
): Promise<Outcome<PrimitiveResult>> {
  const tool = {
    id: `fs/${name}`,
    dir: '',
    source: 'bundle' as const,
    requires: [],
    effect: 'read' as const,
    sandbox: 'workspace' as const,
    env: [],
  };
  const run = fileFunctions[name];
  if (!run) throw new Error(`no function ${name}`);
  const rest = { config: {}, sinks: [], projectRoot, timeoutMs: 1000, secrets: [] };
  return await run({ tool, parameters, verify, signal, ...rest, ...more });
}

export function goodOutput(
  result: Outcome<PrimitiveResult>,
): PrimitiveResult & { output: JsonObject } {
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return result.output as PrimitiveResult & { output: JsonObject };
}
