// Matching in time linear in the line, whoever wrote the pattern. The tree becomes a small program of
// alternatives; sets of its places become the states of an automaton that is built while it is used
// and thrown away when it grows. A budget counts the building, the only part that can cost much.
import { fail, type Outcome, ok } from '../base/index.ts';
import {
  type Assertion,
  type CharacterSet,
  inSet,
  literalPattern,
  type PatternNode,
  pairsOf,
  parsePattern,
} from './builtin-pattern-syntax.ts';

type Instruction =
  | { op: 'set'; set: CharacterSet; classes: Uint8Array }
  | { op: 'assert'; assertion: Assertion }
  | { op: 'split'; targets: number[] }
  | { op: 'jump'; target: number }
  | { op: 'match' };

const MAX_INSTRUCTIONS = 2000;
const MAX_STATES = 1000;
/** Visits of instructions while building states; a search that needs more is given up. */
const BUDGET = 4_000_000;

class TooBig extends Error {}

function compile(tree: PatternNode): Instruction[] {
  const program: Instruction[] = [];
  const add = (instruction: Instruction): number => {
    if (program.length >= MAX_INSTRUCTIONS) throw new TooBig();
    return program.push(instruction) - 1;
  };
  let emitted = 0;
  const emit = (node: PatternNode): void => {
    // Counted apart: a thousand times a thousand times nothing adds no instruction.
    if (++emitted > 10 * MAX_INSTRUCTIONS) throw new TooBig();
    if (node.kind === 'set') add({ op: 'set', set: node.set, classes: new Uint8Array(0) });
    else if (node.kind === 'assert') add({ op: 'assert', assertion: node.assertion });
    else if (node.kind === 'sequence') for (const item of node.items) emit(item);
    else if (node.kind === 'choice') emitChoice(node.items);
    else emitRepeat(node.item, node.min, node.max);
  };
  const emitChoice = (items: PatternNode[]): void => {
    const split = { op: 'split' as const, targets: [] as number[] };
    add(split);
    const jumps = items.map((item) => {
      split.targets.push(program.length);
      emit(item);
      const jump = { op: 'jump' as const, target: 0 };
      add(jump);
      return jump;
    });
    for (const jump of jumps) jump.target = program.length;
  };
  const emitRepeat = (item: PatternNode, min: number, max: number): void => {
    for (let i = 0; i < min; i++) emit(item);
    if (max === Number.POSITIVE_INFINITY) {
      const split = { op: 'split' as const, targets: [] as number[] };
      const start = add(split);
      split.targets.push(program.length);
      emit(item);
      add({ op: 'jump', target: start });
      split.targets.push(program.length);
      return;
    }
    const splits = [];
    for (let i = min; i < max; i++) {
      const split = { op: 'split' as const, targets: [program.length + 1] };
      add(split);
      splits.push(split);
      emit(item);
    }
    for (const split of splits) split.targets.push(program.length);
  };
  emit(tree);
  add({ op: 'match' });
  return program;
}

/** What stands on one side of a place: decides `^ $ \b \B`. */
type Side = 0 | 1 | 2; // nothing, a word character, another character

const isWord = (code: number): boolean =>
  (code >= 48 && code <= 57) ||
  (code >= 65 && code <= 90) ||
  (code >= 97 && code <= 122) ||
  code === 95;

function holds(assertion: Assertion, before: Side, after: Side): boolean {
  if (assertion === 'start') return before === 0;
  if (assertion === 'end') return after === 0;
  return ((before === 1) !== (after === 1)) === (assertion === 'boundary');
}

/** Units that no set of the program tells apart share a class; words and others never do. */
function classify(program: readonly Instruction[]): { classOf: Uint8Array; samples: number[] } {
  const cuts = new Set([0, 48, 58, 65, 91, 95, 96, 97, 123]);
  for (const instruction of program) {
    if (instruction.op !== 'set') continue;
    for (const [low, high] of pairsOf(instruction.set)) cuts.add(low).add(high + 1);
  }
  const starts = [...cuts].filter((cut) => cut <= 0xffff).sort((a, b) => a - b);
  const sets = program.filter((instruction) => instruction.op === 'set');
  const classOf = new Uint8Array(0x10000);
  const samples: number[] = [];
  const known = new Map<string, number>();
  for (const [index, start] of starts.entries()) {
    const member = sets.map(({ set }) => (inSet(set, start) ? '1' : '0')).join('');
    const key = member + (isWord(start) ? 'w' : 'o');
    const id = known.get(key) ?? known.size;
    if (id === known.size) {
      if (id > 255) throw new TooBig();
      known.set(key, id);
      samples.push(start);
    }
    classOf.fill(id, start, starts[index + 1] ?? 0x10000);
  }
  for (const instruction of sets) {
    instruction.classes = Uint8Array.from(samples, (code) =>
      inSet(instruction.set, code) ? 1 : 0,
    );
  }
  return { classOf, samples };
}

