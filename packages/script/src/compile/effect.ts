// Compiles `show`, `log`, `output` and `append`. Each is an operation. Its text is built once, after the
// guards have judged the operation, and added to the list of effects.
import { extname } from 'node:path';
import {
  addMarks,
  type BodyScope,
  type Descriptor,
  describe,
  type Effect,
  type MaybePromise,
  makeValue,
  mergeAll,
  mergeDescriptors,
  type Operation,
  type Value,
  type WritePreview,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { lineOf, locationOf } from '../problem.ts';
import { refuseLeave } from '../run/control-values.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  type RunState,
  resolvePath,
} from '../run/environment.ts';
import { wasPrinted } from '../run/live.ts';
import { lazyInput, operate, TIERS, unwrap } from '../run/operate.ts';
import type { Expression, NodeOf, Target } from '../syntax/ast.ts';
import { absent } from '../values/kinds.ts';
import { fileText, jsonLine, showText, textOf } from '../values/text.ts';
import { resolveOpen } from './text.ts';
import { compileOption } from './with-options.ts';

type ShownKind = 'reference' | 'call' | 'other';

/** Returns the kind of a shown value, because null is printed differently for a variable and for a call. */
function shownKindOf(node: Expression | undefined): ShownKind {
  if (node?.kind === 'with') return shownKindOf(node.value);
  if (node?.kind !== 'reference') return 'other';
  return node.steps.at(-1)?.kind === 'call' ? 'call' : 'reference';
}

/** Compiles an effect. Between stages it receives the value of the pipeline; a statement has its own value. */
export function compileEffect(
  c: Compiler,
  node: NodeOf<'effect'>,
): (env: Environment, passing?: Value) => Promise<Value> {
  const evaluate = node.value && compileShown(c, node.value);
  const target = compileTarget(c, node.target);
  const form = shownKindOf(node.value);
  return async (env, passing) => {
    if (env.isDefining) return absent();
    const where = await target(env);
    const input = evaluate
      ? lazyInput(env, 'value', evaluate, (value, inner) => resolveOpen(refuseLeave(value), inner))
      : // `output to "f"` writes everything that was printed so far.
        { name: 'value', value: passing ?? makeValue(env.run.document()) };
    const preview = where?.kind === 'file' ? { preview: previewOf(node, where, env) } : {};
    const place = where?.kind === 'file' ? where.path : where?.kind;
    const op: Operation = {
      type: node.effect,
      name: node.effect,
      ...(passing ? { subtype: 'effect' } : {}),
      opLabels: [],
      retryOwner: false,
      location: locationOf(env.unit, node.at),
      ...(place === undefined ? {} : { target: place }),
      ...(where?.kind === 'file' && { tier: TIERS.write }),
    };
    // A file name with marks was chosen by a value, so it is an input too.
    const chosen = where?.kind === 'file' && where.marks.taint.length > 0 ? where : undefined;
    const named = chosen ? [{ name: 'target', value: chosen.name }] : [];
    return await operate(
      where?.kind === 'file' ? refusingEarly(env, where) : env,
      op,
      [{ ...input, ...preview }, ...named],
      ([value, target], inner, scope) => {
        if (chosen && target && textOf(target) !== textOf(chosen.name))
          raise('permission_denied', 'a guard cannot change the name of the written file');
        return runEffect(node, value, where, form, inner, scope);
      },
    );
  };
}

/** A write that no approval could allow is refused before a person is asked. */
const refusingEarly = (env: Environment, { path }: NamedFile): Environment => ({
  ...env,
  act: { ...env.act, foresee: () => env.run.world.refusesWrite?.(path) },
});

/** Returns the preview of the write for the approval request. */
const previewOf =
  ({ effect, format }: NodeOf<'effect'>, { path }: NamedFile, { run, frame }: Environment) =>
  async (inputs: ReadonlyMap<string, Value>): Promise<WritePreview | undefined> => {
    const value = inputs.get('value');
    if (!value) return undefined;
    const text = writtenText(effect, path, addMarks(value, frame.influence), format);
    return await run.world.previewWrite?.(path, { text, append: effect === 'append' });
  };

type Where =
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly marks: Descriptor;
      readonly name: Value;
    }
  | Exclude<Target, { kind: 'file' }>;

function compileTarget(c: Compiler, target: Target | undefined): Eval<Where | undefined> {
  if (!target) return () => undefined;
  if (target.kind !== 'file') return () => target;
  const path = c.expression(target.path);
  return async (env) => {
    const named = await path(env);
    const place = resolvePath(env, textOf(named));
    return { kind: 'file', path: place, marks: named.meta.descriptor, name: named };
  };
}

