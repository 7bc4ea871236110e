// Whether a plan may be run, and what can be said of it before: the tools it names are permitted, what is
// written out fits their schemas, the outputs are given. What a step will be asked about is told as far
// as it can be known; the rules themselves judge every step when it is done.
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

function misnamed(given: readonly string[], known: readonly string[]): string[] {
  return given
    .filter((name) => !known.includes(name))
    .map((name) => {
      const hint = didYouMean(name, known) ?? `it takes ${known.join(', ') || 'none'}`;
      return `there is no parameter \`${name}\`; ${hint}`;
    });
}

/** What is written out, against what the tool says of it. */
function misfits(step: PlanStep, { schema }: ToolSignature): string[] {
  const known = objectAt(schema, 'properties');
  const others = getOwn(schema, 'additionalProperties');
  const isOpen = (others !== undefined && others !== false) || hasPatterns(schema);
  const given = [...step.parameters.keys()];
  const missing = textsAt(schema, 'required').flatMap((name) =>
    step.parameters.has(name) ? [] : [`\`${name}\` is missing`],
  );
  const wrong = [...step.parameters].flatMap(([name, { literal }]) => {
    const own = getOwn(known, name);
    if (literal === undefined || !isObject(own) || hasPatterns(schema)) return [];
    const alone: JsonObject = { ...schema, required: [], properties: { [name]: own } };
    return validate({ [name]: literal }, alone).map(({ field, error }) => `\`${field}\`: ${error}`);
  });
  const names = isOpen ? [] : misnamed(given, Object.keys(known));
  return [...names, ...missing, ...wrong].map((words) =>
    at(step.line, `\`${step.tool}\`: ${words}`),
  );
}

/** What a policy says to this tool whatever it is given. */
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
  return [at(step.line, `\`${step.tool}\` is none of the tools that may be used${hint}`)];
}

function missingOutputs({ returns }: PlanReading, { outputs }: Directive): string[] {
  const required = outputs.filter((output) => output.required).map(({ name }) => name);
  if (outputs.length === 0) return [];
  const names = outputs.map(({ name }) => name).join(', ');
  if (returns.length === 0) return [`it does not end with \`return\` of the outputs ${names}`];
  const lacking = returns.flatMap((given) =>
    given ? required.filter((name) => !given.includes(name)) : [],
  );
  return [...new Set(lacking)].map((name) => `\`return\` does not give the output \`${name}\``);
}

/** Nothing: it may be run. */
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

/** Tools that answer with data that nobody else wrote, whatever they read. */
const READS = /^read\/(?:extract|pick)$/;

/** Do strangers write what it gives? Of its fields, those that were taken. */
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

/** `given`: the names of variables that a stranger had a hand in. */
function sourceWords(
  ports: CheckPorts,
  steps: readonly PlanStep[],
  given: ReadonlySet<string>,
  from: readonly PlanSource[],
  seen: readonly number[] = [],
): string | undefined {
  for (const source of from) {
    if ('input' in source) {
      if (given.has(source.input)) return `@${source.input}`;
      continue;
    }
    const step = steps[source.step - 1];
    if (!step || seen.includes(step.number)) continue;
    if (isForeign(ports, step.tool, source.fields)) return `what step ${step.number} brings`;
    if (READS.test(step.tool)) continue;
    const made = [...step.parameters.values()].flatMap((parameter) => parameter.from);
    const inner = sourceWords(ports, steps, given, made, [...seen, step.number]);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

const STEERS: ReadonlySet<string | undefined> = new Set(['destination', 'command', 'path']);

function asksOfStep(
  ports: CheckPorts,
  reading: PlanReading,
  given: ReadonlySet<string>,
  step: PlanStep,
): string[] {
  const { links } = linksOf(ports, step.tool);
  const tools = links.flatMap(({ tool }) => tool ?? []);
  const risk = [...new Set(tools.flatMap((tool) => tool.risk))];
  if (risk.length === 0) return [];
  const words = (from: readonly PlanSource[]) => sourceWords(ports, reading.steps, given, from);
  const about = `step ${step.number}, \`${step.tool}\` (line ${step.line}, ${risk.join(', ')})`;
  const branch = words(step.under);
  const asked = branch === undefined ? [] : [`${about} asks a person: ${branch} decides about it`];
  const roles = new Map(tools.flatMap(({ parameters }) => parameters.map((p) => [p.name, p.role])));
  for (const [name, { from }] of step.parameters) {
    const source = STEERS.has(roles.get(name)) ? words(from) : undefined;
    if (source !== undefined) {
      asked.push(`${about} asks a person unless it is known: \`${name}\` is made of ${source}`);
    }
  }
  return asked;
}

/** A policy sends these to a person, whatever they are about. */
function approvedFirst({ library, policies }: CheckPorts, tool: ToolSignature): string | undefined {
  const wanted = new Set<string>(policies().policy.levels.flatMap(({ approve = [] }) => approve));
  const { catalog } = library.capabilities();
  const names = tool.requires.flat();
  return names.find((name) => wanted.has(catalog.get(name)?.tier ?? ''));
}

/** In words, for people: rights, and where somebody will be asked. */
export function planNeeds(
  ports: CheckPorts,
  reading: PlanReading,
  tools: ReadonlyMap<string, ToolSignature>,
  given: ReadonlySet<string>,
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
    ...reading.steps.flatMap((step) => asksOfStep(ports, reading, given, step)),
  ];
}