/** One state: places in the program where the next character may continue, and what came before. */
interface State {
  places: number[];
  before: Side;
  /** By class; null = a match is already complete before that character. Absent = not built. */
  next: (State | null | undefined)[];
  atEnd: boolean | undefined;
}

export interface Matcher {
  /** Undefined when the budget is used up. */
  matches(line: string): boolean | undefined;
}

function createAutomaton(program: readonly Instruction[]): Matcher {
  const { classOf, samples } = classify(program);
  let states = new Map<string, State>();
  let budget = BUDGET;
  const mark = new Uint32Array(program.length);
  let visit = 0;

  /** The places reachable without reading, between what came before and what comes next. */
  const closure = (from: readonly number[], before: Side, after: Side): number[] | 'match' => {
    visit++;
    const [stack, reached] = [[...from], [] as number[]];
    while (stack.length > 0) {
      const at = stack.pop() as number;
      if (mark[at] === visit) continue;
      mark[at] = visit;
      budget--;
      const instruction = program[at] as Instruction;
      if (instruction.op === 'match') return 'match';
      if (instruction.op === 'set') reached.push(at);
      else if (instruction.op === 'split') stack.push(...instruction.targets);
      else if (instruction.op === 'jump') stack.push(instruction.target);
      else if (holds(instruction.assertion, before, after)) stack.push(at + 1);
    }
    return reached;
  };
  const stateFor = (places: number[], before: Side): State => {
    const sorted = places.sort((a, b) => a - b);
    const key = `${before}:${sorted.join()}`;
    const found = states.get(key);
    if (found) return found;
    if (states.size >= MAX_STATES) states = new Map(); // old ones live as long as a line holds them
    const state = { places: sorted, before, next: [], atEnd: undefined };
    states.set(key, state);
    return state;
  };
  const step = (state: State, id: number): State | null => {
    const after: Side = isWord(samples[id] as number) ? 1 : 2;
    // A match may start anywhere: place 0 is tried again before every character.
    const here = closure([0, ...state.places], state.before, after);
    if (here === 'match') return null;
    const on = here.filter((at) => (program[at] as { classes: Uint8Array }).classes[id] === 1);
    return stateFor(
      on.map((at) => at + 1),
      after,
    );
  };

  return {
    matches(line) {
      let state = stateFor([], 0);
      for (let i = 0; i < line.length; i++) {
        const id = classOf[line.charCodeAt(i)] as number;
        let next = state.next[id];
        if (next === undefined) {
          if (budget <= 0) return undefined;
          next = step(state, id);
          state.next[id] = next;
        }
        if (next === null) return true;
        state = next;
      }
      state.atEnd ??= closure([0, ...state.places], state.before, 0) === 'match';
      return state.atEnd;
    },
  };
}

/** A plain text is found by the engine's own search; everything else by the automaton. */
export function createMatcher(
  pattern: string,
  { regex, ignoreCase }: { regex: boolean; ignoreCase: boolean },
): Outcome<Matcher> {
  if (pattern === '') return fail('invalid_input', 'the pattern is empty');
  if (!regex && !ignoreCase) return ok({ matches: (line) => line.includes(pattern) });
  const tree = regex ? parsePattern(pattern, ignoreCase) : ok(literalPattern(pattern, ignoreCase));
  if (!tree.ok) return tree;
  try {
    return ok(createAutomaton(compile(tree.output)));
  } catch (error) {
    if (!(error instanceof TooBig)) throw error;
    return fail('invalid_input', `pattern \`${pattern.slice(0, 100)}\` is too large; simplify it`);
  }
}