function runEffect(
  node: NodeOf<'effect'>,
  content: Value,
  where: Where | undefined,
  form: ShownKind,
  env: Environment,
  scope: BodyScope,
): MaybePromise<Value> {
  const line = lineOf(env.unit, node.at);
  // The conditions around the effect decided that it happens, so it has their marks.
  const value = addMarks(content, env.frame.influence);
  const emit: Emit = (kind, text, target, later) => {
    const effect = { kind, value, text, line, ...(target === undefined ? {} : { target }) };
    if (later) pending.set(effect, later);
    scope.emit(effect);
    return makeValue(text);
  };
  if (node.effect === 'show' || node.effect === 'log') {
    const text = showText(value, form);
    if (text === undefined) return absent();
    const isShown = node.effect === 'show' && wasPrinted(env.printing, text);
    return isShown ? makeValue(text) : emit(node.effect, text);
  }
  if (!where)
    return raise('invalid_input', `\`${node.effect}\` needs a target`, {
      hint: `write \`${node.effect} @value to "file"\``,
    });
  if (where.kind === 'file') return writeTo(where, value, node, env, emit);
  const text = fileText(value, node.format);
  if (where.kind !== 'env') return emit(where.kind === 'stderr' ? 'log' : 'show', text);
  const marks = describe({ taint: [`src:env:${where.name}`] });
  const descriptor = mergeDescriptors(value.meta.descriptor, marks);
  env.run.environment.set(where.name, makeValue(text, { descriptor }));
  return emit('env', text, where.name);
}

/** Emits an effect. `later` is present if its file is not written yet. */
type Emit = (kind: string, text: string, target?: string, later?: WithheldFile) => Value;

/** Effects that a guard withholds and whose files are not written yet. */
const pending = new WeakMap<Effect, WithheldFile>();

interface WithheldFile {
  /** Marks of the values in the file name. */
  readonly marks: Descriptor;
  /** Hash of the content that the person agreed to overwrite. */
  readonly approved: string | undefined;
}

type NamedFile = Pick<Extract<Where, { kind: 'file' }>, 'path' | 'marks'>;

async function write(
  { path, marks }: NamedFile,
  text: string,
  append: boolean,
  value: Value,
  { run, frame }: Pick<Environment, 'run' | 'frame'>,
  approved: string | undefined,
): Promise<void> {
  const { descriptor } = value.meta;
  // The folder reveals that the file exists under this name, so the marks of the name are recorded.
  const named = mergeDescriptors(marks, frame.influence);
  const request = { path, text, append, descriptor, named, approved };
  unwrap(await run.world.writeFile(request, frame));
}

/** Writes a file. Under a guard on the result, the write happens when the guard releases the effect. */
async function writeTo(
  where: NamedFile,
  value: Value,
  { effect, format }: NodeOf<'effect'>,
  env: Environment,
  emit: Emit,
): Promise<Value> {
  const { path, marks } = where;
  const isAppend = effect === 'append';
  const text = writtenText(effect, path, value, format);
  const { emit: isWithheld, influence, approved } = env.frame;
  if (isWithheld)
    return emit(effect, text, path, { marks: mergeDescriptors(marks, influence), approved });
  await write(where, text, isAppend, value, env, approved);
  return emit(effect, text, path);
}

const writtenText = (
  effect: NodeOf<'effect'>['effect'],
  path: string,
  value: Value,
  format: NodeOf<'effect'>['format'],
): string => (effect === 'append' ? appendedText(path, value) : fileText(value, format));

function appendedText(path: string, value: Value): string {
  const kind = extname(path).toLowerCase();
  if (kind === '.json') {
    return raise('invalid_input', 'a line cannot be appended to a `.json` file', {
      hint: 'use `.jsonl`, or write the whole file with `output`',
    });
  }
  const text = kind === '.jsonl' ? jsonLine(value) : fileText(value, undefined);
  return text.endsWith('\n') ? text : `${text}\n`;
}

/** Writes the file of an effect that a guard has released. */
export function writeReleased(effect: Effect, run: RunState): void {
  const { target, text = '', kind, value } = effect;
  const file = pending.get(effect);
  if (target === undefined || !file) return;
  pending.delete(effect);
  const where = { path: target, marks: file.marks };
  const ground = { run, frame: run.ground };
  run.later(write(where, text, kind === 'append', value, ground, file.approved));
}

/** Compiles a shown value. `show foreach … with { separator, template }` joins the collected texts. */
function compileShown(c: Compiler, node: Expression): Eval {
  const evaluate = c.expression(node);
  if (node.kind !== 'foreach') return evaluate;
  const between = compileOption(c, node.options, 'separator');
  const shape = compileOption(c, node.options, 'template');
  return async (env) => {
    const list = await evaluate(env);
    const gap = await between?.(env);
    const form = await shape?.(env);
    if (!Array.isArray(list.data)) return list;
    const texts = list.data.map((item, index) => {
      const text = textOf(makeValue(item));
      if (!form) return text;
      // Placeholders are replaced once, because an inserted result is not a template.
      return textOf(form).replace(/\{\{(result|index)\}\}/g, (_all, word) =>
        word === 'result' ? text : String(index),
      );
    });
    const used = [list, gap, form].flatMap((value) => (value ? [value.meta.descriptor] : []));
    const joined = texts.join(gap ? textOf(gap) : '\n');
    return makeValue(joined, { descriptor: mergeAll(used) });
  };
}
