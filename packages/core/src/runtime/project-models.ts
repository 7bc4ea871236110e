// The models of a project and of its user: their list, a test of one, and the models of a server that the user adds.
import { statSync } from 'node:fs';
import {
  compact,
  fail,
  getOwn,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  textAt,
} from '../base/index.ts';
import type { CheckResult, ModelTest } from '../harness/index.ts';
import { modelPackages } from '../items/index.ts';
import { formatMoney, parseMoney, resolveModel } from '../llm/index.ts';
import { type AddedModels, type AddOptions, addedModels } from './added-models.ts';
import { callerOf } from './open-kernel.ts';
import type { RuntimeContext } from './open-project.ts';
import { readServerModels, type ServerQuestion } from './server-models.ts';
import { loadHarness, openModel } from './threads.ts';

interface ModelRow {
  readonly model: string;
  readonly provider: string;
  readonly protocol: string;
  /** Variable with the key. Absent: the provider needs none. */
  readonly key?: string;
  readonly key_set?: boolean;
  /** Row and prices per million tokens. Absent: the model has no price. */
  readonly price?: string;
  readonly input?: string;
  readonly output?: string;
  readonly free?: boolean;
  /** Days since the price file was written. Absent: the row is shipped. */
  readonly age_days?: number;
  readonly window?: number;
  /** Level of the file that has the model: `bundle`, `user` or `project`. */
  readonly level: string;
  readonly package?: string;
  readonly problem?: string;
}

interface AddRequest extends AddOptions {
  readonly url: string;
  readonly model?: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const VARIABLE = /^[A-Za-z_]\w*$/;
const DEFAULT_SPEND = '0.02';

type Ports = Awaited<ReturnType<typeof loadHarness>>['ports'];

/** Returns the days since the file with the price row was written. Files of the package have no age. */
function ageOf({ library }: Pick<RuntimeContext, 'library'>, row: string, now: number) {
  const id = /^pricing\.yaml:(.*?)(?: \(alias .*)?$/.exec(row)?.[1] ?? '';
  const { layers } = library.config('pricing');
  const layer = layers.findLast(({ value }) => getOwn(objectAt(value, 'models'), id) !== undefined);
  if (!layer || layer.source === 'bundle') return undefined;
  const stats = statSync(layer.file, { throwIfNoEntry: false });
  return stats && Math.max(0, Math.floor((now - stats.mtimeMs) / DAY_MS));
}

function priceOf(rooms: RuntimeContext, ports: Ports, model: string): Partial<ModelRow> {
  const found = ports.prices().find(model);
  if (!found.ok) return {};
  const { row, input, output, free, context } = found.output;
  return compact<Partial<ModelRow>>({
    price: row,
    input: formatMoney(input),
    output: formatMoney(output),
    free,
    window: context,
    age_days: ageOf(rooms, row, rooms.open.clock.now()),
  });
}

function modelRow(
  rooms: RuntimeContext,
  ports: Ports,
  models: JsonObject,
  model: string,
): ModelRow {
  const { layers } = rooms.library.config('models');
  const level =
    layers.findLast(({ value }) => getOwn(objectAt(value, 'models'), model))?.source ?? 'bundle';
  const resolved = resolveModel(models, { model_id: model });
  const name = textAt(getOwn(objectAt(models, 'models'), model), 'provider');
  const provider = resolved.ok ? resolved.output.provider : name;
  const settings = getOwn(objectAt(models, 'providers'), provider);
  const key = textAt(settings, 'key') || undefined;
  return compact<ModelRow>({
    model,
    provider,
    protocol: textAt(settings, 'protocol'),
    key,
    key_set: key === undefined ? undefined : Boolean(ports.env[key]),
    ...priceOf(rooms, ports, model),
    level,
    package: textAt(settings, 'package') || undefined,
    problem: resolved.ok ? undefined : resolved.error.detail.message,
  });
}

/** Returns the value of the variable with the key. Without a name no key is sent. */
function keyIn(env: Ports['env'], name: string | undefined): Outcome<string | undefined> {
  if (name === undefined) return ok(undefined);
  if (!VARIABLE.test(name)) {
    return fail('usage', 'the key must be the name of an environment variable, not its value');
  }
  return env[name] ? ok(env[name]) : fail('usage', `variable \`${name}\` is not set`);
}

export function projectModels(rooms: RuntimeContext) {
  const { clock, home } = rooms.open;
  return {
    async list(): Promise<ModelRow[]> {
      const { ports } = await loadHarness(rooms);
      const models = ports.models();
      return Object.keys(objectAt(models, 'models')).map((id) =>
        modelRow(rooms, ports, models, id),
      );
    },
    /** Asks a server and returns the change of the user's files. Writes nothing. */
    async add(
      { url, model, ...options }: AddRequest,
      onProgress: (text: string) => void,
      signal: AbortSignal,
    ): Promise<Outcome<AddedModels>> {
      const { ports } = await loadHarness(rooms);
      const key = keyIn(ports.env, options.key);
      if (!key.ok) return key;
      const question = compact<ServerQuestion>({ url, model, key: key.output });
      const server = await readServerModels(question, { clock, onProgress }, signal);
      return server.ok
        ? addedModels(server.output, options, { library: rooms.library, home })
        : server;
    },
    /** Installs one exact version of a package with models into the user's folder. */
    async install(spec: string, signal: AbortSignal) {
      const { installModelPackage } = await modelPackages();
      return await installModelPackage(spec, { home, env: rooms.open.env }, signal);
    },
    /** Tests a model or a tier. `spend`: amount that all requests together may cost. */
    async test(
      choice: string,
      { spend = DEFAULT_SPEND, onCheck }: { spend?: string; onCheck(result: CheckResult): void },
      signal: AbortSignal,
    ): Promise<Outcome<ModelTest>> {
      const amount = parseMoney(spend);
      if (!amount.ok)
        return fail('usage', `\`spend\` is ${spend}; it must be an amount such as 0.02`);
      const { ports, modelFor, testModel } = await loadHarness(rooms);
      const resolved = modelFor(ports, choice);
      if (!resolved.ok) return resolved;
      const model = resolved.output;
      const price = ports.prices().find(model.model);
      if (!price.ok) return price;
      const caller = callerOf(rooms.open, { surface: 'harness', name: 'test of a model' });
      const line = await (await openModel(rooms))(model, caller);
      if (!line.ok) return line;
      const about = { model: model.model, line: line.output, price: price.output, clock };
      return await testModel({ ...about, spend: amount.output, onCheck }, signal);
    },
  };
}
