// Checks whether a plan can run: its tools are permitted, its literal values fit their schemas, and it returns the
// outputs. It also predicts the approval requests of the plan. The rules themselves check every step when it runs.
import {
  didYouMean,
  getOwn,
  isObject,
  type JsonObject,
  objectAt,
  suggestion,
  textsAt,
} from '../../base/index.ts';
import { EMPTY, type Operation } from '../../flow/index.ts';
import type { Directive, ToolItem } from '../../items/index.ts';
import { hasPatterns, type ToolSignature, validate } from '../../kernel/index.ts';
import type { PlanReading, PlanSource, PlanStep } from '../thread/ports.ts';
import type { HarnessPorts } from '../thread/thread.ts';

type CheckPorts = Pick<HarnessPorts, 'library' | 'policies'>;

const at = (line: number, message: string): string => `line ${line}: ${message}`;

function misnamed(names: readonly string[], allowed: readonly string[]): string[] {
  return names
    .filter((name) => !allowed.includes(name))
    .map((name) => {
      const hint = didYouMean(name, allowed) ?? `it takes ${allowed.join(', ') || 'none'}`;
      return `parameter \`${name}\` not found; ${hint}`;
    });
}

/** Returns the problems of the literal values and names of parameters, by the tool's schema. */
function misfits(step: PlanStep, { schema }: ToolSignature): string[] {
  const properties = objectAt(schema, 'properties');
  const others = getOwn(schema, 'additionalProperties');
  const isOpen = (others !== undefined && others !== false) || hasPatterns(schema);
  const present = [...step.parameters.keys()];
  const missing = textsAt(schema, 'required').flatMap((name) =>
    step.parameters.has(name) ? [] : [`\`${name}\` is missing`],
  );
  const wrong = [...step.parameters].flatMap(([name, { literal }]) => {
    const own = getOwn(properties, name);
    if (literal === undefined || !isObject(own) || hasPatterns(schema)) return [];
    const alone: JsonObject = { ...schema, required: [], properties: { [name]: own } };
    return validate({ [name]: literal }, alone).map(({ field, error }) => `\`${field}\`: ${error}`);
  });
  const names = isOpen ? [] : misnamed(present, Object.keys(properties));
  return [...names, ...missing, ...wrong].map((words) =>
    at(step.line, `\`${step.tool}\`: ${words}`),
  );
}

/** Returns the refusals of a tool by policies that hold for all arguments. */
function refusal({ policies, library }: CheckPorts, { tool, line }: PlanStep): string[] {
  const chain = library.chain(tool);
  const links = chain.ok ? chain.output.links : [];
  const op: Operation = {
    type: 'tool',
    name: tool,
    opLabels: [`op:tool:${tool}`],
    risk: [...new Set(links.flatMap((link) => link.tool?.risk ?? []))],
  };
  const found = policies().policy.judge(op, [], [], EMPTY);
  return found.flatMap(({ kind, text }) =>
    kind === 'deny' ? [at(line, `\`${tool}\` is refused by a policy: ${text}`)] : [],
  );
}

function problemsOfStep(
  ports: CheckPorts,
  step: PlanStep,
  tools: ReadonlyMap<string, ToolSignature>,
): readonly string[] {
  const tool = tools.get(step.tool);
  if (tool) return [...misfits(step, tool), ...refusal(ports, step)];
  const hint = suggestion(step.tool, [...tools.keys()]);
  return [at(step.line, `\`${step.tool}\` is not an available tool${hint}`)];
}

function missingOutputs({ returns }: PlanReading, { outputs }: Directive): string[] {
  const required = outputs.filter((output) => output.required).map(({ name }) => name);
  if (outputs.length === 0) return [];
  const names = outputs.map(({ name }) => name).join(', ');
  if (returns.length === 0) return [`it must end with \`return\` of the outputs ${names}`];
  const lacking = returns.flatMap((untrusted) =>
    untrusted ? required.filter((name) => !untrusted.includes(name)) : [],
  );
  return [...new Set(lacking)].map((name) => `\`return\` lacks the output \`${name}\``);
}

/** Returns the problems of a plan. A plan without problems can run. */
export const planProblems = (
  ports: CheckPorts,
  reading: PlanReading,
  tools: ReadonlyMap<string, ToolSignature>,
  directive: Directive,
): string[] =>
  reading.problems.length > 0
    ? reading.problems.map(({ line, message }) => at(line, message))
    : [
        ...reading.steps.flatMap((step) => problemsOfStep(ports, step, tools)),
        ...missingOutputs(reading, directive),
      ];

const linksOf = ({ library }: CheckPorts, id: string): { links: ToolItem[]; primitive: string } => {
  const chain = library.chain(id);
  return chain.ok ? chain.output : { links: [], primitive: '' };
};

