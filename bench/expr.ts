// Measures hook conditions, which every checkpoint of every thread evaluates. The reference is the fastest CEL
// interpreter on npm, with the same condition in its own syntax and the same context.
import { type CompiledExpression, compileExpression } from '@kernmantle/core/expr';
import { parse } from '@marcbachmann/cel-js';
import { type BenchRow, race } from './row.ts';

const OURS =
  'event.name == "error" and event.code in ["timeout", "rate_limit"] and cost.turns < limits.turns * 0.9 and "fs.write" in permissions.granted and not (directive.name == "deploy") and cost.spend <= 2.5';
const THEIRS =
  'event.name == "error" && event.code in ["timeout", "rate_limit"] && cost.turns < limits.turns * 0.9 && "fs.write" in permissions.granted && !(directive.name == "deploy") && cost.spend <= 2.5';

const CONTEXT = {
  event: { name: 'error', code: 'rate_limit', detail: { message: 'slow down' } },
  cost: { turns: 8.5, tokens: 1200, spend: 0.75 },
  limits: { turns: 12.5, tokens: 20_000 },
  permissions: { granted: ['fs.read', 'net.http', 'fs.write'], required: ['fs.write'] },
  directive: { name: 'review', version: '1.0.0', inputs: {} },
};

const EVALUATIONS = 200_000;
const PARSES = 10_000;

function compiled(): CompiledExpression {
  const expression = compileExpression(OURS);
  if (!expression.ok) throw new Error(expression.error.detail.message);
  return expression.output;
}

function checkAgreement(): void {
  const ours = compiled().test(CONTEXT);
  if (!ours.ok || !ours.output || parse(THEIRS)(CONTEXT) !== true) {
    throw new Error('the two conditions do not agree, so their times mean nothing');
  }
}

/** Returns the runs per CPU second in thousands, for `count` runs in `micros`. */
const rate = (micros: number, count: number): number => Math.round((count / micros) * 1000);

function row(name: string, ours: number, base: number, count: number, atLeast: number): BenchRow {
  const ratio = base / ours;
  return {
    name,
    ours: rate(ours, count),
    base: rate(base, count),
    ratio,
    unit: 'thousand per CPU second',
    target: `at least ${atLeast}x cel-js`,
    ok: ratio >= atLeast,
  };
}

export async function bench(): Promise<BenchRow[]> {
  checkAgreement();
  const expression = compiled();
  const cel = parse(THEIRS);
  const times = await race({
    ours: () => {
      for (let i = 0; i < EVALUATIONS; i++) expression.test(CONTEXT);
    },
    cel: () => {
      for (let i = 0; i < EVALUATIONS; i++) cel(CONTEXT);
    },
    oursWhole: () => {
      for (let i = 0; i < PARSES; i++) compiled().test(CONTEXT);
    },
    celWhole: () => {
      for (let i = 0; i < PARSES; i++) parse(THEIRS)(CONTEXT);
    },
  });
  const { ours = 0, cel: theirs = 0, oursWhole = 0, celWhole = 0 } = times;
  return [
    row('six-term condition: evaluate', ours, theirs, EVALUATIONS, 3),
    row('six-term condition: parse and evaluate', oursWhole, celWhole, PARSES, 1),
  ];
}
