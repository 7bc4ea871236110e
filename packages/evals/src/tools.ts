// Creates the tools of a suite as program tools: the metadata describes them, and they return the
// recorded answers.
import {
  isObject,
  type Json,
  type JsonObject,
  jsonEqual,
  setOwn,
  textAt,
} from '@kernmantle/core/base';
import type { ProgramTool } from '@kernmantle/core/kernel';
import type { RecordedCall, Suite, SuiteTool } from './cases.ts';
import type { FactsBy, ToolFacts } from './metadata.ts';
import type { Play } from './play.ts';

const plainName = (name: string): string => name.toLowerCase().replace(/[^a-z0-9_-]+/g, '_');

/** Returns the id of a tool of the suite in the project. */
export const toolId = (suite: string, tool: string): string =>
  `${plainName(suite)}/${plainName(tool)}`;

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array'] as const;

interface Declared {
  type: (typeof TYPES)[number] | 'any';
  required: boolean;
  description: string;
  items?: JsonObject;
  role?: string;
  kind?: string;
}

function declaredParameters({ parameters }: SuiteTool, facts: ToolFacts): Record<string, Declared> {
  const { properties, required } = parameters;
  const needed = Array.isArray(required) ? required : [];
  const declared: Record<string, Declared> = {};
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    const present = isObject(schema) ? schema : {};
    const type = TYPES.find((one) => one === present.type) ?? 'any';
    const { role, kind } = facts.parameters[name] ?? {};
    declared[name] = {
      type,
      required: needed.includes(name),
      description: textAt(present, 'description'),
      ...(type === 'array' && isObject(present.items) && { items: present.items }),
      ...(role && { role }),
      ...(kind !== undefined && { kind }),
    };
  }
  return declared;
}

/** Returns the recorded answer to this call, or else to another call of the same tool. */
function answerTo(calls: readonly RecordedCall[], tool: string, args: JsonObject): Json {
  const same = calls.filter((call) => call.tool === tool);
  return (same.find((call) => jsonEqual(call.args, args)) ?? same[0])?.result ?? null;
}

/** Returns the arguments without those that are null. */
export function withoutNothing(args: JsonObject): JsonObject {
  const present: JsonObject = {};
  for (const [name, value] of Object.entries(args))
    if (value !== null) setOwn(present, name, value);
  return present;
}

/** Returns all tools of a suite. `current` returns the run that a call belongs to. */
export function programTools(suite: Suite, factsBy: FactsBy, current: () => Play): ProgramTool[] {
  return suite.tools.map((tool) => {
    const facts = factsBy(tool.name);
    return {
      id: toolId(suite.name, tool.name),
      description: tool.description,
      parameters: declaredParameters(tool, facts),
      effect: facts.effect,
      risk: facts.risk,
      result: facts.result,
      directory: facts.directory,
      run(parameters, { idempotencyKey = '' }) {
        const { executions, task, injection } = current();
        const args = withoutNothing(parameters);
        executions.push({ key: idempotencyKey, tool: tool.name, args });
        return answerTo([...task.calls, ...(injection?.calls ?? [])], tool.name, args);
      },
    };
  });
}