/** Tools whose results count as trusted in this check, because they have labels per field. */
const READS = /^read\/(?:extract|pick)$/;

/** True if the result of a tool can be untrusted. `fields`: the parts that are used. Empty: the whole result. */
function isForeign(ports: CheckPorts, id: string, fields: readonly string[]): boolean {
  if (READS.test(id)) return false;
  const { links, primitive } = linksOf(ports, id);
  const tools = links.flatMap(({ tool }) => tool ?? []);
  const theirs = tools.flatMap(({ result }) => [
    ...(result?.free_text ?? []),
    ...(result?.identifiers ?? []),
  ]);
  if (theirs.length > 0 && (fields.length === 0 || fields.some((name) => theirs.includes(name)))) {
    return true;
  }
  const isOutside =
    primitive === 'http_client' ||
    primitive === 'mcp' ||
    tools.some(({ tool_type, labels, result }) => {
      return tool_type === 'mcp_tool' || labels.includes('untrusted') || result?.untrusted === true;
    });
  return isOutside && !ports.policies().policy.trusts(id);
}

/** Returns the name of an untrusted source, or `undefined`. `given`: names of variables with untrusted data. */
function sourceWords(
  ports: CheckPorts,
  steps: readonly PlanStep[],
  untrusted: ReadonlySet<string>,
  from: readonly PlanSource[],
  visited: readonly number[] = [],
): string | undefined {
  for (const source of from) {
    if ('input' in source) {
      if (untrusted.has(source.input)) return `@${source.input}`;
      continue;
    }
    const step = steps[source.step - 1];
    if (!step || visited.includes(step.number)) continue;
    if (isForeign(ports, step.tool, source.fields)) return `the result of step ${step.number}`;
    if (READS.test(step.tool)) continue;
    const sources = [...step.parameters.values()].flatMap((parameter) => parameter.from);
    const inner = sourceWords(ports, steps, untrusted, sources, [...visited, step.number]);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

const STEERS: ReadonlySet<string | undefined> = new Set(['destination', 'command', 'path']);

function asksOfStep(
  ports: CheckPorts,
  reading: PlanReading,
  untrusted: ReadonlySet<string>,
  step: PlanStep,
): string[] {
  const { links } = linksOf(ports, step.tool);
  const tools = links.flatMap(({ tool }) => tool ?? []);
  const risk = [...new Set(tools.flatMap((tool) => tool.risk))];
  if (risk.length === 0) return [];
  const words = (from: readonly PlanSource[]) => sourceWords(ports, reading.steps, untrusted, from);
  const about = `step ${step.number}, \`${step.tool}\` (line ${step.line}, ${risk.join(', ')})`;
  const branch = words(step.under);
  const lines = branch === undefined ? [] : [`${about} asks a person: ${branch} decides about it`];
  const roles = new Map(tools.flatMap(({ parameters }) => parameters.map((p) => [p.name, p.role])));
  for (const [name, { from }] of step.parameters) {
    const source = STEERS.has(roles.get(name)) ? words(from) : undefined;
    if (source !== undefined) {
      lines.push(`${about} asks a person unless it is trusted: \`${name}\` contains ${source}`);
    }
  }
  return lines;
}

/** Returns the capability for which a policy always asks a person, or `undefined` if there is none. */
function approvedFirst({ library, policies }: CheckPorts, tool: ToolSignature): string | undefined {
  const tiers = new Set<string>(policies().policy.levels.flatMap(({ approve = [] }) => approve));
  const { catalog } = library.capabilities();
  const names = tool.requires.flat();
  return names.find((name) => tiers.has(catalog.get(name)?.tier ?? ''));
}

/** Returns texts for people: the tools and rights of a plan, and the steps that will ask a person. */
export function planNeeds(
  ports: CheckPorts,
  reading: PlanReading,
  tools: ReadonlyMap<string, ToolSignature>,
  untrusted: ReadonlySet<string>,
): string[] {
  const used = [...new Set(reading.steps.map(({ tool }) => tool))];
  const rights = new Set(used.flatMap((id) => tools.get(id)?.requires[0] ?? []));
  const approved = reading.steps.flatMap((step) => {
    const tool = tools.get(step.tool);
    const name = tool && approvedFirst(ports, tool);
    return name === undefined
      ? []
      : [`step ${step.number}, \`${step.tool}\` asks a person: ${name}`];
  });
  return [
    ...(used.length > 0 ? [`tools: ${used.join(', ')}`] : []),
    ...(rights.size > 0 ? [`rights: ${[...rights].join(', ')}`] : []),
    ...approved,
    ...reading.steps.flatMap((step) => asksOfStep(ports, reading, untrusted, step)),
  ];
}
