// Writes a task as a plan: its steps as statements of a script, in order and without branches. The
// plan names a value of an answer by its expected position, because the planner does not see the
// answer.
import type { Json } from '@kernmantle/core/base';
import type { UserTask } from './cases.ts';
import type { Path } from './sources.ts';
import { asAnswer } from './sources.ts';
import { build, pickFor, type TaskStep } from './steps.ts';
import { literal } from './variants.ts';

const fieldText = (path: Path): string =>
  path
    .map((step) =>
      typeof step === 'number'
        ? `[${step}]`
        : /^[A-Za-z_]\w*$/.test(step)
          ? `.${step}`
          : `[${JSON.stringify(step)}]`,
    )
    .join('');

interface PlanPorts {
  idOf(tool: string): string;
}

/** Returns the name of an answer in the plan. Undefined if its step failed and will not run again. */
type NameOf = (step: string) => string | undefined;

/** Returns the statements for one step. Undefined if a value that it needs is missing. */
function statementsFor(
  step: TaskStep,
  task: UserTask,
  nameOf: NameOf,
  { idOf }: PlanPorts,
): string[] | undefined {
  const before: string[] = [];
  let isWhole = true;
  const field = (call: number, path: Path): string => {
    const name = nameOf(`u${call}`);
    if (name === undefined) isWhole = false;
    const pick = pickFor(task, call, path);
    if (!pick) return `${name}${fieldText(path)}`;
    const picked = `@p_${step.id}_${before.length}`;
    const { list, where, is, rest } = pick;
    const from = `${name}${fieldText(list)}`;
    before.push(
      `var ${picked} = @tool("read/pick", { "from": ${from}, "where": ${literal(where)}, "is": ${literal(is)}, "contains": true })`,
    );
    return `${picked}.found[0]${fieldText(rest)}`;
  };
  if (step.kind === 'reading') {
    const from = field(step.call, step.path);
    const question = `{ "from": ${from}, "what": ${literal(step.what)}, "schema": ${literal(step.schema)} }`;
    return isWhole
      ? [...before, `var @${step.id} = @tool("read/extract", ${question})`]
      : undefined;
  }
  const reads = [...step.reads];
  const parameters = Object.entries(step.given).map(([name, argument]) => {
    const value = build<string>(argument, {
      literal,
      field,
      reading() {
        const read = nameOf(reads.shift() ?? '');
        if (read === undefined) isWhole = false;
        return `${read}.result`;
      },
      list: (items) => `[${items.join(', ')}]`,
      record: (fields) =>
        `{ ${fields.map(([key, one]) => `${JSON.stringify(key)}: ${one}`).join(', ')} }`,
    });
    return `${JSON.stringify(name)}: ${value}`;
  });
  const call = `var @${step.id} = @tool("${idOf(step.tool)}", { ${parameters.join(', ')} })`;
  return isWhole ? [...before, call] : undefined;
}

/** Returns the statement for the final answer: the recorded text and a field of the last result. */
function answerText(task: UserTask, nameOf: NameOf): string {
  const finalText = literal(task.answer === '' ? 'done' : task.answer);
  const last = task.calls.findLastIndex(({ result }) => result !== null);
  const name = last === -1 ? undefined : nameOf(`u${last}`);
  const answer: Json = asAnswer(task.calls[last]?.result ?? null);
  const [field] = Object.keys(answer);
  if (name === undefined || field === undefined) return `return { answer: ${finalText} }`;
  return `return { answer: \`@said ${name}${fieldText([field])}\` }`.replace(
    '@said',
    finalText.slice(1, -1),
  );
}

/** Returns a plan for all steps except those in `done` and `failed`. */
export function planText(
  steps: readonly TaskStep[],
  task: UserTask,
  done: ReadonlyMap<string, string>,
  failed: ReadonlySet<string>,
  ports: PlanPorts,
): string {
  const names = new Map(done);
  const nameOf: NameOf = (step) => names.get(step);
  const lines = steps.flatMap((step) => {
    if (done.has(step.id) || failed.has(step.id)) return [];
    const statements = statementsFor(step, task, nameOf, ports);
    if (statements) names.set(step.id, `@${step.id}`);
    return statements ?? [];
  });
  return [...lines, answerText(task, nameOf)].join('\n');
}
