// Ids of threads that nobody named: `deploy_staging_20300131_235959_x7k2`, in UTC. The suffix is short
// enough to type, so of many threads begun in one second two can be alike.
import {
  type Clock,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RandomBytes,
} from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { Opening } from '../../journal/index.ts';
import { type Caller, readyForm, type ToolSignature } from '../../kernel/index.ts';
import { FROM_USER, packGiven, packMarks } from './conversation.ts';
import { permittedTools, toolsTold } from './permitted-tools.ts';
import { injection, referencesTold } from './prompt.ts';
import type { HarnessPorts, Prepared, Thread } from './thread.ts';

type IdPorts = { clock: Pick<Clock, 'now'>; random: RandomBytes };

const SUFFIX = 4;
/** With a thousand threads in one second, ten taken ids in a row do not happen. */
const MAX_TRIES = 10;

export function makeThreadId(name: string, { clock, random }: IdPorts): string {
  const stamp = new Date(clock.now())
    .toISOString()
    .replace(/[-:]/g, '')
    .replace('T', '_')
    .slice(0, 15);
  const suffix = [...random(SUFFIX)].map((byte) => (byte % 36).toString(36)).join('');
  return `${name.slice(0, 59)}_${stamp}_${suffix}`;
}

/** Returns an id for an approval request. The caller makes it, so that an event of the same commit can have it. */
export const makeApprovalId = (random: RandomBytes): string =>
  `ap_${Buffer.from(random(9)).toString('base64url').replaceAll('-', '_')}`;

/** Starts under a new id, and under another when that one is taken; `start` leaves nothing of a refusal. */
export async function withFreshId<T>(
  name: string,
  ports: IdPorts,
  start: (id: string) => Outcome<T> | Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  for (let tries = 1; ; tries++) {
    const started = await start(makeThreadId(name, ports));
    const isTaken = !started.ok && started.error.code === 'thread_exists';
    if (!isTaken || tries === MAX_TRIES) return started;
  }
}

const NO_INPUTS: ReadonlyMap<string, Value> = new Map();
const asObject = (value: Json): JsonObject => (isObject(value) ? value : {});

/** Of a thread that is this directive's own: how to spawn it is no advice here. */
function ownDirective(ready: Json, tools: JsonObject): Json {
  if (!isObject(ready)) return ready;
  const { can_spawn_thread: _, spawn_instructions: __, missing_for_thread: ___, ...rest } = ready;
  const message = 'this thread runs the directive: follow its process';
  return { ...rest, ...tools, message };
}

type OpeningPorts = Pick<HarnessPorts, 'kernel' | 'frame' | 'tierExemption'>;

const asHarness = ({ frame, tierExemption }: OpeningPorts): Caller => ({
  surface: 'harness',
  name: 'harness',
  tierExemption,
  frame: frame(),
});

/** May a stranger have written what stands in it? Who cannot be asked says no more. */
async function isForeign(ports: OpeningPorts, item_type: 'tool' | 'knowledge', id: string) {
  const request = { item_type, item_id: id, part: 'body' };
  const loaded = await ports.kernel.load(request, asHarness(ports));
  return !loaded.ok || carries(loaded.output.meta.descriptor, 'untrusted');
}

interface ToldAtOnce {
  agents: string;
  universal: string;
  tools: readonly ToolSignature[];
}

/** What a model is told without a name in between, as far as no stranger has written it. */
export async function withoutStrangers(ports: OpeningPorts, told: ToldAtOnce): Promise<ToldAtOnce> {
  const [agents, universal] = await Promise.all([
    isForeign(ports, 'knowledge', 'AGENTS'),
    isForeign(ports, 'knowledge', 'system/universal_prompt'),
  ]);
  return {
    agents: agents ? '' : told.agents,
    universal: universal ? '' : told.universal,
    tools: await ownTools(ports, told.tools),
  };
}

/** A signature is a person's word for a tool's. */
async function ownTools(
  ports: OpeningPorts,
  tools: readonly ToolSignature[],
): Promise<readonly ToolSignature[]> {
  const own: ToolSignature[] = [];
  for (const tool of tools) {
    if (tool.isSigned || !(await isForeign(ports, 'tool', tool.id))) own.push(tool);
  }
  return own;
}

/** Of single inputs, by their name, and of the message; what is not named carries nothing. */
export interface GivenMarks {
  readonly inputs: ReadonlyMap<string, Descriptor>;
  readonly message?: Descriptor;
}

/** Inputs that strangers had a hand in. */
function foreignInputs(
  inputs: JsonObject,
  marks: Descriptor,
  given: GivenMarks | undefined,
): ReadonlyMap<string, Value> {
  const found = new Map<string, Value>();
  for (const [name, data] of Object.entries(inputs)) {
    const descriptor = given ? (given.inputs.get(name) ?? EMPTY) : marks;
    if (carries(descriptor, 'untrusted')) found.set(name, makeValue(data, { descriptor }));
  }
  return found;
}

/** Where and how a thread is opened, besides its directive. */
interface OpenedBy {
  /** What its inputs and its first message carry; a person's words when absent. */
  readonly marks?: Descriptor | undefined;
  readonly given?: GivenMarks | undefined;
  readonly parent?: Thread | undefined;
  /** Does its model know what strangers wrote by reference? */
  readonly isReference?: boolean;
}

/** The harness itself executes the directive and shows the result. */
export async function openingEvents(
  ports: HarnessPorts,
  prepared: Pick<Prepared, 'item' | 'directive' | 'inputs' | 'plan'>,
  message: string,
  { marks: carried = FROM_USER, given, parent, isReference = false }: OpenedBy = {},
): Promise<Outcome<Opening[]>> {
  const { directive, inputs, plan } = prepared;
  const ready = await ports.kernel.execute(
    { item_type: 'directive', item_id: prepared.item.id, parameters: inputs },
    asHarness(ports),
  );
  if (!ready.ok) return ready;
  const { descriptor } = ready.output.meta;
  const marks = packMarks(mergeDescriptors(descriptor, carried));
  const isNative = directive.model?.tools === 'native';
  const all = directive.process.script ? [] : permittedTools(ports, directive, parent);
  const tools = isReference ? await ownTools(ports, all) : all;
  const kept = isReference ? foreignInputs(inputs, carried, given) : NO_INPUTS;
  const shown = Object.fromEntries(Object.entries(inputs).filter(([name]) => !kept.has(name)));
  const { request, call } = injection(directive.name, shown);
  const told = {
    ...toolsTold(tools, isNative, plan !== undefined),
    ...(isReference && referencesTold(tools)),
  };
  // Whose own words are a stranger's is kept back as a whole.
  const isKept = kept.size > 0 && !carries(descriptor, 'untrusted');
  const made = ownDirective(
    isKept
      ? { ...asObject(ready.output.data), directive: readyForm(directive, shown) }
      : ready.output.data,
    told,
  );
  const content = ports.replay?.shown(made) ?? made;
  const events: Opening[] = [
    { type: 'user_message', data: { text: request, marks: packMarks(FROM_USER) } },
    { type: 'assistant_message', data: { content: [call], injected: true } },
    {
      type: 'tool_result',
      data: {
        call_id: call.id,
        content,
        is_error: false,
        marks,
        ...(isKept && { given: packGiven(kept) }),
      },
    },
  ];
  if (message !== '') {
    const said = packMarks((isReference && given?.message) || carried);
    events.push({ type: 'user_message', data: { text: message, marks: said } });
  }
  return ok(events);
}
